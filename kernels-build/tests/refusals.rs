//! What a GPU cannot run is refused when a package is built, with the kernel, the path to it and what to do.

mod support;

use support::Project;

/// Builds a bin whose one kernel has the given body, and gives what cargo printed.
fn refused(project: &Project, items: &str, body: &str) -> String {
    project.source(
        "src/main.rs",
        &format!("{items}\nkernel!(offender, |x| {body});\nfn main() {{ offender::launch() }}\n"),
    );
    project.cargo(&["build"]).fails().stderr()
}

fn project(name: &str) -> Project {
    let project = Project::new(name, "refusals");
    project.package("", name, "[workspace]\n");
    project
}

fn assert_names(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    for never in ["warpsmith has a bug", "LLVM gave up", "panicked at", "signal:"] {
        assert!(!message.contains(never), "`{never}` in: {message}");
    }
}

#[test]
fn a_file_is_opened_with_the_path_from_the_kernel_to_the_call() {
    let project = project("opens-a-file");
    let items = "fn inner(x: u32) -> u32 { std::fs::File::open(\"numbers.txt\").is_ok() as u32 + x }\n\
                 #[inline(never)] fn outer(x: u32) -> u32 { inner(x) * 2 }";
    let message = refused(&project, items, "super::outer(x)");
    let path = ["opens_a_file::offender", "opens_a_file::outer", "opens_a_file::inner", "std::fs::File"];
    assert_names(&message, &path);
    let places: Vec<usize> = path.iter().map(|name| message.rfind(name).expect("it was found above")).collect();
    assert!(places.is_sorted(), "the path is out of order: {message}");
    assert_names(&message, &["src/main.rs:", "stay on the host"]);
}

#[test]
fn a_counter_in_a_static() {
    let project = project("counter");
    let items = "use std::sync::atomic::*;\nstatic COUNTER: AtomicU32 = AtomicU32::new(0);";
    let message = refused(&project, items, "super::COUNTER.fetch_add(x, super::Ordering::Relaxed)");
    assert_names(
        &message,
        &["counter::offender", "counter::COUNTER", "can change at run time", "use a buffer", "`constant!`"],
    );
    let message = refused(&project, "static mut COUNTER: u32 = 0;", "unsafe { super::COUNTER += x; x }");
    assert_names(&message, &["counter::offender", "counter::COUNTER", "can change at run time"]);
}

#[test]
fn a_thread_local() {
    let project = project("thread-local");
    let items = "use std::cell::Cell;\nthread_local!(static SEEN: Cell<u32> = const { Cell::new(0) });";
    let message = refused(&project, items, "super::SEEN.replace(x)");
    assert_names(&message, &["thread_local::offender", "thread-local variable", "pass the value as an argument"]);
}

#[test]
fn a_panic_that_is_caught() {
    let project = project("catches");
    let message = refused(&project, "", "std::panic::catch_unwind(|| x / (x - 7)).unwrap_or(0)");
    assert_names(&message, &["catches::offender", "catch_unwind", "`Result`"]);
}

#[test]
fn printing_threads_and_assembly() {
    let project = project("host-things");
    let message = refused(&project, "", "{ println!(\"{x}\"); x }");
    assert_names(&message, &["host_things::offender", "print with `gpu_println!`", "stay on the host"]);
    let message = refused(&project, "", "std::thread::spawn(move || x).join().unwrap()");
    assert_names(&message, &["host_things::offender", "threads"]);
    if cfg!(target_arch = "x86_64") {
        let message =
            refused(&project, "", "{ let y: u32; unsafe { std::arch::asm!(\"bswap {0:e}\", inout(reg) x => y) }; y }");
        assert_names(&message, &["host_things::offender", "inline assembly", "bswap"]);
    }
}

#[test]
fn more_parameters_than_a_gpu_takes() {
    let project = project("large");
    project.file(
        "src/main.rs",
        "use warpsmith_device::abi::*;\n\
         type Large = [u64; 4096];\n\
         const PARAMS: &[ParamDesc] = &[<Value<Large> as KernelParam>::DESC, <*mut u64 as KernelParam>::DESC];\n\
         static DESC: KernelDesc = KernelDesc::new(\"large\", module_path!(), file!(), 1, 1, KernelOptions::NONE, PARAMS);\n\
         unsafe extern \"C\" fn entry(table: ByVal<Large>, out: *mut u64) { unsafe { *out = table.read()[7] } }\n\
         #[inline(never)] fn launch() { if IS_DEVICE_BUILD { register_entry(entry as *const (), &DESC, \"plain\") } }\n\
         fn main() { launch() }\n",
    );
    let message = project.cargo(&["build"]).fails().stderr();
    assert_names(&message, &["large::large", "bytes of parameters", "32764", "buffer"]);
}

#[test]
fn more_shared_memory_than_a_gpu_takes() {
    let project = project("much-shared");
    let body =
        "{ let p = warpsmith_device::shared!([u32; 13000]).cast::<u32>(); unsafe { *p = x; *p.add(12999) = x; *p } }";
    let message = refused(&project, "", body);
    assert_names(&message, &["much_shared::offender", "52000 bytes of shared memory", "49152", "dynamic_shared"]);
}

#[test]
fn more_constants_than_a_gpu_takes() {
    let project = project("large-constants");
    let items = "warpsmith_device::constant! {\n\
                 static A: [u32; 10_000] = [1; 10_000];\n\
                 static B: [u8; 30_001] = [2; 30_001];\n\
                 }";
    // Each has room alone.
    let message = refused(&project, items, "super::A.at(x as usize) + u32::from(super::B.at(x as usize))");
    assert_names(&message, &["large_constants::offender", "70001 bytes of constants", "65536", "buffer"]);
    let message = refused(&project, "warpsmith_device::constant!(static A: [u32; 20_000] = [1; 20_000];);", "x");
    assert_names(&message, &["constants are limited to 65536 bytes"]);
}

#[test]
fn two_constants_of_one_name() {
    let project = project("twin-constants");
    let items = "macro_rules! twins { () => {\n\
                 pub fn first() -> u32 { warpsmith_device::constant!(static TWIN: u32 = 1;); TWIN.get() }\n\
                 pub fn second() -> u32 { warpsmith_device::constant!(static TWIN: u32 = 2;); TWIN.get() }\n\
                 } }\n\
                 twins!();";
    let message = refused(&project, items, "x + super::first() + super::second()");
    assert_names(&message, &["two constants", "twin_constants::TWIN", "src/main.rs:", "places of their own"]);
}

#[test]
fn two_types_of_one_name() {
    let project = project("one-name");
    // Two local types print alike, and so would the two instances of one kernel that are generic over them.
    project.file(
        "src/main.rs",
        "use warpsmith_device::abi::*;\n\
         trait Step: 'static { fn step(x: u32) -> u32; }\n\
         struct Instance<S>(S);\n\
         impl<S: Step> Instance<S> {\n\
             const PARAMS: &'static [ParamDesc] = &[<*mut u32 as KernelParam>::DESC];\n\
             const DESC: &'static KernelDesc = &KernelDesc::new(\"twice\", module_path!(), file!(), 1, 1, KernelOptions::NONE, Self::PARAMS);\n\
             unsafe extern \"C\" fn entry(out: *mut u32) { unsafe { *out = S::step(*out) } }\n\
         }\n\
         #[inline(never)] fn launch<S: Step>() {\n\
             if IS_DEVICE_BUILD { register_entry(Instance::<S>::entry as *const (), Instance::<S>::DESC, std::any::type_name::<Instance<S>>()) }\n\
         }\n\
         fn main() {\n\
             { struct Local; impl Step for Local { fn step(x: u32) -> u32 { x + 1 } } launch::<Local>(); }\n\
             { struct Local; impl Step for Local { fn step(x: u32) -> u32 { x * 3 } } launch::<Local>(); }\n\
         }\n",
    );
    let message = project.cargo(&["build"]).fails().stderr();
    assert_names(&message, &["two kernels are both named", "one_name::twice", "print alike"]);
}

#[test]
fn code_for_other_processors_that_folds_away_is_no_offence() {
    let project = project("folds-away");
    let body = "{ if cfg!(target_arch = \"x86_64\") && std::is_x86_feature_detected!(\"avx2\") { std::process::exit(3) }\n\
                 std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst); x * 5 }";
    project.source("src/main.rs", &format!("kernel!(fine, |x| {body});\nfn main() {{ fine::launch() }}\n"));
    project.cargo(&["build"]).ok();
}

/// Inline PTX as `warpsmith::ptx!` writes it, with its place.
const INLINE: &str = r#"
macro_rules! inline {
    ($text:literal $($operands:tt)*) => {
        #[allow(asm_sub_register)]
        unsafe { let () = std::arch::asm!(concat!("/*ptx@", file!(), ":", line!(), ":", column!(), "@@ ", $text, " */") $($operands)*); }
    };
}
"#;

#[test]
fn operands_of_inline_ptx_with_another_width_than_their_instruction() {
    let project = project("widths");
    // Both mistakes are named at once, each at its macro.
    let body = "{ let (a, b): (u32, f64);\n inline!(\"add.u32 {0}, {1}, 1;\", out(reg) a, in(reg) u64::from(x));\n \
                inline!(\"{{{{ .reg .f64 %t; mul.rn.f64 %t, {1}, {1}; add.rn.f64 {0}, %t, %t; }}}}\", out(reg) b, in(reg) x);\n a + b as u32 }";
    let message = refused(&project, INLINE, body);
    assert_names(
        &message,
        &["`ptx!` at src/main.rs:", "`add.u32` takes operands of 32 bits, and its operand 2 has 64"],
    );
    assert_names(&message, &["`mul.rn.f64` takes operands of 64 bits, and its operand 2 has 32"]);
}

/// A stand-in for `ptxas`: it accepts nothing, and speaks of the line that holds a word.
#[cfg(unix)]
const ASSEMBLER: &str = "#!/bin/sh\nfor last; do :; done\nline=$(grep -n add.sat.u32 \"$last\" | head -n 1 | cut -d : -f 1)\n\
                         echo \"ptxas $last, line $line; error   : Illegal modifier '.sat' for instruction 'add'\" >&2\nexit 255\n";

#[cfg(unix)]
#[test]
fn what_the_assembler_says_of_inline_ptx_is_reported_at_the_macro() {
    use std::os::unix::fs::PermissionsExt;
    let project = project("assembles");
    let body = "{ let a: u32; inline!(\"add.sat.u32 {0}, {1}, 1;\", out(reg) a, in(reg) x); a }";
    project.source(
        "src/main.rs",
        &format!("{INLINE}\nkernel!(offender, |x| {body});\nfn main() {{ offender::launch() }}\n"),
    );
    project.file("ptxas", ASSEMBLER);
    let assembler = project.path("ptxas");
    std::fs::set_permissions(&assembler, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let assembler = assembler.to_string_lossy().into_owned();
    // Without an assembler nobody reads the text.
    project.cargo_in("", &["build"], &[("WARPSMITH_PTXAS", "none")]).ok();
    let message = project.cargo_in("", &["build"], &[("WARPSMITH_PTXAS", &assembler)]).fails().stderr();
    assert_names(
        &message,
        &["`ptx!` at src/main.rs:", "ptxas says for sm_80: Illegal modifier '.sat' for instruction 'add'"],
    );
}

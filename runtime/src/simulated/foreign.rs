//! Modules from elsewhere, against the simulated driver.

use super::*;
use crate::foreign::{CudaSource, ForeignModule, ImageKind, JitOptions, Linker, Nvrtc};
use crate::{ComputeCapability, ForeignError};

const PTX: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .global .align 4 .u32 variable = 1;\n\
    .visible .entry add_foreign(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }\n\
    .visible .entry scale_foreign(.param .u64 x, .param .u32 n) { ret; }\n";

crate::foreign_kernels! {
    /// What the simulated driver runs.
    unsafe struct Vector from (PTX) {
        /// What `scale` multiplies by.
        static variable: u32;
        /// Adds.
        fn add(a: &[f32], b: &[f32], c: &mut [f32], n: u32) as "add_foreign"
            requires { n as usize <= a.len().min(b.len()).min(c.len()) };
        /// Multiplies.
        fn scale(x: &mut [f32], n: u32) as "scale_foreign"
            requires |config| { n as usize <= x.len() && u64::from(n) <= config.block_dim().count() * config.grid_dim().count() };
    }
}

crate::foreign_kernels! {
    unsafe struct TooFew { fn add(a: &[f32], c: &mut [f32]) as "add_foreign"; }
}
crate::foreign_kernels! {
    unsafe struct TooWide { fn add(a: &[f32], b: &[f32], c: &mut [f32], n: u64) as "add_foreign"; }
}
crate::foreign_kernels! {
    unsafe struct Absent { fn missing(); }
}
crate::foreign_kernels! {
    unsafe struct Wide from (PTX) { static variable: [u32; 2]; }
}

fn vector(device: &Device) -> Vector {
    Vector::load(device).unwrap()
}

simulated_test!(a_kernel_from_elsewhere_runs_in_order_with_the_others, "", {
    let device = device();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let vector = vector(&device);
    let numbers: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let (a, b) = (first.to_device(&numbers).unwrap(), second.to_device(&numbers).unwrap());
    let mut c = first.zeroed::<f32>(1000).unwrap();
    vector.add(&first, LaunchConfig::for_len(1000), &a, &b, &mut c, 1000).unwrap();
    // Another stream: the write of the variable comes after the launch, the launch after the write.
    vector.variable().write(&second, &3).unwrap();
    vector.scale(&first, LaunchConfig::for_len(1000), &mut c, 1000).unwrap();
    vector.variable().write(&second, &100).unwrap();
    let expected: Vec<f32> = numbers.iter().map(|number| number * 6.0).collect();
    assert_eq!(second.to_host(&c).unwrap(), expected);
    assert_eq!(vector.variable().read(&first).unwrap(), 100);
    // A part, by slices.
    vector.add(&second, LaunchConfig::for_len(10), a.slice(10..20), &b, c.slice_mut(5..15), 10).unwrap();
    assert_eq!(second.to_host(c.slice(5..7)).unwrap(), [10.0, 12.0]);
});

simulated_test!(nothing_of_a_refused_launch_is_done, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let vector = vector(&device);
    let mut x = stream.to_device(&[1.0f32; 8]).unwrap();
    let (error, text) = message(vector.scale(&stream, LaunchConfig::for_len(9), &mut x, 9));
    assert!(matches!(error, Error::Foreign(ForeignError::Condition { .. })), "{text}");
    assert!(
        text.starts_with("launch of `scale_foreign` with arguments that do not meet its condition `n as usize <= x"),
        "{text}"
    );
    let (_, text) = message(vector.scale(&stream, LaunchConfig::new(1, 4), &mut x, 8));
    assert!(text.contains("its condition"), "{text}");
    let (_, text) = message(vector.scale(&stream, LaunchConfig::new(1, 1024), &mut x, 8));
    assert!(text.contains("`scale_foreign` asks for 1024 threads per block; this kernel allows 512"), "{text}");
    vector.scale(&stream, LaunchConfig::for_len(0), &mut x, 0).unwrap();
    assert_eq!(stream.to_host(&x).unwrap(), [1.0; 8]);
});

simulated_test!(a_stream_or_a_buffer_of_another_device_is_refused, "gpus=2", {
    let device = device();
    let other = Device::gpu(1).unwrap().stream().unwrap();
    let vector = vector(&device);
    let mut x = other.to_device(&[1.0f32; 8]).unwrap();
    let config = LaunchConfig::for_len(8);
    let (error, text) = message(vector.scale(&other, config, &mut x, 8));
    assert!(matches!(error, Error::Foreign(ForeignError::OtherDevice { .. })), "{text}");
    let (error, text) = message(vector.scale(&device.stream().unwrap(), config, &mut x, 8));
    assert!(matches!(error, Error::Launch(LaunchError::OtherDevice { argument: 1, .. })), "{text}");
    let (_, text) = message(vector.variable().write(&other, &1));
    assert!(text.contains("the stream runs on GPU 1"), "{text}");
});

fn declarations_are_compared(device: &Device) {
    let module = ForeignModule::load(device, PTX).unwrap();
    assert_eq!(module.kernel_names().collect::<Vec<_>>(), ["add_foreign", "scale_foreign"]);
    assert_eq!(module.kernel("add_foreign").unwrap().parameter_sizes(), Some(&[8, 8, 8, 4][..]));
    assert_eq!(calls(c"question for a parameter that is not there"), 0, "the PTX says how many there are");
    // SAFETY: nothing is launched through them.
    let (few, wide) = unsafe { (TooFew::new(&module), TooWide::new(&module)) };
    let (error, text) = message(few);
    assert!(matches!(error, Error::Foreign(ForeignError::ParameterCount { found: 4, declared: 2, .. })), "{text}");
    assert!(text.contains("takes 4 parameters (of 8, 8, 8, 4 bytes); it is declared with 2"), "{text}");
    let (error, text) = message(wide);
    assert!(
        matches!(error, Error::Foreign(ForeignError::ParameterSize { index: 3, found: 4, declared: 8, .. })),
        "{text}"
    );
    assert!(text.contains("parameter 3 (`n`)") && text.contains("`u64`"), "{text}");
}

simulated_test!(a_declaration_is_compared_with_what_the_driver_tells, "", {
    declarations_are_compared(&device());
});

simulated_test!(a_declaration_is_compared_with_the_ptx, "tells=0", {
    declarations_are_compared(&device());
});

simulated_test!(names_and_sizes_that_differ_are_told, "", {
    let device = device();
    let module = ForeignModule::load(&device, PTX).unwrap();
    // SAFETY: nothing is launched through it.
    let (error, text) = message(unsafe { Absent::new(&module) });
    assert!(matches!(error, Error::Foreign(ForeignError::NoSuchKernel { .. })), "{text}");
    assert!(text.contains("no kernel `missing`; it has `add_foreign`, `scale_foreign`"), "{text}");
    let (error, text) = message(Wide::load(&device));
    assert!(matches!(error, Error::Foreign(ForeignError::VariableSize { found: 4, expected: 8, .. })), "{text}");
    // SAFETY: nothing is written.
    let (error, text) = message(unsafe { module.global::<u32>("other") });
    assert!(matches!(error, Error::Foreign(ForeignError::NoSuchVariable { .. })), "{text}");
    let (error, text) = message(module.kernel("a\0b"));
    assert!(matches!(error, Error::Foreign(ForeignError::Name { .. })), "{text}");
});

simulated_test!(the_drivers_log_and_options_travel, "", {
    let device = device();
    let (error, text) = message(ForeignModule::load(&device, ".version 7.0\nbroken"));
    assert!(matches!(error, Error::Foreign(ForeignError::Rejected { .. })), "{text}");
    assert!(text.contains("line 7; error: simulated") && text.contains("CUDA_ERROR_INVALID_PTX (218)"), "{text}");
    let options = JitOptions::new().max_registers(32).line_info(true).optimization_level(9);
    ForeignModule::load_with(&device, PTX, &options).unwrap();
    let target = ComputeCapability { major: 8, minor: 6 };
    let options = JitOptions::new().threads_per_block(96).debug_info(true).target(target);
    ForeignModule::load_with(&device, PTX, &options).unwrap();
    for option in [
        c"load option 0 = 32",
        c"load option 1 = 96",
        c"load option 7 = 4",
        c"load option 9 = 86",
        c"load option 11 = 1",
        c"load option 13 = 1",
    ] {
        assert_eq!(calls(option), 1, "{option:?}");
    }
});

simulated_test!(modules_are_joined_in_order, "", {
    let device = device();
    let mut linker = Linker::new(&device, &JitOptions::new().max_registers(40)).unwrap();
    linker.add("first", PTX).unwrap();
    let (error, text) = message(linker.add("second", ".version 7.0\nbroken"));
    assert!(matches!(error, Error::Foreign(ForeignError::Link { .. })), "{text}");
    assert!(text.starts_with("second could not be linked:\nerror   : simulated, in the linker"), "{text}");
    // What was added before stays.
    linker.add("third", ".version 7.0\n").unwrap();
    let module = linker.load().unwrap();
    assert_eq!((calls(c"link 1 first"), calls(c"link 1 third"), calls(c"link option 0 = 40")), (1, 1, 1));
    assert_eq!((calls(c"destroy link"), calls(c"load")), (1, 1));
    // SAFETY: the module is the declared one.
    unsafe { Vector::new(&module) }.unwrap();
    let (error, text) = message(Linker::new(&device, &JitOptions::new()).unwrap().link());
    assert!(matches!(error, Error::Foreign(ForeignError::NothingToLink)), "{text}");
});

simulated_test!(modules_come_from_files_too, "", {
    let device = device();
    let path = std::env::temp_dir().join(format!("warpsmith-foreign-{}.ptx", std::process::id()));
    std::fs::write(&path, PTX).unwrap();
    let module = ForeignModule::from_file(&device, &path).unwrap();
    assert_eq!(module.kernel_names().collect::<Vec<_>>(), ["add_foreign", "scale_foreign"]);
    ForeignModule::from_file_with(&device, &path, &JitOptions::new().max_registers(24)).unwrap();
    assert_eq!((calls(c"load"), calls(c"load option 0 = 24")), (2, 1));
    let mut linker = Linker::new(&device, &JitOptions::new()).unwrap();
    linker.add_file(&path).unwrap();
    assert!(!linker.link().unwrap().is_empty());
    let added = std::ffi::CString::new(format!("link 1 {}", path.display())).unwrap();
    assert_eq!((calls(&added), calls(c"destroy link")), (1, 1));
    std::fs::remove_file(&path).unwrap();
    let (error, text) = message(ForeignModule::from_file(&device, &path));
    assert!(matches!(error, Error::Foreign(ForeignError::Read { .. })), "{text}");
});

simulated_test!(cuda_source_is_compiled_for_the_gpu_and_loaded, "", {
    let nvrtc = match Nvrtc::open() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            assert_ne!(std::env::var("WARPSMITH_REQUIRE_NVRTC").as_deref(), Ok("1"), "{error}");
            eprintln!("SKIPPED what needs NVRTC: {error}");
            return;
        }
    };
    let device = device();
    let source = "template <typename T> __global__ void scale(T* x) { x[0] *= T(2); }";
    let module = CudaSource::new(source).name_expression("scale<float>").load(&nvrtc, &device).unwrap();
    assert_eq!((calls(c"load"), module.kind()), (1, ImageKind::Cubin));
    assert_eq!(module.kernel_names().collect::<Vec<_>>(), ["_Z5scaleIfEvPT_"]);
    assert_eq!(module.kernel("scale<float>").unwrap().name(), "scale<float>");
});

simulated_test!(a_module_is_unloaded_after_the_last_that_needs_it, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let vector = vector(&device);
    let variable = vector.variable().clone();
    let mut x = stream.to_device(&[2.0f32; 4]).unwrap();
    hold(true);
    vector.scale(&stream, LaunchConfig::for_len(4), &mut x, 4).unwrap();
    hold(false);
    drop(vector);
    assert_eq!(calls(c"unload"), 0);
    std::thread::spawn(move || drop(variable)).join().unwrap();
    assert_eq!(calls(c"unload"), 1);
    assert_eq!(stream.to_host(&x).unwrap(), [2.0; 4]);
});

#[test]
fn on_the_cpu_executor_the_error_says_what_to_do() {
    let device = Device::cpu();
    let (error, text) = message(Vector::load(&device));
    assert!(matches!(error, Error::Foreign(ForeignError::NeedsGpu { .. })), "{text}");
    assert!(text.contains("#[kernel]"), "{text}");
    let (_, text) = message(Linker::new(&device, &JitOptions::new()));
    assert!(text.starts_with("linking code from elsewhere needs a GPU"), "{text}");
}

#[test]
fn modules_kernels_and_variables_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Vector>();
    crosses::<ForeignModule>();
    crosses::<crate::foreign::ForeignKernel>();
    crosses::<crate::foreign::ForeignGlobal<f32>>();
    fn moves<T: Send + 'static>() {}
    moves::<Linker>();
}

//! Programs that are compiled in other ways: where panics abort, and with what a debugger needs.
//!
//! Each test compiles these crates anew, which takes a minute or more, so they are run by name:
//! `cargo test -p warpsmith --test packages -- --ignored`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A package with one program, compiled under this profile; gives the program's path.
fn build(name: &str, profile: &str, main: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let runtime = env!("CARGO_MANIFEST_DIR");
    fs::create_dir_all(package.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\nwarpsmith = {{ path = \
         {runtime:?} }}\ntracing = \"0.1\"\n[profile.dev]\n{profile}\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    fs::write(package.join("src/main.rs"), main).unwrap();
    fs::copy(Path::new(runtime).join("../Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let target = package.join("target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&package).args(["build", "--quiet"]).env("CARGO_TARGET_DIR", &target);
    cargo.env_remove("CARGO_PROFILE_DEV_DEBUG");
    let built = cargo.output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    target.join("debug").join(name)
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The kernel calls what reads out of bounds, at line 13, in line 8.
const MAIN: &str = r#"use warpsmith::prelude::*;

struct Print;
#[kernel]
fn double(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = 2 * third(x, i.get());
    }
}

fn third(x: &[u32], i: usize) -> u32 {
    x[i] / 3
}

impl tracing::Subscriber for Print {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Visit;
        impl tracing::field::Visit for Visit {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                println!("warning: {value:?}");
            }
        }
        event.record(&mut Visit);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

fn main() -> warpsmith::Result<()> {
    tracing::subscriber::set_global_default(Print).unwrap();
    let stream = Device::cpu().stream()?;
    let _ = Device::cpu_as(warpsmith::GpuProfile::SM_90);
    let len = std::env::args().nth(1).unwrap().parse().unwrap();
    let x = stream.to_device(&vec![9; len])?;
    let mut y = stream.zeroed::<u32>(70)?;
    double::launch(&stream, LaunchConfig::new(3, 32), &x, &mut y)?;
    println!("{:?}", stream.to_host(&y)?.last());
    Ok(())
}
"#;

#[test]
#[ignore = "compiles these crates anew"]
fn where_panics_abort_the_executor_says_so_and_a_kernels_panic_ends_the_program() {
    let program = build("aborts", "panic = \"abort\"\ndebug = 0", MAIN);
    let run = |len: &str| Command::new(&program).arg(len).env_remove("RUST_BACKTRACE").output().unwrap();
    let good = run("70");
    let said = text(&good);
    assert!(good.status.success() && said.ends_with("Some(6)\n"), "{said}");
    assert_eq!(said.matches("compiled with panic = \"abort\"").count(), 1, "{said}");
    let bad = run("69");
    let said = text(&bad);
    assert!(!bad.status.success(), "{said}");
    assert!(said.contains("src/main.rs:13:5") && said.contains("the len is 69 but the index is 69"), "{said}");
}

#[test]
#[ignore = "compiles these crates anew"]
fn a_debugger_stops_in_a_kernels_thread_and_a_backtrace_names_the_kernels_lines() {
    let program = build("debugged", "debug = 2", MAIN);
    let run = |value: &str| text(&Command::new(&program).arg("69").env("RUST_BACKTRACE", value).output().unwrap());
    let quiet = run("0");
    assert!(quiet.contains("block (2, 0, 0), thread (5, 0, 0)") && !quiet.contains("its calls"), "{quiet}");
    let said = run("1");
    let own = said.split_once("its calls, the last one first:\n").unwrap_or_else(|| panic!("{said}")).1;
    assert!(own.trim_start().split_once("debugged::third").is_some_and(|(before, _)| before.len() < 8), "{said}");
    assert!(own.contains("src/main.rs:13:5") && own.contains("src/main.rs:8:18"), "{said}");
    assert!(!own.contains("run_threads") && !own.contains("debugged::main"), "{said}");

    if Command::new("gdb").arg("--version").output().is_err() {
        eprintln!("skipped: no gdb on this machine");
        return;
    }
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "break src/main.rs:13 if i == 37"]);
    gdb.args(["-ex", "run", "-ex", "backtrace 8", "-ex", "kill", "--args"]).arg(&program).arg("70");
    let said = text(&gdb.output().unwrap());
    assert!(said.contains("debugged::third"), "{said}");
    let frame = said.lines().find(|line| line.contains("kernel_thread")).unwrap_or_else(|| panic!("{said}"));
    let place = "block_x=1, block_y=0, block_z=0, thread_x=5, thread_y=0, thread_z=0";
    assert!(frame.contains(place), "{said}");
}

//! Kernels of every kind of target are found, and overflow as the host does, under every profile and set of flags.

mod support;

use std::process::Command;
use support::{Project, checks_overflow, kernels};

const PROFILES: &str = "
[profile.thin]
inherits = \"release\"
lto = \"thin\"
[profile.checked]
inherits = \"release\"
overflow-checks = true
[workspace]
";

fn project(name: &str) -> Project {
    let project = Project::new(name, "overflow");
    project.package("", "app", &format!("[[bench]]\nname = \"speed\"\nharness = false\n{PROFILES}"));
    let tail = "#[cfg(mine)] kernel!(only_with_cfg, |x| x + 1);\n";
    project.source(
        "src/lib.rs",
        &format!(
            "kernel!(in_lib, |x| x * 3);\n{tail}
        #[cfg(test)] mod tests {{ kernel!(in_lib_tests, |x| x * 5); #[test] fn t() {{ in_lib_tests::launch() }} }}"
        ),
    );
    let main = "fn main() { in_bin::launch(); app::in_lib::launch(); #[cfg(mine)] app::only_with_cfg::launch(); }";
    project.source(
        "src/main.rs",
        &format!(
            "kernel!(in_bin, |x| x * 7);\n{main}
        #[cfg(test)] mod tests {{ kernel!(in_bin_tests, |x| x * 9); #[test] fn t() {{ in_bin_tests::launch() }} }}"
        ),
    );
    project.source("examples/show.rs", "kernel!(in_example, |x| x * 11);\nfn main() { in_example::launch() }");
    project.source("tests/check.rs", "kernel!(in_test, |x| x * 13);\n#[test] fn t() { in_test::launch() }");
    project.source("benches/speed.rs", "kernel!(in_bench, |x| x * 15);\nfn main() { in_bench::launch() }");
    project
}

/// Builds all targets, runs each, and compares what the host did with the kernels in the executables.
fn check(project: &Project, profile: &str, flags: &[&str], rustflags: Option<&str>, overflow: bool) {
    let mut arguments = vec!["build", "--all-targets", "--message-format=json", "--profile", profile];
    arguments.extend(flags);
    let variables: Vec<(&str, &str)> = rustflags.iter().map(|flags| ("RUSTFLAGS", *flags)).collect();
    let run = project.cargo_in("", &arguments, &variables).ok();
    let executables = run.executables();
    let mut seen = Vec::new();
    for (title, path) in &executables {
        let output = Command::new(path).arg("--nocapture").output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in text.lines().filter_map(|line| line.split_once("host: ")).map(|(_, line)| line) {
            let name = line.split(' ').next().expect("a name");
            let kernel = kernels(path).into_iter().find(|kernel| kernel.key.name == name);
            let kernel = kernel.unwrap_or_else(|| panic!("{title} has no kernel {name}: {}", run.text()));
            assert_eq!(line.contains("overflow=true"), overflow, "{title}: {line} under {arguments:?} {rustflags:?}");
            assert_eq!(checks_overflow(&kernel), overflow, "{title}: {name} under {arguments:?} {rustflags:?}");
            assert!(kernel.images[0].ptx.contains(".visible .entry"), "{title}: {name} has PTX");
            seen.push(name.to_owned());
        }
    }
    seen.sort();
    seen.dedup();
    let mut wanted = vec!["in_bench", "in_bin", "in_bin_tests", "in_example", "in_lib", "in_lib_tests", "in_test"];
    if rustflags.is_some_and(|flags| flags.contains("mine")) {
        wanted.push("only_with_cfg");
    }
    assert_eq!(seen, wanted, "{executables:?}");
}

const HOST: &[&str] = &["--target", "x86_64-unknown-linux-gnu"];

#[test]
fn every_target_profile_and_flag() {
    let project = project("overflow");
    let native = Some("-C target-cpu=native");
    let own = Some("--cfg mine --check-cfg=cfg(mine)");
    // With a target named, the flags leave build scripts alone, which saves compiling them again.
    check(&project, "dev", &[], None, true);
    check(&project, "dev", HOST, native, true);
    check(&project, "dev", HOST, own, true);
    check(&project, "release", &[], None, false);
    check(&project, "release", HOST, native, false);
    check(&project, "release", HOST, own, false);
    check(&project, "thin", HOST, own, false);
    check(&project, "checked", HOST, native, true);
}

#[test]
fn flags_that_reach_build_scripts_too() {
    let project = project("overflow-flags");
    check(&project, "dev", &[], Some("-C target-cpu=native -C overflow-checks=off"), false);
}

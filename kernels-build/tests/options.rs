//! What a build says when its variables are wrong, and when several targets are.

mod support;

use support::Project;

fn project(name: &str) -> Project {
    let project = Project::new(name, "options");
    project.package("", name, "[workspace]\n");
    project.source("src/main.rs", "kernel!(plain, |x| x * 3);\nfn main() { plain::launch() }\n");
    project
}

#[test]
fn variables_that_hold_nonsense_are_named() {
    let project = project("nonsense");
    let cases = [
        ("WARPSMITH_ARCHITECTURES", "foo", "WARPSMITH_ARCHITECTURES is `foo`; it should be a list such as `80,90`"),
        ("WARPSMITH_ARCHITECTURES", "999", "kernels cannot be made for sm_999; 75, 80, "),
        ("WARPSMITH_ARCHITECTURES", "80,20", "kernels cannot be made for sm_20; 75, 80, "),
        ("WARPSMITH_ARCHITECTURES", ",", "there are no architectures to compile kernels for"),
        ("WARPSMITH_LIBDEVICE", "/nowhere.bc", "libdevice, /nowhere.bc, cannot be opened; WARPSMITH_LIBDEVICE="),
        ("WARPSMITH_LIBDEVICE", env!("CARGO_MANIFEST_PATH"), "is no LLVM bitcode; WARPSMITH_LIBDEVICE="),
        ("WARPSMITH_LLVM", "/nowhere.so", "WARPSMITH_LLVM names `/nowhere.so`, which is no file"),
        ("WARPSMITH_LLVM", env!("CARGO_MANIFEST_PATH"), "were not compiled: cannot use the LLVM library"),
    ];
    for (name, value, expected) in cases {
        let message = project.cargo_in("", &["build"], &[(name, value)]).fails().stderr();
        assert!(message.contains(expected), "{name}={value}: no `{expected}` in: {message}");
        assert!(!message.contains("warpsmith has a bug"), "{name}={value}: {message}");
    }
    project.cargo(&["build"]).ok();
}

#[test]
fn every_target_that_cannot_run_is_named() {
    let project = project("several");
    for name in ["first", "second"] {
        let text = format!("kernel!({name}, |x| x + std::process::id());\nfn main() {{ {name}::launch() }}\n");
        project.source(&format!("src/bin/{name}.rs"), &text);
    }
    let message = project.cargo(&["build"]).fails().stderr();
    for name in ["first", "second"] {
        let expected = format!("kernels of bin {name} cannot run on a GPU: kernel `{name}::{name}::{name}` reaches");
        assert!(message.contains(&expected), "no `{expected}` in: {message}");
    }
    assert!(!message.contains("bin several"), "{message}");
}

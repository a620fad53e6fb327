//! What is built again after a change, and what is not.

mod support;

use std::path::PathBuf;
use std::time::SystemTime;
use support::{Project, Run, bundles, names};

fn project(name: &str) -> Project {
    let project = Project::new(name, "incremental");
    project.package("", "app", "[features]\nextra = []\n[workspace]\n");
    project.source("src/lib.rs", "kernel!(in_lib, |x| x * 3);\npub fn plain() -> u32 { 1 }\n");
    project
        .source("src/main.rs", "kernel!(in_bin, |x| x * 7);\nfn main() { in_bin::launch(); app::in_lib::launch(); }");
    project.source("tests/check.rs", "kernel!(in_test, |x| x * 13);\n#[test] fn t() { in_test::launch() }");
    project
}

fn bin(run: &Run) -> PathBuf {
    let found = run.executables().into_iter().find(|(title, _)| title == "bin app");
    found.unwrap_or_else(|| panic!("no program: {}", run.text())).1
}

const JSON: &str = "--message-format=json";

#[test]
fn nothing_changed_starts_nothing() {
    let project = project("nothing");
    project.cargo(&["build"]).ok();
    let run = project.cargo(&["build", "-v"]).ok();
    assert_eq!(run.started(), [""; 0], "{}", run.text());
    project.cargo(&["test", "--no-run"]).ok();
    let run = project.cargo(&["test", "--no-run", "-v"]).ok();
    assert_eq!(run.started(), [""; 0], "{}", run.text());
    // The tests' build did not need the build script either.
    let run = project.cargo(&["build", "-v"]).ok();
    assert_eq!(run.started(), [""; 0], "{}", run.text());
}

#[test]
fn one_kernels_edit_reaches_the_program() {
    let project = project("edit");
    let before = bin(&project.cargo(&["build", JSON]).ok());
    assert_eq!(names(&before), ["in_bin", "in_lib"].map(str::to_owned).into());
    project.edit("src/main.rs", "in_bin", "renamed");
    let run = project.cargo(&["build", "-vv", JSON]).ok();
    assert_eq!(names(&bin(&run)), ["in_lib", "renamed"].map(str::to_owned).into());
    let lowered: Vec<String> =
        run.text().lines().filter(|line| line.contains("warpsmith: lowering")).map(str::to_owned).collect();
    assert_eq!(lowered.len(), 1, "the library was not lowered again: {lowered:?}");
    // A file that is only written again is compiled again, but its bitcode stays and is not lowered.
    project.edit("src/main.rs", "renamed", "renamed");
    let run = project.cargo(&["build", "-vv", JSON]).ok();
    assert!(run.text().contains("warpsmith: compiling kernels"), "{}", run.text());
    assert!(!run.text().contains("warpsmith: lowering"), "{}", run.text());
}

#[test]
fn new_targets_are_found() {
    let project = project("new");
    project.source("src/bin/one.rs", "fn main() {}");
    project.cargo(&["build"]).ok();
    project.source("src/bin/two.rs", "kernel!(in_two, |x| x * 17);\nfn main() { in_two::launch() }");
    let run = project.cargo(&["build", JSON]).ok();
    let two = run.executables().into_iter().find(|(title, _)| title == "bin two").expect("built").1;
    assert!(names(&two).contains("in_two"));
}

#[test]
fn a_first_program_in_a_new_folder_is_found() {
    let project = project("new-bin");
    project.cargo(&["build"]).ok();
    project.source("src/bin/look.rs", "kernel!(in_look, |x| x * 17);\nfn main() { in_look::launch() }");
    let run = project.cargo(&["build", JSON]).ok();
    let look = run.executables().into_iter().find(|(title, _)| title == "bin look").expect("built").1;
    assert!(names(&look).contains("in_look"));
    assert_eq!(project.cargo(&["build", "-v"]).ok().started(), [""; 0]);
}

/// Cargo does not run the build script for a folder that did not exist: the macros notice.
#[test]
fn first_targets_in_new_folders_are_compiled_by_the_second_build() {
    let project = Project::new("new-folder", "macros");
    let runtime = format!("[dependencies.warpsmith]\npath = {:?}\n[workspace]\n", support::part("runtime"));
    project.package("", "app", &runtime);
    let kernel = "use warpsmith::prelude::*;\n#[kernel] fn NAME(x: &[f32], mut y: GridSliceMut<f32>) {\n\
                  if let Some(y) = y.get_mut(&global_idx()) { *y = x[0]; }\n}\n\
                  #[allow(dead_code)] pub fn run(s: &Stream, y: &mut DeviceBuffer<f32>, x: &DeviceBuffer<f32>) {\n\
                  NAME::launch(s, LaunchConfig::for_len(4), x, y).unwrap()\n}\n";
    let source = |name: &str| kernel.replace("NAME", name);
    project.file("src/lib.rs", &source("in_lib"));
    project.file("src/main.rs", &format!("{}fn main() {{}}", source("in_bin")));
    // Doctests, other programs of cargo's and targets at odd places are no new targets.
    project.file("src/docs.rs", "//! ```\n//! #[warpsmith::kernel] fn in_doctest() {}\n//! ```\n");
    project.edit("src/lib.rs", "use warpsmith", "pub mod docs;\nuse warpsmith");
    project.file("odd/named.rs", &format!("{}fn main() {{}}", source("in_named")));
    let named = "[[bin]]\nname = \"app\"\npath = \"src/main.rs\"\n[[bin]]\nname = \"named\"\npath = \"odd/named.rs\"\n[workspace]";
    project.edit("Cargo.toml", "[workspace]", named);
    project.cargo(&["test"]).ok();
    project.cargo(&["build"]).ok();
    assert_eq!(project.cargo(&["build", "-v"]).ok().started(), [""; 0]);

    let quiet = "the target `";
    project.file("tests/first.rs", &format!("{}#[test] fn t() {{}}", source("in_test")));
    // For clippy the script makes nothing, so there is nothing to miss.
    let run = project.cargo(&["clippy", "--all-targets"]).ok();
    assert!(!run.stderr().contains(quiet), "{}", run.text());
    for (path, title, option) in [
        ("tests/first.rs", "test first", "--tests"),
        ("examples/shown.rs", "example shown", "--examples"),
        ("benches/timed.rs", "bench timed", "--benches"),
    ] {
        project.file(path, &format!("{}fn main() {{}}", source("in_new")));
        let run = project.cargo(&["build", option]).fails();
        let message = format!("error: the target `{path}` did not exist when this package's kernels were compiled");
        assert_eq!(run.stderr().matches(&message).count(), 1, "{}", run.text());
        assert!(run.stderr().contains("build once more"), "{}", run.text());
        let run = project.cargo(&["build", option, JSON]).ok();
        let all = run.executables();
        let program = &all.iter().find(|(found, _)| found == title).unwrap_or_else(|| panic!("{all:?}")).1;
        assert!(names(program).contains("in_new"), "{}", run.text());
        assert_eq!(project.cargo(&["build", option, "-v"]).ok().started(), [""; 0]);
    }
}

#[test]
fn a_path_dependencys_edit_rebuilds() {
    let project = Project::new("path", "incremental");
    let dependency = "[dependencies.helper]\npath = \"helper\"\n[workspace]\n";
    project.package("", "app", dependency);
    project.file("helper/Cargo.toml", "[package]\nname = \"helper\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    project.file("helper/src/lib.rs", "pub fn help(x: u32) -> u32 { x & 12345 }\n");
    project.source("src/main.rs", "kernel!(in_bin, |x| helper::help(x));\nfn main() { in_bin::launch() }");
    let ptx = |run: &Run| support::kernels(&bin(run))[0].images[0].ptx.clone();
    let before = ptx(&project.cargo(&["build", JSON]).ok());
    assert!(before.contains("12345"), "{before}");
    project.edit("helper/src/lib.rs", "12345", "54321");
    let after = ptx(&project.cargo(&["build", JSON]).ok());
    assert!(after.contains("54321"), "{after}");
}

#[test]
fn a_panics_text_is_part_of_what_is_kept() {
    let project = Project::new("panic-text", "incremental");
    project.package("", "app", "[workspace]\n");
    // The text lies in another file than the kernel, so that the kernel's own code stays as it is.
    project.file("src/text.rs", "pub const TEXT: &str = \"the first text\";\n");
    project.source(
        "src/main.rs",
        "mod text;\nkernel!(in_bin, |x| x.checked_add(7).expect(crate::text::TEXT));\nfn main() { in_bin::launch() }",
    );
    let texts = |run: &Run| -> Vec<String> {
        support::kernels(&bin(run))[0].sites.iter().map(|site| site.format.clone()).collect()
    };
    let before = texts(&project.cargo(&["build", JSON]).ok());
    assert!(before.iter().any(|text| text.contains("the first text")), "{before:?}");
    project.edit("src/text.rs", "first", "other");
    let after = texts(&project.cargo(&["build", JSON]).ok());
    assert!(after.iter().any(|text| text.contains("the other text")), "{after:?}");
}

#[test]
fn an_error_for_gpus_alone_is_told() {
    let project = Project::new("device-error", "incremental");
    project.package("", "app", "[dependencies.helper]\npath = \"helper\"\n[workspace]\n");
    project.file("helper/Cargo.toml", "[package]\nname = \"helper\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    project.file("helper/src/lib.rs", "#[cfg(warpsmith_device)] compile_error!(\"not for GPUs\");\n");
    project.source("src/main.rs", "kernel!(in_bin, |x| x * 7);\nfn main() { in_bin::launch() }");
    let run = project.cargo(&["build", JSON]).ok();
    let warning = "kernels were not compiled, because the crate helper has errors when it is built for a GPU";
    assert!(run.stderr().contains(warning), "{}", run.text());
    let bundles = bundles(&bin(&run));
    let failure = bundles[0].failure.as_deref().expect("the failure travels with the program");
    assert!(failure.contains("error: not for GPUs"), "{failure}");
}

#[test]
fn an_error_in_a_test_stops_only_the_test() {
    let project = project("test-error");
    project.edit("tests/check.rs", "#[test]", "fn wrong() -> u32 { \"text\" }\n#[test]");
    let run = project.cargo(&["build", JSON]).ok();
    assert_eq!(names(&bin(&run)), ["in_bin", "in_lib"].map(str::to_owned).into());
    assert!(!run.stderr().contains("mismatched"), "{}", run.text());
    let run = project.cargo(&["test", "--no-run"]).fails();
    assert_eq!(run.stderr().matches("error[E0308]: mismatched types").count(), 1, "{}", run.text());
    project.edit("tests/check.rs", "\"text\"", "1");
    let run = project.cargo(&["test", "--no-run", JSON]).ok();
    let test = run.executables().into_iter().find(|(title, _)| title == "test check").expect("built").1;
    assert!(names(&test).contains("in_test"));
}

#[test]
fn an_error_in_the_library_shows_once() {
    let project = project("lib-error");
    project.edit("src/lib.rs", "{ 1 }", "{ \"text\" }");
    let run = project.cargo(&["build"]).fails();
    assert_eq!(run.stderr().matches("mismatched types").count(), 1, "{}", run.text());
    assert!(!run.stderr().contains("build script") && !run.stderr().contains("custom build"), "{}", run.text());
    project.edit("src/lib.rs", "{ \"text\" }", "{ 2 }");
    let run = project.cargo(&["build", JSON]).ok();
    assert_eq!(names(&bin(&run)), ["in_bin", "in_lib"].map(str::to_owned).into());
    assert!(bundles(&bin(&run)).iter().all(|bundle| bundle.failure.is_none()));
}

#[test]
fn clippy_lowers_nothing_and_a_build_after_it_does() {
    let project = project("clippy");
    let run = project.cargo(&["clippy", "-vv"]).ok();
    assert!(!run.text().contains("warpsmith: compiling"), "{}", run.text());
    let run = project.cargo(&["build", JSON]).ok();
    assert_eq!(names(&bin(&run)), ["in_bin", "in_lib"].map(str::to_owned).into());
    project.cargo(&["clippy"]).ok();
    let run = project.cargo(&["run"]).ok();
    assert!(run.stdout().contains("host: in_bin"), "{}", run.text());
}

#[test]
fn documentation_and_packages_build() {
    let project = project("doc");
    project.edit("Cargo.toml", "edition", "license = \"MIT\"\ndescription = \"d\"\nedition");
    project.cargo_in("", &["doc", "--no-deps"], &[("DOCS_RS", "1")]).ok();
    project.cargo(&["doc", "--no-deps"]).ok();
    project.edit("src/lib.rs", "pub fn plain", "/// ```\n/// app::in_lib::launch();\n/// ```\npub fn plain");
    let run = project.cargo(&["test"]).ok();
    assert!(run.stdout().contains("src/lib.rs - plain"), "{}", run.text());
    let before = newest(&project);
    project.cargo(&["build", "--offline", "--locked"]).ok();
    assert_eq!(before, newest(&project), "a build writes nothing beside the sources");
}

/// `cargo package` and `cargo install` build a package whose own lock or workspace is not the one at hand.
#[test]
fn a_package_that_is_in_no_workspace_of_its_own() {
    let project = Project::new("unpacked", "incremental");
    project.file("Cargo.toml", "[workspace]\nmembers = []\n");
    project.package("unpacked/app", "app", "[workspace]\n");
    project.source("unpacked/app/src/main.rs", "kernel!(in_bin, |x| x * 7);\nfn main() { in_bin::launch() }");
    let root = project.path("installed").display().to_string();
    let arguments = ["install", "--debug", "--path", "unpacked/app", "--root", &root];
    project.cargo(&arguments).ok();
    assert_eq!(names(&project.path("installed/bin/app")), ["in_bin"].map(str::to_owned).into());
    assert!(!project.path("unpacked/app/Cargo.lock").exists(), "nothing is written beside the sources");
}

/// Names and times of the project's files.
fn newest(project: &Project) -> Vec<(PathBuf, SystemTime)> {
    let mut found = Vec::new();
    let mut open = vec![project.root.clone()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let metadata = entry.metadata().expect("metadata");
            if metadata.is_dir() {
                open.push(entry.path());
            }
            found.push((entry.path(), metadata.modified().expect("a time")));
        }
    }
    found.sort();
    found
}

#[test]
fn a_feature_reaches_the_kernels() {
    let project = project("feature");
    project.edit("src/lib.rs", "pub fn plain", "#[cfg(feature = \"extra\")] kernel!(extra, |x| x * 19);\npub fn plain");
    let run = project.cargo(&["build", JSON]).ok();
    assert!(!names(&bin(&run)).contains("extra"));
    let run = project.cargo(&["build", "--features", "extra", JSON]).ok();
    assert!(names(&bin(&run)).contains("extra"));
}

#[test]
fn two_builds_at_once() {
    let project = project("twice");
    std::thread::scope(|scope| {
        let build = |profile: &'static str| {
            let project = &project;
            scope.spawn(move || bin(&project.cargo(&["build", "--profile", profile, JSON]).ok()))
        };
        let builds = [build("dev"), build("dev"), build("release")];
        for build in builds {
            let program = build.join().expect("built");
            assert_eq!(names(&program), ["in_bin", "in_lib"].map(str::to_owned).into());
        }
    });
}

//! Code for the checker: who gets it, and what the linker makes of it.

mod support;

use object::{Object, ObjectSection};
use std::path::Path;
use support::{Project, Run};
use warpsmith_build::bundle::{CHECKED_SECTION, CheckedEntry};

/// A package with a kernel in its library, one in its program and one in a test, and a test without any.
fn project(name: &str) -> Project {
    let project = Project::new(name, "checked");
    project.package("", "app", "[workspace]\n");
    project.source("src/lib.rs", "kernel!(in_lib, |x| x * 3);\n");
    let main = "kernel!(in_bin, |x| x * 7);\n#[allow(dead_code)] fn cpu() {}\n\
                fn main() { cpu(); in_bin::launch(); app::in_lib::launch(); }";
    project.source("src/main.rs", main);
    project.source("tests/one.rs", "kernel!(in_test, |x| x * 13);\n#[test] fn t() { in_test::launch() }");
    project.file("tests/two.rs", "#[test] fn t() {}");
    project
}

const JSON: &str = "--message-format=json";

/// How many objects with code for the checker a program carries.
fn modules(program: &Path) -> usize {
    let bytes = std::fs::read(program).expect("a program");
    let file = object::File::parse(&*bytes).expect("a program");
    let size = file.section_by_name(CHECKED_SECTION).map_or(0, |section| section.size());
    usize::try_from(size).expect("a short section") / size_of::<CheckedEntry>()
}

fn program(run: &Run, title: &str) -> usize {
    let all = run.executables();
    let found = all.iter().find(|(name, _)| name == title);
    modules(&found.unwrap_or_else(|| panic!("no {title} in {all:?}")).1)
}

#[test]
fn only_who_asks_gets_code_for_the_checker() {
    let project = project("asks");
    assert_eq!(program(&project.cargo(&["build", JSON]).ok(), "bin app"), 0);
    // The library's and the program's own.
    let checked = [("WARPSMITH_CHECK", "1")];
    assert_eq!(program(&project.cargo_in("", &["build", JSON], &checked).ok(), "bin app"), 2);
    assert_eq!(program(&project.cargo_in("", &["build", JSON], &[("WARPSMITH_CHECK", "0")]).ok(), "bin app"), 0);
    // A symbol of that name is enough, wherever in the package it is.
    project.edit("src/main.rs", "fn cpu() {}", "#[inline(never)] fn cpu_checked() { std::hint::black_box(()) }");
    project.edit("src/main.rs", "cpu();", "cpu_checked();");
    assert_eq!(program(&project.cargo(&["build", JSON]).ok(), "bin app"), 2);
    project.edit("build.rs", "warpsmith_build::compile()", "warpsmith_build::Builder::new().checked(false).compile()");
    assert_eq!(program(&project.cargo(&["build", JSON]).ok(), "bin app"), 0);
}

#[test]
fn tests_without_kernels_link_beside_those_with_some() {
    let project = project("beside");
    let run = project.cargo_in("", &["test", "--no-run", JSON], &[("WARPSMITH_CHECK", "1")]).ok();
    assert_eq!(program(&run, "test one"), 1);
    assert!(run.executables().iter().any(|(title, _)| title == "test two"));
}

#[test]
fn profiles_with_lto_are_told_and_link() {
    let project = project("lto");
    for lto in ["fat", "thin"] {
        let variables = [("WARPSMITH_CHECK", "1"), ("CARGO_PROFILE_RELEASE_LTO", lto)];
        let run = project.cargo_in("", &["build", "--release", JSON], &variables).ok();
        assert!(run.text().contains("kernels of bin app cannot be checked: the profile has `lto`"), "{}", run.text());
        assert_eq!(program(&run, "bin app"), 0);
    }
}

#[test]
fn an_unchanged_kernel_is_not_made_again() {
    let project = project("kept");
    let checked = [("WARPSMITH_CHECK", "1")];
    project.cargo_in("", &["build"], &checked).ok();
    project.edit("src/main.rs", "x * 7", "x * 9");
    let run = project.cargo_in("", &["build", "-vv"], &checked).ok();
    let made: Vec<String> =
        run.text().lines().filter(|line| line.contains("for the checker")).map(str::to_owned).collect();
    assert!(made.len() == 1 && made[0].contains("lowering bin app for the checker"), "{made:?}");
    assert_eq!(project.cargo_in("", &["build", "-v"], &checked).ok().started(), [""; 0]);
}

//! Kernels in workspaces and dependencies, and crates whose build scripts probe the compiler.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use support::{Project, Run, names};

const JSON: &str = "--message-format=json";

fn program(run: &Run, title: &str) -> PathBuf {
    let found = run.executables().into_iter().find(|(found, _)| found == title);
    found.unwrap_or_else(|| panic!("no {title}: {}", run.text())).1
}

fn set(names: &[&str]) -> std::collections::BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn kernels_of_a_workspaces_members() {
    let project = Project::new("members", "packages");
    project.file("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"app\", \"kern\"]\n");
    project.package("kern", "kern", "[features]\nmore = []\n");
    project.source(
        "kern/src/lib.rs",
        "kernel!(in_kern, |x| x * 3);\n#[cfg(feature = \"more\")] kernel!(more, |x| x * 5);",
    );
    project.file(
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n\
         kern = { path = \"../kern\", features = [\"more\"] }\n",
    );
    project.file("app/src/main.rs", "fn main() { kern::in_kern::launch(); kern::more::launch() }");
    let run = project.cargo(&["build", JSON]).ok();
    assert_eq!(names(&program(&run, "bin app")), set(&["in_kern", "more"]));
    // From a member's folder, and with the target folder named.
    let run = project.cargo_in("app", &["build", JSON, "--release"], &[]).ok();
    assert_eq!(names(&program(&run, "bin app")), set(&["in_kern", "more"]));
}

#[test]
fn kernels_of_a_dependency_elsewhere() {
    let project = Project::new("elsewhere", "packages");
    project.file("kern/other.txt", "not part of the build");
    project.package("kern", "kern", "[features]\nmore = []\n[dev-dependencies.nowhere]\npath = \"../nowhere\"\n");
    project.source(
        "kern/src/lib.rs",
        "kernel!(in_kern, |x| x * 3);\n#[cfg(feature = \"more\")] kernel!(more, |x| x * 5);",
    );
    project.source("kern/tests/broken.rs", "kernel!(never, |x| nowhere::f(x));");
    project.file("nowhere/Cargo.toml", "[package]\nname = \"nowhere\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    project.file("nowhere/src/lib.rs", "broken!");
    project.package(
        "work/app",
        "app",
        "[dependencies.kern]\npath = \"../../kern\"\nfeatures = [\"more\"]\n[workspace]\n",
    );
    project.source(
        "work/app/src/main.rs",
        "kernel!(own, |x| x);\nfn main() { own::launch(); kern::in_kern::launch(); kern::more::launch() }",
    );
    let run = project.cargo_in("work/app", &["build", JSON], &[]).ok();
    assert_eq!(names(&program(&run, "bin app")), set(&["in_kern", "more", "own"]));
    assert!(!run.text().contains("instead of"), "{}", run.text());
    assert!(!project.path("kern/Cargo.lock").exists(), "nothing is written into the dependency");
    // An edit of the dependency reaches the program.
    project.edit("kern/src/lib.rs", "in_kern", "edited");
    project.edit("work/app/src/main.rs", "in_kern", "edited");
    let run = project.cargo_in("work/app", &["build", JSON], &[]).ok();
    assert_eq!(names(&program(&run, "bin app")), set(&["edited", "more", "own"]));
}

#[test]
fn kernels_of_a_git_dependency_with_chosen_features() {
    let project = Project::new("git", "packages");
    project.package("kern", "kern", "[features]\nmore = []\n");
    project.source(
        "kern/src/lib.rs",
        "kernel!(in_kern, |x| x * 3);\n#[cfg(feature = \"more\")] kernel!(more, |x| x * 5);",
    );
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
        let output = command.current_dir(project.path("kern")).output().expect("git is there");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "kernels"]);
    let url = format!("file://{}", project.path("kern").display());
    project.file(
        "app/Cargo.toml",
        &format!(
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[features]\nmore = [\"kern/more\"]\n\
             [dependencies]\nkern = {{ git = \"{url}\" }}\n[workspace]\n"
        ),
    );
    project.file("app/src/main.rs", "fn main() { kern::in_kern::launch(); }");
    let run = project.cargo_in("app", &["build", JSON], &[]).ok();
    assert_eq!(names(&program(&run, "bin app")), set(&["in_kern"]));
    // The feature is chosen on the command line: the nested build has to choose it too.
    let run = project.cargo_in("app", &["build", JSON, "--features", "more"], &[]).ok();
    assert_eq!(names(&program(&run, "bin app")), set(&["in_kern", "more"]));
}

/// Each crate's `rustc-cfg` lines, from the outputs of the build scripts below a folder.
fn cfgs(folder: &Path, nested: bool) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let is_nested = path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("warpsmith-"));
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|name| name == "output") && is_nested == nested {
                let package = path.parent().and_then(Path::file_name).expect("a folder").to_string_lossy().into_owned();
                let (name, _) = package.rsplit_once('-').expect("a hash");
                let text = std::fs::read_to_string(&path).expect("text");
                let lines = text.lines().filter(|line| line.contains("rustc-cfg=")).map(str::to_owned);
                let entry = found.entry(name.to_owned()).or_default();
                entry.extend(lines);
                entry.sort();
                entry.dedup();
            }
        }
    }
    found
}

#[test]
fn build_scripts_print_the_same_cfgs() {
    let mut project = Project::new("probes", "probes");
    project.shares_nested = false;
    let _ = std::fs::remove_dir_all(&project.target_dir);
    project.package(
        "",
        "app",
        "[workspace]\n[dependencies]\nindexmap = \"1\"\nnum-traits = \"0.2\"\nanyhow = \"1\"\nthiserror = \"1\"\n",
    );
    let text = "kernel!(in_bin, |x| num_traits::clamp(x, 1, 5));
        #[derive(Debug, thiserror::Error)] #[error(\"e\")] pub struct E;
        fn main() -> anyhow::Result<()> {
            let map: indexmap::IndexMap<u32, u32> = [(1, 2)].into_iter().collect();
            in_bin::launch();
            anyhow::ensure!(map.len() == 1, E);
            Ok(())
        }";
    project.source("src/main.rs", text);
    for flags in [None, Some("-C target-cpu=native")] {
        let variables: Vec<(&str, &str)> = flags.iter().map(|flags| ("RUSTFLAGS", *flags)).collect();
        let run = project.cargo_in("", &["build", JSON], &variables).ok();
        assert_eq!(names(&program(&run, "bin app")), set(&["in_bin"]));
        let (host, nested) = (cfgs(&project.target_dir, false), cfgs(&project.target_dir, true));
        for name in ["indexmap", "num-traits", "anyhow", "thiserror"] {
            assert!(host.contains_key(name), "{name} has a build script");
        }
        assert!(!host["num-traits"].is_empty() && !host["indexmap"].is_empty(), "{host:?}");
        assert_eq!(host, nested);
    }
}

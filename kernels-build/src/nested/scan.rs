//! Which targets hold kernels, guessed from their text: rather one too many than one too few.

use super::package::{Kind, Package, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Words that make a target's text worth compiling.
pub(crate) struct Words(BTreeSet<String>);

impl Words {
    /// For a package of which these dependencies, by the names that code uses, depend on warpsmith.
    pub(crate) fn new(package: &Package, dependents: &BTreeSet<String>) -> Self {
        let mut words: BTreeSet<String> =
            ["warpsmith", "warpsmith_device", "kernel", "launch"].into_iter().map(str::to_owned).collect();
        let uses_it = |(name, _): &&(String, String)| dependents.contains(name) || name.starts_with("warpsmith");
        words.extend(package.dependencies.iter().filter(uses_it).map(|(_, used)| used.clone()));
        // A generic function of the package's own library may launch on behalf of a target that names it.
        words.extend(package.targets.iter().filter(|target| target.kind == Kind::Lib).map(Target::crate_name));
        Self(words)
    }

    fn occur_in(&self, text: &str) -> bool {
        identifiers(text).any(|word| self.0.contains(word))
    }
}

/// A target's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Its files.
    pub(crate) files: Vec<PathBuf>,
    mentions: bool,
    has_tests: bool,
}

impl Sources {
    /// Reads a target's root file and the modules it names.
    pub(crate) fn read(target: &Target, words: &Words) -> Self {
        let mut sources = Self::default();
        let mut open = vec![(target.source.clone(), true)];
        while let Some((path, is_root)) = open.pop() {
            if sources.files.contains(&path) {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            sources.mentions |= words.occur_in(&text);
            sources.has_tests |= text.contains("#[test]") || text.contains("cfg(test)") || text.contains("::test]");
            open.extend(modules(&path, &text, is_root).into_iter().map(|path| (path, false)));
            sources.files.push(path);
        }
        sources
    }

    /// Whether the target may hold kernels.
    pub(crate) fn hold_kernels(&self) -> bool {
        self.mentions
    }

    /// Whether the target's unit tests may hold kernels of their own.
    pub(crate) fn tests_hold_kernels(&self) -> bool {
        self.mentions && self.has_tests
    }
}

/// Words of the text that could be names.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Files that a file names by `mod name;`, `#[path = ".."]` or `include!("..")`, where they exist.
///
/// Modules inside inline modules, and names made by macros, are found by looking at all folders below the file's.
fn modules(file: &Path, text: &str, is_root: bool) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().unwrap_or_default();
    let own = if is_root || stem == "mod" { folder.to_owned() } else { folder.join(stem) };
    let mut found = Vec::new();
    let mut last = ["", ""];
    for (word, rest) in words_with_rest(text) {
        let rest = rest.trim_start();
        if last[1] == "mod" && rest.starts_with(';') {
            found.extend([own.join(format!("{word}.rs")), own.join(word).join("mod.rs")]);
        } else if last[1] == "mod" && rest.starts_with('{') {
            // An inline module: its own files lie in a folder of its name.
            found.extend(rust_files(&own.join(word)));
        }
        if word == "path" || word == "include" {
            let quoted = rest.trim_start_matches(['=', ' ', '!', '(']).strip_prefix('"');
            if let Some((path, _)) = quoted.and_then(|rest| rest.split_once('"')) {
                found.push(folder.join(path));
            }
        }
        last = [last[1], word];
    }
    found.retain(|path| path.is_file());
    found
}

fn words_with_rest(text: &str) -> impl Iterator<Item = (&str, &str)> {
    identifiers(text).map(move |word| {
        let end = word.as_ptr() as usize - text.as_ptr() as usize + word.len();
        (word, &text[end..])
    })
}

/// The Rust files of a folder and the folders in it.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path) -> Package {
        let target = |kind, name: &str, source: &str| Target {
            kind,
            name: name.into(),
            source: folder.join(source),
            required_features: Vec::new(),
        };
        Package {
            id: String::new(),
            name: "my-lib".into(),
            manifest: folder.join("Cargo.toml"),
            targets: vec![target(Kind::Lib, "my-lib", "src/lib.rs"), target(Kind::Test, "t", "tests/t.rs")],
            dependencies: vec![("gpu-sort".into(), "sorting".into()), ("rand".into(), "rand".into())],
        }
    }

    fn check(files: &[(&str, &str)], target: usize, holds: bool, tests_hold: bool, count: usize) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("warpsmith-scan-{}-{number}", std::process::id()));
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let package = package(&folder);
        let words = Words::new(&package, &BTreeSet::from(["gpu-sort".to_owned()]));
        let sources = Sources::read(&package.targets[target], &words);
        assert_eq!(
            (sources.hold_kernels(), sources.tests_hold_kernels(), sources.files.len()),
            (holds, tests_hold, count),
            "{files:?}"
        );
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }

    #[test]
    fn kernels_are_found_where_they_may_be() {
        let lib = "src/lib.rs";
        check(&[(lib, "fn plain() {}")], 0, false, false, 1);
        check(&[(lib, "#[kernel] fn k() {}")], 0, true, false, 1);
        check(&[(lib, "#[warpsmith::kernel]\nfn k() {} #[cfg(test)] mod tests {}")], 0, true, true, 1);
        check(&[(lib, "mod a;"), ("src/a.rs", "mod b;"), ("src/a/b.rs", "k::launch()")], 0, true, false, 3);
        check(&[(lib, "mod a;"), ("src/a/mod.rs", "mod b;"), ("src/a/b.rs", "sorting::sort()")], 0, true, false, 3);
        check(&[(lib, "#[path = \"x y.rs\"] mod a;"), ("src/x y.rs", "#[kernel]")], 0, true, false, 2);
        check(&[(lib, "mod a { mod b; }"), ("src/a/b.rs", "#[kernel]")], 0, true, false, 2);
        check(&[(lib, "include!(\"gen/a.in\");"), ("src/gen/a.in", "launch")], 0, true, false, 2);
        check(&[(lib, "use rand::Rng; fn launcher() {}")], 0, false, false, 1);
        check(&[("tests/t.rs", "use my_lib::run;")], 1, true, false, 1);
        check(&[("tests/t.rs", "mod common;"), ("tests/common/mod.rs", "use rand;")], 1, false, false, 2);
    }
}

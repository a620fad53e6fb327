//! The places that the checker hears of, each once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::bundle::{CheckedSite, SiteKind};
use crate::llvm::{SourceFile, SourcePlace, Value};
use crate::lower::names::demangle;

/// The places of a module; a hook names one by its number.
#[derive(Default)]
pub(super) struct Sites {
    numbers: HashMap<CheckedSite, u32>,
    all: Vec<CheckedSite>,
    files: HashMap<SourceFile, File>,
    functions: HashMap<Value, String>,
}

/// What is known of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    name: String,
    owner: Owner,
}

/// Whose a source file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    /// A crate that comes from a registry or a repository.
    Dependency,
    Std,
    DeviceCrate,
    /// The part of the device crate that asks the executor where a thread stands.
    Executor,
}

impl Sites {
    /// The number of a place: what happens there, with the source line of the instruction. Nothing for an instruction that only
    /// asks the executor where its thread stands, as every index does.
    pub(super) fn number(&mut self, instruction: Value, site: CheckedSite) -> Option<u32> {
        let chain = instruction.source_chain();
        let owners: Vec<Owner> = chain.iter().map(|place| self.file(place.file).owner).collect();
        if owners.iter().find(|owner| **owner != Owner::Std) == Some(&Owner::Executor) {
            return None;
        }
        let at = written(&chain, &owners);
        let site = match chain.get(at) {
            Some(place) => {
                let computes = [SiteKind::Overflow as u32, SiteKind::Float as u32].contains(&site.kind);
                // Accesses through references and pointers lie in the standard library so often that it says nothing.
                let tells = at > 0 && (computes || owners[0] == Owner::Dependency);
                let inner = match chain[0] {
                    inner if tells => format!("{}:{}", self.file(inner.file).name, inner.line),
                    _ => String::new(),
                };
                let file = self.file(place.file).name.clone();
                CheckedSite { file, line: place.line, column: place.column, inner, ..site }
            }
            None => site,
        };
        let function = instruction.parent_function();
        let function = self.functions.entry(function).or_insert_with(|| demangle(&function.name())).clone();
        let site = CheckedSite { function, ..site };
        if let Some(number) = self.numbers.get(&site) {
            return Some(*number);
        }
        let number = u32::try_from(self.all.len()).expect("a module has fewer than 2^32 instructions");
        self.numbers.insert(site.clone(), number);
        self.all.push(site);
        Some(number)
    }

    /// A name for the source file that an instruction is counted for, and the line.
    pub(super) fn line(&mut self, instruction: Value) -> (u64, u32) {
        let chain = instruction.source_chain();
        let owners: Vec<Owner> = chain.iter().map(|place| self.file(place.file).owner).collect();
        let Some(place) = chain.get(written(&chain, &owners)) else { return (0, 0) };
        let mut hasher = DefaultHasher::new();
        self.file(place.file).name.hash(&mut hasher);
        (hasher.finish(), place.line)
    }

    fn file(&mut self, file: SourceFile) -> &File {
        self.files.entry(file).or_insert_with(|| {
            let (folder, name) = file.folder_and_name();
            let owner = owner(&folder, &name);
            File { name: told(&folder, name, owner), owner }
        })
    }

    /// The place with this number.
    pub(super) fn get(&self, number: u32) -> Option<&CheckedSite> {
        self.all.get(number as usize)
    }

    pub(super) fn into_inner(self) -> Vec<CheckedSite> {
        self.all
    }
}

/// A place of a kind, of which nothing else is known yet.
pub(super) fn of_kind(kind: SiteKind) -> CheckedSite {
    CheckedSite { kind: kind as u32, ..CheckedSite::default() }
}

/// Which place of a chain the user wrote: the innermost one that is no library's, else one of a dependency.
fn written(chain: &[SourcePlace], owners: &[Owner]) -> usize {
    let of = |wanted| chain.iter().zip(owners).position(|(place, owner)| place.line != 0 && *owner == wanted);
    of(Owner::User).or_else(|| of(Owner::Dependency)).unwrap_or(0)
}

/// A file's name as findings tell it: of a library that starts with the crate's, as `src/lib.rs` is everybody's.
fn told(folder: &str, name: String, owner: Owner) -> String {
    match owner {
        Owner::User => name,
        Owner::Std => name.rsplit_once("library/").map_or(name.clone(), |(_, rest)| rest.to_owned()),
        Owner::Dependency | Owner::DeviceCrate | Owner::Executor => {
            let path = if name.starts_with('/') { name } else { format!("{folder}/{name}") };
            // Folders above the crate may be called so, too; within it few are.
            let Some((before, after)) = path.rsplit_once("/src/") else { return path };
            let package = before.rsplit('/').next().unwrap_or(before);
            format!("{package}/src/{after}")
        }
    }
}

/// Whose a file is, by the folder that the compiler ran in and the name that it was given. The device crate is a path dependency
/// or comes from a registry.
fn owner(folder: &str, name: &str) -> Owner {
    let path = if name.starts_with('/') { name.to_owned() } else { format!("{folder}/{name}") };
    if ["/library/core/", "/library/alloc/", "/library/std/"].iter().any(|part| path.contains(part)) {
        Owner::Std
    } else if path.contains("/kernels-device/src/") || path.contains("/warpsmith-device-") {
        if path.ends_with("/src/host.rs") { Owner::Executor } else { Owner::DeviceCrate }
    } else if ["/registry/src/", "/git/checkouts/"].iter().any(|part| path.contains(part)) {
        Owner::Dependency
    } else {
        Owner::User
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_paths() {
        for (folder, name, expected) in [
            ("/home/u/app", "src/main.rs", Owner::User),
            ("/home/u/app", "src/host.rs", Owner::User),
            ("/rustc/0123", "library/core/src/slice/index.rs", Owner::Std),
            ("/x", "/home/u/.rustup/lib/rustlib/src/rust/library/alloc/src/vec/mod.rs", Owner::Std),
            ("/home/u/.cargo/registry/src/index-0123/num-complex-0.4.6", "src/lib.rs", Owner::Dependency),
            ("/home/u/warpsmith/kernels-device", "src/shared/phases.rs", Owner::DeviceCrate),
            ("/home/u/warpsmith/kernels-device", "src/host.rs", Owner::Executor),
            ("/home/u", "/home/u/.cargo/registry/src/x/warpsmith-device-0.1.0/src/host.rs", Owner::Executor),
        ] {
            assert_eq!(owner(folder, name), expected, "{folder} {name}");
        }
    }

    #[test]
    fn libraries_files_are_told_with_the_crate() {
        let registry = "/home/u/.cargo/registry/src/index-0123/num-complex-0.4.6";
        for (folder, name, expected) in [
            ("/home/u/app", "src/main.rs", "src/main.rs"),
            (registry, "src/lib.rs", "num-complex-0.4.6/src/lib.rs"),
            ("/home/u", &format!("{registry}/src/cast.rs"), "num-complex-0.4.6/src/cast.rs"),
            ("/home/u/.cargo/git/checkouts/maths-01/ab12", "src/lib.rs", "ab12/src/lib.rs"),
            ("/home/u/warpsmith", "kernels-device/src/atomic/word.rs", "kernels-device/src/atomic/word.rs"),
            ("/home/u/src/warpsmith/kernels-device", "src/atomic/word.rs", "kernels-device/src/atomic/word.rs"),
            ("/x", "/rustc/0123/library/core/src/num/mod.rs", "core/src/num/mod.rs"),
            ("/rustc/0123", "library/core/src/num/mod.rs", "core/src/num/mod.rs"),
        ] {
            assert_eq!(told(folder, name.to_owned(), owner(folder, name)), expected, "{folder} {name}");
        }
    }
}

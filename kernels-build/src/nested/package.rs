//! Packages and their targets, as `cargo metadata` describes them.

use crate::json::Value;
use std::path::{Path, PathBuf};

/// What kind of target a crate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Lib,
    Bin,
    Example,
    Test,
    Bench,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Lib, Self::Bin, Self::Example, Self::Test, Self::Bench];

    /// As cargo names it, also as its option: `--bin`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lib => "lib",
            Self::Bin => "bin",
            Self::Example => "example",
            Self::Test => "test",
            Self::Bench => "bench",
        }
    }

    /// From the `kind` list of a target; none for build scripts and proc macros.
    fn from_json(kinds: &Value) -> Option<Self> {
        kinds.texts().find_map(|kind| match kind {
            "lib" | "rlib" | "dylib" | "cdylib" | "staticlib" => Some(Self::Lib),
            kind => Self::ALL.into_iter().find(|known| known.name() == kind),
        })
    }
}

/// A target of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// The root source file.
    pub(crate) source: PathBuf,
    /// Features it cannot be built without.
    pub(crate) required_features: Vec<String>,
}

impl Target {
    /// From a `target` object of cargo's; none for build scripts and proc macros.
    pub(crate) fn from_json(target: &Value) -> Option<Self> {
        Some(Self {
            kind: Kind::from_json(target.get("kind"))?,
            name: target.get("name").text()?.to_owned(),
            source: target.get("src_path").text()?.into(),
            required_features: target.get("required-features").texts().map(str::to_owned).collect(),
        })
    }

    /// Kind and name, as people say it: `bin photo`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind.name(), self.name)
    }

    /// The name as code writes it.
    pub(crate) fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// A package.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// The package as cargo's options take it: `path+file:///a#1.0.0`.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    pub(crate) targets: Vec<Target>,
    /// Direct dependencies: the package's name, and the name that code uses.
    pub(crate) dependencies: Vec<(String, String)>,
}

impl Package {
    fn from_json(package: &Value) -> Option<Self> {
        let dependencies = package.get("dependencies").items().iter().filter_map(|dependency| {
            let name = dependency.get("name").text()?;
            let used = dependency.get("rename").text().unwrap_or(name).replace('-', "_");
            Some((name.to_owned(), used))
        });
        Some(Self {
            id: package.get("id").text()?.to_owned(),
            name: package.get("name").text()?.to_owned(),
            manifest: package.get("manifest_path").text()?.into(),
            dependencies: dependencies.collect(),
            targets: package.get("targets").items().iter().filter_map(Target::from_json).collect(),
        })
    }
}

/// A workspace and its members.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) members: Vec<Package>,
    /// Ids of the members that cargo builds when none is named.
    pub(crate) default_members: Vec<String>,
}

impl Workspace {
    /// From what `cargo metadata --no-deps` prints.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let metadata = Value::parse(text)?;
        Some(Self {
            root: metadata.get("workspace_root").text()?.into(),
            default_members: metadata.get("workspace_default_members").texts().map(str::to_owned).collect(),
            members: metadata.get("packages").items().iter().map(Package::from_json).collect::<Option<_>>()?,
        })
    }

    /// The member with this manifest.
    pub(crate) fn member(&self, manifest: &Path) -> Option<&Package> {
        self.members.iter().find(|package| same_file(&package.manifest, manifest))
    }
}

/// Whether two paths lead to one file.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

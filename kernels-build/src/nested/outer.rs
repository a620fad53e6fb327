//! The cargo that runs the build script: where it was started, and with which arguments.

use super::package::{Workspace, same_file};
use std::path::{Path, PathBuf};

/// A running cargo, as the system describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outer {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Its arguments, without what it passes on to the program.
    pub(crate) arguments: Vec<String>,
}

impl Outer {
    /// The nearest ancestor of this process that is cargo; `None` where the system does not say.
    pub(crate) fn find() -> Option<Self> {
        let mut process = std::os::unix::process::parent_id();
        for _ in 0..8 {
            let root = PathBuf::from(format!("/proc/{process}"));
            let program = std::fs::read_link(root.join("exe")).ok()?;
            if program.file_stem().is_some_and(|name| name == "cargo") {
                let line = std::fs::read(root.join("cmdline")).ok()?;
                let folder = std::fs::read_link(root.join("cwd")).ok()?;
                return Some(Self::new(folder, &line));
            }
            let status = std::fs::read_to_string(root.join("status")).ok()?;
            process = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        }
        None
    }

    fn new(folder: PathBuf, line: &[u8]) -> Self {
        let arguments = line.split(|&byte| byte == 0).skip(1).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let arguments = arguments.take_while(|argument| argument != "--").filter(|argument| !argument.is_empty());
        Self { folder, arguments: arguments.collect() }
    }

    /// Values of an option, given as `--name value` or `--name=value`, or as `-x value` or `-xvalue` by a short name.
    pub(crate) fn values(&self, name: &str, short: Option<&str>) -> Vec<String> {
        let mut found = Vec::new();
        let mut rest = self.arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == name || Some(argument.as_str()) == short {
                found.extend(rest.next().cloned());
            } else if let Some(value) = argument.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
                found.push(value.to_owned());
            } else if let Some(value) = short.and_then(|short| argument.strip_prefix(short)) {
                found.push(value.trim_start_matches('=').to_owned());
            }
        }
        found
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument == name)
    }

    /// Options that select the same members and features as it was told to build.
    pub(crate) fn selection(&self, workspace: &Workspace) -> Vec<String> {
        let mut packages = self.values("--package", Some("-p"));
        if self.has("--workspace") || self.has("--all") {
            let excluded = self.values("--exclude", None);
            let left = workspace.members.iter().filter(|member| !excluded.contains(&member.name));
            packages = left.map(|member| member.id.clone()).collect();
        } else if packages.is_empty() {
            let manifest = self.manifest().unwrap_or_default();
            let is_root = same_file(&manifest, &workspace.root.join("Cargo.toml"));
            packages = match workspace.member(&manifest) {
                Some(member) if !is_root => vec![member.id.clone()],
                _ => workspace.default_members.clone(),
            };
        }
        let mut options: Vec<String> = packages.into_iter().map(|package| format!("--package={package}")).collect();
        options.extend(self.values("--features", Some("-F")).into_iter().map(|list| format!("--features={list}")));
        let flags = ["--all-features", "--no-default-features"].into_iter().filter(|flag| self.has(flag));
        options.extend(flags.map(str::to_owned));
        options
    }

    /// The manifest it was started on: named, or the nearest one upwards.
    pub(crate) fn manifest(&self) -> Option<PathBuf> {
        if let Some(named) = self.values("--manifest-path", None).pop() {
            return Some(self.folder.join(named));
        }
        if let Some(named) = self.values("--path", None).pop() {
            return Some(self.folder.join(named).join("Cargo.toml"));
        }
        let upwards = self.folder.ancestors().map(|folder| folder.join("Cargo.toml"));
        upwards.into_iter().find(|path| path.is_file())
    }

    /// Configuration files that hold for it.
    pub(crate) fn config_files(folder: &Path) -> Vec<PathBuf> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let folders = folder.ancestors().map(|folder| folder.join(".cargo")).chain(home);
        let files = folders.flat_map(|folder| [folder.join("config.toml"), folder.join("config")]);
        files.filter(|path| path.is_file()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_every_spelling() {
        let line =
            b"cargo\0run\0--config\0a=1\0--config=b=2\0-Fx,y\0-F\0z\0--features=w\0--offline\0--\0--config\0c=3\0";
        let outer = Outer::new("/w".into(), line);
        assert_eq!(outer.values("--config", None), ["a=1", "b=2"]);
        assert_eq!(outer.values("--features", Some("-F")), ["x,y", "z", "w"]);
        assert!(outer.has("--offline") && !outer.has("--locked"));
    }

    #[test]
    fn members_and_features_are_selected_again() {
        let workspace = |root: &str| {
            let member = |name: &str| {
                format!(
                    r#"{{"id":"{name}-id","name":"{name}","manifest_path":"{root}/{name}/Cargo.toml","targets":[],
                        "dependencies":[]}}"#
                )
            };
            let text = format!(
                r#"{{"workspace_root":"{root}","workspace_default_members":["a-id"],"packages":[{},{}]}}"#,
                member("a"),
                member("b")
            );
            Workspace::from_json(&text).expect("as cargo prints it")
        };
        let cases: [(&[u8], &[&str]); 5] = [
            (b"cargo\0build\0", &["--package=a-id"]),
            (b"cargo\0build\0-pb\0-F\0x,y\0", &["--package=b", "--features=x,y"]),
            (b"cargo\0build\0--workspace\0--exclude\0a\0--all-features\0", &["--package=b-id", "--all-features"]),
            (b"cargo\0build\0--manifest-path=/w/b/Cargo.toml\0", &["--package=b-id"]),
            (b"cargo\0run\0--no-default-features\0--\0-p\0b\0", &["--package=a-id", "--no-default-features"]),
        ];
        for (line, options) in cases {
            let outer = Outer::new("/w".into(), line);
            assert_eq!(outer.selection(&workspace("/w")), options, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn tests_are_run_by_some_cargo_or_none() {
        if let Some(outer) = Outer::find() {
            assert!(outer.folder.is_absolute(), "{outer:?}");
        }
    }
}

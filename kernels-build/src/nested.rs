//! The nested build: one `cargo check` of the package that writes bitcode for its targets and all they depend on.

mod copy;
mod depinfo;
mod lockfile;
mod outer;
mod package;
mod scan;

pub(crate) use package::{Kind, Target};

use crate::json::Value;
use crate::wrapper::{self, Purpose};
use depinfo::DepInfo;
use outer::Outer;
use package::{Package, Workspace, same_file};
use scan::{Sources, Words};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Set for everything that the nested cargo starts: its build scripts return at once.
pub(crate) const NESTED: &str = "WARPSMITH_NESTED";

/// A folder for nested builds in place of each package's own; packages that share one compile dependencies once.
pub(crate) const TARGET_DIR: &str = "WARPSMITH_TARGET_DIR";

/// Why the nested build did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NestedError {
    /// A variable that cargo gives to build scripts is missing.
    #[error("the environment variable {name} is not set: kernels are compiled from a build script that cargo runs")]
    NoVariable {
        /// The variable.
        name: &'static str,
    },
    /// `OUT_DIR` does not look like one of cargo's.
    #[error("the profile cannot be read from OUT_DIR: {path} is not .../PROFILE/build/PACKAGE/out")]
    NoProfile {
        /// `OUT_DIR`.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("cannot access {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Cargo could not be started.
    #[error("cannot start `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Cargo failed for a reason that is no compiler error.
    #[error("compiling kernels with `{command}` failed ({status}):\n{stderr}")]
    Cargo {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// Cargo's description of the package was not understood.
    #[error("`{command}` does not describe the package {manifest}:\n{stdout}")]
    Metadata {
        /// The command line.
        command: String,
        /// The package.
        manifest: PathBuf,
        /// What it printed.
        stdout: String,
    },
}

/// A compiled target.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) target: Target,
    /// Whether it is the target's unit tests.
    pub(crate) is_unit_test: bool,
    /// Its bitcode, or rustc's message.
    pub(crate) outcome: Result<Bitcode, String>,
}

impl Unit {
    /// The target's kind and name, and whether it is its unit tests.
    pub(crate) fn title(&self) -> String {
        format!("{}{}", self.target.title(), if self.is_unit_test { " (unit tests)" } else { "" })
    }
}

/// A target's bitcode.
#[derive(Clone, Debug)]
pub(crate) struct Bitcode {
    pub(crate) path: PathBuf,
    /// Bitcode of the crates it depends on.
    pub(crate) dependencies: Vec<PathBuf>,
    /// Those of them that are local, whose sources change with the package.
    pub(crate) local: Vec<PathBuf>,
}

/// What the nested build gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) units: Vec<Unit>,
    /// The root files of all targets of the package, relative to it; not of a copy, which may lack some.
    pub(crate) targets: Option<BTreeSet<PathBuf>>,
    /// What is worth telling the user.
    pub(crate) warnings: Vec<String>,
    /// Files that the result depends on.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Environment variables that the result depends on.
    pub(crate) variables: BTreeSet<String>,
}

/// Where the build script runs: what cargo told it.
#[derive(Clone)]
pub(crate) struct Site {
    cargo: PathBuf,
    /// Whether `manifest` belongs to a copy in `out_dir`.
    is_copy: bool,
    manifest: PathBuf,
    pub(crate) out_dir: PathBuf,
    pub(crate) target: String,
    features: BTreeSet<String>,
    profile: String,
    name: String,
    version: String,
    outer: Option<Outer>,
    purpose: Purpose,
}

impl Site {
    /// Reads the build script's environment.
    pub(crate) fn from_env() -> Result<Self, NestedError> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).ok_or(NestedError::NoVariable { name });
        let out_dir = variable("OUT_DIR")?;
        let features = std::env::var("CARGO_CFG_FEATURE").unwrap_or_default();
        Ok(Self {
            cargo: variable("CARGO")?,
            is_copy: false,
            manifest: variable("CARGO_MANIFEST_DIR")?.join("Cargo.toml"),
            target: variable("TARGET")?.to_string_lossy().into_owned(),
            features: features.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect(),
            profile: profile(&out_dir).ok_or_else(|| NestedError::NoProfile { path: out_dir.clone() })?,
            name: variable("CARGO_PKG_NAME")?.to_string_lossy().into_owned(),
            version: variable("CARGO_PKG_VERSION")?.to_string_lossy().into_owned(),
            outer: Outer::find(),
            purpose: Purpose::Device,
            out_dir,
        })
    }

    /// The same build, made for the checker.
    pub(crate) fn checked(&self) -> Self {
        Self { purpose: Purpose::Checked, ..self.clone() }
    }

    /// Compiles the package's targets that may hold kernels.
    pub(crate) fn build(&self) -> Result<Outcome, NestedError> {
        match self.build_in_place() {
            // What cargo unpacks to package or install it has no lock, or lies in a workspace that does not know it.
            Err(NestedError::Cargo { .. }) if !self.is_copy && self.has_no_home() => self.copied()?.build_in_place(),
            result => result,
        }
    }

    /// Whether the package has no lock that is right, or no workspace.
    fn has_no_home(&self) -> bool {
        let mut command = self.cargo("metadata");
        command.args(["--format-version=1", "--offline", "--locked", "--manifest-path"]).arg(&self.manifest);
        // Packages that have not been fetched are another matter.
        command.output().is_ok_and(|output| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            !output.status.success() && (stderr.contains("--locked") || stderr.contains("workspace"))
        })
    }

    /// The package copied into `OUT_DIR`, as a workspace of its own.
    fn copied(&self) -> Result<Self, NestedError> {
        let from = self.manifest.parent().unwrap_or(Path::new("")).to_owned();
        let folder = self.out_dir.join("warpsmith-source");
        let failed = |path: &Path, source| NestedError::Io { path: path.to_owned(), source };
        copy::package(&from, &folder).map_err(|source| failed(&folder, source))?;
        let manifest = folder.join("Cargo.toml");
        Ok(Self { manifest, is_copy: true, ..self.clone() })
    }

    fn build_in_place(&self) -> Result<Outcome, NestedError> {
        let (workspace, is_member) = self.workspace()?;
        let package = match workspace.member(&self.manifest) {
            Some(package) => package.clone(),
            None => self.describe(&self.manifest)?.1,
        };
        let mut outcome = Outcome::default();
        self.watch(&workspace, &package, is_member, &mut outcome);
        if !self.is_copy {
            let root = package.manifest.parent().unwrap_or(Path::new(""));
            let relative = |target: &Target| target.source.strip_prefix(root).unwrap_or(&target.source).to_owned();
            outcome.targets = Some(package.targets.iter().map(relative).collect());
        }
        let lock = std::fs::read_to_string(workspace.root.join("Cargo.lock")).unwrap_or_default();
        let words = Words::new(&package, &lockfile::dependents(&lock, "warpsmith"));
        let wanted = self.wanted(&package, is_member, &words, &mut outcome);
        if wanted.is_empty() {
            // Cargo would run the script for every build.
            outcome.files.retain(|file| file.exists());
            return Ok(outcome);
        }
        let selection = if is_member { Selection::Member } else { Selection::Dependency };
        let mut run = self.check(&workspace, &package, &selection, &wanted)?;
        if !is_member && self.features_in(&run).is_some_and(|features| features != self.features) {
            // The outer cargo was told which features to build, so the nested one must choose the same members.
            let selection = self.outer.as_ref().map(|outer| outer.selection(&workspace)).unwrap_or_default();
            if !selection.is_empty() {
                run = self.check(&workspace, &package, &Selection::AsOuter(selection), &wanted)?;
            }
        }
        self.collect(&workspace, &package, &wanted, &run, &mut outcome);
        Ok(outcome)
    }

    /// The features that the package's library was compiled with.
    fn features_in(&self, run: &Run) -> Option<BTreeSet<String>> {
        let artifacts = run.messages.iter().filter(|message| message.get("reason").text() == Some("compiler-artifact"));
        let mut artifacts = artifacts.filter_map(|message| Artifact::from_json(String::new(), message));
        let ours =
            |artifact: &Artifact| artifact.target.kind == Kind::Lib && same_file(&artifact.manifest, &self.manifest);
        artifacts.find(ours).map(|artifact| artifact.features)
    }

    /// The workspace that is being built, and whether the package is a member of it.
    fn workspace(&self) -> Result<(Workspace, bool), NestedError> {
        let outer = self.outer.as_ref().filter(|_| !self.is_copy).and_then(Outer::manifest);
        if let Some(manifest) = outer.filter(|manifest| !same_file(manifest, &self.manifest)) {
            // A manifest that cargo cannot read here was not what the outer cargo was started on.
            if let Ok(workspace) = self.metadata(&manifest) {
                let is_member = workspace.member(&self.manifest).is_some();
                if is_member || self.is_dependency_of(&workspace) {
                    return Ok((workspace, is_member));
                }
            }
        }
        let (workspace, _) = self.describe(&self.manifest)?;
        Ok((workspace, true))
    }

    /// Whether a workspace's lock has our package, and from the same place.
    fn is_dependency_of(&self, workspace: &Workspace) -> bool {
        let mut command = self.cargo("pkgid");
        command.args(["--offline", "--locked", "--manifest-path"]).arg(workspace.root.join("Cargo.toml"));
        let Ok(output) = command.arg(self.spec()).output() else { return false };
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let folder = self.manifest.parent().unwrap_or(Path::new(""));
        match id.strip_prefix("path+file://") {
            Some(path) => same_file(Path::new(path.split('#').next().unwrap_or_default()), folder),
            None => output.status.success() && !id.is_empty(),
        }
    }

    /// The package as cargo's options take it.
    fn spec(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// The workspace of a manifest, and the package.
    fn describe(&self, manifest: &Path) -> Result<(Workspace, Package), NestedError> {
        let workspace = self.metadata(manifest)?;
        let package = workspace.member(manifest).cloned().ok_or_else(|| NestedError::Metadata {
            command: "cargo metadata".into(),
            manifest: manifest.to_owned(),
            stdout: format!("{workspace:?}"),
        })?;
        Ok((workspace, package))
    }

    fn metadata(&self, manifest: &Path) -> Result<Workspace, NestedError> {
        let mut command = self.cargo("metadata");
        command.args(["--format-version=1", "--no-deps", "--offline", "--manifest-path"]).arg(manifest);
        let line = format!("{command:?}");
        let output = command.output().map_err(|source| NestedError::Start { command: line.clone(), source })?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(NestedError::Cargo { command: line, status: output.status, stderr });
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        Workspace::from_json(&stdout).ok_or_else(|| NestedError::Metadata {
            command: line,
            manifest: manifest.to_owned(),
            stdout: stdout.into_owned(),
        })
    }

    /// A cargo with the environment and configuration of the outer one.
    fn cargo(&self, name: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command.arg(name).stdin(Stdio::null());
        for (variable, _) in std::env::vars_os() {
            if variable.to_str().is_some_and(is_for_scripts) {
                command.env_remove(&variable);
            }
        }
        command.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER");
        command.env(NESTED, "1");
        if let Some(outer) = &self.outer {
            // Cargo looks for its configuration upwards from where it is started.
            command.current_dir(&outer.folder);
            let ours = |config: &str| config.contains("build-dir") || config.contains("target-dir");
            for config in outer.values("--config", None).iter().filter(|config| !ours(config)) {
                command.arg("--config").arg(config);
            }
        }
        command
    }

    /// The targets to compile, each with whether its unit tests are wanted as well.
    fn wanted(&self, package: &Package, is_member: bool, words: &Words, outcome: &mut Outcome) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for target in &package.targets {
            // A dependency's other targets are not built, and what they need may not be there.
            if !is_member && target.kind != Kind::Lib {
                continue;
            }
            let sources = Sources::read(target, words);
            outcome.files.extend(sources.files.iter().cloned());
            let is_enabled = target.required_features.iter().all(|feature| self.features.contains(feature));
            if is_enabled && sources.hold_kernels() {
                let has_tests = matches!(target.kind, Kind::Lib | Kind::Bin);
                let unit_tests = is_member && has_tests && sources.tests_hold_kernels();
                wanted.push(Wanted { target: target.clone(), unit_tests });
            }
        }
        wanted
    }

    /// Notes what decides about the nested build besides sources.
    fn watch(&self, workspace: &Workspace, package: &Package, is_member: bool, outcome: &mut Outcome) {
        let folder = self.manifest.parent().unwrap_or(Path::new(""));
        if self.is_copy {
            let original = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
            outcome.files.extend(["Cargo.toml", "build.rs", "src"].map(|name| original.join(name)));
        }
        outcome.files.extend([workspace.root.join("Cargo.toml"), workspace.root.join("Cargo.lock")]);
        outcome.files.extend([self.manifest.clone(), package.manifest.clone(), folder.join("build.rs")]);
        if is_member {
            // A new file there is a new target, and so is one in a new `src/bin`. Of the others that do not exist yet the macros tell.
            outcome.files.extend(["src", "examples", "tests", "benches"].map(|name| folder.join(name)));
        }
        outcome.files.extend(Outer::config_files(self.started_in()));
        outcome.variables.extend(["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_INCREMENTAL"].map(str::to_owned));
        let profile = self.profile.to_uppercase().replace('-', "_");
        for option in ["OPT_LEVEL", "DEBUG_ASSERTIONS", "OVERFLOW_CHECKS", "PANIC", "INHERITS"] {
            outcome.variables.insert(format!("CARGO_PROFILE_{profile}_{option}"));
        }
    }

    /// The folder of the nested build: one for each set of our flags, which cargo does not see.
    fn target_dir(&self) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (wrapper::FLAGS, wrapper::LINES, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        let shared = std::env::var_os(TARGET_DIR).filter(|path| !path.is_empty()).map(PathBuf::from);
        let folder = shared.map_or_else(|| self.out_dir.clone(), |path| self.started_in().join(path));
        folder.join(format!("warpsmith-{:016x}", hasher.finish()))
    }

    /// Where the outer cargo was started; paths in its variables are relative to it.
    fn started_in(&self) -> &Path {
        self.outer.as_ref().map_or_else(|| self.manifest.parent().unwrap_or(Path::new("")), |outer| &outer.folder)
    }

    fn check(
        &self,
        workspace: &Workspace,
        package: &Package,
        selection: &Selection,
        wanted: &[Wanted],
    ) -> Result<Run, NestedError> {
        let mut arguments: Vec<String> = Vec::new();
        for Wanted { target, .. } in wanted {
            match target.kind {
                Kind::Lib => arguments.push("--lib".into()),
                kind => arguments.extend([format!("--{}", kind.name()), target.name.clone()]),
            }
        }
        if wanted.iter().any(|wanted| wanted.unit_tests) {
            arguments.push("--tests".into());
        }
        let mut needed = BTreeSet::new();
        match selection {
            Selection::Member => {
                arguments.extend(["--package".into(), package.id.clone(), "--no-default-features".into()]);
                arguments.push(format!("--features={}", self.features.iter().cloned().collect::<Vec<_>>().join(",")));
            }
            Selection::Dependency => arguments.extend(["--package".into(), self.spec()]),
            Selection::AsOuter(selection) => {
                arguments.extend(["--package".into(), self.spec()]);
                arguments.extend(selection.iter().cloned());
                let lock = std::fs::read_to_string(workspace.root.join("Cargo.lock")).unwrap_or_default();
                needed = lockfile::dependencies(&lock, &self.name);
            }
        }
        let is_member = matches!(selection, Selection::Member);
        let manifest = if is_member { package.manifest.clone() } else { workspace.root.join("Cargo.toml") };
        let tests: Vec<&Path> = wanted
            .iter()
            .filter(|wanted| wanted.unit_tests || matches!(wanted.target.kind, Kind::Test | Kind::Bench))
            .map(|wanted| wanted.target.source.as_path())
            .collect();
        let start = |offline: bool| {
            let mut command = self.cargo("check");
            command.args(["--message-format=json", "--keep-going", "--profile", &self.profile]);
            command.args((!self.is_copy).then_some("--locked"));
            command.arg("--target").arg(&self.target).arg("--target-dir").arg(self.target_dir());
            command.arg("--manifest-path").arg(&manifest).args(&arguments);
            // A build folder set in the user's configuration is locked by the outer cargo.
            command.env("CARGO_BUILD_BUILD_DIR", self.target_dir());
            if offline {
                command.arg("--offline");
            }
            let path =
                wrapper::executable().map_err(|source| NestedError::Io { path: "/proc/self/exe".into(), source })?;
            command.env("RUSTC_WRAPPER", path).env(wrapper::MARK, "1").env_remove(wrapper::CHECKED);
            if self.purpose == Purpose::Checked {
                command.env(wrapper::CHECKED, "1").arg("--config").arg(self.other_device_crate());
            }
            command.env(wrapper::PACKAGE, package.manifest.parent().unwrap_or(Path::new("")));
            command.env(wrapper::TESTS, std::env::join_paths(&tests).unwrap_or_default());
            if !needed.is_empty() {
                command.env(wrapper::NEEDED, needed.iter().cloned().collect::<Vec<_>>().join(","));
            }
            Run::start(command)
        };
        let run = start(true)?;
        if !run.lacks_packages() || self.is_offline() {
            return run.checked();
        }
        // Dependencies of tests and examples may not have been fetched yet.
        start(false)?.checked()
    }

    /// A setting that makes cargo take the device crate, and so all that depend on it, for others than those compiled for the
    /// device, in the same folder; what does not depend on it is compiled once for both. The number itself has no effect:
    /// the wrapper sets its own.
    fn other_device_crate(&self) -> String {
        format!("profile.{:?}.package.warpsmith-device.codegen-units=173", self.profile)
    }

    fn is_offline(&self) -> bool {
        let by_option = self.outer.as_ref().is_some_and(|outer| outer.has("--offline") || outer.has("--frozen"));
        by_option || std::env::var("CARGO_NET_OFFLINE").is_ok_and(|value| value == "true")
    }

    /// Sorts cargo's messages into compiled units, errors, and what they depend on.
    fn collect(&self, workspace: &Workspace, package: &Package, wanted: &[Wanted], run: &Run, outcome: &mut Outcome) {
        let mut artifacts: Vec<Artifact> = Vec::new();
        let mut errors: BTreeMap<(String, Kind, String), Vec<String>> = BTreeMap::new();
        let mut local_scripts: Vec<(String, PathBuf)> = Vec::new();
        for message in &run.messages {
            let id = message.get("package_id").text().unwrap_or_default().to_owned();
            match message.get("reason").text() {
                Some("compiler-artifact") => artifacts.extend(Artifact::from_json(id, message)),
                Some("compiler-message") if message.get("message").get("level").text() == Some("error") => {
                    let Some(target) = Target::from_json(message.get("target")) else { continue };
                    let text = message.get("message").get("rendered").text().unwrap_or_default().to_owned();
                    let texts = errors.entry((id, target.kind, target.name)).or_default();
                    if !texts.contains(&text) {
                        texts.push(text);
                    }
                }
                Some("build-script-executed") if id.starts_with("path+") => {
                    local_scripts.extend(message.get("out_dir").text().map(|path| (id, path.into())));
                }
                _ => {}
            }
        }
        let is_ours = |artifact: &&Artifact| same_file(&artifact.manifest, &self.manifest);
        let bitcode_of = |artifact: &Artifact| artifact.bitcode.clone().filter(|path| path.is_file());
        let libraries: Vec<(&Artifact, PathBuf)> = artifacts
            .iter()
            .filter(|artifact| artifact.target.kind == Kind::Lib && !artifact.is_test)
            .filter_map(|artifact| Some((artifact, bitcode_of(artifact)?)))
            .collect();
        let mut foreign = BTreeSet::new();
        for Wanted { target, unit_tests } in wanted {
            let is_test_kind = matches!(target.kind, Kind::Test | Kind::Bench);
            for is_unit_test in [false, true] {
                if is_unit_test && !unit_tests {
                    continue;
                }
                let found = artifacts.iter().filter(is_ours).find(|artifact| {
                    let is_same = artifact.target.kind == target.kind && artifact.target.name == target.name;
                    is_same && artifact.is_test == (is_unit_test || is_test_kind)
                });
                let outcome_of = match found.and_then(bitcode_of) {
                    Some(path) => {
                        let others = libraries.iter().filter(|(_, library)| *library != path);
                        let is_local = |artifact: &Artifact| artifact.id.starts_with("path+");
                        Ok(Bitcode {
                            dependencies: others.clone().map(|(_, path)| path.clone()).collect(),
                            local: others.filter(|(a, _)| is_local(a)).map(|(_, path)| path.clone()).collect(),
                            path,
                        })
                    }
                    None => {
                        // Errors in this package show in its own build, those of a dependency perhaps only in ours.
                        if let Some((_, _, name)) = errors.keys().find(|(id, ..)| *id != package.id) {
                            foreign.insert(name.clone());
                        }
                        let own = errors.get(&(package.id.clone(), target.kind, target.name.clone()));
                        let texts = own.cloned().unwrap_or_else(|| errors.values().flatten().cloned().collect());
                        Err(if texts.is_empty() { run.stderr.clone() } else { texts.join("\n") })
                    }
                };
                outcome.units.push(Unit { target: target.clone(), is_unit_test, outcome: outcome_of });
            }
        }
        outcome.warnings.extend(foreign.into_iter().map(|name| {
            format!(
                "kernels were not compiled, because the crate {name} has errors when it is built for {}",
                self.purpose.name()
            )
        }));
        let used = libraries.iter().map(|(artifact, _)| *artifact).find(|artifact| is_ours(artifact));
        if let Some(artifact) = used.filter(|artifact| artifact.features != self.features) {
            outcome.warnings.push(format!(
                "the kernels of this package were compiled with the features {:?} instead of {:?}: the workspace at {} \
                 chooses others",
                artifact.features,
                self.features,
                workspace.root.display()
            ));
        }
        self.depend(workspace, wanted, &artifacts, &local_scripts, outcome);
    }

    /// Notes the files and variables that the local crates of the nested build were made from.
    fn depend(
        &self,
        workspace: &Workspace,
        wanted: &[Wanted],
        artifacts: &[Artifact],
        scripts: &[(String, PathBuf)],
        outcome: &mut Outcome,
    ) {
        let mut infos: BTreeSet<(PathBuf, PathBuf)> = BTreeSet::new();
        for artifact in artifacts.iter().filter(|artifact| artifact.id.starts_with("path+")) {
            let root = artifact.manifest.parent().unwrap_or(Path::new("")).to_owned();
            outcome.files.insert(artifact.manifest.clone());
            infos.extend(artifact.dep_info.clone().map(|path| (path, root)));
        }
        // A target with an error has no artifact, but often a dep-info.
        let own = self.manifest.parent().unwrap_or(Path::new("")).to_owned();
        let deps = self.target_dir().join(&self.target).join(profile_dir(&self.profile)).join("deps");
        for path in std::fs::read_dir(&deps).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_wanted = |wanted: &Wanted| name.starts_with(&format!("{}-", wanted.target.crate_name()));
            if name.ends_with(".d") && wanted.iter().any(is_wanted) {
                infos.insert((path, own.clone()));
            }
        }
        for (path, root) in infos {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let info = DepInfo::parse(&text);
            // Relative to where the compiler ran: the workspace for its members, else the package.
            let resolve = |file: PathBuf| [&workspace.root, &root].map(|base| base.join(&file));
            let files = info.files.into_iter().filter_map(|file| resolve(file).into_iter().find(|path| path.exists()));
            outcome.files.extend(files);
            outcome.variables.extend(info.variables);
        }
        for (id, out_dir) in scripts {
            let root = artifacts.iter().find(|artifact| artifact.id == *id).and_then(|found| found.manifest.parent());
            let (Some(root), Some(folder)) = (root, out_dir.parent()) else { continue };
            let Ok(text) = std::fs::read_to_string(folder.join("output")) else { continue };
            for line in text.lines().filter_map(|line| line.strip_prefix("cargo:")) {
                let line = line.trim_start_matches(':');
                if let Some(path) = line.strip_prefix("rerun-if-changed=") {
                    outcome.files.insert(root.join(path));
                } else if let Some(variable) = line.strip_prefix("rerun-if-env-changed=") {
                    outcome.variables.insert(variable.to_owned());
                }
            }
        }
        let is_ours = |name: &String| name.starts_with("WARPSMITH_RUSTC") || name == NESTED;
        outcome.variables.retain(|name| !is_ours(name));
        // What the nested build makes itself is always newer than the build script's start.
        let made = [self.out_dir.clone(), self.target_dir()];
        outcome.files.retain(|file| file.exists() && !made.iter().any(|folder| file.starts_with(folder)));
    }
}

/// How the nested cargo is told what to compile.
#[derive(Debug)]
enum Selection {
    /// A member of the workspace, with the features that the outer cargo gave it.
    Member,
    /// A dependency, with the features that the workspace asks for by default.
    Dependency,
    /// A dependency, and beside it the members and features that the outer cargo was told to build.
    AsOuter(Vec<String>),
}

/// A target that is to be compiled.
#[derive(Clone, Debug)]
struct Wanted {
    target: Target,
    unit_tests: bool,
}

/// A crate that was compiled, now or before.
#[derive(Debug)]
struct Artifact {
    id: String,
    manifest: PathBuf,
    target: Target,
    is_test: bool,
    features: BTreeSet<String>,
    bitcode: Option<PathBuf>,
    dep_info: Option<PathBuf>,
}

impl Artifact {
    fn from_json(id: String, message: &Value) -> Option<Self> {
        let metadata = message
            .get("filenames")
            .texts()
            .map(Path::new)
            .find(|path| path.extension().is_some_and(|extension| extension == "rmeta"));
        // `libNAME-HASH.rmeta` lies beside `NAME-HASH.bc` and `NAME-HASH.d`.
        let beside = |extension: &str| {
            let metadata = metadata?;
            let stem = metadata.file_stem()?.to_str()?.strip_prefix("lib")?;
            Some(metadata.with_file_name(format!("{stem}.{extension}")))
        };
        Some(Self {
            id,
            manifest: message.get("manifest_path").text()?.into(),
            target: Target::from_json(message.get("target"))?,
            is_test: message.get("profile").get("test").is_true(),
            features: message.get("features").texts().map(str::to_owned).collect(),
            bitcode: beside("bc"),
            dep_info: beside("d"),
        })
    }
}

/// A finished nested cargo.
struct Run {
    command: String,
    messages: Vec<Value>,
    stderr: String,
    status: std::process::ExitStatus,
}

impl Run {
    fn start(mut command: Command) -> Result<Self, NestedError> {
        let line = format!("{command:?}");
        let failed = |source| NestedError::Start { command: line.clone(), source };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let errors = child.stderr.take().expect("stderr is piped");
        // Read beside the messages, so that neither pipe fills up; passed on, so that progress is seen.
        let errors = std::thread::spawn(move || {
            let (mut reader, mut text, mut buffer) = (errors, Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                text.extend_from_slice(&buffer[..count]);
                let _ = std::io::stderr().write_all(&buffer[..count]);
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let messages = output.lines().map_while(Result::ok).filter_map(|line| Value::parse(&line)).collect();
        let status = child.wait().map_err(failed)?;
        let stderr = errors.join().unwrap_or_default();
        Ok(Self { command: line.clone(), messages, stderr, status })
    }

    /// Whether it stopped because packages are not on this machine yet.
    fn lacks_packages(&self) -> bool {
        !self.status.success() && self.messages.is_empty() && self.stderr.contains("offline")
    }

    /// An error when it failed without having compiled anything.
    fn checked(self) -> Result<Self, NestedError> {
        let is_compilers = |message: &Value| {
            let level = message.get("message").get("level").text();
            level == Some("error") || message.get("reason").text() == Some("compiler-artifact")
        };
        if self.status.success() || self.messages.iter().any(is_compilers) {
            return Ok(self);
        }
        Err(NestedError::Cargo { command: self.command, status: self.status, stderr: self.stderr })
    }
}

/// Whether a variable is what cargo gives to one build script and not to the compiler or to other cargos.
fn is_for_scripts(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "DEBUG",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "RUSTC_LINKER",
        "TARGET",
        "CARGO_BUILD_TARGET",
        "CARGO_BUILD_TARGET_DIR",
        "CARGO_CRATE_NAME",
        "CARGO_BIN_NAME",
        "CARGO_PRIMARY_PACKAGE",
        "CARGO_TARGET_DIR",
        "CARGO_TARGET_TMPDIR",
    ];
    const PREFIXES: &[&str] = &["CARGO_CFG_", "CARGO_FEATURE_", "CARGO_MANIFEST_", "CARGO_PKG_", "DEP_"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The profile's name, from `.../PROFILE/build/PACKAGE-HASH/out`.
fn profile(out_dir: &Path) -> Option<String> {
    let parts: Vec<&str> = out_dir.iter().filter_map(|part| part.to_str()).collect();
    let build = parts.iter().rposition(|part| *part == "build")?;
    let folder = *parts.get(build.checked_sub(1)?)?;
    Some(if folder == "debug" { "dev".into() } else { folder.to_owned() })
}

/// The folder of a profile.
fn profile_dir(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_from_the_folder() {
        let cases = [
            ("/w/target/debug/build/app-12/out", Some("dev")),
            ("/w/target/x86_64-unknown-linux-gnu/release/build/app-12/out", Some("release")),
            ("/w/build/target/checked-release/build/app-12/out", Some("checked-release")),
            ("/w/target/debug/build/app/12/out", Some("dev")),
            ("/w/out", None),
        ];
        for (path, name) in cases {
            assert_eq!(profile(Path::new(path)).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn scripts_variables_do_not_travel() {
        for name in ["OUT_DIR", "CARGO_CFG_UNIX", "CARGO_PKG_NAME", "DEP_Z_ROOT", "NUM_JOBS", "CARGO_MANIFEST_DIR"] {
            assert!(is_for_scripts(name), "{name}");
        }
        for name in ["PATH", "CARGO_ENCODED_RUSTFLAGS", "CARGO_HOME", "RUSTC", "RUSTUP_TOOLCHAIN", "CARGO_MAKEFLAGS"] {
            assert!(!is_for_scripts(name), "{name}");
        }
    }
}

//! Crates that tests make, build with cargo as a user would, and look into.

#![allow(dead_code, reason = "each test file uses its own part")]

use object::{Object, ObjectSection};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard};
use warpsmith_build::bundle::{self, Bundle, KernelRecord};

/// A kernel written by hand: `$body` on one number, and what the host says about overflow in it.
pub(crate) const KERNEL_MACRO: &str = r#"
macro_rules! kernel {
    ($name:ident, |$x:ident| $body:expr) => {
        pub mod $name {
            use warpsmith_device::abi::*;
            #[inline]
            pub fn body($x: u32) -> u32 { $body }
            const PARAMS: &[ParamDesc] = &[<*mut u32 as KernelParam>::DESC, <Value<u32> as KernelParam>::DESC];
            static DESC: KernelDesc = KernelDesc::new(
                stringify!($name), module_path!(), file!(), line!(), column!(), KernelOptions::NONE, PARAMS);
            unsafe extern "C-unwind" fn entry(out: *mut u32, x: ByVal<u32>) { unsafe { *out = body(x.read()) } }
            #[inline(never)]
            pub fn launch() {
                if IS_NESTED_BUILD { register_entry(entry as *const (), &DESC, "plain") }
                let panics = std::panic::catch_unwind(|| body(std::hint::black_box(u32::MAX))).is_err();
                println!("host: {} overflow={} assertions={}", stringify!($name), panics, cfg!(debug_assertions));
            }
        }
    };
}
"#;

/// Projects share folders for compiled crates, and programs there have the same names.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A folder with packages, outside of the workspace.
pub(crate) struct Project {
    _turn: MutexGuard<'static, ()>,
    /// Tells packages of one name apart, which cargo otherwise would not when they share a folder.
    version: String,
    pub(crate) root: PathBuf,
    pub(crate) target_dir: PathBuf,
    /// Whether nested builds share a folder, which saves time.
    pub(crate) shares_nested: bool,
}

impl Project {
    /// An empty folder; projects of one `group` share compiled dependencies.
    pub(crate) fn new(name: &str, group: &str) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let root = base.join("projects").join(name);
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(&root).expect("a folder for the test");
        let number = name.bytes().fold(7_u32, |hash, byte| (hash * 31 + u32::from(byte)) % 1_000_003);
        let target_dir = base.join("targets").join(group);
        Self { _turn: turn, version: format!("0.1.{number}"), root, target_dir, shares_nested: true }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Writes a file.
    pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
        self
    }

    /// Replaces text in a file.
    pub(crate) fn edit(&self, path: &str, from: &str, to: &str) -> &Self {
        let text = std::fs::read_to_string(self.path(path)).expect("the file was written before");
        assert!(text.contains(from), "{path} has no `{from}`");
        self.file(path, &text.replace(from, to))
    }

    /// A manifest and a build script for a package with kernels.
    pub(crate) fn package(&self, folder: &str, name: &str, rest: &str) -> &Self {
        let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\n{rest}\n[dependencies.warpsmith-device]\n\
             path = \"{device}\"\n[build-dependencies.warpsmith-build]\npath = \"{build}\"\n",
            version = self.version,
            device = part("kernels-device").display(),
            build = part("kernels-build").display(),
        );
        self.file(&format!("{folder}Cargo.toml"), &manifest);
        self.file(&format!("{folder}build.rs"), "fn main() { warpsmith_build::compile() }\n")
    }

    /// Source text with the kernel macro before it.
    pub(crate) fn source(&self, path: &str, text: &str) -> &Self {
        self.file(path, &format!("{KERNEL_MACRO}{text}"))
    }

    /// Runs cargo as a user's shell would, with more variables.
    pub(crate) fn cargo_in(&self, folder: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = Command::new(env!("CARGO"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_cargos = text.starts_with("CARGO") && !matches!(&*text, "CARGO_HOME" | "CARGO_NET_OFFLINE");
            if is_cargos || text.starts_with("RUSTFLAGS") || text.starts_with("WARPSMITH") || text == "RUSTC_WRAPPER" {
                command.env_remove(name);
            }
        }
        command.current_dir(self.path(folder)).args(arguments).env("CARGO_TARGET_DIR", &self.target_dir);
        command.env("WARPSMITH_ARCHITECTURES", "80").env("WARPSMITH_LIBDEVICE", "none").env("WARPSMITH_PTXAS", "none");
        command.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        if self.shares_nested {
            command.env("WARPSMITH_TARGET_DIR", self.target_dir.join("nested"));
        }
        command.envs(variables.iter().copied());
        let output = command.output().expect("cargo starts");
        Run { line: format!("{arguments:?} {variables:?}"), output }
    }

    /// Runs cargo in the project's root.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Run {
        self.cargo_in("", arguments, &[])
    }
}

/// A folder of this workspace.
pub(crate) fn part(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join(name)
}

/// A finished cargo.
pub(crate) struct Run {
    line: String,
    output: Output,
}

impl Run {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub(crate) fn text(&self) -> String {
        let stdout = self.stdout();
        let lines = stdout.lines().filter(|line| !line.starts_with("{\"reason\":\"compiler-artifact"));
        format!("cargo {}\n{}\n{}", self.line, lines.collect::<Vec<_>>().join("\n"), self.stderr())
    }

    pub(crate) fn ok(self) -> Self {
        assert!(self.output.status.success(), "failed: {}", self.text());
        self
    }

    pub(crate) fn fails(self) -> Self {
        assert!(!self.output.status.success(), "should have failed: {}", self.text());
        self
    }

    /// Crates that cargo compiled, and build scripts that it ran, under `-v`.
    pub(crate) fn started(&self) -> Vec<String> {
        let stderr = self.stderr();
        let lines = stderr.lines().map(str::trim_start).filter(|line| line.starts_with("Running `"));
        lines.map(str::to_owned).collect()
    }

    /// Executables, from `--message-format=json`: kind and name of the target, and the file.
    pub(crate) fn executables(&self) -> Vec<(String, PathBuf)> {
        let mut found = Vec::new();
        for line in self.stdout().lines().filter(|line| line.contains("\"reason\":\"compiler-artifact\"")) {
            let Some(path) = between(line, "\"executable\":\"", "\"") else { continue };
            let target = line.split("\"target\":").nth(1).expect("an artifact has a target");
            let kind = between(target, "\"kind\":[\"", "\"").expect("a kind");
            let name = between(target, "\"name\":\"", "\"").expect("a name");
            if kind != "custom-build" {
                let profile = line.split("\"profile\":").nth(1).expect("an artifact has a profile");
                let is_test = between(profile, "\"test\":", "}") == Some("true") && !matches!(kind, "test" | "bench");
                let test = if is_test { " test" } else { "" };
                found.push((format!("{kind} {name}{test}"), path.into()));
            }
        }
        found
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let rest = &text[text.find(start)? + start.len()..];
    Some(&rest[..rest.find(end)?])
}

/// The bundles that an executable carries.
pub(crate) fn bundles(executable: &Path) -> Vec<Bundle> {
    let bytes = std::fs::read(executable).expect("the executable");
    let file = object::File::parse(&*bytes).expect("an executable");
    let Some(section) = file.section_by_name(bundle::SECTION) else { return Vec::new() };
    let data = section.data().expect("the section's bytes");
    // The runtime has an empty one of its own.
    let entries = bundle::entries(data).map(|entry| entry.expect("an entry")).filter(|entry| !entry.is_empty());
    entries.map(|entry| Bundle::decode(entry).expect("a bundle")).collect()
}

/// The kernels that an executable carries.
pub(crate) fn kernels(executable: &Path) -> Vec<KernelRecord> {
    bundles(executable).into_iter().flat_map(|bundle| bundle.kernels).collect()
}

/// Names of the kernels that an executable carries.
pub(crate) fn names(executable: &Path) -> BTreeSet<String> {
    kernels(executable).into_iter().map(|kernel| kernel.key.name).collect()
}

/// Whether a kernel can panic for overflow.
pub(crate) fn checks_overflow(kernel: &KernelRecord) -> bool {
    kernel.sites.iter().any(|site| site.format.contains("overflow"))
}

//! The compiler wrapper of the nested build: the running executable itself, taken over before `main`.
//!
//! Cargo starts `RUSTC_WRAPPER` with the compiler's path as first argument. The nested build names the build script's own
//! executable there and sets [`MARK`]; an initialiser in this file then becomes the compiler before any user code runs.
//! Without the mark, or without arguments (as cargo starts build scripts), it returns at once.

mod flags;

pub(crate) use flags::{FLAGS, LINES, Purpose};

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that makes this executable a wrapper.
pub(crate) const MARK: &str = "WARPSMITH_RUSTC_WRAPPER";
/// Set where the nested build is for the checker.
pub(crate) const CHECKED: &str = "WARPSMITH_RUSTC_WRAPPER_CHECKED";
/// The folder of the package whose test targets are chosen by [`TESTS`].
pub(crate) const PACKAGE: &str = "WARPSMITH_RUSTC_WRAPPER_PACKAGE";
/// Root source files of the test targets to compile; the package's others are refused. Separated as in `PATH`.
pub(crate) const TESTS: &str = "WARPSMITH_RUSTC_WRAPPER_TESTS";

/// Names of the packages to compile, where others are only chosen for the features that they turn on.
pub(crate) const NEEDED: &str = "WARPSMITH_RUSTC_WRAPPER_NEEDED";

/// What cargo sets for build scripts, all of them, and not for the compiler; the nested build clears its own copies.
const SCRIPT_ONLY: [&str; 3] = ["HOST", "NUM_JOBS", "OPT_LEVEL"];

#[used]
#[unsafe(link_section = ".init_array")]
static TAKE_OVER: extern "C" fn() = take_over;

/// Keeps the initialiser in the executable and gives the executable's path, to be named as the wrapper.
pub(crate) fn executable() -> std::io::Result<PathBuf> {
    std::hint::black_box(&raw const TAKE_OVER);
    std::env::current_exe()
}

/// Runs before `main`: the standard library needs no set-up for what is used here.
extern "C" fn take_over() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    // Read from the system: not every C library hands arguments to initialisers.
    let Ok(bytes) = std::fs::read("/proc/self/cmdline") else { return };
    let mut arguments = bytes.split(|&byte| byte == 0).skip(1).map(|bytes| OsString::from_vec(bytes.to_vec()));
    let Some(compiler) = arguments.next().filter(|compiler| !compiler.is_empty()) else { return };
    let mut arguments: Vec<OsString> = arguments.collect();
    arguments.pop(); // What follows the last separator: nothing.
    let error = match decide(&arguments, |name| std::env::var_os(name)) {
        Decision::Pass => Command::new(&compiler).args(&arguments).exec(),
        Decision::Refuse => std::process::exit(1),
        Decision::Compile(rewritten) => compile(&compiler, &rewritten),
    };
    eprintln!("error: cannot start the compiler {}: {error}", Path::new(&compiler).display());
    std::process::exit(1)
}

/// Becomes the compiler; comes back only with an error.
fn compile(compiler: &OsStr, arguments: &[OsString]) -> std::io::Error {
    let start = |arguments: &[OsString]| Command::new(compiler).args(arguments).env("RUSTC_BOOTSTRAP", "1").exec();
    let error = start(arguments);
    if error.kind() != std::io::ErrorKind::ArgumentListTooLong {
        return error;
    }
    // Cargo meets the same limit and writes the arguments to a file; so do we, since its file was expanded.
    let lines: Vec<u8> = arguments.join(OsStr::new("\n")).into_vec();
    let path = std::env::temp_dir().join(format!("warpsmith-rustc-{}.args", std::process::id()));
    match std::fs::write(&path, lines) {
        Ok(()) => start(&[OsString::from_vec([b"@", path.into_os_string().into_vec().as_slice()].concat())]),
        Err(error) => error,
    }
}

/// What the wrapper does with one command line.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Runs it as it is: a probe, a build script, a proc macro.
    Pass,
    /// Compiles nothing: a test target that holds no kernels, a package that nothing here depends on.
    Refuse,
    /// Runs it with our flags: a crate of the program.
    Compile(Vec<OsString>),
}

fn decide(arguments: &[OsString], variable: impl Fn(&str) -> Option<OsString>) -> Decision {
    // A build script's probe inherits the script's environment, which is unlike that of cargo's own compiler processes.
    if SCRIPT_ONLY.iter().all(|name| variable(name).is_some()) {
        return Decision::Pass;
    }
    if let (Some(needed), Some(name), true) =
        (variable(NEEDED), variable("CARGO_PKG_NAME"), variable("CARGO_CRATE_NAME").is_some())
        && !needed.to_string_lossy().split(',').any(|needed| *needed == *name)
    {
        return Decision::Refuse;
    }
    let Some(arguments) = expand_argument_files(arguments) else { return Decision::Pass };
    let Some(line) = flags::CommandLine::parse(&arguments) else { return Decision::Pass };
    if variable("CARGO_CRATE_NAME").as_deref() != Some(OsStr::new(&line.crate_name)) {
        return Decision::Pass;
    }
    if line.is_test && refused(&line, &variable) {
        return Decision::Refuse;
    }
    let purpose = if variable(CHECKED).is_some() { Purpose::Checked } else { Purpose::Device };
    Decision::Compile(line.rewritten(purpose))
}

/// Whether a test target is one of the package's that were not asked for.
fn refused(line: &flags::CommandLine, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let (Some(package), Some(tests)) = (variable(PACKAGE), variable(TESTS)) else { return false };
    if variable("CARGO_MANIFEST_DIR") != Some(package) {
        return false;
    }
    let here = std::env::current_dir().unwrap_or_default();
    !std::env::split_paths(&tests).any(|wanted| line.sources.iter().any(|source| here.join(source) == wanted))
}

/// Puts the contents of `@file` arguments, which cargo uses for long command lines, in their place.
fn expand_argument_files(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let mut out = Vec::new();
    for argument in arguments {
        match argument.to_str().and_then(|argument| argument.strip_prefix('@')) {
            Some(path) => out.extend(std::fs::read_to_string(path).ok()?.lines().map(OsString::from)),
            None => out.push(argument.clone()),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(arguments: &str) -> Vec<OsString> {
        arguments.split_whitespace().map(OsString::from).collect()
    }

    const CARGO: &str = "--crate-name app --edition=2024 src/main.rs --error-format=json --json=artifacts \
                         --crate-type bin --emit=dep-info,metadata --out-dir d --target x86_64-unknown-linux-gnu";

    fn with(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn target_crates_are_compiled_with_our_flags() {
        let Decision::Compile(arguments) = decide(&os(CARGO), with(&[("CARGO_CRATE_NAME", "app")])) else {
            panic!("not compiled")
        };
        assert!(arguments.iter().any(|argument| argument == "warpsmith_device"));
    }

    #[test]
    fn probes_and_host_crates_pass() {
        let cases: [(&str, &'static [(&str, &str)]); 5] = [
            (CARGO, &[("CARGO_CRATE_NAME", "app"), ("NUM_JOBS", "2"), ("HOST", "x"), ("OPT_LEVEL", "0")]),
            (CARGO, &[]),
            (CARGO, &[("CARGO_CRATE_NAME", "other")]),
            ("-vV", &[]),
            (
                "--crate-name app src/lib.rs --error-format=json --crate-type proc-macro --emit=dep-info,link",
                &[("CARGO_CRATE_NAME", "app")],
            ),
        ];
        for (arguments, variables) in cases {
            assert_eq!(decide(&os(arguments), with(variables)), Decision::Pass, "{arguments} {variables:?}");
        }
    }

    #[test]
    fn only_needed_packages_are_compiled() {
        let variables = |needed| {
            move |name: &str| match name {
                NEEDED => Some(OsString::from(needed)),
                "CARGO_PKG_NAME" | "CARGO_CRATE_NAME" => Some("app".into()),
                _ => None,
            }
        };
        assert!(matches!(decide(&os(CARGO), variables("other,app")), Decision::Compile(_)));
        assert_eq!(decide(&os(CARGO), variables("other,apps")), Decision::Refuse);
    }

    #[test]
    fn only_wanted_tests_are_compiled() {
        let line = os(&format!("{CARGO} --test"));
        let elsewhere = with(&[("CARGO_CRATE_NAME", "app"), (PACKAGE, "/a"), (TESTS, "/w/src/main.rs")]);
        assert!(matches!(decide(&line, elsewhere), Decision::Compile(_)));
        let unwanted = with(&[
            ("CARGO_CRATE_NAME", "app"),
            ("CARGO_MANIFEST_DIR", "/a"),
            (PACKAGE, "/a"),
            (TESTS, "/elsewhere/src/main.rs"),
        ]);
        assert_eq!(decide(&line, unwanted), Decision::Refuse);
        let here = std::env::current_dir().expect("a folder").join("src/main.rs");
        let wanted = move |name: &str| match name {
            TESTS => Some(here.clone().into_os_string()),
            PACKAGE | "CARGO_MANIFEST_DIR" => Some("/a".into()),
            "CARGO_CRATE_NAME" => Some("app".into()),
            _ => None,
        };
        assert!(matches!(decide(&line, wanted), Decision::Compile(_)));
    }
}

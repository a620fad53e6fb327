//! The compiler's command line, read as cargo wrote it and rewritten for the device.

use std::ffi::OsString;

/// What is added for every crate; a change here changes the name of the nested build's folder.
///
/// JumpThreading would duplicate barriers and has no stable switch, hence `-Z`, for this one compiler process.
pub(crate) const FLAGS: &[&str] = &[
    "--check-cfg=cfg(warpsmith_device,warpsmith_checked,warpsmith_wraps,warpsmith_lto)",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Cno-prepopulate-passes",
    "-Csymbol-mangling-version=v0",
    "-Clto=off",
    "-Cembed-bitcode=no",
    "-Zmir-enable-passes=-JumpThreading",
];

/// What is added for every crate besides, by purpose: PTX takes source lines as directives, an object for the host in tables, which
/// backtraces read. It counts for the folder's name as [`FLAGS`] do.
pub(crate) const LINES: [(Purpose, &str); 2] =
    [(Purpose::Device, "-Cdebuginfo=line-directives-only"), (Purpose::Checked, "-Cdebuginfo=line-tables-only")];

/// What a nested build is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Code for GPUs.
    Device,
    /// The CPU executor's code, to be lowered once more with the checker's calls in it.
    Checked,
}

impl Purpose {
    /// As messages name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Device => "a GPU",
            Self::Checked => "the checker",
        }
    }
}

/// Codegen options that are left out: ours stand in their place, or they mean only the host's machine code.
const DROPPED_CODEGEN: &[&str] = &[
    "code-model",
    "codegen-units",
    "control-flow-guard",
    "debug-assertions",
    "debuginfo",
    "embed-bitcode",
    "force-frame-pointers",
    "incremental",
    "inline-threshold",
    "instrument-coverage",
    "link-dead-code",
    "linker-plugin-lto",
    "llvm-args",
    "lto",
    "no-prepopulate-passes",
    "no-redzone",
    "no-vectorize-loops",
    "no-vectorize-slp",
    "opt-level",
    "overflow-checks",
    "passes",
    "profile-generate",
    "profile-use",
    "relocation-model",
    "remark",
    "save-temps",
    "soft-float",
    "split-debuginfo",
    "strip",
    "symbol-mangling-version",
    "target-cpu",
];

/// Unstable options that are left out, for the same reason; each also with what follows after a `-`.
const DROPPED_UNSTABLE: &[&str] =
    &["codegen-backend", "instrument", "profile", "sanitizer", "self-profile", "share-generics", "tune-cpu"];

/// A compiler call of cargo's for a crate of the target.
#[derive(Debug)]
pub(super) struct CommandLine {
    pub(super) crate_name: String,
    pub(super) is_test: bool,
    /// Arguments that look like a source file.
    pub(super) sources: Vec<String>,
    kept: Vec<OsString>,
    emit: String,
    opt_level: String,
    debug_assertions: Option<bool>,
    overflow_checks: Option<bool>,
    /// Whether the program's crates are optimised together when it is linked.
    lto: bool,
}

impl CommandLine {
    /// Reads the arguments; `None` when they are not a call of cargo's for the target.
    pub(super) fn parse(arguments: &[OsString]) -> Option<Self> {
        let mut line = Self {
            crate_name: String::new(),
            is_test: false,
            sources: Vec::new(),
            kept: Vec::new(),
            emit: String::new(),
            opt_level: "0".into(),
            debug_assertions: None,
            overflow_checks: None,
            lto: false,
        };
        let (mut has_target, mut has_json) = (false, false);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some((name, value)) = argument.to_str().and_then(split) else {
                line.kept.push(argument.clone());
                continue;
            };
            let mut original = vec![argument.clone()];
            let value = match value {
                None if takes_value(name) => {
                    let value = rest.next()?;
                    original.push(value.clone());
                    value.to_str().map(str::to_owned)
                }
                value => value.map(str::to_owned),
            };
            let text = value.as_deref().unwrap_or_default();
            let keep = match name {
                "--crate-name" => {
                    line.crate_name = text.to_owned();
                    true
                }
                "--target" => {
                    has_target = true;
                    true
                }
                "--error-format" => {
                    has_json = text == "json";
                    true
                }
                "--test" => {
                    line.is_test = true;
                    true
                }
                "--emit" => {
                    line.emit = text.to_owned();
                    false
                }
                "-O" => {
                    line.opt_level = "3".into();
                    false
                }
                "-g" => false,
                "-C" | "--codegen" => line.keeps_codegen(text),
                "-Z" => !DROPPED_UNSTABLE.iter().any(|dropped| {
                    text.strip_prefix(dropped).is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', '-']))
                }),
                "" => {
                    line.sources.extend(text.ends_with(".rs").then(|| text.to_owned()));
                    true
                }
                _ => true,
            };
            if keep {
                line.kept.extend(original);
            }
        }
        let is_cargos = has_target && has_json && !line.crate_name.is_empty();
        let makes_a_crate = line.emit.split(',').any(|kind| matches!(kind, "metadata" | "link"));
        (is_cargos && makes_a_crate).then_some(line)
    }

    /// Takes note of a codegen option; whether it stays.
    fn keeps_codegen(&mut self, option: &str) -> bool {
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        let is_on = || matches!(value, None | Some("y" | "yes" | "on" | "true"));
        match name.as_str() {
            "opt-level" => self.opt_level = value.unwrap_or("0").to_owned(),
            "debug-assertions" => self.debug_assertions = Some(is_on()),
            "overflow-checks" => self.overflow_checks = Some(is_on()),
            "linker-plugin-lto" => self.lto = true,
            "lto" => self.lto = !matches!(value, Some("off" | "n" | "no" | "false")),
            "target-feature" => {
                // `crt-static` chooses a C library; every other one names instructions that a GPU does not have.
                let crt = value.unwrap_or_default().split(',').rfind(|feature| feature.ends_with("crt-static"));
                if let Some(crt) = crt {
                    self.kept.push(format!("-Ctarget-feature={crt}").into());
                }
                return false;
            }
            _ => {}
        }
        !DROPPED_CODEGEN.contains(&name.as_str())
    }

    /// The arguments for a nested build: full optimisation with the checks that the host's profile has; for the checker with
    /// overflow checks, and with a `cfg` where the profile has none, and where it has `lto`.
    pub(super) fn rewritten(self, purpose: Purpose) -> Vec<OsString> {
        // As rustc has it: assertions are on at level 0, and overflow checks follow the assertions.
        let debug_assertions = self.debug_assertions.unwrap_or(self.opt_level == "0");
        let overflow_checks = self.overflow_checks.unwrap_or(debug_assertions);
        let on_off = |on: bool| if on { "on" } else { "off" };
        let mut out = self.kept;
        out.push(format!("--emit={},llvm-bc", self.emit).into());
        out.extend(FLAGS.iter().map(OsString::from));
        out.extend(LINES.iter().filter(|(of, _)| *of == purpose).map(|(_, flag)| OsString::from(flag)));
        let cfgs = match purpose {
            Purpose::Device => vec!["warpsmith_device"],
            Purpose::Checked => {
                let wraps = (!overflow_checks).then_some("warpsmith_wraps");
                let lto = self.lto.then_some("warpsmith_lto");
                ["warpsmith_checked"].into_iter().chain(wraps).chain(lto).collect()
            }
        };
        out.extend(cfgs.iter().flat_map(|cfg| ["--cfg", cfg]).map(OsString::from));
        out.push(format!("-Cdebug-assertions={}", on_off(debug_assertions)).into());
        out.push(format!("-Coverflow-checks={}", on_off(overflow_checks || purpose == Purpose::Checked)).into());
        out
    }
}

/// An option's name and its value, where that is part of the argument; the name is empty for anything else.
fn split(argument: &str) -> Option<(&str, Option<&str>)> {
    for name in ["-C", "-Z", "-L", "-l", "-A", "-W", "-D", "-F"] {
        if let Some(value) = argument.strip_prefix(name) {
            return Some((name, (!value.is_empty()).then_some(value)));
        }
    }
    if argument.starts_with("--") {
        return Some(argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value))));
    }
    if argument.starts_with('-') { Some((argument, None)) } else { Some(("", Some(argument))) }
}

fn takes_value(name: &str) -> bool {
    const LONG: &[&str] = &[
        "--cap-lints",
        "--cfg",
        "--check-cfg",
        "--codegen",
        "--color",
        "--crate-name",
        "--crate-type",
        "--diagnostic-width",
        "--edition",
        "--emit",
        "--env-set",
        "--error-format",
        "--extern",
        "--json",
        "--out-dir",
        "--print",
        "--remap-path-prefix",
        "--remap-path-scope",
        "--sysroot",
        "--target",
        "--allow",
        "--warn",
        "--deny",
        "--forbid",
        "--force-warn",
        "--explain",
        "-o",
    ];
    matches!(name, "-C" | "-Z" | "-L" | "-l" | "-A" | "-W" | "-D" | "-F") || LONG.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "--crate-name app --error-format=json src/main.rs --emit=dep-info,metadata --target t";

    fn rewrite(extra: &str) -> Vec<String> {
        let arguments: Vec<OsString> = format!("{BASE} {extra}").split_whitespace().map(OsString::from).collect();
        let line = CommandLine::parse(&arguments).expect("one of cargo's");
        line.rewritten(Purpose::Device).into_iter().map(|argument| argument.into_string().expect("text")).collect()
    }

    /// What cargo passes for a profile, and the checks it means: debug assertions, overflow checks.
    #[test]
    fn checks_follow_the_profile() {
        let cases = [
            ("", "on", "on"),
            ("-C debuginfo=2", "on", "on"),
            ("-C debug-assertions=off", "off", "off"),
            ("-C debug-assertions=off -C overflow-checks=on", "off", "on"),
            ("-C overflow-checks=off", "on", "off"),
            ("-C opt-level=3", "off", "off"),
            ("-C opt-level=s -C debug-assertions=on", "on", "on"),
            ("-C opt-level=1 -C debug-assertions=on -C overflow-checks=off", "on", "off"),
            ("-C opt-level=3 -C overflow-checks=on", "off", "on"),
            ("-C opt-level=3 -Coverflow-checks", "off", "on"),
            ("-C opt-level=0", "on", "on"),
            ("-Copt_level=2", "off", "off"),
            ("-O", "off", "off"),
            ("-C opt-level=3 -C overflow-checks=on --codegen=overflow-checks=n", "off", "off"),
        ];
        for (extra, debug_assertions, overflow_checks) in cases {
            let out = rewrite(extra);
            let value = |name: &str| {
                let found: Vec<&str> = out.iter().filter_map(|argument| argument.strip_prefix(name)).collect();
                assert_eq!(found.len(), 1, "`{extra}` gives {name} once: {out:?}");
                found[0].to_owned()
            };
            assert_eq!(value("-Cdebug-assertions="), debug_assertions, "{extra}");
            assert_eq!(value("-Coverflow-checks="), overflow_checks, "{extra}");
            assert_eq!(value("-Copt-level="), "3", "{extra}");
        }
    }

    #[test]
    fn users_flags_stay() {
        let extra = "--cfg mine -C panic=abort --cfg=other -Zrandomize-layout -L dependency=/x -C link-arg=-fuse-ld=lld \
                     --extern=a=b.rmeta -C metadata=1 -C extra-filename=-2 -Dwarnings";
        let out = rewrite(extra).join(" ");
        for kept in extra.split(" -").map(|part| part.trim_start_matches('-')) {
            assert!(out.contains(kept), "{kept} is missing in {out}");
        }
        assert!(out.starts_with("--crate-name app --error-format=json src/main.rs --target t --cfg mine"), "{out}");
    }

    #[test]
    fn host_only_flags_go() {
        let extra = "-C target-cpu=native -C lto=thin -C embed-bitcode=no -C codegen-units=16 -C incremental=/i \
                     -C instrument-coverage -Zsanitizer=address -C linker-plugin-lto -C target-feature=+avx2,+crt-static \
                     -C strip=debuginfo -g -Csplit-debuginfo=unpacked -Z profile-sample-use=x";
        let out = rewrite(extra).join(" ");
        for gone in [
            "native",
            "thin",
            "=16",
            "incremental",
            "coverage",
            "sanitizer",
            "plugin",
            "avx2",
            "strip",
            "split",
            "-Z pro",
        ] {
            assert!(!out.contains(gone), "{gone} is left in {out}");
        }
        assert!(out.contains("-Ctarget-feature=+crt-static"), "{out}");
        assert!(out.contains("--emit=dep-info,metadata,llvm-bc"), "{out}");
    }

    #[test]
    fn the_checkers_build_knows_the_profile() {
        let cfgs = |extra: &str| {
            let arguments: Vec<OsString> = format!("{BASE} {extra}").split_whitespace().map(OsString::from).collect();
            let line = CommandLine::parse(&arguments).expect("one of cargo's");
            let out =
                line.rewritten(Purpose::Checked).into_iter().map(|argument| argument.into_string().expect("text"));
            let out: Vec<String> = out.collect();
            assert!(out.iter().any(|argument| argument == "-Coverflow-checks=on"), "{out:?}");
            let lines: Vec<&String> = out.iter().filter(|argument| argument.starts_with("-Cdebuginfo")).collect();
            assert_eq!(lines, ["-Cdebuginfo=line-tables-only"], "{out:?}");
            assert!(!out.iter().any(|argument| argument == "warpsmith_device"), "{out:?}");
            let cfg = |name: &str| out.windows(2).any(|two| two == ["--cfg", name]);
            assert!(cfg("warpsmith_checked"), "{out:?}");
            (cfg("warpsmith_wraps"), cfg("warpsmith_lto"))
        };
        for (extra, expected) in [
            ("", (false, false)),
            ("-C opt-level=3", (true, false)),
            ("-C opt-level=3 -C overflow-checks=on -C lto=off", (false, false)),
            ("-C opt-level=3 -C lto", (true, true)),
            ("-C lto=thin", (false, true)),
            ("-C linker-plugin-lto", (false, true)),
        ] {
            assert_eq!(cfgs(extra), expected, "{extra}");
        }
    }

    #[test]
    fn test_targets_and_sources_are_seen() {
        let arguments: Vec<OsString> = format!("{BASE} --test").split_whitespace().map(OsString::from).collect();
        let line = CommandLine::parse(&arguments).expect("one of cargo's");
        assert!(line.is_test);
        assert_eq!((line.crate_name.as_str(), line.sources.as_slice()), ("app", &["src/main.rs".to_owned()][..]));
    }

    #[test]
    fn other_calls_are_not_cargos() {
        for arguments in [
            "-vV",
            "- --crate-name ___ --print=file-names --target t",
            "--crate-name probe --crate-type=lib --emit=dep-info,metadata --target t src/probe.rs",
            "--crate-name build_script_build --error-format=json build.rs --emit=dep-info,link",
        ] {
            let arguments: Vec<OsString> = arguments.split_whitespace().map(OsString::from).collect();
            assert!(CommandLine::parse(&arguments).is_none(), "{arguments:?}");
        }
    }
}

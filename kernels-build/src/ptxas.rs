//! Finds `ptxas`, NVIDIA's assembler, and asks it about PTX that people wrote.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bundle::Image;
use crate::libdevice::toolkits;

/// The variable that names it, or says `none`.
pub(crate) const VARIABLE: &str = "WARPSMITH_PTXAS";

/// The first `ptxas` found: `WARPSMITH_PTXAS`, a CUDA toolkit, `PATH`.
///
/// `WARPSMITH_PTXAS=none` finds none, so that a build does not depend on what the machine has.
pub(crate) fn find(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = variable(VARIABLE) {
        return (path.as_os_str() != "none").then_some(path);
    }
    let folders = variable("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    toolkits(variable)
        .map(|toolkit| toolkit.join("bin"))
        .chain(folders)
        .map(|folder| folder.join("ptxas"))
        .find(|path| path.is_file())
}

/// What `ptxas` has against the text of each `ptx!` in an image: its place, and the words.
pub(crate) fn complaints(ptxas: &Path, image: &Image) -> std::io::Result<Vec<(String, String)>> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let source = std::env::temp_dir().join(format!("warpsmith-{}-{number}.ptx", std::process::id()));
    let result = source.with_extension("cubin");
    std::fs::write(&source, &image.ptx)?;
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch=sm_{}", image.architecture)).arg("-O0").arg("-o").arg(&result).arg(&source);
    let output = command.output();
    let _ = std::fs::remove_file(&source);
    let _ = std::fs::remove_file(&result);
    let output = output?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Ok(if output.status.success() { Vec::new() } else { placed(&text, image) })
}

/// The complaints about lines that came from a `ptx!`.
fn placed(text: &str, image: &Image) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once(", line ") else { continue };
        let Some((number, message)) = rest.split_once(';') else { continue };
        let Ok(number) = number.trim().parse() else { continue };
        let Some(message) = message.trim().strip_prefix("error").map(|m| m.trim_start_matches([' ', ':'])) else {
            continue;
        };
        if let Some(site) = image.inline_site(number) {
            let complaint = (site.to_owned(), message.to_owned());
            if !all.contains(&complaint) {
                all.push(complaint);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_find_the_macro() {
        let ptx = "// head\n// begin inline asm\n// ptx! at src/main.rs:7:9\nadd.u32 %r1, %rd2;\n// end inline asm\n\
                   mov.b32 %r1, 0;\nmov.b32 %r1, 0;\nmov.b32 %r1, 0;\nmov.b32 %r1, 0;\n";
        let image = Image { ptx: ptx.to_owned(), ..Image::default() };
        let text = "ptxas x.ptx, line 4; error   : Arguments mismatch for instruction 'add'\n\
                    ptxas x.ptx, line 9; error   : of ours\nptxas fatal   : Ptx assembly aborted due to errors\n";
        let expected = ("src/main.rs:7:9".to_owned(), "Arguments mismatch for instruction 'add'".to_owned());
        assert_eq!(placed(text, &image), [expected]);
    }

    #[test]
    fn a_variable_names_it_or_says_none() {
        let named = |value: &'static str| move |name: &str| (name == VARIABLE).then(|| PathBuf::from(value));
        assert_eq!(find(named("/opt/ptxas")), Some("/opt/ptxas".into()));
        assert_eq!(find(named("none")), None);
    }
}

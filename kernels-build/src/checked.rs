//! Whether a program is to carry code for the checker.

use std::path::Path;

use crate::lower::CheckedCode;
use crate::nested::{Bitcode, Outcome};

/// Turns the checker on where a program runs; set while it is compiled, it makes the program carry the code for that.
pub(crate) const VARIABLE: &str = "WARPSMITH_CHECK";

/// What the symbols of functions that open a checked device have in them.
const MARK: &[u8] = b"cpu_checked";

/// Whether the variable asks for it, or something local that was compiled names a checked device.
pub(crate) fn is_wanted(outcome: &Outcome) -> bool {
    let by_variable = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    let units = outcome.units.iter().filter_map(|unit| unit.outcome.as_ref().ok());
    by_variable || units.into_iter().any(names_checked_device)
}

fn names_checked_device(bitcode: &Bitcode) -> bool {
    // The runtime's own crate defines what is looked for.
    let others = bitcode.local.iter().filter(|path| !is_runtime(path));
    std::iter::once(&bitcode.path)
        .chain(others)
        .any(|path| std::fs::read(path).is_ok_and(|bytes| bytes.windows(MARK.len()).any(|window| window == MARK)))
}

/// Whether a file is the bitcode of the crate `warpsmith`: `warpsmith-HASH.bc`.
fn is_runtime(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit_once('-').is_some_and(|(name, _)| name == "warpsmith")
}

/// Objects as bytes, to be kept between builds: each symbol and object behind its length.
pub(crate) fn join(all: &[CheckedCode]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in all.iter().flat_map(|code| [code.symbol.as_bytes(), &code.object]) {
        out.extend((part.len() as u64).to_le_bytes());
        out.extend(part);
    }
    out
}

/// The objects of [`join`]; nothing when the bytes are not what it made.
pub(crate) fn split(mut bytes: &[u8]) -> Option<Vec<CheckedCode>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let mut part = || {
        let (len, rest) = bytes.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        bytes = rest;
        Some((part.to_vec(), rest.is_empty()))
    };
    let mut all = Vec::new();
    loop {
        let (symbol, _) = part()?;
        let (object, is_last) = part()?;
        all.push(CheckedCode { symbol: String::from_utf8(symbol).ok()?, object });
        if is_last {
            return Some(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_as_they_were() {
        let code = |symbol: &str, object: &[u8]| CheckedCode { symbol: symbol.into(), object: object.into() };
        let all = [code("one", b"first object"), code("two", b"")];
        let bytes = join(&all);
        let back = split(&bytes).expect("what was joined");
        assert_eq!((back.len(), split(&join(&[])).expect("none").len()), (2, 0));
        for (was, is) in all.iter().zip(&back) {
            assert_eq!((&was.symbol, &was.object), (&is.symbol, &is.object));
        }
        for len in 0..bytes.len() {
            assert!(split(&bytes[..len]).is_none_or(|part| part.len() < 2), "cut at {len}");
        }
    }

    #[test]
    fn the_runtime_is_known_by_its_name() {
        for (path, is) in [("/n/deps/warpsmith-0123.bc", true), ("/n/deps/warpsmith_tests-0123.bc", false)] {
            assert_eq!(is_runtime(Path::new(path)), is, "{path}");
        }
    }

    #[test]
    fn a_name_in_the_bitcode_is_enough() {
        let folder = std::env::temp_dir().join(format!("warpsmith-wanted-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        let plain = file("app-1.bc", "_RNvMNtC9warpsmith6device6Device3cpu");
        let wanting = file("app-2.bc", "_RNvMNtC9warpsmith6device6Device11cpu_checked");
        let runtime = file("warpsmith-3.bc", "11cpu_checked");
        let bitcode =
            |path: &Path, local: Vec<_>| Bitcode { path: path.to_owned(), dependencies: local.clone(), local };
        assert!(!names_checked_device(&bitcode(&plain, vec![runtime.clone()])));
        assert!(names_checked_device(&bitcode(&wanting, vec![])));
        assert!(names_checked_device(&bitcode(&plain, vec![runtime, wanting])));
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }
}

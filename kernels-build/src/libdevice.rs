//! Finds libdevice, NVIDIA's maths library as bitcode, where a toolkit or a Python package brought one.

use std::path::{Path, PathBuf};

const FILE: &str = "libdevice.10.bc";

/// Environment variables that decide where libdevice is found.
pub(crate) const VARIABLES: [&str; 5] =
    ["WARPSMITH_LIBDEVICE", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"];

/// The first libdevice found: `WARPSMITH_LIBDEVICE`, a CUDA toolkit, an `nvidia` package of Python.
///
/// `WARPSMITH_LIBDEVICE=none` finds none, so that a build does not depend on what the machine has.
pub(crate) fn find(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = variable("WARPSMITH_LIBDEVICE") {
        return (path.as_os_str() != "none").then_some(path);
    }
    for toolkit in toolkits(&variable) {
        let path = toolkit.join("nvvm/libdevice").join(FILE);
        if path.is_file() {
            return Some(path);
        }
    }
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&variable);
    let shared = ["/usr/local".into(), "/usr".into()];
    environments.chain(variable("HOME").map(|home| home.join(".local"))).chain(shared).find_map(|root| in_python(&root))
}

/// Where CUDA toolkits are looked for: the variables that name one, then the usual places.
pub(crate) fn toolkits(variable: impl Fn(&str) -> Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable);
    named.chain(["/usr/local/cuda".into(), "/opt/cuda".into()])
}

/// Why a file cannot be libdevice.
pub(crate) fn fault(path: &Path) -> Option<&'static str> {
    use std::io::Read;
    let mut start = [0; 4];
    let Ok(mut file) = std::fs::File::open(path) else { return Some("cannot be opened") };
    match file.read_exact(&mut start) {
        // Bitcode, bare or in a wrapper.
        Ok(()) if [*b"BC\xc0\xde", *b"\xde\xc0\x17\x0b"].contains(&start) => None,
        _ => Some("is no LLVM bitcode"),
    }
}

/// In `lib/python*/site-packages/nvidia/*/nvvm/libdevice`, newest name first.
fn in_python(root: &Path) -> Option<PathBuf> {
    let pythons = folders(&root.join("lib"))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    pythons
        .flat_map(|python| [python.join("site-packages/nvidia"), python.join("dist-packages/nvidia")])
        .flat_map(|packages| folders(&packages))
        .map(|package| package.join("nvvm/libdevice").join(FILE))
        .find(|path| path.is_file())
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.reverse();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("warpsmith-libdevice-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        path
    }

    fn put(path: PathBuf) -> PathBuf {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, "BC").expect("a file");
        path
    }

    #[test]
    fn toolkit_before_python() {
        let root = folder("order");
        let python = put(root.join("venv/lib/python3.12/site-packages/nvidia/cu13/nvvm/libdevice").join(FILE));
        let variable = |name: &str| (name == "VIRTUAL_ENV").then(|| root.join("venv"));
        assert_eq!(in_python(&root.join("venv")), Some(python));
        let toolkit = put(root.join("toolkit/nvvm/libdevice").join(FILE));
        let both = |name: &str| if name == "CUDA_HOME" { Some(root.join("toolkit")) } else { variable(name) };
        assert_eq!(find(both), Some(toolkit));
        let named = |name: &str| (name == "WARPSMITH_LIBDEVICE").then(|| "/named.bc".into()).or_else(|| both(name));
        assert_eq!(find(named), Some("/named.bc".into()));
        let none = |name: &str| (name == "WARPSMITH_LIBDEVICE").then(|| "none".into()).or_else(|| both(name));
        assert_eq!(find(none), None);
        std::fs::remove_dir_all(root).expect("cleaned up");
    }

    #[test]
    fn what_is_no_bitcode_is_told() {
        let root = folder("fault");
        let file = root.join("file.bc");
        assert_eq!(fault(&file), Some("cannot be opened"));
        assert_eq!(fault(&root), Some("is no LLVM bitcode"));
        for (bytes, expected) in
            [(&b"BC\xc0\xde\x35"[..], None), (b"text", Some("is no LLVM bitcode")), (b"", Some("is no LLVM bitcode"))]
        {
            std::fs::write(&file, bytes).expect("a file");
            assert_eq!(fault(&file), expected);
        }
        std::fs::remove_dir_all(root).expect("cleaned up");
    }
}

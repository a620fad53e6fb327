//! A package copied to where a lock may be written for it.

use std::io;
use std::path::Path;

/// Copies a package without what builds left in it, and makes it a workspace of its own.
pub(crate) fn package(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    folder(from, to, true)?;
    let manifest = std::fs::read_to_string(from.join("Cargo.toml"))?;
    std::fs::write(to.join("Cargo.toml"), standing_alone(&manifest, from))
}

fn folder(from: &Path, to: &Path, is_root: bool) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            // Any folder that holds builds, under whatever name, is tagged.
            let is_build = path.join("CACHEDIR.TAG").is_file() || name == ".git" || (is_root && name == "target");
            if !is_build && !to.starts_with(&path) {
                folder(&path, &to.join(name), false)?;
            }
        } else {
            std::fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// The manifest with a workspace of its own, and with the paths of dependencies that hold from anywhere.
fn standing_alone(manifest: &str, folder: &Path) -> String {
    let mut out = String::new();
    let mut parts = manifest.split("path = \"");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let path = part.split('"').next().unwrap_or_default();
        let target = folder.join(path);
        out.push_str("path = \"");
        match target.canonicalize() {
            Ok(target) if target.join("Cargo.toml").is_file() => {
                out.push_str(&target.display().to_string());
                out.push_str(&part[path.len()..]);
            }
            _ => out.push_str(part),
        }
    }
    if !manifest.lines().any(|line| line.trim_start().starts_with("[workspace")) {
        out.push_str("\n[workspace]\n");
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_copy_stands_alone() {
        let root = std::env::temp_dir().join(format!("warpsmith-copy-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("written");
        };
        put("other/Cargo.toml", "");
        put("app/Cargo.toml", "[lib]\npath = \"src/a.rs\"\n[dependencies.other]\npath = \"../other\"\n");
        put("app/src/a.rs", "code");
        put("app/target/debug/app", "old");
        put("app/built/CACHEDIR.TAG", "old");
        let copy = root.join("app/built/copy");
        super::package(&root.join("app"), &copy).expect("copied");
        super::package(&root.join("app"), &copy).expect("copied over an older one");
        let other = root.join("other").canonicalize().expect("there").display().to_string();
        assert_eq!(
            std::fs::read_to_string(copy.join("Cargo.toml")).expect("copied"),
            format!("[lib]\npath = \"src/a.rs\"\n[dependencies.other]\npath = \"{other}\"\n\n[workspace]\n")
        );
        assert_eq!(std::fs::read_to_string(copy.join("src/a.rs")).expect("copied"), "code");
        assert!(!copy.join("target").exists() && !copy.join("built").exists());
        std::fs::remove_dir_all(root).expect("cleaned up");
    }
}

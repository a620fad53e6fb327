//! Stops a build whose target the package's build script has not seen, where its kernels would have no GPU code.
//!
//! The script, `warpsmith_build::compile()`, leaves a list of the targets that there were when it ran, and watches a file beside
//! it; touched, cargo runs the script again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use proc_macro2::{Span, TokenStream};

use crate::casts;

/// The list that the build script leaves in `OUT_DIR`: a target's root source file a line, relative to the package.
const LIST: &str = "warpsmith-targets";

/// The file in `OUT_DIR` that cargo watches for the build script.
const STAMP: &str = "warpsmith-new-target";

/// Folders in which cargo finds targets by itself. Those elsewhere are named in the manifest, which the build script watches.
const FOLDERS: [&str; 4] = ["src", "tests", "examples", "benches"];

/// An error in a target that the build script has not seen, once; has the next build run the script again.
pub(crate) fn unseen() -> Option<TokenStream> {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    // The build script's own build of the kernels runs while the list is made.
    if std::env::var_os("WARPSMITH_NESTED").is_some() {
        return None;
    }
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let (out_dir, package) = (folder("OUT_DIR")?, folder("CARGO_MANIFEST_DIR")?);
    let root = casts::arguments().find(|argument| !argument.starts_with('-') && argument.ends_with(".rs"))?;
    let target = unseen_target(&out_dir, &package, Path::new(&root))?;
    if IS_TOLD.swap(true, Ordering::Relaxed) {
        return None;
    }
    let stamp = File::options().write(true).open(out_dir.join(STAMP));
    let is_touched = stamp.and_then(|file| file.set_modified(SystemTime::now())).is_ok();
    let message = message(&target, is_touched);
    Some(syn::Error::new(Span::call_site(), message).into_compile_error())
}

/// The root file of a target that is not in the list, relative to the package.
fn unseen_target(out_dir: &Path, package: &Path, root: &Path) -> Option<PathBuf> {
    let list = std::fs::read_to_string(out_dir.join(LIST)).ok()?;
    let (package, root) = (package.canonicalize().ok()?, root.canonicalize().ok()?);
    let target = root.strip_prefix(&package).ok()?;
    let is_found_by_cargo = FOLDERS.iter().any(|folder| target.starts_with(folder));
    let is_listed = || list.lines().any(|line| package.join(line).canonicalize().is_ok_and(|path| path == root));
    (is_found_by_cargo && !is_listed()).then(|| target.to_owned())
}

fn message(target: &Path, is_touched: bool) -> String {
    let target = target.display();
    let remedy = if is_touched {
        "build once more: they are compiled then"
    } else {
        "touch `build.rs` and build once more: they are compiled then"
    };
    format!(
        "the target `{target}` did not exist when this package's kernels were compiled, so it would run without GPU code and without \
         the checker's; {remedy}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_came_later_are_told_from_listed_and_foreign_ones() {
        let package = std::env::temp_dir().join(format!("warpsmith-unseen-{}", std::process::id()));
        let out_dir = package.join("target/out");
        for folder in ["src/bin", "tests", "odd", "target/out"] {
            std::fs::create_dir_all(package.join(folder)).expect("a folder");
        }
        for file in ["src/main.rs", "src/bin/look.rs", "tests/first.rs", "odd/named.rs", "target/bundle.rs"] {
            std::fs::write(package.join(file), "").expect("a file");
        }
        let unseen = |root: &str| unseen_target(&out_dir, &package, &package.join(root));
        // No build script, or one that left no list.
        assert_eq!(unseen("tests/first.rs"), None);
        std::fs::write(out_dir.join(LIST), "src/main.rs\nsrc/bin/../bin/look.rs\n").expect("a list");
        assert_eq!(unseen("src/main.rs"), None);
        assert_eq!(unseen("src/bin/look.rs"), None);
        assert_eq!(unseen("tests/first.rs"), Some("tests/first.rs".into()));
        // Named in the manifest; made by a documentation test; not there; of another package.
        assert_eq!(unseen("odd/named.rs"), None);
        assert_eq!(unseen("target/bundle.rs"), None);
        assert_eq!(unseen("tests/none.rs"), None);
        assert_eq!(unseen_target(&out_dir, &package.join("odd"), &package.join("tests/first.rs")), None);
        std::fs::remove_dir_all(package).expect("cleaned up");
    }

    #[test]
    fn who_cannot_touch_the_stamp_is_told_what_to_touch() {
        let target = Path::new("tests/first.rs");
        assert!(message(target, true).ends_with("; build once more: they are compiled then"));
        assert!(message(target, false).contains("touch `build.rs`"));
    }
}

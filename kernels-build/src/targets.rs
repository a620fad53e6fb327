//! Leaves word of the package's targets for the macros, which see it when they are expanded in one that came later.
//!
//! Cargo runs a build script again for a change in a folder that the script names. A folder that is not there cannot be named:
//! cargo would run the script for every build. So where a first `tests/` or `examples/` appears, the script does not run, and
//! the kernels there would have no GPU code. The macros compare the target that they are expanded in with the list left here;
//! for one that is missing they touch a file that cargo watches, and stop the build with an error.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The list: a target's root source file a line, relative to the package. The macros know this name.
const LIST: &str = "warpsmith-targets";

/// The file that the macros touch. They know this name too.
const STAMP: &str = "warpsmith-new-target";

/// Takes the list away: what it says may be true no more.
pub(crate) fn forget(out_dir: &Path) {
    let _ = std::fs::remove_file(out_dir.join(LIST));
}

/// Writes the list; the file for cargo to watch.
pub(crate) fn remember(out_dir: &Path, targets: &BTreeSet<PathBuf>) -> std::io::Result<PathBuf> {
    let stamp = out_dir.join(STAMP);
    // Older than the script's start, or cargo would run it for every build.
    File::create(&stamp)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(24 * 60 * 60))?;
    let lines: Vec<String> = targets.iter().map(|path| format!("{}\n", path.display())).collect();
    std::fs::write(out_dir.join(LIST), lines.concat())?;
    Ok(stamp)
}

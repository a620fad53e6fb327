//! Writes the generated kernels beside the sources, and compiles them.

#[expect(dead_code, unreachable_pub, reason = "the tests interpret programs; here they are only written")]
#[path = "src/program.rs"]
mod program;
#[path = "src/source.rs"]
mod source;

use std::path::Path;
use std::{env, fs};

/// Seed of the programs, unless the variable says otherwise.
const SEED: u64 = 20_261_202;

fn main() {
    // As a compiler's wrapper in the nested build this program has arguments, and only compiles.
    if env::args().len() == 1 {
        write();
    }
    // Every GPU runs the oldest architecture's code; more would only take longer.
    warpsmith_build::Builder::new().architectures([75]).compile();
}

/// Writes the kernels. Not to `OUT_DIR`: the two builds must see one file, by whose place they know a kernel.
fn write() {
    println!("cargo::rerun-if-env-changed=WARPSMITH_GENERATED_SEED");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let seed = match env::var("WARPSMITH_GENERATED_SEED") {
        Ok(text) => text.parse().expect("WARPSMITH_GENERATED_SEED is a number from 0 to 2^64 - 1"),
        Err(_) => SEED,
    };
    let text = source::file(seed);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels.rs");
    // What did not change keeps its time, or cargo would build again and again.
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return;
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).expect("the package's folder can be written to");
}

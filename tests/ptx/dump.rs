//! What holds for every kernel, and a folder of all of them for `ptxas`.

use std::path::PathBuf;

use warpsmith_tests::ptx;

/// Functions that the driver provides to every module.
const PROVIDED: [&str; 4] = ["malloc", "free", "vprintf", "__assertfail"];

/// Looks at every kernel of the tests; with `WARPSMITH_DUMP_PTX` naming a folder, also writes them there, as
/// `NUMBER-NAME-FORM.sm_ARCHITECTURE.ptx`.
#[test]
fn every_kernel() {
    let kernels = ptx::kernels();
    // The tests of one package share one object, so that these are the kernels of all test targets.
    assert!(kernels.len() > 150, "only {} kernels were found", kernels.len());
    let folder = std::env::var_os("WARPSMITH_DUMP_PTX").map(PathBuf::from);
    if let Some(folder) = &folder {
        std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
    }
    let mut written = 0;
    for (number, kernel) in kernels.iter().enumerate() {
        assert!(!kernel.images.is_empty(), "{} has no PTX", kernel.key.name);
        for image in &kernel.images {
            let name = format!("{}::{} for sm_{}", kernel.key.module_path, kernel.key.name, image.architecture);
            let targets: Vec<&str> = image.ptx.lines().filter(|line| line.starts_with(".target")).collect();
            let [target] = targets[..] else { panic!("{name} has {} .target lines", targets.len()) };
            assert!(target.contains(&format!("sm_{}", image.architecture)), "{name}: {target}");
            assert!(!target.contains("debug"), "{name} would not be optimised: {target}");
            assert!(image.ptx.contains(&format!(".entry {}", kernel.entry)), "{name} lacks its entry {}", kernel.entry);
            for line in image.ptx.lines().filter(|line| line.starts_with(".extern .func")) {
                let provided =
                    PROVIDED.iter().any(|function| line.split([' ', '(', ';']).any(|word| word == *function));
                // The declaration's name may stand on the next line, after a return value.
                assert!(provided || line.trim_end().ends_with(')'), "{name} calls what nobody provides: {line}");
            }
            if let Some(folder) = &folder {
                let form = if image.along_x { "along_x" } else { "any" };
                let path = folder.join(format!("{number:03}-{}-{form}.sm_{}.ptx", kernel.key.name, image.architecture));
                std::fs::write(&path, &image.ptx)
                    .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
                written += 1;
            }
        }
    }
    if let Some(folder) = &folder {
        println!("wrote {written} files to {}", folder.display());
    }
}

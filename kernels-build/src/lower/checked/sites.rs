//! The places that the checker hears of, each once.

use std::collections::HashMap;

use crate::bundle::{CheckedSite, SiteKind};
use crate::llvm::{SourcePlace, Value};
use crate::lower::names::demangle;

/// The places of a module; a hook names one by its number.
#[derive(Default)]
pub(super) struct Sites {
    numbers: HashMap<CheckedSite, u32>,
    all: Vec<CheckedSite>,
}

impl Sites {
    /// The number of a place: what happens there, with the source line of the instruction.
    pub(super) fn number(&mut self, instruction: Value, site: CheckedSite) -> u32 {
        let SourcePlace { file, line, column, .. } = place(&instruction.source_chain());
        let function = demangle(&instruction.parent_function().name());
        let site = CheckedSite { file, line, column, function, ..site };
        if let Some(number) = self.numbers.get(&site) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).expect("a module has fewer than 2^32 instructions");
        self.numbers.insert(site.clone(), number);
        self.all.push(site);
        number
    }

    pub(super) fn into_inner(self) -> Vec<CheckedSite> {
        self.all
    }
}

/// A place of a kind, of which nothing else is known yet.
pub(super) fn of_kind(kind: SiteKind) -> CheckedSite {
    CheckedSite { kind: kind as u32, ..CheckedSite::default() }
}

/// The innermost place that is neither the standard library's nor the device crate's: what the user wrote.
fn place(chain: &[SourcePlace]) -> SourcePlace {
    let own = chain.iter().find(|place| place.line != 0 && !is_std(place) && !is_device_crate(place));
    own.or(chain.first()).cloned().unwrap_or_default()
}

fn path(place: &SourcePlace) -> String {
    if place.file.starts_with('/') { place.file.clone() } else { format!("{}/{}", place.folder, place.file) }
}

fn is_std(place: &SourcePlace) -> bool {
    let path = path(place);
    ["/library/core/", "/library/alloc/", "/library/std/"].iter().any(|part| path.contains(part))
}

/// Whether a place is in the device crate, which is a path dependency or comes from a registry.
fn is_device_crate(place: &SourcePlace) -> bool {
    let path = path(place);
    path.contains("/kernels-device/src/") || path.contains("/warpsmith-device-")
}

/// Whether an instruction only asks the executor where its thread stands, as every index does.
pub(super) fn is_executors(instruction: Value) -> bool {
    let chain = instruction.source_chain();
    let written = chain.iter().find(|place| !is_std(place));
    written.is_some_and(|place| is_device_crate(place) && place.file.ends_with("src/host.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_line_is_the_place() {
        let chain = |files: &[(&str, &str)]| -> Vec<SourcePlace> {
            let place = |(line, (folder, file)): (u32, &(&str, &str))| SourcePlace {
                folder: (*folder).to_owned(),
                file: (*file).to_owned(),
                line,
                column: 5,
            };
            (1..).zip(files).map(place).collect()
        };
        let user = ("/home/u/app", "src/main.rs");
        let core = ("/rustc/0123", "library/core/src/slice/index.rs");
        let device = ("/home/u/warpsmith/kernels-device", "src/shared/phases.rs");
        let published = ("/home/u", "/home/u/.cargo/registry/src/x/warpsmith-device-0.1.0/src/view.rs");
        for (files, line) in [
            (&[user][..], 1),
            (&[core, user], 2),
            (&[core, device, ("/home/u/app", "src/helpers.rs"), user], 3),
            (&[published, user], 2),
            (&[core, device], 1),
        ] {
            let found = place(&chain(files));
            assert_eq!((found.line, found.file.as_str()), (line, files[line as usize - 1].1));
        }
        assert_eq!(place(&[]), SourcePlace::default());
    }
}

//! Which cases of the case list have tests: those named `case_e4_...` after their section and number.
//!
//! The list holds what other systems got wrong. A case that may still be open is named here with what it waits for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

mod driver_table;

/// Sections and how many cases each has.
const SECTIONS: &[(char, u32)] = &[
    ('a', 6),
    ('b', 4),
    ('c', 6),
    ('d', 8),
    ('e', 7),
    ('f', 6),
    ('g', 6),
    ('h', 7),
    ('i', 6),
    ('j', 5),
    ('k', 2),
    ('l', 4),
];

/// Cases that need not have a test yet, and why.
const OPEN: &[(&str, &str)] = &[
    ("a2", "fills, reductions and scans of more than 2^32 elements: the array layer"),
    ("a3", "reductions along one axis of large arrays: the array layer"),
    ("a5", "scans of arrays: the array layer"),
    ("b2", "reductions of empty arrays: the array layer"),
    ("b3", "sorting along an axis of length 0: the array layer"),
    ("h1", "array layouts: the array layer"),
    ("h2", "array views: the array layer"),
    ("h3", "assignment into array views: the array layer"),
    ("h4", "reductions over axis orders: the array layer"),
    ("h5", "gather and scatter: the array layer"),
    ("h6", "minimum and maximum in one pass: the array layer"),
    ("j1", "the cache's key: run-time compilation"),
    ("j2", "two processes that compile at once: run-time compilation"),
    ("j3", "a damaged or read-only cache: run-time compilation"),
    ("j4", "an argument of the wrong type: run-time compilation"),
    ("j5", "errors in the user's text: run-time compilation"),
];

/// Whether a name is a section's letter and a number.
fn is_case(name: &str) -> bool {
    let digits = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
    name.len() - digits.len() == 1 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The cases that tests in a folder are named after.
fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder that could be listed has entries").path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
            // Functions, and tests against the simulated driver, which a macro writes.
            let names = ["fn case_", "simulated_test!(case_"].into_iter().flat_map(|start| text.split(start).skip(1));
            let names = names.filter_map(|rest| rest.split('_').next());
            found.extend(names.filter(|name| is_case(name)).map(str::to_owned));
        }
    }
}

#[test]
fn every_case_has_a_test_or_says_what_it_waits_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for folder in ["tests", "runtime", "kernels-build", "kernels-device", "kernels-macro"] {
        collect(&root.join(folder), &mut found);
    }
    let all = SECTIONS.iter().flat_map(|(section, count)| (1..=*count).map(move |number| format!("{section}{number}")));
    let all: BTreeSet<String> = all.collect();
    let unknown: Vec<_> = found.difference(&all).collect();
    assert!(unknown.is_empty(), "tests are named after cases that the list does not have: {unknown:?}");
    let mut forgotten = Vec::new();
    for case in all.difference(&found) {
        match OPEN.iter().find(|(open, _)| open == case) {
            Some((_, why)) => println!("case {} has no test yet: {why}", case.to_uppercase()),
            None => forgotten.push(case),
        }
    }
    assert!(forgotten.is_empty(), "these cases have no test: {forgotten:?}");
    let done: Vec<_> = OPEN.iter().filter(|(open, _)| found.contains(*open)).collect();
    assert!(done.is_empty(), "these cases have tests by now and are open no more: {done:?}");
}

//! The tests that the table of the driver's features names, which must exist where it says.

use std::fs;
use std::path::Path;

/// The links `[NAME](FILE.rs)` of a line.
fn links(line: &str) -> Vec<(&str, &str)> {
    let ends = line.match_indices("](").map(|(at, _)| at);
    let link = |at: usize| {
        let name = line[..at].rsplit_once('[')?.1;
        let file = line[at + 2..].split_once(')')?.0;
        file.ends_with(".rs").then_some((name, file))
    };
    ends.filter_map(link).collect()
}

/// Whether a file's text has a test of this name: a function, or one that `simulated_test!` makes.
fn has_test(text: &str, name: &str) -> bool {
    text.contains(&format!("fn {name}(")) || text.contains(&format!("simulated_test!({name},"))
}

#[test]
fn every_test_that_the_table_names_exists() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let table = fs::read_to_string(docs.join("driver.md")).expect("the table is in the repository");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 80, "the table has {} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let named = links(row);
        for &(name, file) in &named {
            match fs::read_to_string(docs.join(file)) {
                Ok(text) if has_test(&text, name) => {}
                Ok(_) => wrong.push(format!("{file} has no test `{name}`, which this row names: {row}")),
                Err(error) => wrong.push(format!("{file} cannot be read ({error}), which this row names: {row}")),
            }
        }
        let is_head = row.starts_with("| PyCUDA |") || row.starts_with("| --- |");
        if named.is_empty() && !is_head && !row.contains("*none*") {
            wrong.push(format!("a call without a test: {row}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_and_tests_are_found() {
    let row = "| `a` | [one](../x/y.rs), [two_2](../z.rs) | [no test](page.md) |";
    assert_eq!(links(row), [("one", "../x/y.rs"), ("two_2", "../z.rs")]);
    assert!(has_test("fn one() {}", "one") && has_test("simulated_test!(two, \"\", {", "two"));
    assert!(!has_test("fn one_more() {}", "one"));
}

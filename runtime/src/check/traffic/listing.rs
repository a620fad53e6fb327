//! Source files with the figures of a report beside their lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::report::{LineTraffic, MemoryReport};

/// Columns of source beyond which figures move to the right.
const SOURCE_COLUMNS: usize = 80;

/// A source file and the traffic of its lines, all kernels together.
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    /// The file's lines; `None` where it could not be read.
    pub(super) source: Option<Vec<String>>,
    pub(super) traffic: BTreeMap<u32, Vec<LineTraffic<'a>>>,
}

/// The files of a report that was summed over kernels, with their sources.
pub(super) fn files(report: &MemoryReport) -> Vec<File<'_>> {
    let mut files: Vec<File<'_>> = Vec::new();
    for line in report.lines() {
        if files.last().is_none_or(|file| file.name != line.file) {
            files.push(File { name: line.file, source: read(line.file), traffic: BTreeMap::new() });
        }
        let file = files.last_mut().expect("one was just added");
        file.traffic.entry(line.line).or_default().push(line);
    }
    files
}

fn read(file: &str) -> Option<Vec<String>> {
    let text = roots().into_iter().find_map(|root| std::fs::read_to_string(root.join(file)).ok())?;
    Some(text.lines().map(str::to_owned).collect())
}

/// Where rustc's paths may start: it is the workspace's folder, and the program may run anywhere below it.
fn roots() -> Vec<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let start = [std::env::current_dir().ok(), package];
    start.iter().flatten().flat_map(|folder| folder.ancestors().map(Path::to_owned)).collect()
}

/// The figures of a line in a few words.
pub(super) fn figures(line: &LineTraffic<'_>) -> String {
    let LineTraffic { space, requests, transactions, fewest, .. } = line;
    let (kind, unit, percent) = (line.kind(), space.unit(), line.efficiency() * 100.0);
    let noun = if *requests == 1 { "request" } else { "requests" };
    let mut text =
        format!("{requests} {noun} of {space} {kind}: {transactions} {unit}, fewest {fewest} ({percent:.1} %)");
    if line.left_out > 0 {
        write!(text, ", {} accesses left out", line.left_out).expect("text takes everything");
    }
    text
}

/// The whole listing.
pub(super) fn text(report: &MemoryReport) -> String {
    let report = report.of_all_kernels();
    let mut text = String::new();
    let mut put = |line: &str| {
        text.push_str(line.trim_end());
        text.push('\n');
    };
    for file in files(&report) {
        put(&format!("==> {} <==", file.name));
        let numbers: Vec<u32> = match &file.source {
            Some(source) => (1..=u32::try_from(source.len()).unwrap_or(u32::MAX)).collect(),
            None => {
                put("(this file could not be read)");
                file.traffic.keys().copied().collect()
            }
        };
        for number in numbers {
            let source = file.line(number);
            let mut figures = file.traffic.get(&number).into_iter().flatten().map(figures);
            let first = figures.next().map_or_else(String::new, |first| format!("// {first}"));
            put(&format!("{number:>5} | {source:SOURCE_COLUMNS$} {first}"));
            figures.for_each(|next| put(&format!("{:>5} | {:SOURCE_COLUMNS$} // {next}", "", "")));
        }
    }
    text
}

impl File<'_> {
    /// The text of a line, from 1; empty where it is not known.
    pub(super) fn line(&self, number: u32) -> &str {
        let lines = self.source.as_deref().unwrap_or_default();
        (number as usize).checked_sub(1).and_then(|at| lines.get(at)).map_or("", String::as_str)
    }
}

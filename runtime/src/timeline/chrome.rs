//! A report as a trace that Perfetto, chrome://tracing and other viewers of Chrome's trace event format open.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::WorkKind;
use super::report::{TimelineEntry, TimelineReport};

/// The number of the host's group of rows; devices follow it.
const HOST: usize = 0;

impl TimelineReport {
    /// The report as text in Chrome's trace event format: a group of rows for each device, with a row for each stream, and
    /// one for the host, with a row for each thread that gave work to a stream. Times are in microseconds.
    #[must_use]
    pub fn chrome_trace(&self) -> String {
        let mut trace = Trace { text: String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":["), is_first: true };
        let mut devices: Vec<&str> = self.entries().iter().map(|entry| entry.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        let number = |device: &str| 1 + devices.iter().position(|known| *known == device).unwrap_or(0);
        trace.name("process_name", HOST, None, "host");
        for device in &devices {
            trace.name("process_name", number(device), None, device);
        }
        let mut rows: BTreeMap<(usize, u64), String> = BTreeMap::new();
        for entry in self.entries() {
            let (thread, name) = &entry.thread;
            rows.entry((HOST, *thread)).or_insert_with(|| match name {
                Some(name) => format!("thread {thread} ({name})"),
                None => format!("thread {thread}"),
            });
            rows.entry((number(&entry.device), entry.stream)).or_insert_with(|| format!("stream {}", entry.stream));
        }
        for ((group, row), name) in &rows {
            trace.name("thread_name", *group, Some(*row), name);
        }
        for entry in self.entries() {
            trace.span(entry, (number(&entry.device), entry.stream), entry.start, entry.end);
            trace.span(entry, (HOST, entry.thread.0), entry.queued, entry.queued_until);
        }
        trace.text.push_str("\n]}\n");
        trace.text
    }

    /// Writes [`Self::chrome_trace`] to a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_chrome_trace(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.chrome_trace())
    }
}

struct Trace {
    text: String,
    is_first: bool,
}

impl Trace {
    fn begin_event(&mut self) {
        self.text.push_str(if self.is_first { "\n" } else { ",\n" });
        self.is_first = false;
    }

    /// Names a group of rows, or a row.
    fn name(&mut self, event: &str, group: usize, row: Option<u64>, name: &str) {
        self.begin_event();
        let row = row.unwrap_or(0);
        let _ = write!(self.text, r#"{{"ph":"M","name":"{event}","pid":{group},"tid":{row},"args":{{"name":"#);
        self.string(name);
        self.text.push_str("}}");
    }

    fn span(&mut self, entry: &TimelineEntry, (group, row): (usize, u64), start: Duration, end: Duration) {
        self.begin_event();
        self.text.push_str(r#"{"ph":"X","name":"#);
        self.string(&entry.name);
        let category = match entry.kind {
            WorkKind::Launch => "kernel",
            WorkKind::CopyToDevice | WorkKind::CopyToHost | WorkKind::CopyOnDevice => "copy",
            WorkKind::Fill => "fill",
            WorkKind::Graph => "graph",
        };
        let (start, duration) = (start.as_secs_f64() * 1e6, end.saturating_sub(start).as_secs_f64() * 1e6);
        let _ = write!(
            self.text,
            r#","cat":"{category}","pid":{group},"tid":{row},"ts":{start:.3},"dur":{duration:.3},"args":{{"bytes":{}"#,
            entry.bytes
        );
        if let (Some(grid), Some(block)) = (entry.grid, entry.block) {
            let shared = entry.shared_bytes;
            let _ = write!(self.text, r#","grid":"{grid}","block":"{block}","dynamic shared bytes":{shared}"#);
        }
        self.text.push_str("}}");
    }

    /// A string of JSON.
    fn string(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\0'..='\x1f' => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::example;
    use super::*;

    #[test]
    fn a_trace_has_rows_for_streams_and_threads() {
        let trace: serde_json::Value = serde_json::from_str(&example().chrome_trace()).expect("it is JSON");
        let events = trace["traceEvents"].as_array().unwrap();
        let names: Vec<_> = events
            .iter()
            .filter(|event| event["ph"] == "M")
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["host", "GPU 0 (Test)", "thread 1 (main)", "stream 7"]);
        let on_device: Vec<_> =
            events.iter().filter(|event| event["ph"] == "X" && event["pid"] == 1 && event["tid"] == 7).collect();
        assert_eq!(on_device.len(), 5);
        assert_eq!(on_device[2]["name"], "demo::saxpy");
        assert_eq!(on_device[2]["cat"], "kernel");
        assert_eq!(on_device[2]["ts"], 20.0);
        assert_eq!(on_device[2]["dur"], 30.0);
        assert_eq!(on_device[2]["args"]["grid"], "(4, 1, 1)");
        assert_eq!(on_device[4]["args"]["bytes"], 4_000);
        let on_host = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == 0 && event["tid"] == 1);
        assert_eq!(on_host.count(), 5);
    }

    #[test]
    fn names_are_escaped() {
        let mut trace = Trace { text: String::new(), is_first: true };
        let name = "a \"b\" \\ \n \u{1} é";
        trace.string(name);
        assert_eq!(serde_json::from_str::<String>(&trace.text).unwrap(), name);
    }
}

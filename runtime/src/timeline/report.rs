//! What a timeline has kept: entries, and their sums for each kernel.

use std::collections::BTreeMap;
use std::time::Duration;

use super::WorkKind;
use crate::Dim3;

/// A piece of work that a stream was given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TimelineEntry {
    /// What it is.
    pub kind: WorkKind,
    /// The kernel's path, or what is done.
    pub name: String,
    /// The device, as it is displayed.
    pub device: String,
    /// The stream's number in this process.
    pub stream: u64,
    /// Blocks of the grid, for a launch.
    pub grid: Option<Dim3>,
    /// Threads of a block, for a launch.
    pub block: Option<Dim3>,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Bytes of memory behind the launch's arguments, each once, whether the kernel reads it, writes it or both; for a copy
    /// or a fill the bytes that are written.
    pub bytes: u64,
    /// When the device began with it, since the timeline's start.
    pub start: Duration,
    /// When the device was done with it.
    pub end: Duration,
    /// When the host began to give it to the stream.
    pub queued: Duration,
    /// When the host was done giving it.
    pub queued_until: Duration,
    /// The host thread's number in this process, and its name.
    pub thread: (u64, Option<String>),
}

impl TimelineEntry {
    /// How long the device worked on it.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }
}

/// The times of one kernel's launches, or of one kind of copies, on one device.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelTimes {
    /// What it is.
    pub kind: WorkKind,
    /// The kernel's path, or what is done.
    pub name: String,
    /// The device, as it is displayed.
    pub device: String,
    /// How many.
    pub launches: usize,
    /// The sum of their times.
    pub total: Duration,
    /// The shortest.
    pub shortest: Duration,
    /// The one in the middle.
    pub median: Duration,
    /// The longest.
    pub longest: Duration,
    /// The sum of their bytes.
    pub bytes: u64,
    /// The share of the bandwidth of copies on the device, 1 for as fast as those; `None` where it was not measured, and for
    /// copies from and to the host.
    pub share_of_copy: Option<f64>,
}

impl KernelTimes {
    /// Bytes a second; 0 where no time passed.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        let seconds = self.total.as_secs_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}

/// What a [`Timeline`](crate::Timeline) has kept. Displayed, it is a table with a line for each kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineReport {
    entries: Vec<TimelineEntry>,
    bandwidths: BTreeMap<String, f64>,
}

impl TimelineReport {
    /// A report of entries in the order of their starts; `bandwidths` are those of copies on devices, in bytes a second.
    pub(super) fn new(entries: Vec<TimelineEntry>, bandwidths: BTreeMap<String, f64>) -> Self {
        Self { entries, bandwidths }
    }

    /// All pieces of work, in the order in which they began.
    #[must_use]
    pub fn entries(&self) -> &[TimelineEntry] {
        &self.entries
    }

    /// Bytes a second that copies on each device read and write, by the device as it is displayed.
    #[must_use]
    pub fn copy_bandwidths(&self) -> &BTreeMap<String, f64> {
        &self.bandwidths
    }

    /// Says how many bytes each launch of a kernel moves, where that is not once what its arguments hold. `kernel` is its
    /// path or the end of it, from a `::` on.
    #[must_use]
    pub fn with_bytes(mut self, kernel: &str, bytes: u64) -> Self {
        for entry in &mut self.entries {
            let named = entry.name.strip_suffix(kernel).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"));
            if entry.kind == WorkKind::Launch && named {
                entry.bytes = bytes;
            }
        }
        self
    }

    /// The sums for each kernel and each kind of copy, the longest first.
    #[must_use]
    pub fn kernels(&self) -> Vec<KernelTimes> {
        let mut groups: BTreeMap<(WorkKind, &str, &str), Vec<&TimelineEntry>> = BTreeMap::new();
        for entry in &self.entries {
            groups.entry((entry.kind, &entry.name, &entry.device)).or_default().push(entry);
        }
        let mut kernels: Vec<_> = groups.into_values().map(|entries| self.times(&entries)).collect();
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.total));
        kernels
    }

    /// The sums of entries of one name; there is at least one.
    fn times(&self, entries: &[&TimelineEntry]) -> KernelTimes {
        let first = entries[0];
        let mut times: Vec<Duration> = entries.iter().map(|entry| entry.duration()).collect();
        times.sort_unstable();
        let mut kernel = KernelTimes {
            kind: first.kind,
            name: first.name.clone(),
            device: first.device.clone(),
            launches: entries.len(),
            total: times.iter().sum(),
            shortest: times[0],
            median: times[times.len() / 2],
            longest: times[times.len() - 1],
            bytes: entries.iter().map(|entry| entry.bytes).sum(),
            share_of_copy: None,
        };
        let moved = match kernel.kind {
            WorkKind::Launch | WorkKind::Fill => Some(1.0),
            // A copy reads what it writes.
            WorkKind::CopyOnDevice => Some(2.0),
            WorkKind::CopyToDevice | WorkKind::CopyToHost | WorkKind::Graph => None,
        };
        let bandwidth = self.bandwidths.get(&kernel.device).filter(|&&bandwidth| bandwidth > 0.0);
        kernel.share_of_copy = moved.zip(bandwidth).map(|(moved, bandwidth)| moved * kernel.throughput() / bandwidth);
        kernel
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn entry(name: &str, kind: WorkKind, start: u64, end: u64, bytes: u64) -> TimelineEntry {
        let launch = kind == WorkKind::Launch;
        TimelineEntry {
            kind,
            name: name.to_owned(),
            device: "GPU 0 (Test)".to_owned(),
            stream: 7,
            grid: launch.then_some(Dim3 { x: 4, y: 1, z: 1 }),
            block: launch.then_some(Dim3 { x: 256, y: 1, z: 1 }),
            shared_bytes: 0,
            bytes,
            start: Duration::from_micros(start),
            end: Duration::from_micros(end),
            queued: Duration::from_micros(start / 2),
            queued_until: Duration::from_micros(start / 2 + 1),
            thread: (1, Some("main".to_owned())),
        }
    }

    pub(in crate::timeline) fn example() -> TimelineReport {
        TimelineReport::new(
            vec![
                entry("demo::saxpy", WorkKind::Launch, 0, 10, 8_000),
                entry("copy on the device", WorkKind::CopyOnDevice, 10, 12, 1_000),
                entry("demo::saxpy", WorkKind::Launch, 20, 50, 8_000),
                entry("demo::other_saxpy", WorkKind::Launch, 50, 51, 0),
                entry("copy to the host", WorkKind::CopyToHost, 60, 64, 4_000),
            ],
            BTreeMap::from([("GPU 0 (Test)".to_owned(), 2e9)]),
        )
    }

    #[test]
    fn kernels_are_summed_and_sorted_by_time() {
        let kernels = example().kernels();
        let names: Vec<_> = kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.launches)).collect();
        assert_eq!(
            names,
            [("demo::saxpy", 2), ("copy to the host", 1), ("copy on the device", 1), ("demo::other_saxpy", 1)]
        );
        let saxpy = &kernels[0];
        assert_eq!(saxpy.total, Duration::from_micros(40));
        assert_eq!((saxpy.shortest, saxpy.longest), (Duration::from_micros(10), Duration::from_micros(30)));
        assert!((saxpy.throughput() - 4e8).abs() < 1.0, "{}", saxpy.throughput());
        assert!((saxpy.share_of_copy.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(kernels[1].share_of_copy, None);
        // 1000 bytes read and as many written in 2 us are 1 GB/s, half of what copies reach.
        assert!((kernels[2].share_of_copy.unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn bytes_are_those_of_the_kernel_of_that_name() {
        let report = example().with_bytes("saxpy", 12_000);
        let bytes: Vec<_> = report.entries().iter().map(|entry| entry.bytes).collect();
        assert_eq!(bytes, [12_000, 1_000, 12_000, 0, 4_000]);
        assert_eq!(report.clone().with_bytes("demo::saxpy", 1).entries()[0].bytes, 1);
    }
}

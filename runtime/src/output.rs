//! What kernels print: lines put together on the host, and where they go.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use warpsmith_build::bundle::MessageFormat;
use warpsmith_device::Dim3;
use warpsmith_device::host::Output;
use warpsmith_device::print::TypeCode;

mod buffer;
mod format;
mod value;

pub(crate) use self::buffer::{GpuOutput, Printing};
use self::value::Reader;

/// Bytes of records that a stream's buffer holds unless the device says otherwise.
pub(crate) const DEFAULT_OUTPUT_BYTES: usize = 1 << 20;

/// A message put together from the words of a record; `None` when they are not what its format says.
pub(crate) fn text(message: &MessageFormat, words: &[u64]) -> Option<String> {
    let mut reader = Reader { words };
    let values = message.types.iter().map(|code| reader.value(TypeCode(*code))).collect::<Option<Vec<_>>>()?;
    format::format(&message.format, &values)
}

/// A line that a kernel printed, or the notice that some were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputLine<'a> {
    /// The kernel's module path and name.
    pub kernel: &'a str,
    /// The line, without its end.
    pub text: &'a str,
    /// The block that printed it.
    pub block: Dim3,
    /// The thread within the block.
    pub thread: Dim3,
    /// How many lines the kernel has lost, where this is the notice of it; 0 for the lines of kernels.
    pub lost: u64,
}

/// Takes the lines that kernels print.
pub(crate) type Sink = Arc<dyn Fn(&OutputLine<'_>) + Send + Sync>;

/// A place for a sink of the user's.
#[derive(Default)]
pub(crate) struct SinkSlot(RwLock<Option<Sink>>);

impl SinkSlot {
    pub(crate) fn set(&self, sink: Option<Sink>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = sink;
    }

    pub(crate) fn get(&self) -> Option<Sink> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for SinkSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.get().is_some() { "SinkSlot(set)" } else { "SinkSlot(unset)" })
    }
}

/// The sink of whoever sets none.
pub(crate) fn standard_output() -> Sink {
    Arc::new(|line| if line.lost == 0 { println!("{}", line.text) } else { eprintln!("{}", line.text) })
}

/// Puts together what each thread prints, and hands over whole lines.
#[derive(Debug)]
struct Lines<K> {
    /// What threads have printed of a line that has not ended, and when they began.
    open: HashMap<K, (u64, String)>,
    begun: u64,
}

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self { open: HashMap::new(), begun: 0 }
    }
}

impl<K: Copy + Eq + Hash> Lines<K> {
    /// Adds what a thread printed, and hands over the lines that ends.
    fn add(&mut self, thread: K, text: &str, mut each: impl FnMut(&str)) {
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            match self.open.remove(&thread) {
                Some((_, begin)) => each(&(begin + line)),
                None => each(line),
            }
            rest = after;
        }
        if !rest.is_empty() {
            let begun = &mut self.begun;
            let (_, line) = self.open.entry(thread).or_insert_with(|| {
                *begun += 1;
                (*begun, String::new())
            });
            line.push_str(rest);
        }
    }

    /// Hands over the lines that no thread has ended, in the order in which they began.
    fn finish(&mut self, mut each: impl FnMut(K, &str)) {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by_key(|(_, (begun, _))| *begun);
        for (thread, (_, line)) in open {
            each(thread, &line);
        }
    }
}

/// What a launch on the CPU executor prints.
pub(crate) struct LaunchOutput<'a> {
    kernel: &'a str,
    sink: Sink,
    lines: Mutex<Lines<(Dim3, Dim3)>>,
}

impl<'a> LaunchOutput<'a> {
    pub(crate) fn new(kernel: &'a str, sink: Sink) -> Self {
        Self { kernel, sink, lines: Mutex::default() }
    }

    /// Ends the lines that no thread has ended. The launch is over.
    pub(crate) fn finish(self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.finish(|(block, thread), text| {
            (self.sink)(&OutputLine { kernel: self.kernel, text, block, thread, lost: 0 });
        });
    }
}

impl Output for LaunchOutput<'_> {
    fn print(&self, block: Dim3, thread: Dim3, text: fmt::Arguments<'_>) {
        let text = text.to_string();
        // Held while the sink runs, so that a thread's lines stay in order.
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.add((block, thread), &text, |text| {
            (self.sink)(&OutputLine { kernel: self.kernel, text, block, thread, lost: 0 });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_threads_do_not_mix() {
        let mut lines = Lines::<u32>::default();
        let mut seen = Vec::new();
        for (thread, text) in [(1, "a"), (2, "x\ny"), (1, "b\nc\n\nd"), (3, ""), (2, "z\n"), (4, "e"), (1, "f")] {
            lines.add(thread, text, |line| seen.push((thread, line.to_owned())));
        }
        lines.finish(|thread, line| seen.push((thread, line.to_owned())));
        let expected = [(2, "x"), (1, "ab"), (1, "c"), (1, ""), (2, "yz"), (1, "df"), (4, "e")];
        assert_eq!(seen, expected.map(|(thread, line)| (thread, line.to_owned())));
    }
}

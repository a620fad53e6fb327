//! Panics of kernel threads: taken quietly, with message and place, instead of printed.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Once};

use warpsmith_device::host::{Context, try_current};

use super::CpuPanic;

thread_local! {
    /// What the hook saw last on this OS thread, until the thread's edge takes it.
    static SEEN: Cell<Option<CpuPanic>> = const { Cell::new(None) };
}

/// Says, once, that panics of kernels end the program where that is so.
pub(crate) fn warn_where_panics_abort() {
    static ONCE: Once = Once::new();
    if cfg!(panic = "abort") {
        ONCE.call_once(|| {
            tracing::warn!(
                "this program is compiled with panic = \"abort\": a panic in a kernel on the CPU executor cannot be caught and ends it"
            );
        });
    }
}

/// Puts our panic hook before the program's, once. It keeps quiet about kernel threads and leaves all else to the
/// hook before.
pub(super) fn install_hook() {
    static ONCE: Once = Once::new();
    // The hook can't be changed while this very thread panics, as in a launch from a `Drop`: a later launch does it.
    if ONCE.is_completed() || std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let seen = try_current(|context| describe(context, message(info.payload()), Some(info)));
            let is_kernel = seen.is_some();
            if is_kernel {
                SEEN.set(seen);
            }
            // Where panics abort there is no thread's edge to report at: this is the last chance to say anything.
            if !is_kernel || cfg!(panic = "abort") {
                previous(info);
            }
        }));
    });
}

/// The panic that was just caught at a thread's edge; `context` still stands at that thread.
pub(super) fn caught(context: &Context<'_>, payload: &(dyn Any + Send)) -> CpuPanic {
    // A program that replaced our hook left only the payload.
    SEEN.take().unwrap_or_else(|| describe(context, message(payload), None))
}

fn describe(context: &Context<'_>, message: String, info: Option<&PanicHookInfo<'_>>) -> CpuPanic {
    let location = info.and_then(PanicHookInfo::location);
    CpuPanic {
        message,
        file: location.map(|l| l.file().to_owned()).unwrap_or_default(),
        line: location.map_or(0, |l| l.line()),
        column: location.map_or(0, |l| l.column()),
        block: context.block_idx(),
        thread: context.thread_idx(),
        backtrace: info.and_then(|_| backtrace()),
    }
}

/// The calls that led to a panic, where `RUST_BACKTRACE` or `RUST_LIB_BACKTRACE` asks for them.
fn backtrace() -> Option<Arc<Backtrace>> {
    let backtrace = Backtrace::capture();
    (backtrace.status() == BacktraceStatus::Captured).then(|| Arc::new(backtrace))
}

/// The kernel's own part of a backtrace, as text: without what raises a panic, and without the executor.
pub(crate) fn kernels_own(backtrace: &str) -> String {
    // A frame is a line with its number and name, and mostly one with its place.
    let mut frames: Vec<String> = Vec::new();
    for line in backtrace.lines() {
        let number = line.trim_start().split_once(": ").and_then(|(number, _)| number.parse::<u32>().ok());
        match frames.last_mut() {
            Some(frame) if number.is_none() => {
                frame.push('\n');
                frame.push_str(line);
            }
            _ => frames.push(line.to_owned()),
        }
    }
    let raises = |frame: &String| {
        ["rust_begin_unwind", "core::panicking::", "core::option::", "core::result::"]
            .iter()
            .any(|name| frame.contains(name))
    };
    let first = frames.iter().rposition(raises).map_or(0, |last| last + 1);
    let is_entry = |frame: &String| frame.contains("::launch::__Instance");
    let end = frames.iter().position(is_entry).filter(|&end| end > first).unwrap_or(frames.len());
    // What calls the kernel for each thread is of the executor too.
    let is_executor = |frame: &String| frame.contains("warpsmith_device::host::");
    let own = frames[first..end].iter().take_while(|frame| !is_executor(frame));
    own.cloned().collect::<Vec<_>>().join("\n")
}

fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is not text".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_backtrace_the_kernels_frames_are_kept() {
        let whole = "   0: __rustc::rust_begin_unwind\n             at /rustc/x/panicking.rs:679:5\n   1: core::panicking::panic_fmt\n   \
                     2: my::helper\n             at ./src/main.rs:7:9\n   3: my::kernel\n   4: \
                     my::kernel::launch::__Instance::threads::{{closure}}\n   5: warpsmith_device::host::Context::run_threads\n   6: main";
        assert_eq!(kernels_own(whole), "   2: my::helper\n             at ./src/main.rs:7:9\n   3: my::kernel");
        assert_eq!(kernels_own("   0: a\n   1: b"), "   0: a\n   1: b");
    }
}

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
    let message = message(payload);
    // One that the kernel has caught itself may be of another thread, and what it raises again passes no hook.
    let is_this = |seen: &CpuPanic| {
        (seen.block, seen.thread) == (context.block_idx(), context.thread_idx()) && seen.message == message
    };
    // A program that replaced our hook left only the payload.
    SEEN.take().filter(is_this).unwrap_or_else(|| describe(context, message, None))
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
    let has = |frame: &String, names: &[&str]| names.iter().any(|name| frame.contains(name));
    // First comes what takes the backtrace, which has names of all kinds; then what raises a panic.
    let raised = frames.iter().position(|frame| has(frame, &["rust_begin_unwind", "std::panicking::begin_panic"]));
    let raises = [
        "rust_begin_unwind",
        "std::panicking::",
        "std::panic::",
        "core::panicking::",
        "core::option::",
        "core::result::",
    ];
    let kernels = |from: usize| frames[from..].iter().position(|frame| !has(frame, &raises)).map(|at| from + at);
    let first = raised.map_or(Some(0), kernels).unwrap_or(frames.len());
    // Below the executor come the program's own frames, or a test harness's.
    let calls = ["::__kernel::__Instance", "warpsmith_device::host::", "warpsmith.run."];
    let end = frames[first..].iter().position(|frame| has(frame, &calls)).map_or(frames.len(), |own| first + own);
    // Tables of lines alone have no paths of what was inlined, so that the entry, which checked code's caller calls, is `entry`.
    let is_entry = |frame: &String| frame.lines().next().is_some_and(|name| name.ends_with(": entry"));
    let is_checked = frames.get(end).is_some_and(|frame| frame.contains("warpsmith.run."));
    let end = if is_checked && end > first && is_entry(&frames[end - 1]) { end - 1 } else { end };
    // Where the kernel has no frame of its own, it is in the one that calls it.
    let end = if first == end { frames.len().min(end + 1) } else { end };
    frames[first..end].join("\n")
}

/// The text of a panic's payload.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
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
                     my::kernel::__kernel::__Instance::threads::{{closure}}\n   5: warpsmith_device::host::Context::run_threads\n   6: main";
        assert_eq!(kernels_own(whole), "   2: my::helper\n             at ./src/main.rs:7:9\n   3: my::kernel");
        assert_eq!(kernels_own("   0: a\n   1: b"), "   0: a\n   1: b");
        // A harness has frames with names like those of a panic below the executor's.
        let tested = format!("{whole}\n   7: core::result::Result<T,E>::and_then\n   8: test::run_test_in_process");
        assert_eq!(kernels_own(&tested), kernels_own(whole));
        // What takes the backtrace goes, though it asks for the executor's context.
        let taken = format!("   0: warpsmith_device::host::try_current\n   1: core::option::Option<T>::map\n{whole}");
        assert_eq!(kernels_own(&taken), kernels_own(whole));
        let checked =
            format!("{}\n   4: entry\n             at ./src/main.rs:1:1\n   5: warpsmith.run._RNv", kernels_own(whole));
        assert_eq!(kernels_own(&checked), kernels_own(whole));
        // Of a closure that the library calls the library's frame stays.
        let closure = "   0: __rustc::rust_begin_unwind\n   1: my::kernel::{{closure}}\n   2: core::option::Option<T>::map\n   3: my::kernel\n   \
                       4: <my::kernel::__kernel::__Instance>::entry\n   5: warpsmith.run._RNv\n   6: main";
        assert_eq!(kernels_own(closure), closure.lines().skip(1).take(3).collect::<Vec<_>>().join("\n"));
    }
}

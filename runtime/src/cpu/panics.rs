//! Panics of kernel threads: taken quietly, with message and place, instead of printed.

use std::any::Any;
use std::cell::Cell;
use std::panic::PanicHookInfo;
use std::sync::Once;

use warpsmith_device::host::{Context, try_current};

use super::CpuPanic;

thread_local! {
    /// What the hook saw last on this OS thread, until the thread's edge takes it.
    static SEEN: Cell<Option<CpuPanic>> = const { Cell::new(None) };
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
    }
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

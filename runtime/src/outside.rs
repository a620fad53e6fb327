//! What must not happen on a thread that runs a stream's host task, and the thread that does it instead.

use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The host task that the calling thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    Nothing,
    /// One of a GPU's stream, on a thread of the driver: no function of the driver may be called.
    Gpu,
    /// One of a stream of the CPU executor, which is as strict with its own streams.
    Cpu,
}

thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside::Nothing) };
}

/// The host task that the calling thread runs.
#[inline]
pub(crate) fn inside() -> Inside {
    INSIDE.get()
}

/// Calls `task` as a host task.
pub(crate) fn run_inside(inside: Inside, task: impl FnOnce()) {
    struct Restore(Inside);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _restore = Restore(INSIDE.replace(inside));
    task();
}

type Discarded = Box<dyn Send>;

static DISCARDED: OnceLock<Sender<Discarded>> = OnceLock::new();

/// Starts the thread that drops what host tasks leave, unless it runs.
pub(crate) fn start() -> std::io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _held = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if DISCARDED.get().is_some() {
        return Ok(());
    }
    let (sender, receiver) = channel::<Discarded>();
    std::thread::Builder::new().name("warpsmith-drop".to_owned()).spawn(move || {
        for value in receiver {
            // What panics in its `drop` is the user's; the thread goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
        }
    })?;
    DISCARDED.get_or_init(|| sender);
    Ok(())
}

/// Drops a value on the thread for that.
pub(crate) fn discard(value: impl Send + 'static) {
    match DISCARDED.get() {
        Some(sender) => drop(sender.send(Box::new(value))),
        // No host task runs before `start` has succeeded; a value is rather kept than dropped on the driver's thread.
        None => std::mem::forget(value),
    }
}

/// A value whose `drop` may call the driver: on a thread that runs a host task it is dropped by another one.
pub(crate) struct Kept<T: Send + 'static>(ManuallyDrop<T>);

impl<T: Send + 'static> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Send + 'static> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: the value is taken once, here, and `self` is gone afterwards.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        if inside() == Inside::Gpu {
            discard(value);
        }
    }
}

impl<T: Send + 'static> Deref for Kept<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + 'static> DerefMut for Kept<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Clone + Send + 'static> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self::new(T::clone(self))
    }
}

impl<T: fmt::Debug + Send + 'static> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use super::*;

    struct Tell(mpsc::Sender<ThreadId>);

    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().id());
        }
    }

    #[test]
    fn what_a_host_task_drops_is_dropped_by_another_thread() {
        start().unwrap();
        let (sender, receiver) = mpsc::channel();
        let own = thread::current().id();
        drop(Kept::new(Tell(sender.clone())));
        assert_eq!(receiver.recv().unwrap(), own);
        let kept = Kept::new(Tell(sender.clone()));
        run_inside(Inside::Gpu, || drop(kept));
        assert_ne!(receiver.recv().unwrap(), own);
        // A value that panics when it is dropped does not end the thread, and a task that panics ends its inside.
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("a test's own panic in a drop");
            }
        }
        discard(Panics);
        let outcome = catch_unwind(AssertUnwindSafe(|| run_inside(Inside::Gpu, || panic!("a test's own panic"))));
        assert!(outcome.is_err() && inside() == Inside::Nothing);
        discard(Tell(sender));
        assert_ne!(receiver.recv().unwrap(), own);
    }
}

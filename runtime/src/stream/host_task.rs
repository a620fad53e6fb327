//! Host tasks: functions of the host that run in a stream's order.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Queue, Stream};
use crate::cpu::panics::message;
use crate::device::Deferred;
use crate::error::{Error, Result, StreamError};
use crate::outside::{self, Inside};

/// The panic of a stream's host task, until it is reported.
#[derive(Debug, Default)]
pub(crate) struct TaskPanic {
    state: Mutex<TaskState>,
}

#[derive(Debug, Default)]
struct TaskState {
    message: Option<String>,
    /// Who reports it once the stream is gone.
    orphaned: Option<Arc<Deferred>>,
}

impl TaskPanic {
    /// Keeps the first panic.
    fn note(&self, message: String) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.orphaned {
            Some(device) => device.keep(StreamError::HostTaskPanicked { message }.into()),
            None => drop(state.message.get_or_insert(message).len()),
        }
    }

    /// The panic, once.
    pub(crate) fn take(&self) -> Option<Error> {
        let message = self.state.lock().unwrap_or_else(PoisonError::into_inner).message.take()?;
        Some(StreamError::HostTaskPanicked { message }.into())
    }

    /// The stream is dropped: its device reports panics from here on.
    pub(crate) fn orphan(&self, device: &Arc<Deferred>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(message) = state.message.take() {
            device.keep(StreamError::HostTaskPanicked { message }.into());
        }
        state.orphaned = Some(Arc::clone(device));
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// Tasks that the driver has yet to call, by the numbers that it was given. A number that is called twice, or never, as after
/// the loss of a context, harms nobody.
static TASKS: Mutex<(u64, BTreeMap<u64, Task>)> = Mutex::new((0, BTreeMap::new()));

fn insert(task: Task) -> u64 {
    let mut tasks = TASKS.lock().unwrap_or_else(PoisonError::into_inner);
    tasks.0 += 1;
    let number = tasks.0;
    tasks.1.insert(number, task);
    number
}

fn remove(number: u64) -> Option<Task> {
    TASKS.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number)
}

/// What the driver calls, on a thread of its own.
extern "C" fn entry(number: *mut c_void) {
    if let Some(task) = remove(number.addr() as u64) {
        outside::run_inside(Inside::Gpu, task);
    }
}

impl Stream {
    /// Calls a function on the host in this stream's order: after all work that the stream was given before, and before all that it
    /// is given later.
    ///
    /// On a GPU a thread of the driver calls it, and this call returns at once. The stream waits for the task, so it should be short:
    /// send a message, wake a thread, count. It must not use devices: calls of this crate that would need the driver fail in it,
    /// with [`DriverError::is_from_host_task`](crate::DriverError::is_from_host_task) or
    /// [`DeviceError::InHostTask`](crate::DeviceError::InHostTask), and it must not wait for work of a GPU by other means. It may own
    /// buffers, streams and other values of this crate: what it drops is given back by another thread. That does not hold for values of cudarc: it must not own
    /// the last handle of one.
    ///
    /// The CPU executor calls it before this call returns, and refuses its own streams and buffers in it alike.
    ///
    /// A panic of the task is caught: the next [`synchronize`](Self::synchronize) of the stream reports it, and later work goes on. When
    /// the GPU's context is lost before, the task is never called.
    ///
    /// # Errors
    /// [`StreamError::Capturing`] while the stream's work is captured into a graph, [`StreamError::Thread`] when the system has no
    /// thread left, [`StreamError::Driver`] when the driver refuses. The function is dropped then without being called.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc::channel;
    /// use warpsmith::prelude::*;
    ///
    /// let stream = Device::cpu().stream()?;
    /// let (sender, receiver) = channel();
    /// stream.host_task(move || sender.send("all before is done").unwrap())?;
    /// assert_eq!(receiver.recv().unwrap(), "all before is done");
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn host_task(&self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        self.inner.check_outside()?;
        self.not_recording("a host task, which is a node of its own (`Graph::add_host`),")?;
        let panic = Arc::clone(&self.inner.task_panic);
        let guarded = move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(task)) {
                panic.note(message(&*payload));
                outside::discard(payload);
            }
        };
        outside::start().map_err(|source| StreamError::Thread { source })?;
        match &self.inner.queue {
            Queue::Cpu(_) => outside::run_inside(Inside::Cpu, guarded),
            Queue::Gpu(queue) => {
                let operation = "queueing a host task";
                let refused = |source| StreamError::Driver { operation, source };
                if queue.stream.is_capturing().map_err(refused)? {
                    return Err(StreamError::Capturing { operation }.into());
                }
                let number = insert(Box::new(guarded));
                // SAFETY: `entry` takes any number.
                if let Err(source) = unsafe { queue.stream.call_host(entry, number) } {
                    drop(remove(number));
                    return Err(refused(source).into());
                }
            }
        }
        Ok(())
    }
}

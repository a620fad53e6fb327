//! Futures that are ready when a stream's work is done.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::driver::GpuEvent;
use crate::error::{DriverError, Error, Result, StreamError};
use crate::event::Event;
use crate::outside::Kept;
use crate::stream::Stream;

mod watcher;

use watcher::Ticket;

/// An event that several hold.
pub(crate) type SharedEvent = Kept<Arc<GpuEvent>>;

/// A point in a stream's work that somebody waits for.
pub(crate) struct Mark {
    event: SharedEvent,
    /// The stream's id and the point's number on it, where the points of one stream are passed in order; an id of 0 otherwise.
    place: (u64, u64),
    ticket: Option<Ticket>,
}

/// Why a future ends without success.
enum Failure {
    Driver(DriverError),
    Thread(std::io::Error),
}

impl Mark {
    pub(crate) fn new(event: SharedEvent, place: (u64, u64)) -> Self {
        Self { event, place, ticket: None }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<(), Failure>> {
        if let Some(ticket) = &self.ticket {
            return ticket.poll(context).map_err(Failure::Driver);
        }
        match self.event.is_done() {
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(Failure::Driver(error))),
            Ok(false) => match watcher::watch(&self.event, self.place, context.waker()) {
                Ok(ticket) => {
                    self.ticket = Some(ticket);
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(Failure::Thread(error))),
            },
        }
    }
}

enum State {
    /// Nothing is left to wait for.
    Passed,
    Refused(Error),
    Waiting(Mark),
}

impl State {
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<(), Either>> {
        let outcome = match std::mem::replace(self, Self::Passed) {
            Self::Passed => return Poll::Ready(Ok(())),
            Self::Refused(error) => return Poll::Ready(Err(Either::Refused(error))),
            Self::Waiting(mut mark) => match mark.poll(context) {
                Poll::Pending => {
                    *self = Self::Waiting(mark);
                    return Poll::Pending;
                }
                Poll::Ready(outcome) => outcome,
            },
        };
        Poll::Ready(outcome.map_err(|failure| match failure {
            Failure::Driver(source) => Either::Work(source),
            Failure::Thread(source) => Either::Refused(StreamError::Thread { source }.into()),
        }))
    }
}

/// What a future could not do, or what the work did wrong.
enum Either {
    Refused(Error),
    Work(DriverError),
}

/// Ready when the work that a stream had is done; see [`Stream::completed`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct StreamCompleted {
    stream: Stream,
    state: State,
}

impl Future for StreamCompleted {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        this.state.poll(context).map(|outcome| match outcome {
            Ok(()) => this.stream.report(),
            Err(Either::Refused(error)) => Err(error),
            Err(Either::Work(source)) => {
                // What was printed before a context was lost can still be read.
                this.stream.inner().hand_over_output();
                Err(this.stream.work_failed(source))
            }
        })
    }
}

impl fmt::Debug for StreamCompleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamCompleted").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// Ready when an event's point is passed; see [`Event::completed`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct EventCompleted {
    state: State,
}

impl Future for EventCompleted {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.state.poll(context).map_err(|error| match error {
            Either::Refused(error) => error,
            Either::Work(source) => StreamError::Driver { operation: "the work before an event", source }.into(),
        })
    }
}

impl fmt::Debug for EventCompleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCompleted").finish_non_exhaustive()
    }
}

impl Stream {
    /// A future that is ready when all work is done that the stream has been given until this call, under any executor of futures.
    ///
    /// It gives what [`synchronize`](Self::synchronize) would: a kernel's panic, or the failure of the work. One thread of this crate
    /// looks after all such futures of the process, and sleeps while there are none. Dropping a future does not stop the work. On
    /// the CPU executor the work is done already, and the future ready at once.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// async fn double(stream: &Stream, numbers: &[f32]) -> warpsmith::Result<Vec<f32>> {
    ///     # #[kernel]
    ///     # fn twice(mut y: GridSliceMut<f32>) {
    ///     #     if let Some(y) = y.get_mut(&global_idx()) {
    ///     #         *y *= 2.0;
    ///     #     }
    ///     # }
    ///     let mut y = stream.to_device(numbers)?;
    ///     twice::launch(stream, LaunchConfig::for_len(y.len()), &mut y)?;
    ///     stream.completed().await?;
    ///     stream.to_host(&y)
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let stream = Device::cpu().stream()?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// assert_eq!(runtime.block_on(double(&stream, &[1.0, 2.0]))?, [2.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn completed(&self) -> StreamCompleted {
        let marked = self.not_recording("waiting for its work").map_err(Into::into).and_then(|()| self.inner().mark());
        let state = match marked {
            Ok(None) => State::Passed,
            Ok(Some(mark)) => State::Waiting(mark),
            Err(error) => State::Refused(error),
        };
        StreamCompleted { stream: self.clone(), state }
    }
}

impl Event {
    /// A future that is ready when the point is passed that the event marks, under any executor of futures; at once when it was
    /// never recorded. Where the event is recorded again before that, the new point counts.
    ///
    /// It gives what [`synchronize`](Self::synchronize) would. Panics of kernels are reported by their stream.
    ///
    /// # Examples
    /// ```
    /// use warpsmith::prelude::*;
    ///
    /// let stream = Device::cpu().stream()?;
    /// let event = stream.record()?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// runtime.block_on(event.completed())?;
    /// # Ok::<(), warpsmith::Error>(())
    /// ```
    pub fn completed(&self) -> EventCompleted {
        let mark = self.shared().map(|event| Mark::new(event, (0, 0)));
        EventCompleted { state: mark.map_or(State::Passed, State::Waiting) }
    }
}

//! Which streams have used a piece of memory, so that a use on another stream waits and freeing comes last.

use std::sync::Arc;

use crate::driver::{GpuStream, code};
use crate::error::DriverError;
use crate::stream::StreamInner;

/// How a piece of work uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It reads.
    Read,
    /// It writes, beside others that may use the same memory at the same time: atomics, or a part of a buffer.
    Shared,
    /// It writes, and whoever asks for it holds the only borrow of the whole memory.
    Exclusive,
}

/// The uses of a piece of memory that may not be done.
///
/// No event is recorded per use. When a use on one stream must come after one on another, the other stream is waited for
/// as it stands then, which covers the earlier use.
#[derive(Debug)]
pub(crate) struct Uses {
    clock: u64,
    entries: Vec<Use>,
}

/// One stream's last uses, by the clock of [`Uses`]; 0 is never.
#[derive(Debug)]
struct Use {
    stream: Arc<StreamInner>,
    used_at: u64,
    wrote_at: u64,
}

impl Uses {
    /// Memory that a stream has just been given.
    pub(crate) fn new(stream: &Arc<StreamInner>) -> Self {
        Self { clock: 1, entries: vec![Use { stream: Arc::clone(stream), used_at: 1, wrote_at: 1 }] }
    }

    /// Memory that no stream has used.
    pub(crate) fn none() -> Self {
        Self { clock: 0, entries: Vec::new() }
    }

    /// The id of the one stream that has used the memory and has written it, else 0. Its next uses change nothing here: other streams
    /// wait for all that it was given.
    pub(crate) fn sole(&self) -> u64 {
        match self.entries.as_slice() {
            [only] if only.wrote_at != 0 => only.stream.id(),
            _ => 0,
        }
    }

    /// Orders a use on `stream` after those that it must come after, and notes it.
    #[inline]
    pub(crate) fn order(&mut self, stream: &Arc<StreamInner>, access: Access) -> Result<(), DriverError> {
        if stream.is_recording() {
            return Err(not_recorded());
        }
        match self.entries.as_slice() {
            [only] if only.stream.id() == stream.id() => {}
            _ => self.cross(stream, access)?,
        }
        self.note(stream, access);
        Ok(())
    }

    /// Waits for other streams.
    #[cold]
    fn cross(&mut self, stream: &Arc<StreamInner>, access: Access) -> Result<(), DriverError> {
        let own = self.entries.iter().find(|entry| entry.stream.id() == stream.id());
        // A stream's read came after all earlier writes, its write after all earlier uses.
        let (used_at, wrote_at) = own.map_or((0, 0), |own| (own.used_at, own.wrote_at));
        for other in self.entries.iter().filter(|entry| entry.stream.id() != stream.id()) {
            let must_wait = match access {
                Access::Read => other.wrote_at > used_at,
                Access::Shared | Access::Exclusive => other.used_at > wrote_at,
            };
            if must_wait {
                stream.wait_for(&other.stream)?;
            }
        }
        match access {
            // Nobody else can be about to use the memory, and this stream comes after all that have.
            Access::Exclusive => self.entries.retain(|entry| entry.stream.id() == stream.id()),
            Access::Read | Access::Shared => self.entries.retain(|entry| !entry.stream.is_finished()),
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, stream: &Arc<StreamInner>, access: Access) {
        self.clock += 1;
        let (used_at, wrote_at) = (self.clock, if access == Access::Read { 0 } else { self.clock });
        match self.entries.iter_mut().find(|entry| entry.stream.id() == stream.id()) {
            Some(own) => {
                own.used_at = used_at;
                own.wrote_at = own.wrote_at.max(wrote_at);
            }
            None => self.entries.push(Use { stream: Arc::clone(stream), used_at, wrote_at }),
        }
    }

    /// Has `foreign`, a stream of another device, read the memory by `copy`, which is given to it after the writes before. The
    /// memory itself remembers its own streams only: one of them waits for the copy.
    pub(crate) fn lend(
        &mut self,
        foreign: &Arc<StreamInner>,
        copy: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        for entry in self.entries.iter().filter(|entry| entry.wrote_at != 0) {
            foreign.wait_for(&entry.stream)?;
        }
        copy()?;
        let own = self.entries.last().map(|entry| Arc::clone(&entry.stream));
        let own = own.expect("a use is always remembered: the last one is noted after others are forgotten");
        if own.wait_for(foreign).is_err()
            && let Some(queue) = foreign.gpu()
        {
            // What no stream waits for, the host does.
            queue.stream.synchronize()?;
        }
        self.note(&own, Access::Read);
        Ok(())
    }

    /// The other streams that have written the memory, as far as they are remembered.
    pub(crate) fn other_writers(&self, stream: &Arc<StreamInner>) -> Vec<Arc<StreamInner>> {
        let writers = self.entries.iter().filter(|entry| entry.wrote_at != 0 && entry.stream.id() != stream.id());
        writers.map(|entry| Arc::clone(&entry.stream)).collect()
    }

    /// The streams whose work, as it stands, comes before a use by the host.
    pub(crate) fn before(&self, access: Access) -> Vec<Arc<StreamInner>> {
        let counts = |entry: &&Use| access != Access::Read || entry.wrote_at != 0;
        self.entries.iter().filter(counts).map(|entry| Arc::clone(&entry.stream)).collect()
    }

    /// Orders another library's later work after all uses so far.
    pub(crate) fn order_before(&self, foreign: &GpuStream) -> Result<(), DriverError> {
        self.entries.iter().try_for_each(|entry| entry.stream.is_waited_for_by(foreign))
    }

    /// A stream after whose work, as it stands, all uses are done.
    pub(crate) fn last(&self) -> Result<Option<&Arc<StreamInner>>, DriverError> {
        let Some((last, others)) = self.entries.split_last() else { return Ok(None) };
        for other in others {
            last.stream.wait_for(&other.stream)?;
        }
        Ok(Some(&last.stream))
    }
}

/// The answer to a use that a graph's recording does not know: else it would be done at once, and not by the graph.
#[cold]
fn not_recorded() -> DriverError {
    DriverError {
        call: "recording a graph",
        code: code::STREAM_CAPTURE_UNSUPPORTED,
        name: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED".to_owned(),
    }
}

#[cfg(test)]
impl Uses {
    /// The streams that are remembered, in order of their first use.
    fn streams(&self) -> Vec<u64> {
        self.entries.iter().map(|entry| entry.stream.id()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn an_exclusive_use_forgets_the_others_and_a_shared_one_does_not() {
        let device = Device::cpu();
        let streams = [device.stream().unwrap(), device.stream().unwrap(), device.stream().unwrap()];
        let [a, b, c] = streams.each_ref().map(|stream| stream.inner());
        let mut uses = Uses::new(a);
        uses.order(b, Access::Read).unwrap();
        assert_eq!(uses.streams(), [a.id(), b.id()]);
        uses.order(c, Access::Shared).unwrap();
        assert_eq!(uses.streams(), [a.id(), b.id(), c.id()]);
        uses.order(b, Access::Exclusive).unwrap();
        assert_eq!(uses.streams(), [b.id()]);
        assert_eq!(uses.last().unwrap().map(|stream| stream.id()), Some(b.id()));
    }

    #[test]
    fn streams_that_are_gone_are_forgotten() {
        let device = Device::cpu();
        let stays = device.stream().unwrap();
        let mut uses = Uses::new(stays.inner());
        for _ in 0..100 {
            let passing = device.stream().unwrap();
            uses.order(passing.inner(), Access::Read).unwrap();
        }
        assert!(uses.streams().len() <= 2, "{:?}", uses.streams());
    }
}

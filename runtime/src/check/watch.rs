//! The guard of an element that is watched.

use std::sync::{Arc, PoisonError};

use super::observe::{Watched, WatchedWrite};

/// Watches an element of a buffer for as long as it lives; made by [`Device::watch`](crate::Device::watch).
///
/// Every write of a kernel's thread to the element is traced (at the level `INFO`, with the target `warpsmith::watch`) and kept
/// here, in the order in which the writes happen: atomic ones, and those that leave the value as it was, included. Copies from
/// the host are none. Of one watch 10 000 writes are kept; later ones are traced alone.
#[derive(Debug)]
#[must_use = "an element is watched until this is dropped"]
pub struct Watch {
    watched: Arc<Watched>,
}

impl Watch {
    pub(crate) fn new(address: usize, bytes: usize) -> Self {
        Self { watched: Arc::new(Watched { address, bytes, writes: Default::default() }) }
    }

    pub(crate) fn watched(&self) -> &Arc<Watched> {
        &self.watched
    }

    /// The writes since this was last called, or since the element is watched.
    pub fn take_writes(&self) -> Vec<WatchedWrite> {
        std::mem::take(&mut *self.watched.writes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! Failures that no call could report where they happened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// The first failure that is yet to be reported by the device.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    is_there: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl Deferred {
    /// Keeps a failure, unless one is kept.
    pub(crate) fn keep(&self, error: Error) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(error);
            self.is_there.store(true, Ordering::Release);
        }
    }

    /// The failure that was kept, once.
    pub(crate) fn take(&self) -> Option<Error> {
        if !self.is_there.load(Ordering::Acquire) {
            return None;
        }
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_there.store(false, Ordering::Release);
        first.take()
    }
}

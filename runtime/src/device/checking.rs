//! What a checked device knows and finds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use warpsmith_device::abi::DeviceElement;

use super::Device;
use crate::check::{CheckOptions, Finding, MemoryReport, Watch, Watched};
use crate::error::{DeviceError, Result};
use crate::memory::DeviceBuffer;

impl Device {
    /// What the device's launches asked of memory so far: bank conflicts and uncoalesced accesses by source line.
    ///
    /// It is empty unless this is a checked device with [`CheckOptions::memory_report`]. Nothing prints it by itself: programs that
    /// run with `WARPSMITH_CHECK=memory` end with `println!("{}", device.memory_report())`.
    #[must_use]
    pub fn memory_report(&self) -> MemoryReport {
        self.inner.traffic.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where checked launches put what they asked of memory.
    pub(crate) fn traffic(&self) -> &Mutex<MemoryReport> {
        &self.inner.traffic
    }

    /// Watches an element of a buffer of this checked device: who writes it, from where, and what.
    ///
    /// Launches from here on tell each write to it, until the [`Watch`] is dropped. Drop it before the buffer: its memory may
    /// become another buffer's.
    ///
    /// # Errors
    /// [`DeviceError::CannotWatch`] when this is no checked device, when the buffer is another's (each call of
    /// [`Device::cpu_checked`] gives the same one), and when it has no such element.
    ///
    /// # Examples
    /// ```no_run
    /// use warpsmith::prelude::*;
    ///
    /// #[kernel]
    /// fn fill(value: f32, mut y: GridSliceMut<f32>) {
    ///     if let Some(y) = y.get_mut(&global_idx()) {
    ///         *y = value;
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::cpu_checked();
    /// let stream = device.stream()?;
    /// let mut y = stream.zeroed::<f32>(1000)?;
    /// let watch = device.watch(&y, 700)?;
    /// fill::launch(&stream, LaunchConfig::for_len(1000), 1.5, &mut y)?;
    /// for write in watch.take_writes() {
    ///     println!("{write}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch<T: DeviceElement>(&self, buffer: &DeviceBuffer<T>, index: usize) -> Result<Watch> {
        let cannot = |reason: String| Err(DeviceError::CannotWatch { index, reason }.into());
        if self.check_options().is_none() {
            return cannot(format!("{self} is no checked device; `Device::cpu_checked()` gives one"));
        }
        if !buffer.device().is_same(self) {
            return cannot(format!("the buffer is of another device, {}", buffer.device()));
        }
        if index >= buffer.len() {
            return cannot(format!("the buffer has {} elements", buffer.len()));
        }
        let watch = Watch::new(buffer.executor_address() + index * size_of::<T>(), size_of::<T>());
        self.inner.watches.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(watch.watched()));
        Ok(watch)
    }

    /// The elements that are watched.
    pub(crate) fn watches(&self) -> Vec<Arc<Watched>> {
        let mut watches = self.inner.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|watched| watched.strong_count() > 0);
        watches.iter().filter_map(Weak::upgrade).collect()
    }

    /// What the device looks for in launches, where it is a checked one.
    #[must_use]
    pub fn check_options(&self) -> Option<&CheckOptions> {
        self.inner.checking.get()?.as_ref().ok()
    }

    /// What the checker has found since it was last asked or reported something, on all streams of this device. Nothing of it is
    /// reported again.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.findings()).into_iter().map(|(_, finding)| finding).collect()
    }

    fn findings(&self) -> MutexGuard<'_, Vec<(u64, Finding)>> {
        self.inner.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_findings(&self, stream: u64, findings: Vec<Finding>) {
        self.findings().extend(findings.into_iter().map(|finding| (stream, finding)));
    }

    pub(crate) fn has_findings(&self, stream: u64) -> bool {
        self.findings().iter().any(|&(of, _)| of == stream)
    }

    pub(crate) fn take_findings_of(&self, stream: u64) -> Vec<Finding> {
        self.findings().extract_if(.., |&mut (of, _)| of == stream).map(|(_, finding)| finding).collect()
    }

    /// A stream is dropped: what was found on it is reported by [`Self::synchronize`].
    pub(crate) fn orphan_findings(&self, stream: u64) {
        self.findings().iter_mut().filter(|(of, _)| *of == stream).for_each(|(of, _)| *of = 0);
    }
}

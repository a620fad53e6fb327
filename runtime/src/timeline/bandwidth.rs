//! How fast a device copies its own memory: what a kernel that only moves data is measured against.

use std::time::Duration;

use crate::device::Device;
use crate::error::Result;

impl Device {
    /// Bytes that a copy on the device reads and writes in a second, measured now: the median of some copies between two
    /// buffers of 256 MiB, or of a sixteenth of the free memory where that is less. Takes some milliseconds on a GPU, and
    /// about a second on the CPU executor.
    ///
    /// # Errors
    /// [`MemoryError`](crate::MemoryError) when the buffers cannot be had, [`StreamError`](crate::StreamError) when the driver refuses.
    pub fn copy_bandwidth(&self) -> Result<f64> {
        const LARGEST: u64 = 256 << 20;
        const SMALLEST: u64 = 1 << 20;
        const COPIES: usize = 7;
        let free = self.memory_info()?.free;
        let bytes = (free / 16).clamp(SMALLEST, if self.is_gpu() { LARGEST } else { LARGEST / 4 });
        let len = usize::try_from(bytes).expect("a quarter of a gigabyte has an address");
        let stream = self.stream()?;
        let from = stream.filled(1u8, len)?;
        let mut to = stream.filled(0u8, len)?;
        let mut times = Vec::with_capacity(COPIES);
        for _ in 0..=COPIES {
            let start = stream.record()?;
            to.copy_from_device(&stream, &from)?;
            times.push(start.elapsed(&stream.record()?)?);
        }
        // The first one warms up.
        let median = median(&mut times[1..]).max(Duration::from_nanos(1));
        Ok(2.0 * bytes as f64 / median.as_secs_f64())
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

//! The loop in C (`cuda/launches.c`), opened as a shared library.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::time::Duration;

use libloading::Library;
use warpsmith::prelude::*;

/// Which of the loop's kernels is launched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arguments {
    Five = 0,
    Sixteen = 1,
}

/// The opened library, with its kernels loaded into the GPU's context.
pub(crate) struct Bare(Library);

impl Bare {
    pub(crate) fn open(stream: &Stream, path: &Path) -> Result<Self, Box<dyn Error>> {
        stream.as_cudarc().ok_or("the loop needs a GPU")?.context().bind_to_thread()?;
        // SAFETY: `launches.c` has no initialisers.
        let library = unsafe { Library::new(path) }?;
        // SAFETY: the function has this type there, and the context is this thread's.
        let answer = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"launches_open\0")?() };
        if answer == 0 { Ok(Self(library)) } else { Err(format!("launches_open answered {answer}").into()) }
    }

    /// How long so many launches take.
    pub(crate) fn time(&self, stream: &Stream, which: Arguments, count: u32) -> Result<Duration, Box<dyn Error>> {
        type Time = unsafe extern "C" fn(c_int, c_int, *mut c_void) -> f64;
        let stream = stream.as_cudarc().ok_or("the loop needs a GPU")?.cu_stream();
        // SAFETY: the function has this type there; its kernels touch no memory, and the stream is alive.
        let nanoseconds =
            unsafe { self.0.get::<Time>(b"launches_time\0")?(which as c_int, c_int::try_from(count)?, stream.cast()) };
        if nanoseconds < 0.0 {
            return Err("the driver refused a launch of the loop in C".into());
        }
        Ok(Duration::from_secs_f64(nanoseconds * 1e-9))
    }
}

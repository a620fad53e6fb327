//! NVTX: names for spans of a thread's time, which profilers such as Nsight Systems and Nsight Compute show and filter by.
//!
//! A profiler puts itself into a process through the variable `NVTX_INJECTION64_PATH`. Without one, every call here is a
//! comparison and nothing else. Launches and copies have ranges of their own: a launch's has the kernel's path for its name.
//!
//! # Examples
//! ```
//! use warpsmith::nvtx;
//!
//! {
//!     let _range = nvtx::range("load the data");
//!     // ... what is done until the end of the block is shown under that name.
//! }
//! nvtx::mark("data is there");
//! ```

use std::ffi::CString;
use std::marker::PhantomData;

mod injection;

/// The domain of all ranges and marks of this crate, as profilers list it.
pub const DOMAIN: &str = "warpsmith";

/// A named span of this thread's time; it ends when this is dropped.
///
/// Ranges of a thread lie inside each other: keep each in a block of its own, so that the last begun ends first.
#[derive(Debug)]
#[must_use = "the range ends when this is dropped"]
pub struct Range {
    open: bool,
    /// A range ends on the thread on which it began.
    _thread: PhantomData<*const ()>,
}

/// Begins a range of this thread. In a name, what follows a NUL is left out.
#[inline]
pub fn range(name: &str) -> Range {
    let open = match injection::tool() {
        None => false,
        Some(tool) => {
            tool.push(&text(name));
            true
        }
    };
    Range { open, _thread: PhantomData }
}

/// Marks a moment of this thread. In a name, what follows a NUL is left out.
#[inline]
pub fn mark(name: &str) {
    if let Some(tool) = injection::tool() {
        tool.mark(&text(name));
    }
}

/// Whether a profiler listens.
#[inline]
#[must_use]
pub fn is_active() -> bool {
    injection::tool().is_some()
}

impl Drop for Range {
    #[inline]
    fn drop(&mut self) {
        if self.open
            && let Some(tool) = injection::tool()
        {
            tool.pop();
        }
    }
}

#[cold]
fn text(name: &str) -> CString {
    let end = name.find('\0').unwrap_or(name.len());
    CString::new(&name[..end]).expect("the text ends before the first NUL")
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_end_before_a_nul() {
        assert_eq!(super::text("plain").as_bytes(), b"plain");
        assert_eq!(super::text("a\0b").as_bytes(), b"a");
        assert_eq!(super::text("").as_bytes(), b"");
    }
}

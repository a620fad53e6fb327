//! Address ranges reserved from the system and made writable piece by piece.

use std::io;

/// A range of addresses that nothing else in the process uses. It is given back when dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    start: usize,
    bytes: usize,
}

/// Bytes of a page, or more: what ranges are made writable in multiples of.
pub(super) const PAGE: usize = 64 << 10;

impl Reserved {
    /// Reserves so many bytes, a multiple of [`PAGE`].
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: a new mapping where the system likes it touches no other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.addr(), bytes })
    }

    /// Has the system use large pages for what is opened, where it can: nothing depends on it but speed.
    pub(super) fn in_large_pages(self) -> Self {
        // SAFETY: the pages are of this mapping.
        unsafe { libc::madvise(self.at(0), self.bytes, libc::MADV_HUGEPAGE) };
        self
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes the bytes `from..to` writable; those that were not read as zeros.
    pub(super) fn open(&self, from: usize, to: usize) -> io::Result<()> {
        let (from, to) = (from / PAGE * PAGE, to.next_multiple_of(PAGE).min(self.bytes));
        if from >= to {
            return Ok(());
        }
        // SAFETY: the pages are of this mapping.
        let code = unsafe { libc::mprotect(self.at(from), to - from, libc::PROT_READ | libc::PROT_WRITE) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Gives the memory of the whole pages in `from..to` back to the system: from here on they read as zeros.
    pub(super) fn forget(&self, from: usize, to: usize) {
        let (from, to) = (from.next_multiple_of(PAGE), to.min(self.bytes) / PAGE * PAGE);
        if from < to {
            // SAFETY: the pages are of this mapping, and the caller needs nothing of what they hold. That it fails would
            // leave them as they are, which no private mapping does.
            unsafe { libc::madvise(self.at(from), to - from, libc::MADV_DONTNEED) };
        }
    }

    fn at(&self, offset: usize) -> *mut libc::c_void {
        std::ptr::with_exposed_provenance_mut(self.start + offset)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's; ranges that are in use are kept in statics, which are never dropped.
        unsafe { libc::munmap(self.at(0), self.bytes) };
    }
}

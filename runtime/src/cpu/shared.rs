//! Shared memory of the block that runs on a core.
//!
//! The memory is kept from block to block and filled with a pattern before a block first gets it, so that no block
//! sees what the one before left.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use warpsmith_device::host::SharedKey;

use crate::check::{Mark, Piece, Purpose};

/// What unwritten shared memory holds: as a float a huge negative number, as an index far outside.
pub(super) const POISON: u8 = 0xD3;

/// Alignment of dynamic shared memory: at least what a GPU gives, and a cache line.
const DYNAMIC_ALIGN: usize = 128;

/// All shared memory of a block.
#[derive(Default)]
pub(super) struct SharedMemory {
    checked: bool,
    block: u64,
    statics: Vec<(SharedKey, Region)>,
    dynamic: Option<Region>,
}

/// A place in some block's shared memory: which allocation, or the dynamic one, and how many bytes into it.
#[derive(Clone, Copy)]
pub(super) struct SharedPlace {
    key: Option<(SharedKey, Layout)>,
    offset: usize,
}

struct Region {
    ptr: NonNull<u8>,
    layout: Layout,
    block: u64, // The block that the contents belong to.
    /// The same memory, where the checker watches it.
    watched: Option<Piece>,
}

impl SharedMemory {
    /// For blocks of a checked launch.
    pub(super) fn checked() -> Self {
        Self { checked: true, ..Self::default() }
    }

    /// Turns to a new block: all contents are void.
    pub(super) fn next_block(&mut self) {
        self.block += 1;
        if self.checked {
            self.statics.iter().map(|(_, region)| region).chain(&self.dynamic).for_each(Region::close);
        }
    }

    /// The allocation of `key`.
    pub(super) fn get(&mut self, key: SharedKey, size: usize, align: usize) -> *mut u8 {
        let block = self.block;
        let found = self.statics.iter().position(|(k, region)| {
            // Local types of one name print alike; what has another shape is certainly another allocation.
            *k == key && region.layout.size() == size.max(1) && region.layout.align() == align
        });
        let at = found.unwrap_or_else(|| {
            self.statics.push((key, Region::new(size, align, self.checked)));
            self.statics.len() - 1
        });
        self.statics[at].1.for_block(block)
    }

    /// What lies at an address that this block was given.
    pub(super) fn locate(&self, address: *mut u8) -> Option<SharedPlace> {
        let inside = |region: &Region| {
            let offset = address.addr().checked_sub(region.ptr.as_ptr().addr())?;
            (offset < region.layout.size()).then_some(offset)
        };
        let of_static = |(key, region): &(SharedKey, Region)| {
            let key = Some((*key, region.layout));
            inside(region).map(|offset| SharedPlace { key, offset })
        };
        let dynamic = || self.dynamic.as_ref().and_then(inside).map(|offset| SharedPlace { key: None, offset });
        self.statics.iter().find_map(of_static).or_else(dynamic)
    }

    /// Where this block has what another has at `place`.
    pub(super) fn at(&mut self, place: SharedPlace, dynamic_bytes: usize) -> *mut u8 {
        let start = match place.key {
            Some((key, layout)) => self.get(key, layout.size(), layout.align()),
            None => self.dynamic(dynamic_bytes),
        };
        start.wrapping_add(place.offset)
    }

    /// The dynamic allocation of `size` bytes, which is the same in every call.
    pub(super) fn dynamic(&mut self, size: usize) -> *mut u8 {
        let (block, checked) = (self.block, self.checked);
        self.dynamic.get_or_insert_with(|| Region::new(size, DYNAMIC_ALIGN, checked)).for_block(block)
    }
}

impl Region {
    fn new(size: usize, align: usize, checked: bool) -> Self {
        // A type without size still gets an address of its own.
        let layout = Layout::from_size_align(size.max(1), align)
            .expect("size and alignment of a Rust type or of a checked launch");
        if checked {
            let piece = Piece::new(layout.size(), align, Purpose::Shared);
            let (piece, _) =
                piece.unwrap_or_else(|error| panic!("the checker has no {size} bytes of shared memory: {error}"));
            let ptr = NonNull::new(piece.address()).expect("a piece has an address");
            return Self { ptr, layout, block: 0, watched: Some(piece) };
        }
        // SAFETY: the size is not 0.
        let ptr = unsafe { alloc(layout) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
        Self { ptr, layout, block: 0, watched: None }
    }

    /// Has the checker report whoever touches it.
    fn close(&self) {
        if let Some(piece) = &self.watched {
            piece.mark(0, self.layout.size(), Mark::Closed);
        }
    }

    fn for_block(&mut self, block: u64) -> *mut u8 {
        if self.block != block {
            self.block = block;
            // SAFETY: the region has this size, and no thread of the new block has its address yet.
            unsafe { self.ptr.as_ptr().write_bytes(POISON, self.layout.size()) };
            if let Some(piece) = &self.watched {
                piece.give_to_block(self.layout.size());
            }
        }
        self.ptr.as_ptr()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.watched.is_some() {
            return;
        }
        // SAFETY: allocated in `new` with this layout; the block's threads are gone.
        unsafe { dealloc(self.ptr.as_ptr(), self.layout) };
    }
}

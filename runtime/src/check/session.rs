//! The checker's state during a launch, and what each kind of access does to it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Start of the memory that the checker watches.
static START: AtomicUsize = AtomicUsize::new(0);
/// Its bytes.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Where in the watched memory an address lies; `None` where it is none of it.
#[inline]
fn offset(address: usize) -> Option<usize> {
    let offset = address.wrapping_sub(START.load(Ordering::Relaxed));
    (offset < BYTES.load(Ordering::Relaxed)).then_some(offset)
}

pub(super) fn load<const N: usize>(address: usize, site: u32) {
    load_many(address, N, site);
}

pub(super) fn load_many(address: usize, _bytes: usize, _site: u32) {
    let Some(_offset) = offset(address) else { return };
}

pub(super) fn store<const N: usize>(address: usize, _value: u64, site: u32) {
    store_many(address, N, site);
}

pub(super) fn store_many(address: usize, _bytes: usize, _site: u32) {
    let Some(_offset) = offset(address) else { return };
}

pub(super) fn copy(to: usize, from: usize, bytes: usize, site: u32) {
    load_many(from, bytes, site);
    store_many(to, bytes, site);
}

pub(super) fn atomic(address: usize, _site: u32) {
    let Some(_offset) = offset(address) else { return };
}

pub(super) fn fence(_site: u32) {}

pub(super) fn non_finite(_site: u32, _result: f64, _a: f64, _b: f64, _operands: u32) {}

pub(super) fn overflow(_site: u32) {}

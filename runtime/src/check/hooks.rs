//! The functions that checked code calls before each access, by the names that the instrumentation knows.
//!
//! All of them are called on the OS thread of a checked launch, in which the checker's state is nobody else's.

use warpsmith_device::cast::{Loss, Number};
use warpsmith_device::host::Place;

use super::shadow::Atomic;
use super::site::SiteKind;
use super::{clocks, launch, observe, report, shadow};

macro_rules! loads {
    ($($name:ident $bytes:literal),* $(,)?) => {$(
        /// Before a load of this many bytes.
        ///
        /// # Safety
        /// Called by checked code in a checked launch, of whose module `site` is a place.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(address: *const u8, site: u32) {
            if observe::is_on() {
                return observed_load::<$bytes>(address.addr(), site);
            }
            shadow::load::<$bytes>(address.addr(), site);
        }
    )*};
}
#[inline(never)]
extern "C" fn observed_load<const N: usize>(address: usize, site: u32) {
    observe::read(address, N, site);
    shadow::load::<N>(address, site);
}

loads!(__warpsmith_check_load_1 1, __warpsmith_check_load_2 2, __warpsmith_check_load_4 4, __warpsmith_check_load_8 8,
    __warpsmith_check_load_16 16);

/// Before a load of so many bytes.
///
/// # Safety
/// As the other loads'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_load_n(address: *const u8, bytes: usize, site: u32) {
    observe::read(address.addr(), bytes, site);
    shadow::load_many(address.addr(), bytes, site);
}

/// Before a load of at most 32 bytes that are only moved, and may hold nothing: a bit for each that holds something.
///
/// # Safety
/// As the other loads'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_move_n(address: *const u8, bytes: usize, site: u32) -> u32 {
    observe::read(address.addr(), bytes, site);
    shadow::move_many(address.addr(), bytes, site)
}

macro_rules! stores {
    ($($name:ident $bytes:literal),* $(,)?) => {$(
        /// Before a store of this many bytes; `value` has its bits, extended with zeros.
        ///
        /// # Safety
        /// Called by checked code in a checked launch, of whose module `site` is a place.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(address: *const u8, value: u64, site: u32) {
            if observe::is_on() {
                return observed_store::<$bytes>(address.addr(), value, site);
            }
            shadow::store::<$bytes>(address.addr(), value, site);
        }
    )*};
}
#[inline(never)]
fn observed_store<const N: usize>(address: usize, value: u64, site: u32) {
    observe::write(address, N, site);
    shadow::store::<N>(address, value, site);
}

stores!(__warpsmith_check_store_1 1, __warpsmith_check_store_2 2, __warpsmith_check_store_4 4, __warpsmith_check_store_8 8);

/// Before an access to part of a value, at an address that must be such a multiple as the place says.
///
/// # Safety
/// As the stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_align(address: *const u8, site: u32) {
    shadow::align(address.addr(), site);
}

/// Before a store of 16 bytes.
///
/// # Safety
/// As the other stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_store_16(address: *const u8, site: u32) {
    observe::write(address.addr(), 16, site);
    shadow::store_many(address.addr(), 16, site);
}

/// Before a store of so many bytes.
///
/// # Safety
/// As the other stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_store_n(address: *const u8, bytes: usize, site: u32) {
    observe::write(address.addr(), bytes, site);
    shadow::store_many(address.addr(), bytes, site);
}

/// Before a store of at most 32 bytes that were only moved; `held` has a bit for each that holds something.
///
/// # Safety
/// As the other stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_put_n(address: *const u8, bytes: usize, held: u32, site: u32) {
    observe::write(address.addr(), bytes, site);
    shadow::put_many(address.addr(), bytes, held, site);
}

/// Before bytes are moved that nothing looks at: what is not initialised stays so.
///
/// # Safety
/// As the stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_copy(to: *mut u8, from: *const u8, bytes: usize, site: u32) {
    observe::read(from.addr(), bytes, site);
    observe::write(to.addr(), bytes, site);
    shadow::copy(to.addr(), from.addr(), bytes, site);
}

/// Before an atomic access; what it does stands in the place.
///
/// # Safety
/// As the stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_atomic(address: *const u8, site: u32) {
    let Some(place) = launch::site(site) else { return };
    let SiteKind::Atomic { reads, writes, acquire, release } = place.kind else { return };
    let in_block = clocks::is_in_block();
    atomic(
        address.addr(),
        place.bytes as usize,
        site,
        Atomic { reads, writes, acquires: acquire, releases: release, in_block },
    );
}

fn atomic(address: usize, bytes: usize, site: u32, does: Atomic) {
    if does.writes {
        observe::write(address, bytes, site);
    } else {
        observe::read(address, bytes, site);
    }
    shadow::atomic(address, bytes, site, does);
    clocks::atomic(address, does);
}

/// Before a compare-exchange of at most eight bytes that expects these bits; whether it acquires where it fails, which makes it a
/// load, and what it does else stands in the place.
///
/// # Safety
/// As the stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_exchange(
    address: *const u8,
    expected: u64,
    failing_acquires: u32,
    site: u32,
) {
    let Some(place) = launch::site(site) else { return };
    let SiteKind::Atomic { acquire, release, .. } = place.kind else { return };
    let (address, bytes, in_block) = (address.addr(), place.bytes as usize, clocks::is_in_block());
    let mut does = Atomic { reads: true, writes: true, acquires: acquire, releases: release, in_block };
    if shadow::holds_other(address, bytes, expected) {
        does = Atomic { writes: false, acquires: failing_acquires != 0, releases: false, ..does };
    }
    atomic(address, bytes, site, does);
}

/// Before and after an atomic access or a fence that is for the threads of its block alone; called by the device crate, as
/// [`__warpsmith_check_lossy_cast`] is.
#[cfg(not(any(warpsmith_device, warpsmith_checked)))]
#[unsafe(no_mangle)]
pub(crate) extern "Rust" fn __warpsmith_check_in_block(starts: bool) {
    clocks::set_in_block(starts);
}

/// Before a fence.
///
/// # Safety
/// As the stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_fence(site: u32) {
    if let Some(SiteKind::Fence { acquire, release }) = launch::site(site).map(|place| &place.kind) {
        clocks::fence(*acquire, *release, clocks::is_in_block());
    }
}

/// After an operation on `operands` floats, 1 to 3, whose result is a NaN or an infinity.
///
/// # Safety
/// As the stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_non_finite(
    site: u32,
    result: f64,
    a: f64,
    b: f64,
    c: f64,
    operands: u32,
) {
    report::non_finite(site, result, &[a, b, c][..(operands as usize).min(3)]);
}

/// After a cast of a number that changed its value; called by the device crate as checked code has it. Nested builds do not have
/// it, so that their code calls the program's own.
#[cfg(not(any(warpsmith_device, warpsmith_checked)))]
#[unsafe(no_mangle)]
pub(crate) extern "Rust" fn __warpsmith_check_lossy_cast(place: Place, from: Number, to: Number, loss: Loss) {
    report::lossy_cast(place, from, to, loss);
}

/// After arithmetic on integers that wrapped; the operands are zero-extended, and zeros where the place does not know them.
///
/// # Safety
/// As the stores'.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __warpsmith_check_overflow(site: u32, a: u64, b: u64) {
    report::overflow(site, a, b);
}

/// Keeps the functions in every program that looks for checked code, which only asks for them softly.
pub(super) fn keep() {
    type Load = unsafe extern "C" fn(*const u8, u32);
    type Store = unsafe extern "C" fn(*const u8, u64, u32);
    type Many = unsafe extern "C" fn(*const u8, usize, u32);
    let loads: [Load; 8] = [
        __warpsmith_check_load_1,
        __warpsmith_check_load_2,
        __warpsmith_check_load_4,
        __warpsmith_check_load_8,
        __warpsmith_check_load_16,
        __warpsmith_check_store_16,
        __warpsmith_check_atomic,
        __warpsmith_check_align,
    ];
    let stores: [Store; 4] =
        [__warpsmith_check_store_1, __warpsmith_check_store_2, __warpsmith_check_store_4, __warpsmith_check_store_8];
    let many: [Many; 2] = [__warpsmith_check_load_n, __warpsmith_check_store_n];
    let take: unsafe extern "C" fn(*const u8, usize, u32) -> u32 = __warpsmith_check_move_n;
    let put: unsafe extern "C" fn(*const u8, usize, u32, u32) = __warpsmith_check_put_n;
    let copy: unsafe extern "C" fn(*mut u8, *const u8, usize, u32) = __warpsmith_check_copy;
    let fence: unsafe extern "C" fn(u32) = __warpsmith_check_fence;
    let overflow: unsafe extern "C" fn(u32, u64, u64) = __warpsmith_check_overflow;
    let float: unsafe extern "C" fn(u32, f64, f64, f64, f64, u32) = __warpsmith_check_non_finite;
    let exchange: unsafe extern "C" fn(*const u8, u64, u32, u32) = __warpsmith_check_exchange;
    std::hint::black_box((loads, stores, many, take, put, copy, fence, overflow, float, exchange));
    #[cfg(not(any(warpsmith_device, warpsmith_checked)))]
    std::hint::black_box(__warpsmith_check_in_block as fn(_));
    #[cfg(not(any(warpsmith_device, warpsmith_checked)))]
    std::hint::black_box(__warpsmith_check_lossy_cast as fn(_, _, _, _));
    warpsmith_device::host::keep_for_checker();
}

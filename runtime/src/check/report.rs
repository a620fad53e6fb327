//! Makes findings out of what the hooks and the executor see: names, places, values.

use std::sync::atomic::Ordering;

use warpsmith_device::cast::{Loss, Number};
use warpsmith_device::host::{Place, WARP_SIZE};

use super::arena::{self, ADDRESSABLE, Purpose, Region, WATCHED};
use super::finding::{CheckRule, Finding, FindingMemory, FindingSide, elements};
use super::launch::{self, State};
use super::shadow::{self, Access, GRANULE};
use super::site::{Site, SiteKind, ValueKind};
use super::split::Kind;
use super::turns::{NOW, Who, owner};

/// A place that no number of the module names.
const NO_PLACE: u64 = u64::MAX;

fn own() -> Who {
    Who(NOW.who.load(Ordering::Relaxed))
}

pub(super) fn side(state: &State<'_>, who: Who, place: u32, action: String) -> FindingSide {
    let site = launch::site(place);
    FindingSide {
        block: state.block_idx(who.block()),
        thread: state.thread_idx(who.thread()),
        action,
        file: site.map(|site| site.file.clone()).unwrap_or_default(),
        line: site.map_or(0, |site| site.line),
        column: site.map_or(0, |site| site.column),
        function: site.map(|site| site.function.clone()).unwrap_or_default(),
        inner: site.map(|site| site.inner.clone()).unwrap_or_default(),
    }
}

fn side_at(state: &State<'_>, who: Who, place: Option<Place>, action: &str) -> FindingSide {
    FindingSide {
        block: state.block_idx(who.block()),
        thread: state.thread_idx(who.thread()),
        action: action.to_owned(),
        file: place.map(|place| place.file().to_owned()).unwrap_or_default(),
        line: place.map_or(0, |place| place.line()),
        column: place.map_or(0, |place| place.column()),
        function: String::new(),
        inner: String::new(),
    }
}

pub(super) fn finding(state: &State<'_>, rule: CheckRule, side: FindingSide, message: impl Into<String>) -> Finding {
    Finding {
        rule,
        kernel: state.request.kernel.to_owned(),
        side,
        other: None,
        memory: None,
        message: message.into(),
        count: 0,
    }
}

/// An access beyond everything that was ever made: opens what lies there, so that the process goes on.
#[cold]
#[inline(never)]
pub(super) fn far_out(offset: usize) -> Option<usize> {
    arena::open_up_to(offset + 4096);
    (offset < WATCHED.open.load(Ordering::Relaxed)).then_some(offset)
}

/// A read of bytes of which some may not be touched or hold nothing.
#[cold]
#[inline(never)]
pub(super) fn unreadable(offset: usize, bytes: usize, place: u32) {
    if !closed(offset, bytes) {
        launch::with(|state| {
            state.found.borrow_mut().count(CheckRule::Uninitialised, (place.into(), 0), || {
                let first = first_without(offset, bytes, 0x10);
                let whose = if shadow::is_shared(offset / GRANULE) {
                    "no thread of the block has written it"
                } else {
                    "nothing has been written there since the buffer was made"
                };
                let memory = memory(state, first, place);
                let side = side(state, own(), place, "reads".to_owned());
                Finding { memory, ..finding(state, CheckRule::Uninitialised, side, whose) }
            });
        });
        return;
    }
    outside(offset, bytes, place, "reads");
}

/// A write of bytes of which some may not be touched.
#[cold]
#[inline(never)]
pub(super) fn unwritable(offset: usize, bytes: usize, place: u32) {
    outside(offset, bytes, place, "writes");
}

/// Whether some of these bytes may not be touched.
fn closed(offset: usize, bytes: usize) -> bool {
    let open = WATCHED.open.load(Ordering::Relaxed);
    offset + bytes > open || !shadow::has_states(offset, bytes, false)
}

/// The first byte whose granule's state lacks the bit that `first` is for the first byte.
fn first_without(offset: usize, bytes: usize, first: u8) -> usize {
    let open = WATCHED.open.load(Ordering::Relaxed);
    let lacks = |&at: &usize| at >= open || shadow::state(at / GRANULE) & (first << (at % GRANULE)) == 0;
    (offset..offset + bytes).find(lacks).unwrap_or(offset)
}

fn outside(offset: usize, bytes: usize, place: u32, does: &str) {
    launch::with(|state| {
        let first = first_without(offset, bytes, ADDRESSABLE & 1);
        let region = arena::nearest(first);
        let inside = region.as_ref().filter(|region| (region.start..region.start + region.bytes).contains(&first));
        // Blocks that are alive together hide what is theirs.
        let is_anothers = inside.is_some_and(|region| !region.is_freed())
            && shadow::is_shared(first / GRANULE)
            && state.blocks_take_turns()
            && NOW.clusters.load(Ordering::Relaxed) == 0;
        let rule = if inside.is_some() && !is_anothers { CheckRule::UseAfterFree } else { CheckRule::OutOfBounds };
        // A copy may be at fault on both of its sides.
        let places = (place.into(), u64::from(does == "writes"));
        state.found.borrow_mut().count(rule, places, || {
            let mut memory = memory(state, first, place);
            let name = memory.as_ref().map_or_else(|| "any buffer".to_owned(), |memory| memory.name.clone());
            let message = match (&region, inside) {
                (_, Some(region)) if region.is_freed() => format!("{name} had been freed before the launch"),
                (_, Some(_)) if is_anothers => {
                    "that shared memory is another block's; only blocks of a cluster reach each other's, by `map_shared_rank`"
                        .to_owned()
                }
                (_, Some(_)) => {
                    "that shared memory is of a block which has ended, or which has not asked for it".to_owned()
                }
                (Some(region), None) => match memory.take_if(|_| away(region, first) > reach(region)) {
                    Some(nearest) => {
                        let (end, away) = (region.start + region.bytes, away(region, first));
                        let side = if first >= end { "after its end" } else { "before its start" };
                        let FindingMemory { len, element_type, .. } = nearest;
                        let freed = if region.is_freed() { ", which had been freed" } else { "" };
                        format!(
                            "the address is in no buffer; the nearest is {name} ({}{freed}), {away} bytes {side}",
                            elements(len, &element_type)
                        )
                    }
                    None => {
                        let byte = memory.as_ref().map_or(0, |memory| memory.byte);
                        let start = byte - (first - offset) as i128;
                        let len = (region.start + region.bytes) as i128 - first as i128 + byte;
                        let freed = if region.is_freed() { ", and which had been freed" } else { "" };
                        format!(
                            "these are bytes {start} to {} of {name}, which has {len}{freed}",
                            start + bytes as i128
                        )
                    }
                },
                (None, None) => "there is no buffer at all".to_owned(),
            };
            let unit = if bytes == 1 { "byte" } else { "bytes" };
            let side = side(state, own(), place, format!("{does} {bytes} {unit}"));
            Finding { memory, ..finding(state, rule, side, message) }
        });
    });
}

/// Bytes between a byte outside of a piece of memory and the piece.
fn away(region: &Region, byte: usize) -> usize {
    region.start.checked_sub(byte).unwrap_or_else(|| byte - (region.start + region.bytes))
}

/// Up to how many bytes off an access is taken to have meant the piece of memory: a neighbour, or a row of a matrix.
fn reach(region: &Region) -> usize {
    128.max(region.bytes / 8)
}

/// An address that may be no multiple of what its place asks for.
#[cold]
#[inline(never)]
pub(super) fn misaligned(offset: usize, place: u32) {
    let Some(site) = launch::site(place) else { return };
    let address = WATCHED.start.load(Ordering::Relaxed) + offset;
    if site.align <= 1 || address.is_multiple_of(site.align as usize) {
        return;
    }
    launch::with(|state| {
        state.found.borrow_mut().count(CheckRule::Misaligned, (place.into(), 0), || {
            let does = if matches!(site.kind, SiteKind::Load) { "reads" } else { "writes" };
            let message = format!(
                "its address is {} bytes past a multiple of {}, and must be such a multiple; `read_unaligned` and \
                 `write_unaligned` take any address",
                address % site.align as usize,
                site.align
            );
            let memory = memory(state, offset, place);
            let side = side(state, own(), place, does.to_owned());
            Finding { memory, ..finding(state, CheckRule::Misaligned, side, message) }
        });
    });
}

/// Two accesses that nothing orders.
#[cold]
#[inline(never)]
pub(super) fn race(offset: usize, kind: Kind, earlier: Access, access: Access, value: Option<u64>) {
    launch::with(|state| {
        // Atomic accesses meet here only where they are not atomic for each other.
        let are_torn = earlier.is_atomic() && access.is_atomic();
        let is_conflict = kind == Kind::WriteAfterWrite && !are_torn;
        let rule = if is_conflict { CheckRule::ConflictingWrites } else { CheckRule::DataRace };
        // One fault, whichever side comes first.
        let (a, b) = (u64::from(earlier.place()), u64::from(access.place()));
        state.found.borrow_mut().count(rule, (a.min(b), a.max(b)), || {
            let (who, other) = (own(), Who(owner(earlier.turn)));
            let memory = memory(state, offset, access.place());
            let place = if kind == Kind::WriteAfterRead { access } else { earlier }.place();
            let there = value_at(offset, launch::site(place), memory.as_ref());
            let atomically = |access: Access| match (access.is_atomic(), access.is_in_block()) {
                (false, _) => "",
                (true, false) => " atomically",
                (true, true) => " atomically for its block",
            };
            let new = value
                .and_then(|value| Some(format!(" {}", print(value, launch::site(access.place())?, memory.as_ref()))))
                .unwrap_or_default();
            let old = there.map(|value| format!(" {value}")).unwrap_or_default();
            let (does, did) = match kind {
                Kind::ReadAfterWrite => (format!("reads{old}"), "wrote it".to_owned()),
                Kind::WriteAfterWrite => (format!("writes{new}"), format!("wrote{old}")),
                Kind::WriteAfterRead => (format!("writes{new}"), format!("read{old}")),
            };
            let other_side = side(state, other, earlier.place(), did + atomically(earlier));
            let side = side(state, who, access.place(), does + atomically(access));
            let is_one_line = (&side.file, side.line, side.column)
                == (&other_side.file, other_side.line, other_side.column)
                && side.line > 0
                && [earlier, access].iter().all(|access| is_plain(*access));
            let message = if are_torn {
                "block-scoped atomics of different blocks do not order nor exclude each other: take `device()`, or the atomic's own \
                 methods, which are for all threads"
            } else if is_one_line {
                in_one_line(kind)
            } else {
                unordered(who, other, offset)
            };
            Finding { other: Some(other_side), memory, ..finding(state, rule, side, message) }
        });
    });
}

/// Whether an access is neither an atomic's nor a copy's.
fn is_plain(access: Access) -> bool {
    launch::site(access.place()).is_some_and(|site| matches!(site.kind, SiteKind::Load | SiteKind::Store))
}

/// What helps where two threads meet in one line.
fn in_one_line(kind: Kind) -> &'static str {
    if kind == Kind::WriteAfterWrite {
        "nothing orders the two: where several threads are to write one element, one of them may do it for all, or it is an atomic; where \
         they take turns, a barrier stands between"
    } else {
        "nothing orders the two, and one line both reads and writes: what several threads update is an atomic (`fetch_add` and \
         its like); where they take turns, a barrier stands between"
    }
}

/// What would order two threads' accesses.
fn unordered(who: Who, other: Who, offset: usize) -> &'static str {
    if who.block() != other.block() {
        return if shadow::is_shared(offset / GRANULE) {
            "nothing orders the two: no `this_cluster().sync()` stands between them"
        } else {
            "nothing orders the two: blocks run in any order, and only `this_grid().sync()`, a release and an acquire of one atomic, \
             or two launches, put one before the other; where both are to happen in any order, they must be atomics"
        };
    }
    if who.0 / u64::from(WARP_SIZE) == other.0 / u64::from(WARP_SIZE) {
        return "nothing orders the two: no `sync_threads()` or `sync_warp()` stands between them, and shuffles, votes and matches do \
                not order memory";
    }
    "nothing orders the two: no `sync_threads()` stands between them"
}

/// A thread waits at a barrier of its block, or of its cluster, and another has ended before it.
pub(super) fn left_out(waiting: Who, place: Place, ended: Who) {
    launch::with(|state| {
        let places = (address_of(place), NO_PLACE);
        state.found.borrow_mut().count(CheckRule::BarrierDivergence, places, || {
            let other = side_at(state, ended, None, "has ended before it");
            let side = side_at(state, waiting, Some(place), "waits at the barrier");
            let whose = if waiting.block() == ended.block() { "block" } else { "cluster" };
            let message = format!(
                "all threads of a {whose} must come to a barrier, and equally often: let those without work go around the work, and \
                 neither return before the barrier nor leave a loop around it earlier than others"
            );
            Finding { other: Some(other), ..finding(state, CheckRule::BarrierDivergence, side, message) }
        });
    });
}

fn address_of(place: Place) -> u64 {
    std::ptr::from_ref(place).addr() as u64
}

/// Threads that can't go on.
pub(crate) fn stuck(block: u64, thread: u32, place: Option<Place>, message: &str) {
    launch::with(|state| {
        let places = (place.map_or(NO_PLACE, address_of), 0);
        state.found.borrow_mut().count(CheckRule::BarrierDivergence, places, || {
            let side = side_at(state, Who::new(block, thread), place, "waits");
            finding(state, CheckRule::BarrierDivergence, side, message)
        });
    });
}

/// A mask that names lanes that are not there.
pub(super) fn mask(who: Who, place: Place, name: &str, mask: u32, ended: u32, missing: u32) {
    launch::with(|state| {
        state.found.borrow_mut().count(CheckRule::WarpMask, (address_of(place), 0), || {
            let side = side_at(state, who, Some(place), &format!("calls `{name}` for the lanes {mask:#010x}"));
            let message = match (ended, missing) {
                (0, missing) => format!("lane {} is none of the block's threads", missing.trailing_zeros()),
                (ended, _) => format!("lane {} has ended before", ended.trailing_zeros()),
            };
            finding(state, CheckRule::WarpMask, side, message)
        });
    });
}

/// Arithmetic on floats whose result is none that is finite.
#[cold]
#[inline(never)]
pub(super) fn non_finite(place: u32, result: f64, operands: &[f64]) {
    if operands.iter().any(|operand| !operand.is_finite()) {
        return;
    }
    launch::with(|state| {
        if !state.request.options.finds_non_finite() {
            return;
        }
        let mut found = state.found.borrow_mut();
        let is_first = found.findings.iter().all(|finding| finding.rule != CheckRule::NonFinite);
        found.count(CheckRule::NonFinite, (place.into(), 0), || {
            let site = launch::site(place);
            let name = match site.map(|site| &site.kind) {
                Some(SiteKind::Float(name)) => name.clone(),
                _ => "an operation".to_owned(),
            };
            let is_narrow = site.is_some_and(|site| site.value == ValueKind::F32);
            let print = |number: &f64| if is_narrow { format!("{:?}", *number as f32) } else { format!("{number:?}") };
            let list: Vec<String> = operands.iter().map(print).collect();
            let list = match &list[..] {
                [a, b, c] => format!("{a}, {b} and {c}"),
                list => list.join(" and "),
            };
            let action = format!("computes {name} of {list}, which is {result:?}");
            let message = if is_first { "the first of the launch" } else { "" };
            finding(state, CheckRule::NonFinite, side(state, own(), place, action), message)
        });
    });
}

/// Arithmetic on integers that wrapped.
#[cold]
#[inline(never)]
pub(super) fn overflow(place: u32, a: u64, b: u64) {
    launch::with(|state| {
        if !state.request.options.finds_overflow() {
            return;
        }
        state.found.borrow_mut().count(CheckRule::Overflow, (place.into(), 0), || {
            let computed = launch::site(place).map_or_else(|| "arithmetic".to_owned(), |site| computed(site, a, b));
            let action = format!("overflows in {computed}");
            finding(state, CheckRule::Overflow, side(state, own(), place, action), "")
        });
    });
}

/// What a place computed, from zero-extended operands.
fn computed(site: &Site, a: u64, b: u64) -> String {
    let SiteKind::Overflow { operation, is_signed } = &site.kind else { return "arithmetic".to_owned() };
    if !matches!(site.bytes, 1 | 2 | 4 | 8) {
        return operation.clone();
    }
    let (bits, prefix) = (8 * site.bytes, if *is_signed { 'i' } else { 'u' });
    let number = |value: u64| {
        let unused = 64 - bits;
        if *is_signed { format!("{}", ((value << unused) as i64) >> unused) } else { value.to_string() }
    };
    let typed = |value| format!("{}{prefix}{bits}", number(value));
    let operator = match operation.as_str() {
        "neg" => return format!("-({})", typed(a)),
        // Whether what is shifted has a sign shows in a shift to the right alone.
        "shl" => return format!("{} << {b} of {bits} bits", number(a)),
        "shr" => return format!("{} >> {b}", typed(a)),
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        _ => return operation.clone(),
    };
    format!("{} {operator} {}", typed(a), typed(b))
}

/// A cast of a number that changed its value.
#[cold]
#[inline(never)]
pub(super) fn lossy_cast(place: Place, from: Number, to: Number, loss: Loss) {
    launch::with(|state| {
        if !state.request.options.finds_lossy_casts() {
            return;
        }
        state.found.borrow_mut().count(CheckRule::LossyCast, (address_of(place), 0), || {
            let side = side_at(state, own(), Some(place), &format!("casts {from} and gets {to}"));
            finding(state, CheckRule::LossyCast, side, loss.to_string())
        });
    });
}

/// The memory at, or nearest to, an offset in the watched range.
pub(super) fn memory(state: &State<'_>, offset: usize, place: u32) -> Option<FindingMemory> {
    let region = arena::nearest(offset)?;
    let (name, base, element_type, element_bytes) = match region.purpose {
        Purpose::Shared => {
            let (name, bytes) = type_at(launch::site(place));
            ("shared memory".to_owned(), region.start, name, bytes)
        }
        Purpose::Buffer { element, element_bytes } => {
            let (name, base) = argument(state, &region, offset);
            (name, base, plain_name(element), element_bytes.max(1))
        }
    };
    let byte = offset as i128 - base as i128;
    Some(FindingMemory {
        name,
        element_type,
        len: (region.start + region.bytes - base) / element_bytes,
        element: byte.div_euclid(element_bytes as i128),
        byte,
    })
}

/// The name of a region's memory in the kernel, and where what has the name starts.
fn argument(state: &State<'_>, region: &Region, offset: usize) -> (String, usize) {
    let start = WATCHED.start.load(Ordering::Relaxed);
    let of_region = state.request.arguments.iter().filter_map(|argument| {
        let at = argument.address.checked_sub(start)?;
        (region.start <= at && at < region.start + region.bytes.max(1)).then_some((argument, at))
    });
    // Parts of one buffer may be several arguments: the last that starts before the byte.
    let before = of_region.clone().filter(|&(_, at)| at <= offset).max_by_key(|&(_, at)| at);
    match before.or_else(|| of_region.min_by_key(|&(_, at)| at)) {
        Some((argument, at)) => (format!("`{}`", argument.name), at),
        None => ("a buffer that is no argument of the launch".to_owned(), region.start),
    }
}

/// The name of a type without what says only that it may hold nothing.
fn plain_name(name: &str) -> String {
    let inner = name.strip_prefix("core::mem::maybe_uninit::MaybeUninit<").and_then(|name| name.strip_suffix('>'));
    inner.unwrap_or(name).to_owned()
}

fn type_at(site: Option<&Site>) -> (String, usize) {
    let Some(site) = site.filter(|site| site.bytes > 0) else { return ("u8".to_owned(), 1) };
    let bytes = site.bytes as usize;
    let name = match site.value {
        ValueKind::F16 => "f16".to_owned(),
        ValueKind::F32 => "f32".to_owned(),
        ValueKind::F64 => "f64".to_owned(),
        // What the code moves does not tell whether there is a sign.
        ValueKind::Int => format!("u{}", bytes * 8),
        ValueKind::Pointer => "pointer".to_owned(),
        ValueKind::Other => format!("[u8; {bytes}]"),
    };
    (name, bytes)
}

/// What the bytes hold that a place touches around an offset.
fn value_at(offset: usize, site: Option<&Site>, memory: Option<&FindingMemory>) -> Option<String> {
    let site = site?;
    let bytes = site.bytes as usize;
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        return None;
    }
    let start = offset / bytes * bytes;
    if start + bytes > WATCHED.open.load(Ordering::Relaxed) {
        return None;
    }
    let address = std::ptr::with_exposed_provenance::<u8>(WATCHED.start.load(Ordering::Relaxed) + start);
    let mut value = [0; 8];
    for (i, byte) in value.iter_mut().enumerate().take(bytes) {
        // SAFETY: the bytes can be touched, and the launch that writes them runs on this thread.
        *byte = unsafe { address.add(i).read_volatile() };
    }
    Some(print(u64::from_le_bytes(value), site, memory))
}

/// What the bytes hold that a place touches around an offset; where it touches no single value, so many bytes as they are.
pub(super) fn value_or_bytes(offset: usize, place: u32, bytes: usize, memory: Option<&FindingMemory>) -> String {
    if let Some(value) = value_at(offset, launch::site(place), memory) {
        return value;
    }
    let open = WATCHED.open.load(Ordering::Relaxed);
    let start = std::ptr::with_exposed_provenance::<u8>(WATCHED.start.load(Ordering::Relaxed));
    let bytes = (offset..open.min(offset + bytes)).map(|at| {
        // SAFETY: the bytes can be touched, and the launch that writes them runs on this thread.
        format!("{:02x}", unsafe { start.add(at).read_volatile() })
    });
    format!("the bytes {}", bytes.collect::<Vec<_>>().join(" "))
}

/// The value around an offset as a place has it, of bytes that `byte` gives.
pub(super) fn value_of(
    offset: usize,
    place: u32,
    memory: Option<&FindingMemory>,
    byte: &dyn Fn(usize) -> u8,
) -> String {
    let site = launch::site(place).filter(|site| matches!(site.bytes, 1 | 2 | 4 | 8));
    let Some(site) = site else {
        let start = offset / GRANULE * GRANULE;
        let bytes: Vec<String> = (start..start + GRANULE).map(|at| format!("{:02x}", byte(at))).collect();
        return format!("the bytes {}", bytes.join(" "));
    };
    let bytes = site.bytes as usize;
    let start = offset / bytes * bytes;
    let value = (0..bytes).fold(0, |value, i| value | u64::from(byte(start + i)) << (8 * i));
    print(value, site, memory)
}

/// A value that a place moves. Where the memory is of floats, so are they whose bits an atomic compares and exchanges.
fn print(value: u64, site: &Site, memory: Option<&FindingMemory>) -> String {
    let element = memory.map_or("", |memory| memory.element_type.rsplit("::").next().unwrap_or_default());
    let kind = match (site.value, site.bytes, element) {
        (ValueKind::Int, 2, "f16" | "AtomicF16") => ValueKind::F16,
        (ValueKind::Int, 4, "f32" | "AtomicF32") => ValueKind::F32,
        (ValueKind::Int, 8, "f64" | "AtomicF64") => ValueKind::F64,
        (kind, ..) => kind,
    };
    match kind {
        ValueKind::F16 => half::f16::from_bits(value as u16).to_string(),
        ValueKind::F32 => format!("{:?}", f32::from_bits(value as u32)),
        ValueKind::F64 => format!("{:?}", f64::from_bits(value)),
        ValueKind::Int => {
            let unused = 64 - 8 * site.bytes.clamp(1, 8);
            let signed = ((value << unused) as i64) >> unused;
            if signed < 0 { format!("{value} ({signed})") } else { value.to_string() }
        }
        ValueKind::Pointer | ValueKind::Other => format!("{value:#x}"),
    }
}

//! Accesses at addresses that are no multiple of their type's alignment. In builds with debug assertions Rust's own check of most of
//! them comes first, and ends the process.

use std::sync::atomic::{AtomicU32, Ordering};

use warpsmith::prelude::*;
use warpsmith::{CheckOptions, CheckRule, Result, dynamic_shared};
use warpsmith_checker_tests::{Expected, caught, findings, silent};

const SOURCE: &str = include_str!("misaligned.rs");

/// What is moved sixteen bytes at a time.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Four([f32; 4]);

/// Its fields start wherever the one before ends.
#[derive(Clone, Copy, Debug, KernelValue)]
#[repr(C, packed)]
struct Packed {
    tag: u8,
    number: u32,
    wide: u64,
}

/// Reads and writes values of all widths, `by` bytes after where they belong.
#[kernel(block = 32)]
unsafe fn widths(x: *mut u8, by: usize, which: u32) {
    let t = thread_idx().x as usize;
    let x = x.wrapping_add(16 * t + by);
    let (slots, own) = (dynamic_shared::<u8>(), 16 * t + by);
    // SAFETY: the launch gives a buffer and shared memory of sixteen bytes a thread and sixteen more; with `by` 0, all is aligned.
    unsafe {
        match which {
            0 => *x = (*x.cast::<u32>() >> 3) as u8,      // at u32
            1 => *x.cast::<u64>() = t as u64,             // at u64
            2 => *x = *x.cast::<u16>() as u8 + 1,         // at u16
            3 => x.cast::<f64>().write(0.5),              // at f64
            4 => *x.cast::<Four>() = Four([t as f32; 4]), // at four
            5 => {
                AtomicU32::from_ptr(x.cast::<u32>()).fetch_add(1, Ordering::Relaxed); // at atomic
            }
            _ => *slots.add(own).cast::<u64>() = t as u64, // at shared
        }
    }
}

/// In which line, by how many bytes, from which alignment, and what the thread does.
const WRONG: [(&str, usize, usize, &str); 7] = [
    ("u32", 1, 4, "reads"),
    ("u64", 4, 8, "writes"),
    ("u16", 3, 2, "reads"),
    ("f64", 2, 8, "writes"),
    ("four", 8, 16, "writes"),
    ("atomic", 2, 4, "writes"),
    ("shared", 4, 8, "writes"),
];

fn launch_widths(stream: &Stream, by: usize, which: u32) -> Result<()> {
    let x = stream.zeroed::<u8>(16 * 33)?;
    let config = LaunchConfig::new(1, 32).with_shared_bytes(16 * 33);
    // SAFETY: sixteen bytes for each of 32 threads, and sixteen more.
    unsafe { widths::launch(stream, config, x.as_device_ptr().cast_mut(), by, which) }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "Rust's own check of alignment comes first, and ends the process")]
fn values_that_are_not_where_they_belong() {
    for (which, (place, by, align, action)) in (0..).zip(WRONG) {
        let found = findings(CheckOptions::new(), |stream| launch_widths(stream, by, which));
        let memory = if place == "shared" { ("shared memory", 0) } else { ("`x`", by as i128) };
        let rule = CheckRule::Misaligned;
        let expected =
            Expected { rule, source: SOURCE, place, thread: (0, 0), action, memory: Some(memory), count: 32 };
        expected.first(&found);
        let message = format!("its address is {} bytes past a multiple of {align}, and must be such", by % align);
        assert!(found[0].message.starts_with(&message), "{}", found[0]);
    }
}

#[test]
fn values_that_are_where_they_belong() {
    for which in 0..WRONG.len() as u32 {
        silent(&findings(CheckOptions::new(), |stream| launch_widths(stream, 0, which)));
        silent(&findings(CheckOptions::new(), |stream| launch_widths(stream, 16, which)));
    }
}

/// Reads and writes values wherever they are, in ways that take any address.
#[kernel(block = 32)]
unsafe fn anywhere(x: *mut u8, by: usize, which: u32) {
    let x = x.wrapping_add(16 * thread_idx().x as usize + by);
    // SAFETY: as for `widths`.
    unsafe {
        match which {
            0 => *x = (x.cast::<u32>().read_unaligned() >> 3) as u8,
            1 => x.cast::<u64>().write_unaligned(7),
            2 => {
                let packed = &mut *x.cast::<Packed>();
                packed.wide = u64::from(packed.number) + u64::from(packed.tag);
            }
            3 => *x = u16::from_le_bytes([*x, *x.add(1)]) as u8,
            4 => *x.cast::<[u8; 8]>() = u64::to_le_bytes(5),
            _ => x.cast::<Four>().write_unaligned(x.cast::<Four>().read_unaligned()),
        }
    }
}

#[test]
fn ways_that_take_any_address() {
    for (which, by) in (0..6).flat_map(|which| (0..4).map(move |by| (which, by))) {
        silent(&findings(CheckOptions::new(), |stream| {
            let x = stream.zeroed::<u8>(16 * 33)?;
            // SAFETY: sixteen bytes for each of 32 threads, and sixteen more.
            unsafe { anywhere::launch(stream, LaunchConfig::new(1, 32), x.as_device_ptr().cast_mut(), by, which) }
        }));
    }
}

/// Reads packed values, whole and by field.
#[kernel]
fn unpacked(x: &[Packed], mut y: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let Packed { tag, number, wide } = x[i.get()];
        *y = u64::from(tag) + u64::from(number) + wide;
    }
}

#[test]
fn packed_elements() {
    silent(&findings(CheckOptions::new(), |stream| {
        let x = stream.to_device(&[Packed { tag: 1, number: 2, wide: 3 }; 33])?;
        let mut y = stream.zeroed::<u64>(33)?;
        unpacked::launch(stream, LaunchConfig::new(2, 32), &x, &mut y)?;
        assert_eq!(stream.to_host(&y)?, [6; 33]);
        Ok(())
    }));
}

/// The same values through slices that start at odd elements.
#[kernel]
fn copied(x: &[u16], mut y: GridSliceMut<u16>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()] + 1;
    }
}

#[test]
fn slices_that_start_at_any_element() {
    for first in 0..5 {
        silent(&findings(CheckOptions::new(), |stream| {
            let (x, mut y) = (stream.zeroed::<u16>(40)?, stream.zeroed::<u16>(40)?);
            copied::launch(stream, LaunchConfig::new(2, 32), x.slice(first..), y.slice_mut(first..))
        }));
    }
}

/// Reads words out of a byte stream at an offset, as parsers do.
#[kernel]
unsafe fn parsed(x: *const u8, offset: usize, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: with an offset that is a multiple of 4, as `x` has so many words more than `y`.
        *y = unsafe { *x.add(offset + 4 * i.get()).cast::<u32>() }.swap_bytes();
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "Rust's own check of alignment comes first, and ends the process")]
fn a_header_of_an_odd_length() {
    let launches = |offset| {
        findings(CheckOptions::new(), |stream| {
            let (x, mut y) = (stream.zeroed::<u8>(200)?, stream.zeroed::<u32>(32)?);
            // SAFETY: 32 words from the offset on are inside; with 13 they are not aligned.
            unsafe { parsed::launch(stream, LaunchConfig::new(1, 32), x.as_device_ptr(), offset, &mut y) }
        })
    };
    silent(&launches(12));
    let found = launches(13);
    let finding = caught(CheckRule::Misaligned, &found);
    assert_eq!((finding.count, finding.memory.as_ref().map(|memory| memory.byte)), (32, Some(13)), "{finding}");
}

//! Reads of shared memory and of buffers that hold nothing yet; moving such bytes is none.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use warpsmith::prelude::*;
use warpsmith::{CheckOptions, CheckRule, Result, dynamic_shared, shared_array};
use warpsmith_checker_tests::{Expected, caught_and_silent, findings, silent};

const SOURCE: &str = include_str!("uninitialised.rs");
const SHARED: &str = "shared memory";

#[track_caller]
fn read(
    place: &str,
    thread: (u32, u32),
    memory: (&str, i128),
    count: u64,
    launches: impl Fn(&Stream, bool) -> Result<()>,
) {
    let expected = Expected {
        rule: CheckRule::Uninitialised,
        source: SOURCE,
        place,
        thread,
        action: "reads",
        memory: Some(memory),
        count,
    };
    caught_and_silent(CheckOptions::new(), &expected, launches);
}

/// Turns a block's numbers around; with the fault thread 5 leaves its slot as it is.
#[kernel(block = 64)]
fn turned(x: &[f32], mut y: GridSliceMut<f32>, fault: bool) {
    let tile = shared!([f32; 64]).cast::<f32>();
    let t = thread_idx().x as usize;
    if !(fault && t == 5) {
        // SAFETY: 64 elements, as many as the block has threads.
        unsafe { *tile.add(t) = x[global_idx().get()] };
    }
    sync_threads();
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: as above.
        *y = unsafe { *tile.add(63 - t) }; // at turned
    }
}

#[test]
fn a_slot_that_a_thread_skips() {
    read("turned", (0, 58), (SHARED, 5), 2, |stream, fault| {
        let (x, mut y) = (stream.filled(1.0f32, 128)?, stream.zeroed::<f32>(128)?);
        turned::launch(stream, LaunchConfig::new(2, 64), &x, &mut y, fault)
    });
}

/// Sums of three neighbours through a tile with a halo, which the fault leaves out.
#[kernel(block = 64)]
fn halo_tile(x: &[f32], mut y: GridSliceMut<f32>, fault: bool) {
    let tile = shared!([f32; 66]).cast::<f32>();
    let (t, i) = (thread_idx().x as usize, global_idx());
    // SAFETY: 66 elements, and a block of 64 threads.
    unsafe {
        *tile.add(t + 1) = x[i.get()];
        if !fault && t == 0 {
            *tile = 0.0;
            *tile.add(65) = 0.0;
        }
    }
    sync_threads();
    // SAFETY: as above.
    let left = unsafe { *tile.add(t) }; // at halo tile
    // SAFETY: as above.
    let right = if t < 63 || !fault { unsafe { *tile.add(t + 2) } } else { 0.0 };
    if let Some(y) = y.get_mut(&i) {
        *y = left + right;
    }
}

#[test]
fn a_halo_that_nobody_loads() {
    read("halo tile", (0, 0), (SHARED, 0), 1, |stream, fault| {
        let (x, mut y) = (stream.filled(1.0f32, 64)?, stream.zeroed::<f32>(64)?);
        halo_tile::launch(stream, LaunchConfig::new(1, 64), &x, &mut y, fault)
    });
}

/// The first block alone fills the table where there is the fault: the second finds another block's memory, which is gone.
#[kernel(block = 32)]
fn table(mut y: GridSliceMut<u32>, fault: bool) {
    let table = shared!([u32; 32]).cast::<u32>();
    let t = thread_idx().x;
    if block_idx().x == 0 || !fault {
        // SAFETY: 32 elements, as many as the block has threads.
        unsafe { *table.add(t as usize) = t * t };
    }
    sync_threads();
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: as above.
        *y = unsafe { *table.add((t as usize + 1) % 32) }; // at table
    }
}

#[test]
fn what_another_block_left() {
    read("table", (1, 0), (SHARED, 1), 32, |stream, fault| {
        let mut y = stream.zeroed::<u32>(64)?;
        table::launch(stream, LaunchConfig::new(2, 32), &mut y, fault)
    });
}

/// Counts in dynamic shared memory; the fault is that nobody zeroes the counts.
#[kernel(block = 32)]
fn histogram(x: &[u32], mut y: GridSliceMut<u32>, fault: bool) {
    let counts = dynamic_shared::<AtomicU32>();
    let t = thread_idx().x as usize;
    if !fault {
        // SAFETY: the launch gives 32 elements.
        unsafe { counts.add(t).cast::<u32>().write(0) };
    }
    sync_threads();
    let i = global_idx();
    // SAFETY: as above, and the values are below 32.
    unsafe { &*counts.add(x[i.get()] as usize) }.fetch_add(1, Ordering::Relaxed); // at histogram
    sync_threads();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: as above.
        *y = if x[t] == t as u32 { unsafe { counts.add(t).cast::<u32>().read() } } else { 0 };
    }
}

#[test]
fn counts_that_nobody_zeroes() {
    read("histogram", (0, 0), (SHARED, 0), 32, |stream, fault| {
        let x: Vec<u32> = (0..32).collect();
        let (x, mut y) = (stream.to_device(&x)?, stream.zeroed::<u32>(32)?);
        histogram::launch(stream, LaunchConfig::new(1, 32).with_shared_bytes(128), &x, &mut y, fault)
    });
}

/// Writes the halves of words; with the fault the lower ones alone.
#[kernel(block = 32)]
fn halves(mut y: GridSliceMut<u64>, fault: bool) {
    let words = shared!([u64; 32]).cast::<u64>();
    let t = thread_idx().x as usize;
    // SAFETY: 32 words, of two halves each.
    unsafe {
        *words.cast::<u32>().add(2 * t) = 7;
        if !fault {
            *words.cast::<u32>().add(2 * t + 1) = 9;
        }
    }
    sync_threads();
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: as above.
        *y = unsafe { *words.add(31 - t) } + 1; // at halves
    }
}

#[test]
fn half_a_word() {
    read("halves", (0, 0), (SHARED, 31), 32, |stream, fault| {
        let mut y = stream.zeroed::<u64>(32)?;
        halves::launch(stream, LaunchConfig::new(1, 32), &mut y, fault)
    });
}

/// A safe array in its writing phase, of which the fault leaves the last quarter out.
#[kernel(block = 64)]
fn phases(x: &[f32], mut y: GridSliceMut<f32>, fault: bool) {
    let (t, i) = (thread_idx().x as usize, global_idx());
    let mut tile = shared_array!([f32; 64]);
    if !fault || t < 48 {
        tile.put(x[i.get()]);
    }
    let tile = tile.sync();
    if let Some(y) = y.get_mut(&i) {
        *y = tile.at(t ^ 32); // at phases
    }
}

#[test]
fn a_safe_array_that_is_not_filled() {
    read("phases", (0, 16), (SHARED, 48), 16, |stream, fault| {
        let (x, mut y) = (stream.filled(1.0f32, 64)?, stream.zeroed::<f32>(64)?);
        phases::launch(stream, LaunchConfig::new(1, 64), &x, &mut y, fault)
    });
}

/// Doubles numbers; the fault ends one element early.
#[kernel]
unsafe fn doubled(x: &[u32], y: *mut u32, fault: bool) {
    let i = global_idx().get();
    if i + usize::from(fault) < x.len() {
        // SAFETY: the launch gives `y` as many elements as `x`.
        unsafe { *y.add(i) = 2 * x[i] };
    }
}

/// Adds up what another kernel left.
#[kernel]
unsafe fn plus_one(x: *const u32, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: the launch gives `x` as many elements as `y`.
        *y = unsafe { *x.add(i.get()) } + 1; // at plus one
    }
}

#[test]
fn an_element_that_an_earlier_launch_left_out() {
    read("plus one", (1, 17), ("`x`", 49), 1, |stream, fault| {
        let (x, mut y) = (stream.filled(1u32, 50)?, stream.zeroed::<u32>(50)?);
        let middle = stream.uninit::<u32>(50)?;
        let config = LaunchConfig::new(2, 32);
        // SAFETY: the buffers have the same number of elements.
        unsafe {
            doubled::launch(stream, config, &x, middle.as_device_ptr().cast_mut().cast(), fault)?;
            plus_one::launch(stream, config, middle.as_device_ptr().cast(), &mut y)
        }
    });
}

/// Adds to sums.
#[kernel]
unsafe fn accumulated(sums: *mut f32, x: &[f32]) {
    let i = global_idx().get();
    // SAFETY: the launch gives as many threads as elements.
    unsafe { *sums.add(i) += x[i] }; // at accumulated
}

#[test]
fn sums_that_start_from_nothing() {
    read("accumulated", (0, 0), ("`sums`", 0), 64, |stream, fault| {
        let x = stream.filled(1.0f32, 64)?;
        let (fresh, zeroed) = (stream.uninit::<f32>(64)?, stream.zeroed::<f32>(64)?);
        let sums = if fault { fresh.as_device_ptr().cast() } else { zeroed.as_device_ptr() };
        // SAFETY: 64 elements for 64 threads.
        unsafe { accumulated::launch(stream, LaunchConfig::new(2, 32), sums.cast_mut(), &x) }
    });
}

/// Counts the launch's threads.
#[kernel]
unsafe fn counted(count: *mut u32) {
    // SAFETY: the launch gives one element.
    unsafe { AtomicU32::from_ptr(count) }.fetch_add(1, Ordering::Relaxed); // at counted
}

#[test]
fn a_counter_that_starts_from_nothing() {
    read("counted", (0, 0), ("`count`", 0), 1, |stream, fault| {
        let (fresh, zeroed) = (stream.uninit::<u32>(1)?, stream.zeroed::<u32>(1)?);
        let count = if fault { fresh.as_device_ptr().cast() } else { zeroed.as_device_ptr() };
        // SAFETY: it has one element.
        unsafe { counted::launch(stream, LaunchConfig::new(1, 32), count.cast_mut()) }
    });
}

/// Writes the bytes of words; the fault leaves the last of each out.
#[kernel]
unsafe fn bytes_of_words(y: *mut u8, fault: bool) {
    let i = global_idx().get();
    if !fault || i % 4 != 3 {
        // SAFETY: the launch gives a byte a thread.
        unsafe { *y.add(i) = i as u8 };
    }
}

#[test]
fn a_word_without_its_last_byte() {
    read("plus one", (0, 0), ("`x`", 0), 16, |stream, fault| {
        let (words, mut y) = (stream.uninit::<u32>(16)?, stream.zeroed::<u32>(16)?);
        // SAFETY: 16 words are 64 bytes.
        unsafe {
            bytes_of_words::launch(stream, LaunchConfig::new(2, 32), words.as_device_ptr().cast_mut().cast(), fault)?;
            plus_one::launch(stream, LaunchConfig::new(1, 16), words.as_device_ptr().cast(), &mut y)
        }
    });
}

/// Moves elements, whatever they hold.
#[kernel]
unsafe fn moved(from: *const MaybeUninit<u32>, to: *mut MaybeUninit<u32>) {
    let i = global_idx().get();
    // SAFETY: the launch gives as many elements as threads.
    unsafe { *to.add(i) = *from.add(i) };
}

#[test]
fn nothing_that_was_moved_is_still_nothing() {
    read("plus one", (0, 0), ("`x`", 0), 32, |stream, fault| {
        let (fresh, zeroed) = (stream.uninit::<u32>(32)?, stream.zeroed::<u32>(32)?);
        let (middle, mut y) = (stream.uninit::<u32>(32)?, stream.zeroed::<u32>(32)?);
        let from = if fault { fresh.as_device_ptr() } else { zeroed.as_device_ptr().cast() };
        // SAFETY: 32 elements for 32 threads.
        unsafe {
            moved::launch(stream, LaunchConfig::new(1, 32), from, middle.as_device_ptr().cast_mut())?;
            plus_one::launch(stream, LaunchConfig::new(1, 32), middle.as_device_ptr().cast(), &mut y)
        }
    });
}

/// Three bytes of it are padding.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
struct Padded {
    tag: u8,
    value: u32,
}

/// A variant without data has bytes that hold nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, u8)]
enum Form {
    Point,
    Circle(f32),
    Box(f32, f32),
    Text([u8; 3]),
}

/// A number that holds something is read where it is moved, too.
#[kernel]
unsafe fn passed_on(x: *const u32, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        // SAFETY: the launch gives `x` as many elements as `y`.
        *y = unsafe { *x.add(i.get()) }; // at passed on
    }
}

#[test]
fn a_number_that_is_only_passed_on() {
    read("passed on", (0, 0), ("`x`", 0), 32, |stream, fault| {
        let (fresh, zeroed) = (stream.uninit::<u32>(32)?, stream.zeroed::<u32>(32)?);
        let mut y = stream.zeroed::<u32>(32)?;
        let x = if fault { fresh.as_device_ptr().cast() } else { zeroed.as_device_ptr() };
        // SAFETY: 32 elements for 32 threads.
        unsafe { passed_on::launch(stream, LaunchConfig::new(1, 32), x, &mut y) }
    });
}

/// Writes variants that have no data: their other bytes stay as they are.
#[kernel]
unsafe fn emptied(forms: *mut Form, options: *mut Option<u64>) {
    let i = global_idx().get();
    // SAFETY: the launch gives as many elements as threads.
    unsafe {
        *forms.add(i) = Form::Point;
        *options.add(i) = None;
    }
}

/// Writes values field by field, or whole, as variants.
#[kernel]
unsafe fn made(padded: *mut Padded, forms: *mut Form, options: *mut Option<u64>) {
    let i = global_idx().get();
    // SAFETY: the launch gives as many elements as threads.
    unsafe {
        *padded.add(i) = Padded { tag: i as u8, value: 3 * i as u32 };
        *forms.add(i) = match i % 4 {
            0 => Form::Point,
            1 => Form::Circle(i as f32),
            2 => Form::Box(i as f32, 1.0),
            _ => Form::Text([1, 2, i as u8]),
        };
        *options.add(i) = if i.is_multiple_of(3) { None } else { Some(i as u64) };
    }
}

/// Copies values around: whole, through shared memory, through a local, and two swapped.
#[kernel(block = 32)]
unsafe fn copied<T: Copy + 'static>(from: *const T, to: *mut T, how: u32) {
    let t = thread_idx().x as usize;
    let tile = shared!([MaybeUninit<T>; 32]).cast::<T>();
    // SAFETY: the launch gives one block of 32 threads and as many elements.
    unsafe {
        match how {
            0 => *to.add(t) = *from.add(t),
            1 => {
                *tile.add(t) = *from.add(t);
                sync_threads();
                *to.add(t) = *tile.add(t);
            }
            2 => {
                let (own, other) = (*from.add(t), *from.add(t ^ 1));
                *to.add(t) = own;
                sync_threads();
                *to.add(t) = other;
                sync_threads();
                *to.add(t) = own;
            }
            3 => {
                if t.is_multiple_of(2) {
                    for i in [t, t + 1] {
                        *to.add(i) = *from.add(i);
                    }
                    to.add(t).swap(to.add(t + 1));
                    to.add(t).swap(to.add(t + 1));
                }
            }
            _ => {
                let value = if t == 0 { *from.add(1) } else { *from.add(t) };
                *to.add(t) = if t == 0 { *from } else { value };
            }
        }
    }
}

/// Reads every field that a value has.
#[kernel]
unsafe fn looked_at(padded: *const Padded, forms: *const Form, options: *const Option<u64>, mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let i = i.get();
        // SAFETY: the launch gives as many elements as threads.
        let (padded, form, option) = unsafe { (&*padded.add(i), &*forms.add(i), &*options.add(i)) };
        let area = match form {
            Form::Point => 0.0,
            Form::Circle(radius) => radius * radius,
            Form::Box(width, height) => width * height,
            Form::Text(text) => f32::from(text[0] + text[2]),
        };
        *y = area + padded.value as f32 + f32::from(padded.tag) + option.map_or(0.0, |value| value as f32);
    }
}

fn copies(how: u32) {
    let found = findings(CheckOptions::new(), |stream| {
        let config = LaunchConfig::new(1, 32);
        let padded = [(); 2].map(|()| stream.uninit::<u64>(32).expect("there is memory"));
        let forms = [(); 2].map(|()| stream.uninit::<u32>(32 * 3).expect("there is memory"));
        let options = [(); 2].map(|()| stream.uninit::<u64>(32 * 2).expect("there is memory"));
        let mut y = stream.zeroed::<f32>(32)?;
        let [padded, padded_copy] = padded.each_ref().map(|buffer| buffer.as_device_ptr().cast_mut().cast::<Padded>());
        let [forms, forms_copy] = forms.each_ref().map(|buffer| buffer.as_device_ptr().cast_mut().cast::<Form>());
        let [options, options_copy] =
            options.each_ref().map(|buffer| buffer.as_device_ptr().cast_mut().cast::<Option<u64>>());
        // SAFETY: the buffers have the bytes of 32 elements each.
        unsafe {
            made::launch(stream, config, padded, forms, options)?;
            copied::launch(stream, config, padded.cast_const(), padded_copy, how)?;
            copied::launch(stream, config, forms.cast_const(), forms_copy, how)?;
            copied::launch(stream, config, options.cast_const(), options_copy, how)?;
            looked_at::launch(
                stream,
                config,
                padded_copy.cast_const(),
                forms_copy.cast_const(),
                options_copy.cast_const(),
                &mut y,
            )?;
        }
        stream.synchronize()?;
        let expected = |i: usize| {
            let area = [0.0, (i * i) as f32, i as f32, 1.0 + i as f32][i % 4];
            area + 3.0 * i as f32 + i as f32 + if i.is_multiple_of(3) { 0.0 } else { i as f32 }
        };
        assert_eq!(stream.to_host(&y)?, (0..32).map(expected).collect::<Vec<f32>>(), "{how}");
        Ok(())
    });
    silent(&found);
}

#[test]
fn padding_and_what_variants_leave_open_may_be_moved() {
    copies(0);
}

/// In memory where nothing was ever written, so that the bytes which such variants lack hold nothing.
#[test]
fn variants_without_data_may_be_moved() {
    for how in 0..5 {
        let found = findings(CheckOptions::new(), |stream| {
            let config = LaunchConfig::new(1, 32);
            let forms = [(); 2].map(|()| stream.uninit::<u32>(32 * 3).expect("there is memory"));
            let options = [(); 2].map(|()| stream.uninit::<u64>(32 * 2).expect("there is memory"));
            let [forms, forms_copy] = forms.each_ref().map(|buffer| buffer.as_device_ptr().cast_mut().cast::<Form>());
            let [options, options_copy] =
                options.each_ref().map(|buffer| buffer.as_device_ptr().cast_mut().cast::<Option<u64>>());
            // SAFETY: the buffers have the bytes of 32 elements each.
            unsafe {
                emptied::launch(stream, config, forms, options)?;
                copied::launch(stream, config, forms.cast_const(), forms_copy, how)?;
                copied::launch(stream, config, options.cast_const(), options_copy, how)?;
            }
            stream.synchronize()
        });
        silent(&found);
    }
}

#[test]
fn padding_may_go_through_shared_memory() {
    copies(1);
}

#[test]
fn padding_may_wait_in_a_local() {
    copies(2);
}

#[test]
fn padded_values_may_be_swapped() {
    copies(3);
}

#[test]
fn one_of_two_padded_values_may_be_chosen() {
    copies(4);
}

/// The safe way: elements that hold nothing are written, then read as values.
#[kernel]
fn filled(x: &[Padded], mut y: GridSliceMut<MaybeUninit<Padded>>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        y.write(x[i.get()]);
    }
}

#[kernel]
fn summed(x: &[Padded], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let Padded { tag, value } = x[i.get()];
        *y = value + u32::from(tag);
    }
}

#[test]
fn elements_that_a_kernel_fills_are_values_after_it() {
    silent(&findings(CheckOptions::new(), |stream| {
        let x = stream.to_device(&[Padded { tag: 1, value: 2 }; 40])?;
        let (mut middle, mut y) = (stream.uninit::<Padded>(40)?, stream.zeroed::<u32>(40)?);
        filled::launch(stream, LaunchConfig::new(2, 32), &x, &mut middle)?;
        // SAFETY: the kernel wrote all 40.
        let middle = unsafe { middle.assume_init() };
        summed::launch(stream, LaunchConfig::new(2, 32), &middle, &mut y)?;
        stream.synchronize()?;
        assert_eq!(stream.to_host(&y)?, [3; 40]);
        Ok(())
    }));
}

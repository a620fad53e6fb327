//! Shared memory: section F of the case list.

use std::mem::MaybeUninit;

use half::f16;
use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith::shared::dynamic_shared_bytes;
use warpsmith_tests::{check_on_devices, devices, mix, random};

/// Threads in a block.
const BLOCK: usize = 64;

/// Writes `value` to this thread's slot and reads the slot of the thread `shift` further.
fn exchange<T: Copy>(slots: *mut T, value: T, shift: usize) -> T {
    let thread = thread_idx().x as usize;
    sync_threads();
    // SAFETY: each thread writes its own slot between two barriers.
    unsafe { slots.add(thread).write(value) };
    sync_threads();
    // SAFETY: the index stays below BLOCK, and every slot was written before the barrier.
    unsafe { slots.add((thread + shift) % BLOCK).read() }
}

/// An array of its own in a callee.
fn in_a_callee(value: u32) -> *mut u32 {
    let slots = shared!([u32; BLOCK]).cast::<u32>();
    exchange(slots, value, 0);
    slots
}

/// An array for each type.
fn generic<T: Copy>(value: T) -> *mut T {
    let slots = shared!([T; BLOCK]).cast::<T>();
    exchange(slots, value, 0);
    slots
}

/// Two arrays in the kernel, one in a callee, one for each instance of a generic callee: all keep what was written last.
#[kernel]
fn many_arrays(mut output: GridSliceMut<[u64; 7]>) {
    let i = global_idx();
    let thread = i.get() as u64 % BLOCK as u64;
    let first = shared!([u32; BLOCK]).cast::<u32>();
    let second = shared!([u32; BLOCK]).cast::<u32>();
    exchange(first, thread as u32 + 1000, 0);
    exchange(second, thread as u32 + 2000, 0);
    let third = in_a_callee(thread as u32 + 3000);
    let fourth = generic(thread as u32 + 4000);
    let fifth = generic(thread as i32 + 5000);
    let sixth = generic((thread as u8, thread + 6000));
    let again = in_a_callee(thread as u32 + 7000);
    sync_threads();
    let other = (thread as usize + 5) % BLOCK;
    if let Some(output) = output.get_mut(&i) {
        // SAFETY: `other` is below BLOCK, and all slots were written before the barrier.
        *output = unsafe {
            [
                first.add(other).read().into(),
                second.add(other).read().into(),
                // A place in the source is one array: the second call wrote over the first.
                u64::from(third.add(other).read()) + u64::from(third != again),
                fourth.add(other).read().into(),
                fifth.add(other).read() as u64,
                sixth.add(other).read().1,
                again.add(other).read().into(),
            ]
        };
    }
}

#[test]
fn case_f1_every_array_is_distinct() {
    let expected: Vec<[u64; 7]> = (0..2 * BLOCK)
        .map(|i| {
            let other = ((i + 5) % BLOCK) as u64;
            [1000, 2000, 7000, 4000, 5000, 6000, 7000].map(|base| base + other)
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u64; 7]>(expected.len())?;
        many_arrays::launch(stream, LaunchConfig::new(2, BLOCK as u32), &mut output)?;
        stream.to_host(&output)
    });
}

#[derive(Clone, Copy)]
#[repr(align(16))]
struct Wide([f32; 4]);

/// Arrays of odd sizes beside aligned ones.
#[kernel]
fn alignments(input: &[f32], mut output: GridSliceMut<[u32; 4]>) {
    let bytes = shared!([u8; 3]);
    let doubles = shared!([f64; 7]);
    let more_bytes = shared!([u8; 5]);
    let wide = shared!([Wide; BLOCK]).cast::<Wide>();
    let over_aligned = shared!(Aligned);
    let i = global_idx();
    let thread = thread_idx().x as usize;
    if thread == 0 {
        // SAFETY: one thread writes, and all read after the barrier.
        unsafe {
            bytes.write([1, 2, 3]);
            doubles.write([0.5; 7]);
            more_bytes.write([9; 5]);
            over_aligned.write(Aligned(77));
        }
    }
    // SAFETY: each thread writes its own slot.
    unsafe { wide.add(thread).write(Wide([input[i.get()], 1.0, 2.0, thread as f32])) };
    sync_threads();
    // SAFETY: all was written before the barrier, and the index stays below BLOCK.
    let (neighbour, bytes_value, doubles_value, more_value, over) = unsafe {
        (wide.add((thread + 1) % BLOCK).read(), bytes.read(), doubles.read(), more_bytes.read(), over_aligned.read())
    };
    if let Some(output) = output.get_mut(&i) {
        let misaligned = doubles.addr() % 8 + wide.addr() % 16 + over_aligned.addr() % 128;
        let sum: f64 = doubles_value.iter().sum();
        *output = [
            (neighbour.0.iter().sum::<f32>()).to_bits(),
            bytes_value.iter().chain(&more_value).map(|v| u32::from(*v)).sum(),
            (sum * 2.0) as u32 + u32::from(over.0),
            misaligned as u32,
        ];
    }
}

#[derive(Clone, Copy)]
#[repr(align(128))]
struct Aligned(u8);

#[test]
fn case_f2_alignments() {
    let input: Vec<f32> = (0..BLOCK).map(|i| i as f32 * 0.5).collect();
    let expected: Vec<[u32; 4]> = (0..BLOCK)
        .map(|i| {
            let other = (i + 1) % BLOCK;
            let sum: f32 = [input[other], 1.0, 2.0, other as f32].iter().sum();
            [sum.to_bits(), 51, 84, 0]
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 4]>(expected.len())?;
        alignments::launch(stream, LaunchConfig::new(1, BLOCK as u32), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

#[derive(Clone, Copy)]
struct Mixed {
    flag: bool,
    letter: char,
    half: f16,
    complex: (f32, f32),
}

/// Element types beside the plain numbers.
#[kernel]
fn element_types(mut output: GridSliceMut<u64>) {
    let i = global_idx();
    let thread = thread_idx().x as u64;
    let flags = shared!([bool; BLOCK]).cast::<bool>();
    let flag = exchange(flags, thread % 3 == 1, 2);
    let halves = shared!([f16; BLOCK]).cast::<f16>();
    let half = exchange(halves, f16::from_f32(thread as f32 / 8.0), 3);
    let structs = shared!([Mixed; BLOCK]).cast::<Mixed>();
    let own = Mixed { flag, letter: 'a', half, complex: (thread as f32, -1.0) };
    let other = exchange(structs, own, 1);
    let options = shared!([Option<u32>; BLOCK]).cast::<Option<u32>>();
    let option = exchange(options, thread.is_multiple_of(2).then_some(thread as u32), 1);
    if let Some(output) = output.get_mut(&i) {
        let mut total = u64::from(other.flag) | u64::from(other.letter) << 1;
        total = mix(total, other.half.to_bits().into());
        total = mix(total, u64::from((other.complex.0 + other.complex.1).to_bits()));
        *output = mix(total, option.map_or(99, u64::from));
    }
}

#[test]
fn case_f3_element_types() {
    let own = |thread: u64| Mixed {
        flag: (thread + 2) % BLOCK as u64 % 3 == 1,
        letter: 'a',
        half: f16::from_f32(((thread + 3) % BLOCK as u64) as f32 / 8.0),
        complex: (thread as f32, -1.0),
    };
    let expected: Vec<u64> = (0..BLOCK as u64)
        .map(|thread| {
            let next = (thread + 1) % BLOCK as u64;
            let other = own(next);
            let mut total = u64::from(other.flag) | u64::from(other.letter) << 1;
            total = mix(total, other.half.to_bits().into());
            total = mix(total, u64::from((other.complex.0 + other.complex.1).to_bits()));
            mix(total, if next.is_multiple_of(2) { next } else { 99 })
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u64>(BLOCK)?;
        element_types::launch(stream, LaunchConfig::new(1, BLOCK as u32), &mut output)?;
        stream.to_host(&output)
    });
}

/// Reverses the block's values through dynamic shared memory, as far as it goes.
#[kernel]
fn dynamic(input: &[u64], mut output: GridSliceMut<u64>) {
    let slots = dynamic_shared::<u64>();
    let len = dynamic_shared_bytes() / size_of::<u64>();
    let i = global_idx();
    for at in (thread_idx().x as usize..len).step_by(block_dim().x as usize) {
        // SAFETY: `at` is below `len`, and the threads share these numbers out among them.
        unsafe { slots.add(at).write(input[at % input.len()].wrapping_add(at as u64)) };
    }
    sync_threads();
    if let Some(output) = output.get_mut(&i) {
        // SAFETY: the index is below `len`, and all was written before the barrier.
        *output = unsafe { slots.add(len - 1 - i.get() % len).read() };
    }
}

#[test]
fn case_f4_dynamic_shared_memory() {
    let input: Vec<u64> = (0..100).map(|i| random(7, i)).collect();
    // The last is above the 48 KiB that a kernel gets without asking.
    for bytes in [8usize, 800, 48 << 10, 96 << 10] {
        let len = bytes / 8;
        let value = |at: usize| input[at % input.len()].wrapping_add(at as u64);
        let expected: Vec<u64> = (0..BLOCK).map(|i| value(len - 1 - i % len)).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u64>(BLOCK)?;
            let config = LaunchConfig::new(1, BLOCK as u32).with_shared_bytes(bytes as u32);
            dynamic::launch(stream, config, &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

#[test]
fn case_f4_too_much_shared_memory_is_refused_with_numbers() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let limit = device.limits().max_shared_bytes;
        let input = stream.to_device(&[1u64]).expect("a small copy works");
        let mut output = stream.zeroed::<u64>(1).expect("a small copy works");
        let config = LaunchConfig::new(1, 1).with_shared_bytes(limit + 1);
        let error = dynamic::launch(&stream, config, &input, &mut output).expect_err("more than the device has");
        let text = error.to_string();
        for number in [limit, limit + 1] {
            assert!(text.contains(&number.to_string()), "on {device}, the error does not say {number}: {text}");
        }
    }
}

/// Counts, over many blocks, how many find a slot already written as their own would be.
#[kernel]
fn old_contents(mut output: GridSliceMut<u32>) {
    let slot = shared!(MaybeUninit<u64>).cast::<u64>();
    let i = global_idx();
    if thread_idx().x == 0 {
        // SAFETY: one thread of the block writes, then reads after it.
        unsafe { slot.write(0x5eed_0000 + u64::from(block_idx().x)) };
    }
    sync_threads();
    // SAFETY: written before the barrier.
    let value = unsafe { slot.read() };
    if let Some(output) = output.get_mut(&i) {
        *output = (value - 0x5eed_0000) as u32;
    }
}

#[test]
fn case_f5_blocks_do_not_share() {
    const BLOCKS: u32 = 500;
    let expected: Vec<u32> = (0..BLOCKS * 32).map(|i| i / 32).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(expected.len())?;
        old_contents::launch(stream, LaunchConfig::new(BLOCKS, 32), &mut output)?;
        stream.to_host(&output)
    });
}

/// Rows and columns of a tile.
const TILE: usize = 8;

/// A transpose through a tile, so that reads and writes both run along rows.
#[kernel]
fn transpose<T: KernelValue>(input: &[T], width: usize, height: usize, mut output: GridSliceMut<T, Plane>) {
    let tile = shared!([MaybeUninit<T>; TILE * TILE]).cast::<T>();
    let (thread, block) = (thread_idx(), block_idx());
    let (x, y) = (thread.x as usize, thread.y as usize);
    // The output's block (x, y) is the input's block (y, x).
    let (column, row) = (block.y as usize * TILE + x, block.x as usize * TILE + y);
    if column < width && row < height {
        // SAFETY: both are below TILE, and each thread writes its own slot.
        unsafe { tile.add(y * TILE + x).write(input[row * width + column]) };
    }
    sync_threads();
    let place = global_idx_2d();
    if let Some(output) = output.get_mut(&place) {
        // SAFETY: the slot's place lies inside the input when this one lies inside the output, so it was written.
        *output = unsafe { tile.add(x * TILE + y).read() };
    }
}

#[test]
fn case_f6_transpose_of_odd_sizes() {
    for (width, height) in [(1, 1), (2, 3), (3, 2), (23, 31), (31, 23), (64, 8), (1, 100)] {
        let input: Vec<u16> = (0..width * height).map(|i| random(5, i as u64) as u16).collect();
        let expected: Vec<u16> = (0..width * height).map(|i| input[i % height * width + i / height]).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u16>(input.len())?;
            let grid = (height.div_ceil(TILE) as u32, width.div_ceil(TILE) as u32);
            let config = LaunchConfig::new(grid, (TILE as u32, TILE as u32));
            let device_input = stream.to_device(&input)?;
            transpose::launch(stream, config, &device_input, width, height, output.plane_mut(height, width)?)?;
            stream.to_host(&output)
        });
    }
}

/// `[rows, inner]` times `[inner, columns]`, a tile at a time.
#[kernel]
fn matmul(a: &[i64], b: &[i64], inner: usize, mut c: GridSliceMut<i64, Plane>) {
    let a_tile = shared!([i64; TILE * TILE]).cast::<i64>();
    let b_tile = shared!([i64; TILE * TILE]).cast::<i64>();
    let (x, y) = (thread_idx().x as usize, thread_idx().y as usize);
    let place = global_idx_2d();
    let columns = c.map().width();
    let mut total = 0i64;
    for start in (0..inner).step_by(TILE) {
        let own = y * TILE + x;
        let a_inside = place.y() < c.map().height() && start + x < inner;
        let b_inside = place.x() < columns && start + y < inner;
        // SAFETY: `own` is below TILE * TILE and differs between threads; the last reads ended at the barrier below.
        unsafe {
            a_tile.add(own).write(if a_inside { a[place.y() * inner + start + x] } else { 0 });
            b_tile.add(own).write(if b_inside { b[(start + y) * columns + place.x()] } else { 0 });
        }
        sync_threads();
        for k in 0..TILE {
            // SAFETY: both tiles were written before the barrier.
            total = total
                .wrapping_add(unsafe { a_tile.add(y * TILE + k).read().wrapping_mul(b_tile.add(k * TILE + x).read()) });
        }
        sync_threads();
    }
    if let Some(c) = c.get_mut(&place) {
        *c = total;
    }
}

#[test]
fn case_f6_matmul_of_odd_sizes() {
    for (rows, inner, columns) in [(2, 3, 2), (1, 1, 1), (23, 31, 9), (8, 8, 8), (17, 1, 33)] {
        let a: Vec<i64> = (0..rows * inner).map(|i| random(8, i as u64) as i64).collect();
        let b: Vec<i64> = (0..inner * columns).map(|i| random(9, i as u64) as i64).collect();
        let expected: Vec<i64> = (0..rows * columns)
            .map(|i| {
                let (row, column) = (i / columns, i % columns);
                (0..inner)
                    .fold(0i64, |sum, k| sum.wrapping_add(a[row * inner + k].wrapping_mul(b[k * columns + column])))
            })
            .collect();
        check_on_devices(&expected, |stream| {
            let (device_a, device_b) = (stream.to_device(&a)?, stream.to_device(&b)?);
            let mut c = stream.zeroed::<i64>(rows * columns)?;
            let grid = (columns.div_ceil(TILE) as u32, rows.div_ceil(TILE) as u32);
            let config = LaunchConfig::new(grid, (TILE as u32, TILE as u32));
            matmul::launch(stream, config, &device_a, &device_b, inner, c.plane_mut(columns, rows)?)?;
            stream.to_host(&c)
        });
    }
}

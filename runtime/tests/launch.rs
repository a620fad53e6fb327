//! Kernels launched on every device: results, arguments of each kind, and shapes that are refused.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use warpsmith::prelude::*;
use warpsmith::{Error, GpuProfile, LaunchError, MemoryError, Schedule};

mod common;
use common::{kernel_devices, text};

#[kernel]
fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += a * x[i.get()];
    }
}

#[kernel]
fn add_one(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y += 1;
    }
}

#[kernel]
fn scale(factor: &u32, x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = factor * x[i.get()];
    }
}

#[kernel]
fn count(hits: &[AtomicU32], total: &AtomicU64, x: &[u32]) {
    if let Some(&x) = x.get(global_idx().get()) {
        hits[x as usize % hits.len()].fetch_add(1, Ordering::Relaxed);
        total.fetch_add(u64::from(x), Ordering::Relaxed);
    }
}

#[kernel]
fn fill_runs(mut y: GridSliceMut<u32, Runs<4>>) {
    let run = run_idx();
    for (place, y) in y.run_mut(&run).iter_mut().enumerate() {
        *y = (run.start() + place) as u32;
    }
}

#[kernel]
fn fill_plane(mut y: GridSliceMut<u32, Plane>) {
    let i = global_idx_2d();
    if let Some(y) = y.get_mut(&i) {
        *y = (i.y() * 1000 + i.x()) as u32;
    }
}

#[kernel]
fn fill_volume(mut y: GridSliceMut<u32, Volume>) {
    let i = global_idx_3d();
    if let Some(y) = y.get_mut(&i) {
        *y = (i.z() * 10_000 + i.y() * 100 + i.x()) as u32;
    }
}

#[kernel]
fn write_uninit(mut y: GridSliceMut<std::mem::MaybeUninit<u64>>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        y.write(i.get() as u64);
    }
}

#[kernel]
unsafe fn copy_raw(from: *const u32, to: *mut u32, len: usize) {
    let i = global_idx().get();
    if i < len {
        // SAFETY: the launch passes two buffers of `len` elements.
        unsafe { *to.add(i) = *from.add(i) };
    }
}

#[kernel(block = (64, 1, 1))]
fn in_blocks_of_64(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = block_dim().x;
    }
}

#[kernel(max_threads = 128)]
fn at_most_128(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = 1;
    }
}

#[kernel]
fn generic<T: KernelValue + std::ops::Add<Output = T>>(x: &[T], add: T, mut y: GridSliceMut<T>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()] + add;
    }
}

#[test]
fn every_length_around_warps_blocks_and_grids() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        for len in [0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 100_000] {
            let x: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let y = vec![0.5; len];
            let device_x = stream.to_device(&x).unwrap();
            let mut device_y = stream.to_device(&y).unwrap();
            saxpy::launch(&stream, LaunchConfig::for_len(len), 3.0, &device_x, &mut device_y).unwrap();
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| y + 3.0 * x).collect();
            assert_eq!(stream.to_host(&device_y).unwrap(), expected, "{device}, {len}");
        }
    }
}

#[test]
fn arguments_in_every_form_of_borrow() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let config = LaunchConfig::for_len(6);
        let mut x = stream.to_device(&[1u32, 2, 3, 4, 5, 6]).unwrap();
        let factor = stream.to_device(&[10u32, 20]).unwrap();
        let mut y = stream.zeroed::<u32>(6).unwrap();

        scale::launch(&stream, config, &factor, &x, &mut y).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), [10, 20, 30, 40, 50, 60]);

        let (second, slice) = (factor.slice(1..), x.slice(..));
        let y_again = &mut y;
        scale::launch(&stream, config, second, slice, &mut *y_again).unwrap();
        assert_eq!(stream.to_host(&*y_again).unwrap(), [20, 40, 60, 80, 100, 120]);

        let mut part = y_again.slice_mut(2..4);
        let reference = &&factor;
        scale::launch(&stream, config, reference, x.slice(2..), &mut part).unwrap();
        add_one::launch(&stream, config, part.reborrow()).unwrap();
        add_one::launch(&stream, config, part).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), [20, 40, 32, 42, 100, 120]);

        let (mut left, right) = x.split_at_mut(3);
        scale::launch(&stream, config, &factor, &right, &mut left).unwrap();
        assert_eq!(stream.to_host(&x).unwrap(), [40, 50, 60, 4, 5, 6]);
    }
}

#[test]
fn atomics_from_either_kind_of_buffer() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let numbers: Vec<u32> = (0..10_000).collect();
        let x = stream.to_device(&numbers).unwrap();
        let config = LaunchConfig::for_len(numbers.len());
        let hits = stream.zeroed::<AtomicU32>(7).unwrap();
        let mut total = stream.zeroed::<u64>(1).unwrap();
        count::launch(&stream, config, &hits, &mut total, &x).unwrap();
        count::launch(&stream, config, &hits, &mut total, &x).unwrap();
        let expected: Vec<u32> = (0..7).map(|rest| 2 * (rest..10_000).step_by(7).count() as u32).collect();
        let host: Vec<u32> = stream.to_host(&hits).unwrap().into_iter().map(AtomicU32::into_inner).collect();
        assert_eq!(host, expected, "{device}");
        assert_eq!(stream.to_host(&hits.into_plain()).unwrap(), expected, "{device}");
        assert_eq!(stream.to_host(&total).unwrap(), [2 * 49_995_000], "{device}");

        // The same memory as atomics for good, and in part.
        let shared = total.into_atomic::<AtomicU64>();
        let mut some = stream.filled(5u32, 10).unwrap();
        count::launch(&stream, config, some.slice_mut(2..9), &shared, &x).unwrap();
        let bins: Vec<u32> = [5, 5].into_iter().chain(expected.iter().map(|hits| 5 + hits / 2)).chain([5]).collect();
        assert_eq!(stream.to_host(&some).unwrap(), bins, "{device}");
    }
}

#[test]
fn ownership_maps() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut line = stream.zeroed::<u32>(1003).unwrap();
        fill_runs::launch(&stream, LaunchConfig::for_len(1003), &mut line).unwrap();
        assert_eq!(stream.to_host(&line).unwrap(), (0..1003).collect::<Vec<u32>>(), "{device}");

        let (width, height, stride) = (45, 13, 50);
        let mut picture = stream.filled(u32::MAX, stride * height).unwrap();
        let view = picture.plane_mut_with_stride(width, height, stride).unwrap();
        fill_plane::launch(&stream, LaunchConfig::for_2d(width, height), view).unwrap();
        for (at, value) in stream.to_host(&picture).unwrap().into_iter().enumerate() {
            let (x, y) = (at % stride, at / stride);
            assert_eq!(value, if x < width { (y * 1000 + x) as u32 } else { u32::MAX }, "{device}: {x}, {y}");
        }

        let (width, height, depth) = (33, 5, 3);
        let mut volume = stream.zeroed::<u32>(width * height * depth).unwrap();
        let mut view = volume.volume_mut(width, height, depth).unwrap();
        fill_volume::launch(&stream, LaunchConfig::for_3d(width, height, depth), &mut view).unwrap();
        for (at, value) in stream.to_host(&volume).unwrap().into_iter().enumerate() {
            let (x, y, z) = (at % width, at / width % height, at / width / height);
            assert_eq!(value, (z * 10_000 + y * 100 + x) as u32, "{device}");
        }
    }
}

#[test]
fn views_that_do_not_fit_are_refused() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(100).unwrap();
        assert!(memory.plane_mut(10, 10).is_ok());
        // The last row has no gap after it.
        assert!(memory.plane_mut_with_stride(4, 10, 10).is_ok());
        assert!(memory.slice_mut(..94).into_plane(4, 10, 10).is_ok());
        assert!(memory.slice_mut(..93).into_plane(4, 10, 10).is_err());
        assert!(memory.plane_mut(0, 1_000_000).is_ok() && memory.plane_mut(1_000_000, 0).is_ok());
        let message = text(memory.plane_mut(11, 10).unwrap_err());
        assert!(message.contains("a view of 11 x 10 elements (row stride 11) needs 110 elements; the buffer has 100"));
        let message = text(memory.plane_mut_with_stride(10, 2, 9).unwrap_err());
        assert!(message.contains("the row stride of 9 elements is less than the 10 elements"), "{message}");
        assert!(memory.volume_mut(5, 5, 4).is_ok());
        assert!(memory.volume_mut(5, 5, 5).is_err());
        for huge in [usize::MAX, 1 << 32, 1 << 63] {
            assert!(memory.plane_mut(huge, huge).is_err() && memory.volume_mut(huge, huge, huge).is_err());
        }
    }
}

#[test]
fn uninitialised_memory_and_raw_pointers() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut fresh = stream.uninit::<u64>(1000).unwrap();
        write_uninit::launch(&stream, LaunchConfig::for_len(1000), &mut fresh).unwrap();
        // SAFETY: the kernel above writes every element.
        let written = unsafe { fresh.assume_init() };
        assert_eq!(stream.to_host(&written).unwrap(), (0..1000).collect::<Vec<u64>>(), "{device}");

        let host: Vec<u32> = (0..500).rev().collect();
        let from = stream.to_device(&host).unwrap();
        let to = stream.zeroed::<u32>(500).unwrap();
        let (source, target) = (from.as_device_ptr(), to.as_device_ptr().cast_mut());
        assert!(!source.is_null() && !target.is_null() && !std::ptr::eq(source, target), "{device}");
        // SAFETY: both buffers have 500 elements, and nothing else uses them.
        unsafe { copy_raw::launch(&stream, LaunchConfig::for_len(500), source, target, 500) }.unwrap();
        assert_eq!(stream.to_host(&to).unwrap(), host, "{device}");
    }
}

#[test]
fn generic_kernels_of_several_types() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let ints = stream.to_device(&[1i64, -2, 3]).unwrap();
        let mut int_result = stream.zeroed::<i64>(3).unwrap();
        generic::launch(&stream, LaunchConfig::for_len(3), &ints, 1 << 40, &mut int_result).unwrap();
        assert_eq!(stream.to_host(&int_result).unwrap(), [1, -2, 3].map(|x| x + (1i64 << 40)), "{device}");
        let floats = stream.to_device(&[0.5f64, 1.5]).unwrap();
        let mut float_result = stream.zeroed::<f64>(2).unwrap();
        generic::launch(&stream, LaunchConfig::for_len(2), &floats, 0.25, &mut float_result).unwrap();
        assert_eq!(stream.to_host(&float_result).unwrap(), [0.75, 1.75], "{device}");
    }
}

#[test]
fn nothing_to_do_starts_nothing() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.to_device(&[7u32; 3]).unwrap();
        add_one::launch(&stream, LaunchConfig::for_len(0), &mut y).unwrap();
        add_one::launch(&stream, LaunchConfig::for_2d(0, 9), &mut y).unwrap();
        add_one::launch(&stream, LaunchConfig::for_3d(9, 9, 0), &mut y).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), [7; 3], "{device}");
        // No elements under a grid that runs.
        let mut none = stream.zeroed::<u32>(0).unwrap();
        add_one::launch(&stream, LaunchConfig::for_len(1000), &mut none).unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_dimension_of_zero_is_an_error_that_names_it() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.to_device(&[7u32; 3]).unwrap();
        let cases = [
            (LaunchConfig::new((0, 1, 1), 32), "grid_dim.x"),
            (LaunchConfig::new((1, 0, 1), 32), "grid_dim.y"),
            (LaunchConfig::new((1, 1, 0), 32), "grid_dim.z"),
            (LaunchConfig::new(1, (0, 1, 1)), "block_dim.x"),
            (LaunchConfig::new(1, (1, 0, 1)), "block_dim.y"),
            (LaunchConfig::new(1, (1, 1, 0)), "block_dim.z"),
            (LaunchConfig::new((0, 0, 0), 32), "grid_dim.x"),
        ];
        for (config, dimension) in cases {
            let error = add_one::launch(&stream, config, &mut y).unwrap_err();
            assert!(
                matches!(&error, Error::Launch(LaunchError::ZeroDimension { dimension: named, .. }) if *named == dimension),
                "{device}: {error}"
            );
            assert!(text(error).contains(&format!("`launch::add_one` with {dimension} = 0")));
        }
        assert_eq!(stream.to_host(&y).unwrap(), [7; 3], "{device}");
    }
}

#[test]
fn shapes_beyond_the_device_name_request_and_limit() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.to_device(&[7u32; 3]).unwrap();
        let limits = *device.limits();
        let shared = limits.max_shared_bytes;
        let over = format!(
            "asks for {} bytes of shared memory per block (0 fixed in the kernel, {0} of the launch)",
            shared + 1
        );
        let cases = [
            (LaunchConfig::new(1, 1025), "asks for 1025 threads per block; the device allows 1024"),
            (LaunchConfig::new(1, (32, 33)), "asks for 1056 threads per block; the device allows 1024"),
            (LaunchConfig::new(1, u32::MAX), "asks for 4294967295 threads per block; the device allows 1024"),
            (LaunchConfig::new(1, (u32::MAX, u32::MAX, u32::MAX)), "threads per block; the device allows 1024"),
            (LaunchConfig::new(1, (1, 1, 65)), "block_dim.z = 65; the device allows 64"),
            (LaunchConfig::new((1, 65_536), 32), "grid_dim.y = 65536; the device allows 65535"),
            (LaunchConfig::new((1, 1, 70_000), 32), "grid_dim.z = 70000; the device allows 65535"),
            (LaunchConfig::new(1 << 31, 32), "grid_dim.x = 2147483648; the device allows 2147483647"),
            (LaunchConfig::for_2d(usize::MAX, 1), "grid_dim.x = 4294967295; the device allows 2147483647"),
            (LaunchConfig::new(1, 32).with_shared_bytes(shared + 1), over.as_str()),
        ];
        for (config, part) in cases {
            let message = text(add_one::launch(&stream, config, &mut y).unwrap_err());
            assert!(message.contains("`launch::add_one`") && message.contains(part), "{device}: {message}");
        }
        // The limits themselves are allowed.
        add_one::launch(&stream, LaunchConfig::new(1, 1024).with_shared_bytes(shared), &mut y).unwrap();
        add_one::launch(&stream, LaunchConfig::new(1, (1, 1, 64)), &mut y).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), [9; 3], "{device}");
    }
}

#[test]
fn the_executor_refuses_what_the_gpu_that_it_stands_for_would() {
    let refused = |profile, config| {
        let stream = Device::cpu_as(profile).stream().unwrap();
        let mut y = stream.to_device(&[7u32; 3]).unwrap();
        let outcome = add_one::launch(&stream, config, &mut y).map_err(text);
        let ran = stream.to_host(&y).unwrap() == [8; 3];
        assert_eq!(outcome.is_ok(), ran, "{profile}");
        outcome.err()
    };
    for profile in GpuProfile::ALL {
        let limits = profile.limits();
        let most = LaunchConfig::new(1, 1024).with_shared_bytes(limits.max_shared_bytes);
        assert_eq!(refused(profile, most), None);
        let shared = refused(profile, LaunchConfig::new(1, 32).with_shared_bytes(limits.max_shared_bytes + 1)).unwrap();
        let limit = format!("the device allows {}", limits.max_shared_bytes);
        assert!(shared.contains(&limit), "{profile}: {shared}");
        assert!(refused(profile, LaunchConfig::new(1, 1025)).unwrap().contains("the device allows 1024"), "{profile}");

        let clusters = refused(profile, LaunchConfig::new(4, 32).with_cluster(2));
        assert_eq!(clusters.is_some(), profile.capability().major < 9, "{profile}: {clusters:?}");
        assert!(clusters.is_none_or(|message| message.contains("compute capability")), "{profile}");

        // A block of this much shared memory has a multiprocessor to itself.
        let alone = |blocks| LaunchConfig::new(blocks, 32).with_shared_bytes(limits.max_shared_bytes).cooperative();
        assert_eq!(refused(profile, alone(limits.multiprocessors)), None);
        let message = refused(profile, alone(limits.multiprocessors + 1)).unwrap();
        assert!(message.contains(&format!("{}", limits.multiprocessors)), "{profile}: {message}");
    }
}

#[test]
fn a_kernels_own_bounds_are_checked() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.zeroed::<u32>(64).unwrap();
        in_blocks_of_64::launch(&stream, LaunchConfig::new(1, 64), &mut y).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), [64; 64], "{device}");
        let message = text(in_blocks_of_64::launch(&stream, LaunchConfig::for_len(64), &mut y).unwrap_err());
        assert!(
            message.contains("blocks of (256, 1, 1); it is compiled for blocks of (64, 1, 1)"),
            "{device}: {message}"
        );
        at_most_128::launch(&stream, LaunchConfig::new(1, 128), &mut y).unwrap();
        let message = text(at_most_128::launch(&stream, LaunchConfig::new(1, 129), &mut y).unwrap_err());
        assert!(message.contains("asks for 129 threads per block; this kernel allows 128"), "{device}: {message}");
        assert_eq!(stream.to_host(&y).unwrap(), [1; 64], "{device}");
    }
}

#[test]
fn a_reference_needs_an_element() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let empty = stream.zeroed::<u32>(0).unwrap();
        let x = stream.zeroed::<u32>(1).unwrap();
        let mut y = stream.zeroed::<u32>(1).unwrap();
        let message = text(scale::launch(&stream, LaunchConfig::for_len(1), &empty, &x, &mut y).unwrap_err());
        assert!(message.contains("argument 1 of `launch::scale` is a reference to one element"), "{device}: {message}");
    }
}

#[test]
fn a_panic_in_the_shape_check_leaves_buffers_usable() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.zeroed::<u32>(10).unwrap();
        assert!(matches!(
            y.copy_from_host(&stream, &[1; 9]),
            Err(Error::Memory(MemoryError::LengthMismatch { source_len: 9, destination_len: 10 }))
        ));
        add_one::launch(&stream, LaunchConfig::new(1, 2000), &mut y).unwrap_err();
        add_one::launch(&stream, LaunchConfig::for_len(10), &mut y).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), [1; 10], "{device}");
    }
}

#[test]
fn a_panic_under_a_schedule_names_it_and_comes_again_under_it() {
    #[kernel]
    fn first_past_ten(seen: &[AtomicU32]) {
        assert!(seen[0].fetch_add(1, Ordering::Relaxed) != 10, "eleventh");
    }
    let run = |schedule: Schedule| {
        let stream = Device::cpu_scheduled(schedule).stream().unwrap();
        let seen = stream.zeroed::<AtomicU32>(1).unwrap();
        first_past_ten::launch(&stream, LaunchConfig::new(4, 33), &seen).unwrap();
        stream.synchronize().unwrap_err()
    };
    let mut threads = Vec::new();
    for seed in 0..5 {
        let error = run(Schedule::Random(seed));
        assert_eq!(error.to_string(), run(Schedule::Random(seed)).to_string());
        let panic = error.kernel_panic().unwrap();
        assert_eq!(panic.schedule, Some(Schedule::Random(seed)));
        assert!(error.to_string().contains(&format!(", under the schedule random:{seed}: ")), "{error}");
        threads.push((panic.block.x, panic.thread.x));
    }
    threads.dedup();
    assert!(threads.len() > 1, "{threads:?}");
}

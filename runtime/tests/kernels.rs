//! Loaded kernels on every device: what they tell of themselves, prepared launches, and launches that wait for their end.

use std::ops::Mul;

use warpsmith::prelude::*;
use warpsmith::{DeviceError, Error, GpuProfile, LaunchError, OccupancyBound, SharedCarveout};

mod common;
use common::{kernel_devices, text};

#[kernel]
fn scale<T: KernelValue + Mul<Output = T>>(factor: T, mut y: GridSliceMut<T>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = *y * factor;
    }
}

#[kernel(max_threads = 128)]
fn add_one(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y += 1;
    }
}

#[kernel(block = (8, 4))]
fn in_patches(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y += 2;
    }
}

#[kernel]
fn must_be_small(x: &[u32]) {
    let i = global_idx().get();
    if i < x.len() {
        assert!(x[i] < 10, "{} is not small", x[i]);
    }
}

#[kernel]
fn with_shared(mut y: GridSliceMut<u32>) {
    let mut slots = shared_array!([u32; 512]);
    slots.put(slot_idx().get() as u32);
    let slots = slots.sync();
    let neighbour = slots.at(slot_idx().get() ^ 1);
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = neighbour;
    }
}

#[test]
fn a_kernel_tells_what_it_takes() {
    for device in kernel_devices() {
        let kernel = add_one::load(&device).unwrap();
        assert_eq!(kernel.name(), "kernels::add_one", "{device}");
        assert_eq!(*kernel.device(), device);
        let attributes = kernel.attributes().unwrap();
        assert_eq!(attributes.max_threads_per_block, 128, "{device}");
        assert!(attributes.max_dynamic_shared_bytes > 48 << 10, "{device}: {attributes:?}");
        assert_eq!(attributes.registers.is_some(), device.is_gpu(), "{device}");
        if device.is_gpu() {
            assert!((1..=255).contains(&attributes.registers.unwrap()), "{attributes:?}");
            assert_eq!(attributes.binary_architecture, device.capability(), "{attributes:?}");
            assert!(attributes.ptx_architecture <= device.capability(), "{attributes:?}");
            let shared = with_shared::load(&device).unwrap().attributes().unwrap().shared_bytes;
            assert!(shared >= 2048, "{shared}");
        }
    }
}

#[test]
fn each_instance_of_a_generic_kernel_is_loaded() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let floats = scale::load::<f32>(&device).unwrap().prepare(LaunchConfig::for_len(10)).unwrap();
        let integers = scale::load::<u64>(&device).unwrap().prepare(LaunchConfig::for_len(10)).unwrap();
        let mut x = stream.filled(1.5f32, 10).unwrap();
        let mut y = stream.filled(7u64, 10).unwrap();
        scale::launch(&stream, &floats, 2.0, &mut x).unwrap();
        scale::launch(&stream, &integers, 3, &mut y).unwrap();
        // The other instance's launch does not fit.
        let message = text(scale::launch(&stream, &floats, 3, &mut y).unwrap_err());
        assert!(
            message.contains("was prepared for `kernels::scale`") && message.contains("f32"),
            "{device}: {message}"
        );
        assert_eq!((stream.to_host(&x).unwrap(), stream.to_host(&y).unwrap()), (vec![3.0; 10], vec![21; 10]));
    }
}

#[test]
fn a_prepared_launch_is_fired_again_with_other_arguments() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let kernel = add_one::load(&device).unwrap();
        let prepared = kernel.prepare(LaunchConfig::for_len_with_block(1000, 128)).unwrap();
        let mut buffers: Vec<_> = (0..4).map(|start| stream.filled(start, 1000).unwrap()).collect();
        for round in 0..40usize {
            // What each buffer gets depends on its place only, so that a wrong one shows.
            let at = (round * round) % 4;
            add_one::launch(&stream, &prepared, &mut buffers[at]).unwrap();
        }
        let expected = [20, 21, 2, 3];
        for (buffer, expected) in buffers.iter().zip(expected) {
            assert_eq!(stream.to_host(buffer).unwrap(), vec![expected; 1000], "{device}");
        }
        // By value, and on another stream of the device.
        let other = device.stream().unwrap();
        add_one::launch(&other, prepared.clone(), &mut buffers[0]).unwrap();
        assert_eq!(other.to_host(&buffers[0]).unwrap(), vec![21; 1000], "{device}");
        assert_eq!(prepared.config().block_dim().x, 128);
    }
}

#[test]
fn limits_are_checked_when_a_launch_is_prepared() {
    for device in kernel_devices() {
        let kernel = add_one::load(&device).unwrap();
        let refused = |config| kernel.prepare(config).unwrap_err();
        let error = refused(LaunchConfig::new(1, 129));
        assert!(
            matches!(error, Error::Launch(LaunchError::BlockTooLargeForKernel { requested: 129, limit: 128, .. })),
            "{device}: {error}"
        );
        let message = text(refused(LaunchConfig::new((1, 1, 65_536), 1)));
        assert!(message.contains("grid_dim.z = 65536") && message.contains("65535"), "{device}: {message}");
        let message = text(refused(LaunchConfig::new(1, 32).with_shared_bytes(1 << 20)));
        assert!(message.contains("1048576"), "{device}: {message}");
        let message = text(refused(LaunchConfig::new(0, 32)));
        assert!(message.contains("grid_dim.x = 0"), "{device}: {message}");
        assert!(kernel.prepare(LaunchConfig::for_len(0)).unwrap().config().is_empty(), "{device}");
    }
}

#[test]
fn a_launch_that_was_prepared_for_another_device_is_refused() {
    let prepared =
        add_one::load(&Device::cpu_as(GpuProfile::SM_75)).unwrap().prepare(LaunchConfig::new(1, 32)).unwrap();
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.zeroed::<u32>(10).unwrap();
        let error = add_one::launch(&stream, &prepared, &mut y).unwrap_err();
        assert!(matches!(error, Error::Launch(LaunchError::PreparedForOtherDevice { .. })), "{device}: {error}");
        assert_eq!(stream.to_host(&y).unwrap(), [0; 10], "{device}");
    }
}

#[test]
fn a_chosen_block_size_fits_and_covers_every_element() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        for len in [0usize, 1, 31, 33, 1000, 100_000] {
            let mut y = stream.zeroed::<u32>(len).unwrap();
            let config = add_one::load(&device).unwrap().config_for_len(len, 0).unwrap();
            assert!(config.block_dim().count() <= 128, "{device}: {config:?}");
            add_one::launch(&stream, config, &mut y).unwrap();
            // One that is compiled for one shape of blocks gets that.
            let config = in_patches::load(&device).unwrap().config_for_len(len, 0).unwrap();
            assert_eq!(config.block_dim(), Dim3::new(8, 4, 1));
            in_patches::launch(&stream, config, &mut y).unwrap();
            assert_eq!(stream.to_host(&y).unwrap(), vec![3; len], "{device}");
        }
    }
}

#[test]
fn occupancy_names_what_bounds_it() {
    for device in kernel_devices() {
        let kernel = with_shared::load(&device).unwrap();
        if device.is_cpu() {
            let error = kernel.occupancy(512, 0).unwrap_err();
            assert!(matches!(error, Error::Device(DeviceError::NeedsGpu { operation: "occupancy" })), "{error}");
            continue;
        }
        let full = kernel.occupancy(512, 0).unwrap();
        assert!(full.blocks_per_multiprocessor >= 1 && full.fraction() <= 1.0, "{full}");
        let half = device.limits().max_shared_bytes / 2;
        let bounded = kernel.occupancy((32, 16), half).unwrap();
        assert_eq!(bounded.bound, OccupancyBound::SharedMemory, "{bounded}");
        assert!(bounded.blocks_per_multiprocessor <= full.blocks_per_multiprocessor, "{bounded}, {full}");
    }
    // The executor that stands for a GPU knows what that has room for.
    let kernel = add_one::load(&Device::cpu_as(GpuProfile::SM_86)).unwrap();
    let occupancy = kernel.occupancy(32, 0).unwrap();
    assert_eq!((occupancy.blocks_per_multiprocessor, occupancy.bound), (16, OccupancyBound::Blocks));
    let occupancy = kernel.occupancy(128, 40 << 10).unwrap();
    assert_eq!((occupancy.blocks_per_multiprocessor, occupancy.bound), (2, OccupancyBound::SharedMemory));
    assert!(kernel.occupancy(129, 0).is_err());
}

#[test]
fn a_carveout_is_a_wish_that_changes_no_result() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let kernel = with_shared::load(&device).unwrap();
        for carveout in [SharedCarveout::MaxShared, SharedCarveout::Percent(50), SharedCarveout::Default] {
            kernel.set_shared_carveout(carveout).unwrap();
            let mut y = stream.zeroed::<u32>(512).unwrap();
            with_shared::launch(&stream, LaunchConfig::new(1, 512), &mut y).unwrap();
            let expected: Vec<u32> = (0..512).map(|i| i ^ 1).collect();
            assert_eq!(stream.to_host(&y).unwrap(), expected, "{device}");
            if device.is_gpu() {
                assert_eq!(kernel.attributes().unwrap().shared_carveout, Some(carveout), "{device}");
            }
        }
        assert!(kernel.set_shared_carveout(SharedCarveout::Percent(101)).is_err(), "{device}");
    }
}

#[test]
fn case_i5_a_failed_launch_is_an_error_now_or_at_the_next_synchronise() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let good = stream.to_device(&[1u32; 100]).unwrap();
        let bad = stream.to_device(&[1, 2, 30]).unwrap();
        // What is refused is refused now.
        assert!(must_be_small::launch(&stream, LaunchConfig::new(1, 1025), &bad).is_err(), "{device}");
        stream.synchronize().unwrap();
        // What fails later is told by the next synchronise, which names the kernel, and is told once.
        must_be_small::launch(&stream, LaunchConfig::for_len(3), &bad).unwrap();
        must_be_small::launch(&stream, LaunchConfig::for_len(100), &good).unwrap();
        let message = text(stream.synchronize().unwrap_err());
        assert!(
            message.contains("`kernels::must_be_small` panicked") && message.contains("30 is not small"),
            "{message}"
        );
        stream.synchronize().unwrap();
        // Where launches wait for their end, the launch itself tells it.
        device.set_launch_blocking(true);
        let late = must_be_small::launch(&stream, LaunchConfig::for_len(3), &bad);
        let fine = must_be_small::launch(&stream, LaunchConfig::for_len(100), &good);
        device.set_launch_blocking(false);
        let panic = late.unwrap_err();
        assert_eq!(panic.kernel_panic().unwrap().message, "30 is not small", "{device}");
        fine.unwrap();
        stream.synchronize().unwrap();
    }
}

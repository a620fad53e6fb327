//! One device used from several threads, and beside another library that has the same primary context.

mod common;

use common::kernel_devices;
use warpsmith::cudarc::driver::CudaContext;
use warpsmith::prelude::*;

#[kernel]
fn add(step: u32, mut x: GridSliceMut<u32>) {
    if let Some(x) = x.get_mut(&global_idx()) {
        *x = x.wrapping_add(step);
    }
}

/// Launches on a stream of its own, and on buffers that it makes and drops.
fn work(device: &Device, seed: u32) {
    let stream = device.stream().unwrap();
    for round in 0..50u32 {
        let len = 1 + (seed * 7919 + round * 104_729) % 5000;
        let mut x = stream.to_device(&vec![seed; len as usize]).unwrap();
        for _ in 0..3 {
            add::launch(&stream, LaunchConfig::for_len(x.len()), round, &mut x).unwrap();
        }
        assert_eq!(stream.to_host(&x).unwrap(), vec![seed + 3 * round; len as usize], "thread {seed}, round {round}");
    }
}

#[test]
fn case_i6_two_threads_use_one_device() {
    for device in kernel_devices() {
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let device = &device;
                scope.spawn(move || work(device, seed));
            }
        });
        // A handle of its own in each thread, opened there.
        let threads = [2, 3].map(|seed| {
            let ordinal = device.ordinal();
            std::thread::spawn(move || {
                let device = ordinal.map_or_else(Device::cpu, |ordinal| Device::gpu(ordinal).unwrap());
                work(&device, seed);
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn case_i6_the_primary_context_is_shared_with_another_library() {
    for device in kernel_devices().into_iter().filter(Device::is_gpu) {
        // cudarc is the other library: it retains the same primary context by its own calls.
        let context = CudaContext::new(device.ordinal().unwrap()).unwrap();
        assert!(Device::from_cudarc(&context).unwrap() == device);
        let theirs = context.new_stream().unwrap();
        let numbers: Vec<u32> = (0..10_000).collect();
        let kept = theirs.clone_htod(&numbers).unwrap();
        std::thread::scope(|scope| {
            let (context, numbers) = (&context, &numbers);
            scope.spawn(move || {
                let stream = context.new_stream().unwrap();
                for _ in 0..200 {
                    let copy = stream.clone_htod(numbers).unwrap();
                    assert_eq!(&stream.clone_dtoh(&copy).unwrap(), numbers);
                }
            });
            work(&device, 4);
            // On the other library's own stream, in order with its work.
            let shared = Stream::from_cudarc(&theirs).unwrap();
            let mut x = shared.to_device(numbers).unwrap();
            add::launch(&shared, LaunchConfig::for_len(x.len()), 1, &mut x).unwrap();
            let expected: Vec<u32> = numbers.iter().map(|number| number + 1).collect();
            assert_eq!(shared.to_host(&x).unwrap(), expected);
        });
        // Ours goes, theirs stays.
        drop(device);
        assert_eq!(theirs.clone_dtoh(&kept).unwrap(), numbers);
    }
}

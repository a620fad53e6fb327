//! Memory of cudarc with kernels on it, and buffers that become memory of cudarc.

mod common;

use std::sync::Arc;

use common::kernel_devices;
use warpsmith::Error;
use warpsmith::cudarc::driver::{CudaContext, CudaStream};
use warpsmith::exchange::ExchangeError;
use warpsmith::prelude::*;

#[kernel]
fn add(step: u32, mut x: GridSliceMut<u32>) {
    if let Some(x) = x.get_mut(&global_idx()) {
        *x = x.wrapping_add(step);
    }
}

#[kernel]
fn double(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()].wrapping_mul(2);
    }
}

const LEN: usize = 1 << 20;

/// The GPU, and a context and two streams that another library has on it.
fn gpus() -> Vec<(Device, [Arc<CudaStream>; 2])> {
    let gpus = kernel_devices().into_iter().filter(Device::is_gpu);
    let both = gpus.map(|device| {
        let context = CudaContext::new(device.ordinal().unwrap()).unwrap();
        assert!(Device::from_cudarc(&context).unwrap() == device);
        let streams = [context.new_stream().unwrap(), context.new_stream().unwrap()];
        (device, streams)
    });
    both.collect()
}

#[test]
fn a_slice_becomes_a_buffer_and_comes_back() {
    for (device, theirs) in gpus() {
        let ours = [device.stream().unwrap(), Stream::from_cudarc(&theirs[0]).unwrap()];
        let numbers: Vec<u32> = (0..LEN as u32).collect();
        for round in 0..20u32 {
            let home = &theirs[round as usize % 2];
            let slice = home.clone_htod(&numbers).unwrap();
            let mut x = DeviceBuffer::from_cudarc(&ours[0], slice).unwrap();
            add::launch(&ours[0], LaunchConfig::for_len(LEN), round, &mut x).unwrap();
            add::launch(&ours[1], LaunchConfig::for_len(LEN), 1, &mut x).unwrap();
            if round % 5 == 4 {
                // cudarc frees it, and may give the memory out again at once.
                drop(x);
                continue;
            }
            let slice = x.into_cudarc(&ours[round as usize / 2 % 2]).unwrap();
            let expected: Vec<u32> = numbers.iter().map(|x| x + round + 1).collect();
            assert_eq!(theirs[1].clone_dtoh(&slice).unwrap(), expected, "round {round}");
        }
        device.synchronize().unwrap();
    }
}

#[test]
fn slices_and_views_are_lent() {
    for (device, theirs) in gpus() {
        let ours = device.stream().unwrap();
        for round in 0..20u32 {
            let mut x = theirs[0].clone_htod(&vec![round; LEN]).unwrap();
            let mut y = theirs[1].alloc_zeros::<u32>(LEN).unwrap();
            ours.cudarc_scope(|scope| {
                let x = scope.read(x.slice(LEN / 2..))?;
                let mut y = scope.write(y.slice_mut(..LEN / 2))?;
                assert_eq!(x.len(), LEN / 2);
                double::launch(&ours, LaunchConfig::for_len(LEN / 2), x, &mut y)?;
                add::launch(&ours, LaunchConfig::for_len(LEN / 2), 1, &mut y)
            })
            .unwrap();
            // A write after the read, on a stream that has nothing to do with either.
            theirs[1].memset_zeros(&mut x).unwrap();
            let found = theirs[0].clone_dtoh(&y).unwrap();
            assert!(found[..LEN / 2].iter().all(|&y| y == 2 * round + 1), "round {round}");
            assert!(found[LEN / 2..].iter().all(|&y| y == 0), "round {round}");
        }
        device.synchronize().unwrap();
    }
}

#[test]
fn a_buffer_becomes_a_slice() {
    for (device, theirs) in gpus() {
        let stream = device.stream().unwrap();
        let mut x = stream.to_device(&vec![3u32; LEN]).unwrap();
        add::launch(&stream, LaunchConfig::for_len(LEN), 4, &mut x).unwrap();
        let slice = x.into_cudarc(&stream).unwrap();
        assert_eq!(stream.as_cudarc().unwrap().clone_dtoh(&slice).unwrap(), vec![7; LEN]);
        // On a stream of theirs the slice is theirs in all.
        let shared = Stream::from_cudarc(&theirs[0]).unwrap();
        let mut x = DeviceBuffer::from_cudarc(&shared, slice).unwrap();
        add::launch(&shared, LaunchConfig::for_len(LEN), 1, &mut x).unwrap();
        assert_eq!(theirs[0].clone_dtoh(&x.into_cudarc(&shared).unwrap()).unwrap(), vec![8; LEN]);
        device.synchronize().unwrap();
    }
}

#[test]
fn the_executor_has_nothing_of_cudarc() {
    let device = Device::cpu();
    let stream = device.stream().unwrap();
    assert!(device.as_cudarc().is_none() && stream.as_cudarc().is_none());
    let refused = stream.to_device(&[1u32, 2]).unwrap().into_cudarc(&stream).unwrap_err();
    assert!(matches!(refused.error, Error::Exchange(ExchangeError::NeedsGpu { .. })), "{}", refused.error);
    assert_eq!(stream.to_host(&refused.value).unwrap(), [1, 2], "the buffer came back");
    assert!(stream.cudarc_scope(|scope| Ok(scope.stream().device().is_cpu())).unwrap());
}

//! Devices of the machine: found, named, asked, and used by many threads at once.

use warpsmith::prelude::*;
use warpsmith::{ContextLimit, DeviceAttribute, DeviceError, DeviceInfo, DeviceUuid, Error};

mod common;
use common::{devices, gpu, kernel_devices, text};

#[kernel]
fn add(amount: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y += amount;
    }
}

#[test]
fn every_gpu_is_listed_and_opens_however_it_is_named() {
    let infos = DeviceInfo::all().unwrap();
    assert_eq!(infos.len(), Device::gpu_count());
    assert_eq!(infos.is_empty(), gpu().is_none());
    for (ordinal, info) in infos.iter().enumerate() {
        println!("{info}");
        assert_eq!(info.ordinal, ordinal);
        assert!(!info.name.is_empty() && info.total_memory_bytes > 1 << 28 && info.multiprocessors > 0, "{info:?}");
        assert!(info.clock_khz > 100_000 && info.l2_bytes > 1 << 18 && info.memory_bus_bits >= 32, "{info:?}");
        let opened = info.open().unwrap();
        assert_eq!(opened.info(), Some(info));
        assert_eq!(Device::with_uuid(info.uuid).unwrap(), opened);
        assert_eq!(info.uuid.to_string().parse(), Ok(info.uuid));
        // Parts of a divided GPU share their place.
        let there = infos.iter().filter(|other| other.pci_bus_id == info.pci_bus_id).count();
        assert!(there > 1 || Device::with_pci_bus_id(&info.pci_bus_id).unwrap() == opened, "{info:?}");
        let major = opened.attribute(DeviceAttribute::ComputeCapabilityMajor).unwrap();
        assert_eq!(u32::try_from(major), Ok(info.capability.major));
        let memory = opened.memory_info().unwrap();
        assert!(memory.free <= memory.total && memory.total <= info.total_memory_bytes, "{memory:?} {info:?}");
    }
    assert_eq!(Device::all().unwrap().len(), infos.len());
}

#[test]
fn a_gpu_that_is_not_there_is_an_error_with_those_that_are() {
    if gpu().is_none() {
        assert!(warpsmith::driver_version().is_err() || Device::gpu_count() == 0);
        return;
    }
    println!("CUDA {}", warpsmith::driver_version().unwrap());
    let count = Device::gpu_count();
    let error = Device::gpu(count).unwrap_err();
    assert!(
        matches!(error, Error::Device(DeviceError::NoSuchGpu { requested, count: told }) if requested == count && told == count)
    );
    let error = Device::with_uuid(DeviceUuid::from_bytes([0x5a; 16])).unwrap_err();
    assert!(matches!(&error, Error::Device(DeviceError::NoSuchUuid { known, .. }) if known.len() == count), "{error}");
    let error = Device::with_pci_bus_id("ffff:ff:1f.0").unwrap_err();
    assert!(matches!(&error, Error::Device(DeviceError::NoSuchPciBusId { .. })), "{error}");
}

#[test]
fn attributes_agree_with_limits() {
    for device in devices() {
        let limits = *device.limits();
        for (attribute, limit) in [
            (DeviceAttribute::WarpSize, limits.warp_size),
            (DeviceAttribute::MaxThreadsPerBlock, limits.max_threads_per_block),
            (DeviceAttribute::MaxGridDimY, limits.max_grid_dim.y),
            (DeviceAttribute::MultiprocessorCount, limits.multiprocessors),
        ] {
            assert_eq!(u32::try_from(device.attribute(attribute).unwrap()), Ok(limit), "{device}: {attribute:?}");
        }
        if device.is_cpu() {
            let error = device.attribute(DeviceAttribute::L2CacheSize).unwrap_err();
            assert!(matches!(error, Error::Device(DeviceError::NeedsGpu { .. })), "{error}");
        } else {
            // Each is answered by a number, or refused as one that the driver does not know.
            let known = DeviceAttribute::ALL.iter().filter(|&&attribute| device.attribute(attribute).is_ok()).count();
            assert!(known > 100, "{known}");
            assert!(text(device.attribute_by_number(1_000_000).unwrap_err()).contains("CUDA_ERROR_INVALID_VALUE"));
        }
    }
}

#[test]
fn limits_of_a_context_are_kept() {
    for device in devices() {
        let before = device.context_limit(ContextLimit::StackBytes).unwrap();
        device.set_context_limit(ContextLimit::StackBytes, before + 4096).unwrap();
        assert!(device.context_limit(ContextLimit::StackBytes).unwrap() >= before + 4096, "{device}");
        assert_eq!(device.stack_bytes().unwrap(), Some(device.context_limit(ContextLimit::StackBytes).unwrap()));
        device.set_context_limit(ContextLimit::StackBytes, before).unwrap();
        if device.is_gpu() {
            assert!(device.context_limit(ContextLimit::PrintfBytes).unwrap() > 0);
        }
    }
}

#[test]
fn case_i6_two_threads_on_one_device_and_another_library_on_its_context() {
    for device in kernel_devices() {
        // As another library would open it.
        let theirs = device.ordinal().map(|ordinal| warpsmith::cudarc::driver::CudaContext::new(ordinal).unwrap());
        if let (Some(theirs), Some(ours)) = (&theirs, device.as_cudarc()) {
            assert_eq!(theirs.cu_ctx(), ours.cu_ctx(), "{device}");
        }
        std::thread::scope(|scope| {
            for thread in 0..2u32 {
                let (device, theirs) = (&device, &theirs);
                scope.spawn(move || {
                    for round in 0..20 {
                        let stream = match theirs {
                            Some(theirs) if round % 2 == 1 => {
                                Stream::from_cudarc(&theirs.new_stream().unwrap()).unwrap()
                            }
                            _ => device.stream().unwrap(),
                        };
                        assert_eq!(stream.device(), device);
                        let mut memory = stream.filled(thread, 1000 + round).unwrap();
                        add::launch(&stream, LaunchConfig::for_len(memory.len()), 7, &mut memory).unwrap();
                        assert!(stream.to_host(&memory).unwrap().iter().all(|&x| x == thread + 7), "{device}");
                    }
                });
            }
        });
    }
}

#[test]
fn all_gpus_at_once_from_many_threads() {
    let gpus = if env!("CARGO_PKG_NAME") == "warpsmith" { Vec::new() } else { Device::all().unwrap() };
    let all: Vec<Device> = std::iter::once(Device::cpu()).chain(gpus).collect();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let all = &all;
            scope.spawn(move || {
                for round in 0..20usize {
                    let device = &all[(thread as usize + round) % all.len()];
                    let stream = device.stream().unwrap();
                    let mut memory = stream.filled(thread, 500).unwrap();
                    add::launch(&stream, LaunchConfig::for_len(500), 1, &mut memory).unwrap();
                    assert_eq!(stream.to_host(&memory).unwrap(), [thread + 1; 500], "{device}");
                }
            });
        }
    });
}

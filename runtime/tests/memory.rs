//! Buffers and slices on every device: copies of every size, parts, and what is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use warpsmith::prelude::*;
use warpsmith::{Error, MemoryError};

mod common;
use common::{devices, text};

#[derive(Clone, Copy, Debug, Default, PartialEq, KernelValue)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    kind: u8,
    charge: f64,
}

#[test]
fn handles_go_to_other_threads() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Device>();
    assert_shared::<Stream>();
    assert_shared::<Event>();
    assert_shared::<Error>();
    assert_shared::<DeviceBuffer<std::sync::atomic::AtomicU32>>();
    assert_shared::<DeviceSlice<'_, u8>>();
    assert_shared::<DeviceSliceMut<'_, u8>>();
}

#[test]
fn copies_of_every_size_and_type() {
    fn check<T: KernelValue + PartialEq + std::fmt::Debug>(stream: &Stream, make: impl Fn(usize) -> T) {
        for len in [0, 1, 2, 255, 256, 257, 4096, 70_001] {
            let host: Vec<T> = (0..len).map(&make).collect();
            let mut buffer = stream.to_device(&host).unwrap();
            assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
            assert_eq!(buffer.size_bytes(), len * size_of::<T>());
            assert_eq!(stream.to_host(&buffer).unwrap(), host);
            let changed: Vec<T> = (0..len).map(|at| make(at + 1)).collect();
            buffer.copy_from_host(stream, &changed).unwrap();
            let mut back: Vec<T> = (0..len).map(|_| make(0)).collect();
            buffer.copy_to_host(stream, &mut back).unwrap();
            assert_eq!(back, changed);
        }
    }
    for device in devices() {
        let stream = device.stream().unwrap();
        check(&stream, |at| at as u8);
        check(&stream, |at| at as u64);
        check(&stream, |at| at as f32 * 0.5);
        check(&stream, |at| at % 3 == 0);
        check(&stream, |at| char::from_u32(at as u32 % 1000).unwrap());
        check(&stream, |at| [at as u16; 3]);
        check(&stream, |at| (at as i8, at as i64));
        check(&stream, |at| (at % 2 == 0).then_some(at as u32));
        check(&stream, |_| ());
        check(&stream, |at| Particle { position: [at as f32; 3], kind: at as u8, charge: -(at as f64) });
    }
}

#[test]
fn zeroed_and_filled() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for len in [0, 1, 4095, 4096, 4097, 1_000_003] {
            assert!(stream.to_host(&stream.zeroed::<u32>(len).unwrap()).unwrap().iter().all(|&x| x == 0));
            let filled = stream.to_host(&stream.filled(0xabcd_1234u32, len).unwrap()).unwrap();
            assert!(filled.len() == len && filled.iter().all(|&x| x == 0xabcd_1234), "{device}, {len}");
        }
        let particle = Particle { charge: 2.0, ..Particle::default() };
        assert_eq!(stream.to_host(&stream.filled(particle, 1000).unwrap()).unwrap(), [particle; 1000]);
        let mut part = stream.zeroed::<u8>(100).unwrap();
        part.slice_mut(10..90).fill(&stream, 9).unwrap();
        let expected: Vec<u8> = (0..100).map(|at| if (10..90).contains(&at) { 9 } else { 0 }).collect();
        assert_eq!(stream.to_host(&part).unwrap(), expected, "{device}");
        part.fill(&stream, 1).unwrap();
        assert_eq!(stream.to_host(&part).unwrap(), [1; 100], "{device}");
    }
}

#[test]
fn parts_of_buffers() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let host: Vec<u16> = (0..100).collect();
        let mut buffer = stream.to_device(&host).unwrap();
        for range in [0..0, 0..100, 3..4, 50..100, 100..100] {
            assert_eq!(stream.to_host(buffer.slice(range.clone())).unwrap(), host[range]);
        }
        assert_eq!(stream.to_host(buffer.slice(10..).slice(5..=6)).unwrap(), host[15..=16]);
        assert!(buffer.as_slice().get(..101).is_none() && buffer.as_slice().get(100..).is_some());
        let (left, right) = buffer.as_slice().split_at(30);
        assert_eq!((left.len(), right.len()), (30, 70));
        assert_eq!(stream.to_host(right).unwrap(), host[30..]);

        let (mut left, mut right) = buffer.split_at_mut(60);
        right.copy_from_device(&stream, left.slice_mut(..40).as_slice()).unwrap();
        left.copy_from_host(&stream, &[9; 60]).unwrap();
        let expected: Vec<u16> = [9; 60].into_iter().chain(0..40).collect();
        assert_eq!(stream.to_host(&buffer).unwrap(), expected, "{device}");

        let mut copy = stream.zeroed::<u16>(100).unwrap();
        copy.copy_from_device(&stream, &buffer).unwrap();
        assert_eq!(stream.to_host(&copy).unwrap(), expected, "{device}");
    }
}

#[test]
#[should_panic(expected = "the range 5..11 is not inside a buffer of 10 elements")]
fn a_range_outside_panics_like_a_slice() {
    let stream = Device::cpu().stream().unwrap();
    let _ = stream.zeroed::<u8>(10).unwrap().slice(5..11);
}

#[test]
#[should_panic(expected = "split at 11 of a slice of 10 elements")]
fn a_split_outside_panics_like_a_slice() {
    let stream = Device::cpu().stream().unwrap();
    let _ = stream.zeroed::<u8>(10).unwrap().split_at_mut(11);
}

#[test]
fn a_range_outside_is_told_at_the_callers_line() {
    static FILES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (previous, this) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == this {
            FILES.lock().unwrap().extend(info.location().map(|place| place.file().to_owned()));
        }
        previous(info);
    }));
    let stream = Device::cpu().stream().unwrap();
    let mut buffer = stream.zeroed::<u8>(10).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| buffer.slice(5..11).len())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| buffer.slice_mut(..=10).len())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| buffer.split_at_mut(11).0.len())).is_err());
    assert_eq!(*FILES.lock().unwrap(), [file!(); 3]);
}

#[test]
fn ranges_that_end_before_they_start_are_outside() {
    let stream = Device::cpu().stream().unwrap();
    let buffer = stream.zeroed::<u8>(10).unwrap();
    #[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
    let reversed = buffer.as_slice().get(6..5);
    assert!(reversed.is_none() && buffer.as_slice().get(..=usize::MAX).is_none());
}

#[test]
fn lengths_must_agree() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut buffer = stream.zeroed::<u32>(10).unwrap();
        let message = text(buffer.copy_from_host(&stream, &[0; 11]).unwrap_err());
        assert!(message.contains("the source has 11 elements, the destination 10"), "{message}");
        assert!(buffer.copy_to_host(&stream, &mut [0; 9]).is_err());
        let other = stream.zeroed::<u32>(9).unwrap();
        assert!(buffer.copy_from_device(&stream, &other).is_err());
        assert!(buffer.slice_mut(1..).copy_from_device(&stream, &other).is_ok());
    }
}

#[test]
fn out_of_memory_says_how_much_was_asked_for_and_is_there() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let kept = stream.to_device(&[1u32, 2, 3]).unwrap();
        let error = stream.uninit::<u8>(1 << 50).unwrap_err();
        let Error::Memory(MemoryError::OutOfMemory { requested, free, total, .. }) = error else {
            panic!("{device}: {error}")
        };
        assert!(requested == 1 << 50 && free <= total && total > 0, "{device}: {free} of {total}");
        let error = stream.uninit::<u64>(usize::MAX / 4).unwrap_err();
        assert!(
            matches!(error, Error::Memory(MemoryError::SizeOverflow { element_bytes: 8, .. })),
            "{device}: {error}"
        );
        // What was there stays, and there is room for more.
        let more = stream.to_device(&[4u32]).unwrap();
        assert_eq!((stream.to_host(&kept).unwrap(), stream.to_host(&more).unwrap()), (vec![1, 2, 3], vec![4]));
    }
}

#[test]
fn buffers_of_one_device_are_refused_on_another() {
    let cpu = Device::cpu().stream().unwrap();
    for device in devices().iter().filter(|device| device.is_gpu()) {
        let gpu = device.stream().unwrap();
        let mut buffer = gpu.zeroed::<u8>(10).unwrap();
        let message = text(cpu.to_host(&buffer).unwrap_err());
        assert!(message.contains(&device.to_string()) && message.contains("CPU executor"), "{message}");
        assert!(buffer.copy_from_host(&cpu, &[0; 10]).is_err());
        assert!(buffer.copy_from_device(&gpu, &cpu.zeroed::<u8>(10).unwrap()).is_err());
    }
}

#[test]
fn what_things_are_can_be_printed() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut buffer = stream.zeroed::<f32>(12).unwrap();
        let printed = format!("{buffer:?} {:?} {stream:?} {device:?}", buffer.slice(3..5));
        for part in ["DeviceBuffer", "f32", "len: 12", "DeviceSlice", "start: 3", "len: 2", device.name()] {
            assert!(printed.contains(part), "{part} in {printed}");
        }
        assert!(format!("{:?}", buffer.plane_mut(3, 4).unwrap()).contains("Plane"));
    }
}

#[test]
fn a_device_knows_itself() {
    for device in devices() {
        assert_eq!(device.is_cpu(), device.capability().is_none());
        assert_eq!(device.is_gpu(), device.ordinal().is_some());
        assert_eq!(device.is_gpu(), device.as_cudarc().is_some());
        assert!(!device.name().is_empty());
        let (info, limits) = (device.memory_info().unwrap(), device.limits());
        assert!(info.total > 0 && info.free <= info.total, "{info:?}");
        assert!(limits.warp_size == 32 && limits.max_threads_per_block == 1024 && limits.multiprocessors > 0);
        assert!(limits.max_shared_bytes >= 48 << 10);
    }
    assert!(Device::cpu() == Device::cpu());
}

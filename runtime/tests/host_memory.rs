//! Memory that the host lends or shares, and copies of every form, on every device.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::thread;

use warpsmith::prelude::*;
use warpsmith::{Error, LaunchError, MemoryError, PinnedBuffer, StagingOptions};

mod common;
use common::{devices, kernel_devices};

/// Numbers that look drawn, from a seed that a failure prints.
struct Draws {
    state: u64,
    seed: u64,
}

impl Draws {
    fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |time| time.as_nanos());
        let given = std::env::var("WARPSMITH_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or(now as u64 | 1);
        Self { state: seed, seed }
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % end.max(1)
    }
}

impl Drop for Draws {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("WARPSMITH_TEST_SEED={}", self.seed);
        }
    }
}

#[kernel]
fn add(step: u32, mut x: GridSliceMut<u32>) {
    if let Some(x) = x.get_mut(&global_idx()) {
        *x += step;
    }
}

#[kernel]
fn total(x: &[u32], sum: &[AtomicU32]) {
    let i = global_idx().get();
    if i < x.len() {
        sum[0].fetch_add(x[i], std::sync::atomic::Ordering::Relaxed);
    }
}

#[kernel]
fn transpose(pitch: usize, x: &[u32], mut y: GridSliceMut<u32, Plane>) {
    let i = global_idx_2d();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.x() * pitch + i.y()];
    }
}

#[test]
fn handles_go_to_other_threads() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<PinnedBuffer<f32>>();
    assert_shared::<warpsmith::RegisteredBuffer<f32>>();
    assert_shared::<warpsmith::MappedBuffer<f32>>();
    assert_shared::<warpsmith::ManagedBuffer<f32>>();
    assert_shared::<warpsmith::PitchedBuffer<f32>>();
    assert_shared::<warpsmith::MemoryPool>();
    fn assert_sent<T: Send>() {}
    assert_sent::<warpsmith::Pending<PinnedBuffer<f32>>>();
    assert_sent::<warpsmith::StagingRing>();
}

#[test]
fn pinned_and_registered_buffers_there_and_back() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for len in [0usize, 1, 31, 4096, 300_000] {
            let numbers: Vec<u64> = (0..len as u64).map(|number| number * number).collect();
            let mut memory = stream.zeroed::<u64>(len).unwrap();
            let pinned = device.pinned_from(&numbers).unwrap();
            assert_eq!((pinned.len(), pinned.size_bytes()), (len, len * 8));
            let pinned = stream.copy_to_device(pinned, &mut memory).unwrap().wait().unwrap();
            assert_eq!(*pinned, *numbers);
            let registered = device.register(vec![0u64; len]).unwrap();
            let registered = stream.copy_to_host(&memory, registered).unwrap().wait().unwrap();
            assert_eq!(registered.into_vec(), numbers, "{device}, {len}");
        }
    }
}

#[test]
fn a_forgotten_or_dropped_copy_does_no_harm() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(1 << 20).unwrap();
        for round in 0..8u32 {
            let pinned = device.pinned_from(&vec![round; 1 << 20]).unwrap();
            let copy = stream.copy_to_device(pinned, &mut memory).unwrap();
            if round == 3 {
                // Its memory is never given back, and the copy reads it whole.
                mem::forget(copy);
            } else {
                drop(copy);
            }
            assert_eq!(stream.to_host(&memory).unwrap(), vec![round; 1 << 20], "{device}");
        }
        let room = device.pinned::<u32>(1 << 20).unwrap();
        mem::forget(stream.copy_to_host(&memory, room).unwrap());
        stream.synchronize().unwrap();
    }
}

#[test]
fn scopes_wait_for_borrowed_memory() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(100_000).unwrap();
        let input = device.pinned_from(&vec![5u32; 100_000]).unwrap();
        let (mut pinned, mut plain) = (device.pinned::<u32>(100_000).unwrap(), vec![0u32; 100_000]);
        stream
            .scope(|scope| {
                scope.copy_to_device(&input, &mut memory)?;
                add::launch(&stream, LaunchConfig::for_len(100_000), 2, &mut memory)?;
                scope.copy_to_host(&memory, &mut pinned)?;
                add::launch(&stream, LaunchConfig::for_len(100_000), 2, &mut memory)?;
                scope.copy_to_host(&memory, &mut plain)
            })
            .unwrap();
        assert!(pinned.iter().all(|&x| x == 7) && plain.iter().all(|&x| x == 9), "{device}");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            stream.scope(|scope| -> warpsmith::Result<()> {
                scope.copy_to_host(&memory, &mut plain)?;
                panic!("on purpose")
            })
        }));
        assert!(panicked.is_err());
        plain.fill(0);
        stream.synchronize().unwrap();
        assert!(plain.iter().all(|&x| x == 0), "{device}: the copy was over when the panic went on");
    }
}

#[test]
fn mapped_and_managed_memory_by_turns() {
    for device in kernel_devices() {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let mut mapped = stream.mapped::<u32>(1000).unwrap();
        let mut managed = stream.managed::<u32>(1000).unwrap();
        let config = LaunchConfig::for_len(1000);
        for round in 0..10u32 {
            mapped.as_host_mut().unwrap().fill(round);
            managed.as_host_mut().unwrap().fill(round * 2);
            add::launch(&stream, config, 1, &mut mapped).unwrap();
            add::launch(&other, config, 1, &mut managed).unwrap();
            add::launch(&other, config, 1, &mut mapped).unwrap();
            let mut sum = stream.zeroed::<u32>(1).unwrap();
            total::launch(&stream, config, &managed, &mut sum).unwrap();
            assert_eq!(stream.to_host(&sum).unwrap(), [(round * 2 + 1) * 1000], "{device}");
            assert_eq!(mapped.as_host().unwrap(), [round + 2; 1000], "{device}");
            assert_eq!(managed.as_host().unwrap(), [round * 2 + 1; 1000], "{device}");
            // Read by both at once.
            let on_host = managed.as_host().unwrap();
            total::launch(&stream, config, &managed, &mut sum).unwrap();
            assert_eq!(on_host[999], round * 2 + 1);
            mapped.as_slice_mut().fill(&other, 70).unwrap();
            managed.as_slice_mut().fill(&stream, 80).unwrap();
            assert_eq!((mapped.as_host().unwrap()[999], managed.as_host().unwrap()[0]), (70, 80), "{device}");
        }
        let empty = stream.managed::<u32>(0).unwrap();
        assert!(empty.is_empty() && empty.as_host().unwrap().is_empty());
        let info = device.memory_info().unwrap();
        let too_many = usize::try_from(info.total).unwrap() + 1;
        let refused = stream.managed::<u8>(too_many).map(drop).unwrap_err();
        assert!(
            matches!(refused, Error::Memory(MemoryError::OutOfMemory { requested, total, .. })
                if requested == too_many as u64 && total == info.total),
            "{refused}"
        );
    }
}

#[test]
fn rows_with_a_pitch() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        for (rows, columns) in [(1, 1), (3, 5), (64, 64), (33, 129), (1, 1000), (200, 1)] {
            let numbers: Vec<u32> = (0..rows as u32 * columns as u32).collect();
            let x = stream.to_device_pitched(&numbers, rows, columns).unwrap();
            let mut y = stream.pitched::<u32>(columns, rows).unwrap();
            let config = LaunchConfig::for_2d(rows, columns);
            transpose::launch(&stream, config, x.pitch(), x.as_flat(), y.plane_mut().unwrap()).unwrap();
            let expected: Vec<u32> =
                (0..columns).flat_map(|column| (0..rows).map(move |row| (row * columns + column) as u32)).collect();
            assert_eq!(y.to_host(&stream).unwrap(), expected, "{device}, {rows} x {columns}");
        }
    }
}

#[test]
fn random_copies_agree_with_the_host() {
    let mut draws = Draws::new();
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut ring = device.staging_ring(StagingOptions::new().piece_bytes(1000).pieces(3)).unwrap();
        const SIDE: usize = 40;
        let mut expected = vec![0u16; SIDE * SIDE];
        let mut memory = stream.pitched::<u16>(SIDE, SIDE).unwrap();
        let mut flat = stream.zeroed::<u16>(SIDE * SIDE).unwrap();
        for step in 0..300 {
            let (top, left) = (draws.below(SIDE + 1), draws.below(SIDE + 1));
            let (rows, columns) = (draws.below(SIDE - top + 1), draws.below(SIDE - left + 1));
            let value = draws.below(1 << 16) as u16;
            let mut part = memory.part_mut(top..top + rows, left..left + columns);
            match draws.below(4) {
                0 => part.copy_from_host(&stream, &vec![value; rows * columns]).unwrap(),
                1 => {
                    let stride = columns + draws.below(4);
                    let host = device.pinned_from(&vec![value; rows * stride]).unwrap();
                    stream.scope(|scope| scope.copy_rows_to_device(&host, stride, &mut part)).unwrap();
                }
                2 => {
                    flat.fill(&stream, value).unwrap();
                    let source = flat.as_slice().as_rows(rows, columns, SIDE).unwrap();
                    part.copy_from_device(&stream, &source).unwrap();
                }
                _ => {
                    ring.copy_to_device(&stream, &vec![value; SIDE * SIDE], &mut flat).unwrap();
                    let source = flat.as_slice().as_rows(rows, columns, SIDE).unwrap();
                    part.copy_from_device(&stream, &source).unwrap();
                }
            }
            for row in top..top + rows {
                expected[row * SIDE + left..row * SIDE + left + columns].fill(value);
            }
            let (top, left) = (draws.below(SIDE), draws.below(SIDE));
            let read = memory.part(top..SIDE, left..SIDE).to_host(&stream).unwrap();
            let wanted = (top..SIDE).flat_map(|row| &expected[row * SIDE + left..(row + 1) * SIDE]);
            assert!(read.iter().eq(wanted), "{device}, step {step}");
        }
        let mut back = vec![0u16; memory.as_flat().len()];
        ring.copy_to_host(&stream, memory.as_flat(), &mut back).unwrap();
        assert!(
            (0..SIDE).all(|row| back[row * memory.pitch()..][..SIDE] == expected[row * SIDE..][..SIDE]),
            "{device}"
        );
    }
}

#[test]
fn elements_become_those_of_another_type_where_bounds_allow() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut words = stream.to_device(&[0x0102_0304u32, 0x0506_0708, 0x090a_0b0c]).unwrap();
        let bytes: Vec<u8> =
            [0x0102_0304u32, 0x0506_0708, 0x090a_0b0c].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(stream.to_host(words.as_slice().cast::<u8>().unwrap()).unwrap(), bytes);
        assert_eq!(stream.to_host(words.slice(1..2).cast::<u16>().unwrap()).unwrap().len(), 2);
        let refused = words.slice(1..3).cast::<u64>().unwrap_err();
        assert!(matches!(refused, Error::Memory(MemoryError::Cast { start: 1, len: 2, to_bytes: 8, .. })), "{refused}");
        words.slice_mut(1..).into_cast::<u8>().unwrap().fill(&stream, 7).unwrap();
        assert_eq!(stream.to_host(&words).unwrap(), [0x0102_0304, 0x0707_0707, 0x0707_0707]);
        let (error, buffer) = words.into_cast::<[u32; 2]>().unwrap_err().into_parts();
        assert!(matches!(error, Error::Memory(MemoryError::Cast { start: 0, len: 3, .. })), "{error}");
        let triples = buffer.unwrap().into_cast::<[u32; 3]>().unwrap();
        assert_eq!(stream.to_host(&triples).unwrap(), [[0x0102_0304, 0x0707_0707, 0x0707_0707]]);
    }
}

#[test]
fn fills_of_every_kind_of_element() {
    fn check<T: KernelValue + PartialEq + std::fmt::Debug>(stream: &Stream, value: T, other: T) {
        for len in [1usize, 5, 1000, 5000] {
            let mut memory = stream.filled(value, len).unwrap();
            memory.slice_mut(len / 2..).fill(stream, other).unwrap();
            let back = stream.to_host(&memory).unwrap();
            assert!(back[..len / 2].iter().all(|x| *x == value) && back[len / 2..].iter().all(|x| *x == other));
        }
    }
    for device in devices() {
        let stream = device.stream().unwrap();
        check(&stream, 200u8, 3);
        check(&stream, -3i8, 5);
        check(&stream, true, false);
        check(&stream, 0xabcdu16, 1);
        check(&stream, -1i16, 2);
        check(&stream, u32::MAX - 1, 4);
        check(&stream, -7i32, 4);
        check(&stream, 1.25f32, -0.5);
        check(&stream, 'ü', 'a');
        check(&stream, 1u64 << 40, 2);
        check(&stream, (1u8, 2u16), (3, 4));
        check(&stream, [1u8, 2, 3], [4, 5, 6]);
    }
}

#[test]
fn copies_within_a_buffer_do_not_overlap() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.to_device(&[0u32, 1, 2, 3, 4, 5, 6, 7]).unwrap();
        memory.copy_within(&stream, 0..3, 5).unwrap();
        memory.copy_within(&stream, 6.., 0).unwrap();
        assert_eq!(stream.to_host(&memory).unwrap(), [1, 2, 2, 3, 4, 0, 1, 2], "{device}");
        let refused = memory.copy_within(&stream, 0..4, 3).unwrap_err();
        assert!(
            matches!(refused, Error::Memory(MemoryError::Overlap { source_start: 0, destination_start: 3, len: 4 })),
            "{refused}"
        );
        let refused = memory.copy_within(&stream, 0..4, 5).unwrap_err();
        assert!(matches!(refused, Error::Memory(MemoryError::Range { start: 5, end: 9, len: 8 })), "{refused}");
        memory.copy_within(&stream, 3..3, 3).unwrap();
    }
}

#[test]
fn host_slices_that_are_too_short_are_refused_and_nothing_is_lost() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.to_device(&[1u32, 2, 3, 4]).unwrap();
        let mut short = [9u32; 3];
        for refused in [
            memory.copy_to_host(&stream, &mut short).unwrap_err(),
            memory.copy_from_host(&stream, &[0; 3]).unwrap_err(),
            stream.scope(|scope| scope.copy_to_host(&memory, &mut short)).unwrap_err(),
        ] {
            assert!(matches!(refused, Error::Memory(MemoryError::LengthMismatch { .. })), "{refused}");
        }
        assert_eq!(short, [9; 3]);
        let refused = stream.copy_to_host(&memory, device.pinned_from(&short).unwrap()).unwrap_err();
        assert_eq!(*refused.into_buffer().unwrap(), [9; 3]);
        assert_eq!(stream.to_host(&memory).unwrap(), [1, 2, 3, 4]);
    }
}

#[test]
fn copies_between_devices_of_every_kind() {
    let devices = devices();
    for from in &devices {
        for to in &devices {
            let (one, other) = (from.stream().unwrap(), to.stream().unwrap());
            let source = one.to_device(&[1u32, 2, 3, 4]).unwrap();
            let mut copy = other.zeroed::<u32>(4).unwrap();
            other.copy_from_peer(source.slice(1..3), copy.slice_mut(2..)).unwrap();
            assert_eq!(other.to_host(&copy).unwrap(), [0, 0, 2, 3], "{from} to {to}");
            assert!(other.copy_from_peer(&source, copy.slice_mut(2..)).is_err());
        }
    }
}

#[test]
fn pools_have_limits_and_figures() {
    // A device of its own, since limits count what other tests do too.
    let device = Device::cpu_scheduled(warpsmith::Schedule::Reversed);
    let (stream, pool) = (device.stream().unwrap(), device.memory_pool());
    pool.set_limit(Some(1 << 20));
    assert_eq!(pool.limit(), Some(1 << 20));
    let first = stream.zeroed::<u8>(1 << 20).unwrap();
    let refused = stream.zeroed::<u8>(1).map(drop).unwrap_err();
    assert!(
        matches!(refused, Error::Memory(MemoryError::PoolLimit { requested: 1, limit: 1_048_576, .. })),
        "{refused}"
    );
    assert_eq!(stream.zeroed::<u8>(0).unwrap().len(), 0);
    // Only the device's own buffers count.
    drop((stream.mapped::<u8>(10).unwrap(), stream.managed::<u8>(10).unwrap(), device.pinned::<u8>(10).unwrap()));
    drop(first);
    pool.trim(0).unwrap();
    assert_eq!((pool.statistics().unwrap().used, pool.statistics().unwrap().used_high), (0, 1 << 20));
    pool.reset_high_water_marks().unwrap();
    assert_eq!(pool.statistics().unwrap().used_high, 0);
    if let Some(gpu) = common::gpu() {
        let (stream, pool) = (gpu.stream().unwrap(), gpu.memory_pool());
        let memory = stream.zeroed::<u8>(10 << 20).unwrap();
        let statistics = pool.statistics().unwrap();
        assert!(statistics.used >= 10 << 20 && statistics.reserved >= statistics.used, "{statistics:?}");
        drop(memory);
        stream.synchronize().unwrap();
        pool.trim(0).unwrap();
        assert!(pool.statistics().unwrap().reserved_high >= 10 << 20);
    }
}

#[test]
fn case_a6_allocations_past_4_gib_are_whole() {
    let len = (4usize << 30) + 1;
    for device in devices() {
        let free = device.memory_info().unwrap().free;
        if free < 2 * len as u64 {
            println!("skipped on {device}: {free} bytes are free");
            continue;
        }
        let stream = device.stream().unwrap();
        let mut memory = stream.uninit::<u8>(len).unwrap();
        assert_eq!((memory.len(), memory.size_bytes()), (len, len));
        for (at, value) in [(0, 1u8), (1, 2), (len - 1, 3), (len - 2, 4)] {
            let value = std::mem::MaybeUninit::new(value);
            memory.slice_mut(at..=at).copy_from_host(&stream, &[value]).unwrap();
        }
        for (at, value) in [(0, 1u8), (1, 2), (len - 1, 3), (len - 2, 4)] {
            let back = stream.to_host(memory.slice(at..=at)).unwrap();
            // SAFETY: written above.
            assert_eq!(unsafe { back[0].assume_init() }, value, "{device}, {at}");
        }
        drop(memory);
        if device.is_gpu() {
            let mut pinned = device.pinned::<u64>(len / 8 + 1).unwrap();
            assert_eq!(pinned.size_bytes(), (4usize << 30) + 8);
            pinned[len / 8] = 77;
            let memory = stream.to_device(&pinned[len / 8 - 1..]).unwrap();
            assert_eq!(stream.to_host(&memory).unwrap(), [0, 77]);
        }
    }
}

#[test]
fn case_i2_an_allocation_that_fails_leaves_all_else_as_it_was() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let memory = stream.to_device(&[1u32, 2, 3]).unwrap();
        let info = device.memory_info().unwrap();
        // As many bytes as there are in all, ten times, and more than a process has addresses for: hosts promise what they have not.
        let len = (usize::try_from(info.total).unwrap() * 10).max(1 << 47) / 4;
        let refused =
            [stream.uninit::<u32>(len).map(drop).unwrap_err(), stream.managed::<u32>(len).map(drop).unwrap_err()];
        for error in refused {
            let Error::Memory(MemoryError::OutOfMemory { requested, free, total, .. }) = error else {
                panic!("{device}: {error}")
            };
            assert!(requested == len as u64 * 4 && free <= total && total == info.total, "{device}");
        }
        assert_eq!(stream.to_host(&memory).unwrap(), [1, 2, 3]);
    }
}

#[test]
fn empty_memory_of_every_form() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(0).unwrap();
        let pinned = device.pinned::<u32>(0).unwrap();
        let pinned = stream.copy_to_device(pinned, &mut memory).unwrap().wait().unwrap();
        let registered = device.register(Vec::<u32>::new()).unwrap();
        assert!(stream.copy_to_host(&memory, registered).unwrap().wait().unwrap().into_vec().is_empty());
        stream.scope(|scope| scope.copy_to_device(&pinned, &mut memory)).unwrap();
        memory.fill(&stream, 7).unwrap();
        memory.copy_within(&stream, .., 0).unwrap();
        let mut other = stream.zeroed::<u32>(3).unwrap();
        other.slice_mut(3..).copy_from_device(&stream, &memory).unwrap();
        other.slice_mut(1..1).copy_from_host(&stream, &[]).unwrap();
        stream.copy_from_peer(&memory, other.slice_mut(..0)).unwrap();
        assert!(stream.to_host(other.slice(2..2)).unwrap().is_empty());
        assert!(other.slice(3..3).cast::<u64>().unwrap().is_empty());
        for (rows, columns) in [(0, 0), (0, 5), (5, 0)] {
            let mut pitched = stream.to_device_pitched::<u32>(&[], rows, columns).unwrap();
            assert!(pitched.to_host(&stream).unwrap().is_empty());
            assert_eq!((pitched.rows(), pitched.columns()), (rows, columns));
            pitched.part_mut(0..0, 0..0).copy_from_host(&stream, &[]).unwrap();
            assert!(pitched.plane_mut().is_ok());
        }
        let mut mapped = stream.mapped::<u32>(0).unwrap();
        assert!(mapped.as_host_mut().unwrap().is_empty());
        add::launch(&stream, LaunchConfig::for_len(0), 1, &mut mapped).unwrap();
        let mut ring = device.staging_ring(StagingOptions::new()).unwrap();
        ring.copy_to_device(&stream, &[], &mut memory).unwrap();
        ring.copy_to_host(&stream, &memory, &mut []).unwrap();
        // Elements without bytes.
        let units = stream.to_device(&[(); 5]).unwrap();
        assert_eq!(stream.to_host(&units).unwrap(), [(); 5]);
    }
}

#[test]
fn case_i3_the_stream_and_the_device_go_first() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.to_device(&vec![1u32; 100_000]).unwrap();
        let mut mapped = stream.mapped::<u32>(1000).unwrap();
        let managed = stream.managed::<u32>(1000).unwrap();
        add::launch(&stream, LaunchConfig::for_len(100_000), 1, &mut memory).unwrap();
        add::launch(&stream, LaunchConfig::for_len(1000), 4, &mut mapped).unwrap();
        let copy = stream.copy_to_host(&memory, device.pinned::<u32>(100_000).unwrap()).unwrap();
        drop((stream, device));
        let thread = thread::spawn(move || {
            drop(memory);
            assert_eq!((mapped.as_host().unwrap()[999], managed.as_host().unwrap()[0]), (4, 0));
            drop((mapped, managed));
            copy.wait().unwrap().iter().all(|&x| x == 2)
        });
        assert!(thread.join().unwrap());
    }
}

#[test]
fn buffers_of_other_devices_are_refused() {
    let (one, other) = (Device::cpu(), Device::cpu_scheduled(warpsmith::Schedule::Reversed));
    let mut mapped = one.stream().unwrap().mapped::<u32>(4).unwrap();
    let stream = other.stream().unwrap();
    let refused = add::launch(&stream, LaunchConfig::for_len(4), 1, &mut mapped).unwrap_err();
    assert!(matches!(refused, Error::Launch(LaunchError::OtherDevice { .. })), "{refused}");
    let refused = stream.copy_to_host(&mapped, one.pinned::<u32>(4).unwrap()).unwrap_err();
    assert!(matches!(refused.error(), Error::Memory(MemoryError::OtherDevice { .. })), "{refused}");
}

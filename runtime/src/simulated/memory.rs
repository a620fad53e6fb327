//! Memory against the simulated driver: what the host shares or lends, the pool, and what is refused.

use super::*;
use crate::{PoolStatistics, StagingOptions};

/// Gives a stream work that holds until `hold(false)`.
fn busy(stream: &Stream) -> DeviceBuffer<u32> {
    let mut memory = stream.zeroed::<u32>(1).unwrap();
    hold(true);
    launch(stream, &COUNT, &mut memory).unwrap();
    memory
}

simulated_test!(a_pinned_buffer_is_kept_until_its_copy_is_over, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(100).unwrap();
    let pinned = device.pinned_from(&[7u32; 100]).unwrap();
    let held = busy(&stream);
    let copy = stream.copy_to_device(pinned, &mut memory).unwrap();
    assert!(!copy.is_done().unwrap(), "the stream is held");
    assert_eq!(calls(c"free host"), 0);
    hold(false);
    // Dropped before it was over: that waits, and only then is the memory freed.
    drop(copy);
    assert_eq!(calls(c"free host"), 1);
    assert_eq!(stream.to_host(&memory).unwrap(), [7; 100]);
    assert_eq!(calls(c"late access to host memory"), 0);
    drop(held);
});

simulated_test!(a_forgotten_copy_leaks_its_buffer_and_reads_it_whole, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(100).unwrap();
    let held = busy(&stream);
    std::mem::forget(stream.copy_to_device(device.pinned_from(&[7u32; 100]).unwrap(), &mut memory).unwrap());
    let registered = device.register(vec![9u32; 100]).unwrap();
    let mut other = stream.zeroed::<u32>(100).unwrap();
    std::mem::forget(stream.copy_to_device(registered, &mut other).unwrap());
    hold(false);
    assert_eq!(stream.to_host(&memory).unwrap(), [7; 100]);
    assert_eq!(stream.to_host(&other).unwrap(), [9; 100]);
    assert_eq!((calls(c"free host"), calls(c"unregister host"), calls(c"late access to host memory")), (0, 0, 0));
    drop(held);
});

simulated_test!(copies_to_pinned_memory_come_back_with_what_was_there, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let mut memory = a.to_device(&[1u32; 50]).unwrap();
    launch(&a, &COUNT, &mut memory).unwrap();
    // On another stream, after the work of the first.
    let copy = b.copy_to_host(memory.slice(10..20), device.pinned::<u32>(10).unwrap()).unwrap();
    assert_eq!(*copy.wait().unwrap(), [2; 10]);
    let registered = device.register(vec![0u32; 50]).unwrap();
    assert_eq!(b.copy_to_host(&memory, registered).unwrap().wait().unwrap().into_vec(), [2; 50]);
    assert_eq!((calls(c"register host"), calls(c"unregister host")), (1, 1));
    // A panic of the kernel that wrote what was copied comes with the buffer.
    launch(&a, &PANIC, &mut memory).unwrap();
    let copy = b.copy_to_host(&memory, device.pinned::<u32>(50).unwrap()).unwrap();
    let (error, buffer) = copy.wait().unwrap_err().into_parts();
    assert!(error.kernel_panic().is_some() && buffer.is_some_and(|buffer| buffer.len() == 50));
});

simulated_test!(what_a_copy_refuses_comes_back, "gpus=2", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let pinned = device.pinned_from(&[1u32, 2, 3]).unwrap();
    let (error, buffer) = stream.copy_to_device(pinned, &mut memory).unwrap_err().into_parts();
    assert!(matches!(error, Error::Memory(MemoryError::LengthMismatch { source_len: 3, destination_len: 10 })));
    let pinned = buffer.unwrap();
    let other = Device::gpu(1).unwrap().stream().unwrap();
    let refused = other.copy_to_device(pinned, memory.slice_mut(..3)).unwrap_err();
    assert!(matches!(refused.error(), Error::Memory(MemoryError::OtherDevice { .. })), "{refused}");
    let pinned = refused.into_buffer().unwrap();
    capturing(&stream, true);
    let refused = stream.copy_to_device(pinned, memory.slice_mut(..3)).unwrap_err();
    assert!(matches!(refused.error(), Error::Memory(MemoryError::Capturing { .. })), "{refused}");
    let mut room = [0u32; 3];
    let in_scope = stream.scope(|scope| scope.copy_to_host(memory.slice(..3), &mut room)).unwrap_err();
    assert!(matches!(in_scope, Error::Memory(MemoryError::Capturing { .. })), "{in_scope}");
    capturing(&stream, false);
    let copy = stream.copy_to_device(refused.into_buffer().unwrap(), memory.slice_mut(..3)).unwrap();
    assert_eq!(*copy.wait().unwrap(), [1, 2, 3]);
    assert_eq!(stream.to_host(&memory).unwrap()[..4], [1, 2, 3, 0]);
});

simulated_test!(a_scope_waits_for_its_copies_also_when_it_fails_or_panics, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    let (input, mut output) = (device.pinned_from(&[1u32, 2, 3, 4]).unwrap(), [0u32; 4]);
    stream
        .scope(|scope| {
            scope.copy_to_device(&input, &mut memory)?;
            launch(scope.stream(), &COUNT, &mut memory)?;
            scope.copy_to_host(&memory, &mut output)
        })
        .unwrap();
    assert_eq!(output, [2, 3, 4, 5]);
    let failed = stream.scope(|scope| {
        scope.copy_to_host(&memory, &mut output)?;
        launch(&stream, &BROKEN, &mut memory)
    });
    assert!(matches!(failed, Err(Error::Module(_))));
    launch(&stream, &COUNT, &mut memory).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut inner = device.pinned::<u32>(4).unwrap();
        let ran: Result<()> = stream.scope(|scope| {
            scope.copy_to_host(&memory, &mut inner)?;
            panic!("on purpose")
        });
        drop(inner);
        ran
    }));
    assert!(panicked.is_err());
    // Of two failures the body's comes back, and the other later.
    let mut lost = stream.zeroed::<u32>(4).unwrap();
    launch(&stream, &PANIC, &mut lost).unwrap();
    let failed: Result<()> = stream.scope(|scope| {
        scope.copy_to_host(&lost, &mut output)?;
        Err(Error::Memory(MemoryError::Range { start: 1, end: 2, len: 0 }))
    });
    assert!(matches!(failed, Err(Error::Memory(MemoryError::Range { .. }))));
    assert!(device.synchronize().unwrap_err().kernel_panic().is_some());
    // The memory was freed after the copy, or the copy would have gone to memory that is no more.
    assert_eq!(stream.to_host(&memory).unwrap(), [3, 4, 5, 6]);
    assert_eq!(calls(c"late access to host memory"), 0);
    launch(&stream, &PANIC, &mut memory).unwrap();
    assert!(stream.scope(|scope| scope.copy_to_host(&memory, &mut output)).unwrap_err().kernel_panic().is_some());
});

simulated_test!(a_plain_copy_of_pinned_memory_reads_it_before_it_returns, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut pinned = device.pinned_from(&[5u32; 64]).unwrap();
    let memory = stream.to_device(&pinned).unwrap();
    pinned.fill(6);
    assert_eq!(stream.to_host(&memory).unwrap(), [5; 64]);
});

simulated_test!(the_host_waits_for_work_on_mapped_and_managed_memory, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let mut mapped = a.mapped::<u32>(300).unwrap();
    let mut managed = a.managed::<u32>(300).unwrap();
    for round in 1..5 {
        for stream in [&a, &b] {
            let mut launched = Launch::new(stream, LaunchConfig::for_len(300), &instance(&COUNT)).unwrap();
            let raw = launched.bind::<Param, _>(&mut mapped).unwrap();
            launched.run(&|each| Param::arguments(&raw, each), &|_, _, _| unreachable!("a GPU")).unwrap();
            let mut launched = Launch::new(stream, LaunchConfig::for_len(300), &instance(&COUNT)).unwrap();
            let raw = launched.bind::<Param, _>(&mut managed).unwrap();
            launched.run(&|each| Param::arguments(&raw, each), &|_, _, _| unreachable!("a GPU")).unwrap();
        }
        // By turns the first that waits, which does the other's work too.
        if round % 2 == 0 {
            assert_eq!(mapped.as_host().unwrap(), [2 * round; 300]);
        }
        assert_eq!(managed.as_host().unwrap(), [3 * round - 1; 300]);
        managed.as_host_mut().unwrap().fill(3 * round);
        assert_eq!(mapped.as_host().unwrap(), [2 * round; 300]);
    }
    assert_eq!(b.to_host(&managed).unwrap(), [12; 300]);
    // As slices of the device, which the host waits for too.
    mapped.as_slice_mut().fill(&a, 20).unwrap();
    assert_eq!(mapped.as_host().unwrap(), [20; 300]);
    managed.as_slice_mut().fill(&b, 30).unwrap();
    assert_eq!(managed.as_host().unwrap(), [30; 300]);
    assert_eq!(calls(c"allocate managed"), 1);
});

simulated_test!(managed_memory_is_never_more_than_is_free, "memory=10000", {
    let stream = device().stream().unwrap();
    let first = stream.managed::<u8>(6000).unwrap();
    let (error, text) = message(stream.managed::<u8>(4001));
    assert!(
        matches!(error, Error::Memory(MemoryError::OutOfMemory { requested: 4001, free: 4000, total: 10_000, .. })),
        "{text}"
    );
    assert_eq!(calls(c"allocate managed"), 1, "the driver, which would take more than is free, was not asked");
    drop(first);
    assert_eq!(allocated(), 0);
    assert_eq!(stream.managed::<u8>(10_000).unwrap().as_host().unwrap(), [0; 10_000]);
});

simulated_test!(managed_memory_is_refused_where_the_host_may_not_touch_it, "concurrent=0", {
    let (error, text) = message(device().stream().unwrap().managed::<u8>(1));
    assert!(matches!(error, Error::Memory(MemoryError::Unsupported { what: "managed memory", .. })), "{text}");
});

simulated_test!(page_locked_memory_has_an_end_and_loses_nothing, "pinned=400000", {
    let device = device();
    let (error, text) = message(device.pinned::<u64>(60_000));
    assert!(matches!(error, Error::Memory(MemoryError::OutOfMemory { requested: 480_000, .. })), "{text}");
    assert!(text.contains("page-locked memory") && text.contains("480000 bytes were asked for"), "{text}");
    let (error, buffer) = device.register(vec![3u64; 60_000]).unwrap_err().into_parts();
    assert!(matches!(error, Error::Memory(MemoryError::OutOfMemory { requested: 480_000, .. })), "{error}");
    assert_eq!(buffer.unwrap(), vec![3u64; 60_000]);
    let (error, text) = message(device.stream().unwrap().mapped::<u64>(60_000));
    assert!(matches!(error, Error::Memory(MemoryError::OutOfMemory { requested: 480_000, .. })), "{text}");
});

simulated_test!(the_pool_has_a_limit_and_figures, "", {
    let device = device();
    let (stream, pool) = (device.stream().unwrap(), device.memory_pool());
    assert_eq!(pool.limit(), None);
    pool.set_limit(Some(10_000));
    let first = stream.zeroed::<u8>(6000).unwrap();
    let (error, text) = message(stream.zeroed::<u8>(4001));
    assert!(
        matches!(error, Error::Memory(MemoryError::PoolLimit { requested: 4001, used: 6000, limit: 10_000, .. })),
        "{text}"
    );
    let second = stream.zeroed::<u8>(4000).unwrap();
    let full = PoolStatistics { reserved: 10_000, reserved_high: 10_000, used: 10_000, used_high: 10_000 };
    assert_eq!(pool.statistics().unwrap(), full);
    drop(first);
    stream.synchronize().unwrap();
    assert_eq!(pool.statistics().unwrap(), PoolStatistics { used: 4000, ..full });
    pool.trim(5000).unwrap();
    assert_eq!(pool.statistics().unwrap().reserved, 5000);
    pool.reset_high_water_marks().unwrap();
    let marks = PoolStatistics { reserved: 5000, reserved_high: 5000, used: 4000, used_high: 4000 };
    assert_eq!(pool.statistics().unwrap(), marks);
    let third = stream.zeroed::<u8>(6000).unwrap();
    drop((second, third));
    pool.set_limit(None);
    drop(stream.zeroed::<u8>(20_000).unwrap());
});

simulated_test!(a_refused_allocation_is_not_counted, "memory=5000", {
    let device = device();
    let (stream, pool) = (device.stream().unwrap(), device.memory_pool());
    pool.set_limit(Some(8000));
    for _ in 0..10 {
        let (error, text) = message(stream.zeroed::<u8>(6000));
        assert!(
            matches!(error, Error::Memory(MemoryError::OutOfMemory { requested: 6000, free: 5000, total: 5000, .. })),
            "{text}"
        );
    }
    drop(stream.zeroed::<u8>(5000).unwrap());
});

simulated_test!(without_pools_the_figures_are_what_buffers_ask_for, "pools=0", {
    let device = device();
    let (stream, pool) = (device.stream().unwrap(), device.memory_pool());
    let memory = stream.zeroed::<u32>(100).unwrap();
    let statistics = pool.statistics().unwrap();
    assert_eq!((statistics.used, statistics.reserved), (400, 400));
    drop(memory);
    pool.trim(0).unwrap();
    let statistics = pool.statistics().unwrap();
    assert_eq!((statistics.used, statistics.used_high), (0, 400));
});

simulated_test!(case_i1_a_pooled_block_is_not_reused_on_another_stream_before_its_event, "reuse=1", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    for round in 0..20u32 {
        let source = a.to_device(&[round; 256]).unwrap();
        let mut copy = b.zeroed::<u32>(256).unwrap();
        // Both streams use the block; it is freed while the copy waits.
        let held = busy(&b);
        copy.copy_from_device(&b, &source).unwrap();
        drop(source);
        // The pool may give the block out again, and that buffer's bytes are written on either stream.
        let next = if round % 2 == 0 { a.to_device(&[99u32; 256]) } else { b.to_device(&[99u32; 256]) }.unwrap();
        hold(false);
        a.synchronize().unwrap();
        assert_eq!(b.to_host(&copy).unwrap(), [round; 256], "round {round}");
        assert_eq!(a.to_host(&next).unwrap(), [99; 256], "round {round}");
        drop(held);
    }
    assert!(calls(c"reuse") >= 20, "{}", calls(c"reuse"));
});

simulated_test!(case_i2_out_of_memory_inside_an_operation_leaves_the_inputs_intact, "memory=100000", {
    let device = device();
    let stream = device.stream().unwrap();
    let host: Vec<u32> = (0..10_000).collect();
    let mut input = stream.to_device(&host).unwrap();
    launch(&stream, &COUNT, &mut input).unwrap();
    let pinned = device.pinned_from(&host).unwrap();
    let attempts: [&dyn Fn() -> Result<DeviceBuffer<u32>>; 4] = [
        &|| stream.to_device(&vec![0u32; 16_000]),
        &|| stream.zeroed(16_000),
        &|| stream.filled(5, 16_000),
        // SAFETY: never reached: there is no room.
        &|| stream.uninit::<u32>(16_000).map(|memory| unsafe { memory.assume_init() }),
    ];
    for attempt in attempts {
        let (error, text) = message(attempt());
        assert!(
            matches!(
                error,
                Error::Memory(MemoryError::OutOfMemory { requested: 64_000, free: 60_000, total: 100_000, .. })
            ),
            "{text}"
        );
    }
    let expected: Vec<u32> = (1..=10_000).collect();
    assert_eq!(stream.to_host(&input).unwrap(), expected);
    assert_eq!(*pinned, host);
    // What was asked for is there once there is room.
    drop(input);
    assert_eq!(stream.to_host(&stream.filled(5u32, 16_000).unwrap()).unwrap(), [5; 16_000]);
});

simulated_test!(case_i3_streams_and_devices_are_dropped_before_memory_of_every_kind, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.to_device(&[1u32; 1000]).unwrap();
    let (mapped, managed) = (stream.mapped::<u32>(1000).unwrap(), stream.managed::<u32>(1000).unwrap());
    let (pinned, registered) = (device.pinned::<u32>(1000).unwrap(), device.register(vec![3u32; 1000]).unwrap());
    launch(&stream, &COUNT, &mut memory).unwrap();
    let pending = stream.copy_to_host(&memory, pinned).unwrap();
    drop((stream, device));
    let thread = std::thread::spawn(move || {
        let copied = pending.wait().unwrap();
        assert_eq!(*copied, [2; 1000]);
        assert_eq!((mapped.as_host().unwrap()[999], managed.as_host().unwrap()[999]), (0, 0));
        let other = memory.device().stream().unwrap();
        let back = other.to_host(&memory).unwrap();
        drop((memory, copied, mapped, managed));
        other.synchronize().unwrap();
        (back, registered.into_vec())
    });
    assert_eq!(thread.join().unwrap(), (vec![2; 1000], vec![3; 1000]));
    assert_eq!(allocated(), 0);
    assert_eq!(calls(c"release"), 1, "the primary context is given back once nothing uses it");
});

simulated_test!(a_lost_context_is_named_by_waits_and_gives_the_buffer_back, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let memory = stream.zeroed::<u32>(10).unwrap();
    let address = memory.cuda_address().unwrap();
    // SAFETY: the simulated driver notices the later use.
    unsafe { control::<unsafe extern "C" fn(u64) -> u32>(c"cuMemFree_v2")(address) };
    let copy = stream.copy_to_host(&memory, device.pinned::<u32>(10).unwrap());
    let failed = copy.unwrap().wait().unwrap_err();
    assert!(failed.to_string().contains("the GPU's context was lost"), "{failed}");
    assert_eq!(failed.into_buffer().map(|buffer| buffer.len()), Some(10));
    // Dropped instead of waited for, the error is kept.
    let copy = stream.copy_to_host(&memory, device.register(vec![0u32; 10]).unwrap());
    assert!(copy.is_err_and(|failed| failed.into_buffer().is_some()), "nothing more starts");
});

simulated_test!(blocks_are_whole_words_as_atomics_on_their_last_byte_read_all_of_it, "", {
    let device = device();
    let stream = device.stream().unwrap();
    for bytes in [1, 3, 4, 37, 40] {
        let before = allocated();
        let memory = stream.zeroed::<u8>(bytes).unwrap();
        let own = allocated() - before;
        assert_eq!((own, memory.size_bytes()), (bytes.next_multiple_of(4) as u64, bytes));
        let managed = stream.managed::<u8>(bytes).unwrap();
        assert_eq!((allocated() - before - own, managed.len()), (own, bytes));
    }
});

simulated_test!(case_a6_sizes_past_32_bits_count_in_bytes, "memory=20000000000", {
    let device = device();
    let stream = device.stream().unwrap();
    let bytes = (4usize << 30) + 1;
    let memory = stream.uninit::<u8>(bytes).unwrap();
    assert_eq!((memory.size_bytes(), memory.len()), (bytes, bytes));
    for len in [usize::MAX, usize::MAX / 4, isize::MAX as usize / 4 + 1] {
        for error in [
            stream.uninit::<u32>(len).map(drop).unwrap_err(),
            device.pinned::<u32>(len).map(drop).unwrap_err(),
            stream.mapped::<u32>(len).map(drop).unwrap_err(),
            stream.managed::<u32>(len).map(drop).unwrap_err(),
        ] {
            assert!(
                matches!(error, Error::Memory(MemoryError::SizeOverflow { element_bytes: 4, .. })),
                "{len}: {error}"
            );
        }
    }
    let (error, text) = message(stream.uninit::<u64>(2 << 30));
    assert!(matches!(error, Error::Memory(MemoryError::OutOfMemory { requested: 17_179_869_184, .. })), "{text}");
});

simulated_test!(staged_copies_of_every_size_go_through_the_ring, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut ring = device.staging_ring(StagingOptions::new().piece_bytes(64).pieces(3)).unwrap();
    assert_eq!(calls(c"allocate host"), 1 + 3, "one is the stream's record of panics");
    for len in [0usize, 1, 15, 16, 17, 48, 49, 1000, 4096] {
        let numbers: Vec<u32> = (0..len as u32).map(|number| number * 7 + 1).collect();
        let mut memory = stream.zeroed::<u32>(len).unwrap();
        let mut lent = numbers.clone();
        ring.copy_to_device(&stream, &lent, &mut memory).unwrap();
        // It has been read, whether it has arrived or not.
        lent.fill(0);
        launch(&stream, &COUNT, &mut memory).unwrap();
        let mut back = vec![0u32; len];
        ring.copy_to_host(&stream, &memory, &mut back).unwrap();
        assert!(back.iter().zip(&numbers).all(|(back, number)| *back == number + 1), "{len}");
    }
    let mut memory = stream.zeroed::<u32>(100).unwrap();
    let (error, text) = message(ring.copy_to_device(&stream, &[1; 99], &mut memory));
    assert!(matches!(error, Error::Memory(MemoryError::LengthMismatch { .. })), "{text}");
    let (error, text) = message(ring.copy_to_device(&Device::cpu().stream().unwrap(), &[1; 100], &mut memory));
    assert!(matches!(error, Error::Device(DeviceError::OtherDevice { what: "staging ring", .. })), "{text}");
    // A panic of the kernel that wrote what is copied is reported.
    launch(&stream, &PANIC, &mut memory).unwrap();
    assert!(ring.copy_to_host(&stream, &memory, &mut [0; 100]).unwrap_err().kernel_panic().is_some());
    // Dropped while pieces are under way: they are waited for.
    let held = busy(&stream);
    ring.copy_to_device(&stream, &[8; 20], memory.slice_mut(..20)).unwrap();
    hold(false);
    drop(ring);
    assert_eq!(stream.to_host(memory.slice(..20)).unwrap(), [8; 20]);
    assert_eq!((calls(c"free host"), calls(c"late access to host memory")), (3, 0));
    drop(held);
});

simulated_test!(rows_are_copied_both_ways_and_on_the_device, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let numbers: Vec<u32> = (0..7 * 5).collect();
    let mut pitched = stream.to_device_pitched(&numbers, 7, 5).unwrap();
    assert_eq!((pitched.rows(), pitched.columns(), pitched.pitch(), pitched.pitch_bytes()), (7, 5, 64, 256));
    assert_eq!(pitched.to_host(&stream).unwrap(), numbers);
    assert_eq!(stream.to_host(pitched.row(3)).unwrap(), [15, 16, 17, 18, 19]);
    let flat = stream.to_host(pitched.as_flat()).unwrap();
    assert!(flat.len() == 7 * 64 && flat[5..64].iter().all(|&gap| gap == 0) && flat[64] == 5);
    let mut other = stream.pitched::<u32>(3, 4).unwrap();
    other.part_mut(1..3, 0..2).copy_from_device(&stream, &pitched.part(5..7, 3..5)).unwrap();
    assert_eq!(other.to_host(&stream).unwrap(), [0, 0, 0, 0, 28, 29, 0, 0, 33, 34, 0, 0]);
    // Rows of the host with a stride, within a scope too.
    let mut picture = [9u32; 20];
    pitched.part(0..3, 0..2).copy_to_host_strided(&stream, &mut picture, 6).unwrap();
    assert_eq!(picture[..14], [0, 1, 9, 9, 9, 9, 5, 6, 9, 9, 9, 9, 10, 11]);
    let (input, mut output) = (device.pinned_from(&[1u32, 2, 3, 4, 5]).unwrap(), device.pinned::<u32>(6).unwrap());
    stream
        .scope(|scope| {
            scope.copy_rows_to_device(&input, 3, &mut pitched.part_mut(0..2, 0..2))?;
            scope.copy_rows_to_host(&pitched.part(0..2, 0..3), &mut output, 3)
        })
        .unwrap();
    assert_eq!(*output, [1, 2, 2, 4, 5, 7]);
    assert_eq!(calls(c"late access to host memory"), 0);
    assert!(calls(c"copy rows") >= 6);
    let (error, text) = message(pitched.part(0..3, 0..2).copy_to_host_strided(&stream, &mut picture[..13], 6));
    assert!(matches!(error, Error::Memory(MemoryError::HostPlaneTooShort { needed: 14, len: 13, .. })), "{text}");
    let (error, text) = message(pitched.part(0..3, 0..2).copy_to_host_strided(&stream, &mut picture, 1));
    assert!(matches!(error, Error::Memory(MemoryError::StrideTooSmall { stride: 1, extent: 2, .. })), "{text}");
    let (error, text) = message(other.as_rows_mut().copy_from_device(&stream, &pitched.as_rows()));
    assert!(matches!(error, Error::Memory(MemoryError::ShapeMismatch { source_rows: 7, .. })), "{text}");
});

simulated_test!(fills_of_small_values_are_one_operation, "", {
    let stream = device().stream().unwrap();
    let before = calls(c"set");
    let words = stream.filled(-1.5f32, 1000).unwrap();
    let mut halves = stream.filled(0x1234u16, 1000).unwrap();
    halves.slice_mut(3..7).fill(&stream, 9).unwrap();
    assert_eq!(calls(c"set") - before, 3);
    assert_eq!(stream.to_host(&words).unwrap(), [-1.5; 1000]);
    assert_eq!(stream.to_host(&halves).unwrap()[..9], [0x1234, 0x1234, 0x1234, 9, 9, 9, 9, 0x1234, 0x1234]);
});

simulated_test!(copies_between_gpus_are_in_order_on_both, "gpus=2", {
    let (one, two) = (device(), Device::gpu(1).unwrap());
    assert!(one.can_access_peer(&two).unwrap() && !one.can_access_peer(&one).unwrap());
    two.enable_peer_access(&one).unwrap();
    two.enable_peer_access(&one).unwrap();
    assert_eq!((calls(c"peer access of 1 to 0"), calls(c"pool access of 1, 1: 3")), (1, 2));
    assert_eq!(calls(c"peer access once more"), 0, "which would be an error of the driver");
    let (a, b, c) = (one.stream().unwrap(), two.stream().unwrap(), one.stream().unwrap());
    let mut source = a.to_device(&[1u32; 100]).unwrap();
    let mut copy = b.zeroed::<u32>(100).unwrap();
    for round in 0..10 {
        launch(&a, &COUNT, &mut source).unwrap();
        b.copy_from_peer(&source, &mut copy).unwrap();
        // A later write on the source's device, on any stream, comes after the copy.
        launch(if round % 2 == 0 { &a } else { &c }, &COUNT, &mut source).unwrap();
        one.synchronize().unwrap();
        assert_eq!(b.to_host(&copy).unwrap(), [2 * round + 2; 100], "round {round}");
    }
    // Freed on its own device, after the copy.
    b.copy_from_peer(source.slice(10..30), copy.slice_mut(..20)).unwrap();
    drop(source);
    assert_eq!(b.to_host(copy.slice(..21)).unwrap()[18..], [21, 21, 20]);
    let wrong = stream_error(&a, &copy);
    assert!(matches!(wrong, Error::Memory(MemoryError::OtherDevice { .. })), "{wrong}");
    // Between the executor and a GPU, through the host.
    let cpu = Device::cpu().stream().unwrap();
    let mut on_cpu = cpu.zeroed::<u32>(100).unwrap();
    cpu.copy_from_peer(&copy, &mut on_cpu).unwrap();
    assert_eq!(cpu.to_host(&on_cpu).unwrap()[99], 20);
    on_cpu.fill(&cpu, 3).unwrap();
    b.copy_from_peer(&on_cpu, &mut copy).unwrap();
    assert_eq!(b.to_host(&copy).unwrap(), [3; 100]);
    assert!(Device::cpu().enable_peer_access(&one).is_err());
});

/// The error of a copy to a buffer of another device.
fn stream_error(stream: &Stream, of_other: &DeviceBuffer<u32>) -> Error {
    let source = stream.zeroed::<u32>(1).unwrap();
    let mut destination = of_other.device().stream().unwrap().zeroed::<u32>(1).unwrap();
    stream.copy_from_peer(&source, &mut destination).unwrap_err()
}

simulated_test!(peers_that_do_not_reach_each_other_copy_all_the_same, "gpus=2,peer=0", {
    let (one, two) = (device(), Device::gpu(1).unwrap());
    assert!(!one.can_access_peer(&two).unwrap());
    let (error, text) = message(one.enable_peer_access(&two));
    assert!(matches!(error, Error::Memory(MemoryError::Unsupported { .. })), "{text}");
    let (a, b) = (one.stream().unwrap(), two.stream().unwrap());
    let mut copy = b.zeroed::<u32>(3).unwrap();
    b.copy_from_peer(&a.to_device(&[1u32, 2, 3]).unwrap(), &mut copy).unwrap();
    assert_eq!(b.to_host(&copy).unwrap(), [1, 2, 3]);
    assert_eq!(calls(c"peer copy"), 1);
});

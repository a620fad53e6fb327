//! Streams and events on every device: order across streams, threads, panics, and drops in any order.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use warpsmith::prelude::*;
use warpsmith::{DeviceError, Error, EventOptions, StreamError, StreamOptions};

mod common;
use common::{kernel_devices, text};

#[kernel]
fn add(amount: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y += amount;
    }
}

#[kernel]
fn add_slowly(rounds: u32, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    for _ in 0..rounds {
        if let Some(y) = y.get_mut(&i) {
            *y = y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
    }
}

/// Where `lookup` panics when an element of `y` is past the table.
const LOOKUP_LINE: u32 = line!() + 4;
#[kernel]
fn lookup(table: &[u32], mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = table[*y as usize];
    }
}

#[kernel]
fn expect_even(x: &[u32]) {
    let i = global_idx().get();
    if i < x.len() {
        assert!(x[i].is_multiple_of(2), "element {i} is odd");
    }
}

#[kernel]
fn increment(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What `add_slowly` leaves of a 0.
fn slow_result(rounds: u32) -> u32 {
    (0..rounds).fold(0u32, |y, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

#[test]
fn a_buffer_used_on_many_streams_keeps_its_order() {
    for device in kernel_devices() {
        let streams: Vec<Stream> = (0..5).map(|_| device.stream().unwrap()).collect();
        let mut memory = streams[0].zeroed::<u32>(1000).unwrap();
        let rounds = if device.is_cpu() { 100 } else { 100_000 };
        add_slowly::launch(&streams[1], LaunchConfig::for_len(1000), rounds, &mut memory).unwrap();
        for round in 0..20 {
            add::launch(&streams[(3 * round) % 5], LaunchConfig::for_len(1000), 1, &mut memory).unwrap();
        }
        let mut copy = streams[2].zeroed::<u32>(1000).unwrap();
        copy.copy_from_device(&streams[2], &memory).unwrap();
        add::launch(&streams[4], LaunchConfig::for_len(1000), 1, &mut memory).unwrap();
        let expected = slow_result(rounds).wrapping_add(20);
        assert_eq!(streams[0].to_host(&copy).unwrap(), vec![expected; 1000], "{device}");
        assert_eq!(streams[3].to_host(&memory).unwrap(), vec![expected.wrapping_add(1); 1000], "{device}");
    }
}

#[test]
fn atomics_shared_by_streams_and_threads() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let counter = stream.zeroed::<AtomicU32>(1).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = device.stream().unwrap();
                    for _ in 0..25 {
                        increment::launch(&stream, LaunchConfig::new(4, 32), &counter).unwrap();
                        let seen = stream.to_host(&counter).unwrap()[0].load(Ordering::Relaxed);
                        assert!(seen.is_multiple_of(32) || device.is_gpu(), "{device}: {seen}");
                    }
                    stream.synchronize().unwrap();
                });
            }
        });
        assert_eq!(stream.to_host(&counter.into_plain()).unwrap(), [4 * 25 * 128], "{device}");
    }
}

#[test]
fn case_i3_streams_and_devices_may_go_before_their_buffers() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(100).unwrap();
        add::launch(&stream, LaunchConfig::for_len(100), 3, &mut memory).unwrap();
        drop((stream, device));
        let result = std::thread::spawn(move || memory.device().stream().unwrap().to_host(&memory).unwrap());
        assert_eq!(result.join().unwrap(), [3; 100]);
    }
}

#[test]
fn memory_in_use_is_not_given_to_others() {
    for device in kernel_devices() {
        let (busy, other) = (device.stream().unwrap(), device.stream().unwrap());
        let rounds = if device.is_cpu() { 10 } else { 200_000 };
        let mut results = Vec::new();
        for _ in 0..10 {
            let mut memory = busy.zeroed::<u32>(1 << 16).unwrap();
            add_slowly::launch(&busy, LaunchConfig::for_len(1 << 16), rounds, &mut memory).unwrap();
            let mut copy = busy.zeroed::<u32>(1 << 16).unwrap();
            copy.copy_from_device(&busy, &memory).unwrap();
            drop(memory);
            // What is allocated now must not be what the kernel still writes.
            let fresh = other.filled(7u32, 1 << 16).unwrap();
            results.push((copy, fresh));
        }
        let expected = slow_result(rounds);
        for (copy, fresh) in results {
            assert!(other.to_host(&fresh).unwrap().iter().all(|&x| x == 7), "{device}");
            assert!(busy.to_host(&copy).unwrap().iter().all(|&x| x == expected), "{device}");
        }
    }
}

#[test]
fn a_panic_is_reported_by_the_next_wait_and_the_stream_goes_on() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let table = stream.to_device(&[1u32, 2, 3]).unwrap();
        let mut y = stream.to_device(&[0u32, 1, 2, 9, 0]).unwrap();
        // The launch itself is fine: what the kernel does wrong shows later.
        lookup::launch(&stream, LaunchConfig::new(5, 1), &table, &mut y).unwrap();
        let error = stream.synchronize().unwrap_err();
        let panic = error.kernel_panic().unwrap_or_else(|| panic!("{device}: {error}"));
        assert_eq!(panic.message, "index out of bounds: the len is 3 but the index is 9", "{device}");
        assert!(panic.file.ends_with("streams.rs") && panic.line == LOOKUP_LINE, "{device}: {panic}");
        assert_eq!((panic.block, panic.thread), (Dim3::new(3, 0, 0), Dim3::new(0, 0, 0)), "{device}");
        assert_eq!(panic.kernel, "streams::lookup", "{device}");
        let message = text(error);
        assert!(
            message.contains("kernel `streams::lookup` panicked at ")
                && message.contains(&format!("streams.rs:{LOOKUP_LINE}:")),
            "{message}"
        );
        // Reported once; stream and context work on.
        stream.synchronize().unwrap();
        add::launch(&stream, LaunchConfig::for_len(3), 1, y.slice_mut(..3)).unwrap();
        assert_eq!(stream.to_host(y.slice(..3)).unwrap(), [2, 3, 4], "{device}");
    }
}

#[test]
fn the_first_panic_of_a_stream_is_the_one_reported() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let (first, second) = (stream.to_device(&[0u32, 3]).unwrap(), stream.to_device(&[1u32, 3]).unwrap());
        expect_even::launch(&stream, LaunchConfig::for_len(2), &first).unwrap();
        expect_even::launch(&stream, LaunchConfig::for_len(2), &second).unwrap();
        let message = text(stream.to_host(&first).unwrap_err());
        assert!(message.contains("element 1 is odd"), "{device}: {message}");
        assert_eq!(stream.to_host(&first).unwrap(), [0, 3], "{device}");
    }
}

#[test]
fn panics_of_streams_stay_apart_and_follow_the_data() {
    for device in kernel_devices() {
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let table = a.to_device(&[0u32]).unwrap();
        let mut y = a.to_device(&[1u32]).unwrap();
        lookup::launch(&a, LaunchConfig::for_len(1), &table, &mut y).unwrap();
        b.synchronize().unwrap();
        // The result of a kernel that panicked is not passed off as one, on whichever stream it is asked for.
        assert!(b.to_host(&y).unwrap_err().kernel_panic().is_some(), "{device}");
        a.synchronize().unwrap();
    }
}

#[test]
fn time_outs_and_queries() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(10).unwrap();
        add::launch(&stream, LaunchConfig::for_len(10), 1, &mut memory).unwrap();
        stream.synchronize_timeout(Duration::from_secs(60)).unwrap();
        assert!(stream.is_done().unwrap(), "{device}");
        let table = stream.zeroed::<u32>(1).unwrap();
        lookup::launch(&stream, LaunchConfig::for_len(10), &table, &mut memory).unwrap();
        let error = stream.synchronize_timeout(Duration::from_secs(60)).unwrap_err();
        assert!(error.kernel_panic().is_some(), "{device}: {error}");
    }
}

#[test]
fn events_measure_and_order() {
    for device in kernel_devices() {
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let mut memory = a.zeroed::<u32>(1 << 16).unwrap();
        let start = a.record().unwrap();
        add_slowly::launch(&a, LaunchConfig::for_len(1 << 16), 100, &mut memory).unwrap();
        let end = a.record().unwrap();
        b.wait(&end).unwrap();
        b.synchronize().unwrap();
        assert!(end.is_done().unwrap(), "{device}");
        assert!(start.elapsed(&end).unwrap() > Duration::ZERO, "{device}");
        let never = Event::new(&device).unwrap();
        never.synchronize().unwrap();
        assert!(matches!(start.elapsed(&never), Err(Error::Device(DeviceError::EventNotRecorded))), "{device}");
        never.record(&b).unwrap();
        assert!(end.elapsed(&never).is_ok(), "{device}");
    }
}

#[test]
fn many_threads_on_one_device() {
    for device in kernel_devices() {
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let device = &device;
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    for round in 0..10 {
                        let mut memory = stream.filled(thread, 300 + round).unwrap();
                        add::launch(&stream, LaunchConfig::for_len(memory.len()), 5, &mut memory).unwrap();
                        assert!(stream.to_host(&memory).unwrap().iter().all(|&x| x == thread + 5));
                    }
                });
            }
        });
    }
}

#[test]
fn streams_of_every_priority_run_their_work() {
    for device in kernel_devices() {
        let range = device.stream_priorities().unwrap();
        assert!(range.contains(&0) && range.start() <= range.end(), "{device}: {range:?}");
        for priority in range.clone() {
            let stream = device.stream_with(StreamOptions::new().priority(priority)).unwrap();
            assert_eq!(stream.priority().unwrap(), priority, "{device}");
            let mut memory = stream.zeroed::<u32>(100).unwrap();
            add::launch(&stream, LaunchConfig::for_len(100), 2, &mut memory).unwrap();
            assert_eq!(stream.to_host(&memory).unwrap(), [2; 100], "{device}");
        }
        let error = device.stream_with(StreamOptions::new().priority(range.end() + 1)).unwrap_err();
        assert!(matches!(error, Error::Stream(StreamError::PriorityOutOfRange { .. })), "{device}: {error}");
    }
}

#[test]
fn the_default_stream_works_with_others() {
    for device in kernel_devices() {
        let (stream, default) = (device.stream().unwrap(), device.default_stream().unwrap());
        let mut memory = stream.zeroed::<u32>(1000).unwrap();
        for _ in 0..10 {
            add::launch(&stream, LaunchConfig::for_len(1000), 1, &mut memory).unwrap();
            add::launch(&default, LaunchConfig::for_len(1000), 1, &mut memory).unwrap();
        }
        assert_eq!(default.to_host(&memory).unwrap(), [20; 1000], "{device}");
        if let Some(context) = device.as_cudarc() {
            let error = Stream::from_cudarc(&context.per_thread_stream()).unwrap_err();
            assert!(matches!(error, Error::Stream(StreamError::PerThreadStream)), "{error}");
        }
    }
}

#[test]
fn events_without_timing_order_and_do_not_measure() {
    for device in kernel_devices() {
        let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
        let mut memory = a.zeroed::<u32>(1 << 16).unwrap();
        let event = Event::with_options(&device, EventOptions::new().without_timing().blocking()).unwrap();
        add_slowly::launch(&a, LaunchConfig::for_len(1 << 16), 100, &mut memory).unwrap();
        event.record(&a).unwrap();
        b.wait(&event).unwrap();
        b.synchronize().unwrap();
        assert!(event.is_done().unwrap(), "{device}");
        event.synchronize().unwrap();
        let error = event.elapsed(&a.record().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Device(DeviceError::EventWithoutTiming)), "{device}: {error}");
    }
}

#[test]
fn case_i5_a_failed_launch_is_an_error_now_or_at_the_next_wait() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let table = stream.zeroed::<u32>(1).unwrap();
        let mut y = stream.to_device(&[5u32]).unwrap();
        // Refused before it starts: now.
        assert!(lookup::launch(&stream, LaunchConfig::new(1, 4096), &table, &mut y).is_err(), "{device}");
        stream.synchronize().unwrap();
        // Wrong while it runs: at the next wait, once.
        lookup::launch(&stream, LaunchConfig::for_len(1), &table, &mut y).unwrap();
        assert!(stream.synchronize().unwrap_err().kernel_panic().is_some(), "{device}");
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_launch_that_waits_reports_its_own_panic() {
    // A device of its own: others keep their launches as they are.
    let device = Device::cpu_scheduled(warpsmith::Schedule::Ascending);
    device.set_launch_blocking(true);
    let stream = device.stream().unwrap();
    let table = stream.zeroed::<u32>(1).unwrap();
    let mut y = stream.to_device(&[5u32]).unwrap();
    assert!(lookup::launch(&stream, LaunchConfig::for_len(1), &table, &mut y).unwrap_err().kernel_panic().is_some());
    add::launch(&stream, LaunchConfig::for_len(1), 1, &mut y).unwrap();
    stream.synchronize().unwrap();
}

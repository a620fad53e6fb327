//! Futures of streams and events, and host tasks, on every device.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use warpsmith::prelude::*;
use warpsmith::{DeviceError, DriverError, Error, StreamError};

mod common;
use common::kernel_devices;

#[kernel]
fn add_slowly(rounds: u32, mut y: GridSliceMut<u32>) {
    let i = global_idx();
    for _ in 0..rounds {
        if let Some(y) = y.get_mut(&i) {
            *y = y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
    }
}

#[kernel]
fn expect_even(x: &[u32]) {
    let i = global_idx().get();
    if i < x.len() {
        assert!(x[i].is_multiple_of(2), "element {i} is odd");
    }
}

/// What `add_slowly` leaves of a 0.
fn slow_result(rounds: u32) -> u32 {
    (0..rounds).fold(0u32, |y, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

fn rounds(device: &Device) -> u32 {
    if device.is_cpu() { 10 } else { 200_000 }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn a_future_is_ready_when_the_streams_work_is_done() {
    for device in kernel_devices() {
        let (stream, rounds) = (device.stream().unwrap(), rounds(&device));
        runtime().block_on(async {
            let mut memory = stream.zeroed::<u32>(1000).unwrap();
            add_slowly::launch(&stream, LaunchConfig::for_len(1000), rounds, &mut memory).unwrap();
            let event = stream.record().unwrap();
            let (first, second) = tokio::join!(stream.completed(), event.completed());
            first.unwrap();
            second.unwrap();
            assert!(stream.is_done().unwrap() && event.is_done().unwrap(), "{device}");
            assert_eq!(stream.to_host(&memory).unwrap(), vec![slow_result(rounds); 1000], "{device}");
        });
    }
}

#[test]
fn a_kernels_panic_comes_out_of_the_future() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let odd = stream.to_device(&[0u32, 3]).unwrap();
        runtime().block_on(async {
            expect_even::launch(&stream, LaunchConfig::for_len(2), &odd).unwrap();
            let error = stream.completed().await.unwrap_err();
            assert_eq!(error.kernel_panic().map(|panic| panic.message.as_str()), Some("element 1 is odd"), "{device}");
            stream.completed().await.unwrap();
        });
    }
}

#[test]
fn dropped_futures_and_time_outs_leave_the_work_alone() {
    for device in kernel_devices() {
        let (stream, rounds) = (device.stream().unwrap(), rounds(&device));
        let mut memory = stream.zeroed::<u32>(1000).unwrap();
        runtime().block_on(async {
            for _ in 0..5 {
                add_slowly::launch(&stream, LaunchConfig::for_len(1000), rounds, &mut memory).unwrap();
                drop(stream.completed());
                let _ = tokio::time::timeout(Duration::from_micros(10), stream.completed()).await;
                tokio::select! {
                    biased;
                    () = std::future::ready(()) => {}
                    outcome = stream.completed() => outcome.unwrap(),
                }
            }
            stream.completed().await.unwrap();
        });
        assert_eq!(stream.to_host(&memory).unwrap(), vec![slow_result(5 * rounds); 1000], "{device}");
    }
}

#[test]
fn thousands_of_futures_on_several_threads() {
    for device in kernel_devices() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let (done, rounds) = (Arc::new(AtomicUsize::new(0)), rounds(&device) / 10);
        runtime.block_on(async {
            let mut waits = Vec::new();
            for _ in 0..4 {
                let stream = device.stream().unwrap();
                let mut memory = stream.zeroed::<u32>(64).unwrap();
                for at in 0..500 {
                    if at % 50 == 0 {
                        add_slowly::launch(&stream, LaunchConfig::for_len(64), rounds, &mut memory).unwrap();
                    }
                    let (completed, event, done) = (stream.completed(), stream.record().unwrap(), Arc::clone(&done));
                    waits.push(tokio::spawn(async move {
                        completed.await.unwrap();
                        event.completed().await.unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }));
                }
            }
            for wait in waits {
                wait.await.unwrap();
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 2000, "{device}");
    }
}

#[test]
fn host_tasks_run_in_the_streams_order() {
    for device in kernel_devices() {
        let (stream, other, rounds) = (device.stream().unwrap(), device.stream().unwrap(), rounds(&device));
        let mut memory = stream.zeroed::<u32>(1000).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..10 {
            add_slowly::launch(&stream, LaunchConfig::for_len(1000), rounds, &mut memory).unwrap();
            let (order, mark) = (Arc::clone(&order), stream.record().unwrap());
            // Whether the work before was done cannot be asked inside: that would be a call of the driver.
            stream.host_task(move || order.lock().unwrap().push((number, drop(mark)))).unwrap();
        }
        let event = stream.record().unwrap();
        other.wait(&event).unwrap();
        other.synchronize().unwrap();
        let numbers: Vec<i32> = order.lock().unwrap().iter().map(|(number, ())| *number).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>(), "{device}");
        stream.synchronize().unwrap();
    }
}

#[test]
fn a_host_task_may_own_the_last_handles_and_must_not_use_them() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let passing = device.stream().unwrap();
        let memory = passing.filled(3u32, 1 << 16).unwrap();
        let (sender, receiver) = channel();
        stream
            .host_task(move || {
                let outcome = passing.to_host(&memory).map(drop);
                let owned = (passing, memory);
                sender.send(outcome).unwrap();
                drop(owned);
            })
            .unwrap();
        stream.synchronize().unwrap();
        let error = receiver.recv().unwrap().unwrap_err();
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<DriverError>());
        let refused = cause.is_some_and(DriverError::is_from_host_task);
        assert!(refused || matches!(error, Error::Device(DeviceError::InHostTask)), "{device}: {error:?}");
        assert_eq!(stream.to_host(&stream.filled(1u8, 3).unwrap()).unwrap(), [1; 3], "{device}");
    }
}

#[test]
fn a_panic_of_a_host_task_is_reported_once() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        stream.host_task(|| panic!("a test's own panic")).unwrap();
        let error = stream.synchronize().unwrap_err();
        assert!(
            matches!(&error, Error::Stream(StreamError::HostTaskPanicked { message }) if message == "a test's own panic"),
            "{device}: {error}"
        );
        stream.synchronize().unwrap();
        stream.host_task(|| panic!("of a stream that is gone")).unwrap();
        let mark = stream.record().unwrap();
        drop(stream);
        mark.synchronize().unwrap();
        // Another test may use the same device and hear of it first; then it is none that is lost.
        if let Err(error) = device.synchronize() {
            assert!(error.to_string().contains("of a stream that is gone"), "{device}: {error}");
        }
    }
}

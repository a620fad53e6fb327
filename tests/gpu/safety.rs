//! Attempts to break the safe API while a program runs; those that must not compile are tests of the macro crate.

use warpsmith::prelude::*;
use warpsmith_tests::{cpu, devices, gpu};

/// Keeps its witness for the next thread on this core, and tries the one that it finds.
///
/// The device build has no thread-local to keep one in (it would be refused), so that only the executor can be tried.
#[kernel]
fn stash(mut output: GridSliceMut<u32>) {
    let own = global_idx();
    #[cfg(not(warpsmith_device))]
    {
        use std::cell::RefCell;
        thread_local! {
            static STASH: RefCell<Option<GlobalIdx>> = const { RefCell::new(None) };
        }
        if let Some(stale) = STASH.take()
            && let Some(output) = output.get_mut(&stale)
        {
            *output = 1;
        }
        STASH.set(Some(own));
    }
    #[cfg(warpsmith_device)]
    if let Some(output) = output.get_mut(&own) {
        *output = 1;
    }
}

#[test]
fn a_stashed_witness_is_reported() {
    let stream = cpu().stream().expect("a device gives streams");
    let mut output = stream.zeroed::<u32>(64).expect("a small copy works");
    let error = stash::launch(&stream, LaunchConfig::new(1, 64), &mut output)
        .and_then(|()| stream.synchronize())
        .expect_err("the second thread finds the first one's witness");
    let panic = error.kernel_panic().unwrap_or_else(|| panic!("not a panic: {error}"));
    assert!(panic.message.contains("index witness"), "{}", panic.message);
    assert!(stream.to_host(&output).expect("the stream goes on").iter().all(|element| *element == 0));
}

/// A type that the two builds see differently.
#[derive(Clone, Copy, KernelValue)]
struct Differs {
    a: u32,
    #[cfg(warpsmith_device)]
    _only_there: u64,
    b: u16,
}

/// Takes it by value.
#[kernel]
fn takes_differing(value: Differs, mut output: GridSliceMut<u32>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value.a + u32::from(value.b);
    }
}

#[test]
fn a_layout_that_differs_is_refused() {
    if let Some(device) = gpu() {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u32>(1).expect("a small copy works");
        #[cfg(not(warpsmith_device))]
        let value = Differs { a: 1, b: 2 };
        #[cfg(warpsmith_device)]
        let value = Differs { a: 1, _only_there: 0, b: 2 };
        let error = takes_differing::launch(&stream, LaunchConfig::for_len(1), value, &mut output)
            .expect_err("the host's layout is not the one the kernel was compiled with");
        let text = error.to_string();
        assert!(text.contains("parameter 0") && text.contains("differs"), "{text}");
    }
}

/// Doubles every element.
#[kernel]
fn double(input: &[u32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = input[i.get()] * 2;
    }
}

#[test]
fn buffers_of_another_device_are_refused() {
    if let Some(gpu) = gpu() {
        let (here, there) = (cpu().stream().expect("a stream"), gpu.stream().expect("a stream"));
        let input = here.to_device(&[1u32, 2, 3]).expect("a small copy works");
        let mut output = there.zeroed::<u32>(3).expect("a small copy works");
        let error = double::launch(&there, LaunchConfig::for_len(3), &input, &mut output).expect_err("two devices");
        assert!(error.to_string().contains("lives on"), "{error}");
    }
}

#[test]
fn a_dropped_buffer_is_not_freed_while_in_use() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let input = stream.to_device(&vec![21u32; 1 << 20]).expect("a copy works");
        let mut output = stream.zeroed::<u32>(1 << 20).expect("an allocation works");
        double::launch(&stream, LaunchConfig::for_len(1 << 20), &input, &mut output).expect("a launch works");
        drop(input);
        // Takes the memory, should it have been freed.
        let other = stream.to_device(&vec![99u32; 1 << 20]).expect("a copy works");
        assert!(stream.to_host(&output).expect("a copy works").iter().all(|v| *v == 42), "on {device}");
        drop(other);
    }
}

#[test]
fn uses_on_two_streams_are_ordered() {
    for device in devices() {
        let (first, second) = (device.stream().expect("a stream"), device.stream().expect("a stream"));
        const LEN: usize = 1 << 18;
        let mut a = first.filled(1u32, LEN).expect("an allocation works");
        let mut b = first.zeroed::<u32>(LEN).expect("an allocation works");
        for _ in 0..5 {
            double::launch(&first, LaunchConfig::for_len(LEN), &a, &mut b).expect("a launch works");
            double::launch(&second, LaunchConfig::for_len(LEN), &b, &mut a).expect("a launch works");
        }
        assert!(second.to_host(&a).expect("a copy works").iter().all(|v| *v == 1 << 10), "on {device}");
    }
}

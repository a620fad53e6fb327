//! Every call of the driver fails once, in turn: each time the program hears of it, loses nothing and leaks nothing.

use super::{COUNT, PANIC, allocated, control, device, launch, simulated};
use crate::prelude::*;
use crate::{Error, MemoryError, Result};

/// Which calls fail: after `skip` more, `times` of them, with `code`.
#[derive(Clone, Copy)]
pub(super) struct Failure {
    pub(super) times: u64,
    pub(super) code: u32,
    pub(super) only_allocations: bool,
}

/// Has calls fail after `skip` more; gives how many of those asked for before did not.
pub(super) fn fail(skip: u64, failure: Failure) -> u64 {
    let Failure { times, code, only_allocations } = failure;
    control::<extern "C" fn(u64, u64, u32, bool) -> u64>(c"simulated_fail")(skip, times, code, only_allocations)
}

pub(super) const NONE: Failure = Failure { times: 0, code: 0, only_allocations: false };

/// Some of everything that a program does with a device.
fn scenario(device: &Device, input: &mut DeviceBuffer<u32>) -> Result<()> {
    let first = device.stream()?;
    let second = device.stream()?;
    let numbers: Vec<u32> = (0..500).collect();
    let mut x = first.to_device(&numbers)?;
    let mut y = first.zeroed::<u32>(500)?;
    launch(&first, &COUNT, &mut x)?;
    launch(&second, &COUNT, &mut x)?;
    y.copy_from_device(&second, &x)?;
    launch(&first, &COUNT, &mut y)?;
    let start = first.record()?;
    x.fill(&first, 7)?;
    second.wait(&start)?;
    launch(&second, &PANIC, &mut x)?;
    match second.synchronize() {
        Err(Error::KernelPanic(_)) => {}
        other => {
            other?;
            panic!("the kernel has panicked");
        }
    }
    let found = first.to_host(&y)?;
    assert!(found.iter().zip(&numbers).all(|(found, number)| *found == number + 3), "{found:?}");
    start.elapsed(&second.record()?)?;
    // Last, so that what fails before it leaves the input as it was.
    launch(&first, &COUNT, input)?;
    first.synchronize()
}

/// What lives outside of the scenario: how often `input` was counted up is read back from its first element.
fn check(stream: &Stream, input: &DeviceBuffer<u32>) {
    let found = stream.to_host(input).expect("nothing fails any more");
    let expected: Vec<u32> = (0..300).map(|i| i + found[0]).collect();
    assert_eq!(found, expected);
}

/// Runs the scenario with each call failing in turn; gives how many failures it has reported.
fn each_call_fails(failure: Failure) -> usize {
    let device = device();
    let stream = device.stream().unwrap();
    let mut input = stream.to_device(&(0..300).collect::<Vec<u32>>()).unwrap();
    // Once without failures, so that the kernels are loaded: what is loaded stays.
    scenario(&device, &mut input).unwrap();
    device.synchronize().unwrap();
    let baseline = allocated();
    let mut failed = 0;
    for skip in 0.. {
        fail(skip, failure);
        let outcome = scenario(&device, &mut input);
        let left = fail(0, NONE);
        // What could not be reported at once, and the errors of drops.
        let _ = device.synchronize();
        assert_eq!(allocated(), baseline, "call {skip}: something leaked: {outcome:?}");
        check(&stream, &input);
        if left == failure.times {
            assert!(outcome.is_ok(), "{outcome:?}");
            return failed;
        }
        let Err(error) = outcome else {
            // A call whose failure changes nothing, such as the look whether memory is page-locked.
            continue;
        };
        failed += 1;
        let text = format!("{error:?}");
        assert!(!text.is_empty());
        if let Error::Memory(MemoryError::OutOfMemory { requested, .. }) = error {
            assert_eq!(requested, 2000, "{text}");
        }
    }
    unreachable!("the scenario makes some number of calls")
}

simulated_test!(each_call_fails_once, "", {
    let failed = each_call_fails(Failure { times: 1, code: 999, only_allocations: false });
    assert!(failed > 20, "{failed} failures were reported");
});

simulated_test!(from_some_call_on_there_is_no_memory, "", {
    let failed = each_call_fails(Failure { times: 1_000_000, code: 2, only_allocations: true });
    assert_eq!(failed, 2, "of the two buffers: what streams need is kept by the pool of records");
});

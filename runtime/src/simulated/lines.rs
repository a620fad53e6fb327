//! Lines that kernels print: the counters of a stream's buffer, which only grow.

use super::failures::{Failure, NONE, fail};
use super::*;

/// How many lines came, and how many were told to be lost.
fn count(lines: &Mutex<Vec<Line>>) -> (usize, u64) {
    let lines = std::mem::take(&mut *lines.lock().unwrap());
    (lines.iter().filter(|line| line.3 == 0).count(), lines.iter().map(|line| line.3).sum())
}

simulated_test!(counters_are_asked_for_only_where_a_line_was_lost, "", {
    let device = device();
    device.set_output_bytes(48 * 100);
    let stream = device.stream().unwrap();
    let lines = keep(&stream);
    let mut one = stream.zeroed::<u32>(1).unwrap();
    let mut memory = stream.zeroed::<u32>(70).unwrap();
    launch(&stream, &PRINT, &mut one).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(count(&lines), (1, 0));
    for round in 0..20 {
        let before = calls(c"destroy stream");
        launch(&stream, &PRINT, &mut memory).unwrap();
        let is_full = round % 3 == 0;
        if is_full {
            launch(&stream, &PRINT, &mut memory).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(count(&lines), if is_full { (100, 40) } else { (70, 0) }, "{round}");
        assert_eq!(calls(c"destroy stream") - before, u64::from(is_full), "{round}: a copy has a stream of its own");
    }
    // What was counted on another stream is not this one's.
    let other = device.stream().unwrap();
    let of_other = keep(&other);
    for _ in 0..2 {
        launch(&stream, &PRINT, &mut memory).unwrap();
        launch(&other, &PRINT, &mut memory).unwrap();
        launch(&other, &PRINT, &mut memory).unwrap();
        device.synchronize().unwrap();
        assert_eq!((count(&lines), count(&of_other)), ((70, 0), (100, 40)));
    }
});

simulated_test!(lines_come_once_and_losses_are_told_though_a_call_fails, "", {
    let device = device();
    device.set_output_bytes(48 * 100);
    let stream = device.stream().unwrap();
    let lines = keep(&stream);
    let mut memory = stream.zeroed::<u32>(70).unwrap();
    let mut kept = 0;
    for skip in 0.. {
        launch(&stream, &PRINT, &mut memory).unwrap();
        launch(&stream, &PRINT, &mut memory).unwrap();
        fail(skip, Failure { times: 1, code: 2, only_allocations: false });
        let outcome = stream.synchronize();
        let left = fail(0, NONE);
        let first = count(&lines);
        // The next wait finishes what was begun.
        stream.synchronize().unwrap();
        let then = count(&lines);
        assert_eq!((first.0 + then.0, first.1 + then.1), (100, 40), "call {skip}: {outcome:?}");
        kept += usize::from(first.1 == 0);
        if left != 0 {
            break;
        }
    }
    assert!(kept >= 4, "the counters' copy is of several calls, of which each has failed: {kept}");
});

simulated_test!(a_line_that_was_begun_and_not_ended_holds_up_those_before_the_next_wait_only, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let lines = keep(&stream);
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    for _ in 0..3 {
        launch(&stream, &PRINT, &mut memory).unwrap();
        launch(&stream, &PRINT_HALF, &mut memory).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count(&lines), (10, 0));
        launch(&stream, &PRINT, &mut memory).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(count(&lines), (10, 0));
    }
});

//! Panics of kernels: who claims a record, what the host makes of it, and what comes after.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::failures::{Failure, NONE, fail};
use super::graphs::record;
use super::*;
use crate::KernelPanic;

simulated_test!(each_panic_is_claimed_in_device_memory_and_reported_once, "", {
    let device = device();
    // Records are used again, by streams that come later too.
    for _ in 0..40 {
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(4).unwrap();
        for _ in 0..3 {
            launch(&stream, &PANIC, &mut memory).unwrap();
            launch(&stream, &PANIC, &mut memory).unwrap();
            let panic = stream.synchronize().unwrap_err();
            assert!(panic.kernel_panic().is_some(), "{panic}");
            stream.synchronize().unwrap();
        }
        drop((stream, memory));
        device.synchronize().unwrap();
    }
    assert_eq!(calls(c"atomic on the host's memory"), 0);
    assert_eq!(calls(c"a record that is not clear"), 0);
    assert_eq!(words(), 256, "one page of records is enough");
    drop(device);
    assert_eq!(words(), 0);
});

/// Bytes of device memory that the library itself keeps for panics and lines.
fn words() -> u64 {
    control::<extern "C" fn() -> u64>(c"simulated_words")()
}

/// The panic that a stream has to report.
fn panic_of(stream: &Stream) -> KernelPanic {
    let (error, text) = message(stream.synchronize());
    error.kernel_panic().unwrap_or_else(|| panic!("{text}")).clone()
}

simulated_test!(streams_claim_records_of_their_own, "", {
    let device = device();
    // More than have room in a page.
    let mut streams: Vec<_> = (0..40)
        .map(|_| {
            let stream = device.stream().unwrap();
            let memory = stream.zeroed::<u32>(4).unwrap();
            (stream, memory)
        })
        .collect();
    assert_eq!(words(), 512);
    for _ in 0..3 {
        // All of them wait at once, some twice.
        for (stream, memory) in &mut streams {
            launch(stream, &PANIC, memory).unwrap();
        }
        for (stream, memory) in streams.iter_mut().step_by(3) {
            launch(stream, &PANIC, memory).unwrap();
        }
        for (stream, _) in &streams {
            assert_eq!(panic_of(stream).thread, Dim3::new(5, 0, 0));
            stream.synchronize().unwrap();
        }
    }
    assert_eq!(calls(c"a record that is not clear"), 0);
});

simulated_test!(a_panic_that_comes_while_the_host_takes_another_is_told, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    // Its first look is at a record that nobody has claimed yet, then at one that was taken.
    for _ in 0..3 {
        launch(&stream, &PANIC_LATE, &mut memory).unwrap();
        assert_eq!(panic_of(&stream).thread, Dim3::new(9, 0, 0));
        launch(&stream, &PANIC, &mut memory).unwrap();
        assert_eq!(panic_of(&stream).thread, Dim3::new(5, 0, 0));
    }
    // Behind one that is still to be told it is not.
    launch(&stream, &PANIC, &mut memory).unwrap();
    launch(&stream, &PANIC_LATE, &mut memory).unwrap();
    assert_eq!(panic_of(&stream).thread, Dim3::new(5, 0, 0));
    stream.synchronize().unwrap();
});

simulated_test!(a_claim_of_which_the_context_was_lost_is_no_panic, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let other = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    launch(&stream, &PANIC_LOST, &mut memory).unwrap();
    for stream in [&stream, &other] {
        let (error, text) = message(stream.synchronize());
        assert!(matches!(error, Error::Stream(StreamError::Failed { .. })), "{text}");
    }
    assert!(device.stream().is_ok_and(|stream| stream.synchronize().is_err()));
    drop((memory, stream));
    let (error, text) = message(device.synchronize());
    assert!(error.kernel_panic().is_none(), "{text}");
});

simulated_test!(waits_of_a_graphs_kernel_are_in_vain_only_when_that_launch_has_panicked, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(1).unwrap();
    let graph = stream.capture(|recording| record(recording, &MEET, &mut memory)).unwrap().instantiate().unwrap();
    for round in 0..3 {
        memory.fill(&stream, 0).unwrap();
        graph.launch(&stream).unwrap();
        assert_eq!(panic_of(&stream).thread, Dim3::new(1, 0, 0), "{round}");
        // The same launches again, of which all threads come.
        memory.fill(&stream, 1).unwrap();
        graph.launch(&stream).unwrap();
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(stream.to_host(&memory).unwrap(), [3], "{round}");
    }
    // A panic that is still to be told is not forgotten with the next launch.
    memory.fill(&stream, 0).unwrap();
    graph.launch(&stream).unwrap();
    while !stream.is_done().unwrap() {}
    graph.launch(&stream).unwrap();
    panic_of(&stream);
    stream.synchronize().unwrap();
});

simulated_test!(a_stream_that_gets_no_memory_for_its_panics_leaves_nothing, "", {
    let mut failed = 0;
    for skip in 0.. {
        let device = device();
        fail(skip, Failure { times: 1, code: 2, only_allocations: false });
        let outcome = device.stream();
        let left = fail(0, NONE);
        if let Err(error) = &outcome {
            failed += 1;
            let text = format!("{error:?}");
            assert!(text.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{text}");
            assert_eq!(words(), 0, "call {skip}: {text}");
            assert_eq!(
                calls(c"allocate host"),
                calls(c"free host") + calls(c"late access to host memory"),
                "call {skip}"
            );
        }
        // The next one has all it needs.
        let stream = device.stream().unwrap();
        let mut memory = stream.zeroed::<u32>(4).unwrap();
        launch(&stream, &PANIC, &mut memory).unwrap();
        panic_of(&stream);
        drop((outcome, memory, stream, device));
        assert_eq!(words(), 0, "call {skip}");
        if left != 0 {
            break;
        }
    }
    assert!(failed >= 5, "{failed}");
});

/// What a thread of a kernel does when it panics, against a record at an address of the host: true when it has claimed the record.
fn panic_as_a_kernel_does(record: usize, id: u32) -> bool {
    let word = |at: usize| (record as *mut u64).wrapping_add(at);
    // SAFETY: the record outlives the threads, and is larger than the words that are used.
    let claimed = unsafe { AtomicU64::from_ptr(word(17).read_volatile() as *mut u64) };
    let mut round;
    loop {
        // SAFETY: as above.
        round = unsafe { word(14).read_volatile() };
        if claimed.fetch_max(round, Ordering::Relaxed) < round {
            break;
        }
        // SAFETY: as above.
        if unsafe { word(14).read_volatile() } == round {
            return false;
        }
    }
    fence(Ordering::SeqCst);
    // SAFETY: as above.
    unsafe {
        word(0).cast::<u32>().add(1).write_volatile(id);
        word(1).write_volatile(u64::from(id));
        for at in 4..10 {
            word(0).cast::<u32>().add(at).write_volatile(id);
        }
        fence(Ordering::SeqCst);
        word(0).cast::<u32>().write_volatile(1);
    }
    true
}

simulated_test!(reports_are_whole_and_as_many_as_claims_while_threads_panic_and_hosts_take, "", {
    const THREADS: u32 = 4;
    const REPORTS: usize = 2000;
    /// Where a report is lost the others do not come either.
    const LONGEST: Duration = Duration::from_secs(60);
    let device = device();
    let parts = device.parts().unwrap();
    // The simulated GPU finds page-locked memory where the host does, and its own memory is the host's.
    let slot = parts.records.take().unwrap();
    let record = usize::try_from(slot.device_address()).unwrap();
    let (claims, under_way, next_id) = (AtomicU32::new(0), AtomicU32::new(THREADS), AtomicU32::new(1));
    let reports = Mutex::new(Vec::new());
    let started = std::time::Instant::now();
    let take = || {
        let Some(panic) = slot.take_panic(&parts.gpu, |_| None) else { return false };
        let id = panic.block.x;
        for of_block in [panic.block, panic.thread] {
            assert_eq!(of_block, Dim3::new(id, id, id), "torn");
        }
        assert!(panic.message.contains(&format!("(site {id},")), "{}", panic.message);
        reports.lock().unwrap().push(id);
        true
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while reports.lock().unwrap().len() < REPORTS && started.elapsed() < LONGEST {
                    for _ in 0..50 {
                        if panic_as_a_kernel_does(record, next_id.fetch_add(1, Ordering::Relaxed)) {
                            claims.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    std::thread::yield_now();
                }
                under_way.fetch_sub(1, Ordering::Release);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while under_way.load(Ordering::Acquire) != 0 && started.elapsed() < LONGEST {
                    if !take() {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    take();
    assert!(!take(), "all were taken");
    let claims = claims.into_inner();
    assert!(panic_as_a_kernel_does(record, 0) && !panic_as_a_kernel_does(record, 0), "one claim a round");
    assert!(take() && !take());
    let mut reports = reports.into_inner().unwrap();
    assert!(reports.len() > REPORTS, "{} reports in {LONGEST:?}", reports.len());
    assert_eq!(reports.len(), claims as usize + 1);
    reports.sort_unstable();
    reports.dedup();
    assert_eq!(reports.len(), claims as usize + 1, "one was reported twice");
});

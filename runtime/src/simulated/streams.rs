//! Streams with options, host tasks, and futures, against the simulated driver.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Instant;

use super::*;
use crate::cudarc::driver::CudaContext;
use crate::{EventOptions, StreamOptions};

/// Waits until something another thread does has happened.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Loses the context by a kernel on memory that is freed under it, as only unsafe code does it.
fn lose_context(stream: &Stream) {
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(stream, &COUNT, &mut memory).unwrap();
    let address = memory.cuda_address().unwrap();
    // SAFETY: the simulated driver notices the later use.
    unsafe { control::<unsafe extern "C" fn(u64) -> u32>(c"cuMemFree_v2")(address) };
    std::mem::forget(memory);
}

struct Tell(std::sync::mpsc::Sender<ThreadId>);

impl Drop for Tell {
    fn drop(&mut self) {
        let _ = self.0.send(thread::current().id());
    }
}

fn soon<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(Duration::from_secs(60)).unwrap()
}

simulated_test!(streams_have_the_priority_that_was_asked_for, "", {
    let device = device();
    assert_eq!(device.stream_priorities().unwrap(), -5..=0);
    for priority in device.stream_priorities().unwrap() {
        let stream = device.stream_with(StreamOptions::new().priority(priority)).unwrap();
        assert_eq!(stream.priority().unwrap(), priority);
    }
    assert_eq!(device.stream_with(StreamOptions::new()).unwrap().priority().unwrap(), 0);
    for wrong in [-6, 1, i32::MIN, i32::MAX] {
        let (error, text) = message(device.stream_with(StreamOptions::new().priority(wrong)));
        assert!(matches!(error, Error::Stream(StreamError::PriorityOutOfRange { .. })), "{text}");
        assert!(
            text.contains(&format!("of priority {wrong} was asked for; the device has priorities from -5")),
            "{text}"
        );
    }
});

simulated_test!(a_stream_is_one_of_its_own_that_does_not_wait_for_the_default_stream, "", {
    let device = device();
    // With the first one comes memory for panics, which is cleared on a stream of its own.
    let _first = device.stream().unwrap();
    let before = calls(c"stream of flags 1");
    let (plain, urgent) = (device.stream().unwrap(), device.stream_with(StreamOptions::new().priority(-5)).unwrap());
    assert_eq!(calls(c"stream of flags 1") - before, 2, "both are made, and neither blocks");
    let handles = [&plain, &urgent].map(|stream| stream.as_cudarc().unwrap().cu_stream());
    assert!(handles[0] != handles[1] && handles.iter().all(|handle| !handle.is_null()));
    // Work of the default stream that is under way is none of theirs.
    let (default, mut memory) = (device.default_stream().unwrap(), plain.zeroed::<u32>(10).unwrap());
    let mut held = default.zeroed::<u32>(10).unwrap();
    plain.synchronize().unwrap();
    hold(true);
    launch(&default, &COUNT, &mut held).unwrap();
    memory.fill(&plain, 5).unwrap();
    plain.synchronize_timeout(Duration::from_secs(60)).unwrap();
    assert!(!default.is_done().unwrap(), "its kernel is held");
    hold(false);
    assert_eq!(plain.to_host(&memory).unwrap(), [5; 10]);
});

simulated_test!(events_are_made_as_their_options_say, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let quiet = Event::with_options(&device, EventOptions::new().without_timing().blocking()).unwrap();
    assert_eq!((calls(c"event of flags 3"), calls(c"event of flags 0")), (1, 0));
    let timed = stream.record().unwrap();
    assert_eq!(calls(c"event of flags 0"), 1);
    quiet.record(&stream).unwrap();
    quiet.synchronize().unwrap();
    assert!(quiet.is_done().unwrap());
    for pair in [(&quiet, &timed), (&timed, &quiet)] {
        let (error, text) = message(pair.0.elapsed(pair.1));
        assert!(matches!(error, Error::Device(DeviceError::EventWithoutTiming)), "{text}");
    }
});

simulated_test!(an_event_is_waited_for, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let address = memory.cuda_address().unwrap() as usize;
    // SAFETY: the simulated device's memory is the host's, and the buffer is alive.
    let now = || unsafe { (address as *const u32).read_volatile() };
    hold(true);
    launch(&stream, &COUNT, &mut memory).unwrap();
    let event = stream.record().unwrap();
    assert!(!event.is_done().unwrap(), "the kernel before it has not run");
    hold(false);
    event.synchronize().unwrap();
    assert_eq!(now(), 1);
    assert!(event.is_done().unwrap());
    assert_eq!(stream.to_host(&memory).unwrap(), [1; 10]);
});

simulated_test!(the_legacy_default_stream_is_one_and_that_of_each_thread_is_refused, "", {
    let device = device();
    let (first, second) = (device.default_stream().unwrap(), device.default_stream().unwrap());
    assert!(Arc::ptr_eq(first.inner(), second.inner()));
    assert!(first.as_cudarc().unwrap().cu_stream().is_null());
    let mut memory = first.zeroed::<u32>(10).unwrap();
    launch(&second, &COUNT, &mut memory).unwrap();
    assert_eq!(device.stream().unwrap().to_host(&memory).unwrap(), [1; 10]);
    drop((first, second));
    launch(&device.default_stream().unwrap(), &COUNT, &mut memory).unwrap();
    assert_eq!(device.stream().unwrap().to_host(&memory).unwrap(), [2; 10]);
    let each_threads = CudaContext::new(0).unwrap().per_thread_stream();
    let (error, text) = message(Stream::from_cudarc(&each_threads));
    assert!(matches!(error, Error::Stream(StreamError::PerThreadStream)), "{text}");
    assert!(text.contains("Device::default_stream"), "{text}");
});

simulated_test!(a_host_task_runs_in_the_streams_order_on_another_thread, "", {
    let device = device();
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let address = memory.cuda_address().unwrap() as usize;
    let (sender, receiver) = channel();
    hold(true);
    for _ in 0..3 {
        launch(&stream, &COUNT, &mut memory).unwrap();
        let sender = sender.clone();
        stream
            .host_task(move || {
                // The simulated device's memory is the host's.
                // SAFETY: the kernel before is done, the one after has not begun, and the buffer is alive.
                let seen = unsafe { (address as *const u32).read() };
                sender.send((seen, thread::current().id())).unwrap();
            })
            .unwrap();
    }
    assert!(!stream.is_done().unwrap() && receiver.try_recv().is_err(), "the kernel before has not run");
    hold(false);
    // Another stream waits for the task as for any work.
    other.wait(&stream.record().unwrap()).unwrap();
    other.synchronize().unwrap();
    let seen: Vec<_> = receiver.try_iter().collect();
    assert_eq!(seen.iter().map(|(seen, _)| *seen).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(seen.iter().all(|(_, on)| *on != thread::current().id()));
});

simulated_test!(what_a_host_task_owns_is_not_given_back_on_the_drivers_thread, "", {
    let device = device();
    let (stream, passing) = (device.stream().unwrap(), device.stream().unwrap());
    let mut memory = passing.zeroed::<u32>(1000).unwrap();
    launch(&passing, &COUNT, &mut memory).unwrap();
    let event = passing.record().unwrap();
    let waits = passing.completed();
    let (sender, receiver) = channel();
    let count = calls(c"destroy stream");
    stream
        .host_task(move || {
            // All of them are dropped at the end of the task.
            let owned = (memory, passing, event, waits);
            sender.send(owned.0.len()).unwrap();
        })
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(soon(&receiver), 1000);
    device.synchronize().unwrap();
    eventually("giving back", || {
        device.synchronize().is_ok() && allocated() == 0 && calls(c"destroy stream") == count + 1
    });
    assert_eq!(calls(c"call in a host function"), 0);
    // The last handles of all.
    let own = stream.clone();
    stream.host_task(move || drop((own, device))).unwrap();
    drop(stream);
    let work = Device::gpu(0).unwrap();
    work.synchronize().unwrap();
    drop(work);
    eventually("the releases", || calls(c"release") == calls(c"retain"));
    assert_eq!(calls(c"call in a host function"), 0);
});

simulated_test!(a_host_task_that_uses_a_device_is_refused_without_a_call_of_the_driver, "gpus=2", {
    let device = device();
    let stream = device.stream().unwrap();
    let (mut memory, event) = (stream.zeroed::<u32>(10).unwrap(), stream.record().unwrap());
    let (sender, receiver) = channel();
    let (own, on) = (stream.clone(), device.clone());
    stream
        .host_task(move || {
            let outcomes = [
                ("synchronize", own.synchronize()),
                ("query", own.is_done().map(drop)),
                ("to_host", own.to_host(&memory).map(drop)),
                ("to_device", own.to_device(&[1u32]).map(drop)),
                ("launch", launch(&own, &COUNT, &mut memory)),
                ("stream", on.stream().map(drop)),
                ("default stream", on.default_stream().map(drop)),
                ("priorities", on.stream_priorities().map(drop)),
                ("urgent", on.stream_with(StreamOptions::new().priority(0)).map(drop)),
                ("memory", on.memory_info().map(drop)),
                ("device", on.synchronize()),
                ("event", event.synchronize()),
                ("record", event.record(&own)),
                ("host task", own.host_task(|| unreachable!("it is refused"))),
                ("completed", runtime().block_on(own.completed())),
                ("another", Device::gpu(1).map(drop)),
                ("list", DeviceInfo::all().map(drop)),
                ("attribute", on.attribute(DeviceAttribute::L2CacheSize).map(drop)),
            ];
            for (what, outcome) in outcomes {
                sender.send((what, outcome)).unwrap();
            }
        })
        .unwrap();
    stream.synchronize().unwrap();
    for (what, outcome) in receiver {
        let Err(error) = outcome else { panic!("{what} was not refused") };
        let mut causes = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
        let from_driver = causes
            .any(|cause| cause.downcast_ref::<crate::DriverError>().is_some_and(crate::DriverError::is_from_host_task));
        assert!(from_driver || matches!(error, Error::Device(DeviceError::InHostTask)), "{what}: {error:?}");
    }
    assert_eq!(calls(c"call in a host function"), 0);
    device.synchronize().unwrap();
});

simulated_test!(a_panic_of_a_host_task_is_reported_and_the_stream_goes_on, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    for (round, expected) in [(1, "round 1"), (2, "of a host task")] {
        stream.host_task(move || if round == 1 { panic!("round {round}") } else { panic!("of a host task") }).unwrap();
        launch(&stream, &COUNT, &mut memory).unwrap();
        let (error, text) = message(stream.synchronize());
        assert!(
            matches!(&error, Error::Stream(StreamError::HostTaskPanicked { message }) if message == expected),
            "{text}"
        );
        stream.synchronize().unwrap();
    }
    assert_eq!(stream.to_host(&memory).unwrap(), [2; 10]);
    // Of two, and of a kernel's, each comes back; the first of a kind is the one told.
    stream.host_task(|| panic!("first")).unwrap();
    stream.host_task(|| panic!("second")).unwrap();
    launch(&stream, &PANIC, &mut memory).unwrap();
    assert!(stream.synchronize().unwrap_err().kernel_panic().is_some());
    assert!(message(stream.synchronize()).1.ends_with("panicked: first"));
    stream.synchronize().unwrap();
    // A stream that is gone leaves it to its device, whether the task has run or not.
    hold(true);
    launch(&stream, &COUNT, &mut memory).unwrap();
    stream.host_task(|| panic!("after the stream")).unwrap();
    drop((stream, memory));
    hold(false);
    eventually("the report", || match device.synchronize() {
        Ok(()) => false,
        Err(error) => error.to_string().ends_with("panicked: after the stream"),
    });
});

simulated_test!(a_host_task_that_is_refused_is_dropped_and_not_called, "host_functions=0", {
    let device = device();
    let stream = device.stream().unwrap();
    let (sender, receiver) = channel();
    let tell = Tell(sender.clone());
    let (error, text) = message(stream.host_task(move || unreachable!("{:?}", tell.0)));
    assert!(matches!(error, Error::Stream(StreamError::Driver { operation: "queueing a host task", .. })), "{text}");
    assert_eq!(soon(&receiver), thread::current().id());
    capturing(&stream, true);
    let tell = Tell(sender);
    let (error, text) = message(stream.host_task(move || unreachable!("{:?}", tell.0)));
    assert!(matches!(error, Error::Stream(StreamError::Capturing { .. })), "{text}");
    assert_eq!(soon(&receiver), thread::current().id());
    let (error, _) = message(runtime().block_on(stream.completed()));
    assert!(matches!(error, Error::Stream(StreamError::Capturing { .. })));
    capturing(&stream, false);
    stream.synchronize().unwrap();
});

simulated_test!(futures_are_ready_when_the_work_before_them_is_done, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    runtime().block_on(async {
        stream.completed().await.unwrap();
        Event::new(&device).unwrap().completed().await.unwrap();
        hold(true);
        launch(&stream, &COUNT, &mut memory).unwrap();
        let event = stream.record().unwrap();
        let (of_stream, of_event) = (stream.completed(), event.completed());
        let late = tokio::time::timeout(Duration::from_millis(20), stream.completed()).await;
        assert!(late.is_err(), "the kernel has not run");
        tokio::select! {
            outcome = stream.completed() => panic!("{outcome:?}"),
            outcome = event.completed() => panic!("{outcome:?}"),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        let release = tokio::task::spawn_blocking(|| {
            thread::sleep(Duration::from_millis(20));
            hold(false);
        });
        tokio::try_join!(of_stream, of_event).unwrap();
        release.await.unwrap();
        // What panics comes out of the future, once.
        launch(&stream, &PANIC, &mut memory).unwrap();
        assert!(stream.completed().await.unwrap_err().kernel_panic().is_some());
        stream.completed().await.unwrap();
        stream.host_task(|| panic!("in a task")).unwrap();
        assert!(stream.completed().await.unwrap_err().to_string().ends_with("in a task"));
    });
    assert_eq!(stream.to_host(&memory).unwrap(), [1; 10]);
});

simulated_test!(thousands_of_futures_share_one_thread_and_few_questions, "", {
    let device = device();
    let streams: Vec<Stream> = (0..4).map(|_| device.stream().unwrap()).collect();
    let mut memories: Vec<_> = streams.iter().map(|stream| stream.zeroed::<u32>(4).unwrap()).collect();
    hold(true);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let before = thread_count();
    let mut waits = Vec::new();
    for at in 0..4000 {
        let (stream, done) = (&streams[at % 4], Arc::clone(&done));
        if at % 40 < 4 {
            launch(stream, &COUNT, &mut memories[at % 4]).unwrap();
        }
        let completed = stream.completed();
        // Some are dropped without being asked, and some after.
        match at % 10 {
            7 => drop(completed),
            8 => drop(runtime.block_on(async { tokio::time::timeout(Duration::ZERO, completed).await })),
            _ => waits.push(runtime.spawn(async move {
                completed.await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            })),
        }
    }
    thread::sleep(Duration::from_millis(50));
    assert!(thread_count() <= before + 4, "{} threads, {before} before", thread_count());
    assert_eq!((waits.len(), done.load(Ordering::Relaxed)), (3200, 0));
    let (start, questions) = (Instant::now(), calls(c"query"));
    thread::sleep(Duration::from_millis(100));
    let most = 4 * (start.elapsed().as_millis() as u64 + 100);
    assert!(calls(c"query") - questions <= most, "{} questions", calls(c"query") - questions);
    assert_eq!(calls(c"capture mode 2"), 1, "the thread that asks does not end captures");
    hold(false);
    runtime.block_on(async {
        for wait in waits {
            wait.await.unwrap();
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 3200);
    // Events are given back, but for those that order streams.
    eventually("giving back", || calls(c"event") - calls(c"destroy event") <= 4);
});

simulated_test!(a_lost_context_comes_out_of_futures_and_host_tasks_are_not_called, "", {
    let device = device();
    let stream = device.stream().unwrap();
    hold(true);
    lose_context(&stream);
    stream.host_task(|| unreachable!("the context is lost before")).unwrap();
    let event = stream.record().unwrap();
    let (of_stream, of_event, dropped) = (stream.completed(), event.completed(), stream.completed());
    runtime().block_on(async {
        let _ = tokio::time::timeout(Duration::from_millis(5), dropped).await;
        let release = tokio::task::spawn_blocking(|| hold(false));
        let (first, second) = tokio::join!(of_stream, of_event);
        release.await.unwrap();
        let text = format!("{:?}", first.unwrap_err());
        assert!(text.contains("only a new process") && text.contains("`warpsmith::simulated::count`"), "{text}");
        assert!(format!("{:?}", second.unwrap_err()).contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
        assert!(stream.completed().await.is_err());
    });
});

/// A waker that panics, or counts.
struct Waked {
    panics: bool,
    count: AtomicUsize,
}

impl Wake for Waked {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "a test's own panic in a waker");
    }
}

simulated_test!(the_last_waker_is_woken_once_and_one_that_panics_harms_no_other, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let wakers = [false, true, false].map(|panics| Arc::new(Waked { panics, count: AtomicUsize::new(0) }));
    let [stale, panics, counts] = wakers.each_ref().map(|waked| Waker::from(Arc::clone(waked)));
    hold(true);
    launch(&stream, &COUNT, &mut memory).unwrap();
    let (mut first, mut second) = (pin!(stream.completed()), pin!(stream.completed()));
    for waker in [&stale, &stale, &panics] {
        assert!(first.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    assert!(second.as_mut().poll(&mut Context::from_waker(&counts)).is_pending());
    hold(false);
    eventually("waking", || wakers[2].count.load(Ordering::SeqCst) == 1);
    assert!(matches!(first.as_mut().poll(&mut Context::from_waker(&counts)), Poll::Ready(Ok(()))));
    assert!(matches!(second.as_mut().poll(&mut Context::from_waker(&counts)), Poll::Ready(Ok(()))));
    assert_eq!(wakers.each_ref().map(|waked| waked.count.load(Ordering::SeqCst)), [0, 1, 1]);
});

simulated_test!(futures_and_host_tasks_from_many_threads, "", {
    let device = device();
    let seed = 0x57e_a35u64;
    println!("seed {seed}");
    let ran = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..8u64 {
            let (device, ran) = (&device, &ran);
            scope.spawn(move || {
                let runtime = runtime();
                let mut state = seed.wrapping_mul(number + 1);
                let mut stream = device.stream().unwrap();
                let (mut memory, mut launches) = (stream.zeroed::<u32>(50).unwrap(), 0);
                for _ in 0..60 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    match state >> 61 {
                        0 => stream = device.stream().unwrap(),
                        1 => runtime.block_on(stream.completed()).unwrap(),
                        2 => runtime.block_on(stream.record().unwrap().completed()).unwrap(),
                        3 | 4 => {
                            let (ran, copy) = (Arc::clone(ran), stream.filled(1u32, 20).unwrap());
                            let own = stream.clone();
                            stream.host_task(move || drop((ran.fetch_add(copy.len(), Ordering::SeqCst), own))).unwrap();
                        }
                        _ => {
                            launch(&stream, &COUNT, &mut memory).unwrap();
                            launches += 1;
                        }
                    }
                }
                assert_eq!(stream.to_host(&memory).unwrap(), vec![launches; 50]);
            });
        }
    });
    eventually("every task", || device.synchronize().is_ok() && allocated() == 0);
    assert!(ran.load(Ordering::SeqCst) > 0);
    assert_eq!(calls(c"call in a host function"), 0);
});

simulated_test!(case_i5_a_launch_that_waits_tells_what_its_kernel_did, "", {
    let device = device();
    device.set_launch_blocking(true);
    let stream = device.stream().unwrap();
    let (mut memory, mut other) = (stream.zeroed::<u32>(10).unwrap(), stream.zeroed::<u32>(10).unwrap());
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert!(launch(&stream, &PANIC, &mut memory).unwrap_err().kernel_panic().is_some());
    // What goes into a graph is not waited for.
    capturing(&stream, true);
    launch(&stream, &PANIC, &mut memory).unwrap();
    capturing(&stream, false);
    assert!(stream.synchronize().unwrap_err().kernel_panic().is_some());
    launch(&stream, &COUNT, &mut memory).unwrap();
    // The context is lost by this launch, and the error names it, not the one that is asked about next.
    let address = other.cuda_address().unwrap();
    // SAFETY: the simulated driver notices the later use.
    unsafe { control::<unsafe extern "C" fn(u64) -> u32>(c"cuMemFree_v2")(address) };
    let (error, text) = message(launch(&stream, &RECURSIVE, &mut other));
    assert!(matches!(error, Error::Launch(LaunchError::Failed { .. })), "{text}");
    assert!(text.contains("kernel `warpsmith::simulated::recursive` failed while it ran"), "{text}");
    device.set_launch_blocking(false);
    assert!(!device.is_launch_blocking());
});

simulated_test!(case_i5_a_failed_launch_is_an_error_of_the_next_call_that_waits, "", {
    let device = device();
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    lose_context(&stream);
    // The launch itself was taken; each call that waits from here on says what happened, on whichever stream.
    for error in [stream.synchronize(), other.synchronize(), device.synchronize(), stream.is_done().map(drop)] {
        let (_, text) = message(error);
        assert!(
            text.contains("the GPU's context was lost by earlier work") || text.contains("only a new process"),
            "{text}"
        );
    }
});

simulated_test!(case_i3_handles_go_in_any_order_on_other_threads, "gpus=2", {
    let seed = 0x0bad_cafeu64;
    println!("seed {seed}");
    let mut state = seed;
    drop(device());
    for round in 0..40 {
        let device = Device::gpu(round % 2).unwrap();
        let (stream, passing) = (device.stream().unwrap(), device.stream().unwrap());
        let mut memory = stream.zeroed::<u32>(100).unwrap();
        launch(&stream, &COUNT, &mut memory).unwrap();
        let mut copy = passing.zeroed::<u32>(100).unwrap();
        copy.copy_from_device(&passing, &memory).unwrap();
        let event = passing.record().unwrap();
        let completed = passing.completed();
        let seen = Arc::new(AtomicBool::new(false));
        let sees = Arc::clone(&seen);
        passing.host_task(move || sees.store(true, Ordering::SeqCst)).unwrap();
        let mut handles: Vec<Box<dyn Send>> = vec![
            Box::new(device),
            Box::new(stream),
            Box::new(passing),
            Box::new(memory),
            Box::new(event),
            Box::new(completed),
        ];
        // Each in a place of its own, dropped by a thread of its own.
        for left in (1..=handles.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let handle = handles.swap_remove((state >> 33) as usize % left);
            thread::spawn(move || drop(handle)).join().unwrap();
        }
        let own = copy.device().clone();
        assert_eq!(own.stream().unwrap().to_host(&copy).unwrap(), [1; 100]);
        drop(copy);
        own.synchronize().unwrap();
        assert!(seen.load(Ordering::SeqCst));
        eventually("freeing", || own.synchronize().is_ok() && allocated() == 0);
    }
    eventually("the releases", || calls(c"release") == calls(c"retain"));
    assert_eq!(calls(c"illegal address: 400 bytes"), 0);
});

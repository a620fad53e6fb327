//! Timelines against the simulated driver.

use super::{COUNT, calls, device, launch, simulated};
use crate::{Timeline, WorkKind};

simulated_test!(a_timeline_puts_work_between_two_events, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(100).unwrap();
    let before = calls(c"event");
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(calls(c"event"), before, "nobody looks");

    let timeline = Timeline::new();
    timeline.watch(&stream).unwrap();
    let before = calls(c"event");
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(calls(c"event"), before + 2);
    stream.to_host(&memory).unwrap();
    assert_eq!(calls(c"event"), before + 4);
    let report = timeline.report().unwrap();
    let kinds: Vec<_> = report.entries().iter().map(|entry| (entry.kind, entry.bytes)).collect();
    assert_eq!(kinds, [(WorkKind::Launch, 400), (WorkKind::CopyToHost, 400)]);
    assert!(report.copy_bandwidths()["GPU 0 (Simulated GPU)"] > 0.0);

    drop(timeline);
    let before = calls(c"event");
    launch(&stream, &COUNT, &mut memory).unwrap();
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(calls(c"event"), before, "nobody looks any more");
});

simulated_test!(a_launch_that_is_refused_is_no_work, "", {
    let stream = device().stream().unwrap();
    let timeline = Timeline::new();
    timeline.watch(&stream).unwrap();
    let mut memory = stream.zeroed::<u32>(100).unwrap();
    launch(&stream, &super::BROKEN, &mut memory).unwrap_err();
    let kinds: Vec<_> = timeline.report().unwrap().entries().iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [WorkKind::Fill]);
});

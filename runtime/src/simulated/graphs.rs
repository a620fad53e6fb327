//! Graphs: recorded, built, launched, changed, and dropped, against the driver's graphs.

use super::*;
use crate::allocations::counted;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::kernel::KernelInstance as Instance;

pub(super) fn record(stream: &Stream, desc: &'static KernelDesc, memory: &mut DeviceBuffer<u32>) -> Result<()> {
    let mut launch =
        Launch::new(stream, LaunchConfig::for_len(memory.len()), &Instance::new(desc, "instance", &[], ()))?;
    let raw = launch.bind::<Param, _>(memory)?;
    // SAFETY: `raw` is what was bound.
    unsafe { launch.launch(raw, Param::arguments, |_, _, _, _| unreachable!("the device is a GPU")) }
}

simulated_test!(case_i4_a_graph_keeps_its_arguments_alive, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let before = allocated();
    let mut memory = stream.zeroed::<u32>(100).unwrap();
    let mut copy = stream.zeroed::<u32>(100).unwrap();
    let graph = stream
        .capture(|recording| {
            record(recording, &COUNT, &mut memory)?;
            record(recording, &COUNT, &mut memory)?;
            copy.copy_from_device(recording, &memory)
        })
        .unwrap();
    assert_eq!(stream.to_host(&memory).unwrap(), [0; 100], "recording does nothing");
    let graph = graph.instantiate().unwrap();
    drop(memory);
    for round in 1..4 {
        graph.launch(&stream).unwrap();
        assert_eq!(stream.to_host(&copy).unwrap(), [2 * round; 100]);
    }
    assert_eq!(calls(c"graph launch"), 3);
    hold(true);
    graph.launch(&stream).unwrap();
    hold(false);
    // What runs is waited for.
    drop(graph);
    assert_eq!(calls(c"a graph destroyed while it runs"), 0);
    assert_eq!(stream.to_host(&copy).unwrap(), [8; 100]);
    drop(copy);
    stream.synchronize().unwrap();
    assert_eq!(allocated(), before);
});

simulated_test!(a_graphs_launch_is_a_use_of_its_memory, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let mut memory = a.zeroed::<u32>(64).unwrap();
    let mut copy = b.zeroed::<u32>(64).unwrap();
    let graph = a.capture(|recording| record(recording, &COUNT, &mut memory)).unwrap().instantiate().unwrap();
    for round in 1..=20 {
        // The graph on one stream, a launch on the other, and a copy on either.
        graph.launch(if round % 3 == 0 { &a } else { &b }).unwrap();
        launch(if round % 2 == 0 { &a } else { &b }, &COUNT, &mut memory).unwrap();
        copy.copy_from_device(if round % 5 == 0 { &a } else { &b }, &memory).unwrap();
        assert_eq!(a.to_host(&copy).unwrap(), [2 * round; 64]);
    }
    // Freed after the graph's last launch, on a stream that knows nothing else of it.
    let c = device.stream().unwrap();
    graph.launch(&c).unwrap();
    drop(memory);
    drop(graph);
    c.synchronize().unwrap();
    assert_eq!(calls(c"illegal address: 256 bytes"), 0);
});

simulated_test!(case_i4_an_error_or_panic_while_recording_leaves_the_stream_usable, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let (error, text) = message(stream.capture(|recording| {
        record(recording, &COUNT, &mut memory)?;
        recording.synchronize()
    }));
    assert!(matches!(error, Error::Graph(GraphError::NotRecorded { .. })), "{text}");
    assert!(text.starts_with("a synchronise cannot be recorded in a graph"), "{text}");
    let (error, text) = message(stream.capture(|recording| recording.to_host(&memory).map(drop)));
    assert!(matches!(error, Error::Graph(GraphError::NotRecorded { operation: "a copy to the host" })), "{text}");
    let (error, text) = message(stream.capture(|recording| recording.zeroed::<u32>(4).map(drop)));
    assert!(matches!(error, Error::Graph(GraphError::NotRecorded { operation: "an allocation" })), "{text}");
    let (error, text) = message(stream.capture(|recording| recording.record().map(drop)));
    assert!(matches!(error, Error::Graph(GraphError::NotRecorded { .. })), "{text}");
    let (_, text) = message(stream.capture(|recording| record(recording, &PRINT, &mut memory)));
    assert!(text.contains("`warpsmith::simulated::print`") && text.contains("it prints"), "{text}");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|recording| {
            record(recording, &COUNT, &mut memory)?;
            panic!("in the middle")
        })
    }));
    assert!(panicked.is_err());
    // A stream that recorded takes nothing afterwards.
    let mut kept = None;
    let graph = stream
        .capture(|recording| {
            kept = Some(recording.clone());
            record(recording, &COUNT, &mut memory)
        })
        .unwrap();
    let (error, text) = message(record(&kept.unwrap(), &COUNT, &mut memory));
    assert!(matches!(error, Error::Graph(GraphError::Ended)), "{text}");
    assert_eq!(graph.len(), 1);
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(stream.to_host(&memory).unwrap(), [1; 10]);
});

simulated_test!(nodes_that_share_memory_have_an_order, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let (mut a, mut b) = (stream.zeroed::<u32>(8).unwrap(), stream.zeroed::<u32>(8).unwrap());
    let mut graph = Graph::new(&device).unwrap();
    // No order is asked for; the simulated driver runs nodes that have none backwards.
    graph.add(&[], |recording| a.copy_from_host(recording, &[5; 8])).unwrap();
    graph.add(&[], |recording| record(recording, &COUNT, &mut a)).unwrap();
    graph.add(&[], |recording| b.copy_from_device(recording, &a)).unwrap();
    graph.add(&[], |recording| record(recording, &COUNT, &mut a)).unwrap();
    graph.add(&[], |recording| record(recording, &COUNT, &mut b)).unwrap();
    let text = graph.to_dot();
    for edge in ["n0 -> n1", "n1 -> n2", "n2 -> n3", "n2 -> n4"] {
        assert!(text.contains(edge), "{text}");
    }
    assert_eq!(text.matches("->").count(), 4, "{text}");
    let graph = graph.instantiate().unwrap();
    for _ in 0..2 {
        graph.launch(&stream).unwrap();
        assert_eq!((stream.to_host(&a).unwrap(), stream.to_host(&b).unwrap()), (vec![7; 8], vec![7; 8]));
    }
    assert_eq!(calls(c"instantiate"), 1);
});

simulated_test!(a_node_gets_other_arguments, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let (mut a, mut b) = (stream.zeroed::<u32>(8).unwrap(), stream.zeroed::<u32>(20).unwrap());
    let mut graph = Graph::new(&device).unwrap();
    let first = graph.add(&[], |recording| record(recording, &COUNT, &mut a)).unwrap();
    let second = graph.add(&[], |recording| record(recording, &PANIC, &mut b)).unwrap();
    let other = Graph::new(&device).unwrap().add_host(&[], || {}).unwrap();
    let (error, text) = message(graph.add(&[other], |recording| record(recording, &COUNT, &mut a)));
    assert!(matches!(error, Error::Graph(GraphError::OtherGraph)), "{text}");
    let (error, text) = message(graph.add(&[], |_| Ok(())));
    assert!(matches!(error, Error::Graph(GraphError::NoNode)), "{text}");
    let mut graph = graph.instantiate().unwrap();
    let (error, text) = message(graph.update(second, |recording| record(recording, &COUNT, &mut b)));
    assert!(matches!(error, Error::Graph(GraphError::Update { .. })), "{text}");
    let (error, text) = message(graph.update(first, |recording| record(recording, &COUNT, &mut b)));
    assert!(matches!(error, Error::Graph(GraphError::UpdateConflict { .. })), "{text}");
    let mut c = stream.zeroed::<u32>(1000).unwrap();
    graph.update(first, |recording| record(recording, &COUNT, &mut c)).unwrap();
    graph.launch(&stream).unwrap();
    let panic = message(stream.synchronize()).0;
    assert_eq!(panic.kernel_panic().unwrap().kernel, "warpsmith::simulated::panic");
    assert_eq!((stream.to_host(&a).unwrap(), stream.to_host(&c).unwrap()), (vec![0; 8], vec![1; 1000]));
});

simulated_test!(a_panic_in_a_graph_is_its_streams_to_report, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let mut memory = a.zeroed::<u32>(300).unwrap();
    let graph = a.capture(|recording| record(recording, &PANIC, &mut memory)).unwrap().instantiate().unwrap();
    for stream in [&a, &b, &a] {
        graph.launch(stream).unwrap();
        let (error, text) = message(stream.synchronize());
        assert_eq!(error.kernel_panic().unwrap().kernel, "warpsmith::simulated::panic", "{text}");
        stream.synchronize().unwrap();
    }
    // One that nobody has asked for is the device's, once graph and streams are gone.
    graph.launch(&b).unwrap();
    drop((graph, memory, b));
    let (error, text) = message(a.synchronize().and_then(|()| device.synchronize()));
    assert!(error.kernel_panic().is_some(), "{text}");
});

simulated_test!(constants_of_a_graphs_kernels_are_those_of_its_launch, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    let graph =
        stream.capture(|recording| record(recording, &ADD_CONSTANT, &mut memory)).unwrap().instantiate().unwrap();
    graph.launch(&stream).unwrap();
    device.set_constant(&STEP, &10).unwrap();
    graph.launch(&stream).unwrap();
    assert_eq!(stream.to_host(&memory).unwrap(), [11; 4]);
});

simulated_test!(host_functions_run_in_their_place_and_their_panics_are_told, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut graph = Graph::new(&device).unwrap();
    let note = |text: &'static str, after: &[crate::graph::GraphNode], graph: &mut Graph| {
        let seen = Arc::clone(&seen);
        graph.add_host(after, move || seen.lock().unwrap().push(text)).unwrap()
    };
    let first = note("first", &[], &mut graph);
    let counted = graph.add(&[first], |recording| record(recording, &COUNT, &mut memory)).unwrap();
    note("second", &[counted], &mut graph);
    graph.add_host(&[counted], || panic!("no {}", 7)).unwrap();
    let graph = graph.instantiate().unwrap();
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(*seen.lock().unwrap(), ["first", "second"]);
    let (error, text) = message(device.synchronize());
    assert!(matches!(error, Error::Graph(GraphError::HostPanic { .. })), "{text}");
    assert!(text.ends_with("panicked: no 7"), "{text}");
});

simulated_test!(a_graph_of_another_device_is_refused, "gpus=2", {
    let device = device();
    let other = Device::gpu(1).unwrap();
    let mut memory = device.stream().unwrap().zeroed::<u32>(4).unwrap();
    let stream = device.stream().unwrap();
    let graph = stream.capture(|recording| record(recording, &COUNT, &mut memory)).unwrap().instantiate().unwrap();
    let (error, text) = message(graph.launch(&other.stream().unwrap()));
    assert!(matches!(error, Error::Graph(GraphError::OtherDevice { .. })), "{text}");
    let (error, text) = message(stream.capture(|recording| graph.launch(recording)));
    assert!(matches!(error, Error::Graph(GraphError::NotRecorded { .. })), "{text}");
    graph.upload(&stream).unwrap();
    assert_eq!(calls(c"upload"), 1);
});

simulated_test!(a_graphs_launch_allocates_nothing, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    let graph = stream.capture(|recording| (0..32).try_for_each(|_| record(recording, &COUNT, &mut memory)));
    let graph = graph.unwrap().instantiate().unwrap();
    graph.launch(&stream).unwrap();
    assert_eq!(counted(|| (0..100).for_each(|_| graph.launch(&stream).unwrap())), 0);
    assert_eq!(stream.to_host(&memory).unwrap(), [101 * 32; 4]);
});

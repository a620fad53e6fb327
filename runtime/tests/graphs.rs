//! Graphs on every device: recorded and built, launched between other work, changed, and what cannot be recorded.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use warpsmith::prelude::*;
use warpsmith::{Error, Graph, GraphError};

mod common;
use common::{devices, kernel_devices, text};

#[kernel]
fn multiply_add(a: u32, b: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = y.wrapping_mul(a).wrapping_add(b);
    }
}

#[kernel]
fn add_into(x: &[u32], mut y: GridSliceMut<u32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = y.wrapping_add(x[i.get()]);
    }
}

#[kernel]
fn count(total: &AtomicU32) {
    total.fetch_add(1, Ordering::Relaxed);
}

#[kernel]
fn panics(x: &[u32]) {
    assert!(x[0] == 0, "the first is {}", x[0]);
}

#[kernel]
fn prints() {
    gpu_println!("hello");
}

const LEN: usize = 1000;

/// Waits for a future that is ready at once.
fn wait_for<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}

/// What cannot be recorded.
type Refused<'a> = &'a dyn Fn(&Stream) -> warpsmith::Result<()>;

fn config() -> LaunchConfig {
    LaunchConfig::for_len(LEN)
}

#[test]
fn case_i4_a_graph_keeps_its_arguments_alive() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut sum = stream.zeroed::<u32>(LEN).unwrap();
        let graph = {
            let x = stream.filled(3u32, LEN).unwrap();
            let mut y = stream.zeroed::<u32>(LEN).unwrap();
            stream
                .capture(|recording| {
                    y.fill(recording, 1)?;
                    multiply_add::launch(recording, config(), 2, 5, &mut y)?;
                    add_into::launch(recording, config(), &x, &mut y)?;
                    add_into::launch(recording, config(), &y, &mut sum)
                })
                .unwrap()
            // The graph alone has `x` and `y` now.
        };
        let graph = graph.instantiate().unwrap();
        graph.upload(&stream).unwrap();
        // What is allocated meanwhile does not get their memory.
        let others: Vec<_> = (0..10).map(|value| stream.filled(value, LEN).unwrap()).collect();
        for round in 1..=5 {
            graph.launch(&stream).unwrap();
            assert_eq!(stream.to_host(&sum).unwrap(), vec![10 * round; LEN], "{device}");
        }
        for (value, other) in others.iter().enumerate() {
            assert_eq!(stream.to_host(other).unwrap(), vec![value as u32; LEN], "{device}");
        }
    }
}

#[test]
fn case_i4_an_error_while_recording_leaves_the_stream_usable() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.zeroed::<u32>(LEN).unwrap();
        let (x, other) = (stream.zeroed::<u32>(LEN).unwrap(), device.stream().unwrap());
        let event = other.record().unwrap();
        let refused: [(&str, Refused<'_>); 10] = [
            ("a host task", &|recording| recording.host_task(|| {})),
            ("timing", &|recording| warpsmith::Timeline::new().watch(recording)),
            ("waiting for its work", &|recording| wait_for(recording.completed())),
            ("a synchronise", &|recording| recording.synchronize()),
            ("a copy to the host", &|recording| recording.to_host(&x).map(drop)),
            ("an allocation", &|recording| recording.to_device(&[1u32]).map(drop)),
            ("asking whether work is done", &|recording| recording.is_done().map(drop)),
            ("recording an event", &|recording| recording.record().map(drop)),
            ("waiting for an event", &|recording| recording.wait(&event)),
            ("2000 threads", &|recording| panics::launch(recording, LaunchConfig::new(1, 2000), &x)),
        ];
        for (what, refused) in refused {
            let error = stream
                .capture(|recording| {
                    multiply_add::launch(recording, config(), 1, 1, &mut y)?;
                    refused(recording)
                })
                .unwrap_err();
            assert!(text(error).contains(what), "{device}: {what}");
        }
        if device.is_gpu() {
            let error = stream.capture(|recording| prints::launch(recording, LaunchConfig::new(1, 1))).unwrap_err();
            assert!(text(error).contains("`graphs::prints` cannot be recorded"), "{device}");
        }
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            stream.capture(|recording| {
                multiply_add::launch(recording, config(), 1, 1, &mut y)?;
                panic!("while recording")
            })
        }));
        assert!(panicked.is_err());
        multiply_add::launch(&stream, config(), 1, 7, &mut y).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), vec![7; LEN], "{device}: nothing of what was recorded ran");
    }
}

#[test]
fn a_graph_and_other_work_on_several_streams_keep_their_order() {
    for device in kernel_devices() {
        for seed in 0..5u64 {
            let streams: Vec<Stream> = (0..3).map(|_| device.stream().unwrap()).collect();
            let mut y = streams[0].zeroed::<u32>(LEN).unwrap();
            let graph = streams[0]
                .capture(|recording| {
                    multiply_add::launch(recording, config(), 3, 1, &mut y)?;
                    multiply_add::launch(recording, config(), 5, 2, &mut y)
                })
                .unwrap()
                .instantiate()
                .unwrap();
            let mut expected = 0u32;
            let mut state = seed;
            for _ in 0..50 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let stream = &streams[(state >> 33) as usize % 3];
                match (state >> 40) % 4 {
                    0 => {
                        multiply_add::launch(stream, config(), 7, 3, &mut y).unwrap();
                        expected = expected.wrapping_mul(7).wrapping_add(3);
                    }
                    1 => {
                        y.copy_from_host(stream, &[seed as u32; LEN]).unwrap();
                        expected = seed as u32;
                    }
                    _ => {
                        graph.launch(stream).unwrap();
                        expected = expected.wrapping_mul(3).wrapping_add(1).wrapping_mul(5).wrapping_add(2);
                    }
                }
            }
            assert_eq!(streams[1].to_host(&y).unwrap(), vec![expected; LEN], "{device}, seed {seed}");
        }
    }
}

#[test]
fn threads_that_launch_graphs_and_kernels_on_the_same_memory_lose_nothing() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let total = stream.zeroed::<AtomicU32>(1).unwrap();
        let mut y = stream.zeroed::<u32>(LEN).unwrap();
        let graph = stream
            .capture(|recording| {
                count::launch(recording, LaunchConfig::new(2, 32), &total)?;
                multiply_add::launch(recording, config(), 1, 1, &mut y)
            })
            .unwrap()
            .instantiate()
            .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = device.stream().unwrap();
                    for round in 0..25 {
                        graph.launch(&stream).unwrap();
                        count::launch(&stream, LaunchConfig::new(1, 32), &total).unwrap();
                        if round % 8 == 0 {
                            let seen = stream.to_host(&y).unwrap();
                            // A reader never meets a half-done graph.
                            assert!(seen.iter().all(|&value| value == seen[0]), "{device}");
                        }
                    }
                    stream.synchronize().unwrap();
                });
            }
        });
        assert_eq!(stream.to_host(&y).unwrap(), vec![100; LEN], "{device}");
        let total = stream.to_host(&total).unwrap()[0].load(Ordering::Relaxed);
        assert_eq!(total, 100 * (64 + 32), "{device}");
    }
}

#[test]
fn a_graph_is_built_node_by_node_and_its_arguments_change() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let (mut y, mut z) = (stream.zeroed::<u32>(LEN).unwrap(), stream.zeroed::<u32>(LEN).unwrap());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut graph = Graph::new(&device).unwrap();
        let start = graph.add(&[], |recording| y.copy_from_host(recording, &[2; LEN])).unwrap();
        let scaled = graph.add(&[start], |recording| multiply_add::launch(recording, config(), 10, 1, &mut y)).unwrap();
        let copied = graph.add(&[scaled], |recording| z.copy_from_device(recording, &y)).unwrap();
        let seen = Arc::clone(&order);
        graph.add_host(&[copied], move || seen.lock().unwrap().push("end")).unwrap();
        let seen = Arc::clone(&order);
        // Two pieces in one call: each after the one before.
        let _both = graph
            .add(&[copied], |recording| {
                multiply_add::launch(recording, config(), 1, 100, &mut z)?;
                multiply_add::launch(recording, config(), 2, 0, &mut z)
            })
            .unwrap();
        graph.add_host(&[], move || seen.lock().unwrap().push("start")).unwrap();
        assert_eq!((graph.len(), graph.nodes().len()), (7, 7));
        let dot = graph.to_dot();
        for line in
            ["digraph {", "kernel `graphs::multiply_add`\\ngrid", "host function", "n0 -> n1", "copy of 4000 bytes"]
        {
            assert!(dot.contains(line), "{dot}");
        }
        let mut graph = graph.instantiate().unwrap();
        assert_eq!(graph.to_dot(), dot, "{device}");
        graph.launch(&stream).unwrap();
        assert_eq!(stream.to_host(&z).unwrap(), vec![242; LEN], "{device}");
        let mut seen = order.lock().unwrap().clone();
        seen.sort_unstable();
        assert_eq!(seen, ["end", "start"], "{device}");

        graph.update(scaled, |recording| multiply_add::launch(recording, config(), 20, 3, &mut y)).unwrap();
        graph.launch(&stream).unwrap();
        assert_eq!(stream.to_host(&z).unwrap(), vec![286; LEN], "{device}");
        // Another kernel, no launch, or several are no update.
        let error = graph.update(scaled, |recording| add_into::launch(recording, config(), &y, &mut z)).unwrap_err();
        assert!(matches!(error, Error::Graph(GraphError::Update { .. })), "{device}: {error}");
        let error = graph.update(copied, |recording| z.copy_from_device(recording, &y)).unwrap_err();
        assert!(matches!(error, Error::Graph(GraphError::Update { .. })), "{device}: {error}");
        let error = graph.update(scaled, |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Graph(GraphError::NoNode)), "{device}: {error}");
        graph.launch(&stream).unwrap();
        assert_eq!(stream.to_host(&z).unwrap(), vec![286; LEN], "{device}");
    }
}

#[test]
fn a_panic_in_a_graph_comes_back_each_time_and_the_graph_goes_on() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut x = stream.zeroed::<u32>(1).unwrap();
        let mut y = stream.zeroed::<u32>(LEN).unwrap();
        let graph = stream
            .capture(|recording| {
                panics::launch(recording, LaunchConfig::new(1, 32), &x)?;
                multiply_add::launch(recording, config(), 1, 1, &mut y)
            })
            .unwrap()
            .instantiate()
            .unwrap();
        for round in 1..=4u32 {
            let bad = round % 2;
            x.copy_from_host(&stream, &[bad]).unwrap();
            graph.launch(&stream).unwrap();
            let result = stream.synchronize();
            if bad == 0 {
                result.unwrap();
            } else {
                let error = result.unwrap_err();
                let panic = error.kernel_panic().unwrap();
                assert_eq!((panic.kernel.as_str(), panic.message.as_str()), ("graphs::panics", "the first is 1"));
            }
            assert_eq!(stream.to_host(&y).unwrap(), vec![round; LEN], "{device}: the nodes after it run");
        }
    }
}

/// Without kernels, so that it runs on a GPU in each package that has this file.
#[test]
fn copies_and_host_functions_go_in_order_on_every_device() {
    for device in devices() {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let len = 3_000_001;
        let (mut x, mut y) = (stream.zeroed::<u32>(len).unwrap(), stream.zeroed::<u32>(len).unwrap());
        let calls = Arc::new(AtomicU32::new(0));
        let mut graph = Graph::new(&device).unwrap();
        let filled = graph.add(&[], |recording| x.fill(recording, 7)).unwrap();
        let part = graph.add(&[filled], |recording| x.slice_mut(10..13).copy_from_host(recording, &[1, 2, 3])).unwrap();
        let copied = graph.add(&[part], |recording| y.copy_from_device(recording, &x)).unwrap();
        let seen = Arc::clone(&calls);
        graph.add_host(&[copied], move || _ = seen.fetch_add(1, Ordering::Relaxed)).unwrap();
        let graph = graph.instantiate().unwrap();
        graph.upload(&other).unwrap();
        let mut expected = vec![7; len];
        expected[10..13].copy_from_slice(&[1, 2, 3]);
        for round in 1..=4u32 {
            y.fill(&stream, round).unwrap();
            x.fill(&other, round).unwrap();
            let on = if round % 2 == 0 { &stream } else { &other };
            graph.launch(on).unwrap();
            assert_eq!(stream.to_host(&y).unwrap(), expected, "{device}");
            assert_eq!(stream.to_host(&x).unwrap(), expected, "{device}");
            on.synchronize().unwrap();
            assert_eq!(calls.load(Ordering::Relaxed), round, "{device}");
        }
        drop((x, y));
        graph.launch(&stream).unwrap();
        drop(graph);
        assert_eq!(calls.load(Ordering::Relaxed), 5, "{device}: what runs is waited for");
        let mut graph = Graph::new(&device).unwrap();
        graph.add_host(&[], || panic!("of the host")).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(text(device.synchronize().unwrap_err()).contains("a host function of a graph panicked: of the host"));
    }
}

#[test]
fn nothing_to_do_is_a_graph_too() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut y = stream.zeroed::<u32>(0).unwrap();
        let graph = stream
            .capture(|recording| multiply_add::launch(recording, LaunchConfig::for_len(0), 1, 1, &mut y))
            .unwrap();
        assert!(graph.is_empty());
        let graph = graph.instantiate().unwrap();
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn memory_that_the_host_reaches_is_not_for_graphs() {
    // The host may hold a slice of it while the graph is launched, which borrows nothing.
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let mut mapped = stream.mapped::<u32>(LEN).unwrap();
        let refused = stream.capture(|recording| multiply_add::launch(recording, config(), 1, 1, &mut mapped));
        assert!(text(refused.map(drop).unwrap_err()).contains("memory that a graph cannot use"), "{device}");
        let mut y = stream.zeroed::<u32>(LEN).unwrap();
        let refused = stream.capture(|recording| add_into::launch(recording, config(), &mapped, &mut y));
        assert!(text(refused.map(drop).unwrap_err()).contains("memory that a graph cannot use"), "{device}");
        assert_eq!(mapped.as_host().unwrap(), [0; LEN]);
    }
}

#[test]
fn fills_of_every_width_are_recorded() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (mut bytes, mut halves) = (stream.zeroed::<u8>(LEN).unwrap(), stream.zeroed::<i16>(LEN).unwrap());
        let (mut words, mut wide) = (stream.zeroed::<f32>(LEN).unwrap(), stream.zeroed::<u64>(LEN).unwrap());
        let graph = stream
            .capture(|recording| {
                bytes.slice_mut(1..).fill(recording, 0xab)?;
                halves.slice_mut(3..900).fill(recording, -2)?;
                words.fill(recording, 1.5)?;
                wide.fill(recording, 1 << 40)
            })
            .unwrap();
        assert!(graph.to_dot().contains("fill of 999 bytes"), "{}", graph.to_dot());
        assert_eq!(stream.to_host(&words).unwrap(), [0.0; LEN]);
        graph.instantiate().unwrap().launch(&stream).unwrap();
        let found = stream.to_host(&bytes).unwrap();
        assert!(found[0] == 0 && found[1..].iter().all(|&byte| byte == 0xab), "{device}");
        let found = stream.to_host(&halves).unwrap();
        assert!(found[2] == 0 && found[900] == 0 && found[3..900].iter().all(|&half| half == -2), "{device}");
        assert_eq!(stream.to_host(&words).unwrap(), [1.5; LEN], "{device}");
        assert_eq!(stream.to_host(&wide).unwrap(), [1 << 40; LEN], "{device}");
    }
}

#[test]
fn a_buffer_of_a_graph_keeps_its_type_and_its_owner() {
    use warpsmith::exchange::dlpack::Form;
    use warpsmith::exchange::{ExchangeError, ExchangeStream, Tensor, TensorLayout};

    for device in devices() {
        let stream = device.stream().unwrap();
        let mut words = stream.zeroed::<u32>(LEN).unwrap();
        let graph = stream.capture(|recording| words.fill(recording, 7)).unwrap().instantiate().unwrap();
        let refused = words.into_cast::<f32>().unwrap_err();
        assert!(refused.error().to_string().contains("a graph uses the buffer of `u32`"), "{refused}");
        let words = refused.into_buffer().unwrap();
        let tensor = Tensor::new(words, TensorLayout::contiguous(&[LEN]).unwrap()).unwrap();
        let refused = tensor.into_dlpack(ExchangeStream::UNORDERED, Form::Versioned).unwrap_err();
        let warpsmith::exchange::Refused { error, value: tensor } = *refused;
        assert!(matches!(error, Error::Exchange(ExchangeError::InGraph)), "{error:?}");
        graph.launch(&stream).unwrap();
        assert_eq!(tensor.to_host(&stream).unwrap(), [7; LEN], "{device}");

        // The other way round: what another library has is not for graphs.
        let shared = Arc::new(stream.zeroed::<u32>(LEN).unwrap());
        let mut copy = stream.zeroed::<u32>(LEN).unwrap();
        let tensor = Tensor::shared(Arc::clone(&shared), TensorLayout::contiguous(&[LEN]).unwrap()).unwrap();
        let exported = tensor.into_dlpack(ExchangeStream::UNORDERED, Form::Versioned).unwrap();
        let recorded = stream.capture(|recording| copy.copy_from_device(recording, &*shared));
        assert!(text(recorded.map(drop).unwrap_err()).contains("memory"), "{device}");
        drop(exported);
    }
}

#[test]
fn a_host_function_that_uses_a_device_is_refused_and_does_not_hang() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut words = stream.zeroed::<u32>(LEN).unwrap();
        let mut graph = Graph::new(&device).unwrap();
        let filled = graph.add(&[], |recording| words.fill(recording, 7)).unwrap();
        let (told, other) = (Arc::new(Mutex::new(None)), device.stream().unwrap());
        let (tell, words) = (Arc::clone(&told), Arc::new(words));
        let seen = Arc::clone(&words);
        graph
            .add_host(&[filled], move || {
                let outcome = other.to_host(&*seen).map(drop).map_err(text);
                *tell.lock().unwrap() = Some(outcome);
            })
            .unwrap();
        let graph = graph.instantiate().unwrap();
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        let outcome = told.lock().unwrap().take().expect("the function was called");
        assert!(outcome.unwrap_err().contains("must not use devices"), "{device}");
        assert_eq!(stream.to_host(&*words).unwrap(), [7; LEN], "{device}");
        // What the function owns, the graph's handles too, may go in a host task.
        graph.launch(&stream).unwrap();
        stream.host_task(move || drop(graph)).unwrap();
        stream.synchronize().unwrap();
        device.synchronize().unwrap();
    }
}

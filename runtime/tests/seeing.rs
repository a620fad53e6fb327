//! What can be seen of a stream's work: timelines, spans of `tracing`, ranges of NVTX.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use warpsmith::prelude::*;
use warpsmith::{Error, StreamError, Timeline, WorkKind, nvtx};

mod common;
use common::{kernel_devices, text};

#[kernel]
fn scale(factor: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = factor * x[i.get()];
    }
}

#[kernel]
fn spin(rounds: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        for _ in 0..rounds {
            *y = y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
    }
}

/// Held for writing by the test that looks at spans: `tracing` asks whether anybody wants a span once, on the thread that comes to it
/// first, and that must be a thread which does.
static SPANS: RwLock<()> = RwLock::new(());

#[test]
fn a_timeline_keeps_launches_and_copies_in_order() {
    let _others = SPANS.read().unwrap_or_else(PoisonError::into_inner);
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let timeline = Timeline::new();
        timeline.watch(&stream).unwrap();
        timeline.watch(&stream).unwrap();
        let x = stream.to_device(&[1.0f32; 1000]).unwrap();
        let mut y = stream.zeroed::<f32>(1000).unwrap();
        let config = LaunchConfig::new(8, 128);
        scale::launch(&stream, config, 2.0, &x, &mut y).unwrap();
        scale::launch(&stream, config, 3.0, &x, y.slice_mut(..500)).unwrap();
        scale::launch(&stream, LaunchConfig::for_len(0), 3.0, &x, &mut y).unwrap();
        let host = stream.to_host(&y).unwrap();
        assert_eq!((host[0], host[999]), (3.0, 2.0));

        let report = timeline.report().unwrap();
        let launches: Vec<_> = report.entries().iter().filter(|entry| entry.kind == WorkKind::Launch).collect();
        assert_eq!(launches.len(), 2, "an empty launch is no work: {report:?}");
        for (launch, bytes) in launches.iter().zip([8000, 6000]) {
            assert!(launch.name.ends_with("::scale"), "{}", launch.name);
            assert_eq!(launch.bytes, bytes);
            assert_eq!((launch.grid.unwrap(), launch.block.unwrap()), (config.grid_dim(), config.block_dim()));
            assert_eq!(launch.device, device.to_string());
        }
        let copies: Vec<_> = report
            .entries()
            .iter()
            .filter(|entry| matches!(entry.kind, WorkKind::CopyToDevice | WorkKind::CopyToHost))
            .map(|entry| (entry.kind, entry.bytes))
            .collect();
        assert_eq!(copies, [(WorkKind::CopyToDevice, 4000), (WorkKind::CopyToHost, 4000)], "{device}");
        for pair in report.entries().windows(2) {
            assert!(pair[0].start <= pair[1].start && pair[0].start <= pair[0].end);
            assert!(pair[0].end <= pair[1].start + std::time::Duration::from_micros(2), "one stream: {pair:?}");
        }
        let bandwidth = report.copy_bandwidths()[&device.to_string()];
        assert!(bandwidth > 1e8, "{bandwidth}");
        let table = report.to_string();
        assert!(table.contains("::scale") && table.contains("share of copy"), "{table}");
        println!("{table}");
    }
}

#[test]
fn times_are_those_of_the_work() {
    let _others = SPANS.read().unwrap_or_else(PoisonError::into_inner);
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let timeline = Timeline::new();
        timeline.watch(&stream).unwrap();
        let mut y = stream.zeroed::<u32>(32).unwrap();
        let rounds = if device.is_cpu() { 20_000 } else { 2_000_000 };
        spin::launch(&stream, LaunchConfig::new(1, 32), rounds, &mut y).unwrap();
        spin::launch(&stream, LaunchConfig::new(1, 32), 4 * rounds, &mut y).unwrap();
        let spins = timeline.report().unwrap().kernels().into_iter().find(|kernel| kernel.name.ends_with("::spin"));
        let spins = spins.unwrap();
        assert!(spins.launches == 2 && spins.shortest > std::time::Duration::ZERO, "{spins:?}");
        if device.is_gpu() {
            // The executor shares its cores with whatever else runs, so that its times say less.
            let ratio = spins.longest.as_secs_f64() / spins.shortest.as_secs_f64();
            assert!((3.0..5.0).contains(&ratio), "{spins:?}");
        }
    }
}

#[test]
fn a_report_holds_what_came_before_it_and_the_next_one_more() {
    let _others = SPANS.read().unwrap_or_else(PoisonError::into_inner);
    let stream = Device::cpu().stream().unwrap();
    let timeline = Timeline::new();
    let before = stream.to_device(&[0u8; 10]).unwrap();
    assert!(timeline.report().unwrap().entries().is_empty());
    timeline.watch(&stream).unwrap();
    stream.to_host(&before).unwrap();
    assert_eq!(timeline.report().unwrap().entries().len(), 1);
    stream.to_host(&before).unwrap();
    assert_eq!(timeline.report().unwrap().entries().len(), 2);

    // One timeline at a time; a dropped one makes room.
    let other = Timeline::new();
    let refused = other.watch(&stream).unwrap_err();
    assert!(matches!(refused, Error::Stream(StreamError::Watched)), "{refused:?}");
    assert!(text(refused).contains("watched by another timeline"));
    drop(timeline);
    stream.to_host(&before).unwrap();
    other.watch(&stream).unwrap();
    stream.to_host(&before).unwrap();
    assert_eq!(other.report().unwrap().entries().len(), 1);
}

#[test]
fn several_streams_and_threads_share_a_timeline() {
    let _others = SPANS.read().unwrap_or_else(PoisonError::into_inner);
    for device in kernel_devices() {
        let timeline = Timeline::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = device.stream().unwrap();
                    timeline.watch(&stream).unwrap();
                    let mut y = stream.zeroed::<u32>(1000).unwrap();
                    for _ in 0..50 {
                        spin::launch(&stream, LaunchConfig::for_len(1000), 10, &mut y).unwrap();
                    }
                    stream.synchronize().unwrap();
                });
            }
        });
        let report = timeline.report().unwrap();
        let mut streams: Vec<u64> = report.entries().iter().map(|entry| entry.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        assert_eq!(streams.len(), 4);
        let launches = report.entries().iter().filter(|entry| entry.kind == WorkKind::Launch).count();
        assert_eq!(launches, 200, "{device}");
        let path = std::env::temp_dir().join(format!("warpsmith-trace-{}.json", std::process::id()));
        report.write_chrome_trace(&path).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(written, report.chrome_trace());
        assert_eq!(written.matches("\"cat\":\"kernel\"").count(), 400, "each on its stream's row and its thread's");
    }
}

/// Keeps the spans that are begun, with their fields as text.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == "warpsmith::work"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {}={value:?}", field.name());
            }
        }
        let mut text = Text(span.metadata().name().to_owned());
        span.record(&mut text);
        let mut spans = self.0.lock().unwrap();
        spans.push(text.0);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[test]
fn launches_and_copies_are_spans() {
    let _alone = SPANS.write().unwrap_or_else(PoisonError::into_inner);
    for device in kernel_devices() {
        let spans = Spans::default();
        let stream = device.stream().unwrap();
        let x = stream.zeroed::<f32>(1000).unwrap();
        let mut y = stream.zeroed::<f32>(1000).unwrap();
        tracing::subscriber::with_default(spans.clone(), || {
            // Another test's thread has noted that nobody looks.
            tracing::callsite::rebuild_interest_cache();
            scale::launch(&stream, LaunchConfig::new(8, 128).with_shared_bytes(64), 2.0, &x, &mut y).unwrap();
            stream.to_host(&y).unwrap();
        });
        let spans = spans.0.lock().unwrap().clone();
        assert_eq!(spans.len(), 2, "{device}: {spans:?}");
        for part in ["launch kernel=", "::scale", "x: 8", "x: 128", "shared_bytes=64", "bytes=8000"] {
            assert!(spans[0].contains(part), "{part}: {}", spans[0]);
        }
        assert_eq!(spans[1], "copy kind=\"copy to the host\" bytes=4000");
    }
}

/// What the tool was told by this test's own program, run again as `child` with the tool in it.
fn told(tool: &Path, knows: &str) -> Vec<String> {
    let log = tool.with_extension(format!("{knows}.log"));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_with_ranges", "--ignored", "--nocapture"])
        .env("NVTX_INJECTION64_PATH", tool)
        .env("NVTX_TOOL_KNOWS", knows)
        .env("NVTX_TOOL_LOG", &log)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "run by `profilers_see_ranges` with a tool"]
fn child_with_ranges() {
    let knows = std::env::var("NVTX_TOOL_KNOWS").unwrap_or_default();
    assert_eq!(nvtx::is_active(), matches!(&*knows, "domains" | "core"));
    let stream = Device::cpu().stream().unwrap();
    let x = stream.zeroed::<f32>(100).unwrap();
    let mut y = stream.zeroed::<f32>(100).unwrap();
    {
        let _range = nvtx::range("outer \0 cut");
        scale::launch(&stream, LaunchConfig::for_len(100), 2.0, &x, &mut y).unwrap();
    }
    nvtx::mark("done");
}

#[test]
fn profilers_see_ranges() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if Command::new(&rustc).arg("--version").output().is_err() {
        println!("SKIPPED: no rustc to build the tool with");
        return;
    }
    let folder = std::env::temp_dir().join(format!("warpsmith-nvtx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tool: PathBuf = folder.join("libtool.so");
    // From this package's folder, or from that of the tests with kernels.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/nvtx_tool/tool.rs");
    let source = root.canonicalize().expect("the tool's source lies beside the tests");
    let built =
        Command::new(rustc).args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).arg(&tool).arg(source).output();
    let built = built.expect("rustc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let lines = told(&tool, "domains");
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert_eq!(lines[..2], ["domain warpsmith", "push outer "]);
    assert!(lines[2].starts_with("push ") && lines[2].ends_with("::scale"), "{lines:?}");
    assert_eq!(lines[3..], ["pop", "pop", "mark done"]);
    let lines = told(&tool, "core");
    assert_eq!(lines.first().unwrap(), "core push outer ");
    assert_eq!(lines[2..], ["core pop", "core pop", "core mark done"]);
    assert!(told(&tool, "nothing").is_empty(), "a tool that refuses is told nothing");
    std::fs::remove_dir_all(folder).unwrap();
}

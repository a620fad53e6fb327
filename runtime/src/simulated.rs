//! Tests of the GPU's side against a simulated driver, `tests/simulated_driver/libcuda.rs`, on any machine with `rustc`.
//!
//! A process opens one driver, so each test runs itself again as a child process that finds the simulated library first.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use warpsmith_build::bundle::{
    Bundle, ConstantKey, ConstantRecord, Image, KernelKey, KernelRecord, MessageFormat, ParamRecord, frame,
};
use warpsmith_device::GridSliceMut;
use warpsmith_device::abi::{KernelDesc, KernelOptions, KernelParam, ParamDesc};

use crate::kernel::KernelInstance;
use crate::launch::Launch;
use crate::prelude::*;
use crate::{
    ComputeMode, ContextLimit, DeviceAttribute, DeviceError, DeviceInfo, DeviceUuid, Error, LaunchError, MemoryError,
    ModuleError, Result, StreamError, driver_version, registry,
};

/// Set in the child processes.
const CHILD: &str = "WARPSMITH_SIMULATED_CHILD";

/// The folder with the simulated library; `None` where there is no `rustc` to build it.
fn library() -> Option<&'static Path> {
    static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated_driver/libcuda.rs");
        let folder = std::env::temp_dir().join(format!("warpsmith-simulated-driver-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let built = Command::new(rustc)
            .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
            .arg(folder.join("libcuda.so"))
            .arg(source)
            .output()
            .ok()?;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(folder)
    });
    FOLDER.as_deref()
}

/// Runs `test` in a process of its own, under a simulated driver set up by `settings`; `name` is the test's path.
fn simulated(name: &str, settings: &str, test: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        test();
        return;
    }
    let Some(folder) = library() else {
        eprintln!("skipped: no rustc to build the simulated driver with");
        return;
    };
    child(name, folder.as_os_str(), settings);
}

/// `settings` may begin with a value for `WARPSMITH_DEVICE`, or with another variable and its value as `NAME=VALUE`, up to a `|`.
fn child(name: &str, library_path: &std::ffi::OsStr, settings: &str) {
    let (choice, settings) = settings.split_once('|').map_or((None, settings), |(choice, rest)| (Some(choice), rest));
    let variable = choice.map(|choice| choice.split_once('=').unwrap_or(("WARPSMITH_DEVICE", choice)));
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let output = Command::new(std::env::current_exe().expect("this test's own program"))
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", library_path)
        .env("SIMULATED_CUDA", settings)
        .env_remove("WARPSMITH_DEVICE")
        .env_remove("WARPSMITH_LAUNCH_BLOCKING")
        .envs(variable)
        .env_remove("CUDA_VISIBLE_DEVICES")
        .output()
        .expect("this test's own program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}\n{errors}", output.status);
}

macro_rules! simulated_test {
    ($(#[$attribute:meta])* $name:ident, $settings:literal, $body:block) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            simulated(concat!(module_path!(), "::", stringify!($name)), $settings, || $body);
        }
    };
}

mod cudarc;
mod exchange;
mod failures;
mod foreign;
mod graphs;
mod kernels;
mod lines;
mod memory;
mod panics;
mod seeing;

/// A function of the simulated library.
fn control<F: Copy>(name: &CStr) -> F {
    // SAFETY: the callers give the type that the function has in the simulated library's source.
    unsafe {
        *::cudarc::driver::sys::culib().get::<F>(name.to_bytes_with_nul()).expect("the driver is the simulated one")
    }
}

fn hold(on: bool) {
    control::<extern "C" fn(u32)>(c"simulated_hold")(u32::from(on));
}

/// Has a stream say that its work is being captured.
fn capturing(stream: &Stream, on: bool) {
    let handle = stream.as_cudarc().unwrap().cu_stream().addr();
    control::<extern "C" fn(usize, u32)>(c"simulated_capturing")(handle, u32::from(on));
}

fn calls(kind: &CStr) -> u64 {
    // SAFETY: the text is NUL-terminated.
    unsafe { control::<unsafe extern "C" fn(*const std::ffi::c_char) -> u64>(c"simulated_calls")(kind.as_ptr()) }
}

fn allocated() -> u64 {
    control::<extern "C" fn() -> u64>(c"simulated_bytes")()
}

type Param = GridSliceMut<'static, u32>;

const PARAMS: &[ParamDesc] = &[<Param as KernelParam>::DESC];

macro_rules! kernels {
    ($($name:ident, $text:literal;)*) => {$(
        static $name: KernelDesc =
            KernelDesc::new($text, "warpsmith::simulated", "src/simulated.rs", 1, 1, KernelOptions::NONE, PARAMS);
    )*};
}
kernels! {
    COUNT, "count";
    PANIC, "panic";
    PANIC_LATE, "panic_late";
    PANIC_LOST, "panic_lost";
    MEET, "meet";
    TOO_NEW, "too_new";
    BROKEN, "broken";
    NEWER_GPU, "newer_gpu";
    OTHER_LAYOUT, "other_layout";
    RECURSIVE, "recursive";
    PRINT, "print";
    PRINT_HALF, "print_half";
    SYNC, "sync";
    FAULT, "fault";
    ABSENT, "absent";
    ADD_CONSTANT, "add_constant";
    WRONG_CONSTANT, "wrong_constant";
}

constant! {
    static STEP: u32 = 1;
    static OTHER_STEP: u64 = 1;
}

/// A kernel that adds a constant, with the constant as metadata has it.
fn with_constant(name: &str, constant: &Constant<impl KernelValue>) -> KernelRecord {
    let desc = constant.desc();
    let key = ConstantKey {
        module_path: desc.module_path.get().to_owned(),
        name: desc.name.get().to_owned(),
        file: desc.file.get().to_owned(),
        line: desc.line,
        column: desc.column,
    };
    let constant =
        ConstantRecord { key, symbol: "variable".to_owned(), size: 4, align: 4, layout: <u32 as KernelValue>::LAYOUT };
    KernelRecord { entry: "add_variable".to_owned(), constants: vec![constant], ..record(name, "good") }
}

fn record(name: &str, ptx: &str) -> KernelRecord {
    let key = KernelKey {
        module_path: "warpsmith::simulated".to_owned(),
        name: name.to_owned(),
        file: "src/simulated.rs".to_owned(),
        line: 1,
        column: 1,
        instance: "instance".to_owned(),
    };
    let [desc] = PARAMS else { unreachable!() };
    let param = ParamRecord {
        kind: desc.kind as u32,
        align: desc.align,
        size: desc.size,
        extent_size: desc.extent_size,
        layout: desc.layout,
    };
    let bounds = MessageFormat {
        format: "index out of bounds: the len is {0} but the index is {1}".to_owned(),
        types: vec![<usize as Printable>::TYPE.0; 2],
    };
    KernelRecord {
        key,
        entry: name.to_owned(),
        params: vec![param],
        sites: vec![MessageFormat::default(), bounds],
        images: vec![Image { architecture: 80, ptx_version: 70, along_x: false, ptx: ptx.to_owned() }],
        ..KernelRecord::default()
    }
}

/// A device with the kernels of these tests.
fn device() -> Device {
    let mut newer_gpu = record("newer_gpu", "good");
    newer_gpu.images[0].architecture = 100;
    let mut other_layout = record("other_layout", "good");
    other_layout.params[0].size = 8;
    let recursive = KernelRecord { entry: "count".to_owned(), unbounded_stack: true, ..record("recursive", "good") };
    let print = |name: &str| KernelRecord {
        prints: vec![MessageFormat { format: "element {0:>3}\n".to_owned(), types: vec![<u32 as Printable>::TYPE.0] }],
        ..record(name, "good")
    };
    let sync = KernelRecord { syncs_grid: true, ..record("sync", "good") };
    let kernels = vec![
        print("print"),
        print("print_half"),
        sync,
        record("count", "good"),
        record("panic", "good"),
        record("panic_late", "good"),
        record("panic_lost", "good"),
        record("meet", "good"),
        record("fault", "good"),
        record("too_new", "too new"),
        record("broken", "broken"),
        newer_gpu,
        other_layout,
        recursive,
        with_constant("add_constant", &STEP),
        with_constant("wrong_constant", &OTHER_STEP),
    ];
    let bundle = Bundle { target: "lib warpsmith".to_owned(), kernels, ..Bundle::default() };
    registry::INSTEAD.get_or_init(|| frame(&bundle.encode()));
    Device::gpu(0).expect("the simulated driver has a GPU")
}

fn launch(stream: &Stream, desc: &'static KernelDesc, memory: &mut DeviceBuffer<u32>) -> Result<()> {
    launch_with(stream, desc, LaunchConfig::for_len(memory.len()), memory)
}

fn launch_with(
    stream: &Stream,
    desc: &'static KernelDesc,
    config: LaunchConfig,
    memory: &mut DeviceBuffer<u32>,
) -> Result<()> {
    let mut launch = Launch::new(stream, config, &instance(desc))?;
    let raw = launch.bind::<Param, _>(memory)?;
    launch.run(&|each| Param::arguments(&raw, each), &|_, _, _| unreachable!("the device is a GPU"))
}

/// The instance of a kernel that these tests launch.
fn instance(desc: &'static KernelDesc) -> KernelInstance<()> {
    KernelInstance::new(desc, "instance", &[], ())
}

fn message<T>(result: Result<T>) -> (Error, String) {
    let Err(error) = result else { panic!("it worked") };
    let text = format!("{error:?}");
    (error, text)
}

simulated_test!(a_kernel_runs_and_its_results_come_back, "", {
    let device = device();
    assert_eq!((device.name(), device.ordinal(), device.limits().warp_size), ("Simulated GPU", Some(0), 32));
    assert_eq!(device.capability().unwrap().architecture(), 90);
    assert!(Device::new().unwrap() == device, "one GPU, opened twice, is one device");
    let stream = device.stream().unwrap();
    for len in [0usize, 1, 255, 256, 257, 10_000] {
        let numbers: Vec<u32> = (0..u32::try_from(len).unwrap()).collect();
        let mut memory = stream.to_device(&numbers).unwrap();
        launch(&stream, &COUNT, &mut memory).unwrap();
        launch(&stream, &COUNT, &mut memory).unwrap();
        let expected: Vec<u32> = numbers.iter().map(|number| number + 2).collect();
        assert_eq!(stream.to_host(&memory).unwrap(), expected);
    }
    assert_eq!(calls(c"load"), 1, "the module is loaded once");
    // Dynamic shared memory is allowed up to what the device has, less the kernel's own 1 KiB.
    assert_eq!(calls(c"function attribute 8 = 231424"), 1);
});

simulated_test!(one_stream_needs_no_event, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(100).unwrap();
    let before = calls(c"event");
    for _ in 0..100 {
        launch(&stream, &COUNT, &mut memory).unwrap();
    }
    assert_eq!(stream.to_host(&memory).unwrap(), [100; 100]);
    drop(memory);
    assert_eq!((calls(c"event"), calls(c"wait")), (before, 0));
});

simulated_test!(a_use_on_another_stream_comes_after_those_before_it, "", {
    let device = device();
    let streams: Vec<Stream> = (0..4).map(|_| device.stream().unwrap()).collect();
    let mut memory = streams[0].to_device(&[0u32; 64]).unwrap();
    for round in 0..50 {
        launch(&streams[(round * 7) % 4], &COUNT, &mut memory).unwrap();
    }
    assert_eq!(streams[3].to_host(&memory).unwrap(), [50; 64]);
    // Many readers, then a writer, then a reader.
    let copies: Vec<DeviceBuffer<u32>> = streams
        .iter()
        .map(|stream| {
            let mut copy = stream.zeroed::<u32>(64).unwrap();
            copy.copy_from_device(stream, &memory).unwrap();
            copy
        })
        .collect();
    launch(&streams[1], &COUNT, &mut memory).unwrap();
    for (stream, copy) in streams.iter().zip(&copies) {
        assert_eq!(stream.to_host(copy).unwrap(), [50; 64]);
    }
    assert_eq!(streams[2].to_host(&memory).unwrap(), [51; 64]);
    // One event a stream at most, however often work crosses.
    assert!(calls(c"event") <= 4, "{}", calls(c"event"));
});

simulated_test!(halves_of_a_buffer_on_two_streams, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let mut memory = a.to_device(&[5u32; 10]).unwrap();
    let (mut left, mut right) = memory.split_at_mut(4);
    left.fill(&a, 1).unwrap();
    right.copy_from_host(&b, &[2; 6]).unwrap();
    assert_eq!(a.to_host(&memory).unwrap(), [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    // What one half was last used for is waited for when all of it is freed.
    let (left, _) = memory.split_at_mut(4);
    let mut copy = b.zeroed::<u32>(4).unwrap();
    copy.copy_from_device(&b, &left).unwrap();
    drop(memory);
    a.synchronize().unwrap();
    assert_eq!(b.to_host(&copy).unwrap(), [1; 4]);
});

simulated_test!(memory_is_freed_after_its_last_use_on_any_stream, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    hold(true);
    let mut memory = a.zeroed::<u32>(1000).unwrap();
    let mut copy = b.zeroed::<u32>(1000).unwrap();
    launch(&a, &COUNT, &mut memory).unwrap();
    copy.copy_from_device(&b, &memory).unwrap();
    drop(memory);
    assert_eq!(allocated(), 8000, "the kernel has not run, so nothing is freed");
    hold(false);
    assert_eq!(b.to_host(&copy).unwrap(), [1; 1000]);
    a.synchronize().unwrap();
    b.synchronize().unwrap();
    assert_eq!(allocated(), 4000);
    drop(copy);
    b.synchronize().unwrap();
    assert_eq!(allocated(), 0);
});

simulated_test!(memory_is_freed_after_uses_on_streams_that_were_not_the_last_to_begin, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let memory = a.to_device(&[7u32; 1000]).unwrap();
    let (mut of_a, mut of_b) = (a.zeroed::<u32>(1000).unwrap(), b.zeroed::<u32>(1000).unwrap());
    let mut busy = a.zeroed::<u32>(10).unwrap();
    of_b.copy_from_device(&b, &memory).unwrap();
    launch(&a, &COUNT, &mut busy).unwrap();
    of_a.copy_from_device(&a, &memory).unwrap();
    drop(memory);
    assert_eq!(b.to_host(&of_b).unwrap(), [7; 1000]);
    assert_eq!(a.to_host(&of_a).unwrap(), [7; 1000]);
});

simulated_test!(without_pools_memory_is_freed_after_its_last_use_too, "pools=0", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(1000).unwrap();
    launch(&stream, &COUNT, &mut memory).unwrap();
    drop(memory);
    assert_eq!(allocated(), 0);
    stream.synchronize().unwrap();
});

simulated_test!(streams_and_devices_may_be_dropped_before_buffers, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &COUNT, &mut memory).unwrap();
    drop(stream);
    drop(device);
    let other = std::thread::spawn(move || {
        let stream = memory.device().stream().unwrap();
        let result = stream.to_host(&memory).unwrap();
        drop(stream);
        drop(memory);
        result
    });
    assert_eq!(other.join().unwrap(), [1; 10]);
    assert_eq!(calls(c"release"), 1, "the primary context is given back once nothing uses it");
});

simulated_test!(a_panic_comes_back_with_all_of_it_and_the_stream_goes_on, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(300).unwrap();
    for _ in 0..3 {
        launch(&stream, &PANIC, &mut memory).unwrap();
        launch(&stream, &PANIC, &mut memory).unwrap();
        let (error, text) = message(stream.synchronize());
        let panic = error.kernel_panic().unwrap();
        assert_eq!(panic.message, "index out of bounds: the len is 3 but the index is 300");
        assert_eq!((panic.file.as_str(), panic.line, panic.column), ("src/simulated.rs", 12, 34));
        assert_eq!((panic.block, panic.thread), (Dim3::new(1, 0, 0), Dim3::new(5, 0, 0)));
        assert_eq!(panic.kernel, "warpsmith::simulated::panic");
        assert!(text.contains("src/simulated.rs:12:34 in block (1, 0, 0), thread (5, 0, 0)"), "{text}");
        stream.synchronize().unwrap();
        launch(&stream, &COUNT, &mut memory).unwrap();
    }
    assert_eq!(stream.to_host(&memory).unwrap(), [3; 300]);
});

simulated_test!(panics_of_streams_stay_apart_and_follow_the_data, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let mut of_a = a.zeroed::<u32>(10).unwrap();
    let of_b = b.zeroed::<u32>(10).unwrap();
    launch(&a, &PANIC, &mut of_a).unwrap();
    b.synchronize().unwrap();
    assert_eq!(b.to_host(&of_b).unwrap(), [0; 10]);
    // Reading what the kernel left unfinished reports it, on whichever stream.
    assert!(b.to_host(&of_a).unwrap_err().kernel_panic().is_some());
    a.synchronize().unwrap();
});

simulated_test!(a_panic_on_a_dropped_stream_is_reported_by_the_device, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    hold(true);
    launch(&stream, &PANIC, &mut memory).unwrap();
    drop((stream, memory));
    hold(false);
    assert!(device.synchronize().unwrap_err().kernel_panic().is_some());
    device.synchronize().unwrap();
});

/// A line's block, thread and text, and how many were lost.
type Line = (u32, u32, String, u64);

/// Has a stream's lines kept.
fn keep(stream: &Stream) -> Arc<Mutex<Vec<Line>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    stream.set_output_sink(move |line| {
        assert_eq!(line.kernel, "warpsmith::simulated::print");
        kept.lock().unwrap().push((line.block.x, line.thread.x, line.text.to_owned(), line.lost));
    });
    lines
}

simulated_test!(lines_are_read_from_a_buffer_that_only_kernels_that_print_have, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let lines = keep(&stream);
    let mut memory = stream.zeroed::<u32>(257).unwrap();
    let before = calls(c"allocate host");
    launch(&stream, &COUNT, &mut memory).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(calls(c"allocate host"), before);
    hold(true);
    launch(&stream, &PRINT, &mut memory).unwrap();
    assert!(lines.lock().unwrap().is_empty(), "the kernel has not run");
    stream.synchronize_timeout(Duration::from_millis(5)).unwrap_err();
    assert!(lines.lock().unwrap().is_empty());
    hold(false);
    launch(&stream, &COUNT, &mut memory).unwrap();
    launch(&stream, &PRINT, &mut memory).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(calls(c"allocate host"), before + 1);
    let line = |i: u32, value: u32| (i / 256, i % 256, format!("element {value:>3}"), 0);
    let expected: Vec<_> = (0..257).map(|i| line(i, 1)).chain((0..257).map(|i| line(i, 2))).collect();
    assert_eq!(std::mem::take(&mut *lines.lock().unwrap()), expected);
    stream.synchronize().unwrap();
    assert!(lines.lock().unwrap().is_empty(), "what was handed over does not come again");
    // Another stream has a buffer of its own; the device's wait hands over what all of them have printed.
    let other = device.stream().unwrap();
    let of_other = keep(&other);
    launch(&stream, &PRINT, &mut memory).unwrap();
    launch(&other, &PRINT, &mut memory).unwrap();
    device.synchronize().unwrap();
    assert_eq!((lines.lock().unwrap().len(), of_other.lock().unwrap().len()), (257, 257));
    assert_eq!(calls(c"allocate host"), before + 2);
});

simulated_test!(lines_that_find_no_room_are_counted, "", {
    let device = device();
    assert_eq!(device.output_bytes(), 1 << 20);
    device.set_output_bytes(4800);
    let stream = device.stream().unwrap();
    let lines = keep(&stream);
    let mut memory = stream.zeroed::<u32>(70).unwrap();
    for _ in 0..2 {
        launch(&stream, &PRINT, &mut memory).unwrap();
        launch(&stream, &PRINT, &mut memory).unwrap();
        stream.synchronize().unwrap();
        let mut lines = std::mem::take(&mut *lines.lock().unwrap());
        let notice = lines.pop().unwrap();
        assert_eq!((lines.len(), notice.3), (100, 40));
        assert!(
            notice.2.contains("40 lines that the kernel `warpsmith::simulated::print` printed are lost"),
            "{}",
            notice.2
        );
        assert!(notice.2.contains("of 4800 bytes"), "{}", notice.2);
    }
    device.set_output_bytes(1 << 16);
    launch(&stream, &PRINT, &mut memory).unwrap();
    launch(&stream, &PRINT, &mut memory).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(lines.lock().unwrap().len(), 140);
    assert_eq!(calls(c"atomic on the host's memory"), 0);
});

simulated_test!(a_dropped_stream_hands_over_what_its_kernels_printed, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let lines = keep(&stream);
    let mut memory = stream.zeroed::<u32>(3).unwrap();
    launch(&stream, &PANIC, &mut memory).unwrap();
    launch(&stream, &PRINT, &mut memory).unwrap();
    let clone = stream.clone();
    drop(stream);
    assert!(lines.lock().unwrap().is_empty(), "there is another handle");
    drop(clone);
    assert_eq!(lines.lock().unwrap().len(), 3);
    // The buffer went with the stream, and the panic was not forgotten.
    drop(memory);
    assert_eq!(calls(c"free host"), 1);
    assert!(device.synchronize().unwrap_err().kernel_panic().is_some());
});

simulated_test!(what_was_printed_before_the_context_was_lost_is_handed_over, "", {
    let stream = device().stream().unwrap();
    let lines = keep(&stream);
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &PRINT, &mut memory).unwrap();
    launch(&stream, &RECURSIVE, &mut memory).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(std::mem::take(&mut *lines.lock().unwrap()).len(), 10);
    launch(&stream, &PRINT, &mut memory).unwrap();
    let mut freed = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &COUNT, &mut freed).unwrap();
    let address = freed.cuda_address().unwrap();
    // SAFETY: the simulated driver notices the later use.
    unsafe { control::<unsafe extern "C" fn(u64) -> u32>(c"cuMemFree_v2")(address) };
    assert!(matches!(stream.synchronize(), Err(Error::Stream(StreamError::Failed { .. }))));
    assert_eq!(lines.lock().unwrap().len(), 10);
});

simulated_test!(a_time_out_names_the_kernels, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &PANIC, &mut memory).unwrap();
    stream.synchronize().unwrap_err();
    hold(true);
    launch(&stream, &COUNT, &mut memory).unwrap();
    let (error, text) = message(stream.synchronize_timeout(Duration::from_millis(20)));
    assert!(matches!(error, Error::Stream(StreamError::Timeout { .. })), "{text}");
    assert!(text.contains("is `warpsmith::simulated::count`, before it `warpsmith::simulated::panic`"), "{text}");
    assert!(!stream.is_done().unwrap());
    hold(false);
    stream.synchronize_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(stream.to_host(&memory).unwrap(), [1; 10]);
});

simulated_test!(out_of_memory_says_how_much_and_leaves_the_rest, "memory=10000", {
    let device = device();
    let stream = device.stream().unwrap();
    let kept = stream.to_device(&[1u32; 1000]).unwrap();
    let (error, text) = message(stream.zeroed::<u32>(2000));
    assert!(
        matches!(error, Error::Memory(MemoryError::OutOfMemory { requested: 8000, free: 6000, total: 10_000, .. })),
        "{text}"
    );
    assert!(text.contains("8000 bytes were asked for, 6000 of 10000 bytes are free"), "{text}");
    assert_eq!(calls(c"trim"), 1, "memory that the pool keeps is given back before giving up");
    // Memory that a dropped buffer still holds in stream order is waited for.
    let large = stream.zeroed::<u8>(6000).unwrap();
    drop(large);
    assert_eq!(stream.zeroed::<u8>(6000).unwrap().len(), 6000);
    assert_eq!(stream.to_host(&kept).unwrap(), [1; 1000]);
});

simulated_test!(code_that_the_driver_refuses, "version=12040", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let (error, text) = message(launch(&stream, &TOO_NEW, &mut memory));
    assert!(matches!(error, Error::Module(ModuleError::DriverTooOld { .. })), "{text}");
    assert!(text.contains("supports CUDA 12.4 (PTX up to 8.4)"), "{text}");
    let (error, text) = message(launch(&stream, &BROKEN, &mut memory));
    assert!(matches!(error, Error::Module(ModuleError::Rejected { .. })), "{text}");
    assert!(text.contains("line 7; error: simulated") && text.contains("CUDA_ERROR_INVALID_PTX (218)"), "{text}");
    let (_, text) = message(launch(&stream, &NEWER_GPU, &mut memory));
    assert!(text.contains("was compiled for sm_100; Simulated GPU is sm_90"), "{text}");
    let (error, text) = message(launch(&stream, &OTHER_LAYOUT, &mut memory));
    assert!(matches!(error, Error::Module(ModuleError::ParamMismatch { index: 0, .. })), "{text}");
    let (error, text) = message(launch(&stream, &ABSENT, &mut memory));
    assert!(matches!(error, Error::Module(ModuleError::NotFound { .. })), "{text}");
    assert!(text.contains("16 kernels were found") && text.contains("(`warpsmith`)"), "{text}");
    // Nothing of that touched the context.
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(stream.to_host(&memory).unwrap(), [1; 10]);
});

simulated_test!(a_kernels_registers_and_shared_memory_bound_its_launch, "", {
    let stream = device().stream().unwrap();
    let (_, text) = message(Launch::new(&stream, LaunchConfig::new(1, 1024), &instance(&COUNT)));
    assert!(text.contains("asks for 1024 threads per block; this kernel allows 512"), "{text}");
    assert!(text.contains("128 registers"), "{text}");
    let config = LaunchConfig::new(1, 32).with_shared_bytes(231_424);
    assert!(Launch::new(&stream, config, &instance(&COUNT)).is_ok());
    let (error, text) = message(Launch::new(&stream, config.with_shared_bytes(231_425), &instance(&COUNT)));
    assert!(matches!(error, Error::Launch(LaunchError::SharedMemory { requested: 232_449, limit: 232_448, .. })));
    assert!(text.contains("(1024 fixed in the kernel, 231425 of the launch)"), "{text}");
});

simulated_test!(case_g4_a_cooperative_launch_that_is_too_large_is_refused, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    // Four multiprocessors hold three blocks each; two when a block has 100 KiB of shared memory.
    for (config, limit) in [
        (LaunchConfig::new(13, 64), 12),
        (LaunchConfig::new((2, 7), (8, 8)), 12),
        (LaunchConfig::new(9, 64).with_shared_bytes(100 << 10), 8),
    ] {
        let (error, text) = message(launch_with(&stream, &SYNC, config.cooperative(), &mut memory));
        assert!(matches!(error, Error::Launch(LaunchError::CooperativeTooLarge { .. })), "{text}");
        let asked = format!(
            "asks for {} blocks of 64 threads; GPU 0 (Simulated GPU) holds {limit} ",
            config.grid_dim().count()
        );
        assert!(text.contains(&asked), "{text}");
    }
    // A kernel that does not sync the grid may be launched so too.
    for desc in [&SYNC, &COUNT] {
        launch_with(&stream, desc, LaunchConfig::new(12, 64).cooperative(), &mut memory).unwrap();
    }
    assert_eq!(calls(c"cooperative launch of 12"), 2);
    assert_eq!(stream.to_host(&memory).unwrap(), [2; 10]);
});

simulated_test!(clusters_are_passed_on_and_checked, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let clustered = |grid: (u32, u32), cluster: (u32, u32, u32)| LaunchConfig::new(grid, 64).with_cluster(cluster);
    launch_with(&stream, &COUNT, clustered((8, 3), (4, 1, 1)), &mut memory).unwrap();
    assert_eq!((calls(c"attribute 4 = [4, 1, 1]"), calls(c"attribute 2 = [1, 0, 0]")), (1, 0));
    launch_with(&stream, &SYNC, clustered((2, 6), (1, 2, 1)).cooperative(), &mut memory).unwrap();
    assert_eq!((calls(c"attribute 4 = [1, 2, 1]"), calls(c"attribute 2 = [1, 0, 0]")), (1, 1));
    assert_eq!(stream.to_host(&memory).unwrap(), [2; 10]);
    // An ordinary launch is made as ever.
    launch_with(&stream, &COUNT, clustered((8, 3), (1, 1, 1)), &mut memory).unwrap();
    assert_eq!(calls(c"attribute 4 = [1, 1, 1]"), 0);

    let mut refused = |config| message(launch_with(&stream, &SYNC, config, &mut memory)).1;
    let text = refused(clustered((4, 4), (4, 4, 1)));
    assert!(text.contains("in clusters of 16 blocks; a cluster has at most 8"), "{text}");
    let text = refused(clustered((8, 3), (2, 2, 1)));
    assert!(text.contains("cluster_dim.y = 2, of which the grid's 3 blocks are no multiple"), "{text}");
    let text = refused(clustered((8, 3), (2, 0, 1)));
    assert!(text.contains("cluster_dim.y = 0"), "{text}");
    let text = refused(clustered((8, 2), (2, 1, 1)).cooperative());
    assert!(text.contains("asks for 16 blocks of 64 threads; GPU 0 (Simulated GPU) holds 12 of them"), "{text}");
});

simulated_test!(clusters_are_refused_by_name_where_there_are_none, "major=8,minor=6", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let config = LaunchConfig::new(8, 64).with_cluster(2);
    let (error, text) = message(launch_with(&stream, &COUNT, config, &mut memory));
    assert!(matches!(error, Error::Launch(LaunchError::NoClusters { .. })), "{text}");
    assert!(text.contains("from compute capability 9.0 on; GPU 0 (Simulated GPU) has 8.6"), "{text}");
});

simulated_test!(a_kernel_that_syncs_the_grid_is_launched_cooperatively_or_not_at_all, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    let (error, text) = message(launch(&stream, &SYNC, &mut memory));
    assert!(matches!(error, Error::Launch(LaunchError::NotCooperative { .. })), "{text}");
    assert!(text.contains("LaunchConfig::cooperative"), "{text}");
    // The barrier is clear for each launch, whatever the one before left, and each stream has its own.
    let other = stream.device().stream().unwrap();
    let mut others = other.zeroed::<u32>(10).unwrap();
    for _ in 0..5 {
        launch_with(&stream, &SYNC, LaunchConfig::new(4, 64).cooperative(), &mut memory).unwrap();
        launch_with(&other, &SYNC, LaunchConfig::new(3, 64).cooperative(), &mut others).unwrap();
    }
    assert_eq!(stream.to_host(&memory).unwrap(), [5; 10]);
    assert_eq!(other.to_host(&others).unwrap(), [5; 10]);
    assert_eq!(calls(c"a grid barrier that is not clear"), 0);
    drop((memory, others, other));
    let device = stream.device().clone();
    drop(stream);
    device.synchronize().unwrap();
    assert_eq!(allocated(), 0, "a stream's barrier is freed with it");
});

simulated_test!(the_stack_grows_for_a_kernel_of_unknown_depth, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(device.stack_bytes().unwrap(), Some(1024));
    launch(&stream, &RECURSIVE, &mut memory).unwrap();
    assert_eq!(device.stack_bytes().unwrap(), Some(16 << 10));
    device.set_stack_bytes(64 << 10).unwrap();
    assert_eq!(device.stack_bytes().unwrap(), Some(64 << 10));
    device.set_heap_bytes(1 << 20).unwrap();
    assert_eq!(device.heap_bytes().unwrap(), Some(1 << 20));
});

simulated_test!(a_lost_context_is_said_to_be_lost, "", {
    let stream = device().stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &RECURSIVE, &mut memory).unwrap();
    // A wild address, as only unsafe code makes one: the allocation behind the buffer is freed under it.
    let address = memory.cuda_address().unwrap();
    // SAFETY: the simulated driver notices the later use.
    unsafe { control::<unsafe extern "C" fn(u64) -> u32>(c"cuMemFree_v2")(address) };
    let (error, text) = message(stream.synchronize());
    assert!(matches!(error, Error::Stream(StreamError::Failed { .. })), "{text}");
    assert!(text.contains("only a new process") && text.contains("`warpsmith::simulated::recursive`"), "{text}");
    assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{text}");
});

simulated_test!(events_of_a_gpu, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let start = a.record().unwrap();
    let end = a.record().unwrap();
    assert_eq!(start.elapsed(&end).unwrap(), Duration::from_micros(1500));
    let never = Event::new(&device).unwrap();
    assert!(matches!(start.elapsed(&never), Err(Error::Device(DeviceError::EventNotRecorded))));
    b.wait(&never).unwrap();
    b.wait(&end).unwrap();
    b.synchronize().unwrap();
    let cpu = Event::new(&Device::cpu()).unwrap();
    assert!(matches!(start.elapsed(&cpu), Err(Error::Device(DeviceError::OtherDevice { what: "event", .. }))));
});

mod streams;

simulated_test!(buffers_of_one_device_are_refused_on_another, "gpus=2", {
    let gpu = device();
    let (on_gpu, on_cpu) = (gpu.stream().unwrap(), Device::cpu().stream().unwrap());
    let other = Device::gpu(1).unwrap().stream().unwrap();
    let mut memory = on_gpu.zeroed::<u32>(10).unwrap();
    for stream in [&on_cpu, &other] {
        let (error, text) = message(stream.to_host(&memory));
        assert!(matches!(error, Error::Memory(MemoryError::OtherDevice { .. })), "{text}");
        assert!(text.contains("lives on GPU 0 (Simulated GPU)"), "{text}");
        assert!(memory.copy_from_host(stream, &[0; 10]).is_err());
    }
    let (error, text) = message(launch(&other, &COUNT, &mut memory));
    assert!(matches!(error, Error::Launch(LaunchError::OtherDevice { argument: 1, .. })), "{text}");
    assert!(text.contains("lives on GPU 0 (Simulated GPU), the stream runs on GPU 1"), "{text}");
});

simulated_test!(streams_of_cudarc_are_taken, "", {
    let device = device();
    let context = device.as_cudarc().unwrap();
    let theirs = context.new_stream().unwrap();
    let stream = Stream::from_cudarc(&theirs).unwrap();
    assert!(*stream.device() == device && std::sync::Arc::ptr_eq(stream.as_cudarc().unwrap(), &theirs));
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(stream.to_host(&memory).unwrap(), [1; 10]);
    let default = Stream::from_cudarc(&context.default_stream()).unwrap();
    assert_eq!(default.to_host(&memory).unwrap(), [1; 10]);
});

simulated_test!(the_environment_chooses_the_cpu, "cpu|", {
    assert!(Device::new().unwrap().is_cpu());
});

simulated_test!(the_environment_chooses_a_gpu, "gpu:1|gpus=2", {
    assert_eq!(Device::new().unwrap().ordinal(), Some(1));
});

simulated_test!(the_environment_asks_for_a_gpu_that_is_not_there, "gpu|gpus=0", {
    let (error, text) = message(Device::new());
    assert!(matches!(error, Error::Device(DeviceError::NoGpu { .. })), "{text}");
});

simulated_test!(the_environment_asks_for_what_is_no_device, "tpu|", {
    let (_, text) = message(Device::new());
    assert!(text.contains("WARPSMITH_DEVICE is \"tpu\"; it can be `cpu`, `gpu`, or `gpu:N`"), "{text}");
});

simulated_test!(the_environment_chooses_a_gpu_by_its_number_alone, "1|gpus=2", {
    assert_eq!(Device::new().unwrap().ordinal(), Some(1));
});

simulated_test!(the_environment_chooses_a_gpu_by_uuid, "GPU-c1c1c1c1-c1c1-c1c1-c1c1-c1c1c1c1c1c1|gpus=2", {
    assert_eq!(Device::new().unwrap().ordinal(), Some(1));
});

simulated_test!(the_environment_chooses_a_gpu_by_its_place, "1b:00.0|gpus=2", {
    assert_eq!(Device::new().unwrap().ordinal(), Some(1));
});

simulated_test!(gpus_are_listed_without_a_context, "gpus=2,mode=3,major=8,minor=6", {
    let all = DeviceInfo::all().unwrap();
    assert_eq!(calls(c"retain"), 0, "nothing is opened");
    assert_eq!(all.iter().map(|gpu| gpu.ordinal).collect::<Vec<_>>(), [0, 1]);
    assert_ne!(all[0].uuid, all[1].uuid);
    let second = &all[1];
    assert_eq!((second.name.as_str(), second.pci_bus_id.as_str()), ("Simulated GPU", "0000:1b:00.0"));
    assert_eq!((second.capability.architecture(), second.multiprocessors, second.l2_bytes), (86, 4, 50 << 20));
    assert_eq!((second.clock_khz, second.memory_clock_khz, second.memory_bus_bits), (1_980_000, 2_619_000, 5120));
    assert_eq!((second.total_memory_bytes, second.compute_mode), (1 << 30, ComputeMode::ExclusiveProcess));
    assert_eq!(
        second.to_string(),
        "GPU 1: Simulated GPU, compute capability 8.6, 4 multiprocessors, 1.0 GiB, PCI 0000:1b:00.0, \
         GPU-c1c1c1c1-c1c1-c1c1-c1c1-c1c1c1c1c1c1"
    );
    let opened = Device::all().unwrap();
    assert_eq!((opened.len(), calls(c"retain")), (2, 2));
    assert_eq!((opened[1].info(), opened[1].uuid()), (Some(second), Some(second.uuid)));
    assert_eq!(opened[1].pci_bus_id(), Some("0000:1b:00.0"));
    assert_ne!(opened[0], opened[1]);
    // The same GPU, however it is named.
    for device in [
        second.open().unwrap(),
        Device::with_uuid(second.uuid).unwrap(),
        Device::with_pci_bus_id("0000:1b:00.0").unwrap(),
        Device::with_pci_bus_id("1B:00.0").unwrap(),
        Device::gpu(1).unwrap(),
    ] {
        assert_eq!(device, opened[1]);
    }
    assert_eq!(driver_version().unwrap().to_string(), "13.0");
});

simulated_test!(gpus_that_are_not_there_are_named, "gpus=2", {
    let uuid = DeviceUuid::from_bytes([7; 16]);
    let (error, text) = message(Device::with_uuid(uuid));
    assert!(matches!(error, Error::Device(DeviceError::NoSuchUuid { requested, .. }) if requested == uuid), "{text}");
    assert!(text.contains("GPU-07070707-") && text.contains("sees GPU-c0c0c0c0-c0c0-c0c0-c0c0-c0c0c0c0c0c0, GPU-c1"));
    for id in ["0000:7f:00.0", "nonsense", "nul\0"] {
        let (error, text) = message(Device::with_pci_bus_id(id));
        assert!(matches!(error, Error::Device(DeviceError::NoSuchPciBusId { .. })), "{text}");
        assert!(text.ends_with("on the PCI bus: the driver sees 0000:1a:00.0, 0000:1b:00.0"), "{text}");
    }
});

simulated_test!(attributes_and_limits_of_a_context, "", {
    let device = device();
    assert_eq!(device.attribute(DeviceAttribute::L2CacheSize).unwrap(), 50 << 20);
    assert_eq!(device.attribute_by_number(38).unwrap(), 50 << 20);
    // Of all that have a name, those that the driver answers.
    let answered = DeviceAttribute::ALL.iter().filter(|&&attribute| device.attribute(attribute).is_ok());
    let answered: Vec<u32> = answered.map(|attribute| attribute.number()).collect();
    assert!([1, 10, 38, 75, 115].iter().all(|number| answered.contains(number)), "{answered:?}");
    let (error, text) = message(device.attribute_by_number(100_000));
    assert!(matches!(error, Error::Device(DeviceError::Driver { ordinal: 0, .. })), "{text}");
    assert!(text.contains("CUDA_ERROR_INVALID_VALUE (1)"), "{text}");
    device.set_context_limit(ContextLimit::PrintfBytes, 4096).unwrap();
    device.set_context_limit(ContextLimit::StackBytes, 2048).unwrap();
    assert_eq!(device.context_limit(ContextLimit::PrintfBytes).unwrap(), 4096);
    assert_eq!(device.stack_bytes().unwrap(), Some(2048));
});

simulated_test!(case_i6_the_primary_context_is_shared_and_so_is_a_device_by_threads, "gpus=2", {
    // Another library in the process: it opens the primary context, and has a stream of its own.
    let theirs = crate::cudarc::driver::CudaContext::new(0).unwrap();
    let their_stream = theirs.new_stream().unwrap();
    let device = device();
    assert_eq!(device.as_cudarc().unwrap().cu_ctx(), theirs.cu_ctx());
    assert_eq!(Device::from_cudarc(&theirs).unwrap(), device);
    let seed = 0x5eed_u64;
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (device, their_stream) = (&device, &their_stream);
            scope.spawn(move || {
                let mut state = seed ^ thread;
                for _ in 0..40 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Both GPUs by turns on one thread, each opened anew, and the other library's stream.
                    let (on, stream) = match state >> 62 {
                        0 => (Device::gpu(1).unwrap(), Device::gpu(1).unwrap().stream().unwrap()),
                        1 => (device.clone(), Stream::from_cudarc(their_stream).unwrap()),
                        _ => (Device::gpu(0).unwrap(), device.stream().unwrap()),
                    };
                    assert_eq!(*stream.device(), on);
                    let len = 1 + (state >> 40) as usize % 100;
                    let mut memory = stream.filled(thread as u32, len).unwrap();
                    launch(&stream, &COUNT, &mut memory).unwrap();
                    assert_eq!(stream.to_host(&memory).unwrap(), vec![thread as u32 + 1; len]);
                }
            });
        }
    });
    // What is left of this crate goes, and the other library's context stays.
    drop(device);
    let releases = calls(c"release");
    drop((their_stream, theirs));
    assert_eq!(calls(c"release"), releases + 1);
    assert_eq!(calls(c"release"), calls(c"retain"));
});

simulated_test!(launches_see_the_constant_that_was_set_before_them, "", {
    let device = device();
    let streams: Vec<Stream> = (0..3).map(|_| device.stream().unwrap()).collect();
    let mut memories: Vec<_> = (0..30).map(|at| streams[at % 3].zeroed::<u32>(8).unwrap()).collect();
    let mut steps = Vec::new();
    for (at, memory) in memories.iter_mut().enumerate() {
        // Also a second time without a change, and on the stream that made the last change.
        if at % 4 == 2 {
            device.set_constant(&STEP, &(100 + at as u32)).unwrap();
        }
        steps.push(device.constant(&STEP));
        launch(&streams[at % 3], &ADD_CONSTANT, memory).unwrap();
    }
    assert_eq!((steps[0], steps[2], steps[29]), (1, 102, 126));
    // The last first: work that nothing orders is done now.
    for (at, memory) in memories.iter().enumerate().rev() {
        assert_eq!(streams[at % 3].to_host(memory).unwrap(), [steps[at]; 8], "launch {at}");
    }
});

simulated_test!(a_constant_waits_for_launches_of_streams_that_are_gone, "", {
    let device = device();
    let (stays, third) = (device.stream().unwrap(), device.stream().unwrap());
    // Few, more than are remembered, and as many as are forgotten at the last launch before the change.
    for (round, count) in [(1, 1), (2, 40), (3, 15)] {
        let mut memories: Vec<_> = (0..count).map(|_| third.zeroed::<u32>(4).unwrap()).collect();
        for memory in &mut memories {
            let passing = device.stream().unwrap();
            launch(&passing, &ADD_CONSTANT, memory).unwrap();
            // With this, the memory has forgotten the stream.
            launch(&third, &COUNT, memory).unwrap();
        }
        let (last, mut own) = (device.stream().unwrap(), stays.zeroed::<u32>(4).unwrap());
        launch(&last, &ADD_CONSTANT, &mut own).unwrap();
        let before = device.constant(&STEP);
        device.set_constant(&STEP, &(1000 * round)).unwrap();
        let mut changed = stays.zeroed::<u32>(4).unwrap();
        launch(&stays, &ADD_CONSTANT, &mut changed).unwrap();
        assert_eq!(stays.to_host(&changed).unwrap(), [1000 * round; 4]);
        for memory in &memories {
            assert_eq!(third.to_host(memory).unwrap(), [before + 1; 4]);
        }
    }
});

simulated_test!(a_kernel_without_constants_orders_nothing, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let (mut first, mut second) = (a.zeroed::<u32>(4).unwrap(), b.zeroed::<u32>(4).unwrap());
    device.set_constant(&STEP, &7).unwrap();
    launch(&a, &COUNT, &mut first).unwrap();
    launch(&b, &COUNT, &mut second).unwrap();
    assert_eq!((calls(c"event"), calls(c"wait")), (0, 0));
    // One that has them waits once after a change, and then no more.
    for _ in 0..10 {
        launch(&a, &ADD_CONSTANT, &mut first).unwrap();
        launch(&b, &ADD_CONSTANT, &mut second).unwrap();
    }
    assert_eq!(calls(c"wait"), 1);
    assert_eq!((a.to_host(&first).unwrap(), b.to_host(&second).unwrap()), (vec![71; 4], vec![71; 4]));
});

simulated_test!(a_constant_of_another_shape_is_refused, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    // Nothing was set, so nothing is compared.
    launch(&stream, &WRONG_CONSTANT, &mut memory).unwrap();
    device.set_constant(&OTHER_STEP, &5).unwrap();
    let (error, text) = message(launch(&stream, &WRONG_CONSTANT, &mut memory));
    assert!(matches!(error, Error::Module(ModuleError::ConstantMismatch { .. })), "{text}");
    assert!(text.contains("OTHER_STEP") && text.contains("8 bytes") && text.contains("with 4"), "{text}");
});

simulated_test!(kernels_are_loaded_once_by_many_threads, "", {
    let device = device();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                let mut memory = stream.zeroed::<u32>(10).unwrap();
                for _ in 0..10 {
                    launch(&stream, &COUNT, &mut memory).unwrap();
                }
                assert_eq!(stream.to_host(&memory).unwrap(), [10; 10]);
            });
        }
    });
    assert_eq!(calls(c"load"), 1);
});

simulated_test!(a_driver_without_a_gpu, "gpus=0", {
    assert!(Device::new().unwrap().is_cpu());
    let (error, text) = message(Device::gpu(0));
    assert!(matches!(error, Error::Device(DeviceError::NoGpu { .. })), "{text}");
    assert!(text.contains("CUDA_VISIBLE_DEVICES is not set") && text.contains("WARPSMITH_DEVICE=cpu"), "{text}");
    assert_eq!(Device::gpu_count(), 0);
});

simulated_test!(a_gpu_that_is_not_there, "gpus=2", {
    assert_eq!(Device::gpu_count(), 2);
    let (_, text) = message(Device::gpu(2));
    assert!(text.contains("there is no GPU 2: the driver sees 2, numbered from 0"), "{text}");
});

simulated_test!(a_driver_that_does_not_start_is_no_reason_to_fall_back, "init=803", {
    let (error, text) = message(Device::new());
    assert!(matches!(error, Error::Device(DeviceError::Init { .. })), "{text}");
    assert!(text.contains("reboot") && text.contains("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"), "{text}");
});

simulated_test!(the_toolkits_stub_is_recognised, "init=34", {
    let (_, text) = message(Device::gpu(0));
    assert!(text.contains("stub"), "{text}");
});

/// A folder with a `libcuda.so` in which nothing can be found.
fn empty_library() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("warpsmith-empty-driver-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok()?;
        let source = folder.join("empty.rs");
        std::fs::write(&source, "#[unsafe(no_mangle)] pub extern \"C\" fn cuInit(_: u32) -> u32 { 0 }").ok()?;
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).arg(folder.join("libcuda.so")).arg(source);
        command.output().ok()?.status.success().then_some(folder)
    });
    folder.as_deref()
}

#[test]
fn a_driver_that_lacks_a_function_is_too_old() {
    if std::env::var_os(CHILD).is_some() {
        let (error, text) = message(Device::new());
        assert!(matches!(error, Error::Device(DeviceError::OldDriver { .. })), "{text}");
        assert!(text.contains("it lacks `cuDriverGetVersion`") && text.contains("update the driver"), "{text}");
        return;
    }
    match empty_library() {
        Some(folder) => {
            child(concat!(module_path!(), "::a_driver_that_lacks_a_function_is_too_old"), folder.as_os_str(), "");
        }
        None => eprintln!("skipped: no rustc to build the library with"),
    }
}

#[test]
fn without_a_driver_the_error_says_what_was_looked_for() {
    let looked_for = vec!["libcuda.so".to_owned(), "libcuda.so.1".to_owned()];
    let text = DeviceError::NoDriver { looked_for, library_path: Some("/opt".to_owned()) }.to_string();
    assert!(text.contains("looked for libcuda.so, libcuda.so.1 in LD_LIBRARY_PATH (\"/opt\")"), "{text}");
    // On a machine without a driver, the real thing.
    if let Err(Error::Device(error @ DeviceError::NoDriver { .. })) = Device::gpu(0) {
        assert!(error.to_string().contains("libcuda.so.1"), "{error}");
        assert!(Device::new().is_ok_and(|device| device.is_cpu()) || std::env::var_os("WARPSMITH_DEVICE").is_some());
    } else {
        eprintln!("skipped on this machine: it has a driver");
    }
}

//! What kernels print: every type and format against `format!` on the host, order, overflow, panics, streams.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use half::{bf16, f16};
use warpsmith::prelude::*;
use warpsmith_tests::{DOUBLED_AT, devices, gpu, print_doubled, print_generic, random};

/// A line as a sink sees it.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    kernel: String,
    text: String,
    block: Dim3,
    thread: Dim3,
    lost: u64,
}

/// Held to write by the test that makes the devices' buffers small, and to read by all others.
static ROOM: RwLock<()> = RwLock::new(());

fn usual_room() -> RwLockReadGuard<'static, ()> {
    ROOM.read().unwrap_or_else(PoisonError::into_inner)
}

/// Has a stream's lines kept.
fn keep(stream: &Stream) -> Arc<Mutex<Vec<Line>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    stream.set_output_sink(move |line| {
        kept.lock().expect("no test panics here").push(Line {
            kernel: line.kernel.to_owned(),
            text: line.text.to_owned(),
            block: line.block,
            thread: line.thread,
            lost: line.lost,
        });
    });
    lines
}

fn take(lines: &Mutex<Vec<Line>>) -> Vec<Line> {
    std::mem::take(&mut *lines.lock().expect("no test panics here"))
}

/// What each thread printed, by its number along x, in its order.
fn by_thread(lines: &[Line], block: u32) -> BTreeMap<u32, Vec<String>> {
    let mut threads: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for line in lines {
        assert_eq!(line.lost, 0, "{line:?}");
        threads.entry(line.block.x * block + line.thread.x).or_default().push(line.text.clone());
    }
    threads
}

/// Demands that the first threads print these texts, line by line and in this order, on every device.
fn check(expected: &[String], launch: impl Fn(&Stream, LaunchConfig) -> warpsmith::Result<()>) {
    const BLOCK: u32 = 32;
    let _room = usual_room();
    let count = u32::try_from(expected.len()).expect("a few threads");
    let expected: BTreeMap<u32, Vec<String>> =
        (0..).zip(expected.iter().map(|text| text.lines().map(str::to_owned).collect())).collect();
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let lines = keep(&stream);
        launch(&stream, LaunchConfig::new(count.div_ceil(BLOCK), BLOCK)).expect("a launch works");
        stream.synchronize().unwrap_or_else(|error| panic!("{device}: {error:?}"));
        assert_eq!(by_thread(&take(&lines), BLOCK), expected, "{device}");
    }
}

/// A kernel that prints each of its values in each of these formats, and a test that compares with the host.
macro_rules! prints_as_the_host {
    ($($name:ident: $type:ty, $values:expr, [$($format:literal)*];)*) => {$(
        mod $name {
            use super::*;

            #[kernel]
            fn formats(values: &[$type]) {
                let i = global_idx().get();
                if i < values.len() {
                    let value = values[i];
                    $(gpu_println!($format, value);)*
                }
            }

            #[test]
            fn prints_as_the_host() {
                let values: Vec<$type> = $values;
                let expected: Vec<String> = values
                    .iter()
                    .map(|value| {
                        let mut text = String::new();
                        $(writeln!(text, $format, value).expect("a string takes all");)*
                        text
                    })
                    .collect();
                check(&expected, |stream, config| formats::launch(stream, config, &stream.to_device(&values)?));
            }
        }
    )*};
}

/// A random bit pattern of each width, and the edges.
macro_rules! integers {
    ($type:ty) => {
        (0..12)
            .map(|i| (random(1, i) as $type).wrapping_mul(random(2, i) as $type))
            .chain([0, 1, <$type>::MIN, <$type>::MAX])
            .collect()
    };
}

macro_rules! floats {
    ($value:ident => $convert:expr) => {
        (0..12)
            .map(|i| f64::from(random(3, i) as i32) * 2f64.powi(random(4, i) as i32 % 60))
            .chain([0.0, -0.0, 1.0, 0.1, -2.5, 1e16, 1e-7, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])
            .map(|$value| $convert)
            .collect()
    };
}

prints_as_the_host! {
    of_i8: i8, integers!(i8), ["{}" "{:?}" "{:+05}" "{:x}" "{:#010b}" "{:e}"];
    of_i16: i16, integers!(i16), ["{}" "{:>8}" "{:#x}" "{:o}"];
    of_i32: i32, integers!(i32), ["{}" "{:*^16}" "{:08x}" "{:#?}" "{:#X?}" "{:+.2e}"];
    of_i64: i64, integers!(i64), ["{}" "{:<24}|" "{:X}"];
    of_i128: i128, integers!(i128), ["{}" "{:+}" "{:#x}" "{:050}"];
    of_isize: isize, integers!(isize), ["{}" "{:?}"];
    of_u8: u8, integers!(u8), ["{}" "{:03}" "{:02x}" "{:08b}"];
    of_u16: u16, integers!(u16), ["{}" "{:#06x}"];
    of_u32: u32, integers!(u32), ["{}" "{:>012}" "{{{:?}}}"];
    of_u64: u64, integers!(u64), ["{}" "{:#b}" "{:E}"];
    of_u128: u128, integers!(u128), ["{}" "{:#034x}" "{:b}"];
    of_usize: usize, integers!(usize), ["{}" "{:é>22}"];
    of_f16: f16, floats!(x => f16::from_f64(x)), ["{}" "{:?}" "{:.2}" "{:e}"];
    of_bf16: bf16, floats!(x => bf16::from_f64(x)), ["{}" "{:?}" "{:8.1}"];
    of_f32: f32, floats!(x => x as f32), ["{}" "{:?}" "{:08.3}" "{:+e}" "{:^+20.1}" "{:#?}"];
    of_f64: f64, floats!(x => x), ["{}" "{:?}" "{:+012.5}" "{:E}" "{:_<30.2e}" "{:.0}"];
    of_bool: bool, vec![false, true], ["{}" "{:?}" "{:>8}" "{:.1}"];
    of_char: char, vec!['a', 'é', '漢', '\'', '\t', '\0', char::MAX], ["{:?}" "{:>3}|" "{:#?}"];
    of_arrays: [i32; 3], vec![[1, -2, 3], [0; 3]], ["{:?}" "{:#?}" "{:4?}" "{:#x?}"];
    of_nested_arrays: [[f32; 2]; 2], vec![[[0.5, 1.0], [f32::NAN, -0.0]]], ["{:?}" "{:#?}" "{:.1?}"];
}

/// A function of a generic type.
fn describe<T: Printable>(name: &str, value: &T) -> usize {
    gpu_println!("{name}: {value:?} has {} bytes", size_of::<T>());
    size_of::<T>()
}

/// Texts, tuples taken apart, names, widths from values, closures, functions.
#[kernel]
fn all_kinds_of_arguments(values: &[u32]) {
    let i = global_idx().get();
    if i >= values.len() {
        return;
    }
    let x = values[i];
    gpu_println!();
    gpu_println!("no values, {{braces}}, é漢");
    gpu_println!("{x} {} {0} {n:?} {x:>w$} {:.*} {:>1$.p$}", i, 2, 0.125f32, 1.5f64, n = -1i8, w = i + 4, p = 1);
    let word = if x > 1 { "many" } else { "few" };
    gpu_println!("{word} {word:?} {:>7.3} {}", word, word.get(1..).unwrap_or(""));
    gpu_println!("{:?} {:?} {:?}", [word, ""], &[1u16, 2][..i.min(2)], ());
    gpu_println!("{} {:?}", thread_idx(), block_dim());
    let mut calls = 0;
    let mut print = |text: &str| {
        calls += 1;
        gpu_println!("call {calls} of a closure: {text}");
        calls
    };
    print("a\nb");
    print("");
    let bytes = describe("array", &[x as u64; 2]) + describe("text", &"t") + describe("float", &f16::ONE);
    gpu_print!("{bytes}");
    gpu_print!(" bytes, ");
    gpu_println!("a line in pieces");
    let doubled = gpu_dbg!(x * 2);
    let (a, b) = gpu_dbg!(doubled + 1, [0.5f32]);
    gpu_dbg!();
    gpu_print!("{a} {b:?}, not ended");
}

#[test]
fn all_kinds_of_arguments_print_as_the_host() {
    let values = [0u32, 1, 2, 77];
    let place = |line: u32, column: u32| format!("[{}:{line}:{column}]", file!());
    let first = line!() - 10;
    let expected: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let word = if *x > 1 { "many" } else { "few" };
            let mut text = String::from("\nno values, {braces}, é漢\n");
            let out = &mut text;
            let mut line = |arguments: std::fmt::Arguments<'_>| {
                out.write_fmt(arguments).and_then(|()| out.write_char('\n')).expect("a string takes all");
            };
            line(format_args!(
                "{x} {} {0} {n:?} {x:>w$} {:.*} {:>1$.p$}",
                i,
                2,
                0.125f32,
                1.5f64,
                n = -1i8,
                w = i + 4,
                p = 1
            ));
            line(format_args!("{word} {word:?} {:>7.3} {}", word, word.get(1..).unwrap_or("")));
            line(format_args!("{:?} {:?} {:?}", [word, ""], &[1u16, 2][..i.min(2)], ()));
            line(format_args!("{} {:?}", Dim3::new(i as u32, 0, 0), Dim3::new(32, 1, 1)));
            line(format_args!("call 1 of a closure: a\nb\ncall 2 of a closure: "));
            line(format_args!("array: {:?} has 16 bytes", [u64::from(*x); 2]));
            line(format_args!("text: \"t\" has 16 bytes\nfloat: 1.0 has 2 bytes\n34 bytes, a line in pieces"));
            line(format_args!("{} x * 2 = {}", place(first, 19), x * 2));
            line(format_args!("{} doubled + 1 = {}", place(first + 1, 18), x * 2 + 1));
            line(format_args!("{} [0.5f32] = {:#?}", place(first + 1, 18), [0.5f32]));
            line(format_args!("{}\n{} [0.5], not ended", place(first + 2, 5), x * 2 + 1));
            text
        })
        .collect();
    check(&expected, |stream, config| all_kinds_of_arguments::launch(stream, config, &stream.to_device(&values)?));
}

/// Two lines written by one place in the source, as a macro makes them.
macro_rules! twice {
    ($value:expr) => {
        gpu_println!("first {}", $value);
        gpu_println!("second {:?}", $value);
    };
}

/// Calls functions of another crate that print, and prints through a macro.
#[kernel]
fn from_elsewhere(values: &[u32]) {
    let i = global_idx().get();
    if i < values.len() {
        print_generic(values[i]);
        print_generic([print_doubled(values[i]) as f32; 2]);
        twice!(values[i] as i8);
    }
}

#[test]
fn other_crates_and_macros_print() {
    let values = [3u32, 300];
    let expected: Vec<String> = values
        .iter()
        .map(|x| {
            format!(
                "another crate's u32: {x}\n{DOUBLED_AT} x.wrapping_mul(2) = {}\nanother crate's [f32; 2]: {:?}\nfirst {}\n\
                 second {}",
                2 * x,
                [2.0 * *x as f32; 2],
                *x as i8,
                *x as i8
            )
        })
        .collect();
    check(&expected, |stream, config| from_elsewhere::launch(stream, config, &stream.to_device(&values)?));
}

/// Prints where things are.
#[kernel]
fn addresses(values: &[u64]) {
    let third = &values[2];
    let raw: *const u64 = third;
    gpu_println!("{third:p} {:?} {:#p} {:>24p}", raw, third, raw);
}

#[test]
fn pointers_print_as_the_host() {
    let _room = usual_room();
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let lines = keep(&stream);
        let values = stream.to_device(&[1u64, 2, 3]).expect("a small copy works");
        addresses::launch(&stream, LaunchConfig::new(1, 1), &values).expect("a launch works");
        stream.synchronize().expect("the kernel runs");
        let [line] = &take(&lines)[..] else { panic!("{device}: one line") };
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let number = usize::from_str_radix(words[0].trim_start_matches("0x"), 16).expect("an address");
        let pointer: *const u64 = std::ptr::without_provenance(number);
        assert_eq!(line.text, format!("{pointer:p} {:?} {:#p} {:>24p}", pointer, pointer, pointer), "{device}");
    }
}

/// Prints in a loop.
#[kernel]
fn in_order(rounds: u32) {
    for round in 0..rounds {
        gpu_println!("{round}");
    }
}

#[test]
fn lines_of_a_thread_and_of_launches_come_in_order() {
    let _room = usual_room();
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let lines = keep(&stream);
        for rounds in [3, 2] {
            in_order::launch(&stream, LaunchConfig::new(5, 64), rounds).expect("a launch works");
        }
        stream.synchronize().expect("the kernels run");
        let all = take(&lines);
        assert!(all.iter().all(|line| line.kernel.ends_with("::printing::in_order")), "{:?}", all[0]);
        let expected = ["0", "1", "2", "0", "1"].map(str::to_owned).to_vec();
        let threads = by_thread(&all, 64);
        assert_eq!(threads.len(), 320, "{device}");
        assert!(threads.values().all(|texts| *texts == expected), "{device}: {threads:?}");
        // What was handed over does not come again.
        stream.synchronize().expect("nothing is left");
        assert_eq!(take(&lines), []);
        in_order::launch(&stream, LaunchConfig::new(1, 1), 1).expect("a launch works");
        stream.synchronize().expect("the kernel runs");
        assert_eq!(take(&lines).len(), 1);
    }
}

/// Every thread prints one line.
#[kernel]
fn one_line(tag: u64) {
    gpu_println!("{tag:016x} {}", global_idx().get());
}

/// As many threads as the grid has, into a buffer for few.
#[kernel]
fn short_line() {
    gpu_println!("short");
}

#[test]
fn lines_that_found_no_room_are_counted() {
    const THREADS: u64 = 1 << 20;
    let _room = ROOM.write().unwrap_or_else(PoisonError::into_inner);
    for device in devices() {
        let usual = device.output_bytes();
        device.set_output_bytes(8 << 10);
        let stream = device.stream().expect("a device gives streams");
        let lines = keep(&stream);
        one_line::launch(&stream, LaunchConfig::new(THREADS as u32 / 256, 256), 7).expect("a launch works");
        device.set_output_bytes(usual);
        short_line::launch(&stream, LaunchConfig::new(1, 32)).expect("a launch works");
        stream.synchronize().expect("the kernels run");
        let (notices, printed): (Vec<Line>, Vec<Line>) = take(&lines).into_iter().partition(|line| line.lost != 0);
        assert!(printed.iter().all(|line| line.text == "short" || line.text.starts_with("0000000000000007 ")));
        if device.is_cpu() {
            assert_eq!((printed.len() as u64, notices.len()), (THREADS + 32, 0));
            continue;
        }
        // A line takes 7 words of the buffer's 1024.
        assert_eq!(printed.len(), 146);
        let [long, short] = &notices[..] else { panic!("a notice for each kernel: {notices:?}") };
        assert_eq!((long.lost, short.lost), (THREADS - 146, 32));
        let said = format!("warpsmith: {} lines that the kernel `{}` printed are lost", long.lost, long.kernel);
        assert!(long.text.starts_with(&said) && long.kernel.ends_with("::one_line"), "{}", long.text);
        assert!(long.text.contains("buffer of 8192 bytes") && long.text.contains("`Device::set_output_bytes`"));
        // There is room again, and from here on as much as the device says.
        one_line::launch(&stream, LaunchConfig::new(10, 100), 8).expect("a launch works");
        stream.synchronize().expect("the kernel runs");
        assert_eq!(take(&lines).len(), 1000);
    }
}

/// Prints, then one thread panics, and the others print on.
#[kernel]
fn panics_after_printing(values: &[u32]) {
    let i = global_idx().get();
    gpu_println!("before {i}");
    gpu_print!("value ");
    gpu_println!("{}", values[i]);
}

#[test]
fn what_was_printed_before_a_panic_comes_before_its_report() {
    let _room = usual_room();
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let lines = keep(&stream);
        let values = stream.to_device(&[9u32; 7]).expect("a small copy works");
        panics_after_printing::launch(&stream, LaunchConfig::new(1, 8), &values).expect("a launch works");
        let error = stream.synchronize().expect_err("thread 7 panics");
        assert_eq!(error.kernel_panic().expect("a panic").thread, Dim3::new(7, 0, 0));
        let threads = by_thread(&take(&lines), 8);
        assert_eq!(threads[&0], ["before 0", "value 9"], "{device}");
        // The thread that panicked has begun a line, and it is shown.
        assert_eq!(threads[&7], ["before 7", "value "], "{device}");
        stream.synchronize().expect("the panic was reported");
        assert_eq!(take(&lines), []);
    }
}

#[test]
fn streams_at_work_together_do_not_mix() {
    let _room = usual_room();
    for device in devices() {
        let streams: Vec<_> = (0..4).map(|_| device.stream().expect("a device gives streams")).collect();
        let lines: Vec<_> = streams.iter().map(keep).collect();
        std::thread::scope(|scope| {
            for (tag, stream) in (0..).zip(&streams) {
                scope.spawn(move || {
                    for _ in 0..5 {
                        one_line::launch(stream, LaunchConfig::new(4, 64), tag).expect("a launch works");
                        stream.synchronize().expect("the kernel runs");
                    }
                });
            }
        });
        for (tag, lines) in lines.iter().enumerate() {
            let threads = by_thread(&take(lines), 64);
            assert_eq!(threads.len(), 256, "{device}");
            for (thread, texts) in threads {
                assert_eq!(texts, vec![format!("{tag:016x} {thread}"); 5], "{device}");
            }
        }
    }
}

#[test]
fn lines_appear_when_a_stream_is_dropped_or_its_device_or_a_copy_waits() {
    let _room = usual_room();
    for device in devices() {
        let launch = |stream: &Stream| {
            let lines = keep(stream);
            one_line::launch(stream, LaunchConfig::new(1, 64), 1).expect("a launch works");
            lines
        };
        let stream = device.stream().expect("a device gives streams");
        let lines = launch(&stream);
        drop(stream);
        assert_eq!(take(&lines).len(), 64, "{device}: dropped");
        let stream = device.stream().expect("a device gives streams");
        let lines = launch(&stream);
        device.synchronize().expect("the kernel runs");
        assert_eq!(take(&lines).len(), 64, "{device}: the device waited");
        let lines = launch(&stream);
        stream.synchronize_timeout(std::time::Duration::from_secs(60)).expect("the kernel runs");
        assert_eq!(take(&lines).len(), 64, "{device}: waited with a limit");
        let lines = launch(&stream);
        let buffer = stream.to_device(&[1u8]).expect("a small copy works");
        stream.to_host(&buffer).expect("the kernel runs");
        assert_eq!(take(&lines).len(), 64, "{device}: copied");
    }
}

/// Checks with messages that hold values.
#[kernel]
fn checks(limit: u32) {
    let i = thread_idx().x;
    debug_assert!(i < limit + 2, "far beyond");
    assert!(i < limit, "thread {i} is not below {limit:#x}");
}

#[test]
fn assertions_say_their_values() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        checks::launch(&stream, LaunchConfig::new(1, 20), 19).expect("a launch works");
        let error = stream.synchronize().expect_err("thread 19 panics");
        assert_eq!(error.kernel_panic().expect("a panic").message, "thread 19 is not below 0x13", "{device}");
    }
}

#[test]
fn a_sink_of_the_device_takes_what_streams_have_none_for() {
    let _room = usual_room();
    // The CPU executor is shared with other tests, whose streams have sinks of their own.
    for device in std::iter::once(Device::cpu()).chain(gpu().cloned()) {
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        device.set_output_sink(move |line| {
            if line.text.starts_with("00000000000000dd") {
                *counted.lock().expect("no test panics here") += 1;
            }
        });
        let stream = device.stream().expect("a device gives streams");
        one_line::launch(&stream, LaunchConfig::new(1, 10), 0xdd).expect("a launch works");
        stream.synchronize().expect("the kernel runs");
        device.clear_output_sink();
        assert_eq!(*count.lock().expect("no test panics here"), 10, "{device}");
    }
}

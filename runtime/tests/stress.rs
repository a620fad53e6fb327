//! Many launches from many threads with frees and copies among them, and a long run with failures: right results, no leaks,
//! nothing lost.
//!
//! `WARPSMITH_STRESS_LAUNCHES` sets how many launches the first makes on a GPU, else 10^6, and
//! `WARPSMITH_STRESS_SEED` the seed of both, which is printed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use warpsmith::prelude::*;
use warpsmith::{Error, MemoryError};

mod common;
use common::kernel_devices;

/// Held by each test: the first looks at the memory of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const THREADS: usize = 8;
const STREAMS: usize = 4;

#[kernel]
fn scale_and_add(factor: u32, addend: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = y.wrapping_mul(factor).wrapping_add(addend);
    }
}

/// Panics in one thread, without having written anything.
#[kernel]
fn panic_at(at: usize, y: &[u32]) {
    let i = global_idx().get();
    if i < y.len() {
        assert!(i != at, "element {i}");
    }
}

/// A buffer and what its elements should be: `i * factor + addend`.
struct Model {
    buffer: DeviceBuffer<u32>,
    factor: u32,
    addend: u32,
}

impl Model {
    fn new(stream: &Stream, rng: &mut SmallRng) -> Result<Self, Error> {
        let len = rng.random_range(1..3000u32);
        let numbers: Vec<u32> = (0..len).collect();
        Ok(Self { buffer: stream.to_device(&numbers)?, factor: 1, addend: 0 })
    }

    fn launch(&mut self, stream: &Stream, rng: &mut SmallRng) {
        let (factor, addend) = (rng.random::<u32>() | 1, rng.random::<u32>());
        let config = LaunchConfig::for_len(self.buffer.len());
        scale_and_add::launch(stream, config, factor, addend, &mut self.buffer).unwrap();
        self.factor = self.factor.wrapping_mul(factor);
        self.addend = self.addend.wrapping_mul(factor).wrapping_add(addend);
    }

    fn check(&self, stream: &Stream) {
        // Another thread's kernel on the same stream may have panicked, and it is whoever asks first that hears of it. The
        // elements are there all the same.
        let numbers = loop {
            match stream.to_host(&self.buffer) {
                Ok(numbers) => break numbers,
                Err(Error::KernelPanic(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        };
        for (i, number) in (0u32..).zip(numbers) {
            assert_eq!(number, i.wrapping_mul(self.factor).wrapping_add(self.addend), "element {i}");
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("the setting is a number"))
}

/// Bytes of memory that this process has, where the system says.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<u64>().ok()? * 4096)
}

/// Makes launches from all threads, on streams that they share, with frees, allocations and copies between them.
fn work(device: &Device, streams: &[Stream], launches: usize, seed: u64) {
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let made = &made;
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(thread));
                let mut models: Vec<Model> = (0..4).map(|_| Model::new(&streams[0], &mut rng).unwrap()).collect();
                while made.fetch_add(1, Ordering::Relaxed) < launches {
                    let stream = &streams[rng.random_range(0..streams.len())];
                    let one = rng.random_range(0..models.len());
                    models[one].launch(stream, &mut rng);
                    match rng.random_range(0..200u32) {
                        0..4 => models[one] = Model::new(stream, &mut rng).unwrap(),
                        4..6 => {
                            // Freed on whatever stream used it last, while its work may be under way.
                            let copied = &models[one];
                            let mut buffer = stream.zeroed::<u32>(copied.buffer.len()).unwrap();
                            buffer.copy_from_device(stream, &copied.buffer).unwrap();
                            let Model { factor, addend, .. } = models[one];
                            models[one] = Model { buffer, factor, addend };
                        }
                        6 => models[one].check(stream),
                        _ => {}
                    }
                }
                models.iter().for_each(|model| model.check(&streams[0]));
            });
        }
    });
    device.synchronize().unwrap();
}

#[test]
fn many_launches_from_many_threads_leak_nothing() {
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for device in kernel_devices() {
        let launches = if device.is_gpu() { setting("WARPSMITH_STRESS_LAUNCHES", 1_000_000) } else { 4_000 };
        let launches = usize::try_from(launches).expect("a number of launches that fits");
        let seed = setting("WARPSMITH_STRESS_SEED", 1);
        println!("{device}: {launches} launches, seed {seed}");
        let streams: Vec<Stream> = (0..STREAMS).map(|_| device.stream().unwrap()).collect();
        work(&device, &streams, launches / 5, seed);
        let before = (resident(), device.memory_info().unwrap().free);
        let start = std::time::Instant::now();
        work(&device, &streams, launches - launches / 5, seed + 1);
        println!("{device}: {:?} for each launch", start.elapsed() / u32::try_from(launches).unwrap());
        let after = (resident(), device.memory_info().unwrap().free);
        println!("{device}: resident and free bytes {before:?}, then {after:?}");
        if let (Some(before), Some(after)) = (before.0, after.0) {
            assert!(after < before + (16 << 20), "{device}: the process grew from {before} to {after} bytes");
        }
        if device.is_gpu() {
            assert!(after.1 + (64 << 20) > before.1, "{device}: free bytes went from {} to {}", before.1, after.1);
        }
    }
}

#[test]
fn a_long_run_with_failures_loses_nothing() {
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = setting("WARPSMITH_STRESS_SEED", 1);
    println!("seed {seed}");
    let rounds = 40;
    for device in kernel_devices() {
        let is_gpu = device.is_gpu();
        drop(device);
        for round in 0..rounds {
            // A device of its own each round; its last handle goes while buffers and streams are still there.
            let device = if is_gpu { Device::gpu(0).unwrap() } else { Device::cpu() };
            let mut rng = SmallRng::seed_from_u64(seed.wrapping_mul(1000) + round);
            let streams: Vec<Stream> = (0..3).map(|_| device.stream().unwrap()).collect();
            let total = device.memory_info().unwrap().total;
            // More than a process has addresses for: hosts promise memory that they have not.
            let too_much = usize::try_from(total).unwrap().max(1 << 47);
            let mut models: Vec<Model> = (0..4).map(|_| Model::new(&streams[0], &mut rng).unwrap()).collect();
            drop(device);
            for _ in 0..50 {
                let stream = &streams[rng.random_range(0..streams.len())];
                let one = rng.random_range(0..models.len());
                match rng.random_range(0..10u32) {
                    0 => match stream.zeroed::<u8>(too_much) {
                        Err(Error::Memory(MemoryError::OutOfMemory { requested, total: known, .. })) => {
                            assert_eq!((requested, known), (too_much as u64, total));
                        }
                        other => panic!("{other:?}"),
                    },
                    1 => {
                        let buffer = &models[one].buffer;
                        let at = rng.random_range(0..buffer.len());
                        panic_at::launch(stream, LaunchConfig::for_len(buffer.len()), at, buffer).unwrap();
                        if rng.random() {
                            let Err(Error::KernelPanic(panic)) = stream.synchronize() else {
                                panic!("the panic was not reported");
                            };
                            assert!(panic.message.starts_with("element "), "{panic}");
                        }
                    }
                    2 => models[one].check(stream),
                    3 => models[one] = Model::new(stream, &mut rng).unwrap(),
                    4 => {
                        let buffer = &mut models[one].buffer;
                        let too_short = vec![0; buffer.len() - 1];
                        buffer.copy_from_host(stream, &too_short).unwrap_err();
                        let config = LaunchConfig::new(1, 2048);
                        scale_and_add::launch(stream, config, 0, 0, buffer).unwrap_err();
                    }
                    _ => models[one].launch(stream, &mut rng),
                }
            }
            let last = streams.into_iter().next_back().unwrap();
            models.iter().for_each(|model| model.check(&last));
            // The rest goes on another thread, in another order.
            std::thread::spawn(move || {
                drop(last);
                drop(models);
            })
            .join()
            .unwrap();
        }
        // Panics that nobody asked for are the device's to report: other tests share it.
        let device = if is_gpu { Device::gpu(0).unwrap() } else { Device::cpu() };
        while let Err(error) = device.synchronize() {
            assert!(matches!(error, Error::KernelPanic(_)), "{error:?}");
        }
    }
}

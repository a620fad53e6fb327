//! Measures copies between host and GPU, pageable, staged, registered and pinned, against bare driver calls: `copies`.

use std::error::Error;
use std::ffi::c_void;
use std::time::{Duration, Instant};

use warpsmith::cudarc::driver::sys;
use warpsmith::prelude::*;
use warpsmith::{PinnedBuffer, RegisteredBuffer, StagingOptions, StagingRing};

/// Bytes of one copy.
const BYTES: usize = 256 << 20;
/// Rounds, in each of which every way runs once.
const ROUNDS: usize = 15;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let device = Device::new()?;
    if device.is_cpu() {
        return Err("copies over the bus need a GPU".into());
    }
    println!("{device}; {} MiB a copy, {ROUNDS} rounds in turns, GB/s of the median\n", BYTES >> 20);
    let mut sides = Sides::new(&device)?;
    let ways: [(&str, Way); 5] = [
        ("bare `cuMemcpyAsync`, `cuMemHostAlloc`", Sides::bare),
        ("pinned", Sides::pinned),
        ("registered", Sides::registered),
        ("staged", Sides::staged),
        ("pageable", Sides::pageable),
    ];
    println!("| way | to the device | / bare | to the host | / bare |\n| --- | --- | --- | --- | --- |");
    let mut times: [[Vec<Duration>; 2]; 5] = Default::default();
    for round in 0..=ROUNDS {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            for (direction, times) in [Direction::ToDevice, Direction::ToHost].into_iter().zip(times) {
                let time = way(&mut sides, direction)?;
                // The first round warms up.
                if round != 0 {
                    times.push(time);
                }
            }
        }
    }
    let medians = times.map(|both| both.map(median));
    for ((name, _), [to_device, to_host]) in ways.iter().zip(medians) {
        let [bare_to_device, bare_to_host] = medians[0];
        println!(
            "| {name} | {:.2} | {:.3} | {:.2} | {:.3} |",
            rate(to_device),
            bare_to_device.as_secs_f64() / to_device.as_secs_f64(),
            rate(to_host),
            bare_to_host.as_secs_f64() / to_host.as_secs_f64(),
        );
    }
    sides.check()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Gigabytes a second.
fn rate(time: Duration) -> f64 {
    BYTES as f64 / time.as_secs_f64() / 1e9
}

#[derive(Clone, Copy)]
enum Direction {
    ToDevice,
    ToHost,
}

type Way = fn(&mut Sides, Direction) -> Outcome<Duration>;

/// All memory that is copied; made once, and touched.
struct Sides {
    stream: Stream,
    on_device: DeviceBuffer<u8>,
    pageable: Vec<u8>,
    pinned: Option<PinnedBuffer<u8>>,
    registered: Option<RegisteredBuffer<u8>>,
    ring: StagingRing,
    bare: *mut c_void, // Page-locked, `BYTES` long.
}

impl Sides {
    fn new(device: &Device) -> Outcome<Self> {
        let stream = device.stream()?;
        let mut bare = std::ptr::null_mut();
        device.as_cudarc().ok_or("a GPU has a context")?.bind_to_thread()?;
        // SAFETY: it writes one address; the context is current.
        unsafe { sys::cuMemHostAlloc(&raw mut bare, BYTES, 0) }.result()?;
        // SAFETY: the allocation has so many bytes.
        unsafe { bare.cast::<u8>().write_bytes(3, BYTES) };
        Ok(Self {
            on_device: stream.filled(1, BYTES)?,
            pageable: vec![2; BYTES],
            pinned: Some(device.pinned_from(&vec![4; BYTES])?),
            registered: Some(device.register(vec![5; BYTES])?),
            ring: device.staging_ring(StagingOptions::new())?,
            bare,
            stream,
        })
    }

    fn bare(&mut self, direction: Direction) -> Outcome<Duration> {
        let address = self.on_device.cuda_address().ok_or("the buffer is a GPU's")?;
        let stream = self.stream.as_cudarc().ok_or("the stream is a GPU's")?.cu_stream();
        self.stream.synchronize()?;
        let start = Instant::now();
        // SAFETY: both sides have so many bytes, and nothing else uses them until the wait is over.
        unsafe {
            match direction {
                Direction::ToDevice => sys::cuMemcpyHtoDAsync_v2(address, self.bare, BYTES, stream),
                Direction::ToHost => sys::cuMemcpyDtoHAsync_v2(self.bare, address, BYTES, stream),
            }
            .result()?;
            sys::cuStreamSynchronize(stream).result()?;
        }
        Ok(start.elapsed())
    }

    fn pinned(&mut self, direction: Direction) -> Outcome<Duration> {
        let buffer = self.pinned.take().ok_or("the last copy gave the buffer back")?;
        let start = Instant::now();
        let copy = match direction {
            Direction::ToDevice => self.stream.copy_to_device(buffer, &mut self.on_device)?,
            Direction::ToHost => self.stream.copy_to_host(&self.on_device, buffer)?,
        };
        self.pinned = Some(copy.wait()?);
        Ok(start.elapsed())
    }

    fn registered(&mut self, direction: Direction) -> Outcome<Duration> {
        let buffer = self.registered.take().ok_or("the last copy gave the buffer back")?;
        let start = Instant::now();
        let copy = match direction {
            Direction::ToDevice => self.stream.copy_to_device(buffer, &mut self.on_device)?,
            Direction::ToHost => self.stream.copy_to_host(&self.on_device, buffer)?,
        };
        self.registered = Some(copy.wait()?);
        Ok(start.elapsed())
    }

    fn staged(&mut self, direction: Direction) -> Outcome<Duration> {
        let start = Instant::now();
        match direction {
            Direction::ToDevice => self.ring.copy_to_device(&self.stream, &self.pageable, &mut self.on_device)?,
            Direction::ToHost => self.ring.copy_to_host(&self.stream, &self.on_device, &mut self.pageable)?,
        }
        self.stream.synchronize()?;
        Ok(start.elapsed())
    }

    fn pageable(&mut self, direction: Direction) -> Outcome<Duration> {
        let start = Instant::now();
        match direction {
            Direction::ToDevice => self.on_device.copy_from_host(&self.stream, &self.pageable)?,
            Direction::ToHost => self.on_device.copy_to_host(&self.stream, &mut self.pageable)?,
        }
        self.stream.synchronize()?;
        Ok(start.elapsed())
    }

    /// Checks that the copies copy.
    fn check(&mut self) -> Outcome {
        for (value, way) in [(11, Self::staged as Way), (12, Self::pageable)] {
            self.pageable.fill(value);
            way(self, Direction::ToDevice)?;
            self.pageable.fill(0);
            way(self, Direction::ToHost)?;
            if self.pageable.iter().any(|&byte| byte != value) {
                return Err("a copy lost bytes".into());
            }
        }
        let pinned = self.pinned.as_mut().ok_or("the last copy gave the buffer back")?;
        pinned.fill(13);
        self.pinned(Direction::ToDevice)?;
        self.registered(Direction::ToHost)?;
        let registered = self.registered.as_ref().ok_or("the last copy gave the buffer back")?;
        if registered.iter().any(|&byte| byte != 13) {
            return Err("a copy lost bytes".into());
        }
        Ok(())
    }
}

impl Drop for Sides {
    fn drop(&mut self) {
        // SAFETY: allocated so, and every copy with it was waited for.
        let _ = unsafe { sys::cuMemFreeHost(self.bare) };
    }
}

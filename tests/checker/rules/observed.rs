//! What a checked device tells besides faults: what lines ask of memory, and who writes a watched element.

use warpsmith::prelude::*;
use warpsmith::{CheckOptions, F32x4, MemoryReport, MemorySpace};

#[kernel(block = (32, 32))]
fn transpose<const PADDED: bool>(x: &[f32], width: usize, mut y: GridSliceMut<f32, Plane>) {
    let i = global_idx_2d();
    let at = [thread_idx().x as usize, thread_idx().y as usize];
    let value = x[i.y() * width + i.x()];
    let turned = if PADDED {
        let mut tile = shared_array!(PaddedRows<f32, 32, 32>);
        tile.put(value);
        tile.sync().at(at)
    } else {
        let mut tile = shared_array!(Rows<f32, 32, 32>);
        tile.put(value);
        tile.sync().at(at)
    };
    if let Some(y) = y.get_mut(&i) {
        *y = turned;
    }
}

#[kernel]
fn row_sums(x: &[f32], width: usize, mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get() * width..][..width].iter().sum();
    }
}

fn reported(run: impl FnOnce(&Stream, &DeviceBuffer<f32>) -> warpsmith::Result<()>) -> MemoryReport {
    let device = Device::cpu_checked_with(CheckOptions::new().memory_report(true));
    let stream = device.stream().expect("the executor has streams");
    let x = stream.filled(1.0f32, 64 * 64).expect("there is memory");
    run(&stream, &x).expect("the launch is in order");
    stream.synchronize().expect("there is no fault");
    device.memory_report()
}

/// Requests, taken and fewest of all lines that access a memory.
fn sums(report: &MemoryReport, space: MemorySpace, is_write: bool) -> (u64, u64, u64) {
    let of_kind = report.lines().filter(|line| line.space == space && line.is_write == is_write);
    of_kind.fold((0, 0, 0), |(requests, taken, fewest), line| {
        assert_eq!(line.left_out, 0, "{report}");
        (requests + line.requests, taken + line.transactions, fewest + line.fewest)
    })
}

fn transposed<const PADDED: bool>() -> MemoryReport {
    reported(|stream, x| {
        let mut y = stream.zeroed::<f32>(64 * 64)?;
        let y = y.plane_mut(64, 64)?;
        transpose::launch::<PADDED>(stream, LaunchConfig::new((2, 2), (32, 32)), x, 64, y)
    })
}

#[kernel]
fn scale_vectors(a: f32, x: &[F32x4], mut y: GridSliceMut<F32x4>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let value = x[i.get()];
        *y = value * a;
    }
}

/// The alignment that says whether floats may be moved together is the type's: `[f32; 4]` has that of a float.
#[kernel]
unsafe fn scale_arrays(a: f32, x: *const [f32; 4], y: *mut [f32; 4]) {
    let i = global_idx().get();
    // SAFETY: the launch gives buffers of 32 arrays.
    unsafe {
        let value = *x.add(i);
        *y.add(i) = value.map(|v| v * a);
    }
}

#[test]
fn vectors_are_moved_whole_as_on_a_gpu() {
    let report = reported(|stream, x| {
        let mut y = stream.zeroed::<f32>(128)?;
        let y = y.as_vectors_mut()?;
        scale_vectors::launch(stream, LaunchConfig::new(1, 32), 2.0, x.as_vectors()?.slice(0..32), y)
    });
    assert_eq!(sums(&report, MemorySpace::Global, false), (1, 16, 16), "{report}");
    assert_eq!(sums(&report, MemorySpace::Global, true), (1, 16, 16), "{report}");
    let report = reported(|stream, x| {
        let y = stream.zeroed::<f32>(128)?;
        let (x, y) = (x.as_device_ptr().cast(), y.as_device_ptr().cast_mut().cast());
        // SAFETY: both have 32 arrays of 4, and live until the launch has ended.
        unsafe { scale_arrays::launch(stream, LaunchConfig::new(1, 32), 2.0, x, y) }
    });
    assert_eq!(sums(&report, MemorySpace::Global, false), (4, 64, 16), "{report}");
    assert_eq!(sums(&report, MemorySpace::Global, true), (4, 64, 16), "{report}");
}

#[test]
fn a_tile_read_by_columns_conflicts_unless_it_is_padded() {
    let (plain, padded) = (transposed::<false>(), transposed::<true>());
    for report in [&plain, &padded] {
        assert_eq!(sums(report, MemorySpace::Global, false), (128, 512, 512), "{report}");
        assert_eq!(sums(report, MemorySpace::Global, true), (128, 512, 512), "{report}");
        assert_eq!(sums(report, MemorySpace::Shared, true), (128, 128, 128), "{report}");
    }
    assert_eq!(sums(&plain, MemorySpace::Shared, false), (128, 128 * 32, 128), "{plain}");
    assert_eq!(sums(&padded, MemorySpace::Shared, false), (128, 128, 128), "{padded}");
    assert!(
        plain.to_html().contains("checker::observed") || plain.to_html().contains("observed::transpose"),
        "{plain}"
    );
}

#[test]
fn a_thread_a_row_touches_a_sector_for_each_float() {
    let report = reported(|stream, x| {
        let mut y = stream.zeroed::<f32>(64)?;
        row_sums::launch(stream, LaunchConfig::new(1, 64), x, 64, &mut y)
    });
    let (_, taken, fewest) = sums(&report, MemorySpace::Global, false);
    // However wide the loads are: 64 rows of 8 sectors at best.
    assert_eq!(fewest, 512, "{report}");
    assert!(taken >= 2 * fewest, "{report}");
}

/// Reads and writes floats `stride` apart, from `first` on, and as many of shared memory, a warp a block.
#[kernel]
unsafe fn strided(x: *const f32, y: *mut f32, stride: usize, first: usize) {
    let tile = shared!([f32; 32 * 33]).cast::<f32>();
    let at = thread_idx().x as usize * stride;
    let first = first + block_idx().x as usize * 1056;
    // SAFETY: the launch gives buffers of 32 * 33 elements and a few more, and a stride of 33 at most.
    unsafe {
        *tile.add(at) = 2.0 * *x.add(first + at);
        *y.add(first + at) = 1.0 + *tile.add(at);
    }
}

#[test]
fn strides_cost_what_they_touch() {
    // The tile is read where it was just written, which the compiler keeps in a register.
    // Stride and first element; sectors of 32 bytes and the fewest; wavefronts of 32 banks.
    for (stride, first, sectors, wavefronts) in [
        (0, 0, 1, 1),
        (1, 0, 4, 1),
        (1, 1, 5, 1),
        (1, 8, 4, 1),
        (2, 0, 8, 2),
        (3, 0, 12, 1),
        (4, 0, 16, 4),
        (8, 0, 32, 8),
        (16, 0, 32, 16),
        (32, 0, 32, 32),
        (33, 0, 32, 1),
    ] {
        let report = reported(|stream, x| {
            let y = stream.zeroed::<f32>(64 * 64)?;
            let y = y.as_device_ptr().cast_mut();
            let threads = if stride == 0 { 1 } else { 32 };
            // SAFETY: 64 * 64 elements are enough for each stride.
            unsafe { strided::launch(stream, LaunchConfig::new(3, threads), x.as_device_ptr(), y, stride, first) }
        });
        let case = format!("stride {stride} from {first}\n{report}");
        let fewest = if stride == 0 { 1 } else { 4 };
        assert_eq!(sums(&report, MemorySpace::Global, false), (3, 3 * sectors, 3 * fewest), "{case}");
        assert_eq!(sums(&report, MemorySpace::Global, true), (3, 3 * sectors, 3 * fewest), "{case}");
        assert_eq!(sums(&report, MemorySpace::Shared, true), (3, 3 * wavefronts, 3), "{case}");
    }
}

#[test]
fn a_watch_tells_the_thread_that_wrote() {
    let device = Device::cpu_checked();
    let stream = device.stream().expect("the executor has streams");
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let x = stream.to_device(&x).expect("there is memory");
    let mut y = stream.zeroed::<f32>(64).expect("there is memory");
    let watch = device.watch(&y, 37).expect("there is such an element");
    let sums = |y: &mut DeviceBuffer<f32>| row_sums::launch(&stream, LaunchConfig::new(2, 32), &x, 1, y);
    sums(&mut y).expect("the launch is in order");
    let writes = watch.take_writes();
    let [write] = &writes[..] else { panic!("{writes:#?}") };
    assert_eq!((write.side.block.x, write.side.thread.x), (1, 5), "{write}");
    assert_eq!((write.old.as_str(), write.new.as_str()), ("0.0", "37.0"), "{write}");
    assert!(write.side.file.ends_with("observed.rs") && write.side.line > 0, "{write}");
    drop(watch);
    sums(&mut y).expect("the launch is in order");

    for (index, device) in [(64, &device), (0, &Device::cpu())] {
        let error = device.watch(&y, index).expect_err("it cannot be watched").to_string();
        assert!(error.starts_with(&format!("element {index} cannot be watched: ")), "{error}");
    }
}

//! A photograph through six kernels: gray, blur, edges, histogram, and a count of its bright sources.
//!
//! `photo INPUT OUT.png` reads a JPEG or PNG, writes its edges, and checks every step against plain host code.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use image::{GrayImage, RgbImage};
use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_examples::{Outcome, equal, median_time, report};

/// Rows and columns of a block of the two-dimensional kernels.
const BLOCK: usize = 16;
/// How far the blur looks.
const RADIUS: usize = 2;
/// Rows and columns of the blur's tile: a block with a margin.
const TILE: usize = BLOCK + 2 * RADIUS;
/// The blur's weights along one axis; their sum is 16.
const WEIGHTS: [u32; 2 * RADIUS + 1] = [1, 4, 6, 4, 1];
/// Threads in a block of the one-dimensional kernels.
const THREADS: u32 = 256;
/// Levels of gray.
const LEVELS: usize = 256;

/// Brightness of a colour, in 256ths (ITU-R BT.601), rounded.
fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((77 * u32::from(red) + 150 * u32::from(green) + 29 * u32::from(blue) + 128) >> 8) as u8
}

/// An image's pixel, the nearest one for places beyond its edges.
fn at(image: &[u8], plane: Plane, x: isize, y: isize) -> i32 {
    let column = x.clamp(0, plane.width() as isize - 1) as usize;
    let row = y.clamp(0, plane.height() as isize - 1) as usize;
    image[row * plane.width() + column].into()
}

/// Whether a pixel is above the threshold, and brighter than its eight neighbours; among equals the last one wins.
fn is_source(image: &[u8], plane: Plane, i: usize, threshold: u8) -> bool {
    let value = i32::from(image[i]);
    let (x, y) = ((i % plane.width()) as isize, (i / plane.width()) as isize);
    let inside = x > 0 && y > 0 && x + 1 < plane.width() as isize && y + 1 < plane.height() as isize;
    let before = [(-1, -1), (0, -1), (1, -1), (-1, 0)];
    inside
        && value > i32::from(threshold)
        && before.iter().all(|(dx, dy)| value >= at(image, plane, x + dx, y + dy))
        && before.iter().all(|(dx, dy)| value > at(image, plane, x - dx, y - dy))
}

/// Colour to gray, one pixel a thread.
#[kernel]
fn gray(color: &[[u8; 3]], mut output: GridSliceMut<u8>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = luma(color[i.get()]);
    }
}

/// Binomial blur: the block's pixels and their margin go to shared memory once, then each thread weighs 25 of them.
#[kernel(block = (BLOCK as u32, BLOCK as u32))]
fn blur(image: &[u8], mut output: GridSliceMut<u8, Plane>) {
    let tile = shared!([u8; TILE * TILE]).cast::<u8>();
    let plane = *output.map();
    let (thread, block) = (thread_idx(), block_idx());
    let left = (block.x as usize * BLOCK) as isize - RADIUS as isize;
    let top = (block.y as usize * BLOCK) as isize - RADIUS as isize;
    let first = thread.y as usize * BLOCK + thread.x as usize;
    for i in (first..TILE * TILE).step_by(BLOCK * BLOCK) {
        let value = at(image, plane, left + (i % TILE) as isize, top + (i / TILE) as isize);
        // SAFETY: `i` is below TILE * TILE, and the block's threads share these numbers out among them.
        unsafe { tile.add(i).write(value as u8) };
    }
    sync_threads();
    let place = global_idx_2d();
    if let Some(output) = output.get_mut(&place) {
        let mut total = 128;
        for (dy, row_weight) in WEIGHTS.into_iter().enumerate() {
            for (dx, weight) in WEIGHTS.into_iter().enumerate() {
                let i = (thread.y as usize + dy) * TILE + thread.x as usize + dx;
                // SAFETY: both terms stay below TILE, and all of the tile was written before the barrier.
                total += row_weight * weight * u32::from(unsafe { tile.add(i).read() });
            }
        }
        *output = (total >> 8) as u8;
    }
}

/// Strength of the edge at each pixel: the length of Sobel's gradient.
#[kernel]
fn sobel(image: &[u8], mut output: GridSliceMut<f32, Plane>) {
    let plane = *output.map();
    let place = global_idx_2d();
    if let Some(output) = output.get_mut(&place) {
        let (x, y) = (place.x() as isize, place.y() as isize);
        let mut along = 0;
        let mut down = 0;
        for (offset, weight) in [(-1, 1), (0, 2), (1, 1)] {
            along += weight * (at(image, plane, x + 1, y + offset) - at(image, plane, x - 1, y + offset));
            down += weight * (at(image, plane, x + offset, y + 1) - at(image, plane, x + offset, y - 1));
        }
        *output = ((along * along + down * down) as f32).sqrt();
    }
}

/// How often each level occurs: counted in shared memory, then added to `counts` once a block.
#[kernel(block = THREADS)]
fn histogram(image: &[u8], counts: &[AtomicU32]) {
    let own_counts = shared!([AtomicU32; LEVELS]).cast::<AtomicU32>();
    let thread = thread_idx().x as usize;
    // SAFETY: THREADS equals LEVELS, and each thread writes its own slot.
    unsafe { own_counts.add(thread).write(AtomicU32::new(0)) };
    sync_threads();
    // SAFETY: every slot was written before the barrier, and is an atomic from here on.
    let own_counts = unsafe { &*own_counts.cast::<[AtomicU32; LEVELS]>() };
    for i in grid_stride(image.len()) {
        own_counts[usize::from(image[i.get()])].fetch_add(1, Ordering::Relaxed);
    }
    sync_threads();
    counts[thread].fetch_add(own_counts[thread].load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Counts the bright sources: each thread its share, then warps by shuffles, then the block through shared memory.
#[kernel(block = THREADS)]
fn count_sources(image: &[u8], plane: Plane, threshold: u8, total: &[AtomicU32]) {
    let warp_totals = shared!([u32; (THREADS / WARP_SIZE) as usize]).cast::<u32>();
    let mut count = 0;
    for i in grid_stride(image.len()) {
        count += u32::from(is_source(image, plane, i.get(), threshold));
    }
    let mut distance = WARP_SIZE / 2;
    while distance > 0 {
        count += shfl_down(FULL_MASK, count, distance);
        distance /= 2;
    }
    if lane_id() == 0 {
        // SAFETY: there is a slot for every warp, and its first lane alone writes it.
        unsafe { warp_totals.add(warp_id() as usize).write(count) };
    }
    sync_threads();
    if thread_idx().x == 0 {
        let block_total: u32 = (0..(THREADS / WARP_SIZE) as usize)
            // SAFETY: all slots were written before the barrier.
            .map(|warp| unsafe { warp_totals.add(warp).read() })
            .sum();
        total[0].fetch_add(block_total, Ordering::Relaxed);
    }
}

/// The level that parts an image best into dark and bright: the one with the largest variance between the two.
fn otsu(counts: &[u32]) -> u8 {
    let all: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    let weighted: f64 = counts.iter().enumerate().map(|(level, count)| level as f64 * f64::from(*count)).sum();
    let (mut dark, mut dark_weighted) = (0.0, 0.0);
    let mut best = (0, -1.0);
    for (level, count) in counts.iter().enumerate() {
        dark += f64::from(*count);
        dark_weighted += level as f64 * f64::from(*count);
        let bright = all - dark;
        if dark > 0.0 && bright > 0.0 {
            let distance = dark_weighted / dark - (weighted - dark_weighted) / bright;
            let variance = dark * bright * distance * distance;
            if variance > best.1 {
                best = (level as u8, variance);
            }
        }
    }
    best.0
}

/// The same steps in plain host code.
mod host {
    use super::{LEVELS, Plane, WEIGHTS};

    /// Blurs along rows, then along columns.
    pub(super) fn blur(image: &[u8], plane: Plane) -> Vec<u8> {
        let (width, height) = (plane.width() as isize, plane.height() as isize);
        let weigh =
            |value: &dyn Fn(isize) -> u32| (-2..).zip(WEIGHTS).map(|(d, weight)| weight * value(d)).sum::<u32>();
        let mut rows = vec![0; image.len()];
        for y in 0..height {
            for x in 0..width {
                rows[(y * width + x) as usize] =
                    weigh(&|d| image[(y * width + (x + d).clamp(0, width - 1)) as usize].into());
            }
        }
        let mut output = vec![0; image.len()];
        for y in 0..height {
            for x in 0..width {
                let total = weigh(&|d| rows[((y + d).clamp(0, height - 1) * width + x) as usize]);
                output[(y * width + x) as usize] = ((total + 128) >> 8) as u8;
            }
        }
        output
    }

    /// Sobel's two masks, written out.
    pub(super) fn sobel(image: &[u8], plane: Plane) -> Vec<f32> {
        const MASK: [[i32; 3]; 3] = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]];
        let (width, height) = (plane.width(), plane.height());
        let mut output = Vec::with_capacity(image.len());
        for y in 0..height {
            for x in 0..width {
                let (mut along, mut down) = (0, 0);
                for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                    let row = (y + i).saturating_sub(1).min(height - 1);
                    let column = (x + j).saturating_sub(1).min(width - 1);
                    let value = i32::from(image[row * width + column]);
                    along += MASK[i][j] * value;
                    down += MASK[j][i] * value;
                }
                output.push(((along * along + down * down) as f32).sqrt());
            }
        }
        output
    }

    /// How often each level occurs.
    pub(super) fn histogram(image: &[u8]) -> Vec<u32> {
        let mut counts = vec![0; LEVELS];
        for value in image {
            counts[usize::from(*value)] += 1;
        }
        counts
    }
}

/// Runs every step on the device, compares it with the host's, and gives the edges.
fn process(stream: &Stream, color: &[[u8; 3]], plane: Plane) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let (width, height) = (plane.width(), plane.height());
    let len = color.len();
    let linear = LaunchConfig::for_len(len);
    let tiles =
        LaunchConfig::new((width.div_ceil(BLOCK) as u32, height.div_ceil(BLOCK) as u32), (BLOCK as u32, BLOCK as u32));
    let strided = LaunchConfig::new((len.div_ceil(THREADS as usize) as u32).clamp(1, 1024), THREADS);

    let device_color = stream.to_device(color)?;
    let mut device_gray = stream.zeroed::<u8>(len)?;
    let time = median_time(stream, 9, || gray::launch(stream, linear, &device_color, &mut device_gray))?;
    report("gray", time, 4 * len);
    let host_gray: Vec<u8> = color.iter().map(|pixel| luma(*pixel)).collect();
    equal("  gray", &stream.to_host(&device_gray)?, &host_gray)?;

    let mut device_blurred = stream.zeroed::<u8>(len)?;
    let time =
        median_time(stream, 9, || blur::launch(stream, tiles, &device_gray, device_blurred.plane_mut(width, height)?))?;
    report("blur", time, 2 * len);
    let host_blurred = host::blur(&host_gray, plane);
    equal("  blur", &stream.to_host(&device_blurred)?, &host_blurred)?;

    let mut device_edges = stream.zeroed::<f32>(len)?;
    let time = median_time(stream, 9, || {
        sobel::launch(stream, tiles, &device_blurred, device_edges.plane_mut(width, height)?)
    })?;
    report("sobel", time, 5 * len);
    let edges = stream.to_host(&device_edges)?;
    // A square root of an integer: one IEEE operation, so equal to the last bit.
    equal("  sobel", &edges, &host::sobel(&host_blurred, plane))?;

    let mut device_counts = stream.zeroed::<u32>(LEVELS)?;
    histogram::launch(stream, strided, &device_blurred, &mut device_counts)?;
    let counts = stream.to_host(&device_counts)?;
    let time = median_time(stream, 9, || histogram::launch(stream, strided, &device_blurred, &mut device_counts))?;
    report("histogram", time, len);
    equal("  histogram", &counts, &host::histogram(&host_blurred))?;

    let threshold = otsu(&counts);
    let mut device_total = stream.zeroed::<u32>(1)?;
    count_sources::launch(stream, strided, &device_blurred, plane, threshold, &mut device_total)?;
    let total = stream.to_host(&device_total)?;
    let time = median_time(stream, 9, || {
        count_sources::launch(stream, strided, &device_blurred, plane, threshold, &mut device_total)
    })?;
    report("count_sources", time, len);
    let host_total = (0..len).filter(|i| is_source(&host_blurred, plane, *i, threshold)).count();
    equal("  count_sources", &total, &[host_total as u32])?;
    println!("threshold (Otsu): {threshold} of 255; bright sources: {}", total[0]);
    Ok(edges)
}

fn arguments() -> Result<(PathBuf, PathBuf), String> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(input), Some(output), None) => Ok((input, output)),
        _ => Err("usage: photo INPUT OUT.png".to_owned()),
    }
}

fn read(path: &Path) -> Result<RgbImage, String> {
    let image = image::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(image.to_rgb8())
}

fn main() -> Outcome {
    let (input, output) = arguments()?;
    let image = read(&input)?;
    let (width, height) = image.dimensions();
    let device = Device::new()?;
    println!("device: {device}");
    println!("image: {}, {width} x {height}", input.display());
    let plane = Plane::new(width as usize, height as usize).ok_or("the image has too many pixels")?;
    let color: Vec<[u8; 3]> = image.pixels().map(|pixel| pixel.0).collect();

    let edges = process(&device.stream()?, &color, plane)?;

    let brightest = edges.iter().copied().fold(1.0, f32::max);
    // The root lifts the faint edges, of which such a picture has most.
    let pixels = edges.iter().map(|edge| ((edge / brightest).sqrt() * 255.0) as u8).collect();
    let picture = GrayImage::from_raw(width, height, pixels).ok_or("one edge a pixel")?;
    picture.save(&output).map_err(|error| format!("cannot write {}: {error}", output.display()))?;
    println!("wrote {}", output.display());
    Ok(())
}

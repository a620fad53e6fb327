//! The Mandelbrot set as a picture: a two-dimensional map with loops of very different lengths.

use image::{Rgb, RgbImage};
use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal, median_time, report_operations};

/// Steps after which a point counts as inside.
const LIMIT: u32 = 400;

/// The part of the plane that is shown.
#[derive(Clone, Copy, KernelValue)]
struct View {
    left: f64,
    top: f64,
    /// Size of a pixel.
    pixel: f64,
}

/// Steps until the point under a pixel leaves the circle of radius 2, at most [`LIMIT`].
fn steps(view: View, column: usize, row: usize) -> u32 {
    let (re, im) = (view.left + column as f64 * view.pixel, view.top - row as f64 * view.pixel);
    let (mut x, mut y) = (0.0, 0.0);
    (0..LIMIT)
        .find(|_| {
            (x, y) = (x * x - y * y + re, 2.0 * x * y + im);
            x * x + y * y > 4.0
        })
        .unwrap_or(LIMIT)
}

/// One pixel a thread.
#[kernel]
fn mandelbrot(view: View, mut counts: GridSliceMut<u32, Plane>) {
    let place = global_idx_2d();
    if let Some(count) = counts.get_mut(&place) {
        *count = steps(view, place.x(), place.y());
    }
}

/// Dark blue through orange to white; black inside.
fn color(count: u32) -> Rgb<u8> {
    if count == LIMIT {
        return Rgb([0, 0, 0]);
    }
    let t = (f64::from(count + 1).ln() / f64::from(LIMIT).ln()).clamp(0.0, 1.0);
    let ramp = |low: f64, high: f64| (((t - low) / (high - low)).clamp(0.0, 1.0) * 255.0) as u8;
    Rgb([ramp(0.25, 0.7), ramp(0.35, 0.95), ramp(0.0, 0.35).saturating_sub(ramp(0.4, 0.8)).max(ramp(0.75, 1.0))])
}

fn main() -> Outcome {
    const WIDTH: usize = 960;
    const HEIGHT: usize = 640;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    let view = View { left: -2.25, top: 1.0, pixel: 3.0 / WIDTH as f64 };
    let mut counts = stream.zeroed::<u32>(WIDTH * HEIGHT)?;
    let config = LaunchConfig::new((WIDTH.div_ceil(16) as u32, HEIGHT.div_ceil(16) as u32), (16, 16));
    mandelbrot::launch(&stream, config, view, counts.plane_mut(WIDTH, HEIGHT)?)?;
    let result = stream.to_host(&counts)?;

    let expected: Vec<u32> = (0..WIDTH * HEIGHT).map(|i| steps(view, i % WIDTH, i / WIDTH)).collect();
    equal("mandelbrot", &result, &expected)?;

    let image = RgbImage::from_fn(WIDTH as u32, HEIGHT as u32, |x, y| color(result[y as usize * WIDTH + x as usize]));
    image.save("mandelbrot.png")?;
    println!("wrote mandelbrot.png");

    let total: usize = result.iter().map(|count| *count as usize).sum();
    let time = median_time(&stream, 5, || mandelbrot::launch(&stream, config, view, counts.plane_mut(WIDTH, HEIGHT)?))?;
    report_operations("mandelbrot", time, total, "steps");
    Ok(())
}

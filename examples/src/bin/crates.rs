//! Kernels that call into published crates, as these were written for CPUs: glam's transforms and num-complex's numbers.

use glam::{Affine3A, Mat4, Quat, Vec3, Vec3A};
use num_complex::Complex;
use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal};

/// A point as plain numbers; glam's own types are made of them inside the kernel.
type Point = [f32; 3];

/// Turns a point step by step with glam: a quaternion, a look-at matrix with its inverse, a projection.
fn project(point: Point, spin: [f32; 4]) -> Point {
    let turned = Quat::from_array(spin).normalize() * Vec3A::from_array(point);
    let camera = Mat4::look_at_rh(Vec3::new(3.0, 4.0, 5.0), Vec3::ZERO, Vec3::Y);
    let lens = Mat4::from_cols_array(&[
        1.2, 0.0, 0.0, 0.0, //
        0.0, 1.6, 0.0, 0.0, //
        0.0, 0.0, -1.02, -1.0, //
        0.0, 0.0, -0.2, 0.0,
    ]);
    let seen = (lens * camera).project_point3(Vec3::from(turned));
    let frame =
        Affine3A::from_scale_rotation_translation(Vec3::splat(2.0), Quat::from_array(spin), Vec3::ONE).inverse();
    let local = frame.transform_point3a(turned);
    let side = local.cross(Vec3A::from(seen)).clamp_length_max(10.0);
    (Vec3A::from(seen).lerp(side, 0.25).max(Vec3A::splat(-100.0)) + local.reject_from(Vec3A::Y) * 0.125).to_array()
}

/// One point a thread.
#[kernel]
fn project_all(points: &[Point], spin: [f32; 4], mut output: GridSliceMut<Point>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = project(points[i.get()], spin);
    }
}

/// Newton's method for `z^3 = 1` with num-complex: the root it ends at, and how many steps that took.
fn root(re: f64, im: f64) -> (f64, f64, u32) {
    let mut z = Complex::new(re, im);
    for step in 0..50 {
        let next = z - (z * z * z - 1.0) / (z.powu(2) * 3.0);
        if (next - z).norm_sqr() < 1e-24 {
            return (next.re, next.im, step);
        }
        z = next;
    }
    (z.re, z.im, 50)
}

/// One starting point a thread.
#[kernel]
fn roots(starts: &[(f64, f64)], mut output: GridSliceMut<(f64, f64, u32)>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let (re, im) = starts[i.get()];
        *output = root(re, im);
    }
}

fn main() -> Outcome {
    const LEN: usize = 20_011;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;
    let config = LaunchConfig::for_len(LEN);

    let spin = [0.1, 0.7, -0.2, 0.6];
    let points: Vec<Point> =
        (0..LEN).map(|i| std::array::from_fn(|axis| ((i * (axis + 3)) % 41) as f32 / 20.0 - 1.0)).collect();
    let device_points = stream.to_device(&points)?;
    let mut projected = stream.zeroed::<Point>(LEN)?;
    project_all::launch(&stream, config, &device_points, spin, &mut projected)?;
    let expected: Vec<Point> = points.iter().map(|point| project(*point, spin)).collect();
    equal("glam", &stream.to_host(&projected)?, &expected)?;

    let starts: Vec<(f64, f64)> =
        (0..LEN).map(|i| ((i % 141) as f64 / 70.0 - 0.993, (i / 141) as f64 / 70.0 - 1.007)).collect();
    let device_starts = stream.to_device(&starts)?;
    let mut found = stream.zeroed::<(f64, f64, u32)>(LEN)?;
    roots::launch(&stream, config, &device_starts, &mut found)?;
    let expected: Vec<(f64, f64, u32)> = starts.iter().map(|start| root(start.0, start.1)).collect();
    equal("num-complex", &stream.to_host(&found)?, &expected)?;
    Ok(())
}

//! Gravity between all pairs of bodies, a tile of them at a time in shared memory.

use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_examples::{Outcome, equal, median_time, report_operations};

/// Bodies in a tile, and threads in a block.
const TILE: usize = 128;
/// Length of a step in time.
const STEP: f32 = 0.01;
/// Keeps close encounters finite: added to every squared distance.
const SOFTENING: f32 = 0.01;

/// Where a body is, how it moves, and what it weighs.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
#[repr(C)]
struct Body {
    position: [f32; 3],
    mass: f32,
    velocity: [f32; 3],
    /// Keeps the size at two 16-byte loads.
    _pad: f32,
}

/// The pull of a body on a place, added to `total`.
fn pull(total: [f32; 3], place: [f32; 3], body: &Body) -> [f32; 3] {
    let away: [f32; 3] = std::array::from_fn(|axis| body.position[axis] - place[axis]);
    let squared = away[0] * away[0] + away[1] * away[1] + away[2] * away[2] + SOFTENING;
    let strength = body.mass / (squared * squared.sqrt());
    std::array::from_fn(|axis| total[axis] + strength * away[axis])
}

/// A body one step later.
fn moved(body: Body, acceleration: [f32; 3]) -> Body {
    let velocity = std::array::from_fn(|axis| body.velocity[axis] + STEP * acceleration[axis]);
    let position = std::array::from_fn(|axis| body.position[axis] + STEP * velocity[axis]);
    Body { position, velocity, ..body }
}

/// Moves every body by one step.
#[kernel(block = TILE as u32)]
fn step(bodies: &[Body], mut next: GridSliceMut<Body>) {
    let tile = shared!([Body; TILE]).cast::<Body>();
    let i = global_idx();
    let thread = thread_idx().x as usize;
    let own = bodies.get(i.get()).copied();
    let place = own.map_or([0.0; 3], |body| body.position);
    let mut acceleration = [0.0; 3];
    for start in (0..bodies.len()).step_by(TILE) {
        if let Some(body) = bodies.get(start + thread) {
            // SAFETY: `thread` is below TILE and different in each thread; the last reads ended at the barrier below.
            unsafe { tile.add(thread).write(*body) };
        }
        sync_threads();
        for k in 0..TILE.min(bodies.len() - start) {
            // SAFETY: these slots were written before the barrier, and nobody writes until the next.
            acceleration = pull(acceleration, place, unsafe { &*tile.add(k) });
        }
        sync_threads();
    }
    if let (Some(next), Some(own)) = (next.get_mut(&i), own) {
        *next = moved(own, acceleration);
    }
}

/// Kinetic energy, and potential energy of all pairs.
fn energy(bodies: &[Body]) -> f64 {
    let mut total = 0.0;
    for (i, a) in bodies.iter().enumerate() {
        let squared = |v: [f32; 3]| v.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
        total += 0.5 * f64::from(a.mass) * squared(a.velocity);
        for b in &bodies[..i] {
            let away: [f32; 3] = std::array::from_fn(|axis| a.position[axis] - b.position[axis]);
            total -= f64::from(a.mass) * f64::from(b.mass) / (squared(away) + f64::from(SOFTENING)).sqrt();
        }
    }
    total
}

fn main() -> Outcome {
    const LEN: usize = 2000;
    const STEPS: usize = 10;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    // A disc that turns around its middle.
    let bodies: Vec<Body> = (0..LEN)
        .map(|i| {
            let (angle, radius) = (i as f32 * 2.399_963, (i as f32 / LEN as f32).sqrt());
            let (sin, cos) = angle.sin_cos();
            let height = ((i * 7919) % 101) as f32 / 1010.0 - 0.05;
            Body {
                position: [radius * cos, radius * sin, height],
                mass: 1.0 / LEN as f32,
                velocity: [-sin * radius.sqrt(), cos * radius.sqrt(), 0.0],
                _pad: 0.0,
            }
        })
        .collect();

    let config = LaunchConfig::new(LEN.div_ceil(TILE) as u32, TILE as u32);
    let mut current = stream.to_device(&bodies)?;
    let mut next = stream.to_device(&bodies)?;
    for _ in 0..STEPS {
        step::launch(&stream, config, &current, &mut next)?;
        std::mem::swap(&mut current, &mut next);
    }
    let result = stream.to_host(&current)?;

    // The same operations in the same order: equal to the last bit.
    let mut expected = bodies.clone();
    for _ in 0..STEPS {
        expected = expected
            .iter()
            .map(|body| moved(*body, expected.iter().fold([0.0; 3], |total, other| pull(total, body.position, other))))
            .collect();
    }
    equal("bodies", &result, &expected)?;
    let (before, after) = (energy(&bodies), energy(&result));
    println!("energy: {before:.6} before, {after:.6} after {STEPS} steps");

    let time = median_time(&stream, 5, || step::launch(&stream, config, &current, &mut next))?;
    report_operations("step", time, LEN * LEN, "interactions");
    Ok(())
}

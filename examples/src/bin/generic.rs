//! One generic kernel over floats, integers, a struct of our own and functions given as types.

use std::ops::{Add, Mul};

use warpsmith::prelude::*;
use warpsmith_examples::{Outcome, equal};

/// A function as a type, so that it reaches the kernel without a pointer: a closure whose captures are fields.
trait Function<T>: KernelValue {
    /// The function's value at `x`.
    fn call(&self, x: T) -> T;
}

/// `scale * x + offset`.
#[derive(Clone, Copy, KernelValue)]
struct Line<T> {
    scale: T,
    offset: T,
}

impl<T: KernelValue + Mul<Output = T> + Add<Output = T>> Function<T> for Line<T> {
    fn call(&self, x: T) -> T {
        self.scale * x + self.offset
    }
}

/// `first`, then `second`.
#[derive(Clone, Copy, KernelValue)]
struct Then<F, G> {
    first: F,
    second: G,
}

impl<T, F: Function<T>, G: Function<T>> Function<T> for Then<F, G> {
    fn call(&self, x: T) -> T {
        self.second.call(self.first.call(x))
    }
}

/// A vector in the plane; multiplication turns and stretches, as for complex numbers.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
struct Vec2 {
    x: f32,
    y: f32,
}

impl Add for Vec2 {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y }
    }
}

impl Mul for Vec2 {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self { x: self.x * other.x - self.y * other.y, y: self.x * other.y + self.y * other.x }
    }
}

/// `output[i] = function(input[i])`; compiled once for each pair of types that the host launches it with.
#[kernel]
fn map<T: KernelValue, F: Function<T>>(function: F, input: &[T], mut output: GridSliceMut<T>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = function.call(input[i.get()]);
    }
}

/// Prints values where they lie; what is printed comes out when the stream is synchronised.
#[kernel]
fn show<T: KernelValue + Printable>(values: &[T]) {
    let i = global_idx().get();
    if let Some(value) = values.get(i) {
        gpu_println!("{} {i} is {value:?} on the device", core::any::type_name::<T>());
    }
}

/// Maps on the device and on the host, and compares.
fn run<T, F>(stream: &Stream, what: &str, function: F, input: &[T]) -> Outcome
where
    T: KernelValue + PartialEq + std::fmt::Debug,
    F: Function<T>,
{
    let device_input = stream.to_device(input)?;
    let mut output = stream.to_device(input)?;
    map::launch(stream, LaunchConfig::for_len(input.len()), function, &device_input, &mut output)?;
    let expected: Vec<T> = input.iter().map(|x| function.call(*x)).collect();
    equal(what, &stream.to_host(&output)?, &expected)?;
    Ok(())
}

fn main() -> Outcome {
    const LEN: usize = 100_003;
    let device = Device::new()?;
    println!("device: {device}");
    let stream = device.stream()?;

    let singles: Vec<f32> = (0..LEN).map(|i| i as f32 * 0.1).collect();
    let doubles: Vec<f64> = (0..LEN).map(|i| i as f64 * 0.1).collect();
    let integers: Vec<i32> = (0..LEN as i32).map(|i| i - 50_000).collect();
    let vectors: Vec<Vec2> = (0..LEN).map(|i| Vec2 { x: i as f32, y: (i % 7) as f32 }).collect();

    run(&stream, "f32, a line", Line { scale: 3.0, offset: -1.5 }, &singles)?;
    run(&stream, "f64, a line", Line { scale: 0.1, offset: 1e-9 }, &doubles)?;
    run(&stream, "i32, a line", Line { scale: -7, offset: 12 }, &integers)?;
    let turn = Line { scale: Vec2 { x: 0.0, y: 1.0 }, offset: Vec2 { x: 10.0, y: 0.0 } };
    run(&stream, "Vec2, a quarter turn and a shift", turn, &vectors)?;
    run(&stream, "Vec2, the same twice", Then { first: turn, second: turn }, &vectors)?;
    let up = Line { scale: 1, offset: 1 };
    let both = Then { first: Then { first: up, second: Line { scale: 2, offset: 0 } }, second: up };
    run(&stream, "i32, three functions in a row", both, &integers)?;
    show::launch(&stream, LaunchConfig::new(1, 1), &stream.to_device(&singles)?)?;
    show::launch(&stream, LaunchConfig::new(1, 2), &stream.to_device(&integers)?)?;
    stream.synchronize()?;
    Ok(())
}

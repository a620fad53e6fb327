//! The kernels of an operation of candle. They are a package without candle, which would be compiled once more for the device.

use warpsmith::prelude::*;

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `y = x * sigmoid(x)`, element by element; both have the same length.
#[kernel]
pub fn silu(x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let x = x[i.get()];
        *y = x * sigmoid(x);
    }
}

/// The gradient of [`silu`] at `x`, times the gradient `g` of its result; all have the same length.
#[kernel]
pub fn silu_gradient(x: &[f32], g: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let (x, s) = (x[i.get()], sigmoid(x[i.get()]));
        *y = g[i.get()] * s * (1.0 + x * (1.0 - s));
    }
}

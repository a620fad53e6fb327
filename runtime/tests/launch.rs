//! Kernels launched on every device: results, refused shapes, and arguments of each kind.

use warpsmith::prelude::*;

mod common;
use common::devices;

#[kernel]
fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y += a * x[i.get()];
    }
}

#[test]
fn saxpy_of_many_lengths() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for len in [0, 1, 31, 32, 33, 255, 256, 257, 1025, 100_000] {
            let x: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let y = vec![0.5; len];
            let device_x = stream.to_device(&x).unwrap();
            let mut device_y = stream.to_device(&y).unwrap();
            saxpy::launch(&stream, LaunchConfig::for_len(len), 3.0, &device_x, &mut device_y).unwrap();
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
            assert_eq!(stream.to_host(&device_y).unwrap(), expected, "{device}, {len}");
        }
    }
}

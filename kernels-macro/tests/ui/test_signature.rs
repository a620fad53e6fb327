//! A test is a free function of a device alone.
use warpsmith::prelude::*;

#[warpsmith::test]
fn without_device() {}

#[warpsmith::test]
fn with_more(device: &Device, n: u32) {
    let _ = (device, n);
}

#[warpsmith::test]
async fn later(device: &Device) {
    let _ = device;
}

#[warpsmith::test]
unsafe fn dangerous(device: &Device) {
    let _ = device;
}

#[warpsmith::test]
fn generic<T>(device: &Device) {
    let _ = device;
}

#[warpsmith::test]
#[test]
fn twice(device: &Device) {
    let _ = device;
}

fn main() {}

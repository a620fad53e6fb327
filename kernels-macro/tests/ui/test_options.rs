//! Options of a test have known names and values.
use warpsmith::prelude::*;

#[warpsmith::test(seeds = 3, schedules)]
fn unknown(device: &Device) {
    let _ = device;
}

#[warpsmith::test(schedules = -1, gpu = "no", checked)]
fn wrong_values(device: &Device) {
    let _ = device;
}

#[warpsmith::test(schedules = 3, schedules = 4, tolerance)]
fn given_twice(device: &Device) {
    let _ = device;
}

#[warpsmith::test(schedules: 3)]
fn syntax(device: &Device) {
    let _ = device;
}

fn main() {}

//! Clocks and waiting.

use warpsmith::prelude::*;
use warpsmith::{clock, global_timer, nanosleep};
use warpsmith_tests::devices;

/// What a thread saw: three readings of the clock, two of the timer, and what it worked out in between.
type Readings = ([u64; 3], [u64; 2], u32);

/// Reads both clocks, works, waits, and reads them again.
#[kernel]
fn watch(turns: u32, mut output: GridSliceMut<Readings>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let (start, start_time) = (clock(), global_timer());
        let mut value = start as u32 | 1;
        for _ in 0..turns {
            value = value.wrapping_mul(1_664_525).rotate_left(7);
        }
        let middle = clock();
        nanosleep(5_000_000);
        nanosleep(0);
        *output = ([start, middle, clock()], [start_time, global_timer()], value);
    }
}

#[test]
fn clocks_go_forward() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let run = |turns| {
            let mut output = stream.filled(([0; 3], [0; 2], 0), 64).expect("there is memory");
            watch::launch(&stream, LaunchConfig::new(2, 32), turns, &mut output).expect("a launch works");
            stream.to_host(&output).expect("the launch worked")
        };
        let (short, long) = (run(10), run(100_000));
        for (clocks, times, _) in short.iter().chain(&long) {
            assert!(clocks.is_sorted() && times.is_sorted(), "{clocks:?} {times:?} on {device}");
            assert!(times[0] > 0, "{times:?} on {device}");
        }
        // 100 000 dependent multiplications take longer than 10 on whatever runs them: at the least one tick each on a GPU.
        let spent =
            |all: &[Readings]| all.iter().map(|(clocks, ..)| clocks[1] - clocks[0]).min().expect("there are 64");
        assert!(spent(&long) > spent(&short), "{} {} on {device}", spent(&long), spent(&short));
        if device.is_gpu() {
            assert!(spent(&long) > 100_000, "{} on {device}", spent(&long));
            // The second launch came after the first was done, so its clock stands later.
            let latest = short.iter().map(|(_, times, _)| times[1]).max().expect("there are 64");
            assert!(long.iter().all(|(_, times, _)| times[0] >= latest), "{latest} on {device}");
        }
    }
}

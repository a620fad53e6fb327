//! Hints on loops and branches change no result.

use warpsmith::prelude::*;
use warpsmith_tests::check_on_devices;

/// A walk with every way to leave a loop or go on, in `COPIES` copies.
#[loops]
fn walk<const COPIES: u32>(count: u32, mut state: u32) -> u32 {
    let mut done = 0;
    let mut turns = 0;
    'outer: loop {
        #[unroll(COPIES)]
        while done < count {
            done += 1;
            if state & 3 == 1 {
                state = state.wrapping_add(7);
                continue;
            }
            state = (state ^ (state >> 15)).wrapping_mul(0x2c1b_3c6d);
            if state & 0x3f == 5 {
                break 'outer;
            }
            if state & 0xff == 77 {
                return done;
            }
        }
        turns += 1;
        if turns == 3 {
            break;
        }
        done /= 2;
    }
    state ^ done
}

/// All loops over the same steps, which must agree.
#[kernel]
fn loops_of_all_kinds(mut output: GridSliceMut<[u32; 6]>) {
    let i = global_idx();
    let Some(output) = output.get_mut(&i) else { return };
    let count = i.get() as u32 % 23;
    let mut results = [0; 6];
    results[0] = walk::<1>(count, count);
    results[1] = walk::<2>(count, count);
    results[2] = walk::<7>(count, count);
    #[unroll(4)]
    for k in 0..count {
        results[3] = results[3].wrapping_mul(3).wrapping_add(k);
    }
    #[unroll]
    for (k, result) in results.iter_mut().enumerate().skip(4) {
        #[no_unroll]
        for j in (0..count).rev() {
            *result = result.wrapping_mul(5).wrapping_add(j + k as u32);
        }
    }
    *output = results;
}

/// The same on the host.
fn expected(count: u32) -> [u32; 6] {
    let walked = walk::<1>(count, count);
    let mut results = [walked, walked, walked, 0, 0, 0];
    for k in 0..count {
        results[3] = u32::wrapping_mul(results[3], 3).wrapping_add(k);
        for n in 4..6u32 {
            let result = &mut results[n as usize];
            *result = result.wrapping_mul(5).wrapping_add(count - 1 - k + n);
        }
    }
    results
}

#[test]
fn case_e3_unrolled_loops_give_what_loops_give() {
    let expected: Vec<[u32; 6]> = (0..23).map(expected).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 6]>(expected.len())?;
        loops_of_all_kinds::launch(stream, LaunchConfig::for_len(expected.len()), &mut output)?;
        stream.to_host(&output)
    });
}

//! Hints on loops and branches change no result.

use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, random};

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

/// Loops in loops, each with a hint, that go on and leave across each other.
#[loops]
fn tangle(n: u32, x: &[u32]) -> u32 {
    let mut s = n + 1;
    #[unroll(2)]
    'outer: for i in 0..n {
        #[unroll(3)]
        'inner: for j in i..n {
            match s % 7 {
                0 => continue 'outer,
                1 => {
                    s = s.wrapping_mul(3);
                    continue 'inner;
                }
                2 if s % 64 == 9 => break 'outer,
                3 => s ^= j,
                _ => s = s.wrapping_add(x[j as usize % x.len()]),
            }
            #[no_unroll]
            while s & 1 == 0 && s != 0 {
                s >>= 1;
                if s & 31 == 9 {
                    continue 'outer;
                }
                if s & 31 == 12 {
                    continue 'inner;
                }
            }
        }
        #[unroll]
        for k in 0..3 {
            if s & 15 == k {
                continue 'outer;
            }
            s = s.wrapping_mul(k + 3);
        }
    }
    s
}

/// A loop whose inner loop's exits lead straight back to its start.
#[loops]
fn back_to_the_start(n: u32, x: &[u32]) -> u32 {
    let (mut s, mut t, mut fuel) = (n, 2u64, 200 + n);
    #[unroll(4)]
    loop {
        #[no_unroll]
        loop {
            fuel -= 1;
            t = t.wrapping_mul(0x9e37_79b9) ^ u64::from(s);
            match x[(t % 17) as usize] % 8 {
                _ if fuel == 0 => return s ^ t as u32,
                0 | 5 => break,
                1 | 2 => s = s.wrapping_add(1),
                3 => {
                    t += 1;
                    break;
                }
                _ => s = s.rotate_left(2),
            }
        }
        match t % 5 {
            0 => continue,
            1 => {
                s ^= 1;
                continue;
            }
            2 => t ^= 77,
            _ => {}
        }
        if s & 255 == 3 {
            break;
        }
    }
    s ^ t as u32
}

/// Both, for each thread's own length.
#[kernel]
fn tangled(x: &[u32], mut output: GridSliceMut<[u32; 2]>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = [tangle(i.get() as u32, x), back_to_the_start(i.get() as u32, x)];
    }
}

#[test]
fn case_e3_hints_in_tangled_loops_change_nothing() {
    let x: Vec<u32> = (0..17).map(|i| random(23, i) as u32 >> 8).collect();
    let expected: Vec<[u32; 2]> = (0..100).map(|n| [tangle(n, &x), back_to_the_start(n, &x)]).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 2]>(expected.len())?;
        tangled::launch(stream, LaunchConfig::for_len(expected.len()), &stream.to_device(&x)?, &mut output)?;
        stream.to_host(&output)
    });
}

//! Accesses with cache hints read and write what plain ones do, whatever the type.

use warpsmith::prelude::*;
use warpsmith::{
    F16x2, U64x2, prefetch_l1, prefetch_l2, read_cache_global, read_last_use, read_non_coherent, read_streaming,
    read_volatile, write_cache_global, write_streaming, write_volatile,
};
use warpsmith_tests::{check_on_devices, random};

macro_rules! moves {
    ($($kernel:ident $value:ty;)*) => {$(
        /// Reads in every way, compares, and writes in every way.
        #[kernel]
        fn $kernel(
            x: &[$value],
            mut a: GridSliceMut<$value>,
            mut b: GridSliceMut<$value>,
            mut c: GridSliceMut<$value>,
            mut same: GridSliceMut<u32>,
        ) {
            let i = global_idx();
            let outputs = (a.get_mut(&i), b.get_mut(&i), c.get_mut(&i), same.get_mut(&i));
            if let (Some(a), Some(b), Some(c), Some(same)) = outputs {
                let x = &x[i.get()];
                prefetch_l1(x);
                prefetch_l2(x);
                write_streaming(a, read_streaming(x));
                write_cache_global(b, read_last_use(x));
                write_volatile(c, read_cache_global(x));
                let own = [read_streaming(a), read_last_use(b), read_cache_global(c), read_volatile(a)];
                // SAFETY: nobody writes `x` while it is borrowed as a parameter.
                let constant = unsafe { read_non_coherent(x) };
                *same = own.iter().chain([&constant]).filter(|v| **v == *x).count() as u32;
            }
        }
    )*};
}
moves! {
    move_u8 u8;
    move_bool bool;
    move_u16 u16;
    move_char char;
    move_f32 f32;
    move_u64 u64;
    move_u128 u128;
    move_vector F32x4;
    move_wide U64x2;
    move_half F16x2;
    move_array [u32; 3];
    move_bytes [u8; 5];
    move_many [f64; 7];
    move_option Option<u16>;
    move_padded Padded;
    move_nothing ();
}

/// A type with padding in the middle and at its end.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
struct Padded {
    small: u8,
    large: u64,
    last: u16,
}

macro_rules! check_moves {
    ($($kernel:ident $from:expr;)*) => {$({
        let input: Vec<_> = (0..70).map(|i| random(31, i)).map($from).collect();
        check_on_devices(&[(input.clone(), input.clone(), input.clone(), vec![5; input.len()])], |stream| {
            let x = stream.to_device(&input)?;
            let len = input.len();
            let mut outputs = [(); 3].map(|()| stream.filled(input[0], len).expect("there is memory"));
            let mut same = stream.zeroed::<u32>(len)?;
            let [a, b, c] = &mut outputs;
            $kernel::launch(stream, LaunchConfig::for_len(len), &x, &mut *a, &mut *b, &mut *c, &mut same)?;
            Ok(vec![(stream.to_host(&*a)?, stream.to_host(&*b)?, stream.to_host(&*c)?, stream.to_host(&same)?)])
        });
    })*};
}

#[test]
fn values_of_every_size_and_alignment() {
    check_moves! {
        move_u8 |v| v as u8;
        move_bool |v| v % 2 == 0;
        move_u16 |v| v as u16;
        move_char |v| char::from(v as u8);
        move_f32 |v| v as f32;
        move_u64 |v| v;
        move_u128 |v| u128::from(v) << 50;
        move_vector |v| F32x4([v as f32, v as u8 as f32, 1.0, v as i32 as f32]);
        move_wide |v| U64x2([v, !v]);
        move_half |v| F16x2([half::f16::from_f32(v as u8 as f32), half::f16::ONE]);
        move_array |v| [v as u32, 7, (v >> 32) as u32];
        move_bytes |v| [v as u8, 1, 2, (v >> 8) as u8, (v >> 16) as u8];
        move_many |v| [0.0, 1.0, v as f64, 3.0, 4.0, 5.0, -(v as f64)];
        move_option |v| (v % 3 != 0).then_some(v as u16);
        move_padded |v| Padded { small: v as u8, large: v, last: (v >> 16) as u16 };
        move_nothing |_| ();
    }
}

/// Reads, overwrites, reads again: hints do not loosen the order of a thread's own accesses.
#[kernel]
fn in_order(mut a: GridSliceMut<[u32; 2]>, mut seen: GridSliceMut<[u32; 4]>, limit: u32) {
    let i = global_idx();
    if let (Some(a), Some(seen)) = (a.get_mut(&i), seen.get_mut(&i)) {
        let first = read_streaming(a)[0];
        a[0] = first + 10;
        let second = read_cache_global(&a[0]);
        write_streaming(&mut a[0], second + 100);
        let third = a[0];
        let fourth = read_last_use(&a[1]);
        write_cache_global(a, [third, fourth + 1]);
        // What is read first is used last, and by some threads only.
        if i.get() as u32 >= limit {
            *seen = [first, second, third, fourth];
        }
    }
}

#[test]
fn accesses_of_a_thread_stay_in_order() {
    let seen = (0..70).map(|i| if i >= 5 { [i, i + 10, i + 110, 1000 + i] } else { [0; 4] }).collect::<Vec<_>>();
    let left = (0..70).map(|i| [i + 110, 1001 + i]).collect::<Vec<_>>();
    check_on_devices(&[(left, seen)], |stream| {
        let mut a = stream.to_device(&(0..70).map(|i| [i, 1000 + i]).collect::<Vec<_>>())?;
        let mut seen = stream.zeroed::<[u32; 4]>(70)?;
        in_order::launch(stream, LaunchConfig::for_len(70), &mut a, &mut seen, 5)?;
        Ok(vec![(stream.to_host(&a)?, stream.to_host(&seen)?)])
    });
}

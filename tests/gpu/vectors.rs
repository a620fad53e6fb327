//! Vectors of every kind, and slices of scalars seen as vectors.

use half::{bf16, f16};
use warpsmith::prelude::*;
use warpsmith::{
    Bf16x2, Bf16x4, Bf16x8, F16x2, F16x4, F16x8, I32x2, I32x4, I64x2, MemoryError, U8x4, U8x16, U16x2, U16x4, U16x8,
    U32x2, U32x4, U64x2, Vector,
};
use warpsmith_tests::{check_on_devices, random};

/// Every operator and reduction, in one number for each.
macro_rules! arithmetic {
    ($($kernel:ident $vector:ident $lane:ty, $from:expr;)*) => {$(
        /// Computes with two vectors.
        #[kernel]
        fn $kernel(x: &[$vector], y: &[$vector], mut output: GridSliceMut<[$vector; 8]>) {
            let i = global_idx();
            if let Some(output) = output.get_mut(&i) {
                *output = all_of!($vector, x[i.get()], y[i.get()]);
            }
        }
    )*

        #[test]
        fn vectors_compute_lane_by_lane() {$({
            let value = |seed: u64, i: u64| -> $vector {
                let from: fn(u64) -> $lane = $from;
                $vector(std::array::from_fn(|lane| from(random(seed, i * 16 + lane as u64) % 5 + 1)))
            };
            let x: Vec<$vector> = (0..70).map(|i| value(21, i)).collect();
            let y: Vec<$vector> = (0..70).map(|i| value(22, i)).collect();
            // Scalar by scalar, so that the vectors' own operators are not what they are compared with.
            let expected: Vec<[$vector; 8]> = x.iter().zip(&y).map(|(x, y)| {
                let lanes = |f: &dyn Fn($lane, $lane) -> $lane| {
                    $vector(std::array::from_fn(|i| f(x.to_array()[i], y.to_array()[i])))
                };
                let fold = |f: &dyn Fn($lane, $lane) -> $lane| {
                    $vector::splat(x.to_array().into_iter().reduce(f).expect("a vector has lanes"))
                };
                let both = |f: &dyn Fn($lane, $lane) -> $lane| {
                    let lanes = x.to_array().into_iter().chain(y.to_array());
                    $vector::splat(lanes.reduce(f).expect("a vector has lanes"))
                };
                let one = x.to_array()[0] / x.to_array()[0];
                let products: Vec<$lane> = x.to_array().iter().zip(y.to_array()).map(|(x, y)| *x * y).collect();
                [
                    lanes(&|x, y| x + y),
                    lanes(&|x, y| (x + y) - x),
                    lanes(&|x, y| x * y * (one + one)),
                    lanes(&|x, y| (one + one + one) * x / y),
                    fold(&|x, y| x + y),
                    $vector::splat(products.into_iter().reduce(|x, y| x + y).expect("a vector has lanes")),
                    both(&|x, y| if y < x { y } else { x }),
                    both(&|x, y| if y > x { y } else { x }),
                ]
            }).collect();
            check_on_devices(&expected, |stream| {
                let mut output = stream.filled([$vector::default(); 8], x.len())?;
                let (x, y) = (stream.to_device(&x)?, stream.to_device(&y)?);
                $kernel::launch(stream, LaunchConfig::for_len(70), &x, &y, &mut output)?;
                stream.to_host(&output)
            });
        })*}
    };
}

macro_rules! all_of {
    ($vector:ident, $x:expr, $y:expr) => {{
        let (x, y) = ($x, $y);
        let two = $vector::splat(x[0]) / $vector::splat(x[0]) + $vector::splat(x[0]) / $vector::splat(x[0]);
        let mut sum = x;
        sum += y;
        let mut difference = sum;
        difference -= x;
        let mut product = x * y;
        product *= two[0];
        let mut quotient = (two[0] + two[0] / two[1]) * x;
        quotient /= y;
        [
            sum,
            difference,
            product,
            quotient,
            $vector::splat(x.reduce_sum()),
            $vector::splat(x.dot(y)),
            $vector::splat(x.min(y).reduce_min()),
            $vector::splat(x.max(y).reduce_max()),
        ]
    }};
}

arithmetic! {
    f32x2 F32x2 f32, |v| v as f32 * 1.25;
    f32x4 F32x4 f32, |v| v as f32 * 1.25;
    f64x2 F64x2 f64, |v| v as f64 * 1.25;
    i32x2 I32x2 i32, |v| v as i32;
    i32x4 I32x4 i32, |v| v as i32;
    u32x2 U32x2 u32, |v| v as u32;
    u32x4 U32x4 u32, |v| v as u32;
    i64x2 I64x2 i64, |v| v as i64;
    u64x2 U64x2 u64, |v| v;
    u8x4 U8x4 u8, |v| v as u8 % 4 + 1;
    u16x2 U16x2 u16, |v| v as u16;
    u16x4 U16x4 u16, |v| v as u16;
    u16x8 U16x8 u16, |v| v as u16;
    f16x2 F16x2 f16, |v| f16::from_f32(v as f32);
    f16x4 F16x4 f16, |v| f16::from_f32(v as f32);
    f16x8 F16x8 f16, |v| f16::from_f32(v as f32);
    bf16x2 Bf16x2 bf16, |v| bf16::from_f32(v as f32);
    bf16x4 Bf16x4 bf16, |v| bf16::from_f32(v as f32);
    bf16x8 Bf16x8 bf16, |v| bf16::from_f32(v as f32);
}

/// `a * b + c`, rounded once.
#[kernel]
fn fused(a: F64x2, x: &[F64x2], mut y: GridSliceMut<F64x2>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = a.mul_add(-x[i.get()].abs(), *y);
    }
}

#[test]
fn a_fused_product_is_rounded_once() {
    // 1 + 2^-30 squared minus 1 + 2^-29 is 2^-60 when it is rounded once, and 0 when twice.
    let (x, y) = (1.0 + 2f64.powi(-30), 1.0 + 2f64.powi(-29));
    check_on_devices(&[F64x2([-(2f64.powi(-60)), y])], |stream| {
        let mut output = stream.to_device(&[F64x2::splat(y)])?;
        let input = stream.to_device(&[F64x2([-x, 0.0])])?;
        fused::launch(stream, LaunchConfig::for_len(1), F64x2::splat(x), &input, &mut output)?;
        stream.to_host(&output)
    });
}

/// Part `i` of `x`, summed four elements at a time, and how many elements lay before, in and after the vectors.
#[kernel]
fn sums(x: &[f32], parts: &[[u32; 2]], mut output: GridSliceMut<(f32, [u32; 3])>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let [start, len] = parts[i.get()].map(|v| v as usize);
        let (head, vectors, tail) = x[start..start + len].as_vectors::<F32x4>();
        let middle = vectors.iter().fold(F32x4::splat(0.0), |sum, v| sum + *v).reduce_sum();
        let sum = head.iter().sum::<f32>() + middle + tail.iter().sum::<f32>();
        *output = (sum, [head.len(), vectors.len(), tail.len()].map(|v| v as u32));
    }
}

#[test]
fn case_f2_parts_of_a_slice_are_read_as_vectors() {
    let parts: Vec<[u32; 2]> = (0..5).flat_map(|start| (0..=70).map(move |len| [start, len])).collect();
    // Whole numbers: any order of adding gives the same sum.
    let expected: Vec<(f32, [u32; 3])> = parts
        .iter()
        .map(|[start, len]| {
            let head = ((4 - start % 4) % 4).min(*len);
            let sum = (*start..start + len).map(|v| v as f32).sum();
            (sum, [head, (len - head) / 4, (len - head) % 4])
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let x = stream.to_device(&(0..80u8).map(f32::from).collect::<Vec<_>>())?;
        let mut output = stream.filled((0.0, [0; 3]), parts.len())?;
        sums::launch(stream, LaunchConfig::for_len(parts.len()), &x, &stream.to_device(&parts)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// Writes each thread's run through vectors where it can, else element by element, and says which.
#[kernel]
fn write_runs(mut output: GridSliceMut<u16, Runs<16>>, mut whole: GridSliceMut<u32>) {
    let (run, thread) = (run_idx::<16>(), global_idx());
    let first = run.get() as u16;
    let part = output.run_mut(&run);
    let count = match part.as_exact_vectors_mut::<U16x8>() {
        Some(vectors) => {
            for (vector, base) in vectors.iter_mut().zip([0, 8]) {
                *vector = U16x8([0, 1, 2, 3, 4, 5, 6, 7]) + (first + base);
            }
            vectors.len() as u32
        }
        None => {
            for (element, offset) in part.iter_mut().zip(0..) {
                *element = first + offset;
            }
            100
        }
    };
    if let Some(whole) = whole.get_mut(&thread) {
        *whole = count;
    }
}

#[test]
fn runs_are_written_as_vectors() {
    for (start, len) in [(0usize, 70usize), (0, 64), (8, 40), (1, 40), (3, 0)] {
        let numbers = |start: usize| {
            (0..80).map(|i| if (start..start + len).contains(&i) { (i - start) as u16 } else { 7777 }).collect()
        };
        let runs = len.div_ceil(16);
        let whole = |run: usize| {
            let count = (len - 16 * run).min(16);
            if start.is_multiple_of(8) && count.is_multiple_of(8) { count as u32 / 8 } else { 100 }
        };
        let expected: Vec<(Vec<u16>, Vec<u32>)> = vec![(numbers(start), (0..runs).map(whole).collect())];
        check_on_devices(&expected, |stream| {
            let mut output = stream.filled(7777u16, 80)?;
            let mut whole = stream.zeroed::<u32>(runs)?;
            let part = output.slice_mut(start..start + len);
            write_runs::launch(stream, LaunchConfig::for_len(runs), part, &mut whole)?;
            Ok(vec![(stream.to_host(&output)?, stream.to_host(&whole)?)])
        });
    }
}

/// Scales four elements a thread.
#[kernel]
fn scale(x: &[F32x4], mut y: GridSliceMut<F32x4>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = 2.0 * x[i.get()] - 1.0;
    }
}

#[test]
fn a_buffer_of_scalars_is_passed_as_vectors() {
    for len in (0..=70usize).step_by(4).chain([1024]) {
        let x: Vec<f32> = (0..len).map(|i| i as f32).collect();
        let expected: Vec<f32> = x.iter().map(|v| 2.0 * v - 1.0).collect();
        check_on_devices(&expected, |stream| {
            let mut y = stream.zeroed::<f32>(len)?;
            let config = LaunchConfig::for_len(len / 4);
            scale::launch(stream, config, stream.to_device(&x)?.as_vectors()?, y.as_vectors_mut()?)?;
            stream.to_host(&y)
        });
    }
}

#[test]
fn what_is_no_whole_number_of_vectors_is_refused() {
    fn refused<V: Vector<Lane = f32>>(buffer: &mut DeviceBuffer<f32>, start: usize, len: usize) -> String {
        let part = buffer.slice_mut(start..start + len);
        let error = part.as_slice().as_vectors::<V>().map(|v| v.len()).expect_err("these are no vectors");
        let again = part.into_vectors::<V>().map(|v| v.len()).expect_err("these are no vectors");
        assert!(matches!(again, warpsmith::Error::Memory(MemoryError::NotVectors { .. })), "{again}");
        assert_eq!(error.to_string(), again.to_string());
        error.to_string()
    }
    let stream = Device::cpu().stream().expect("the executor gives streams");
    let mut buffer = stream.zeroed::<f32>(80).expect("there is memory");
    let message = refused::<F32x4>(&mut buffer, 4, 18);
    assert!(message.contains("18 elements from element 4") && message.contains("multiples of 4"), "{message}");
    refused::<F32x4>(&mut buffer, 2, 16);
    refused::<F32x2>(&mut buffer, 1, 2);
    for (start, len) in [(0, 80), (4, 16), (76, 4), (80, 0), (3, 0)] {
        let part = buffer.slice(start..start + len);
        assert_eq!(part.as_vectors::<F32x4>().map(|v| v.len()).expect("these are vectors"), len / 4);
    }
}

/// Adds the bytes of a vector that arrives by value.
#[kernel]
fn by_value(v: U8x16, mut output: GridSliceMut<u32>) {
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = v.to_array().into_iter().map(u32::from).sum();
    }
}

#[test]
fn a_vector_crosses_by_value() {
    check_on_devices(&[16 * 200 + 120], |stream| {
        let mut output = stream.zeroed::<u32>(1)?;
        let v = U8x16(std::array::from_fn(|i| 200 + i as u8));
        by_value::launch(stream, LaunchConfig::for_len(1), v, &mut output)?;
        stream.to_host(&output)
    });
}

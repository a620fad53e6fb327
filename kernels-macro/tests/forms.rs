//! The forms a kernel and its arguments may take, each launched on the CPU executor in a crate that forbids `unsafe`.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unreachable_pub, nonstandard_style, unused_qualifications, unused_lifetimes)]

use std::marker::PhantomData;
use std::ops::{Add, Mul};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use warpsmith::prelude::*;

/// Runs `launch` on the executor with an output of `len` elements, and returns what it wrote.
fn output<T: KernelValue + Default + std::fmt::Debug>(
    len: usize,
    launch: impl FnOnce(&Stream, LaunchConfig, &mut DeviceBuffer<T>) -> warpsmith::Result<()>,
) -> Vec<T> {
    let stream = Device::cpu().stream().expect("the executor has streams");
    let mut buffer = stream.to_device(&vec![T::default(); len]).expect("the executor has memory");
    launch(&stream, LaunchConfig::for_len(len), &mut buffer).expect("the launch is in order");
    stream.to_host(&buffer).expect("no thread panicked")
}

fn device<T: KernelValue>(stream: &Stream, values: &[T]) -> DeviceBuffer<T> {
    stream.to_device(values).expect("the executor has memory")
}

/// Docs and attributes stay.
#[kernel]
#[inline]
fn documented(value: u32, mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = value;
    }
}

#[test]
fn a_kernel_is_still_a_function() {
    assert_eq!(output(3, |stream, config, y| documented::launch(stream, config, 7, y)), [7; 3]);
    let function: fn(u32, GridSliceMut<'_, u32>) = documented;
    let _ = function;
}

#[kernel]
fn scalars(
    i: (i8, i16, i32, i64, i128, isize),
    u: (u8, u16, u32, u64, u128, usize),
    f: (f32, f64),
    other: (bool, char, ()),
    nested: [(u8, Option<[u16; 2]>); 2],
    mut y: GridSliceMut<u64>,
) {
    if let Some(y) = y.get_mut(&global_idx()) {
        let all_right = i == (-1, -2, -3, -4, -5, -6)
            && u == (1, 2, 3, 4, 5, 6)
            && f == (0.5, -0.25)
            && other == (true, 'ß', ())
            && nested == [(1, None), (2, Some([3, 4]))];
        *y = u64::from(all_right);
    }
}

#[test]
fn plain_data_arrives_as_it_was() {
    let wrote = output(1, |stream, config, y| {
        scalars::launch(
            stream,
            config,
            (-1, -2, -3, -4, -5, -6),
            (1, 2, 3, 4, 5, 6),
            (0.5, -0.25),
            (true, 'ß', ()),
            [(1, None), (2, Some([3, 4]))],
            y,
        )
    });
    assert_eq!(wrote, [1]);
}

/// Every name that the expansion uses for itself.
#[kernel]
#[allow(clippy::too_many_arguments, reason = "one for each name")]
fn names(
    stream: u32,
    config: u32,
    launch: &[u32],
    instance: u32,
    scope: u32,
    each: u32,
    raw0: u32,
    argument0: u32,
    first0: u32,
    second0: u32,
    names: u32,
    names_: u32,
    mut y: GridSliceMut<u32>,
) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = stream
            + config
            + launch[0]
            + instance
            + scope
            + each
            + raw0
            + argument0
            + first0
            + second0
            + names
            + names_;
    }
}

#[test]
fn names_of_the_expansion_are_free() {
    let wrote = output(1, |stream, config, y| {
        let launch = device(stream, &[4u32]);
        names::launch(stream, config, 1, 2, &launch, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, y)
    });
    assert_eq!(wrote, [4095]);
}

#[derive(Clone, Copy, KernelValue)]
struct Pair {
    x: f32,
    y: u64,
}

#[kernel]
#[allow(clippy::too_many_arguments, clippy::toplevel_ref_arg, reason = "one for each form")]
fn patterns(
    (a, b): (u64, u64),
    [c, .., d]: [u64; 4],
    _: bool,
    Pair { y: e, .. }: Pair,
    &f: &u64,
    mut g: u64,
    ref h: u64,
    mut out: GridSliceMut<'_, u64>,
) {
    g += 1;
    if let Some(out) = out.get_mut(&global_idx()) {
        *out = a + 10 * b + 100 * c + 1_000 * d + 10_000 * e + 100_000 * f + 1_000_000 * g + 10_000_000 * *h;
    }
}

#[test]
fn parameters_are_patterns() {
    let wrote = output(2, |stream, config, y| {
        let f = device(stream, &[6u64, 0]);
        let pair = Pair { x: 0.0, y: 5 };
        assert_eq!(pair.x, 0.0);
        patterns::launch(stream, config, (1, 2), [3, 0, 0, 4], true, pair, &f, 6, 8, y)
    });
    assert_eq!(wrote, [87_654_321; 2]);
}

#[kernel]
fn r#type(r#match: u32, mut r#fn: GridSliceMut<u32>) {
    if let Some(y) = r#fn.get_mut(&global_idx()) {
        *y = r#match;
    }
}

#[test]
fn raw_identifiers_are_names() {
    assert_eq!(output(1, |stream, config, y| r#type::launch(stream, config, 3, y)), [3]);
}

/// What a generic kernel computes with.
trait Real: KernelValue + Add<Output = Self> + Mul<Output = Self> {
    const TWO: Self;
}
impl Real for f32 {
    const TWO: Self = 2.0;
}
impl Real for i64 {
    const TWO: Self = 2;
}

/// A function as a type.
trait Operation<T>: KernelValue {
    fn apply(&self, value: T) -> T;
}

#[derive(Clone, Copy, KernelValue)]
struct AddTo<T>(T);
impl<T: Real> Operation<T> for AddTo<T> {
    fn apply(&self, value: T) -> T {
        self.0 + value
    }
}

#[derive(Clone, Copy, KernelValue)]
struct Double;
impl<T: Real> Operation<T> for Double {
    fn apply(&self, value: T) -> T {
        value * T::TWO
    }
}

#[kernel]
fn transform<'a, 'b: 'a, T, F: Operation<T> + 'a, const N: usize>(
    x: &'a [T],
    first: &'b T,
    operation: F,
    weights: [T; N],
    _: PhantomData<(T, &'a ())>,
    mut y: GridSliceMut<'_, T>,
) where
    T: Real + 'a,
    &'a T: Mul<&'b T, Output = T>,
{
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = weights.into_iter().fold(operation.apply(&x[i.get()] * first), |sum, weight| sum + weight);
    }
}

#[test]
fn generics_are_those_of_the_function() {
    let floats = output(2, |stream, config, y| {
        let x = device(stream, &[3.0f32, 4.0]);
        transform::launch(stream, config, &x, &x, Double, [0.5, 0.25], PhantomData, y)
    });
    assert_eq!(floats, [18.75, 24.75]);
    let integers = output(2, |stream, config, y| {
        let x = device(stream, &[3i64, 4]);
        transform::launch::<i64, AddTo<i64>, 0>(stream, config, &x, &x, AddTo(-9), [], PhantomData, y)
    });
    assert_eq!(integers, [0, 3]);
}

/// A type that only says which of two kernels is meant.
trait Constant {
    const VALUE: u32;
}
struct Three;
impl Constant for Three {
    const VALUE: u32 = 3;
}
impl Constant for [u8] {
    const VALUE: u32 = 8;
}

#[kernel]
fn constant<C: Constant + ?Sized>(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = C::VALUE;
    }
}

#[test]
fn generics_that_no_argument_names_are_given() {
    assert_eq!(output(1, |stream, config, y| constant::launch::<Three>(stream, config, y)), [3]);
    assert_eq!(output(1, |stream, config, y| constant::launch::<[u8]>(stream, config, y)), [8]);
}

#[kernel]
fn count(total: &[AtomicU32], odd: &AtomicU64) {
    let i = global_idx();
    total[i.get() % 2].fetch_add(1, Ordering::Relaxed);
    if i.get() % 2 == 1 {
        odd.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn atomics_are_shared() {
    let stream = Device::cpu().stream().expect("the executor has streams");
    let (mut total, mut odd) = (device(&stream, &[0u32; 2]), device(&stream, &[0u64]));
    let config = LaunchConfig::new(4, 64);
    count::launch(&stream, config, &mut total, &mut odd).expect("the launch is in order");
    assert_eq!(stream.to_host(&total).expect("no thread panicked"), [128; 2]);
    assert_eq!(stream.to_host(&odd).expect("no thread panicked"), [128]);
}

macro_rules! fills {
    ($($(#[$attr:meta])* $vis:vis $name:ident: $t:ty, $x:ty;)*) => {$(
        $(#[$attr])*
        $vis fn $name(value: $t, x: $x, mut y: GridSliceMut<'_, $t>) {
            let i = global_idx();
            if let Some(y) = y.get_mut(&i) {
                *y = value + x[0];
            }
        }
    )*};
}
fills! {
    #[kernel] pub(crate) fill_u8: u8, &[u8];
    #[kernel(block = 256)] fill_f64: f64, [f64; 1];
}

macro_rules! outputs {
    ($name:ident, $value:ty, $slice:ty, $output:ty) => {
        #[kernel]
        fn $name(value: $value, x: $slice, mut y: $output) {
            if let Some(y) = y.get_mut(&global_idx()) {
                *y = value + x[0];
            }
        }
    };
}
outputs!(of_fragments, u8, &[u8], GridSliceMut<u8>);

macro_rules! local_kernel {
    ($block:block) => {
        #[kernel]
        fn local(mut y: GridSliceMut<u32>) $block
    };
    ($value:expr) => {
        #[kernel]
        fn local(mut y: GridSliceMut<u32>) {
            if let Some(y) = y.get_mut(&global_idx()) {
                *y = $value;
            }
        }
    };
}

#[test]
fn kernels_come_out_of_macros() {
    let bytes = output(1, |stream, config, y| {
        let x = device(stream, &[40u8]);
        fill_u8::launch(stream, config, 2, &x, y)
    });
    assert_eq!(bytes, [42]);
    let bytes = output(1, |stream, config, y| {
        let x = device(stream, &[40u8]);
        of_fragments::launch(stream, config, 3, &x, y)
    });
    assert_eq!(bytes, [43]);
    assert_eq!(output(1, |stream, config, y| fill_f64::launch(stream, config, 0.5, [1.0], y)), [1.5]);
}

#[test]
fn kernels_stand_inside_functions() {
    local_kernel!(5);
    assert_eq!(output(1, |stream, config, y| local::launch(stream, config, y)), [5]);
    {
        local_kernel!(6);
        assert_eq!(output(1, |stream, config, y| local::launch(stream, config, y)), [6]);
    }
}

mod inner {
    use warpsmith::prelude::*;

    pub(super) mod deep {
        use warpsmith::prelude::*;

        #[kernel]
        pub(in crate::inner) fn restricted(mut y: GridSliceMut<u32>) {
            if let Some(y) = y.get_mut(&global_idx()) {
                *y = 1;
            }
        }
    }

    pub(super) fn launch(stream: &Stream, config: LaunchConfig, y: &mut DeviceBuffer<u32>) -> warpsmith::Result<()> {
        deep::restricted::launch(stream, config, y)
    }
}

#[test]
fn visibility_is_that_of_the_function() {
    assert_eq!(output(1, inner::launch), [1]);
}

const WIDTH: u32 = 8;

#[kernel(block = (WIDTH, 2), min_blocks = 2, max_registers = 64, contract, fast_math)]
fn with_options(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = block_dim().x;
    }
}

#[kernel(block = (N, 1, 2))]
fn with_generic_options<const N: u32>(mut y: GridSliceMut<u32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = N;
    }
}

#[test]
fn options_reach_the_launch() {
    let launched = |block: (u32, u32, u32)| {
        output(16, |stream, _, y| with_options::launch(stream, LaunchConfig::new(1, block), y))
    };
    assert_eq!(launched((8, 2, 1)), [8; 16]);
    assert_eq!(
        output(16, |stream, _, y| with_generic_options::launch::<4>(stream, LaunchConfig::new(2, (4, 1, 2)), y)),
        [4; 16]
    );
    let stream = Device::cpu().stream().expect("the executor has streams");
    let mut y = device(&stream, &[0u32; 16]);
    let error = with_options::launch(&stream, LaunchConfig::new(1, (16, 1)), &mut y).expect_err("another shape");
    assert!(error.to_string().contains("with_options"), "{error}");
}

/// Attributes that `launch` shares.
#[kernel]
#[deprecated = "for the test"]
#[doc(hidden)]
#[cfg(not(any()))]
fn old(value: u32) {
    assert_eq!(value, 1);
}

#[test]
#[expect(deprecated, reason = "the kernel is")]
fn a_launch_is_as_deprecated_as_its_kernel() {
    let stream = Device::cpu().stream().expect("the executor has streams");
    old::launch(&stream, LaunchConfig::new(1, 1), 1).expect("the launch is in order");
    stream.synchronize().expect("the value arrived");
}

/// No parameters, and nothing but a name.
#[kernel]
fn nothing() {}

#[test]
fn a_kernel_may_take_nothing() {
    let stream = Device::cpu().stream().expect("the executor has streams");
    nothing::launch(&stream, LaunchConfig::new(1, 1)).expect("the launch is in order");
}

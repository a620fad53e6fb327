//! What kernels may take and be: every kind of argument, generics, structs and enums by value.

use std::marker::PhantomData;

use half::{bf16, f16};
use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, mix};

/// Every plain type by value, folded into one number.
#[kernel]
#[expect(clippy::too_many_arguments, reason = "every scalar has its turn")]
fn scalars(
    a: u8,
    b: i16,
    c: u32,
    d: i64,
    e: u128,
    f: f32,
    g: f64,
    h: bool,
    i: char,
    j: f16,
    k: bf16,
    l: usize,
    mut output: GridSliceMut<u64>,
) {
    if let Some(output) = output.get_mut(&global_idx()) {
        let mut total = mix(a.into(), b as u64);
        total = mix(mix(total, c.into()), d as u64);
        total = mix(mix(total, e as u64), (e >> 64) as u64);
        total = mix(mix(total, f.to_bits().into()), g.to_bits());
        total = mix(mix(total, h.into()), i.into());
        total = mix(mix(total, j.to_bits().into()), k.to_bits().into());
        *output = mix(total, l as u64);
    }
}

#[test]
fn scalars_by_value() {
    let wide = 0x0123_4567_89ab_cdef_1122_3344_5566_7788;
    let mut expected = mix(200, -3i16 as u64);
    expected = mix(mix(expected, 4_000_000_000), -5i64 as u64);
    expected = mix(mix(expected, wide as u64), (wide >> 64) as u64);
    expected = mix(mix(expected, 1.5f32.to_bits().into()), (-2.5f64).to_bits());
    expected = mix(mix(expected, 1), 'ß'.into());
    expected = mix(mix(expected, f16::from_f32(0.1).to_bits().into()), bf16::from_f32(0.1).to_bits().into());
    expected = mix(expected, usize::MAX as u64);
    check_on_devices(&[expected], |stream| {
        let mut output = stream.zeroed::<u64>(1)?;
        scalars::launch(
            stream,
            LaunchConfig::for_len(1),
            200,
            -3,
            4_000_000_000,
            -5,
            wide,
            1.5,
            -2.5,
            true,
            'ß',
            f16::from_f32(0.1),
            bf16::from_f32(0.1),
            usize::MAX,
            &mut output,
        )?;
        stream.to_host(&output)
    });
}

/// A struct with padding, nested.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
struct Outer {
    tag: u8,
    inner: Inner,
    pair: (u16, Option<u32>),
    list: [i8; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
struct Inner {
    wide: u128,
    flag: bool,
}

/// An enum with data.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue)]
enum Shape {
    Empty,
    Circle(f64),
    Box { width: u32, height: u32 },
    Nested(Option<Inner>),
}

impl Shape {
    fn area(self) -> u64 {
        match self {
            Self::Empty => 1,
            Self::Circle(radius) => (radius * radius).to_bits(),
            Self::Box { width, height } => u64::from(width) * u64::from(height),
            Self::Nested(None) => 2,
            Self::Nested(Some(inner)) => inner.wide as u64 + u64::from(inner.flag),
        }
    }
}

/// Nothing at all.
#[derive(Clone, Copy, KernelValue)]
struct Nothing;

/// Structs and enums by value, by reference and as elements.
#[kernel]
#[expect(clippy::too_many_arguments, reason = "every form has its turn")]
fn aggregates(
    outer: Outer,
    shape: Shape,
    _nothing: Nothing,
    _unit: (),
    option: Option<(u8, f32)>,
    one: &Outer,
    shapes: &[Shape],
    mut copies: GridSliceMut<Shape>,
    mut output: GridSliceMut<u64>,
) {
    let i = global_idx();
    if let Some(copy) = copies.get_mut(&i) {
        *copy = if i.get() == 2 { shape } else { shapes[i.get()] };
    }
    if let Some(output) = output.get_mut(&i) {
        let mut total = mix(outer.tag.into(), outer.inner.wide as u64);
        total = mix(total, u64::from(outer.inner.flag) | u64::from(outer.pair.0) << 8);
        total = mix(total, outer.pair.1.map_or(9, u64::from));
        total = mix(total, outer.list.iter().map(|v| *v as u64).fold(0, mix));
        total = mix(total, shape.area());
        total = mix(total, option.map_or(8, |(a, b)| u64::from(a) ^ u64::from(b.to_bits())));
        total = mix(total, u64::from(*one == outer));
        *output = mix(total, shapes[i.get()].area());
    }
}

#[test]
fn structs_and_enums() {
    let inner = Inner { wide: 0xffee_ddcc_0011_2233_4455_6677_8899, flag: true };
    let outer = Outer { tag: 7, inner, pair: (300, Some(5)), list: [-1, 2, -3] };
    let shapes = [
        Shape::Empty,
        Shape::Circle(1.25),
        Shape::Box { width: 3, height: u32::MAX },
        Shape::Nested(None),
        Shape::Nested(Some(inner)),
    ];
    let shape = Shape::Box { width: 10, height: 20 };
    let mut copied = shapes;
    copied[2] = shape;
    let numbers = shapes.iter().map(|each| {
        let mut total = mix(7, inner.wide as u64);
        total = mix(total, 1 | 300 << 8);
        total = mix(total, 5);
        total = mix(total, outer.list.iter().map(|v| *v as u64).fold(0, mix));
        total = mix(total, shape.area());
        total = mix(total, 4 ^ u64::from(2.5f32.to_bits()));
        total = mix(total, 1);
        mix(total, each.area())
    });
    let expected: Vec<(Shape, u64)> = copied.into_iter().zip(numbers).collect();
    check_on_devices(&expected, |stream| {
        let one = stream.to_device(&[outer])?;
        let device_shapes = stream.to_device(&shapes)?;
        let mut copies = stream.filled(Shape::Empty, shapes.len())?;
        let mut output = stream.zeroed::<u64>(shapes.len())?;
        let config = LaunchConfig::for_len(shapes.len());
        let option = Some((4, 2.5));
        aggregates::launch(
            stream,
            config,
            outer,
            shape,
            Nothing,
            (),
            option,
            &one,
            &device_shapes,
            &mut copies,
            &mut output,
        )?;
        Ok(stream.to_host(&copies)?.into_iter().zip(stream.to_host(&output)?).collect())
    });
}

/// Raw pointers, whose bounds are the caller's business.
///
/// # Safety
/// Both pointers are to `len` elements of the device.
#[kernel]
unsafe fn raw_pointers(input: *const u32, output: *mut u32, len: usize) {
    let i = global_idx().get();
    if i < len {
        // SAFETY: `i` is below `len`, and no other thread has it.
        unsafe { output.add(i).write(input.add(i).read() + 1) };
    }
}

#[test]
fn raw_pointers_of_the_device() {
    let input: Vec<u32> = (0..100).collect();
    let expected: Vec<u32> = (1..101).collect();
    check_on_devices(&expected, |stream| {
        // The executor's memory is the host's, so that host pointers serve there; a GPU gives its own address.
        let device_input = stream.to_device(&input)?;
        let output = stream.zeroed::<u32>(input.len())?;
        if let (Some(from), Some(to)) = (device_input.cuda_address(), output.cuda_address()) {
            let (from, to) = (from as *const u32, to as *mut u32);
            // SAFETY: both buffers have as many elements and live until the copy below.
            unsafe { raw_pointers::launch(stream, LaunchConfig::for_len(input.len()), from, to, input.len())? };
            stream.to_host(&output)
        } else {
            let mut host_output = vec![0; input.len()];
            let to = host_output.as_mut_ptr();
            // SAFETY: both have as many elements and live until the synchronisation.
            unsafe {
                raw_pointers::launch(stream, LaunchConfig::for_len(input.len()), input.as_ptr(), to, input.len())?
            };
            stream.synchronize()?;
            Ok(host_output)
        }
    });
}

/// A function as a type.
trait Step: KernelValue {
    /// Added before every call.
    const BASE: u64;
    /// The function.
    fn call(&self, x: u64) -> u64;
}

#[derive(Clone, Copy, KernelValue)]
struct Scale(u64);
impl Step for Scale {
    const BASE: u64 = 3;
    fn call(&self, x: u64) -> u64 {
        x.wrapping_mul(self.0)
    }
}

#[derive(Clone, Copy, KernelValue)]
struct Twice<S>(S);
impl<S: Step> Step for Twice<S> {
    const BASE: u64 = S::BASE + 1;
    fn call(&self, x: u64) -> u64 {
        self.0.call(self.0.call(x))
    }
}

/// Generic over a type, a constant and a marker, with a where clause and a lifetime.
#[kernel]
#[expect(clippy::needless_lifetimes, reason = "a kernel may name its lifetimes")]
fn generic<'a, S, T: 'static, const N: usize>(
    step: S,
    _marker: PhantomData<T>,
    table: [u64; N],
    input: &'a [u64],
    mut output: GridSliceMut<u64>,
) where
    S: Step,
    PhantomData<T>: Send + Sync,
{
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        let value = step.call(input[i.get()].wrapping_add(S::BASE));
        *output = value ^ table.iter().fold(size_of::<T>() as u64, |total, v| mix(total, *v));
    }
}

#[test]
fn generic_kernels() {
    fn run<S: Step, T: Send + Sync + 'static, const N: usize>(step: S, table: [u64; N]) {
        let input: Vec<u64> = (0..70).map(|i| i * 0x1234_5678_9abc).collect();
        let folded = table.iter().fold(size_of::<T>() as u64, |total, v| mix(total, *v));
        let expected: Vec<u64> = input.iter().map(|x| step.call(x.wrapping_add(S::BASE)) ^ folded).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u64>(input.len())?;
            let config = LaunchConfig::for_len(input.len());
            generic::launch(stream, config, step, PhantomData::<T>, table, &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
    run::<_, u8, 3>(Scale(7), [1, 2, 3]);
    run::<_, u8, 0>(Scale(7), []);
    run::<_, [u16; 9], 1>(Twice(Scale(9)), [5]);
    run::<_, String, 2>(Twice(Twice(Scale(11))), [6, 7]);
}

mod deep {
    //! Kernels in modules, with visibilities, and two of one name.
    use warpsmith::prelude::*;

    /// Writes 1.
    #[kernel]
    pub(crate) fn same_name(mut output: GridSliceMut<u32>) {
        if let Some(output) = output.get_mut(&global_idx()) {
            *output = 1;
        }
    }

    pub(crate) mod er {
        //! One level down.
        use warpsmith::prelude::*;

        /// Writes 2.
        #[kernel]
        pub(crate) fn same_name(mut output: GridSliceMut<u32>) {
            if let Some(output) = output.get_mut(&global_idx()) {
                *output = 2;
            }
        }
    }
}

#[test]
fn kernels_of_one_name() {
    /// Writes 3.
    #[kernel]
    fn same_name(mut output: GridSliceMut<u32>) {
        if let Some(output) = output.get_mut(&global_idx()) {
            *output = 3;
        }
    }
    check_on_devices(&[1, 2, 3], |stream| {
        let mut outputs = [stream.zeroed::<u32>(1)?, stream.zeroed::<u32>(1)?, stream.zeroed::<u32>(1)?];
        let config = LaunchConfig::for_len(1);
        deep::same_name::launch(stream, config, &mut outputs[0])?;
        deep::er::same_name::launch(stream, config, &mut outputs[1])?;
        same_name::launch(stream, config, &mut outputs[2])?;
        outputs.iter().map(|output| Ok(stream.to_host(output)?[0])).collect()
    });
}

/// More bytes of arguments than older PTX versions allow.
#[kernel]
fn large_table(table: [u64; 700], mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = table[i.get() * 7 % 700] + 1;
    }
}

#[test]
fn a_table_of_5600_bytes_by_value() {
    let table: [u64; 700] = std::array::from_fn(|i| (i * i) as u64);
    let expected: Vec<u64> = (0..1000).map(|i| table[i * 7 % 700] + 1).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u64>(expected.len())?;
        large_table::launch(stream, LaunchConfig::for_len(expected.len()), table, &mut output)?;
        stream.to_host(&output)
    });
}

/// A loop over 64-bit numbers beside a 32-bit block's number, some sums below 0.
#[kernel]
fn windows(x: &[u32], mut y: GridSliceMut<u64>) {
    let block = block_idx().x as i32;
    let mut total = 0;
    let mut i: i64 = -8;
    while i < 8 {
        let at = i + i64::from(block) * 8;
        if at >= 0 {
            total = mix(total, x[at as usize].into());
        }
        i += 1;
    }
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = total;
    }
}

#[test]
fn case_c5_an_index_of_a_wide_loop_and_a_blocks_number() {
    let x: Vec<u32> = (0..100 * 8).map(|i| i * 3 + 1).collect();
    let window = |block: usize| x[(block * 8).saturating_sub(8)..(block + 1) * 8].iter();
    let expected: Vec<u64> =
        (0..100).map(|block| window(block).fold(0, |total, &value| mix(total, value.into()))).collect();
    check_on_devices(&expected, |stream| {
        let (x, mut y) = (stream.to_device(&x)?, stream.zeroed::<u64>(100)?);
        windows::launch(stream, LaunchConfig::new(100, 1), &x, &mut y)?;
        stream.to_host(&y)
    });
}

/// What is no number, as arguments by value.
#[kernel]
fn not_numbers(a: f32, b: f64, h: f16, mut y: GridSliceMut<[u64; 5]>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        let class = |nan: bool, infinite: bool, negative: bool| {
            u64::from(nan) | u64::from(infinite) << 1 | u64::from(negative && !nan) << 2
        };
        *y = [
            class(a.is_nan(), a.is_infinite(), a < 0.0),
            class(b.is_nan(), b.is_infinite(), b < 0.0),
            class(h.is_nan(), h.is_infinite(), h < f16::ZERO),
            (a > 1.0).into(),
            (b >= f64::from(a)).into(),
        ];
    }
}

#[test]
fn case_d7_infinities_and_nan_as_arguments() {
    let classes = [(f32::NAN, 1u64), (f32::INFINITY, 2), (f32::NEG_INFINITY, 6), (2.0, 0), (-2.0, 4)];
    for (value, class) in classes {
        let expected = [[class, class, class, u64::from(value > 1.0), u64::from(!value.is_nan())]];
        check_on_devices(&expected, |stream| {
            let mut y = stream.filled([9u64; 5], 1)?;
            let (wide, half) = (f64::from(value), f16::from_f32(value));
            not_numbers::launch(stream, LaunchConfig::new(1, 1), value, wide, half, &mut y)?;
            stream.to_host(&y)
        });
    }
}

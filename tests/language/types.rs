//! Types: closures, generics, traits, enums with data, patterns, layouts and statics.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Add, Index, IndexMut, Mul, Neg};

use warpsmith_tests::{case, mix};

case! {
    fn closures_capture_in_every_way(x: u64) -> u64 {
        let by_value = move |v: u64| v ^ x;
        let mut total = 0;
        let mut by_mut = |v: u64| total = mix(total, v);
        by_mut(by_value(1));
        by_mut(by_value(!x));
        let text = String::from("moved");
        let once = move || text.len() as u64;
        by_mut(once());
        let array = [x; 3];
        let by_ref = || array[1] + (array[2] & 1 ^ array[2] & 1);
        mix(total, by_ref())
    }
}

case! {
    fn closures_returned_and_composed(x: u64) -> u64 {
        fn adder(n: u64) -> impl Fn(u64) -> u64 {
            move |v| v.wrapping_add(n)
        }
        fn compose<A, B, C>(f: impl Fn(A) -> B, g: impl Fn(B) -> C) -> impl Fn(A) -> C {
            move |v| g(f(v))
        }
        fn boxed(n: u64) -> Box<dyn Fn(u64) -> u64> {
            if n % 2 == 0 { Box::new(move |v| v ^ n) } else { Box::new(|v| v.reverse_bits()) }
        }
        fn times(n: u64, mut f: impl FnMut(u64)) {
            for i in 0..n {
                f(i);
            }
        }
        let f = compose(adder(x), compose(|v: u64| (v, v >> 7), |(a, b)| a ^ b));
        let mut total = f(3);
        times(x % 6, |i| total = boxed(x.wrapping_add(i))(total));
        total
    }
}

case! {
    fn closures_as_dyn_fn_mut(x: u64) -> u64 {
        let mut count = 0;
        let mut sum = 0u64;
        {
            let mut counting = |_: u64| count += 1;
            let mut summing = |v: u64| sum = sum.wrapping_add(v);
            let list: [&mut dyn FnMut(u64); 2] = [&mut counting, &mut summing];
            for f in list {
                for i in 0..x % 5 {
                    f(i * 3);
                }
            }
        }
        mix(count, sum)
    }
}

trait Field: Copy + Add<Output = Self> + Mul<Output = Self> + Neg<Output = Self> + PartialOrd {
    const ONE: Self;
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! field {
    ($($scalar:ty, $one:expr, $from:expr, $bits:expr);* $(;)?) => {$(
        impl Field for $scalar {
            const ONE: Self = $one;
            fn from_bits(bits: u64) -> Self {
                $from(bits)
            }
            fn bits(self) -> u64 {
                $bits(self)
            }
        }
    )*};
}
field! {
    f32, 1.0, |v: u64| v as u16 as f32 / 16.0, |v: f32| v.to_bits().into();
    f64, 1.0, |v: u64| v as u32 as f64 / 64.0, f64::to_bits;
    i32, 1, |v: u64| (v as i8).into(), |v: i32| v as u32 as u64;
    i64, 1, |v: u64| (v as i16).into(), |v: i64| v as u64;
}

fn horner<T: Field, const N: usize>(coefficients: [T; N], at: T) -> T {
    coefficients.into_iter().reduce(|sum, c| sum * at + c).unwrap_or(T::ONE)
}

case! {
    fn generics_over_scalars(x: u64) -> u64 {
        fn run<T: Field>(x: u64) -> u64 {
            let c = [T::from_bits(x), T::ONE, -T::from_bits(x >> 16)];
            let low = horner(c, T::from_bits(x >> 32)).bits();
            let high = horner([T::ONE; 0], T::ONE).bits();
            mix(low, high) ^ u64::from(c[0] < c[2])
        }
        mix(mix(run::<f32>(x), run::<f64>(x)), mix(run::<i32>(x), run::<i64>(x)))
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Matrix<const R: usize, const C: usize>([[i64; C]; R]);

impl<const R: usize, const K: usize, const C: usize> Mul<Matrix<K, C>> for Matrix<R, K> {
    type Output = Matrix<R, C>;
    fn mul(self, other: Matrix<K, C>) -> Matrix<R, C> {
        Matrix(std::array::from_fn(|i| {
            std::array::from_fn(|j| {
                (0..K).fold(0, |sum: i64, k| sum.wrapping_add(self.0[i][k].wrapping_mul(other.0[k][j])))
            })
        }))
    }
}

impl<const R: usize, const C: usize> Index<(usize, usize)> for Matrix<R, C> {
    type Output = i64;
    fn index(&self, (row, column): (usize, usize)) -> &i64 {
        &self.0[row][column]
    }
}

impl<const R: usize, const C: usize> IndexMut<(usize, usize)> for Matrix<R, C> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut i64 {
        &mut self.0[row][column]
    }
}

case! {
    fn const_generics(x: u64) -> u64 {
        let mut a = Matrix::<2, 3>([[x as i64, 2, 3], [4, 5, 6]]);
        let b = Matrix::<3, 4>(std::array::from_fn(|i| std::array::from_fn(|j| (x >> (4 * i + j)) as i64)));
        a[((x % 2) as usize, 1)] += 10;
        let c = a * b;
        c.0.iter().flatten().fold(c[(1, 2)] as u64, |total, v| mix(total, *v as u64))
    }
}

case! {
    fn associated_types_and_defaults(x: u64) -> u64 {
        trait Codec {
            type Word: Into<u64> + Copy + Default;
            const SHIFT: u32 = 3;
            fn encode(&self, value: u64) -> Self::Word;
            fn run(&self, value: u64) -> u64 {
                let word: u64 = self.encode(value).into();
                word << Self::SHIFT ^ Self::Word::default().into()
            }
        }
        struct Narrow;
        struct Wide<T>(PhantomData<T>);
        impl Codec for Narrow {
            type Word = u8;
            fn encode(&self, value: u64) -> u8 {
                value as u8
            }
        }
        impl<T> Codec for Wide<T> {
            type Word = u32;
            const SHIFT: u32 = size_of::<T>() as u32;
            fn encode(&self, value: u64) -> u32 {
                (value >> 16) as u32
            }
        }
        mix(Narrow.run(x), Wide::<[u16; 5]>(PhantomData).run(x))
    }
}

case! {
    fn super_traits_and_generic_dispatch(x: u64) -> u64 {
        trait Named {
            fn id(&self) -> u64;
        }
        trait Scored: Named {
            fn score(&self) -> u64 {
                self.id() * 10
            }
        }
        impl Named for u8 {
            fn id(&self) -> u64 {
                u64::from(*self)
            }
        }
        impl Scored for u8 {}
        impl<T: Named> Named for [T; 2] {
            fn id(&self) -> u64 {
                mix(self[0].id(), self[1].id())
            }
        }
        impl<T: Named> Scored for [T; 2] {
            fn score(&self) -> u64 {
                !self.id()
            }
        }
        fn total(list: &[&dyn Scored]) -> u64 {
            list.iter().fold(0, |total, item| mix(total, item.score()))
        }
        fn upcast(item: &dyn Scored) -> &dyn Named {
            item
        }
        let pair = [x as u8, (x >> 8) as u8];
        total(&[&pair[0], &pair, &[pair, pair]]) ^ upcast(&pair[1]).id()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Input,
    Negate(Box<Expression>),
    Binary { op: char, left: Box<Expression>, right: Box<Expression> },
    Choose(Vec<Expression>),
}

impl Expression {
    fn evaluate(&self, input: f64) -> Option<f64> {
        Some(match self {
            Self::Number(value) => *value,
            Self::Input => input,
            Self::Negate(inner) => -inner.evaluate(input)?,
            Self::Binary { op, left, right } => {
                let (a, b) = (left.evaluate(input)?, right.evaluate(input)?);
                match op {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    '/' if b == 0.0 => return None,
                    '/' => a / b,
                    _ => return None,
                }
            }
            Self::Choose(list) => list.get(input as usize)?.evaluate(input)?,
        })
    }
}

case! {
    fn enums_with_data_as_a_tree(x: u64) -> u64 {
        use Expression::{Binary, Choose, Input, Negate, Number};
        let op = ['+', '-', '*', '/', '?'][(x % 5) as usize];
        let leaf = Binary { op, left: Box::new(Input), right: Box::new(Number((x % 3) as f64)) };
        let tree = Choose(vec![leaf.clone(), Negate(Box::new(leaf.clone())), Number(0.25), leaf.clone()]);
        let same = u64::from(tree == Choose(vec![leaf]));
        tree.evaluate((x >> 4 & 7) as f64).map_or(77, f64::to_bits) ^ same
    }
}

case! {
    fn patterns(x: u64) -> u64 {
        let bytes = x.to_le_bytes();
        let slice = match bytes {
            [0, 0, ..] => 1,
            [a, .., b] if a == b => 2,
            [first @ 1..=9, _, rest @ ..] => u64::from(first) + rest.len() as u64,
            [b'a'..=b'z' | b'A'..=b'Z', ..] => 3,
            [.., last] => u64::from(last) << 8,
        };
        let tuple = match (x as i8, x >> 40, x & 1 == 1) {
            (i8::MIN..=-1, _, true) => 4,
            (n, 0, _) if n > 50 => 5,
            (0 | 2 | 4, high, flag) => high ^ u64::from(flag),
            (_, high @ (1..=1000 | 5000..), _) => high,
            _ => 6,
        };
        let Some(value) = x.checked_add(1) else { return 8 };
        let nested = if let Some(Ok(n)) | Some(Err(n)) = (value % 3 != 0).then(|| if x % 2 == 0 { Ok(x) } else { Err(9) }) {
            n
        } else {
            10
        };
        let reference = match &bytes[..] {
            [] => 0,
            [one] => u64::from(*one),
            [head, tail @ ..] => u64::from(*head) * tail.len() as u64,
        };
        let text = match ["red", "green", ""][(x % 3) as usize] {
            "red" => 11,
            "green" => 12,
            _ => 13,
        };
        [slice, tuple, nested, reference, text].into_iter().fold(0, mix)
    }
}

case! {
    fn question_mark_and_errors(x: u64) -> u64 {
        #[derive(Debug)]
        enum Failure {
            Odd(u64),
            Parse(std::num::ParseIntError),
        }
        impl From<std::num::ParseIntError> for Failure {
            fn from(error: std::num::ParseIntError) -> Self {
                Self::Parse(error)
            }
        }
        fn run(x: u64) -> Result<u64, Failure> {
            let text = ["17", "x", "-3", "4000000000"][(x % 4) as usize];
            let number: i32 = text.parse()?;
            if x % 8 >= 6 { Err(Failure::Odd(x)) } else { Ok(number as u64) }
        }
        match run(x) {
            Ok(v) => v,
            Err(Failure::Odd(v)) => !v,
            Err(Failure::Parse(error)) => format!("{error}").len() as u64,
        }
    }
}

case! {
    fn cells_on_the_stack(x: u64) -> u64 {
        let counter = Cell::new(x);
        let list = RefCell::new(vec![x]);
        let bump = || {
            counter.set(counter.get().rotate_left(1));
            list.borrow_mut().push(counter.get());
        };
        bump();
        bump();
        let busy = {
            let _held = list.borrow();
            list.try_borrow_mut().is_err()
        };
        list.take().into_iter().fold(u64::from(busy), mix)
    }
}

case! {
    fn case_l1_atomics_on_the_stack(x: u64) -> u64 {
        use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU16, AtomicU32, AtomicU64, Ordering};
        let wide = AtomicU64::new(x);
        let narrow = AtomicU32::new(x as u32);
        let short = AtomicU16::new(x as u16);
        let tiny = AtomicI8::new(x as i8);
        let flag = AtomicBool::new(false);
        let mut total = wide.fetch_add(3, Ordering::SeqCst);
        total = mix(total, narrow.fetch_max(77, Ordering::AcqRel).into());
        total = mix(total, narrow.compare_exchange(77, 1, Ordering::SeqCst, Ordering::Relaxed).unwrap_or(2).into());
        total = mix(total, short.swap(9, Ordering::Relaxed).into());
        total = mix(total, tiny.fetch_sub(100, Ordering::Relaxed) as u64);
        total = mix(total, u64::from(flag.fetch_or(x & 1 == 0, Ordering::Relaxed)));
        total = mix(total, wide.fetch_xor(!0, Ordering::Relaxed) ^ wide.fetch_nand(x, Ordering::Relaxed));
        mix(total, wide.load(Ordering::Acquire) ^ u64::from(short.load(Ordering::Relaxed)) ^ tiny.into_inner() as u64)
    }
}

case! {
    /// Alignments from 1 to 128 of objects on the stack.
    fn case_l1_over_aligned_stack_objects(x: u64) -> u64 {
        #[inline(never)]
        fn address<T>(value: &T) -> u64 {
            std::ptr::from_ref(value).addr() as u64
        }
        let mut total = 0;
        macro_rules! all {
            ($($align:literal),*) => {$({
                #[repr(align($align))]
                struct Aligned([u8; 3], u16);
                let value = Aligned(x.to_le_bytes()[..3].try_into().unwrap_or_default(), x as u16);
                let odd = [x as u8; 5];
                total = mix(total, address(&value) % $align);
                total = mix(total, u64::from(value.0[2]) ^ u64::from(value.1) ^ u64::from(odd[(x % 5) as usize]));
            })*};
        }
        all!(1, 2, 4, 8, 16, 32, 64, 128);
        total
    }
}

case! {
    fn case_l1_over_aligned_boxes(x: u64) -> u64 {
        #[repr(align(64))]
        struct Line([u64; 4]);
        #[repr(align(128))]
        struct Wide(u8);
        let lines: Vec<Line> = (0..3).map(|i| Line([x ^ i; 4])).collect();
        let wide = Box::new(Wide(x as u8));
        let mut total = lines.as_ptr().addr() as u64 % 64;
        total = mix(total, std::ptr::from_ref(&*wide).addr() as u64 % 128);
        lines.iter().fold(mix(total, wide.0.into()), |total, line| mix(total, line.0[(x % 4) as usize]))
    }
}

#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Packed {
    tag: u8,
    wide: f64,
    single: f32,
    count: u16,
    whole: u64,
}

case! {
    /// Floats and integers that lie unaligned, written right after they were computed.
    fn case_l1_unaligned_float_writes(x: u64) -> u64 {
        let mut values = [Packed { tag: 1, wide: 0.5, single: 0.25, count: 3, whole: 4 }; 4];
        for (i, value) in values.iter_mut().enumerate() {
            value.tag = i as u8;
            value.wide = (x as u32 >> i) as f64 + 0.125;
            value.single = (x as u16 >> i) as f32 * 1.5;
            value.count = (x >> i) as u16;
            value.whole = x.rotate_left(i as u32);
        }
        let mut bytes = [0u8; 24];
        for at in 0..8 {
            let float = (x as u32) as f64 / 3.0 + at as f64;
            bytes[at..at + 8].copy_from_slice(&float.to_le_bytes());
            let single = (x as u16) as f32 + at as f32;
            bytes[at + 9..at + 13].copy_from_slice(&single.to_ne_bytes());
        }
        let total = bytes.iter().fold(0, |total, v| mix(total, u64::from(*v)));
        values.iter().fold(total, |total, value| {
            let (wide, single, count, whole) = (value.wide, value.single, value.count, value.whole);
            let total = mix(mix(total, wide.to_bits()), single.to_bits().into());
            mix(mix(total, u64::from(count) << 8 | u64::from(value.tag)), whole)
        })
    }
}

case! {
    /// What ptxas kept in 32 bits: 16- and 8-bit negations and differences, widened.
    fn case_l1_narrow_negation(x: u64) -> u64 {
        let mut total = 0;
        for v in [i16::MIN, i16::MAX, 0, -1, x as i16] {
            total = mix(total, v.wrapping_neg() as i64 as u64);
            total = mix(total, 0i16.wrapping_sub(v) as i32 as u64);
            total = mix(total, v.wrapping_abs() as i64 as u64);
            total = mix(total, (v as u16).wrapping_neg() as u64);
            total = mix(total, (!v) as i64 as u64);
            total = mix(total, v.wrapping_mul(v) as i64 as u64);
            total = mix(total, (v as u16).wrapping_add(0x8000) as u64);
            total = mix(total, v.wrapping_shl(3) as i64 as u64);
        }
        for v in [i8::MIN, i8::MAX, 0, -1, x as i8] {
            total = mix(total, v.wrapping_neg() as i64 as u64);
            total = mix(total, v.wrapping_sub(127) as i32 as u64);
            total = mix(total, (v as u8).wrapping_neg() as u64);
            total = mix(total, v.wrapping_mul(3) as i64 as u64);
            total = mix(total, v.wrapping_abs() as i16 as u64);
        }
        total
    }
}

case! {
    /// Every `i8` and, spread over the inputs, every `i16` through the operations that ptxas got wrong.
    fn case_l1_narrow_negation_exhaustive(x: u64) -> u64 {
        let mut total = 0;
        for v in i8::MIN..=i8::MAX {
            total = mix(total, v.wrapping_neg() as i64 as u64 ^ (v.wrapping_sub(x as i8) as i64 as u64) << 1);
        }
        for low in 0..=u8::MAX {
            let v = (x << 8 | u64::from(low)) as i16;
            total = mix(total, v.wrapping_neg() as i64 as u64 ^ (0i16.wrapping_sub(v) as i64 as u64) << 1);
            total = mix(total, v.wrapping_abs() as i64 as u64 ^ (v.wrapping_add(v) as i64 as u64) << 1);
        }
        total
    }
    inputs: (0..256).collect()
}

struct Link {
    value: u64,
    next: Option<&'static Link>,
}

static RING_A: Link = Link { value: 3, next: Some(&RING_B) };
static RING_B: Link = Link { value: 5, next: Some(&RING_C) };
static RING_C: Link = Link { value: 7, next: Some(&RING_A) };
static SELF: Link = Link { value: 11, next: Some(&SELF) };

case! {
    /// Statics that refer to each other in a ring, and one that refers to itself.
    fn case_l2_statics_in_a_ring(x: u64) -> u64 {
        let mut total = 0;
        let mut at = if x & 1 == 0 { &RING_A } else { &SELF };
        for _ in 0..x % 11 {
            total = mix(total, at.value);
            match at.next {
                Some(next) => at = next,
                None => return 1,
            }
        }
        total
    }
}

case! {
    fn statics_of_references(x: u64) -> u64 {
        static WORDS: [&[&str]; 3] = [&["a", "bc"], &[], &["def"]];
        static FUNCTIONS: [(&str, fn(f64) -> f64); 3] = [("sqrt", f64::sqrt), ("neg", f64::neg), ("abs", f64::abs)];
        let words = WORDS[(x % 3) as usize];
        let (name, function) = FUNCTIONS[(x / 3 % 3) as usize];
        let words = words.iter().flat_map(|word| word.bytes()).fold(0, |total, byte| mix(total, byte.into()));
        mix(words, name.len() as u64) ^ function((x % 1000) as f64 - 400.0).abs().max(-1.0).to_bits()
    }
}

case! {
    fn layouts_agree(x: u64) -> u64 {
        #[allow(dead_code, reason = "only its size is read")]
        enum Mixed {
            A(u8, u64),
            B([u16; 5]),
            C(Option<Box<u8>>),
            D,
        }
        macro_rules! sizes {
            ($($type:ty),* $(,)?) => { [$((size_of::<$type>() as u64) << 32 | align_of::<$type>() as u64),*] };
        }
        let sizes = sizes![
            Mixed,
            Option<Mixed>,
            u128,
            (u8, u32, u16),
            Option<char>,
            [Option<u16>; 3],
            &dyn Debug,
            &str,
            Result<u64, bool>,
            BTreeMap<u8, u8>,
            String,
            fn(),
            Packed,
            (u128, u8),
        ];
        sizes.into_iter().fold(x, mix)
    }
}

case! {
    fn unions_and_transmutes(x: u64) -> u64 {
        #[repr(C)]
        union Word {
            whole: u64,
            halves: [u32; 2],
            float: f64,
        }
        let mut word = Word { whole: x };
        // SAFETY: every bit pattern is a value of each field.
        let high = unsafe { word.halves[1] };
        word.float = f64::from(high) * 0.5;
        // SAFETY: as above.
        let whole = unsafe { word.whole };
        #[repr(C)]
        struct Quarters(u16, [u8; 2], u32);
        // SAFETY: both are eight plain bytes.
        let quarters: Quarters = unsafe { std::mem::transmute([whole as u32, high]) };
        mix(mix(high.into(), quarters.0.into()), u64::from(quarters.1[1]) << 32 | u64::from(quarters.2))
    }
}

case! {
    fn text_in_every_script(x: u64) -> u64 {
        const LETTERS: [char; 6] = ['a', 'ß', 'Ω', '漢', '🦀', '\u{301}'];
        let letter = LETTERS[(x % 6) as usize];
        let mut buffer = [0; 4];
        let text = letter.encode_utf8(&mut buffer);
        let mut total = text.len() as u64;
        total = mix(total, letter.to_uppercase().map(u64::from).sum());
        total = mix(total, u64::from(letter.is_alphanumeric()) | u64::from(letter.is_lowercase()) << 1);
        total = mix(total, letter.len_utf16() as u64);
        let invalid = [0xe2, x as u8, 0x82];
        total = mix(total, std::str::from_utf8(&invalid).map_or_else(|e| e.valid_up_to() as u64 + 10, |_| 1));
        mix(total, letter.to_digit(16).unwrap_or(99).into())
    }
}

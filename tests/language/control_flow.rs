//! Control flow: section E of the case list, where one thread alone is enough to show it.

use warpsmith_tests::{case, mix, zero};

case! {
    /// Four levels of if/else that reassign one variable.
    fn case_e1_nested_reassignment(x: u64) -> u64 {
        let mut v = x & 0xff;
        if x & 1 == 0 {
            v += 1;
            if x & 2 == 0 {
                v *= 3;
                if x & 4 == 0 {
                    v ^= 0x55;
                    if x & 8 == 0 {
                        v = v.rotate_left(9);
                    } else {
                        v = v.wrapping_sub(1000);
                    }
                } else if x & 8 == 0 {
                    v = !v;
                } else {
                    v >>= 1;
                }
            } else if x & 4 == 0 {
                v = 7;
            } else {
                v += x >> 60;
            }
        } else {
            if x & 2 == 0 {
                v = v.wrapping_mul(v);
            } else {
                if x & 4 == 0 {
                    v |= 1 << 40;
                } else {
                    if x & 8 == 0 { v = v.swap_bytes() } else { v = v.count_ones().into() }
                }
            }
            v ^= 1;
        }
        v
    }
}

case! {
    fn case_e3_loop_with_break_and_continue(x: u64) -> u64 {
        let mut n = x % 1000;
        let mut total = 0u64;
        while true {
            if n == 0 {
                break;
            }
            n -= 1;
            if n % 3 == 0 {
                continue;
            }
            total += n;
            if total > 100_000 {
                break;
            }
        }
        total
    }
}

case! {
    fn case_e3_early_return(x: u64) -> u64 {
        for i in 0..64 {
            if x >> i & 1 == 1 {
                return i;
            }
        }
        64
    }
}

case! {
    fn case_e3_early_return_from_nested_loops(x: u64) -> u64 {
        fn factor(n: u64) -> (u64, u64) {
            for a in 2..50 {
                for b in a..50 {
                    if a * b == n {
                        return (a, b);
                    }
                }
            }
            (0, n)
        }
        let (a, b) = factor(x % 400);
        a << 32 | b
    }
}

case! {
    fn case_e3_step_by(x: u64) -> u64 {
        let start = x % 17;
        let mut total = 0;
        for i in (start..300).step_by(7) {
            total = mix(total, i);
        }
        for i in (0..=start).step_by(3) {
            total = mix(total, i);
        }
        total
    }
}

case! {
    fn case_e3_for_over_array(x: u64) -> u64 {
        let mut total = 0;
        for v in [x, x >> 8, x >> 16, !x] {
            total = mix(total, v);
        }
        for v in &[1u8, 2, 3] {
            total = mix(total, u64::from(*v));
        }
        total
    }
}

case! {
    fn case_e3_reverse(x: u64) -> u64 {
        let values = [x, x ^ 1, x ^ 2, x ^ 3, x ^ 4];
        let mut total = 0;
        for v in values.iter().rev() {
            total = mix(total, *v);
        }
        for i in (0..x % 9).rev() {
            total = mix(total, i);
        }
        for i in (0..=(x % 5) as i32).rev() {
            total = mix(total, i as u64);
        }
        total
    }
}

case! {
    fn case_e3_labelled_breaks(x: u64) -> u64 {
        let limit = x % 97;
        let mut count = 0;
        let found = 'outer: loop {
            for i in 0..20 {
                'inner: for j in 0..20 {
                    count += 1;
                    if (i * j) % 7 == 3 {
                        continue 'inner;
                    }
                    if j > i {
                        break 'inner;
                    }
                    if i * j == limit {
                        break 'outer i * 100 + j;
                    }
                }
            }
            break 9999;
        };
        let block = 'block: {
            if x & 1 == 0 {
                break 'block 1;
            }
            if x & 2 == 0 {
                break 'block 2;
            }
            3
        };
        mix(mix(count, found), block)
    }
}

case! {
    fn case_e3_loop_carried_struct(x: u64) -> u64 {
        #[derive(Clone, Copy, Default)]
        struct State {
            a: u8,
            b: u64,
            c: (i16, bool),
        }
        let mut state = State { b: x, ..State::default() };
        for i in 0..(x % 40) as u8 {
            state = State {
                a: state.a.wrapping_add(i),
                b: state.b.rotate_left(3) ^ u64::from(state.a),
                c: (state.c.0.wrapping_sub(i16::from(i) * 255), !state.c.1),
            };
        }
        mix(mix(u64::from(state.a), state.b), state.c.0 as u64 ^ u64::from(state.c.1))
    }
}

case! {
    fn case_e3_zero_trips(x: u64) -> u64 {
        let mut total = 1;
        let none = zero(x);
        for i in 0..none {
            total += i + 1;
        }
        for i in (0..none).rev() {
            total += i + 1;
        }
        for i in (5..none).step_by(2) {
            total += i + 1;
        }
        #[allow(clippy::reversed_empty_ranges, reason = "the empty range is what is tested")]
        for i in 9..=3u64 {
            total += i;
        }
        while total < none {
            total += 1;
        }
        for v in &[0u64; 0] {
            total += v;
        }
        total
    }
}

case! {
    fn case_e3_while_let(x: u64) -> u64 {
        let mut rest = Some(x);
        let mut steps = 0;
        while let Some(v) = rest {
            steps += 1;
            rest = if v == 0 { None } else { Some(v / 3) };
        }
        steps
    }
}

case! {
    fn case_e3_collatz(x: u64) -> u64 {
        let mut n = x % 10_000 + 1;
        let mut steps = 0;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    }
}

case! {
    fn case_e6_recursion(x: u64) -> u64 {
        fn fibonacci(n: u64) -> u64 {
            if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
        }
        fn ackermann(m: u64, n: u64) -> u64 {
            match (m, n) {
                (0, n) => n + 1,
                (m, 0) => ackermann(m - 1, 1),
                (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
            }
        }
        fibonacci(x % 15) << 32 | ackermann(x % 3, x % 4)
    }
}

case! {
    fn case_e6_mutual_recursion(x: u64) -> u64 {
        fn is_even(n: u64) -> bool {
            n == 0 || is_odd(n - 1)
        }
        fn is_odd(n: u64) -> bool {
            n != 0 && is_even(n - 1)
        }
        fn female(n: u64) -> u64 {
            if n == 0 { 1 } else { n - male(female(n - 1)) }
        }
        fn male(n: u64) -> u64 {
            if n == 0 { 0 } else { n - female(male(n - 1)) }
        }
        u64::from(is_even(x % 20)) << 32 | female(x % 8) << 16 | male(x % 8)
    }
}

case! {
    fn case_e6_function_pointers(x: u64) -> u64 {
        fn double(v: u64) -> u64 {
            v.wrapping_mul(2)
        }
        fn square(v: u64) -> u64 {
            v.wrapping_mul(v)
        }
        fn invert(v: u64) -> u64 {
            !v
        }
        const TABLE: [fn(u64) -> u64; 3] = [double, square, invert];
        fn apply(f: fn(u64) -> u64, v: u64, times: u64) -> u64 {
            (0..times).fold(v, |v, _| f(v))
        }
        let f = TABLE[(x % 3) as usize];
        mix(f(x), apply(TABLE[(x / 3 % 3) as usize], x, x % 5))
    }
}

case! {
    fn case_e6_trait_objects(x: u64) -> u64 {
        trait Shape {
            fn area(&self) -> u64;
            fn name(&self) -> &'static str {
                "shape"
            }
        }
        struct Square(u64);
        struct Rectangle {
            width: u32,
            height: u32,
        }
        struct Nothing;
        impl Shape for Square {
            fn area(&self) -> u64 {
                self.0 * self.0
            }
            fn name(&self) -> &'static str {
                "square"
            }
        }
        impl Shape for Rectangle {
            fn area(&self) -> u64 {
                u64::from(self.width) * u64::from(self.height)
            }
        }
        impl Shape for Nothing {
            fn area(&self) -> u64 {
                0
            }
            fn name(&self) -> &'static str {
                "nothing"
            }
        }
        let square = Square(x & 0xffff);
        let rectangle = Rectangle { width: x as u32, height: (x >> 32) as u32 };
        let shapes: [&dyn Shape; 3] = [&square, &rectangle, &Nothing];
        let picked = shapes[(x % 3) as usize];
        let total = shapes.iter().fold(0u64, |total, shape| mix(total, shape.area()));
        mix(mix(total, picked.area()), picked.name().len() as u64)
    }
}

case! {
    fn case_e6_boxed_trait_objects(x: u64) -> u64 {
        trait Node {
            fn value(&self) -> u64;
        }
        struct Leaf(u64);
        struct Sum(Box<dyn Node>, Box<dyn Node>);
        impl Node for Leaf {
            fn value(&self) -> u64 {
                self.0
            }
        }
        impl Node for Sum {
            fn value(&self) -> u64 {
                self.0.value().wrapping_add(self.1.value().rotate_left(1))
            }
        }
        let tree: Box<dyn Node> = if x & 1 == 0 {
            Box::new(Leaf(x))
        } else {
            Box::new(Sum(Box::new(Leaf(x >> 3)), Box::new(Sum(Box::new(Leaf(5)), Box::new(Leaf(!x))))))
        };
        tree.value()
    }
}

case! {
    /// A data-dependent index keeps its check; here it is in bounds, `faults` has the other half.
    fn case_e7_data_dependent_index(x: u64) -> u64 {
        let source = [3usize, 1, 4, 1, 5, 9, 2, 6];
        let mut at = (x % 8) as usize;
        let mut total = 0;
        for _ in 0..10 {
            at = source[at % 8] % 8;
            total = mix(total, at as u64);
        }
        total.wrapping_add(source.get((x % 20) as usize).map_or(77, |v| *v as u64))
    }
}

case! {
    fn case_e7_padded_struct_constants(x: u64) -> u64 {
        #[derive(Clone, Copy, PartialEq)]
        #[repr(C)]
        struct Padded {
            a: u8,
            b: u64,
            c: u16,
            d: u32,
            e: bool,
        }
        const FIRST: Padded = Padded { a: 1, b: 0x1122_3344_5566_7788, c: 0xabcd, d: 0xdead_beef, e: true };
        static TABLE: [Padded; 3] =
            [FIRST, Padded { a: 2, ..FIRST }, Padded { a: 3, b: 4, c: 5, d: 6, e: false }];
        let picked = TABLE[(x % 3) as usize];
        let mut copy = picked;
        copy.b ^= x;
        let sum = mix(mix(u64::from(copy.a), copy.b), u64::from(copy.c) << 32 | u64::from(copy.d));
        mix(sum, u64::from(copy.e) | u64::from(picked == FIRST) << 1 | u64::from(copy == picked) << 2)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Push(u32),
    Add,
    Multiply { by: u16, twice: bool },
    Halt(u8, u64),
}

case! {
    fn case_e7_arrays_of_enums(x: u64) -> u64 {
        const PROGRAM: [Op; 6] = [
            Op::Push(7),
            Op::Push(11),
            Op::Add,
            Op::Multiply { by: 3, twice: true },
            Op::Push(u32::MAX),
            Op::Halt(9, 1 << 50),
        ];
        let mut program = PROGRAM;
        program[(x % 6) as usize] = Op::Push(x as u32);
        let mut total = 0u64;
        for op in program {
            total = match op {
                Op::Push(v) => mix(total, v.into()),
                Op::Add => total.rotate_left(7),
                Op::Multiply { by, twice: true } => total.wrapping_mul(u64::from(by) * 2),
                Op::Multiply { by, .. } => total.wrapping_mul(by.into()),
                Op::Halt(code, v) => return total ^ u64::from(code) ^ v,
            };
        }
        total
    }
}

case! {
    fn case_e7_niche_enums(x: u64) -> u64 {
        use std::num::{NonZeroU32, NonZeroU64};
        enum Tree {
            Leaf(Option<NonZeroU32>),
            Flag(bool),
            Text(&'static str),
            Nested(Option<Option<bool>>),
            Letter(Option<char>),
        }
        let tree = match x % 7 {
            0 => Tree::Leaf(NonZeroU32::new(x as u32)),
            1 => Tree::Flag(x & 8 != 0),
            2 => Tree::Text(if x & 8 == 0 { "" } else { "niche" }),
            3 => Tree::Nested(None),
            4 => Tree::Nested(Some(None)),
            5 => Tree::Nested(Some(Some(x & 8 != 0))),
            _ => Tree::Letter(char::from_u32((x >> 3) as u32 & 0x1f_ffff)),
        };
        let value = match tree {
            Tree::Leaf(None) => 1,
            Tree::Leaf(Some(v)) => v.get().into(),
            Tree::Flag(v) => 2 + u64::from(v),
            Tree::Text(text) => 10 + text.len() as u64,
            Tree::Nested(None) => 20,
            Tree::Nested(Some(None)) => 21,
            Tree::Nested(Some(Some(v))) => 22 + u64::from(v),
            Tree::Letter(None) => 30,
            Tree::Letter(Some(letter)) => u32::from(letter).into(),
        };
        mix(value, NonZeroU64::new(x & 3).map_or(5, NonZeroU64::get))
    }
}

case! {
    fn case_e7_option_of_reference(x: u64) -> u64 {
        fn pick(values: &[u64], at: usize) -> Option<&u64> {
            values.get(at)
        }
        let values = [x, 2, 3];
        let a = *pick(&values, (x % 5) as usize).unwrap_or(&42);
        let none: Option<&u64> = if x & 1 == 0 { None } else { Some(&values[1]) };
        mix(a, none.copied().unwrap_or_default())
    }
}

case! {
    fn case_e7_ordering_from_cmp(x: u64) -> u64 {
        use std::cmp::Ordering;
        let low = x as u32;
        let high = (x >> 32) as u32;
        let order = low.cmp(&high);
        let sign = match order {
            Ordering::Less => 1,
            Ordering::Equal => 2,
            Ordering::Greater => 3,
        };
        let signed = (low as i32).cmp(&(high as i32)) as i8;
        let then = (low % 4).cmp(&(high % 4)).then_with(|| high.cmp(&low)).reverse();
        let lexical = [low as u8, 1, 2].cmp(&[high as u8, 1, 1]);
        let partial = f32::from_bits(low).partial_cmp(&f32::from_bits(high));
        let partial = partial.map_or(9, |v| (v as i8 + 1) as u64);
        sign | (signed as u8 as u64) << 8 | (then as i8 as u8 as u64) << 16 | (lexical as i8 as u8 as u64) << 24 | partial << 32
    }
}

case! {
    fn case_e7_overflowing_flags(x: u64) -> u64 {
        let y = x.rotate_left(17);
        let mut flags = 0;
        let mut total = 0;
        let mut note = |(value, flag): (u64, bool)| {
            total = mix(total, value);
            flags = flags << 1 | u64::from(flag);
        };
        note(x.overflowing_add(y));
        note(x.overflowing_sub(y));
        note(x.overflowing_mul(y));
        let (v, f) = (x as i32).overflowing_add(y as i32);
        note((v as u64, f));
        let (v, f) = (x as i8).overflowing_neg();
        note((v as u64, f));
        let (v, f) = (x as u16).overflowing_mul(y as u16);
        note((v.into(), f));
        let (v, f) = (x as i64).overflowing_abs();
        note((v as u64, f));
        let (v, f) = (x as u8).overflowing_shl(y as u32);
        note((v.into(), f));
        let (v, f) = (x as i16).overflowing_pow(5);
        note((v as u64, f));
        mix(total, flags)
    }
}

case! {
    fn case_e7_not_equal_on_nan(x: u64) -> u64 {
        let values = [f64::from_bits(x), f64::NAN, 0.0, -0.0, 1.5, f64::INFINITY];
        let mut flags = 0u64;
        for a in values {
            for b in values {
                let bits = u64::from(a != b) | u64::from(a == b) << 1 | u64::from(a < b) << 2 | u64::from(a >= b) << 3;
                flags = mix(flags, bits | u64::from(!(a <= b)) << 4);
            }
        }
        let single = f32::from_bits(x as u32);
        #[allow(clippy::eq_op, reason = "true for NaN alone")]
        let is_nan = single != single;
        mix(flags, u64::from(is_nan))
    }
}

#[derive(Clone, Copy)]
struct Complex {
    re: i32,
    im: i32,
}

impl std::ops::Mul for &Complex {
    type Output = Complex;
    fn mul(self, other: &Complex) -> Complex {
        Complex {
            re: self.re.wrapping_mul(other.re).wrapping_sub(self.im.wrapping_mul(other.im)),
            im: self.re.wrapping_mul(other.im).wrapping_add(self.im.wrapping_mul(other.re)),
        }
    }
}

impl std::ops::AddAssign<&Complex> for Complex {
    fn add_assign(&mut self, other: &Complex) {
        self.re = self.re.wrapping_add(other.re);
        self.im = self.im.wrapping_add(other.im);
    }
}

case! {
    fn case_e7_operator_traits_on_references(x: u64) -> u64 {
        let c = Complex { re: x as i32, im: (x >> 32) as i32 };
        let mut z = c;
        for _ in 0..5 {
            z = &z * &z;
            z += &c;
        }
        u64::from(z.re as u32) | u64::from(z.im as u32) << 32
    }
}

case! {
    fn case_e7_subslices(x: u64) -> u64 {
        let values: [u64; 16] = std::array::from_fn(|i| x.rotate_left(i as u32));
        let a = (x % 9) as usize;
        let b = a + (x >> 8) as usize % 8;
        let mut total = 0;
        for v in &values[a..b] {
            total = mix(total, *v);
        }
        for part in [&values[..a], &values[b..], &values[a..=b], &values[..]] {
            total = mix(total, part.len() as u64);
            total = mix(total, part.first().copied().unwrap_or(1) ^ part.last().copied().unwrap_or(2));
        }
        mix(total, u64::from(values.get(b..a).is_none()))
    }
}

case! {
    fn case_e7_split_at_mut(x: u64) -> u64 {
        let mut values: [u64; 10] = std::array::from_fn(|i| x.wrapping_add(i as u64));
        let (left, right) = values.split_at_mut((x % 11) as usize);
        for (a, b) in left.iter_mut().zip(right.iter_mut()) {
            std::mem::swap(a, b);
            *a ^= 1;
        }
        if let Some((first, rest)) = right.split_first_mut() {
            *first = rest.len() as u64;
        }
        values.iter().fold(0, |total, v| mix(total, *v))
    }
}

case! {
    fn case_e7_nested_array_stores(x: u64) -> u64 {
        let mut grid = [[[0u16; 3]; 4]; 2];
        for i in 0..24 {
            let at = (x >> (i % 50)) as usize;
            grid[at % 2][at % 4][at % 3] = grid[at % 2][at % 4][at % 3].wrapping_mul(31).wrapping_add(i as u16);
        }
        grid[1] = grid[(x % 2) as usize];
        grid.iter().flatten().flatten().fold(0, |total, v| mix(total, u64::from(*v)))
    }
}

case! {
    fn case_e7_struct_field_array_stores(x: u64) -> u64 {
        struct Machine {
            flags: [bool; 5],
            registers: [u32; 8],
            pc: u8,
        }
        let mut machine = Machine { flags: [false; 5], registers: [x as u32; 8], pc: 0 };
        for step in 0..12u32 {
            let at = (x >> step) as usize % 8;
            machine.registers[at] = machine.registers[at].wrapping_add(step + 1);
            machine.flags[at % 5] ^= true;
            machine.pc = machine.pc.wrapping_add(machine.registers[7 - at] as u8);
        }
        let flags = machine.flags.iter().fold(0, |total, flag| total << 1 | u64::from(*flag));
        machine.registers.iter().fold(mix(flags, machine.pc.into()), |total, v| mix(total, u64::from(*v)))
    }
}

case! {
    fn case_e7_swap_replace_take(x: u64) -> u64 {
        let mut a = (x, 1u8);
        let mut b = (!x, 2u8);
        std::mem::swap(&mut a, &mut b);
        let old = std::mem::replace(&mut a, (5, 6));
        let taken = std::mem::take(&mut b.0);
        let mut values = [x, x + (x < 1000) as u64, 3, 4];
        values.swap(0, (x % 4) as usize);
        let values = values.iter().fold(0, |total, v| mix(total, *v));
        mix(mix(old.0 ^ u64::from(old.1), taken ^ u64::from(b.1)), values ^ a.0 ^ b.0)
    }
}

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ value >> 1 } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

case! {
    /// A table made by a `const fn`, as a constant and as a static.
    fn case_e7_const_tables(x: u64) -> u64 {
        const TABLE: [u32; 256] = crc_table();
        static SHARED_TABLE: [u32; 256] = crc_table();
        let mut a = !0u32;
        let mut b = 0u32;
        for byte in x.to_le_bytes() {
            a = TABLE[usize::from(a as u8 ^ byte)] ^ a >> 8;
            b = SHARED_TABLE[usize::from(b as u8 ^ byte)] ^ b >> 8;
        }
        u64::from(!a) << 32 | u64::from(b)
    }
}

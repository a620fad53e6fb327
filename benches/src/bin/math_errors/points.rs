//! Where the functions are asked: a fixed sequence that covers the domain in layers.

/// What a function's arguments may be, and where it deserves a closer look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Domain {
    /// One real argument.
    Real(Real),
    /// Base and exponent, mostly with a power in range.
    Power,
    /// Any two numbers, half the time of nearly the same size.
    Pair,
}

/// A set of real numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real {
    /// No argument lies below.
    lowest: f64,
    /// No argument lies above.
    highest: f64,
    /// A third of the points lie evenly here.
    even: (f64, f64),
    /// Points lie near its multiples, if it is not 0.
    multiple: f64,
    /// Points lie near these.
    centers: [f64; 2],
    center_count: usize,
    /// The even range follows the type's largest result: its natural logarithm times this.
    exponential: Option<f64>,
}

impl Domain {
    const ALL: Real = Real {
        lowest: f64::NEG_INFINITY,
        highest: f64::INFINITY,
        even: (-1.0, 1.0),
        multiple: 0.0,
        centers: [0.0; 2],
        center_count: 0,
        exponential: None,
    };

    /// All numbers, `low` to `high` closely.
    pub(crate) fn real(low: f64, high: f64) -> Self {
        Self::Real(Real { even: (low, high), ..Self::ALL })
    }

    /// Numbers from `low` up, up to `high` closely.
    pub(crate) fn positive(low: f64, high: f64) -> Self {
        Self::Real(Real { lowest: low, even: (low, high), ..Self::ALL })
    }

    /// All numbers, and closely those whose exponential to base `e^(1 / factor)` is in range.
    pub(crate) fn exponential(factor: f64) -> Self {
        Self::Real(Real { exponential: Some(factor), ..Self::ALL })
    }

    fn real_mut(mut self, change: impl FnOnce(&mut Real)) -> Self {
        if let Self::Real(real) = &mut self {
            change(real);
        }
        self
    }

    /// Also points near multiples of `step`, far ones too.
    pub(crate) fn with_multiples(self, step: f64) -> Self {
        self.real_mut(|real| real.multiple = step)
    }

    /// Nothing above `largest` in magnitude.
    pub(crate) fn with_largest(self, largest: f64) -> Self {
        self.real_mut(|real| (real.lowest, real.highest) = (-largest, largest))
    }

    /// Also points near `center`.
    pub(crate) fn with_center(self, center: f64) -> Self {
        self.real_mut(|real| {
            real.centers[real.center_count] = center;
            real.center_count += 1;
        })
    }

    /// The domain in words, for the table.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Real(real) if real.lowest == f64::NEG_INFINITY => "all".to_owned(),
            Self::Real(real) if real.highest == f64::INFINITY => format!("from {}", real.lowest),
            Self::Real(real) => format!("{} to {}", real.lowest, real.highest),
            Self::Power | Self::Pair => "all pairs".to_owned(),
        }
    }
}

/// A float type of which the points are made.
pub(crate) trait Point: Copy {
    /// Bits of a number.
    const BITS: u32;
    /// Bits of the fraction.
    const FRACTION: u32;
    fn from_bits(bits: u64) -> Self;
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl Point for f32 {
    const BITS: u32 = 32;
    const FRACTION: u32 = 23;

    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Point for f64 {
    const BITS: u32 = 64;
    const FRACTION: u32 = 52;

    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }

    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}

/// Random bits: splitmix64 of a counter.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Evenly from 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn sign(&mut self) -> f64 {
        if self.bits() & 1 == 0 { 1.0 } else { -1.0 }
    }

    /// Any bits: every exponent is as likely as any other.
    fn any<T: Point>(&mut self) -> T {
        T::from_bits(self.bits() & (u64::MAX >> (64 - T::BITS)))
    }

    /// A subnormal number.
    fn subnormal<T: Point>(&mut self) -> T {
        let fraction = self.bits() & ((1 << T::FRACTION) - 1);
        let shift = self.bits() % u64::from(T::FRACTION);
        T::from_bits(fraction >> shift | (self.bits() & 1) << (T::BITS - 1))
    }
}

/// The largest logarithm of a type's finite numbers, and that of its smallest.
fn logarithms<T: Point>() -> (f64, f64) {
    if T::BITS == 32 { (-104.0, 89.5) } else { (-745.5, 710.5) }
}

/// `count` arguments for a function of one.
pub(crate) fn one<T: Point>(domain: &Real, count: usize, seed: u64) -> Vec<T> {
    let mut draw = Draw(seed);
    let even = domain.exponential.map_or(domain.even, |factor| {
        let (low, high) = logarithms::<T>();
        (low * factor, high * factor)
    });
    (0..count)
        .map(|i| {
            let x = layer::<T>(domain, even, &mut draw, i);
            let value = x.to_f64();
            let fits = value.is_nan() || (domain.lowest..=domain.highest).contains(&value);
            if fits { x } else { T::from_f64(draw.between(even.0, even.1)) }
        })
        .collect()
}

fn layer<T: Point>(domain: &Real, even: (f64, f64), draw: &mut Draw, i: usize) -> T {
    match i % 10 {
        0..=3 => {
            let x: T = draw.any();
            // Where most exponents lie outside the domain, draw one that does not.
            if domain.highest.is_finite() && x.to_f64().abs() > domain.highest {
                return T::from_f64(draw.sign() * 2f64.powf(-draw.between(0.0, 40.0)));
            }
            if domain.lowest >= 0.0 { T::from_f64(x.to_f64().abs()) } else { x }
        }
        4..=6 => T::from_f64(draw.between(even.0, even.1)),
        7 if domain.center_count > 0 => {
            let center = domain.centers[draw.bits() as usize % domain.center_count];
            T::from_f64(center + draw.sign() * 2f64.powf(-draw.between(1.0, f64::from(T::FRACTION + 1))))
        }
        8 if domain.multiple != 0.0 => {
            let count = (2f64.powf(draw.between(0.0, f64::from(T::FRACTION + 6)))).floor() * draw.sign();
            let x = T::from_f64(count * domain.multiple);
            // At most two steps away.
            let moved = draw.bits() % 5;
            T::from_f64(x.to_f64() * (1.0 + (moved as f64 - 2.0) * 2f64.powi(-(T::FRACTION as i32))))
        }
        9 => match i / 10 % 4 {
            0 => draw.subnormal(),
            1 => T::from_f64((draw.bits() % 2000) as f64 / 2.0 - 500.0),
            2 => T::from_f64(draw.sign() * 2f64.powf(-draw.between(0.0, f64::from(T::FRACTION)))),
            _ => T::from_f64(draw.between(even.0, even.1)),
        },
        _ => T::from_f64(draw.between(even.0, even.1) * 0.1),
    }
}

/// `count` pairs of arguments.
pub(crate) fn two<T: Point>(domain: &Domain, count: usize, seed: u64) -> (Vec<T>, Vec<T>) {
    let mut draw = Draw(seed);
    (0..count)
        .map(|i| match (domain, i % 8) {
            (_, 0) => (draw.any(), draw.any()),
            (_, 1) => (T::from_f64(draw.between(-10.0, 10.0)), T::from_f64(draw.between(-10.0, 10.0))),
            (Domain::Power, 2) => {
                (T::from_f64(draw.between(-10.0, 10.0)), T::from_f64((draw.bits() % 81) as f64 - 40.0))
            }
            (Domain::Power, n) => {
                let base: T = match n {
                    3 => T::from_f64(1.0 + draw.sign() * 2f64.powf(-draw.between(1.0, f64::from(T::FRACTION)))),
                    4 => draw.subnormal(),
                    5 => T::from_f64(draw.between(0.0, 10.0)),
                    _ => draw.any(),
                };
                let base = T::from_f64(base.to_f64().abs());
                let (low, high) = logarithms::<T>();
                // The exponent that leads to a result drawn evenly among the exponents.
                (base, T::from_f64(draw.between(low, high) / base.to_f64().ln()))
            }
            (_, 2) => (draw.subnormal(), draw.any()),
            (_, 3) => (draw.any(), draw.subnormal()),
            (_, _) => {
                let x: T = draw.any();
                (x, T::from_f64(x.to_f64() * draw.sign() * 2f64.powf(draw.between(-30.0, 30.0))))
            }
        })
        .unzip()
}

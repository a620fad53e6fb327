//! The functions that the table lists: kernels, references, domains, and the bounds that CUDA publishes.

use warpsmith::math::{self, single as own};
use warpsmith::prelude::*;

use super::points::Domain;
use super::reference;
use super::wide::Scaled;

/// Launches a kernel of one argument over points and brings the results back.
pub(crate) type Unary<T> = fn(&Stream, &[T]) -> warpsmith::Result<Vec<T>>;
/// The same for two arguments.
pub(crate) type Binary<T> = fn(&Stream, &[T], &[T]) -> warpsmith::Result<Vec<T>>;

/// A function of one or two arguments, in both types.
pub(crate) enum Form {
    One {
        f32: Unary<f32>,
        f64: Unary<f64>,
        /// The body that kernels without libdevice get, on this processor.
        libm32: fn(f32) -> f32,
        libm64: fn(f64) -> f64,
        reference: fn(f64) -> Option<Scaled>,
        /// What is expected where the reference has no answer.
        special: fn(f64) -> f64,
    },
    Two {
        f32: Binary<f32>,
        f64: Binary<f64>,
        libm32: fn(f32, f32) -> f32,
        libm64: fn(f64, f64) -> f64,
        reference: fn(f64, f64) -> Option<Scaled>,
        special: fn(f64, f64) -> f64,
    },
}

/// A line of the table, for both types.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// CUDA's bounds for `f32` and `f64`, in units of the last place from the correctly rounded result.
    pub(crate) bounds: (u32, u32),
    pub(crate) domain: Domain,
    pub(crate) form: Form,
}

macro_rules! unary {
    ($name:ident, $bounds:expr, $domain:expr, |$x:ident| $body:expr, $libm32:path, $libm64:path, $special:expr) => {{
        #[kernel]
        fn single(x: &[f32], mut y: GridSliceMut<f32>) {
            let i = global_idx();
            if let Some(y) = y.get_mut(&i) {
                let $x = x[i.get()];
                *y = $body;
            }
        }
        #[kernel]
        fn double(x: &[f64], mut y: GridSliceMut<f64>) {
            let i = global_idx();
            if let Some(y) = y.get_mut(&i) {
                let $x = x[i.get()];
                *y = $body;
            }
        }
        Function {
            name: stringify!($name),
            bounds: $bounds,
            domain: $domain,
            form: Form::One {
                f32: |stream, x| {
                    let mut y = stream.zeroed::<f32>(x.len())?;
                    single::launch(stream, LaunchConfig::for_len(x.len()), &stream.to_device(x)?, &mut y)?;
                    stream.to_host(&y)
                },
                f64: |stream, x| {
                    let mut y = stream.zeroed::<f64>(x.len())?;
                    double::launch(stream, LaunchConfig::for_len(x.len()), &stream.to_device(x)?, &mut y)?;
                    stream.to_host(&y)
                },
                libm32: $libm32,
                libm64: $libm64,
                reference: reference::$name,
                special: $special,
            },
        }
    }};
}

macro_rules! binary {
    ($name:ident, $bounds:expr, $domain:expr, |$x:ident, $y:ident| $body:expr, $libm32:path, $libm64:path, $special:expr) => {{
        #[kernel]
        fn single(x: &[f32], y: &[f32], mut z: GridSliceMut<f32>) {
            let i = global_idx();
            if let Some(z) = z.get_mut(&i) {
                let ($x, $y) = (x[i.get()], y[i.get()]);
                *z = $body;
            }
        }
        #[kernel]
        fn double(x: &[f64], y: &[f64], mut z: GridSliceMut<f64>) {
            let i = global_idx();
            if let Some(z) = z.get_mut(&i) {
                let ($x, $y) = (x[i.get()], y[i.get()]);
                *z = $body;
            }
        }
        Function {
            name: stringify!($name),
            bounds: $bounds,
            domain: $domain,
            form: Form::Two {
                f32: |stream, x, y| {
                    let mut z = stream.zeroed::<f32>(x.len())?;
                    let (x, y) = (stream.to_device(x)?, stream.to_device(y)?);
                    single::launch(stream, LaunchConfig::for_len(x.len()), &x, &y, &mut z)?;
                    stream.to_host(&z)
                },
                f64: |stream, x, y| {
                    let mut z = stream.zeroed::<f64>(x.len())?;
                    let (x, y) = (stream.to_device(x)?, stream.to_device(y)?);
                    double::launch(stream, LaunchConfig::for_len(x.len()), &x, &y, &mut z)?;
                    stream.to_host(&z)
                },
                libm32: $libm32,
                libm64: $libm64,
                reference: reference::$name,
                special: $special,
            },
        }
    }};
}

fn rsqrtf(x: f32) -> f32 {
    1.0 / libm::sqrtf(x)
}

fn rsqrt(x: f64) -> f64 {
    1.0 / libm::sqrt(x)
}

fn rcbrtf(x: f32) -> f32 {
    1.0 / own::cbrtf(x)
}

fn rcbrt(x: f64) -> f64 {
    1.0 / libm::cbrt(x)
}

/// Every line of the table.
///
/// # Source
/// The bounds: CUDA C++ Programming Guide, "Mathematical Functions", tables of single- and double-precision functions.
pub(crate) fn all() -> Vec<Function> {
    use Domain as D;
    let angle = D::real(-100.0, 100.0).with_multiples(std::f64::consts::FRAC_PI_2);
    let turns = D::real(-10.0, 10.0).with_multiples(0.5);
    let positive = D::positive(0.0, 10.0).with_center(1.0);
    let unit = D::real(-1.0, 1.0).with_largest(1.0).with_center(1.0).with_center(-1.0);
    vec![
        unary!(sin, (2, 2), angle, |x| x.sin(), own::sinf, libm::sin, f64::sin),
        unary!(cos, (2, 2), angle, |x| x.cos(), own::cosf, libm::cos, f64::cos),
        unary!(tan, (4, 2), angle, |x| x.tan(), own::tanf, libm::tan, f64::tan),
        unary!(asin, (2, 2), unit, |x| x.asin(), own::asinf, libm::asin, f64::asin),
        unary!(acos, (2, 2), unit, |x| x.acos(), libm::acosf, libm::acos, f64::acos),
        unary!(atan, (2, 2), D::real(-10.0, 10.0), |x| x.atan(), libm::atanf, libm::atan, f64::atan),
        unary!(sinh, (3, 2), D::exponential(1.0), |x| x.sinh(), libm::sinhf, libm::sinh, f64::sinh),
        unary!(cosh, (2, 1), D::exponential(1.0), |x| x.cosh(), libm::coshf, libm::cosh, f64::cosh),
        unary!(tanh, (2, 1), D::real(-20.0, 20.0), |x| x.tanh(), libm::tanhf, libm::tanh, f64::tanh),
        unary!(asinh, (3, 3), D::real(-10.0, 10.0), |x| x.asinh(), libm::asinhf, libm::asinh, f64::asinh),
        unary!(
            acosh,
            (4, 3),
            D::positive(1.0, 10.0).with_center(1.0),
            |x| x.acosh(),
            libm::acoshf,
            libm::acosh,
            f64::acosh
        ),
        unary!(atanh, (3, 2), unit, |x| x.atanh(), libm::atanhf, libm::atanh, f64::atanh),
        unary!(exp, (2, 1), D::exponential(1.0), |x| x.exp(), libm::expf, libm::exp, f64::exp),
        unary!(exp2, (2, 1), D::exponential(std::f64::consts::LOG2_E), |x| x.exp2(), own::exp2f, libm::exp2, f64::exp2),
        unary!(
            exp_m1,
            (1, 1),
            D::exponential(1.0).with_center(0.0),
            |x| x.exp_m1(),
            libm::expm1f,
            libm::expm1,
            f64::exp_m1
        ),
        unary!(ln, (1, 1), positive, |x| x.ln(), libm::logf, libm::log, f64::ln),
        unary!(log2, (1, 1), positive, |x| x.log2(), libm::log2f, libm::log2, f64::log2),
        unary!(log10, (2, 1), positive, |x| x.log10(), libm::log10f, libm::log10, f64::log10),
        unary!(
            ln_1p,
            (1, 1),
            D::positive(-1.0, 10.0).with_center(-1.0),
            |x| x.ln_1p(),
            libm::log1pf,
            libm::log1p,
            f64::ln_1p
        ),
        unary!(cbrt, (1, 1), D::real(-10.0, 10.0), |x| x.cbrt(), own::cbrtf, libm::cbrt, f64::cbrt),
        binary!(
            pow,
            (4, 2),
            D::Power,
            |x, y| x.powf(y),
            math::bodies::power_f32::pow,
            math::bodies::power_f64::pow,
            f64::powf
        ),
        binary!(atan2, (3, 2), D::Pair, |x, y| x.atan2(y), libm::atan2f, libm::atan2, f64::atan2),
        binary!(hypot, (3, 2), D::Pair, |x, y| x.hypot(y), own::hypotf, libm::hypot, f64::hypot),
        binary!(rem, (0, 0), D::Pair, |x, y| x % y, libm::fmodf, libm::fmod, |x, y| x % y),
        unary!(
            exp10,
            (2, 1),
            D::exponential(std::f64::consts::LOG10_E),
            |x| math::exp10(x),
            libm::exp10f,
            libm::exp10,
            libm::exp10
        ),
        unary!(sinpi, (1, 2), turns, |x| math::sinpi(x), math::sinpi, math::sinpi, math::sinpi),
        unary!(cospi, (1, 2), turns, |x| math::cospi(x), math::cospi, math::cospi, math::cospi),
        unary!(erf, (2, 2), D::real(-6.0, 6.0), |x| math::erf(x), libm::erff, libm::erf, libm::erf),
        unary!(erfc, (4, 5), D::real(-7.0, 28.0), |x| math::erfc(x), libm::erfcf, libm::erfc, libm::erfc),
        unary!(tgamma, (5, 10), D::real(-180.0, 172.0), |x| math::tgamma(x), libm::tgammaf, libm::tgamma, libm::tgamma),
        unary!(
            lgamma,
            (6, 4),
            D::positive(-2.0, 20.0).with_center(1.0).with_center(2.0),
            |x| math::lgamma(x),
            libm::lgammaf,
            libm::lgamma,
            libm::lgamma
        ),
        unary!(rsqrt, (2, 1), D::positive(0.0, 10.0), |x| math::rsqrt(x), rsqrtf, rsqrt, rsqrt),
        unary!(rcbrt, (1, 1), D::real(-10.0, 10.0), |x| math::rcbrt(x), rcbrtf, rcbrt, rcbrt),
    ]
}

//! Comparisons of what a test's runs give.

use std::fmt::Debug;

use half::{bf16, f16};

/// Longer values are shown in part.
const SHOWN_WHOLE: usize = 160;

/// Values that agree where their floats do, within a tolerance; for `#[warpsmith::test(tolerance = ..)]`.
///
/// Numbers `a` and `b` agree when they are equal, both NaN, or differ by no more than `tolerance * max(1, |a|, |b|)`: by so much
/// where they are small, and by so much of their size where they are large. All else agrees when it is equal. Types of your own
/// say what agrees in them part by part.
///
/// # Examples
/// ```
/// use warpsmith::testing::Compare;
///
/// assert!(vec![1.0, 1e6].agrees(&vec![1.0 + 1e-7, 1e6 + 0.5], 1e-6));
/// assert!(![1.0].agrees(&[1.001], 1e-6));
/// assert!(!vec![1.0].agrees(&vec![1.0, 2.0], 1e-6));
/// ```
pub trait Compare {
    /// Whether the two agree within the tolerance.
    fn agrees(&self, other: &Self, tolerance: f64) -> bool;
}

/// Implements [`Compare`] for floats.
macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Compare for $float {
            fn agrees(&self, other: &Self, tolerance: f64) -> bool {
                let (a, b) = (f64::from(*self), f64::from(*other));
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0) && a.is_finite() && b.is_finite()
            }
        }
    )*};
}
floats!(f16, bf16, f32, f64);

/// Implements [`Compare`] for what agrees when it is equal.
macro_rules! exact {
    ($($exact:ty),*) => {$(
        impl Compare for $exact {
            fn agrees(&self, other: &Self, _tolerance: f64) -> bool {
                self == other
            }
        }
    )*};
}
exact!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool, char, (), str, String);

impl<T: Compare> Compare for [T] {
    fn agrees(&self, other: &Self, tolerance: f64) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(a, b)| a.agrees(b, tolerance))
    }
}

impl<T: Compare, const N: usize> Compare for [T; N] {
    fn agrees(&self, other: &Self, tolerance: f64) -> bool {
        self[..].agrees(&other[..], tolerance)
    }
}

impl<T: Compare> Compare for Vec<T> {
    fn agrees(&self, other: &Self, tolerance: f64) -> bool {
        self[..].agrees(&other[..], tolerance)
    }
}

impl<T: Compare + ?Sized> Compare for Box<T> {
    fn agrees(&self, other: &Self, tolerance: f64) -> bool {
        (**self).agrees(other, tolerance)
    }
}

impl<T: Compare> Compare for Option<T> {
    fn agrees(&self, other: &Self, tolerance: f64) -> bool {
        match (self, other) {
            (Some(a), Some(b)) => a.agrees(b, tolerance),
            (None, None) => true,
            _ => false,
        }
    }
}

/// Implements [`Compare`] for tuples.
macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Compare),*> Compare for ($($name,)*) {
            fn agrees(&self, other: &Self, tolerance: f64) -> bool {
                $(self.$index.agrees(&other.$index, tolerance))&&*
            }
        }
    )*};
}
tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5) }

/// What differs between a run's value and the plain one: both where they are short, else the first line of their long forms that
/// differs, of which a list has one for each item.
pub(super) fn difference<T: Debug + ?Sized>(value: &T, plain: &T) -> String {
    let (short, short_plain) = (format!("{value:?}"), format!("{plain:?}"));
    if short.len().max(short_plain.len()) <= SHOWN_WHOLE {
        return format!("{short} instead of {short_plain}");
    }
    let (long, long_plain) = (format!("{value:#?}"), format!("{plain:#?}"));
    let (lines, plain_lines): (Vec<_>, Vec<_>) = (long.lines().collect(), long_plain.lines().collect());
    let most = lines.len().max(plain_lines.len());
    let line = |lines: &[&str], at: usize| match lines.get(at).map(|line| line.trim().trim_end_matches(',')) {
        None | Some("]" | ")" | "}") => "nothing".to_owned(),
        Some(line) => line.to_owned(),
    };
    let differing: Vec<usize> = (0..most).filter(|&at| line(&lines, at) != line(&plain_lines, at)).collect();
    let Some(&first) = differing.first() else {
        return "the two are not equal, and print alike".to_owned();
    };
    // The first line is the bracket before the items.
    let place =
        if long.starts_with('[') { format!("item {}", first.saturating_sub(1)) } else { format!("line {}", first + 1) };
    format!(
        "{place} is {} instead of {}; {} of {most} lines of `{{:#?}}` differ",
        line(&lines, first),
        line(&plain_lines, first),
        differing.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_agree_within_the_tolerance() {
        let agrees = |a: f64, b: f64| a.agrees(&b, 1e-3) && b.agrees(&a, 1e-3);
        for (a, b) in [(0.0, -0.0), (0.0, 1e-3), (1000.0, 1001.0), (f64::NAN, f64::NAN), (f64::INFINITY, f64::INFINITY)]
        {
            assert!(agrees(a, b), "{a} {b}");
        }
        let apart =
            [(0.0, 2e-3), (1000.0, 1002.0), (f64::NAN, 0.0), (f64::INFINITY, 1e300), (f64::INFINITY, -f64::INFINITY)];
        for (a, b) in apart {
            assert!(!agrees(a, b), "{a} {b}");
        }
        assert!((1.0f32, vec![Some([f16::ONE])]).agrees(&(1.0005, vec![Some([f16::ONE])]), 1e-3));
        assert!(!(1.0f32, 2u32).agrees(&(1.0, 3), 1e-3));
        assert!(![1.0, 2.0][..].agrees(&[1.0][..], 1e-3));
        assert!(!Some(1.0).agrees(&None, 1e-3));
    }

    #[test]
    fn differences_name_the_first_item() {
        assert_eq!(difference(&3, &4), "3 instead of 4");
        let plain: Vec<u32> = (0..100).collect();
        let mut value = plain.clone();
        value[17] = 5;
        value[20] = 6;
        let text = difference(&value, &plain);
        assert_eq!(text, "item 17 is 5 instead of 17; 2 of 102 lines of `{:#?}` differ");
        let text = difference(&plain[..90], &plain[..]);
        assert_eq!(text, "item 90 is nothing instead of 90; 10 of 102 lines of `{:#?}` differ");
        let text = difference(&("x".repeat(200), 1), &("x".repeat(200), 2));
        assert!(text.starts_with("line 3 is 1 instead of 2; 1 of 4 lines"), "{text}");
        assert_eq!(difference(&[f32::NAN; 100], &[f32::NAN; 100]), "the two are not equal, and print alike");
    }
}

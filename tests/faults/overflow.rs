//! Overflow: wraps or panics as the profile of the host build says, and at the same operands.

use warpsmith_tests::overflow;

/// Numbers around the edges of every width.
fn edges() -> Vec<u64> {
    let mut edges = vec![0, 1, 2, 100, 5 << 32 | 7];
    for bits in [8, 16, 32, 64] {
        let max = u64::MAX >> (64 - bits);
        edges.extend([max, max - 1, max >> 1, (max >> 1) + 1]);
    }
    edges
}

macro_rules! widths {
    ($($module:ident: $int:ty),* $(,)?) => {$(
        mod $module {
            use super::*;

            overflow! {
                fn addition(x: u64) -> u64 {
                    (x as $int + 1) as u64
                }
                inputs: edges()
            }
            overflow! {
                fn subtraction(x: u64) -> u64 {
                    (x as $int - 1) as u64
                }
                inputs: edges()
            }
            overflow! {
                fn multiplication(x: u64) -> u64 {
                    (x as $int * (x >> 1) as $int) as u64
                }
                inputs: edges()
            }
            overflow! {
                fn shift(x: u64) -> u64 {
                    ((1 as $int) << (x as u8)) as u64 ^ (<$int>::MAX >> (x as u8)) as u64
                }
                inputs: [0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 200]
            }
        }
    )*};
}
widths!(u8_: u8, i16_: i16, i32_: i32, u64_: u64);

overflow! {
    fn negation_and_absolute_value(x: u64) -> u64 {
        (-(x as i8)) as u64 ^ u64::from((x as i32).abs() == 5) << 8 ^ (-(x as i64)) as u64
    }
    inputs: edges()
}

overflow! {
    fn sums_and_products_of_iterators(x: u64) -> u64 {
        let bytes = x.to_le_bytes();
        let sum: u8 = bytes.iter().sum();
        let product: u32 = bytes[..5].iter().map(|byte| u32::from(*byte)).product();
        u64::from(sum) | u64::from(product) << 8
    }
    inputs: edges()
}

overflow! {
    fn power_and_compound_assignment(x: u64) -> u64 {
        let mut value = (x as u32).pow(3);
        value += x as u32;
        value -= 5;
        value.into()
    }
    inputs: edges()
}

overflow! {
    fn division_always_checks(x: u64) -> u64 {
        (i32::MIN / x as i32) as u64 ^ (100 % (x >> 8) as u32) as u64 ^ (i64::MIN).rem_euclid(x as i64) as u64
    }
    inputs: edges()
}

overflow! {
    fn i128_and_u128(x: u64) -> u64 {
        let wide = u128::from(x) << 64;
        let sum = wide + (u128::MAX >> 1);
        let product = (x as i64 as i128) * (i128::MAX >> 32);
        sum as u64 ^ product as u64
    }
    inputs: edges()
}

overflow! {
    fn debug_assertions_follow_the_profile(x: u64) -> u64 {
        debug_assert!(x < 100, "x is {x}");
        x + u64::from(cfg!(debug_assertions))
    }
    inputs: [0, 99, 100]
}

//! What `#[derive(WarpValue)]` and `#[derive(AnyBits)]` move between lanes: packed bits that come back as they were.
#![forbid(unsafe_code)]

use warpsmith::prelude::*;

/// Derived without `unsafe` in sight, as this file forbids it.
#[derive(Clone, Copy, Debug, PartialEq, KernelValue, AnyBits)]
struct Body {
    position: [f32; 3],
    id: u16,
    kind: [u8; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, WarpValue)]
struct Sample<T> {
    value: T,
    valid: bool,
    kind: Kind,
    unit: (),
}

#[derive(Clone, Copy, Debug, PartialEq, WarpValue)]
enum Kind {
    Low = -5,
    Middle = 0,
    High = 9,
}

#[derive(Clone, Copy, Debug, PartialEq, WarpValue)]
struct Nothing;

#[test]
fn values_go_to_bits_and_back() {
    fn check<T: WarpValue + PartialEq + std::fmt::Debug>(value: T, bits: u32) {
        assert_eq!(T::LANE_BITS, bits, "{value:?}");
        let moved = value.to_lane_bits();
        assert_eq!(moved.checked_shr(bits).unwrap_or(0), 0, "{value:?} sets bits above its own");
        assert_eq!(T::from_lane_bits(moved), value);
        // What lies above is left by other values, or by lanes that were not there.
        assert_eq!(T::from_lane_bits(moved | u128::MAX.checked_shl(bits).unwrap_or(0)), value);
    }
    check(Body { position: [1.5, -0.0, f32::MAX], id: 7, kind: [8, 255] }, 128);
    check(Sample { value: -3_i16, valid: true, kind: Kind::High, unit: () }, 16 + 1 + 2);
    check(Sample { value: [1_u8; 9], valid: false, kind: Kind::Low, unit: () }, 72 + 1 + 2);
    check(Sample { value: Some('z'), valid: true, kind: Kind::Middle, unit: () }, 33 + 1 + 2);
    check(Nothing, 0);
    assert!(std::panic::catch_unwind(|| Kind::from_lane_bits(3)).is_err(), "there are three kinds");
}

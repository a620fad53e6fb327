//! The inputs of the cases, and the arithmetic that folds many results into one number.

/// The inputs of a case that names none: small numbers, every power of two with its neighbours, and random bits.
#[must_use]
pub fn inputs() -> Vec<u64> {
    let small = 0..50;
    let powers = (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit).wrapping_sub(1), !(1u64 << bit)]);
    let drawn = (0..64).map(|i| random(3, i));
    small.chain(powers).chain(drawn).collect()
}

/// Folds `value` into `total`, so that order matters and nothing cancels.
#[must_use]
pub fn mix(total: u64, value: u64) -> u64 {
    (total.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The `i`-th number drawn from `seed`: splitmix64, so the same on every side.
#[must_use]
pub fn random(seed: u64, i: u64) -> u64 {
    let mut z = (seed ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Zero, computed from `x` in a way that no compiler sees through: one of three neighbours is a multiple of 3.
#[must_use]
pub fn zero(x: u64) -> u64 {
    let y = x & 0xf_ffff;
    y * (y + 1) * (y + 2) % 3
}

//! `as` of every kind in a kernel means the same wherever the kernel runs; the checker looks at casts to numbers.
#![allow(trivial_casts, trivial_numeric_casts, unused_parens, reason = "casts are what is under test")]

use std::cell::Cell;

use warpsmith::prelude::*;

#[derive(Clone, Copy)]
enum Copied {
    A = 3,
    B = -7,
    C = 70_000,
}

enum Moved {
    X = 1,
    Y = 200,
}

type Index = u32;

trait Of {
    type Number;
    fn get(&self) -> u64;
}

impl Of for u8 {
    type Number = u16;
    fn get(&self) -> u64 {
        40_000_000_000 + u64::from(*self)
    }
}

const LENGTH: i64 = 4;

macro_rules! cast {
    ($x:expr, $t:ty) => {
        $x as $t
    };
}

macro_rules! literal {
    () => {
        3_000_000_000
    };
}

struct Dropped<'a>(&'a Cell<u64>, u64);

impl Dropped<'_> {
    fn number(&self) -> u64 {
        self.1
    }
}

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() * 10 + self.1);
    }
}

#[repr(Rust, packed)]
struct Packed(#[expect(dead_code, reason = "moves the other")] u8, u32);

union Bits {
    f: f32,
    u: u32,
}

#[kernel]
fn casts(input: &[i64], mut y: GridSliceMut<[u64; 64]>) {
    let i = global_idx();
    let (Some(&n), Some(y)) = (input.get(i.get()), y.get_mut(&i)) else { return };
    let mut at = 0;
    let mut put = |value: u64| {
        y[at] = value;
        at += 1;
    };
    // Numbers.
    put(n as u8 as u64);
    put(n as i8 as i64 as u64);
    put((n as f32).to_bits() as u64);
    put((n as f64 * 1e30) as f32 as f64 as u64);
    put(-(n >> 1) as u64);
    put(!n as u32 as u64);
    put(n as u128 as u64 ^ (n as i128 >> 3) as u64);
    put(n as usize as u64 ^ (n as isize as u64) >> 2);
    // Literals have their type from the cast.
    put(3_000_000_000 as u64);
    put((5_000_000_000) as u64 + { 6_000_000_000 } as u64);
    put((1 << 20) as u64);
    put((0.1 as f32).to_bits() as u64);
    put(-1 as i64 as u64);
    put(literal!() as u64);
    let free = 5;
    put(free as u64);
    put((free + 1) as u64 + (1 + free) as u64);
    // Closures whose arguments' types come later, and casts whose type comes from their use.
    let later: fn(&u16) -> u64 = |x| *x as u64;
    put(later(&7));
    put([3u8, 4].iter().map(|&x| x as u64).fold(0, |a, b| a * 16 + b as u64));
    let inferred = n as _;
    put(inferred);
    put(n as Index as u64);
    put((n as <u8 as Of>::Number) as u64);
    put(core::convert::identity(n) as core::primitive::u32 as u64);
    // What is no number.
    put((n > 0) as u64);
    put('ß' as u64 + (n as u8 as char) as u32 as u64 + b'x' as u64);
    put(Copied::B as i32 as u64);
    #[expect(clippy::cast_enum_truncation, reason = "the cast is what is tested")]
    put(Copied::C as u8 as u64);
    let copied = if n > 0 { Copied::A } else { Copied::B };
    put(copied as u64 ^ (copied as u64 >> 1));
    let moved = if n > 0 { Moved::Y } else { Moved::X };
    put(moved as i8 as u64);
    let local = [1u32, 2, 3];
    let first = &local[0] as *const u32;
    put((&local[2] as *const u32 as usize - first as usize) as u64);
    let mut changed = 3u32;
    let reference = &mut changed;
    let pointer = reference as *mut u32;
    *reference += 1;
    put((pointer as usize == &raw const changed as usize) as u64);
    let slice = &[1u8, 2, 3] as &[u8];
    put(slice.len() as u64);
    let object = &1u8 as &dyn Of<Number = u16>;
    put(object.get());
    // Places, and how long temporaries live.
    let packed = Packed(1, n as u32);
    put(packed.1 as u64);
    let bits = Bits { f: n as f32 };
    // SAFETY: every bit pattern is a `u32`.
    put(unsafe { bits.u } as u64);
    let by_reference = &n;
    put(*by_reference as u64);
    let drops = Cell::new(0);
    let sum = Dropped(&drops, 1).number() as u64 + { Dropped(&drops, 2).number() as u32 as u64 } + drops.get();
    put(sum * 1000 + drops.get());
    // Where no call can stand.
    let array: [u8; LENGTH as usize] = [n as u8; LENGTH as usize];
    put(array.len() as u64 + array[3] as u64);
    put(const { LENGTH as u64 });
    fn inner(x: i64) -> u8 {
        x as u8
    }
    put(inner(n) as u64);
    match n as u8 {
        0..=9 => put(1),
        x if x as i8 > 0 => put(2),
        _ => put(3),
    }
    put(cast!(n, u8) as u64 + cast!(5, u8) as u64);
    for i in 0..n as usize % 3 {
        put(i as u64);
    }
    if (n as u64) < 10 {
        return;
    }
    let tail = (|| -> Option<u64> { Some(u8::try_from(n).ok()? as u64 + 1) })();
    put(tail.unwrap_or(99) as u64);
}

#[warpsmith::test]
fn casts_mean_the_same_everywhere(device: &Device) -> warpsmith::Result<Vec<[u64; 64]>> {
    let stream = device.stream()?;
    let input = [0, 1, -1, 255, 256, 300, -300, 16_777_217, i64::MAX, i64::MIN, 1 << 40];
    let mut y = stream.zeroed::<[u64; 64]>(input.len())?;
    casts::launch(&stream, LaunchConfig::for_len(input.len()), &stream.to_device(&input)?, &mut y)?;
    let values = stream.to_host(&y)?;
    // 16 777 217 is what `f32` lacks first.
    assert_eq!((values[7][0], values[7][2]), (1, u64::from(16_777_216f32.to_bits())));
    assert_eq!((values[2][1], values[5][0], values[0][13]), (u64::MAX, 44, 3_000_000_000));
    Ok(values)
}

/// Each count's share of a total, in hundredths.
#[kernel]
fn shares(counts: &[u32], total: u64, mut y: GridSliceMut<u8>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = (counts[i.get()] as u64 * 100 / total) as u8;
    }
}

fn lossy(counts: &[u32], options: warpsmith::CheckOptions) -> Vec<String> {
    let device = Device::cpu_checked_with(options);
    let run = || {
        let stream = device.stream()?;
        let mut y = stream.zeroed::<u8>(counts.len())?;
        shares::launch(&stream, LaunchConfig::for_len(counts.len()), &stream.to_device(counts)?, 100, &mut y)
    };
    run().expect("the launch is in order");
    device.take_findings().iter().map(ToString::to_string).collect()
}

#[test]
fn a_cast_that_loses_bits_is_found_where_asked() {
    let asked = warpsmith::CheckOptions::new().lossy_casts(true);
    let found = lossy(&[10, 300, 5, 2], asked);
    let [found] = &found[..] else { panic!("{found:#?}") };
    assert!(found.starts_with("lossy cast in kernel `language::casts::shares`: thread (1, 0, 0)"), "{found}");
    assert!(found.contains("casts 300u64 and gets 44u8") && found.contains("casts.rs:"), "{found}");
    assert_eq!(lossy(&[10, 255, 0], asked), [""; 0]);
    assert_eq!(lossy(&[10, 300], warpsmith::CheckOptions::new()), [""; 0]);
}

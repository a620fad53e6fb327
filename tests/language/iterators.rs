//! Iterator chains: the adaptors and consumers of `core::iter` and of slices, a few in each case.

use warpsmith_tests::{case, mix};

/// Sixteen values that depend on `x`.
fn values(x: u64) -> [u64; 16] {
    std::array::from_fn(|i| x.rotate_left(5 * i as u32) >> (i % 7) * 8)
}

case! {
    fn iterators_map_filter_sum(x: u64) -> u64 {
        let values = values(x);
        let a: u64 = values.iter().map(|v| v & 0xffff).filter(|v| v % 3 == 0).sum();
        let b: u32 = values.iter().filter_map(|v| u16::try_from(*v).ok()).map(u32::from).sum();
        a << 32 | u64::from(b)
    }
}

case! {
    fn iterators_enumerate_zip_chain(x: u64) -> u64 {
        let values = values(x);
        let mut total = 0;
        for (i, (a, b)) in values.iter().zip(values.iter().rev()).enumerate() {
            total = mix(total, a ^ b.wrapping_mul(i as u64));
        }
        for v in values[..3].iter().chain(&values[10..]).chain(std::iter::once(&x)) {
            total = mix(total, *v);
        }
        total
    }
}

case! {
    fn iterators_skip_take_step(x: u64) -> u64 {
        let values = values(x);
        let n = (x % 20) as usize;
        let mut total = 0;
        for v in values.iter().skip(n).step_by(3) {
            total = mix(total, *v);
        }
        for v in values.iter().take(n).rev().skip(1) {
            total = mix(total, *v);
        }
        for v in values.iter().step_by(n + 1).take(4) {
            total = mix(total, *v);
        }
        total
    }
}

case! {
    fn iterators_while_forms(x: u64) -> u64 {
        let values = values(x);
        let a = values.iter().skip_while(|v| **v > x / 2).count() as u64;
        let b = values.iter().take_while(|v| **v != 0).count() as u64;
        let c: u64 = values.iter().map_while(|v| u32::try_from(*v).ok().or(Some(1)).filter(|v| v % 5 != 0)).map(u64::from).sum();
        mix(mix(a, b), c)
    }
}

case! {
    fn iterators_scan_and_successors(x: u64) -> u64 {
        let values = values(x);
        let mut total = 0;
        for v in values.iter().scan(1u64, |state, v| {
            *state = state.wrapping_mul(3) ^ v;
            (*state % 11 != 0).then_some(*state)
        }) {
            total = mix(total, v);
        }
        for v in std::iter::successors(Some(x), |v| if *v > 1 { Some(v / 7) } else { None }) {
            total = mix(total, v);
        }
        total
    }
}

case! {
    fn iterators_flatten(x: u64) -> u64 {
        let grid = [[x, 1, 2], [3, !x, 5], [6, 7, x >> 9]];
        let mut total = 0;
        for v in grid.iter().flatten() {
            total = mix(total, *v);
        }
        for v in grid.iter().flat_map(|row| row.iter().rev().map(|v| v.wrapping_add(1))) {
            total = mix(total, v);
        }
        for v in [Some(x), None, Some(4)].into_iter().flatten() {
            total = mix(total, v);
        }
        for v in (0..x % 6).flat_map(|i| 0..i) {
            total = mix(total, v);
        }
        total
    }
}

case! {
    fn iterators_peekable_fuse_inspect(x: u64) -> u64 {
        let values = values(x);
        let mut total = 0;
        let mut seen = 0u64;
        let mut iter = values.iter().inspect(|v| seen = seen.wrapping_add(**v)).peekable();
        while let Some(v) = iter.next() {
            if let Some(next) = iter.next_if(|next| **next < *v) {
                total = mix(total, *next);
            }
            if iter.peek().is_some_and(|next| **next % 2 == 0) {
                total = mix(total, *v);
            }
        }
        let mut fused = values.iter().take(3).fuse();
        let count = fused.by_ref().count() as u64 + u64::from(fused.next().is_none());
        mix(mix(total, seen), count)
    }
}

case! {
    fn iterators_copied_cloned_cycle(x: u64) -> u64 {
        let values = values(x);
        let a = values.iter().copied().cycle().skip((x % 50) as usize).take(20).fold(0, mix);
        let b = values.iter().cloned().rev().reduce(|a, b| a.wrapping_mul(31).wrapping_add(b)).unwrap_or(0);
        mix(a, b)
    }
}

case! {
    fn iterators_windows_and_chunks(x: u64) -> u64 {
        let values = values(x);
        let n = (x % 5) as usize + 1;
        let mut total = 0;
        for window in values.windows(n) {
            total = mix(total, window.iter().fold(0, |a, v| a ^ v));
        }
        for chunk in values.chunks(n) {
            total = mix(total, chunk.len() as u64 ^ chunk[0]);
        }
        let exact = values.chunks_exact(n);
        total = mix(total, exact.remainder().len() as u64);
        for chunk in exact {
            total = mix(total, chunk[n - 1]);
        }
        for chunk in values.rchunks(n) {
            total = mix(total, chunk[0]);
        }
        total
    }
}

case! {
    fn iterators_mutable_chunks(x: u64) -> u64 {
        let mut values = values(x);
        let n = (x % 7) as usize + 1;
        for (i, chunk) in values.chunks_mut(n).enumerate() {
            chunk.reverse();
            chunk[0] ^= i as u64;
        }
        for chunk in values.chunks_exact_mut(4) {
            chunk.rotate_left((x % 4) as usize);
        }
        for v in values.iter_mut().skip(1).step_by(2) {
            *v = v.swap_bytes();
        }
        values.into_iter().fold(0, mix)
    }
}

case! {
    fn iterators_folds(x: u64) -> u64 {
        let values = values(x);
        let a = values.iter().try_fold(0u64, |sum, v| sum.checked_add(*v));
        let b = values.iter().rfold(1u64, |a, v| a.rotate_left(7) ^ v);
        let c: Result<u64, u64> = values.iter().try_fold(0, |sum, v| if v % 13 == 0 { Err(sum) } else { Ok(mix(sum, *v)) });
        let d = values.iter().map(|v| (v & 7) + 1).product::<u64>();
        let (Ok(c) | Err(c)) = c;
        mix(mix(a.unwrap_or(9), b), mix(c, d))
    }
}

case! {
    fn iterators_searches(x: u64) -> u64 {
        let values = values(x);
        let mut total = 0;
        total = mix(total, u64::from(values.iter().any(|v| v % 10 == 3)));
        total = mix(total, u64::from(values.iter().all(|v| *v >= x % 100)));
        total = mix(total, values.iter().find(|v| *v % 4 == 1).copied().unwrap_or(5));
        total = mix(total, values.iter().find_map(|v| v.checked_sub(1 << 63)).unwrap_or(6));
        total = mix(total, values.iter().position(|v| v % 5 == 0).unwrap_or(99) as u64);
        total = mix(total, values.iter().rposition(|v| v % 5 == 0).unwrap_or(99) as u64);
        total = mix(total, u64::from(values.contains(&(x >> 8))));
        total = mix(total, u64::from(values.starts_with(&[x])));
        mix(total, values.iter().rfind(|v| *v % 2 == 0).copied().unwrap_or(7))
    }
}

case! {
    fn iterators_extremes(x: u64) -> u64 {
        let values = values(x);
        let mut total = 0;
        total = mix(total, values.iter().min().copied().unwrap_or(0));
        total = mix(total, values.iter().max().copied().unwrap_or(0));
        total = mix(total, values.iter().min_by_key(|v| **v & 0xff).copied().unwrap_or(0));
        total = mix(total, values.iter().max_by_key(|v| **v & 0xf).copied().unwrap_or(0));
        total = mix(total, values.iter().enumerate().max_by(|a, b| (a.1 % 3).cmp(&(b.1 % 3))).map_or(0, |v| v.0 as u64));
        let float = values.iter().map(|v| f64::from(*v as u32)).min_by(f64::total_cmp);
        mix(total, float.map_or(0, f64::to_bits))
    }
}

case! {
    fn iterators_ends(x: u64) -> u64 {
        let values = values(x);
        let n = (x % 20) as usize;
        let mut iter = values.iter();
        let mut total = iter.nth(n).copied().unwrap_or(1);
        total = mix(total, iter.nth_back(1).copied().unwrap_or(2));
        total = mix(total, iter.len() as u64);
        total = mix(total, iter.next_back().copied().unwrap_or(3));
        total = mix(total, iter.clone().last().copied().unwrap_or(4));
        total = mix(total, iter.as_slice().len() as u64);
        total = mix(total, iter.size_hint().0 as u64);
        mix(total, values.iter().skip(n).last().copied().unwrap_or(5))
    }
}

case! {
    fn iterators_compares(x: u64) -> u64 {
        let a = values(x);
        let b = values(x ^ 1 << (x % 64));
        let mut total = a.iter().cmp(b.iter()) as i8 as u64;
        total = mix(total, u64::from(a.iter().eq(b.iter())));
        total = mix(total, u64::from(a.iter().lt(b.iter())));
        total = mix(total, u64::from(a.iter().ge(b.iter().take(5))));
        total = mix(total, u64::from(a.iter().map(|v| *v as f32).partial_cmp(b.iter().map(|v| *v as f32)).is_some()));
        total = mix(total, u64::from(a.is_sorted()));
        total = mix(total, u64::from(a.iter().is_sorted_by_key(|v| *v % 2)));
        mix(total, u64::from(a[..4] == b[..4]) | u64::from(a < b) << 1)
    }
}

case! {
    fn iterators_sources(x: u64) -> u64 {
        let mut state = x;
        let mut total = 0;
        for v in std::iter::from_fn(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 62 != 0).then_some(state)
        })
        .take(30)
        {
            total = mix(total, v);
        }
        for v in std::iter::repeat(x).take(3).chain(std::iter::empty()).chain(std::iter::repeat_n(7, (x % 4) as usize)) {
            total = mix(total, v);
        }
        for v in std::iter::repeat_with(|| x ^ 3).take(2).chain(Some(8)).chain(std::iter::once_with(|| x)) {
            total = mix(total, v);
        }
        for (a, b) in std::iter::zip(0..5u8, [x, 2, 3]) {
            total = mix(total, b ^ u64::from(a));
        }
        total
    }
}

case! {
    fn iterators_ranges(x: u64) -> u64 {
        let low = (x % 30) as i32 - 15;
        let high = (x >> 8) as i32 % 40;
        let mut total = (low..high).sum::<i32>() as u64;
        total = mix(total, (low..=high).rev().step_by(4).map(|v| v as u64).fold(0, mix));
        total = mix(total, (low..high).len() as u64);
        total = mix(total, u64::from((low..high).contains(&0)) | u64::from((low..=high).is_empty()) << 1);
        total = mix(total, ('a'..='z').nth((x % 30) as usize).map_or(0, u64::from));
        total = mix(total, (u8::MAX - 3..=u8::MAX).map(u64::from).sum());
        mix(total, (0..u128::from(x)).nth(3).unwrap_or(1) as u64)
    }
}

case! {
    fn iterators_collect_and_partition(x: u64) -> u64 {
        let values = values(x);
        let (even, odd): (Vec<u64>, Vec<u64>) = values.iter().partition(|v| *v % 2 == 0);
        let (a, b): (Vec<u32>, Vec<u8>) = values.iter().map(|v| (*v as u32, (*v >> 56) as u8)).unzip();
        let all: Option<Vec<u64>> = values.iter().map(|v| v.checked_mul(2)).collect();
        let result: Result<Vec<u8>, usize> =
            values.iter().enumerate().map(|(i, v)| u8::try_from(v & 0x1ff).map_err(|_| i)).collect();
        let mut extended = even.clone();
        extended.extend(odd.iter().skip(1));
        let mut total = mix(even.len() as u64, odd.iter().copied().fold(0, mix));
        total = mix(total, a.iter().map(|v| u64::from(*v)).sum::<u64>() ^ b.iter().map(|v| u64::from(*v)).sum::<u64>());
        total = mix(total, all.map_or(3, |all| all.len() as u64));
        total = mix(total, result.map_or_else(|at| at as u64, |bytes| bytes.iter().map(|v| u64::from(*v)).sum()));
        extended.into_iter().fold(total, mix)
    }
}

case! {
    fn iterators_arrays(x: u64) -> u64 {
        let squares = [1u64, 2, 3, 4].map(|v| v.wrapping_mul(x));
        let nested: [[u64; 2]; 3] = std::array::from_fn(|i| std::array::from_fn(|j| x >> (i * 2 + j)));
        let mut iter = squares.into_iter();
        let first = iter.next().unwrap_or(0);
        let rest = iter.as_slice().len() as u64;
        mix(mix(first, rest), nested.into_iter().flatten().chain(iter).fold(0, mix))
    }
}

case! {
    fn iterators_slice_splits(x: u64) -> u64 {
        let bytes = x.to_le_bytes();
        let mut total = 0;
        for part in bytes.split(|b| b % 3 == 0) {
            total = mix(total, part.len() as u64);
        }
        for part in bytes.splitn(2, |b| *b > 100) {
            total = mix(total, part.iter().map(|b| u64::from(*b)).sum());
        }
        for run in bytes.chunk_by(|a, b| a <= b) {
            total = mix(total, run.len() as u64);
        }
        if let Some((first, rest)) = bytes.split_first_chunk::<3>() {
            total = mix(total, u64::from(first[2]) ^ rest.len() as u64);
        }
        let (chunks, tail) = bytes.as_chunks::<3>();
        mix(total, chunks.iter().map(|c| u64::from(c[1])).sum::<u64>() * 10 + tail.len() as u64)
    }
}

/// An iterator of our own, with adaptors of std on top.
struct Fibonacci(u64, u64);

impl Iterator for Fibonacci {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        let next = self.0;
        self.0 = self.1;
        self.1 = next.wrapping_add(self.1);
        Some(next)
    }
}

case! {
    fn iterators_own_iterator(x: u64) -> u64 {
        let start = Fibonacci(x % 10, 1 + x % 3);
        let mut by_ref = start.take_while(|v| *v < 1 << 40).skip(3);
        let head = by_ref.by_ref().step_by(2).take(4).fold(0, mix);
        by_ref.filter(|v| v % 2 == 0).fold(head, mix)
    }
}

case! {
    fn iterators_dynamic(x: u64) -> u64 {
        let values = values(x);
        let mut even = values.iter().copied().filter(|v| v % 2 == 0);
        let mut back = values.iter().copied().rev();
        let chosen: &mut dyn Iterator<Item = u64> = if x % 3 == 0 { &mut even } else { &mut back };
        let boxed: Box<dyn Iterator<Item = u64>> = if x % 2 == 0 { Box::new(0..x % 9) } else { Box::new(chosen.take(5)) };
        boxed.fold(1, mix)
    }
}

case! {
    fn iterators_of_text(x: u64) -> u64 {
        const TEXTS: [&str; 3] = ["the quick, brown fox", "Größe: 1×2 µm", ""];
        let text = TEXTS[(x % 3) as usize];
        let mut total = text.chars().rev().map(u64::from).fold(0, mix);
        total = mix(total, text.bytes().map(u64::from).sum());
        total = mix(total, text.split(' ').map(|word| word.len() as u64).fold(0, mix));
        total = mix(total, text.char_indices().filter(|(_, c)| c.is_alphabetic()).map(|(i, _)| i as u64).sum());
        total = mix(total, text.split_whitespace().last().map_or(3, |word| word.len() as u64));
        mix(total, text.find("1").map_or(5, |at| at as u64))
    }
}

//! `alloc` and `std` collections: `Vec`, `Box`, sorts, searches, maps and text on the device's heap.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt::Write;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use warpsmith_tests::{case, mix, random};

case! {
    fn vec_push_pop_insert_remove(x: u64) -> u64 {
        let mut values = Vec::new();
        for i in 0..x % 40 {
            values.push(x.rotate_left(i as u32));
        }
        if let Some(last) = values.pop() {
            values.insert(values.len() / 2, !last);
        }
        if values.len() > 3 {
            let removed = values.remove(1) ^ values.swap_remove(0);
            values.push(removed);
        }
        values.retain(|v| v % 3 != 0);
        values.dedup_by_key(|v| *v & 1);
        values.truncate(17);
        values.extend_from_slice(&[1, 2, 3]);
        values.drain(..1).for_each(drop);
        let tail = values.split_off(values.len() / 2);
        values.resize(values.len() + 2, 9);
        values.iter().chain(&tail).fold(values.len() as u64, |total, v| mix(total, *v))
    }
}

case! {
    fn vec_of_vec(x: u64) -> u64 {
        let mut rows: Vec<Vec<u16>> = vec![Vec::new(); 4];
        for i in 0..30u16 {
            rows[usize::from(i) % 4].push(i ^ x as u16);
        }
        let copy = rows.clone();
        rows.swap(0, (x % 4) as usize);
        rows.concat().iter().chain(copy[1].iter()).fold(0, |total, v| mix(total, u64::from(*v)))
    }
}

case! {
    fn boxes_and_lists(x: u64) -> u64 {
        enum List {
            End,
            Item(u64, Box<List>),
        }
        let mut list = List::End;
        for i in 0..x % 20 {
            list = List::Item(x ^ i, Box::new(list));
        }
        let mut total = 0;
        let mut at = &list;
        while let List::Item(value, next) = at {
            total = mix(total, *value);
            at = next;
        }
        let slice: Box<[u64]> = vec![x, 1, total].into_boxed_slice();
        let shared = Rc::new(*Box::new(slice.len() as u64));
        mix(total, *shared + Rc::strong_count(&shared.clone()) as u64)
    }
}

case! {
    fn drop_order(x: u64) -> u64 {
        use std::cell::Cell;
        struct Note<'a>(&'a Cell<u64>, u64);
        impl Drop for Note<'_> {
            fn drop(&mut self) {
                self.0.set(mix(self.0.get(), self.1));
            }
        }
        let log = Cell::new(0);
        {
            let _a = Note(&log, 1);
            let b = Note(&log, x);
            let list = vec![Note(&log, 3), Note(&log, 4)];
            if x & 1 == 0 {
                drop(b);
            }
            let _c = Box::new(Note(&log, 5));
            std::mem::forget(Note(&log, 6));
            drop(list);
        }
        log.get()
    }
}

/// Sorts of `length` values drawn from `seed`, checked by digest.
fn sorted_digest(seed: u64, length: usize) -> u64 {
    let mut stable: Vec<u64> = (0..length as u64).map(|i| random(seed, i)).collect();
    let mut unstable = stable.clone();
    let mut narrow: Vec<u8> = stable.iter().map(|v| *v as u8).collect();
    let mut pairs: Vec<(u8, u64)> = stable.iter().enumerate().map(|(i, v)| ((*v % 5) as u8, i as u64)).collect();
    stable.sort();
    unstable.sort_unstable_by(|a, b| b.cmp(a));
    narrow.sort_unstable();
    pairs.sort_by_key(|pair| pair.0);
    let mut total = stable.iter().fold(0, |total, v| mix(total, *v));
    total = unstable.iter().fold(total, |total, v| mix(total, *v));
    total = narrow.iter().fold(total, |total, v| mix(total, u64::from(*v)));
    total = pairs.iter().fold(total, |total, pair| mix(total, pair.1));
    mix(total, u64::from(stable.is_sorted() && narrow.is_sorted()))
}

fn sorted_float_digest(seed: u64, length: usize) -> u64 {
    let mut floats: Vec<f64> = (0..length as u64).map(|i| (random(seed, i) as i64 >> 12) as f64 / 1024.0).collect();
    let mut singles: Vec<f32> = floats.iter().map(|v| *v as f32).collect();
    floats.sort_by(f64::total_cmp);
    singles.sort_unstable_by(|a, b| b.total_cmp(a));
    let total = floats.iter().fold(0, |total, v| mix(total, v.to_bits()));
    singles.iter().fold(total, |total, v| mix(total, u64::from(v.to_bits())))
}

case! {
    /// Every length from 0 to 100: the sorts change their algorithm at several of them.
    fn case_l1_sort_sizes_0_to_100(x: u64) -> u64 {
        sorted_digest(x / 101, (x % 101) as usize)
    }
    inputs: (0..=100).chain(7 * 101..8 * 101).collect()
}

case! {
    fn case_l1_sort_floats_sizes_0_to_100(x: u64) -> u64 {
        sorted_float_digest(x / 101, (x % 101) as usize)
    }
    inputs: (0..=100).chain(7 * 101..8 * 101).collect()
}

case! {
    fn sort_patterns(x: u64) -> u64 {
        let length = (x % 200) as usize;
        let mut total = 0;
        for pattern in 0..4 {
            let mut values: Vec<i32> = (0..length as i32)
                .map(|i| match pattern {
                    0 => i,
                    1 => -i,
                    2 => i % 4,
                    _ => (i * 7) ^ 0x55,
                })
                .collect();
            values.sort_unstable();
            total = values.iter().fold(total, |total, v| mix(total, *v as u64));
            values.sort_by_cached_key(|v| (v % 3, -v));
            total = values.iter().fold(total, |total, v| mix(total, *v as u64));
        }
        total
    }
}

case! {
    fn select_and_search(x: u64) -> u64 {
        let mut values: Vec<u64> = (0..64).map(|i| random(x, i) % 500).collect();
        let (_, middle, _) = values.select_nth_unstable((x % 64) as usize);
        let middle = *middle;
        values.sort_unstable();
        let mut total = middle;
        for needle in [0, x % 500, 250, middle, 499, 1000] {
            total = mix(total, match values.binary_search(&needle) {
                Ok(at) => values[at],
                Err(at) => 10_000 + at as u64,
            });
            total = mix(total, values.partition_point(|v| *v < needle) as u64);
            total = mix(total, values.binary_search_by_key(&(needle * 2), |v| v * 2).is_ok().into());
        }
        total
    }
}

type FixedState = BuildHasherDefault<DefaultHasher>;

case! {
    fn case_l4_hash_map_with_fixed_hasher(x: u64) -> u64 {
        let mut counts: HashMap<u64, u32, FixedState> = HashMap::default();
        for i in 0..50 {
            *counts.entry(random(x, i) % 17).or_insert(0) += 1;
        }
        let removed = counts.remove(&3).unwrap_or(100);
        let mut total = u64::from(removed) << 8 | counts.len() as u64;
        for key in 0..17 {
            total = mix(total, counts.get(&key).map_or(7, |count| u64::from(*count)));
        }
        let set: HashSet<u8, FixedState> = x.to_le_bytes().into_iter().collect();
        mix(total, set.len() as u64)
    }
}

case! {
    fn case_l4_btree_map(x: u64) -> u64 {
        let mut map = BTreeMap::new();
        for i in 0..60 {
            map.insert(random(x, i) % 97, i);
        }
        for key in (0..97).step_by(3) {
            map.remove(&key);
        }
        let mut total = map.len() as u64;
        for (key, value) in map.range(20..70) {
            total = mix(mix(total, *key), *value);
        }
        let set: BTreeSet<u8> = x.to_be_bytes().into_iter().collect();
        let first = map.first_key_value().map_or(0, |pair| *pair.0);
        set.iter().rev().fold(mix(total, first), |total, v| mix(total, u64::from(*v)))
    }
}

case! {
    fn queues_and_heaps(x: u64) -> u64 {
        let mut queue = VecDeque::with_capacity(4);
        let mut heap = BinaryHeap::new();
        for i in 0..20 {
            let value = random(x, i) % 1000;
            heap.push(value);
            if value % 2 == 0 { queue.push_back(value) } else { queue.push_front(value) }
            if i % 5 == 4 {
                queue.pop_front();
            }
        }
        let mut total = queue.iter().fold(0, |total, v| mix(total, *v));
        while let Some(value) = heap.pop() {
            total = mix(total, value);
        }
        total
    }
}

case! {
    fn case_l4_string_and_format(x: u64) -> u64 {
        #[derive(Debug)]
        #[allow(dead_code, reason = "read by the derived Debug")]
        struct Point {
            left: i32,
            name: &'static str,
        }
        let mut text = String::from("x = ");
        let _ = write!(text, "{x:>8} {:#x} {:08b} {:?}", x >> 3, x as u8, Some(x as i16));
        text += &format!(" {:?}", Point { left: x as i32, name: "p" });
        text.push('é');
        text.insert_str(0, "<<");
        let upper = text.to_uppercase().replace("POINT", "place");
        upper.bytes().fold(upper.chars().count() as u64, |total, byte| mix(total, byte.into()))
    }
}

case! {
    fn case_l4_format_floats(x: u64) -> u64 {
        let value = f64::from_bits(x);
        let value = if value.is_nan() { 0.5 } else { value };
        let text = format!("{:.3} {:e} {}", x as u32 as f32 / 7.0, value, (x % 1000) as f64 / 8.0);
        let back: f64 = text.split(' ').nth(1).and_then(|part| part.parse().ok()).unwrap_or(1.0);
        text.bytes().fold(u64::from(back == value), |total, byte| mix(total, byte.into()))
    }
}

case! {
    fn hashes(x: u64) -> u64 {
        #[derive(Hash)]
        struct Key<'a>(u8, &'a str, [u16; 3], Option<bool>, (i64, char));
        let mut hasher = DefaultHasher::new();
        Key(x as u8, "key", [x as u16; 3], Some(x & 1 == 0), (x as i64, 'k')).hash(&mut hasher);
        hasher.finish()
    }
}

case! {
    fn byte_strings(x: u64) -> u64 {
        const TEXT: &[u8] = b"It was a bright cold day in April\0\xff";
        let needle = [b"day".as_slice(), b"", b"night", b"\xff"][(x % 4) as usize];
        let at = if needle.is_empty() { Some(0) } else { TEXT.windows(needle.len()).position(|part| part == needle) };
        let vowels = TEXT.iter().filter(|b| b"aeiou".contains(&b.to_ascii_lowercase())).count() as u64;
        let mut copy = [0u8; 36];
        copy[..TEXT.len()].copy_from_slice(TEXT);
        copy.make_ascii_uppercase();
        copy[(x % 36) as usize] = b'#';
        copy[20..].fill_with({
            let mut next = x as u8;
            move || {
                next = next.wrapping_add(TEXT[usize::from(next) % TEXT.len()]);
                next
            }
        });
        let cmp = TEXT[..5].cmp(&copy[..5]) as i8 as u64;
        copy.iter().fold(mix(at.unwrap_or(50) as u64, vowels ^ cmp), |total, b| mix(total, u64::from(*b)))
    }
}

case! {
    fn slice_methods(x: u64) -> u64 {
        let mut values: [u32; 12] = std::array::from_fn(|i| (x >> i) as u32);
        values.rotate_right((x % 13) as usize);
        values.copy_within(2..7, 5);
        values[3..9].reverse();
        values[..2].fill(x as u32);
        let (left, right) = values.split_at((x % 12) as usize);
        let joined = [left, right, &[7]].concat();
        let mut total = joined.iter().fold(0, |total, v| mix(total, u64::from(*v)));
        total = mix(total, joined.repeat(2).len() as u64);
        total = mix(total, values.first_chunk::<4>().map_or(0, |c| u64::from(c[3])));
        mix(total, u64::from(values.iter().copied().rev().eq(joined.iter().rev().skip(1).copied())))
    }
}

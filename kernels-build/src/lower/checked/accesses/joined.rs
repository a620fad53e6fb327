//! Which accesses of one thread a GPU makes with one instruction: neighbours of a kind, where the alignment is known to allow it.
//!
//! LLVM joins them when it makes PTX, and here they stay apart, since each is checked by itself. The memory report counts
//! requests, so it is told: the first one of those that are joined stands for all.

use std::collections::HashMap;
use std::hash::Hash;

/// Most bytes that a thread moves with one instruction.
const WIDEST: u32 = 16;

/// An access at a known distance from some address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access<B, L> {
    pub(super) is_store: bool,
    /// The address that `offset` counts from.
    pub(super) base: B,
    /// In bytes.
    pub(super) offset: i64,
    pub(super) bytes: u32,
    /// What the address is known to be a multiple of.
    pub(super) align: u32,
    /// The source line that it is counted for.
    pub(super) line: L,
}

/// What stands in a function's code, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<I, B, L> {
    /// An access, by the instruction's name.
    Access(I, Access<B, L>),
    /// An access of whose neighbours nothing is known.
    Other { is_store: bool },
    /// Nothing is moved across this: the end of a block, a call, an atomic.
    Wall,
}

/// The accesses that are joined with others: as how many bytes the first of them counts; 0 for the others.
pub(super) fn joined<I: Copy + Eq + Hash, B: Copy + Eq + Hash, L: Copy + Eq + Hash>(
    steps: impl IntoIterator<Item = Step<I, B, L>>,
) -> HashMap<I, u32> {
    let mut joined = HashMap::new();
    let [mut loads, mut stores] = [Vec::new(), Vec::new()];
    for step in steps {
        let (ends_loads, ends_stores) = match step {
            // A store may be of what a load reads, so neither moves across the other.
            Step::Access(_, Access { is_store, .. }) | Step::Other { is_store } => (is_store, !is_store),
            Step::Wall => (true, true),
        };
        if ends_loads {
            join(std::mem::take(&mut loads), &mut joined);
        }
        if ends_stores {
            join(std::mem::take(&mut stores), &mut joined);
        }
        if let Step::Access(name, access) = step {
            if access.is_store { &mut stores } else { &mut loads }.push((name, access));
        }
    }
    join(loads, &mut joined);
    join(stores, &mut joined);
    joined
}

/// Accesses by their instructions' names, in order.
type Named<I, B, L> = Vec<(I, Access<B, L>)>;

/// Joins accesses that may be moved together.
fn join<I: Copy + Eq + Hash, B: Copy + Eq + Hash, L: Copy + Eq + Hash>(
    accesses: Named<I, B, L>,
    joined: &mut HashMap<I, u32>,
) {
    let mut groups: HashMap<(B, L, u32), Named<I, B, L>> = HashMap::new();
    for (name, access) in accesses {
        groups.entry((access.base, access.line, access.bytes)).or_default().push((name, access));
    }
    for ((_, _, bytes), mut group) in groups {
        group.sort_by_key(|(_, access)| access.offset);
        let mut rest = &group[..];
        while let Some((first, rest_of)) = rest.split_first() {
            let align = group.iter().map(|(_, other)| alignment(other, first.1.offset)).max().unwrap_or(1);
            let neighbours = rest.windows(2).take_while(|two| two[1].1.offset - two[0].1.offset == i64::from(bytes));
            let most = (1 + neighbours.count() as u32) * bytes;
            let width = [16, 8, 4, 2].into_iter().find(|width| *width <= most.min(align).min(WIDEST));
            match width.filter(|width| *width > bytes && bytes.is_power_of_two()) {
                Some(width) => {
                    let (all, after) = rest.split_at((width / bytes) as usize);
                    joined.extend(all.iter().map(|(name, _)| (*name, 0)));
                    joined.insert(first.0, width);
                    rest = after;
                }
                None => rest = rest_of,
            }
        }
    }
}

/// What an address at another offset is a multiple of, by what is known of an access.
fn alignment<B, L>(known: &Access<B, L>, offset: i64) -> u32 {
    let distance = (offset - known.offset).unsigned_abs();
    let by_distance = if distance == 0 { u32::MAX } else { 1 << distance.trailing_zeros().min(31) };
    known.align.min(by_distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    type S = Step<usize, char, u32>;

    fn access(is_store: bool, base: char, offset: i64, bytes: u32, align: u32) -> S {
        Step::Access(usize::MAX, Access { is_store, base, offset, bytes, align, line: 1 })
    }

    fn load(offset: i64, bytes: u32, align: u32) -> S {
        access(false, 'a', offset, bytes, align)
    }

    /// What each step counts as.
    fn counts(steps: &[S]) -> Vec<Option<u32>> {
        let named = steps.iter().enumerate().map(|(number, step)| match *step {
            Step::Access(_, access) => Step::Access(number, access),
            other => other,
        });
        let joined = joined(named);
        (0..steps.len()).map(|number| joined.get(&number).copied()).collect()
    }

    #[test]
    fn fields_of_an_aligned_value_are_one() {
        let fields = [load(0, 4, 16), load(4, 4, 4), load(8, 4, 8), load(12, 4, 4)];
        assert_eq!(counts(&fields), [Some(16), Some(0), Some(0), Some(0)]);
        // In another order, and where only a later one says how they are aligned.
        let fields = [load(44, 4, 4), load(36, 4, 4), load(40, 4, 4), load(32, 4, 4), load(48, 4, 16)];
        assert_eq!(counts(&fields), [Some(0), Some(0), Some(0), Some(16), None]);
        assert_eq!(counts(&[load(0, 8, 16), load(8, 8, 8)]), [Some(16), Some(0)]);
        assert_eq!(counts(&[load(0, 1, 4), load(1, 1, 1), load(2, 1, 2), load(3, 1, 1)])[0], Some(4));
        let eight: Vec<S> = (0..8).map(|i| load(4 * i, 4, 16)).collect();
        assert_eq!(counts(&eight), [16, 0, 0, 0, 16, 0, 0, 0].map(Some));
    }

    #[test]
    fn what_alignment_or_distance_forbid_stays_apart() {
        let floats = |align| [0, 4, 8, 12].map(|offset| load(offset, 4, if offset == 0 { align } else { 4 }));
        assert_eq!(counts(&floats(4)), [None; 4]);
        assert_eq!(counts(&floats(8)), [Some(8), Some(0), Some(8), Some(0)]);
        // The first of them lies before a boundary of 16 bytes.
        let late = [load(12, 4, 4), load(16, 4, 16), load(20, 4, 4)];
        assert_eq!(counts(&late), [None, Some(8), Some(0)]);
        assert_eq!(counts(&[load(0, 4, 16), load(8, 4, 8)]), [None; 2]);
        assert_eq!(counts(&[load(0, 16, 16), load(16, 16, 16)]), [None; 2]);
        assert_eq!(counts(&[load(0, 4, 16), load(4, 4, 4), load(8, 4, 8)]), [Some(8), Some(0), None]);
        // Twice the same, other widths, another base, another line.
        assert_eq!(counts(&[load(0, 4, 16), load(0, 4, 16)]), [None; 2]);
        assert_eq!(counts(&[load(0, 4, 16), load(4, 8, 4)]), [None; 2]);
        assert_eq!(counts(&[load(0, 4, 16), access(false, 'b', 4, 4, 4)]), [None; 2]);
        let S::Access(_, other) = load(4, 4, 4) else { unreachable!("it is an access") };
        assert_eq!(counts(&[load(0, 4, 16), Step::Access(0, Access { line: 2, ..other })]), [None; 2]);
    }

    #[test]
    fn nothing_moves_across_what_may_disturb_it() {
        let store = |offset| access(true, 'b', offset, 4, if offset == 0 { 8 } else { 4 });
        let (first, second) = (load(0, 4, 8), load(4, 4, 4));
        assert_eq!(counts(&[first, second, store(0), store(4)]), [8, 0, 8, 0].map(Some));
        assert_eq!(counts(&[first, store(0), second, store(4)]), [None; 4]);
        assert_eq!(counts(&[first, Step::Wall, second]), [None; 3]);
        assert_eq!(counts(&[first, Step::Other { is_store: true }, second]), [None; 3]);
        assert_eq!(counts(&[first, Step::Other { is_store: false }, second]), [Some(8), None, Some(0)]);
    }
}

//! Random kernels of accesses and barriers, whose verdicts are compared with those of plain vector clocks.

use warpsmith_device::warp::FULL_MASK;
use warpsmith_device::{shared, sync_threads, sync_warp, thread_idx};

use super::*;

const THREADS: usize = 96;
const SLOTS: usize = 6;
const SEEDS: u64 = 400;

/// What separates two steps of all threads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Barrier {
    None,
    Warp,
    Block,
    /// The lower or the upper half of each warp.
    Half,
}

/// What a thread does in a step.
type Steps = Vec<(Barrier, Vec<Option<Act>>)>;

/// An access to a slot, or to one byte of it.
#[derive(Clone, Copy, Debug)]
struct Act {
    slot: usize,
    byte: Option<usize>,
    writes: bool,
}

impl Act {
    fn meets(self, other: Self) -> bool {
        let of_one = self.byte.zip(other.byte).is_none_or(|(one, two)| one == two);
        self.slot == other.slot && of_one && (self.writes || other.writes)
    }

    fn make(self, tile: usize) {
        let whole = Slot(tile + 4 * self.slot);
        let Some(byte) = self.byte else {
            if self.writes {
                whole.store(1.0);
            } else {
                whole.load();
            }
            return;
        };
        let address = std::ptr::with_exposed_provenance(whole.0 + byte);
        // SAFETY: a checked launch runs, and the byte is of the tile.
        unsafe {
            if self.writes {
                __warpsmith_check_store_1(address, 1, at::STORE_1);
            } else {
                __warpsmith_check_load_1(address, at::LOAD_1);
            }
        }
    }
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % limit
    }
}

/// A kernel, of whose accesses one in so many is to a byte.
fn generate(seed: u64, narrow: Option<u64>) -> Steps {
    let mut numbers = Numbers(seed);
    let (writes, acts) = (1 + numbers.below(30), 2 + numbers.below(60));
    let step = |numbers: &mut Numbers| {
        let barrier = [Barrier::None, Barrier::Warp, Barrier::Block, Barrier::Half][numbers.below(4) as usize];
        let accesses = (0..THREADS).map(|_| {
            let (acts, writes) = (numbers.below(acts) == 0, numbers.below(writes) == 0);
            acts.then(|| {
                let slot = numbers.below(SLOTS as u64) as usize;
                let byte = narrow.filter(|&narrow| numbers.below(narrow) == 0).map(|_| numbers.below(4) as usize);
                Act { slot, byte, writes }
            })
        });
        (barrier, accesses.collect())
    };
    (0..1 + numbers.below(6)).map(|_| step(&mut numbers)).collect()
}

/// Whether two accesses of a kernel race, by what each thread knows of all others.
fn races(steps: &Steps) -> bool {
    let mut known = vec![vec![0_usize; THREADS]; THREADS];
    let mut done: Vec<(usize, usize, Act)> = Vec::new();
    let group = |barrier, thread: usize| match barrier {
        Barrier::None => thread..thread + 1,
        Barrier::Half => thread / 16 * 16..thread / 16 * 16 + 16,
        Barrier::Warp => thread / 32 * 32..thread / 32 * 32 + 32,
        Barrier::Block => 0..THREADS,
    };
    for (step, (barrier, accesses)) in steps.iter().enumerate() {
        for (thread, access) in accesses.iter().enumerate() {
            let &Some(act) = access else { continue };
            let races = |&(other, when, earlier): &(usize, usize, Act)| {
                other != thread && act.meets(earlier) && known[thread][other] <= when
            };
            if done.iter().any(races) {
                return true;
            }
            done.push((thread, step, act));
        }
        let before = known.clone();
        for (thread, known) in known.iter_mut().enumerate() {
            for other in group(*barrier, thread) {
                known.iter_mut().zip(&before[other]).for_each(|(own, &other)| *own = other.max(*own));
                known[other] = step + 1;
            }
        }
    }
    false
}

#[test]
fn verdicts_are_those_of_vector_clocks() {
    compare(None);
}

#[test]
fn verdicts_on_single_bytes_are_those_of_vector_clocks() {
    compare(Some(2));
    compare(Some(8));
}

fn compare(narrow: Option<u64>) {
    let mut racy = 0;
    for seed in 0..SEEDS {
        let steps = generate(seed, narrow);
        let kernel = || {
            let tile = shared!([f32; SLOTS]).addr();
            let me = thread_idx().x as usize;
            if me < SLOTS {
                Slot(tile + 4 * me).store_at(0.0, at::OTHER_STORE);
            }
            sync_threads();
            for (barrier, accesses) in &steps {
                if let Some(act) = accesses[me] {
                    act.make(tile);
                }
                match barrier {
                    Barrier::None => {}
                    Barrier::Half => sync_warp(if me % 32 < 16 { 0xFFFF } else { 0xFFFF_0000 }),
                    Barrier::Warp => sync_warp(FULL_MASK),
                    Barrier::Block => sync_threads(),
                }
            }
        };
        let expected = races(&steps);
        racy += u64::from(expected);
        for schedule in [Schedule::Ascending, Schedule::Random(seed)] {
            let findings = Launch { schedule, ..launch(2, THREADS as u32) }.find(&[], kernel);
            assert_eq!(!findings.is_empty(), expected, "seed {seed} under {schedule}: {steps:?}\n{}", list(&findings));
        }
    }
    println!("{racy} of {SEEDS} kernels race");
    assert!((SEEDS / 10..SEEDS * 9 / 10).contains(&racy), "{racy} of {SEEDS}: the kernels are of one kind");
}

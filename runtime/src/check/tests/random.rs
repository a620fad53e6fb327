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

/// What a thread does in a step: a slot, and whether it writes.
type Steps = Vec<(Barrier, Vec<Option<(usize, bool)>>)>;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % limit
    }
}

fn generate(seed: u64) -> Steps {
    let mut numbers = Numbers(seed);
    let (writes, acts) = (1 + numbers.below(30), 2 + numbers.below(60));
    let step = |numbers: &mut Numbers| {
        let barrier = [Barrier::None, Barrier::Warp, Barrier::Block, Barrier::Half][numbers.below(4) as usize];
        let accesses = (0..THREADS).map(|_| {
            let (acts, writes) = (numbers.below(acts) == 0, numbers.below(writes) == 0);
            acts.then(|| (numbers.below(SLOTS as u64) as usize, writes))
        });
        (barrier, accesses.collect())
    };
    (0..1 + numbers.below(6)).map(|_| step(&mut numbers)).collect()
}

/// Whether two accesses of a kernel race, by what each thread knows of all others.
fn races(steps: &Steps) -> bool {
    let mut known = vec![vec![0_usize; THREADS]; THREADS];
    let mut done: Vec<Vec<(usize, usize, bool)>> = vec![Vec::new(); SLOTS];
    let group = |barrier, thread: usize| match barrier {
        Barrier::None => thread..thread + 1,
        Barrier::Half => thread / 16 * 16..thread / 16 * 16 + 16,
        Barrier::Warp => thread / 32 * 32..thread / 32 * 32 + 32,
        Barrier::Block => 0..THREADS,
    };
    for (step, (barrier, accesses)) in steps.iter().enumerate() {
        for (thread, access) in accesses.iter().enumerate() {
            let &Some((slot, writes)) = access else { continue };
            let races = |&(other, when, wrote): &(usize, usize, bool)| {
                other != thread && (wrote || writes) && known[thread][other] <= when
            };
            if done[slot].iter().any(races) {
                return true;
            }
            done[slot].push((thread, step, writes));
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
    let mut racy = 0;
    for seed in 0..SEEDS {
        let steps = generate(seed);
        let kernel = || {
            let tile = shared!([f32; SLOTS]).addr();
            let me = thread_idx().x as usize;
            if me < SLOTS {
                Slot(tile + 4 * me).store_at(0.0, at::OTHER_STORE);
            }
            sync_threads();
            for (barrier, accesses) in &steps {
                match accesses[me] {
                    Some((slot, true)) => Slot(tile + 4 * slot).store(1.0),
                    Some((slot, false)) => drop(Slot(tile + 4 * slot).load()),
                    None => {}
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

//! The decisions of a schedule: the order of blocks, and which of the threads that can go on does.

use super::schedule::Schedule;

/// Threads of a warp, which run ahead and stay behind together.
const WARP: u32 = warpsmith_device::host::WARP_SIZE;

/// Numbers that follow from a seed: SplitMix64.
///
/// # Source
/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct Draws(u64);

impl Draws {
    /// The numbers of a schedule, other ones for each seed, kind, and purpose.
    fn new(schedule: Schedule, purpose: u64) -> Self {
        let seed = match schedule {
            Schedule::Ascending | Schedule::RoundRobin | Schedule::Reversed => 0,
            Schedule::Random(seed) => seed,
            Schedule::Adversarial(seed) => !mix(seed),
        };
        Self(mix(seed ^ mix(purpose)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    fn flip(&mut self) -> bool {
        self.next() >> 63 != 0
    }

    fn shuffle(&mut self, items: &mut [u32]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The order in which things start that run one after another: `at` gives each number below `len` once.
pub(super) enum Sequence {
    Forward,
    Backward { last: u64 },
    Shuffled { len: u64, half_bits: u32, keys: [u64; 4] },
}

impl Sequence {
    /// Of `len` things; `purpose` tells the sequences of one seed apart.
    pub(super) fn new(schedule: Schedule, len: u64, purpose: u64) -> Self {
        match schedule {
            Schedule::Ascending | Schedule::RoundRobin => Self::Forward,
            Schedule::Reversed => Self::Backward { last: len - 1 },
            Schedule::Random(_) | Schedule::Adversarial(_) => {
                let mut draws = Draws::new(schedule, purpose);
                let bits = u64::BITS - (len - 1).leading_zeros();
                let keys = std::array::from_fn(|_| draws.next());
                Self::Shuffled { len, half_bits: bits.div_ceil(2).max(1), keys }
            }
        }
    }

    /// The number at a place of the sequence.
    pub(super) fn at(&self, index: u64) -> u64 {
        match *self {
            Self::Forward => index,
            Self::Backward { last } => last - index,
            Self::Shuffled { len, half_bits, keys } => {
                // A Feistel network turns the numbers of so many bits into each other; those beyond the end are turned again,
                // which comes back below it in the end. A grid may have more blocks than a list of them has room.
                let low = (1_u64 << half_bits) - 1;
                let mut number = index;
                loop {
                    let (mut left, mut right) = (number >> half_bits, number & low);
                    for key in keys {
                        (left, right) = (right, left ^ (mix(right ^ key) & low));
                    }
                    number = left << half_bits | right;
                    if number < len {
                        return number;
                    }
                }
            }
        }
    }
}

/// Which of the threads of some blocks goes on. A thread's number counts through these blocks.
pub(super) struct Turns {
    schedule: Schedule,
    threads: u32, // Of each block.
    live: usize,
    draws: Draws,
    warps: Warps,   // Under `Random`: the threads that can go on.
    ranked: Ranked, // Under the others: the same.
    last: usize,    // Under `RoundRobin`: the rank that ran last, plus 1.
    woken: usize,   // Under `Adversarial`: since ranks were drawn.
    redraws: bool,
}

impl Turns {
    pub(super) fn new(schedule: Schedule, threads: u32) -> Self {
        Self {
            schedule,
            threads,
            live: 0,
            draws: Draws::new(schedule, 0),
            warps: Warps::default(),
            ranked: Ranked::default(),
            last: 0,
            woken: 0,
            redraws: false,
        }
    }

    /// Turns to so many new blocks, all of whose threads can start; `purpose` tells them from others of the launch.
    pub(super) fn start(&mut self, blocks: usize, purpose: u64) {
        let all = blocks * self.threads as usize;
        self.live = all;
        self.last = 0;
        match self.schedule {
            Schedule::Random(_) => {
                self.draws = Draws::new(self.schedule, purpose);
                self.warps.start(blocks as u32, self.threads, &mut self.draws);
            }
            Schedule::Ascending | Schedule::RoundRobin => self.ranked.start(0..all as u32),
            Schedule::Reversed => self.ranked.start((0..all as u32).rev()),
            Schedule::Adversarial(_) => {
                self.draws = Draws::new(self.schedule, purpose);
                self.redraws = self.draws.flip();
                let ranks = self.draw_ranks(all);
                self.ranked.start(ranks);
            }
        }
    }

    /// Notes that a thread can go on.
    pub(super) fn add(&mut self, thread: u32) {
        match self.schedule {
            Schedule::Random(_) => self.warps.add(thread),
            _ => self.ranked.add(thread),
        }
        self.woken += 1;
    }

    /// Notes that a thread has ended.
    pub(super) fn end(&mut self) {
        self.live -= 1;
    }

    /// Notes that a block has ended before its threads have, so many of which had not ended.
    pub(super) fn end_block(&mut self, block: usize, live: usize) {
        self.live -= live;
        let of_block = block as u32 * self.threads..(block as u32 + 1) * self.threads;
        match self.schedule {
            Schedule::Random(_) => of_block.for_each(|thread| self.warps.remove(thread)),
            _ => of_block.for_each(|thread| self.ranked.remove(thread)),
        }
    }

    /// The thread that goes on, until it is added again; `None` when none can.
    pub(super) fn next(&mut self) -> Option<u32> {
        match self.schedule {
            Schedule::Random(_) => return self.warps.take(&mut self.draws),
            Schedule::Ascending | Schedule::Reversed => {}
            Schedule::RoundRobin => {
                let rank = self.ranked.first_from(self.last).or_else(|| self.ranked.first_from(0))?;
                self.last = rank + 1;
                return Some(self.ranked.take(rank));
            }
            Schedule::Adversarial(_) => {
                // All threads leave a barrier: a chance to send another one ahead.
                if self.redraws && self.live > 1 && self.woken >= self.live && self.ranked.count == self.live {
                    let ranks = self.draw_ranks(self.ranked.thread_at.len());
                    self.ranked.rank_anew(ranks);
                }
            }
        }
        let rank = self.ranked.first_from(0)?;
        Some(self.ranked.take(rank))
    }

    /// Threads in the order in which they go on wherever they can: first the one that runs ahead, then those of its warp, without
    /// which it would have to wait at warp operations; at the end the warp of the one that is delayed, and that one last. The
    /// other warps are between them, one after another.
    fn draw_ranks(&mut self, threads: usize) -> Vec<u32> {
        self.woken = 0;
        let per_block = self.threads;
        let ahead = self.draws.below(threads) as u32;
        let delayed = (ahead as usize + 1 + self.draws.below((threads - 1).max(1))) % threads;
        let delayed = delayed as u32;
        let mut warps: Vec<u32> =
            (0..threads as u32).filter(|thread| (thread % per_block).is_multiple_of(WARP)).collect();
        self.draws.shuffle(&mut warps);
        let in_warp = |first: u32, thread: u32| {
            first / per_block == thread / per_block && first % per_block / WARP == thread % per_block / WARP
        };
        warps.sort_by_key(|&first| {
            if in_warp(first, ahead) {
                0
            } else if in_warp(first, delayed) {
                4
            } else if first / per_block == ahead / per_block {
                1
            } else if first / per_block == delayed / per_block {
                3
            } else {
                2
            }
        });
        let mut order = Vec::with_capacity(threads);
        order.push(ahead);
        for first in warps {
            let lanes = first..first + WARP.min(per_block - first % per_block);
            let start = order.len();
            order.extend(lanes.filter(|&thread| thread != ahead && thread != delayed));
            self.draws.shuffle(&mut order[start..]);
        }
        if delayed != ahead {
            order.push(delayed);
        }
        order
    }
}

/// The threads that can go on, by warp.
///
/// Drawn from all threads alike, those of all warps would come to their meetings at about the same time, and no warp would ever
/// get ahead of another. So warps are drawn, and one that was drawn goes on for a while; how long is drawn for each block.
#[derive(Default)]
struct Warps {
    threads: u32,    // Of each block.
    per_block: u32,  // Warps of each block.
    able: Vec<u32>,  // The lanes of each warp that can go on.
    list: Vec<u32>,  // The warps that have such lanes, in no order.
    place: Vec<u32>, // Where each warp is in the list.
    last: u32,       // The warp that was drawn last.
    odds: usize,     // It is drawn again at odds of this to 1.
}

impl Warps {
    /// All threads can go on.
    fn start(&mut self, blocks: u32, threads: u32, draws: &mut Draws) {
        self.threads = threads;
        self.per_block = threads.div_ceil(WARP);
        self.able.clear();
        self.able.resize((blocks * self.per_block) as usize, 0);
        self.list.clear();
        self.place.resize(self.able.len(), 0);
        self.last = 0;
        self.odds = [0, 15, 127, 1023][draws.below(4)];
        (0..blocks * threads).for_each(|thread| self.add(thread));
    }

    fn warp_and_lane(&self, thread: u32) -> (usize, u32) {
        let (block, thread) = (thread / self.threads, thread % self.threads);
        ((block * self.per_block + thread / WARP) as usize, thread % WARP)
    }

    fn add(&mut self, thread: u32) {
        let (warp, lane) = self.warp_and_lane(thread);
        if self.able[warp] == 0 {
            self.place[warp] = self.list.len() as u32;
            self.list.push(warp as u32);
        }
        self.able[warp] |= 1 << lane;
    }

    fn remove(&mut self, thread: u32) {
        let (warp, lane) = self.warp_and_lane(thread);
        if self.able[warp] == 0 {
            return;
        }
        self.able[warp] &= !(1 << lane);
        if self.able[warp] == 0 {
            let at = self.place[warp] as usize;
            self.list.swap_remove(at);
            if let Some(&moved) = self.list.get(at) {
                self.place[moved as usize] = at as u32;
            }
        }
    }

    /// A thread that can go on, which then is no longer among those that can.
    fn take(&mut self, draws: &mut Draws) -> Option<u32> {
        if self.list.is_empty() {
            return None;
        }
        if self.able[self.last as usize] == 0 || draws.below(self.odds + 1) == 0 {
            self.last = self.list[draws.below(self.list.len())];
        }
        let mut lanes = self.able[self.last as usize];
        for _ in 0..draws.below(lanes.count_ones() as usize) {
            lanes &= lanes - 1;
        }
        let in_block = self.last % self.per_block * WARP + lanes.trailing_zeros();
        let thread = self.last / self.per_block * self.threads + in_block;
        self.remove(thread);
        Some(thread)
    }
}

/// The threads that can go on, by rank.
#[derive(Default)]
struct Ranked {
    thread_at: Vec<u32>,
    rank_of: Vec<u32>,
    words: Vec<u64>, // A bit for each rank whose thread can go on.
    count: usize,
}

impl Ranked {
    /// All threads can go on, and these are their ranks.
    fn start(&mut self, order: impl IntoIterator<Item = u32>) {
        self.thread_at.clear();
        self.thread_at.extend(order);
        self.rank_of.clear();
        self.rank_of.resize(self.thread_at.len(), 0);
        for (rank, &thread) in self.thread_at.iter().enumerate() {
            self.rank_of[thread as usize] = rank as u32;
        }
        self.words.clear();
        self.words.resize(self.thread_at.len().div_ceil(64), 0);
        self.count = 0;
        for rank in 0..self.thread_at.len() {
            self.set(rank);
        }
    }

    /// Those that can go on get these ranks.
    fn rank_anew(&mut self, order: Vec<u32>) {
        let able: Vec<bool> = (0..self.rank_of.len()).map(|thread| self.has(self.rank_of[thread] as usize)).collect();
        self.start(order);
        for (thread, _) in able.iter().enumerate().filter(|(_, able)| !**able) {
            self.remove(thread as u32);
        }
    }

    fn add(&mut self, thread: u32) {
        self.set(self.rank_of[thread as usize] as usize);
    }

    fn remove(&mut self, thread: u32) {
        let rank = self.rank_of[thread as usize] as usize;
        if self.has(rank) {
            self.take(rank);
        }
    }

    fn has(&self, rank: usize) -> bool {
        self.words[rank / 64] >> (rank % 64) & 1 != 0
    }

    fn set(&mut self, rank: usize) {
        self.words[rank / 64] |= 1 << (rank % 64);
        self.count += 1;
    }

    /// The thread of a rank that can go on, which then is no longer among those that can.
    fn take(&mut self, rank: usize) -> u32 {
        self.words[rank / 64] &= !(1 << (rank % 64));
        self.count -= 1;
        self.thread_at[rank]
    }

    /// The first rank from this one on whose thread can go on.
    fn first_from(&self, rank: usize) -> Option<usize> {
        let mut mask = u64::MAX << (rank % 64);
        for word in rank / 64..self.words.len() {
            let bits = self.words[word] & mask;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Schedule; 7] = [
        Schedule::Ascending,
        Schedule::RoundRobin,
        Schedule::Reversed,
        Schedule::Random(1),
        Schedule::Random(2),
        Schedule::Adversarial(1),
        Schedule::Adversarial(2),
    ];

    #[test]
    fn a_sequence_has_each_number_once() {
        for schedule in ALL {
            for len in [1_u64, 2, 3, 4, 5, 31, 32, 33, 1000, 4096, 4097] {
                let sequence = Sequence::new(schedule, len, 5);
                let mut seen = vec![false; len as usize];
                for index in 0..len {
                    assert!(!std::mem::replace(&mut seen[sequence.at(index) as usize], true), "{schedule} of {len}");
                }
            }
        }
        // The largest grid there is.
        let len = u64::from(i32::MAX.unsigned_abs()) * 65_535 * 65_535;
        assert!((0..1000).all(|index| Sequence::new(Schedule::Random(3), len, 0).at(index) < len));
    }

    #[test]
    fn sequences_of_a_seed_differ_by_purpose_and_are_the_same_again() {
        let of = |seed, purpose| {
            let sequence = Sequence::new(Schedule::Random(seed), 100, purpose);
            (0..100).map(|index| sequence.at(index)).collect::<Vec<_>>()
        };
        assert_eq!(of(1, 1), of(1, 1));
        assert_ne!(of(1, 1), of(1, 2));
        assert_ne!(of(1, 1), of(2, 1));
        let adversarial = Sequence::new(Schedule::Adversarial(1), 100, 1);
        assert_ne!(of(1, 1), (0..100).map(|index| adversarial.at(index)).collect::<Vec<_>>());
    }

    /// Runs threads that meet at so many barriers, and gives the order in which they ran.
    fn run(schedule: Schedule, threads: u32, blocks: usize, barriers: usize) -> Vec<u32> {
        let mut turns = Turns::new(schedule, threads);
        turns.start(blocks, 9);
        let all = blocks * threads as usize;
        let mut ran = Vec::new();
        for meeting in 0..=barriers {
            for _ in 0..all {
                ran.push(turns.next().expect("some thread has not come"));
                if meeting == barriers {
                    turns.end();
                }
            }
            assert_eq!(turns.next(), None);
            if meeting < barriers {
                (0..all as u32).for_each(|thread| turns.add(thread));
            }
        }
        ran
    }

    #[test]
    fn every_thread_has_its_turn_between_barriers() {
        for schedule in ALL {
            for (threads, blocks) in [(1, 1), (2, 1), (32, 1), (33, 1), (100, 3), (1024, 1)] {
                let ran = run(schedule, threads, blocks, 3);
                for between in ran.chunks(blocks * threads as usize) {
                    let mut sorted = between.to_vec();
                    sorted.sort_unstable();
                    assert_eq!(sorted, (0..blocks as u32 * threads).collect::<Vec<_>>(), "{schedule}");
                }
                assert_eq!(ran, run(schedule, threads, blocks, 3), "{schedule} is not the same again");
            }
        }
    }

    #[test]
    fn the_named_orders_are_what_they_say() {
        assert_eq!(run(Schedule::Ascending, 3, 1, 1), [0, 1, 2, 0, 1, 2]);
        assert_eq!(run(Schedule::Reversed, 3, 1, 1), [2, 1, 0, 2, 1, 0]);
        let mut turns = Turns::new(Schedule::RoundRobin, 4);
        turns.start(1, 0);
        assert_eq!((turns.next(), turns.next()), (Some(0), Some(1)));
        turns.add(0);
        turns.add(1);
        assert_eq!([(); 4].map(|()| turns.next()), [Some(2), Some(3), Some(0), Some(1)]);
    }

    /// A thread that runs ahead goes on before all others, and its warp before other warps; the delayed one is last.
    #[test]
    fn an_adversary_has_one_thread_ahead_with_its_warp_and_delays_one() {
        let mut heads = std::collections::HashSet::new();
        for seed in 0..50 {
            let ran = run(Schedule::Adversarial(seed), 128, 1, 0);
            let (ahead, delayed) = (ran[0], ran[127]);
            let mates = 31 - usize::from(delayed / 32 == ahead / 32);
            assert!(ran[1..=mates].iter().all(|thread| thread / 32 == ahead / 32), "seed {seed}: {ran:?}");
            heads.insert(ahead);
        }
        assert!(heads.len() > 20, "{heads:?}");
    }

    #[test]
    fn an_adversary_changes_its_mind_under_some_seeds_only() {
        let changes = (0..50)
            .filter(|&seed| {
                let ran = run(Schedule::Adversarial(seed), 64, 1, 1);
                ran[..64] != ran[64..]
            })
            .count();
        assert!((10..40).contains(&changes), "{changes}");
    }

    #[test]
    fn a_block_that_ends_early_has_no_more_turns() {
        for schedule in ALL {
            let mut turns = Turns::new(schedule, 2);
            turns.start(2, 0);
            turns.end_block(0, 2);
            let mut rest = [turns.next(), turns.next()];
            rest.sort_unstable();
            assert_eq!((rest, turns.next()), ([Some(2), Some(3)], None), "{schedule}");
        }
    }
}

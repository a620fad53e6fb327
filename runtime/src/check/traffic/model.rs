//! What one request of a warp takes: wavefronts of shared memory, sectors of global memory.
//!
//! # Source
//! CUDA C++ Programming Guide, "Shared Memory" (32 banks of 32-bit words, a word is read for all lanes at once; 64-bit requests
//! go by half warps and 128-bit ones by quarters) and "Device Memory Accesses" (32-byte transactions).

use super::report::Totals;

/// Lanes of a warp.
pub(super) const LANES: usize = 32;

/// Bytes of a sector of global memory: the least that is moved.
pub(super) const SECTOR_BYTES: usize = 32;

/// Banks of shared memory.
pub(super) const BANKS: usize = 32;

/// Bytes that a bank gives at once.
pub(super) const BANK_BYTES: usize = 4;

/// Most bytes that a lane moves with one instruction.
pub(super) const WIDEST: usize = 16;

/// What the lanes of one warp ask for together.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    addresses: [usize; LANES],
    bytes: [u32; LANES],
    global: u32, // The lanes that ask for global memory.
    shared: u32, // Those that ask for shared memory.
}

impl Request {
    pub(super) fn add(&mut self, lane: usize, address: usize, bytes: usize, is_shared: bool) {
        self.addresses[lane] = address;
        self.bytes[lane] = u32::try_from(bytes).unwrap_or(u32::MAX);
        if is_shared {
            self.shared |= 1 << lane;
        } else {
            self.global |= 1 << lane;
        }
    }

    /// The lanes that have asked.
    pub(super) fn lanes(&self) -> u32 {
        self.global | self.shared
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes() == 0
    }

    /// Adds what this takes.
    pub(super) fn count(&self, global: &mut Totals, shared: &mut Totals) {
        self.count_space(self.global, global, sectors);
        self.count_space(self.shared, shared, wavefronts);
    }

    /// Adds what the lanes of a mask take. What is wider than an instruction, or not aligned to its own width, takes several:
    /// each as wide as sizes and addresses of all lanes allow.
    fn count_space(&self, mask: u32, totals: &mut Totals, cost: impl Fn(&[Option<usize>; LANES], usize) -> Cost) {
        let of_mask = |lane: &usize| mask & (1 << lane) != 0;
        let width = (0..LANES)
            .filter(of_mask)
            .map(|lane| 1 << (self.addresses[lane] | self.bytes[lane] as usize | WIDEST).trailing_zeros())
            .min()
            .unwrap_or(WIDEST);
        totals.accesses += u64::from(mask.count_ones());
        let longest = (0..LANES).filter(of_mask).map(|lane| self.bytes[lane] as usize).max().unwrap_or(0);
        for offset in (0..longest).step_by(width) {
            let takes_part = |lane: &usize| of_mask(lane) && offset < self.bytes[*lane] as usize;
            let addresses = std::array::from_fn(|lane| takes_part(&lane).then(|| self.addresses[lane] + offset));
            let Cost { transactions, fewest } = cost(&addresses, width);
            totals.requests += 1;
            totals.transactions += transactions;
            totals.fewest += fewest;
        }
    }
}

/// What an instruction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) transactions: u64,
    /// What the same lanes would take at best.
    pub(super) fewest: u64,
}

/// Sectors that lanes touch, each with `width` bytes at an address that is a multiple of it; at best they lie side by side.
fn sectors(addresses: &[Option<usize>; LANES], width: usize) -> Cost {
    let mut all = [0; LANES];
    let count = distinct(addresses.iter().flatten().copied(), &mut all);
    let fewest = (count * width).div_ceil(SECTOR_BYTES) as u64;
    let touched = all[..count].iter().map(|address| address / SECTOR_BYTES);
    let transactions = distinct(touched, &mut [0; LANES]) as u64;
    Cost { transactions, fewest }
}

/// Turns that the banks take: in each, a bank gives one word, to all who ask for it. At best each group of lanes takes one.
fn wavefronts(addresses: &[Option<usize>; LANES], width: usize) -> Cost {
    // As many lanes at once as all banks together can serve.
    let group = (BANKS * BANK_BYTES / width).min(LANES);
    let mut cost = Cost { transactions: 0, fewest: 0 };
    for lanes in addresses.chunks(group) {
        let words_of = |address: &usize| {
            let first = address / BANK_BYTES;
            first..first + width.div_ceil(BANK_BYTES)
        };
        let mut words = [0; BANKS];
        let count = distinct(lanes.iter().flatten().flat_map(words_of), &mut words);
        let mut of_bank = [0u64; BANKS];
        for word in &words[..count] {
            of_bank[word % BANKS] += 1;
        }
        let turns = of_bank.into_iter().max().unwrap_or(0);
        cost.transactions += turns;
        cost.fewest += u64::from(turns > 0);
    }
    cost
}

/// Writes the values, each once and in order, into `into`, which has room for all of them; returns how many there are.
fn distinct(values: impl Iterator<Item = usize>, into: &mut [usize; LANES]) -> usize {
    let mut count = 0;
    for value in values {
        into[count] = value;
        count += 1;
    }
    let given = &mut into[..count];
    given.sort_unstable();
    let mut kept = 0;
    for at in 0..count {
        if at == 0 || given[at] != given[kept - 1] {
            given[kept] = given[at];
            kept += 1;
        }
    }
    kept
}

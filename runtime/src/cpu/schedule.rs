//! The schedule of a launch: in which order its blocks and threads go on where the hardware is free to choose.

use std::fmt;
use std::str::FromStr;

/// In which order a scheduled launch runs blocks and threads, on one thread of the operating system.
///
/// A GPU promises nothing about the order in which threads run between two meetings, and the CPU executor happens to use an
/// order of its own: a kernel that lacks a barrier may still give the right result there. A schedule chooses another order,
/// and the same one each time. It decides the order of the blocks, and, at each point where a thread starts, waits for others
/// or lets others go on, which thread of the block runs next (of all blocks, where those of a cluster or of a cooperative
/// launch are alive at once). Between two such points a thread runs alone.
///
/// A thread that spins until another thread writes something gets it only if that thread has run before; under orders other
/// than [`Ascending`](Self::Ascending) this holds for blocks that wait for lower blocks too, which no GPU promises either.
///
/// As text a schedule is `ascending`, `round-robin`, `reversed`, `random:SEED` or `adversarial:SEED`; so it is printed, parsed,
/// and named in the variable `WARPSMITH_SCHEDULE`.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
/// use warpsmith::{Schedule, shared_array};
///
/// /// Adds to each value the one before it in its block, and lacks the barrier between writing and reading.
/// #[kernel]
/// fn add_pairs(input: &[u32], mut output: GridSliceMut<u32>) {
///     let i = global_idx();
///     let t = thread_idx().x as usize;
///     let mut tile = shared_array!([u32; 64]);
///     tile.put(input[i.get()]);
///     let tile = tile.without_sync();
///     if let Some(output) = output.get_mut(&i) {
///         *output = tile.at(t) + if t > 0 { tile.at(t - 1) } else { 0 };
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let add = |schedule| {
///     let stream = Device::cpu_scheduled(schedule).stream()?;
///     let mut output = stream.zeroed::<u32>(64)?;
///     add_pairs::launch(&stream, LaunchConfig::new(1, 64), &stream.filled(1, 64)?, &mut output)?;
///     stream.to_host(&output)
/// };
/// let luck = add(Schedule::Ascending)?;
/// assert_eq!((luck[0], luck[1]), (1, 2));
/// // Under others a thread reads what the one before it has not written yet.
/// assert_ne!(add(Schedule::Reversed)?, luck);
/// assert_ne!(add(Schedule::Random(1))?, luck);
/// assert_ne!(add(Schedule::Adversarial(1))?, luck);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Schedule {
    /// Blocks from the first to the last; of the threads that can go on, the first.
    #[default]
    Ascending,
    /// Blocks from the first to the last; of the threads that can go on, the next one after the thread that ran last.
    RoundRobin,
    /// Blocks from the last to the first; of the threads that can go on, the last.
    Reversed,
    /// Blocks and threads in an order drawn from this seed, anew at each point: a warp, and one of its threads. In some blocks a
    /// warp goes on for a while before another is drawn.
    Random(u64),
    /// In each block one thread, drawn from this seed, runs as far ahead of the others as it can, with its warp's other threads
    /// after it, and one waits until nothing else can go on. In some blocks other threads are drawn at each barrier.
    Adversarial(u64),
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ascending => f.write_str("ascending"),
            Self::RoundRobin => f.write_str("round-robin"),
            Self::Reversed => f.write_str("reversed"),
            Self::Random(seed) => write!(f, "random:{seed}"),
            Self::Adversarial(seed) => write!(f, "adversarial:{seed}"),
        }
    }
}

/// A text that names no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no schedule; it can be `ascending`, `round-robin`, `reversed`, `random:SEED` or `adversarial:SEED`, with a \
     seed from 0 to 2^64 - 1"
)]
pub struct ParseScheduleError {
    text: String,
}

impl FromStr for Schedule {
    type Err = ParseScheduleError;

    fn from_str(text: &str) -> Result<Self, ParseScheduleError> {
        let unknown = || ParseScheduleError { text: text.to_owned() };
        let name = text.trim().to_ascii_lowercase();
        match name.as_str() {
            "ascending" => return Ok(Self::Ascending),
            "round-robin" => return Ok(Self::RoundRobin),
            "reversed" => return Ok(Self::Reversed),
            _ => {}
        }
        let (kind, seed) = name.split_once(':').ok_or_else(unknown)?;
        let seed = seed.parse().map_err(|_| unknown())?;
        match kind {
            "random" => Ok(Self::Random(seed)),
            "adversarial" => Ok(Self::Adversarial(seed)),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_printed() {
        let all = [
            Schedule::Ascending,
            Schedule::RoundRobin,
            Schedule::Reversed,
            Schedule::Random(0),
            Schedule::Random(42),
            Schedule::Adversarial(u64::MAX),
        ];
        for schedule in all {
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        assert_eq!(" Random:7 ".parse(), Ok(Schedule::Random(7)));
    }

    #[test]
    fn other_texts_are_refused_and_shown() {
        for text in
            ["", "random", "random:", "random:x", "random:-1", "random:18446744073709551616", "reversed:1", "x:1"]
        {
            let error = text.parse::<Schedule>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("{text:?} names no schedule; it can be `ascending`")), "{error}");
        }
    }
}

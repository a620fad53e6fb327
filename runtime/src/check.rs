//! The checker: what it knows of a launch's memory and threads while checked code runs, and what it finds.
//!
//! Checked code calls a hook before each access ([`hooks`]). Buffers and shared memory lie in one range of addresses
//! ([`arena`]), for each granule of which the checker knows what may be touched, what was written, and who touched it last
//! ([`shadow`], [`split`]). The executor tells it whose turn it is ([`turns`]) and who has met whom ([`clocks`]). What is found
//! is [`report`]ed. What looks on without judging is told of accesses first ([`observe`]).
//! Where asked, a launch is run again under other schedules, and what it leaves is compared ([`order`]).

mod arena;
mod clocks;
pub(crate) mod code;
mod finding;
mod hooks;
mod launch;
mod map;
mod observe;
mod options;
mod order;
mod report;
mod shadow;
pub(crate) mod site;
mod split;
#[cfg(test)]
mod tests;
mod traffic;
mod turns;
mod watch;

pub(crate) use arena::{Mark, Piece, Purpose};
pub(crate) use clocks::{BlockClocks, run_threads};
pub use finding::{CheckReport, CheckRule, Finding, FindingMemory, FindingSide};
pub(crate) use launch::{Argument, CheckedLaunch, look_at_findings, run};
pub use observe::WatchedWrite;
pub(crate) use observe::{Observers, Watched};
pub use options::CheckOptions;
pub(crate) use report::stuck;
pub use traffic::{LineTraffic, MemoryReport, MemorySpace};
pub use watch::Watch;

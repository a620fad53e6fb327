//! Counts what a checked launch's warps ask of memory: bank conflicts of shared memory, sectors of global memory.
//!
//! A warp's lanes run one after another here, where on a GPU they access memory together. So the accesses of a warp are put
//! together again: the n-th execution of a place by one lane belongs to the n-th by the others. Where lanes part, as with a
//! `continue` that some of them take, this pairs what a GPU would not have run together.

mod html;
mod listing;
mod model;
mod report;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use self::model::{LANES, Request};
pub use self::report::{LineTraffic, MemoryReport, MemorySpace};
use self::report::{Place, Totals};

/// Executions that a lane may be ahead of the others at one place. Those beyond are left out, and counted as such.
const AHEAD_LIMIT: usize = 1 << 14;

/// Requests that may wait for lanes in one block. Beyond that those of the warps and places that were quiet for longest are
/// taken as complete.
const OPEN_LIMIT: usize = 1 << 16;

/// What one launch's warps ask of memory.
#[derive(Debug)]
pub(crate) struct Traffic {
    threads: u32,
    limits: Limits,
    /// By site and kind of access: twice the site's number, and one more for writes.
    sites: Vec<SiteTraffic>,
    /// Those of `sites` that this block reached.
    reached: Vec<usize>,
    /// Requests that wait for lanes.
    open: usize,
    /// Counts records, so that streams know when they were used last.
    now: u64,
}

/// How far lanes may run ahead.
#[derive(Clone, Copy, Debug)]
struct Limits {
    ahead: usize,
    open: usize,
}

/// A site's counts, and the requests that its warps have begun in this block.
#[derive(Debug, Default)]
struct SiteTraffic {
    counts: Counts,
    /// One for each warp, from the block's first access on.
    warps: Vec<Stream>,
    is_reached: bool,
}

/// What a site's requests took.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    global: Totals,
    shared: Totals,
}

/// One warp's requests at one site, in order.
#[derive(Debug, Default)]
struct Stream {
    /// How often each lane has been here.
    executions: [u64; LANES],
    /// Which execution the front of `requests` is.
    first: u64,
    requests: VecDeque<Request>,
    /// Executions below this may have been left out for some lane, so none of them is begun any more.
    lost: u64,
    last_use: u64,
}

impl Traffic {
    /// Counts for a launch with blocks of this many threads.
    pub(crate) fn new(threads: u32) -> Self {
        Self::with_limits(threads, Limits { ahead: AHEAD_LIMIT, open: OPEN_LIMIT })
    }

    fn with_limits(threads: u32, limits: Limits) -> Self {
        Self { threads, limits, sites: Vec::new(), reached: Vec::new(), open: 0, now: 0 }
    }

    /// Takes one access of a thread of the block that runs.
    #[inline]
    pub(crate) fn record(
        &mut self,
        site: u32,
        thread_in_block: u32,
        address: usize,
        bytes: usize,
        is_shared: bool,
        is_write: bool,
    ) {
        let index = site as usize * 2 + usize::from(is_write);
        if index >= self.sites.len() {
            self.sites.resize_with(index + 1, SiteTraffic::default);
        }
        let warps = self.threads.div_ceil(LANES as u32) as usize;
        let at = &mut self.sites[index];
        if !at.is_reached {
            at.is_reached = true;
            at.warps.resize_with(warps, Stream::default);
            self.reached.push(index);
        }
        self.now += 1;
        let (warp, lane) = ((thread_in_block / LANES as u32) as usize, (thread_in_block % LANES as u32) as usize);
        let stream = &mut at.warps[warp];
        stream.last_use = self.now;
        let execution = stream.executions[lane];
        stream.executions[lane] += 1;
        match stream.begun(execution, self.limits.ahead, &mut self.open) {
            Some(request) => request.add(lane, address, bytes, is_shared),
            None => at.counts.of(is_shared).left_out += 1,
        }
        let all = lanes_of(self.threads, warp);
        while stream.requests.front().is_some_and(|request| request.lanes() == all || request.is_empty()) {
            stream.fold_first(&mut at.counts, &mut self.open);
        }
        if self.open > self.limits.open {
            self.fold_quiet();
        }
    }

    /// Takes the half of the streams that were quiet for longest as complete.
    #[cold]
    fn fold_quiet(&mut self) {
        let waiting = |stream: &&Stream| !stream.requests.is_empty();
        let streams = self.reached.iter().flat_map(|&index| &self.sites[index].warps);
        let mut uses: Vec<u64> = streams.filter(waiting).map(|stream| stream.last_use).collect();
        let middle = uses.len() / 2;
        let (_, &mut newest_quiet, _) = uses.select_nth_unstable(middle);
        for &index in &self.reached {
            let SiteTraffic { counts, warps, .. } = &mut self.sites[index];
            for stream in warps.iter_mut().filter(|stream| stream.last_use <= newest_quiet) {
                stream.fold_all(counts, &mut self.open);
            }
        }
    }

    /// Ends the block: lanes that have not come to a request do not come any more.
    pub(crate) fn end_of_block(&mut self) {
        for index in self.reached.drain(..) {
            let SiteTraffic { counts, warps, is_reached } = &mut self.sites[index];
            *is_reached = false;
            for stream in warps {
                stream.fold_all(counts, &mut self.open);
                stream.executions = [0; LANES];
                (stream.first, stream.lost) = (0, 0);
            }
        }
        debug_assert_eq!(self.open, 0, "every stream was folded");
    }

    /// What was counted, with the kernel's path and the source places of its sites.
    pub(crate) fn finish<'a>(mut self, kernel: &str, place: impl Fn(u32) -> (&'a str, u32)) -> MemoryReport {
        self.end_of_block();
        let mut report = MemoryReport::default();
        for (index, site) in self.sites.iter().enumerate() {
            let (file, line) = match site.counts {
                counts if counts.is_empty() => continue,
                _ => place(u32::try_from(index / 2).expect("sites are numbered with 32 bits")),
            };
            let is_write = index % 2 == 1;
            for (space, totals) in
                [(MemorySpace::Global, site.counts.global), (MemorySpace::Shared, site.counts.shared)]
            {
                report.add(Place { kernel, file, line, space, is_write }, totals);
            }
        }
        report
    }
}

impl Counts {
    fn of(&mut self, is_shared: bool) -> &mut Totals {
        if is_shared { &mut self.shared } else { &mut self.global }
    }

    fn is_empty(self) -> bool {
        self.global.is_empty() && self.shared.is_empty()
    }
}

impl Stream {
    /// The request that this execution belongs to; `None` where it is left out.
    fn begun(&mut self, execution: u64, ahead: usize, open: &mut usize) -> Option<&mut Request> {
        let begun = self.requests.len();
        if execution >= self.first + begun as u64 {
            if execution < self.lost {
                return None;
            }
            if begun == 0 {
                self.first = execution;
            } else if execution - self.first >= ahead as u64 {
                self.lost = execution + 1;
                return None;
            }
            // Executions between the last request and this one were lost; they stay empty.
            let count = (execution - self.first) as usize + 1;
            *open += count - begun;
            self.requests.resize_with(count, Request::default);
            return self.requests.back_mut();
        }
        // One that was taken as complete before all lanes came is gone.
        let at = execution.checked_sub(self.first)?;
        self.requests.get_mut(at as usize).filter(|request| !request.is_empty())
    }

    fn fold_first(&mut self, counts: &mut Counts, open: &mut usize) {
        if let Some(request) = self.requests.pop_front() {
            *open -= 1;
            self.first += 1;
            request.count(&mut counts.global, &mut counts.shared);
        }
    }

    fn fold_all(&mut self, counts: &mut Counts, open: &mut usize) {
        while !self.requests.is_empty() {
            self.fold_first(counts, open);
        }
    }
}

/// The lanes of a warp that a block of so many threads has.
fn lanes_of(threads: u32, warp: usize) -> u32 {
    match threads - warp as u32 * LANES as u32 {
        rest @ 0..32 => (1 << rest) - 1,
        _ => u32::MAX,
    }
}

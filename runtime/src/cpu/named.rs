//! The named barriers of a block: who has come, and how many are to come.

use warpsmith_device::host::{Place, WARP_SIZE};

/// Barriers that a block has, the block's own at 0 included.
const COUNT: usize = 16;

/// All named barriers of a block.
#[derive(Default)]
pub(super) struct NamedBarriers([Meeting; COUNT]);

/// One barrier's meeting, from its first thread to its last.
#[derive(Clone, Copy, Default)]
struct Meeting {
    come: u32,
    /// Who came first, where, and how many it counts to.
    first: Option<(u32, Place, u32)>,
}

/// What came of an arrival.
pub(super) enum Arrival {
    /// More are to come.
    Counted,
    /// All have come, and the barrier starts again.
    Complete,
    /// The first to come, at this place, counts to another number.
    Disagrees(u32, Place, u32),
    /// So many have come, which is more than the barrier waits for.
    TooMany(u32),
}

impl NamedBarriers {
    /// Turns to a new block: no thread has come anywhere.
    pub(super) fn next_block(&mut self) {
        self.0 = Default::default();
    }

    /// Counts a thread in as one of `threads`. Lanes that its warp does not have come with its first.
    pub(super) fn arrive(&mut self, thread: u32, place: Place, id: u32, threads: u32, block_threads: u32) -> Arrival {
        let meeting = &mut self.0[id as usize];
        let (first, first_place, expected) = *meeting.first.get_or_insert((thread, place, threads));
        if expected != threads {
            return Arrival::Disagrees(first, first_place, expected);
        }
        let missing =
            if thread.is_multiple_of(WARP_SIZE) { WARP_SIZE - (block_threads - thread).min(WARP_SIZE) } else { 0 };
        meeting.come += 1 + missing;
        if meeting.come > threads {
            return Arrival::TooMany(meeting.come);
        }
        if meeting.come < threads {
            return Arrival::Counted;
        }
        *meeting = Meeting::default();
        Arrival::Complete
    }

    /// How many have come to a barrier where some wait, and how many are to.
    pub(super) fn progress(&self, id: u32) -> (u32, u32) {
        let meeting = &self.0[id as usize];
        (meeting.come, meeting.first.map_or(0, |(.., expected)| expected))
    }
}

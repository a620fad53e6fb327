//! What a kernel's thread asks of its block, as the device crate has it.

use super::*;

/// The values of a warp of which one lane alone is there.
fn alone(lane: u32, value: u128) -> Gathered {
    let mut values = [0; WARP_SIZE as usize];
    values[lane as usize] = value;
    Gathered { members: 1 << lane, values }
}

impl host::Block for Meeting {
    fn next_block(&self, number: u64) {
        self.shared.borrow_mut().next_block();
        if let Some(clocks) = &self.clocks {
            clocks.next_block(number);
        }
        if !self.coroutines {
            return;
        }
        self.aborting.set(false);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.next = 0;
        state.live = self.threads;
        state.barrier = Barrier::default();
        state.woken = Woken { next: self.threads, last_to_come: None };
        state.at_team = 0;
        state.rounds = 0;
        state.named.next_block();
        state.ready.clear();
        state.threads.clear();
        state.threads.resize(self.threads as usize, Thread::default());
        if state.warps.is_empty() {
            let lanes = |warp: u32| (self.threads - warp * WARP_SIZE).min(WARP_SIZE);
            state.warps.extend((0..self.threads.div_ceil(WARP_SIZE)).map(|warp| Warp::new(lanes(warp))));
        }
        state.warps.iter_mut().for_each(Warp::next_block);
        state.failure = None;
        self.failed.set(false);
    }

    fn can_wait(&self) -> bool {
        self.coroutines || self.is_alone()
    }

    fn sync_threads(&self, thread: u32, place: Place, predicate: bool) -> Met<BarrierVotes> {
        if self.is_alone() {
            return Met::Now(BarrierVotes { count: u32::from(predicate), total: 1 });
        }
        if !self.coroutines {
            return Met::Never;
        }
        let goes_on = self.come(thread, |meeting, state| {
            state.threads[thread as usize].wait = Wait::Barrier(place);
            let barrier = &mut state.barrier;
            barrier.elsewhere |= !std::ptr::eq(*barrier.first.get_or_insert(place), place);
            barrier.come += 1;
            barrier.votes += u32::from(predicate);
            if barrier.come == state.live {
                meeting.release_barrier(state);
            }
        });
        if goes_on { Met::Now(self.barrier_votes(thread)) } else { Met::Later }
    }

    fn barrier_votes(&self, _: u32) -> BarrierVotes {
        self.state.borrow().barrier.over
    }

    fn warp(&self, thread: u32, place: Place, mask: u32, operation: WarpOperation, value: u128) -> Met<Option<u128>> {
        let lane = thread % WARP_SIZE;
        if self.is_alone() {
            let Gathered { members, values } = alone(lane, value);
            let result = operation.result(lane, members, &values);
            // While the thread unwinds, another report would end the process.
            return Met::Now(if std::thread::panicking() { result.or(Some(value)) } else { result });
        }
        if !self.coroutines {
            return Met::Never;
        }
        match self.come_to_lanes(thread, place, mask, operation, value) {
            true => Met::Now(self.warp_result(thread)),
            false => Met::Later,
        }
    }

    fn warp_result(&self, thread: u32) -> Option<u128> {
        let state = self.state.borrow();
        let reads_outside = state.warps[(thread / WARP_SIZE) as usize].reads_outside;
        (reads_outside & (1 << (thread % WARP_SIZE)) == 0).then(|| state.lane(thread).result)
    }

    fn warp_gather(&self, thread: u32, place: Place, mask: u32, name: &'static str, value: u128) -> Met<Gathered> {
        if self.is_alone() {
            return Met::Now(alone(thread % WARP_SIZE, value));
        }
        if !self.coroutines {
            return Met::Never;
        }
        match self.come_to_lanes(thread, place, mask, WarpOperation::Gather(name), value) {
            true => Met::Now(self.gathered(thread)),
            false => Met::Later,
        }
    }

    fn gathered(&self, thread: u32) -> Gathered {
        let mut state = self.state.borrow_mut();
        let warp = &mut state.warps[(thread / WARP_SIZE) as usize];
        let gathered = warp.gathered[(thread % WARP_SIZE) as usize].take();
        *gathered.expect("lanes that met to gather were woken with what they brought")
    }

    fn suspend(&self) {
        suspend_current();
    }

    fn activemask(&self, thread: u32, place: Place) -> u32 {
        if self.is_alone() {
            return 1 << (thread % WARP_SIZE);
        }
        self.wait(thread, |_, state| state.threads[thread as usize].wait = Wait::Activemask(place));
        self.state.borrow().lane(thread).result as u32
    }

    fn named_barrier(&self, thread: u32, place: Place, id: u32, threads: u32, waits: bool) {
        // A thread that panicked has left the block; one that is its block completes the barrier, as its warp does.
        if self.is_alone() {
            return;
        }
        self.wait(thread, |meeting, state| meeting.come_to_named(state, thread, place, id, threads, waits));
    }

    fn wait_at(&self, thread: u32, place: Place, address: usize) -> bool {
        // A thread that panicked has left the block.
        if std::thread::panicking() {
            return true;
        }
        if !self.coroutines {
            return false;
        }
        self.wait(thread, |_, state| state.threads[thread as usize].wait = Wait::Address { place, address });
        if let Some(clocks) = &self.clocks {
            clocks.leave_address(thread, address);
        }
        true
    }

    fn test_at(&self, thread: u32, word: *const u64, is_over: &dyn Fn(u64) -> bool) -> bool {
        // SAFETY: the word of an mbarrier, which the device crate keeps alive; one core runs all threads of the block.
        let is_over = is_over(unsafe { word.read() });
        if let Some(clocks) = self.clocks.as_ref().filter(|_| is_over) {
            clocks.leave_address(thread, word.addr());
        }
        is_over
    }

    fn poll_at(&self, thread: u32, place: Place, address: usize) {
        if self.coroutines && !self.is_alone() {
            self.wait(thread, |_, state| state.threads[thread as usize].wait = Wait::Poll { place, address });
        }
    }

    fn arrive_at(&self, word: *mut u64, arrive: fn(u64) -> Arrived) -> u64 {
        // SAFETY: as in `test_at`.
        let before = unsafe { word.read() };
        let after = arrive(before);
        // SAFETY: as in `test_at`.
        unsafe { word.write(after.word) };
        if let Some(clocks) = &self.clocks {
            clocks.arrive_at_address(word.addr(), after.completes);
        }
        if after.completes {
            self.wake_at(word.addr());
        }
        before
    }

    fn can_sync_grid(&self) -> bool {
        self.syncs_grid
    }

    fn sync_grid(&self, thread: u32, place: Place) {
        // Alone in its block, a thread still has other blocks to wait for.
        if std::thread::panicking() {
            return;
        }
        self.wait(thread, |_, state| {
            state.threads[thread as usize].wait = Wait::Team(Team::Grid, place);
            state.at_team += 1;
        });
    }

    fn sync_cluster(&self, thread: u32, place: Place) {
        if self.cluster.get().is_none() {
            if let Met::Later = self.sync_threads(thread, place, false) {
                suspend_current();
            }
        } else if !std::thread::panicking() {
            self.wait(thread, |_, state| {
                state.threads[thread as usize].wait = Wait::Team(Team::Cluster, place);
                state.at_team += 1;
            });
        }
    }

    fn map_shared(&self, own: *mut u8, rank: u32) -> Option<*mut u8> {
        let place = self.shared.borrow().locate(own)?;
        let other = match self.cluster.get() {
            None => return Some(own),
            Some(cluster) => cluster[rank as usize].upgrade().expect("the blocks of a cluster are kept together"),
        };
        let mapped = other.shared.borrow_mut().at(place, other.shared_bytes);
        Some(mapped)
    }

    fn shared(&self, key: SharedKey, size: usize, align: usize) -> *mut u8 {
        self.shared.borrow_mut().get(key, size, align)
    }

    fn dynamic_shared(&self) -> (*mut u8, usize) {
        (self.shared.borrow_mut().dynamic(self.shared_bytes), self.shared_bytes)
    }
}

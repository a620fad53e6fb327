//! The thread that wakes futures: it asks the driver about their events, seldom when they take long.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::SharedEvent;
use crate::error::DriverError;

/// Between two rounds of questions at first; each round without an answer makes it a quarter longer.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// A stream's id and a number on it; see [`super::Mark`].
type Key = (u64, u64);

struct Entry {
    event: SharedEvent,
    slot: Arc<Mutex<Slot>>,
}

struct Slot {
    outcome: Option<Result<(), DriverError>>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Key, Entry>,
    /// Numbers for events that are in no order.
    next: u64,
    is_running: bool,
}

static STATE: Mutex<State> = Mutex::new(State { entries: BTreeMap::new(), next: 0, is_running: false });
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn slot_of(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A future's place with the watcher; dropped, it is no longer watched.
pub(super) struct Ticket {
    key: Key,
    slot: Arc<Mutex<Slot>>,
}

impl Ticket {
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Result<(), DriverError>> {
        let slot = slot_of(&self.slot);
        if let Some(outcome) = &slot.outcome {
            return Poll::Ready(outcome.clone());
        }
        // Cloning and dropping a waker is the executor's code, which must not find the lock held.
        let known = slot.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if known {
            return Poll::Pending;
        }
        drop(slot);
        let waker = context.waker().clone();
        let mut slot = slot_of(&self.slot);
        if let Some(outcome) = &slot.outcome {
            return Poll::Ready(outcome.clone());
        }
        let old = slot.waker.replace(waker);
        drop(slot);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let removed = state().entries.remove(&self.key);
        drop(removed);
    }
}

/// Has the waker woken when the event is passed or failed.
pub(super) fn watch(event: &SharedEvent, place: Key, waker: &Waker) -> std::io::Result<Ticket> {
    let slot = Arc::new(Mutex::new(Slot { outcome: None, waker: Some(waker.clone()) }));
    let entry = Entry { event: event.clone(), slot: Arc::clone(&slot) };
    let mut state = state();
    if !state.is_running {
        std::thread::Builder::new().name("warpsmith-watch".to_owned()).spawn(run)?;
        state.is_running = true;
    }
    let key = match place {
        (0, _) => {
            state.next += 1;
            (0, state.next)
        }
        place => place,
    };
    state.entries.insert(key, entry);
    drop(state);
    CHANGED.notify_one();
    Ok(Ticket { key, slot })
}

impl State {
    /// The events to ask about: of each stream the first, as no later one is passed before it.
    fn heads(&self) -> Vec<(Key, SharedEvent)> {
        let mut heads = Vec::new();
        let mut from = (0, 0);
        while let Some((&key, entry)) = self.entries.range(from..).next() {
            heads.push((key, entry.event.clone()));
            from = if key.0 == 0 { (0, key.1 + 1) } else { (key.0 + 1, 0) };
        }
        heads
    }
}

fn run() {
    let mut pause = SHORTEST_PAUSE;
    let mut may_ask = false;
    loop {
        let mut held = state();
        while held.entries.is_empty() {
            held = CHANGED.wait(held).unwrap_or_else(PoisonError::into_inner);
            pause = SHORTEST_PAUSE;
        }
        let heads = held.heads();
        drop(held);
        if !may_ask && let Some((_, event)) = heads.first() {
            // Questions of this thread must not end the capture of a graph that another one makes.
            may_ask = event.gpu().relax_capture_of_thread().is_ok();
        }
        let answers: Vec<_> = heads.into_iter().filter_map(|(key, event)| Some((key, outcome(&event)?))).collect();
        let mut held = state();
        let known = |(key, outcome): (Key, _)| held.entries.remove(&key).map(|entry| (entry, outcome));
        let finished: Vec<(Entry, Result<(), DriverError>)> = answers.into_iter().filter_map(known).collect();
        if finished.is_empty() {
            let (held, waited) = CHANGED.wait_timeout(held, pause).unwrap_or_else(PoisonError::into_inner);
            drop(held);
            pause = if waited.timed_out() { (pause * 5 / 4).min(LONGEST_PAUSE) } else { SHORTEST_PAUSE };
            continue;
        }
        drop(held);
        pause = SHORTEST_PAUSE;
        for (entry, outcome) in finished {
            let waker = {
                let mut slot = slot_of(&entry.slot);
                slot.outcome = Some(outcome);
                slot.waker.take()
            };
            // A waker is the executor's code; if it panics, the others are woken all the same.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.map(Waker::wake)));
        }
    }
}

/// What became of an event; `None` while nothing has.
fn outcome(event: &SharedEvent) -> Option<Result<(), DriverError>> {
    match event.is_done() {
        Ok(false) => None,
        Ok(true) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    }
}

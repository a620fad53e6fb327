//! Runs a piece of work on several cores, the calling thread's among them.
//!
//! The caller starts at once and asks rayon's pool for help. Helpers that come while there is work take part; when the caller
//! finds no more work it closes the door and waits for those inside alone. So a launch that is over before a sleeping thread
//! could wake never waits for it, and one from inside the pool never waits for a free place in it.

use std::any::Any;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

/// Looks at the door before the caller sleeps until the last helper has left: some microseconds, as helpers mostly end within.
const LOOKS: u32 = 2000;

/// The door's bit for being closed; those below count who is inside.
const CLOSED: u32 = 1 << 31;

/// What each core does, which is told its number: the calling thread's is 0.
pub(super) type Work<'a> = dyn Fn(u64) + Sync + 'a;

/// Runs `work` on up to so many cores. Each call takes its share until nothing is left.
pub(super) fn on_cores(cores: u64, work: &Work<'_>) {
    if cores <= 1 {
        return work(0);
    }
    let door = Arc::new(Door { state: AtomicU32::new(0), owner: thread::current(), panic: Mutex::new(None) });
    // SAFETY: only the lifetime changes. Helpers call it while they are inside the door, and before this function ends, in
    // whichever way, the door is closed and all have left.
    let erased: &'static Work<'static> = unsafe { std::mem::transmute::<&Work<'_>, _>(work) };
    for core in 1..cores {
        let door = Arc::clone(&door);
        rayon::spawn(move || door.help(core, erased));
    }
    {
        let _closing = Closing(&door);
        work(0);
    }
    if let Some(payload) = door.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(payload);
    }
}

struct Door {
    state: AtomicU32,
    owner: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>, // A helper's.
}

impl Door {
    fn help(&self, core: u64, work: &Work<'_>) {
        let enter = |state| (state & CLOSED == 0).then_some(state + 1);
        if self.state.try_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return;
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(core))) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
        if self.state.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            self.owner.unpark();
        }
    }
}

/// Closes the door when it is dropped, and waits for those inside.
struct Closing<'a>(&'a Door);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.fetch_or(CLOSED, Ordering::Relaxed);
        let mut looks = 0;
        while state.load(Ordering::Acquire) != CLOSED {
            if looks < LOOKS {
                looks += 1;
                spin_loop();
            } else {
                thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn all_work_is_done_when_it_returns_and_a_helpers_panic_comes_out() {
        for cores in [1, 2, 5] {
            let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
            on_cores(cores, &|core| {
                assert!(core < cores, "{core} of {cores}");
                while next.fetch_add(1, Ordering::Relaxed) < 1000 {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert_eq!(done.into_inner(), 1000, "{cores} cores");
        }
        let caller = thread::current().id();
        let helped = AtomicU32::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            on_cores(2, &|core| {
                assert_eq!(core == 0, thread::current().id() == caller);
                if core != 0 {
                    helped.store(1, Ordering::Relaxed);
                    resume_unwind(Box::new("of a helper"));
                }
                while helped.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
            });
        }));
        assert_eq!(*outcome.unwrap_err().downcast::<&str>().unwrap(), "of a helper");
    }
}

//! Work that divides, spread over the cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does the work for each item on some core, and gives the results in the items' order.
pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            // LLVM recurses deeply on big functions.
            let worker = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    done.lock().expect("no worker panics while it holds the lock").push((index, result));
                }
            });
            worker.expect("the operating system starts a thread");
        }
    });
    let mut done = done.into_inner().expect("no worker panics while it holds the lock");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order() {
        for len in [0, 1, 2, 100] {
            let items: Vec<usize> = (0..len).collect();
            assert_eq!(super::map(&items, |item| item * 3), (0..len).map(|item| item * 3).collect::<Vec<_>>());
        }
    }
}

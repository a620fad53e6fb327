//! What a hook costs. Run with `cargo test --release -p warpsmith --lib check::tests::speed -- --ignored --nocapture`.

use warpsmith_device::{block_idx, shared, sync_threads, thread_idx};

use super::*;

/// Bytes that are walked over.
const BYTES: usize = 64 << 20;
const LEN: usize = BYTES / 4;

/// Nanoseconds that the calling thread has run.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the value it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Prints what an access costs; the fastest of three launches.
fn time(name: &str, accesses: usize, blocks: u32, buffers: &[&Buffer], body: impl Fn() + Sync) {
    let run = |_| {
        let start = processor_time();
        let findings = launch(blocks, 256).find(buffers, &body);
        assert!(findings.is_empty(), "{}", list(&findings));
        processor_time() - start
    };
    let least = (0..3).map(run).fold(f64::INFINITY, f64::min);
    println!("{name:<44} {:6.2} ns per access", least / accesses as f64);
}

#[test]
#[ignore = "a measurement"]
fn accesses_cost_few_nanoseconds() {
    let x = Buffer::new("x", LEN, Mark::Init);
    let blocks = 256_u32;
    let threads = blocks as usize * 256;
    let each = LEN / threads;
    let cheap = std::hint::black_box(0_usize);
    time("nothing (threads alone)", LEN, blocks, &[&x], || {});
    time("not watched", LEN, blocks, &[&x], || {
        let own = [0.0_f32; 4];
        for i in 0..each {
            Slot(own.as_ptr().addr() + (i & 3) * 4 * (cheap + 1)).load();
        }
    });
    time("load, a run of elements for each thread", LEN, blocks, &[&x], || {
        for i in 0..each {
            x.at(global() * each + i).load();
        }
    });
    time("load, a grid's stride", LEN, blocks, &[&x], || {
        for i in 0..each {
            x.at(i * threads + global()).load();
        }
    });
    time("load, 4 KiB apart", LEN, blocks, &[&x], || {
        for i in 0..each {
            let n = global() * each + i;
            x.at(n % 16384 * 1024 + n / 16384).load();
        }
    });
    time("store, a run of elements for each thread", LEN, blocks, &[&x], || {
        for i in 0..each {
            x.at(global() * each + i).store(1.0);
        }
    });
    time("store, a grid's stride", LEN, blocks, &[&x], || {
        for i in 0..each {
            x.at(i * threads + global()).store(1.0);
        }
    });
    time("store, 4 KiB apart", LEN, blocks, &[&x], || {
        for i in 0..each {
            let n = global() * each + i;
            x.at(n % 16384 * 1024 + n / 16384).store(1.0);
        }
    });
    time("load by all, 1024 elements", threads * 256, blocks, &[&x], || {
        for i in 0..256 {
            x.at(i * 4).load();
        }
    });
    time("load and store of one, again and again", 2 * threads * 256, blocks, &[&x], || {
        for _ in 0..256 {
            let value = x.at(global()).load();
            x.at(global()).store(value + 1.0);
        }
    });
    time("shared, store, barrier, 32 loads, barrier", threads * 4 * 33, blocks, &[&x], || {
        let tile = shared!([f32; 256]).addr();
        let i = thread_idx().x as usize;
        for _ in 0..4 {
            Slot(tile + 4 * i).store(1.0);
            sync_threads();
            for k in 0..32 {
                Slot(tile + 4 * ((i + k) % 256)).load();
            }
            sync_threads();
        }
    });
    let bytes = x.address();
    time("load of a byte, a grid's stride", LEN, blocks, &[&x], || {
        for i in 0..each {
            // SAFETY: a checked launch runs, and the byte is of the buffer.
            unsafe {
                __warpsmith_check_load_1(std::ptr::with_exposed_provenance(bytes + i * threads + global()), at::LOAD_1)
            };
        }
    });
    time("store of a byte, a grid's stride", LEN, blocks, &[&x], || {
        for i in 0..each {
            let address = bytes + i * threads + global();
            // SAFETY: as above.
            unsafe { __warpsmith_check_store_1(std::ptr::with_exposed_provenance(address), 1, at::STORE_1) };
        }
    });
    time("relaxed atomic, 256 elements", threads * 16, blocks, &[&x], || {
        for i in 0..16 {
            x.at((global() * 7 + i * 13) % 256).add(1, at::RELAXED_ADD);
        }
    });
    time("releasing atomic, one element a block", threads, blocks, &[&x], || {
        x.at(block_idx().x as usize).add(1, at::ADD);
    });
}

//! The executor against what a grid means, without the launcher: bodies are closures over plain memory.
#![expect(clippy::if_same_then_else, reason = "a call in two branches is two places, which is what is tested")]
#![allow(clippy::manual_is_multiple_of, reason = "the expected values beside it use remainders too")]

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use warpsmith_device::abi::{KernelParam, Scope};
use warpsmith_device::mbarrier::Mbarrier;
use warpsmith_device::view::{GridExtent, RawGridSlice};
use warpsmith_device::*;

use super::{CpuLaunch, CpuPanic, DEFAULT_STACK_BYTES, resident_blocks, run};
use crate::constants::Values;

/// Sizes around a warp and the largest block.
const BLOCK_SIZES: [u32; 9] = [1, 2, 31, 32, 33, 63, 65, 256, 1024];

/// Takes no notice of what threads print.
struct Silent;

impl warpsmith_device::host::Output for Silent {
    fn print(&self, _block: Dim3, _thread: Dim3, _text: std::fmt::Arguments<'_>) {}
}

struct Launch {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    coroutines: bool,
    cooperative: bool,
    cluster: Dim3,
}

fn launch(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Launch {
    Launch {
        grid: grid.into(),
        block: block.into(),
        shared_bytes: 0,
        coroutines: true,
        cooperative: false,
        cluster: 1.into(),
    }
}

impl Launch {
    fn plain(mut self) -> Self {
        self.coroutines = false;
        self
    }

    fn cluster(mut self, dim: impl Into<Dim3>) -> Self {
        self.cluster = dim.into();
        self
    }

    fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    fn shared(mut self, bytes: usize) -> Self {
        self.shared_bytes = bytes;
        self
    }

    fn run(&self, body: impl Fn() + Sync) -> Result<(), CpuPanic> {
        self.run_scoped(|_| body())
    }

    fn run_scoped(&self, body: impl for<'s> Fn(&'s Scope) + Sync) -> Result<(), CpuPanic> {
        run(&CpuLaunch {
            kernel: "test",
            grid_dim: self.grid,
            block_dim: self.block,
            shared_bytes: self.shared_bytes,
            needs_coroutines: self.coroutines,
            cooperative: self.cooperative,
            cluster_dim: self.cluster,
            stack_bytes: DEFAULT_STACK_BYTES,
            output: &Silent,
            constants: &Values::default(),
            body: &body,
        })
    }
}

/// Runs `value` in every thread and gives the results by the thread's number in the grid.
fn collect<T: Clone + Default + Send>(launch: &Launch, value: impl Fn() -> T + Sync) -> Vec<T> {
    let threads = (launch.grid.count() * launch.block.count()) as usize;
    let results: Vec<Mutex<T>> = (0..threads).map(|_| Mutex::default()).collect();
    launch.run(|| *results[global_idx().get()].lock().unwrap() = value()).unwrap();
    results.into_iter().map(|slot| slot.into_inner().unwrap()).collect()
}

/// Binds a vector as a kernel's output.
fn raw<T, M>(values: &mut [T], map: M) -> RawGridSlice<T, M> {
    RawGridSlice { ptr: values.as_mut_ptr(), extent: GridExtent { len: values.len(), map } }
}

/// The view of `raw` for one thread's run.
fn bind<'s, T: abi::DeviceElement, M: OwnershipMap>(
    raw: RawGridSlice<T, M>,
    scope: &'s Scope,
) -> GridSliceMut<'s, T, M> {
    // SAFETY: the tests bind each vector once a thread, in a launch that ends before the vector is used again.
    unsafe { <GridSliceMut<'static, T, M> as KernelParam>::from_raw(raw, scope) }
}

#[test]
fn every_thread_runs_once_in_every_shape() {
    let shapes: [(Dim3, Dim3); 6] = [
        (1.into(), 1.into()),
        (3.into(), 33.into()),
        ((2, 3, 4).into(), (5, 3, 2).into()),
        ((7, 1, 3).into(), (1, 1, 64).into()),
        (1000.into(), 1.into()),
        (2.into(), 1024.into()),
    ];
    for (grid, block) in shapes {
        for coroutines in [false, true] {
            let launch = Launch { coroutines, ..launch(grid, block) };
            let total = (grid.count() * block.count()) as usize;
            let seen: Vec<AtomicU32> = (0..total).map(|_| AtomicU32::new(0)).collect();
            launch
                .run(|| {
                    assert_eq!((grid_dim(), block_dim()), (grid, block));
                    let (b, t) = (block_idx(), thread_idx());
                    let block_number =
                        (u64::from(b.z) * u64::from(grid.y) + u64::from(b.y)) * u64::from(grid.x) + u64::from(b.x);
                    let thread_number = (t.z * block.y + t.y) * block.x + t.x;
                    assert_eq!(lane_id(), thread_number % 32);
                    assert_eq!(warp_id(), thread_number / 32);
                    let index = block_number * block.count() + u64::from(thread_number);
                    assert_eq!(global_idx().get() as u64, index);
                    seen[index as usize].fetch_add(1, Relaxed);
                })
                .unwrap();
            assert!(seen.iter().all(|count| count.load(Relaxed) == 1), "{grid} x {block}");
        }
    }
}

#[test]
fn case_a1_the_global_index_of_a_huge_grid_is_exact() {
    // The whole grid has 22 121 216 blocks of 256 threads: index 5 663 031 295 at the end. Stop at the first block and
    // look at the last by a context of its own.
    use warpsmith_device::host::{Context, LaunchScope};
    let (grid, block) = (Dim3::from(22_121_216), Dim3::from(256));
    let meeting = super::block::Meeting::new(block, 0, false);
    let constants = Values::default();
    let cluster_dim = Dim3::from(1);
    let scope = LaunchScope { grid_dim: grid, block_dim: block, cluster_dim, output: &Silent, constants: &constants };
    let context = Context::new(&meeting, scope);
    context.enter(|| {
        context.set_running(true);
        for (b, t) in [(0, 0), (16_777_216, 0), (16_777_215, 255), (22_121_215, 255)] {
            context.set_block(b);
            context.set_thread(t);
            assert_eq!(global_idx().get() as u64, b * 256 + u64::from(t));
            assert_eq!(u64::from(block_idx().x), b);
        }
    });
}

#[test]
fn case_a1_a_grid_of_22_million_blocks_runs() {
    let sum = AtomicU64::new(0);
    launch(22_121_216, 1)
        .plain()
        .run(|| {
            let index = global_idx().get() as u64;
            if index.is_multiple_of(1 << 20) || index == 22_121_215 {
                sum.fetch_add(index, Relaxed);
            }
        })
        .unwrap();
    assert_eq!(sum.into_inner(), (0..=21).map(|k| k << 20).sum::<u64>() + 22_121_215);
}

#[test]
fn global_indices_in_two_and_three_dimensions_are_unique() {
    for (grid, block) in [((3, 2, 2), (4, 3, 2)), ((1, 1, 5), (2, 2, 2)), ((5, 1, 1), (7, 1, 1))] {
        let launch = launch(grid, block).plain();
        let places = collect(&launch, || (global_idx_2d().x(), global_idx_2d().y()));
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
        assert_eq!(*places.iter().max_by_key(|p| p.0).map(|p| &p.0).unwrap(), (grid.0 * block.0) as usize - 1);
        let places = collect(&launch, || (global_idx_3d().x(), global_idx_3d().y(), global_idx_3d().z()));
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
    }
}

#[test]
fn linear_slices_take_every_length_around_the_grid() {
    for len in [0, 1, 31, 32, 33, 95, 96, 97, 1000] {
        let mut y = vec![0_u32; len];
        let raw = raw(&mut y, Linear);
        launch(3, 32)
            .plain()
            .run_scoped(|scope| {
                let mut y = bind(raw, scope);
                assert_eq!((y.len(), y.is_empty()), (len, len == 0));
                let i = global_idx();
                if let Some(y) = y.get_mut(&i) {
                    *y += i.get() as u32 + 1;
                }
            })
            .unwrap();
        let expected: Vec<u32> = (0..len as u32).map(|i| if i < 96 { i + 1 } else { 0 }).collect();
        assert_eq!(y, expected);
    }
}

#[test]
fn grid_strides_cover_every_element_once() {
    for len in [0, 1, 63, 64, 65, 127, 128, 129, 1000] {
        let mut y = vec![0_u32; len];
        let linear = raw(&mut y, Linear);
        launch((2, 2), 16)
            .plain()
            .run_scoped(|scope| {
                let mut y = bind(linear, scope);
                let expected = grid_stride(len).count();
                assert_eq!(grid_stride(len).len(), expected);
                for i in grid_stride(y.len()) {
                    *y.get_mut(&i).unwrap() += 1;
                }
            })
            .unwrap();
        assert!(y.iter().all(|&count| count == 1));

        let runs = raw(&mut y, Runs::<3>);
        launch((2, 2), 16)
            .plain()
            .run_scoped(|scope| {
                let mut y = bind(runs, scope);
                for run in run_stride::<3>(y.len()) {
                    for element in y.run_mut(&run) {
                        *element += 1;
                    }
                }
            })
            .unwrap();
        assert!(y.iter().all(|&count| count == 2));
    }
}

#[test]
fn runs_end_with_the_slice() {
    for len in [0, 1, 3, 4, 5, 127, 128, 129] {
        let mut y = vec![0_u32; len];
        let raw = raw(&mut y, Runs::<4>);
        launch(1, 32)
            .plain()
            .run_scoped(|scope| {
                let mut y = bind(raw, scope);
                let run = run_idx::<4>();
                let part = y.run_mut(&run).len();
                assert_eq!(part, len.saturating_sub(run.start()).min(4));
                assert_eq!(y.whole_run_mut(&run).is_some(), part == 4);
                for element in run.elements() {
                    if let Some(y) = y.get_mut(&element) {
                        *y += element.get() as u32;
                    }
                }
                assert_eq!(y.get(&run.nth(3)).is_some(), part == 4);
            })
            .unwrap();
        assert!(y.iter().take(128).enumerate().all(|(i, &y)| i as u32 == y));
    }
    let error = launch(1, 1).plain().run(|| _ = run_idx::<4>().nth(4)).unwrap_err();
    assert_eq!(error.message, "element 4 of a run of 4");
    assert!(error.file.ends_with("tests.rs"));
}

#[test]
fn planes_and_volumes_keep_inside_their_shape() {
    let mut image = vec![0_u32; 7 * 5];
    let plane = raw(&mut image, Plane::with_stride(5, 4, 7).unwrap());
    launch((2, 2), (4, 4))
        .plain()
        .run_scoped(|scope| {
            let mut image = bind(plane, scope);
            let i = global_idx_2d();
            if let Some(pixel) = image.get_mut(&i) {
                *pixel += (i.y() * 10 + i.x() + 1) as u32;
            }
        })
        .unwrap();
    for y in 0..5 {
        for x in 0..7 {
            let expected = if x < 5 && y < 4 { y * 10 + x + 1 } else { 0 };
            assert_eq!(image[y * 7 + x], expected as u32);
        }
    }

    let mut cube = vec![0_u32; 3 * 4 * 5];
    let volume = raw(&mut cube, Volume::new(3, 4, 5).unwrap());
    launch((1, 2, 3), (4, 2, 2))
        .plain()
        .run_scoped(|scope| {
            let mut cube = bind(volume, scope);
            let i = global_idx_3d();
            if let Some(cell) = cube.get_mut(&i) {
                *cell += ((i.z() * 4 + i.y()) * 3 + i.x()) as u32;
            }
        })
        .unwrap();
    assert!((0..60).eq(cube));
    assert!(Plane::with_stride(5, 4, 4).is_none());
    assert!(Plane::new(usize::MAX, 2).is_none());
    assert!(Volume::new(1 << 32, 1 << 31, 2).is_none());
}

thread_local! {
    static STASHED: RefCell<Option<GlobalIdx>> = const { RefCell::new(None) };
}

#[test]
fn a_stashed_witness_does_not_work_for_the_next_thread() {
    for coroutines in [false, true] {
        let mut y = [0_u32; 64];
        let raw = raw(&mut y, Linear);
        let used = AtomicU32::new(0);
        let launch = Launch { coroutines, ..launch(1, 64) };
        let error = launch
            .run_scoped(|scope| {
                let mut y = bind(raw, scope);
                let stashed = STASHED.take();
                if let Some(stashed) = stashed {
                    *y.get_mut(&stashed).unwrap() = 1;
                    used.fetch_add(1, Relaxed);
                }
                STASHED.set(Some(global_idx()));
            })
            .unwrap_err();
        STASHED.take();
        assert_eq!(error.message, "an index witness was used outside the run of the thread that made it");
        assert_eq!((error.thread.x, used.into_inner()), (1, 0));
        assert!(error.file.ends_with("tests.rs"), "{error:?}");
    }
}

#[test]
fn a_stashed_witness_does_not_work_in_a_later_launch() {
    let mut y = [0_u32; 1];
    let raw = raw(&mut y, Linear);
    let once = launch(1, 1).plain();
    once.run(|| STASHED.set(Some(global_idx()))).unwrap();
    let error =
        once.run_scoped(|scope| assert!(bind(raw, scope).get_mut(&STASHED.take().unwrap()).is_some())).unwrap_err();
    assert_eq!(error.message, "an index witness was used outside the run of the thread that made it");
}

#[test]
fn positions_are_known_inside_kernels_only() {
    launch(2, 2).plain().run(|| _ = global_idx()).unwrap();
    let outside = catch_unwind(|| thread_idx()).unwrap_err();
    let message = outside.downcast_ref::<String>().unwrap();
    assert_eq!(message, "`thread_idx` was called outside a kernel; only the threads of a launch have it");
}

#[test]
fn a_barrier_separates_writes_from_reads_in_a_loop() {
    for size in BLOCK_SIZES {
        let rotated = collect(&launch(3, size), || {
            let slots = shared!([u32; 1024]).cast::<u32>();
            let t = thread_idx().x;
            let mut value = t;
            for _ in 0..5 {
                // SAFETY: each thread writes its own slot, and barriers part the writes from the reads.
                unsafe { slots.add(t as usize).write(value) };
                sync_threads();
                // SAFETY: as above.
                value = unsafe { slots.add(((t + 1) % size) as usize).read() };
                sync_threads();
            }
            value
        });
        for (i, value) in (0..).zip(rotated) {
            assert_eq!(value, (i % size + 5) % size, "block of {size}");
        }
    }
}

#[test]
fn case_g2_barriers_count_and_vote() {
    for size in BLOCK_SIZES {
        let votes = collect(&launch(2, size), || {
            let t = thread_idx().x;
            (
                sync_threads_count(t % 3 == 0),
                sync_threads_and(t < size),
                sync_threads_and(t != size / 2),
                sync_threads_or(t == size - 1),
                sync_threads_or(t == size),
            )
        });
        assert!(votes.iter().all(|&vote| vote == (size.div_ceil(3), true, false, true, false)), "block of {size}");
    }
}

#[test]
fn threads_that_ended_are_not_waited_for() {
    for size in BLOCK_SIZES {
        let passed = AtomicU32::new(0);
        launch(2, size)
            .run(|| {
                if thread_idx().x % 2 == 1 {
                    return;
                }
                sync_threads();
                assert_eq!(sync_threads_count(true), size.div_ceil(2));
                passed.fetch_add(1, Relaxed);
            })
            .unwrap();
        assert_eq!(passed.into_inner(), 2 * size.div_ceil(2));
    }
}

#[test]
fn case_g5_threads_at_different_barriers_are_reported_with_both_places() {
    let line = line!() + 4;
    let error = launch(1, 64)
        .run(|| {
            if thread_idx().x < 32 {
                sync_threads();
            } else {
                sync_threads();
            }
        })
        .unwrap_err();
    assert_eq!((error.line, error.thread.x), (line, 0), "{error:?}");
    assert!(error.message.starts_with("threads of the block are at different barriers: thread (0, 0, 0) at "));
    assert!(error.message.contains(&format!("tests.rs:{}:", line + 2)), "{error:?}");
}

#[test]
fn threads_that_wait_in_vain_are_reported_and_unwound() {
    struct Count<'a>(&'a AtomicU32);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            // What a destructor calls must not wait again.
            sync_threads();
            self.0.fetch_add(1, Relaxed);
        }
    }
    let dropped = AtomicU32::new(0);
    let error = launch(1, 40)
        .run(|| {
            let _count = Count(&dropped);
            if thread_idx().x == 0 {
                // Lane 1 never comes: it waits at the barrier for lane 0.
                sync_warp(0b11);
            }
            sync_threads();
        })
        .unwrap_err();
    assert!(
        error.message.starts_with("threads of the block wait for each other in vain: thread (0, 0, 0) waits in `sync_warp` for the lanes 0x00000003 at "),
        "{error:?}"
    );
    assert!(error.message.contains("; thread (1, 0, 0) waits at the barrier at "), "{error:?}");
    assert_eq!(dropped.into_inner(), 40);
}

#[test]
fn case_e5_a_panic_in_one_thread_leaves_the_barriers_to_the_others() {
    for size in [32_u32, 33, 256] {
        let passed = AtomicU32::new(0);
        let line = line!() + 5;
        let error = launch(1, (size, 1, 1))
            .run(|| {
                sync_threads();
                if thread_idx().x == 3 {
                    panic!("thread {} has had enough", thread_idx().x);
                }
                for _ in 0..3 {
                    sync_threads();
                }
                let lanes = ballot(FULL_MASK, true);
                let existing = u32::MAX >> (32 - (size - warp_id() * 32).min(32));
                assert_eq!(lanes, if warp_id() == 0 { existing & !(1 << 3) } else { existing });
                passed.fetch_add(1, Relaxed);
            })
            .unwrap_err();
        assert_eq!(error.message, "thread 3 has had enough");
        assert_eq!((error.line, error.thread, error.block), (line, Dim3::new(3, 0, 0), Dim3::new(0, 0, 0)));
        assert!(error.file.ends_with("tests.rs") && error.column > 0);
        assert_eq!(passed.into_inner(), size - 1);
    }
}

#[test]
fn the_first_panic_of_a_block_is_reported_and_the_other_threads_go_on() {
    let ran = AtomicU32::new(0);
    let values = [1, 2, 3];
    let error = launch(1, 100)
        .plain()
        .run(|| {
            ran.fetch_add(1, Relaxed);
            let t = thread_idx().x as usize;
            if t % 10 == 7 {
                std::hint::black_box(values[t]);
            }
        })
        .unwrap_err();
    assert_eq!(error.message, "index out of bounds: the len is 3 but the index is 7");
    assert_eq!((error.thread.x, ran.into_inner()), (7, 100));
}

#[test]
fn a_panic_reports_block_and_thread_in_three_dimensions() {
    for coroutines in [false, true] {
        let launch = Launch { coroutines, ..launch((2, 3, 4), (5, 3, 2)) };
        let error = launch
            .run(|| assert!(block_idx() != Dim3::new(1, 2, 3) || thread_idx() != Dim3::new(4, 1, 1), "there"))
            .unwrap_err();
        assert_eq!((error.block, error.thread), (Dim3::new(1, 2, 3), Dim3::new(4, 1, 1)));
    }
}

#[test]
fn panics_outside_kernels_keep_their_hook() {
    launch(1, 1).plain().run(|| ()).unwrap();
    // The message is what our hook takes inside a kernel; outside it only reaches `catch_unwind`.
    assert!(catch_unwind(|| panic!("outside")).is_err());
    let error = launch(1, 1).plain().run(|| std::panic::panic_any(5_u32)).unwrap_err();
    assert_eq!(error.message, "a panic whose payload is not text");
    assert_eq!(launch(1, 1).plain().run(|| ()), Ok(()));
}

#[test]
fn a_kernel_may_catch_its_own_panic() {
    launch(1, 33)
        .run(|| {
            let caught = catch_unwind(AssertUnwindSafe(|| assert!(thread_idx().x % 2 == 0)));
            sync_threads();
            assert_eq!(caught.is_ok(), thread_idx().x % 2 == 0);
        })
        .unwrap();
}

#[test]
fn a_barrier_in_a_launch_without_barriers_says_so() {
    let error = launch(1, 2).plain().run(sync_threads).unwrap_err();
    assert!(error.message.starts_with("`sync_threads` was reached in a kernel that was launched as one without"));
    launch(4, 1).plain().run(sync_threads).unwrap();
}

/// Whose value lane `lane` should get, as PTX's pseudocode computes it.
fn source(mode: &str, lane: u32, operand: u32, width: u32) -> u32 {
    let clamp = if mode == "up" { 0 } else { 0x1f };
    let segment_mask = 32 - width;
    let max_lane = (lane & segment_mask) | (clamp & !segment_mask);
    let min_lane = lane & segment_mask;
    let operand = operand & 0x1f;
    let (source, valid) = match mode {
        "up" => (lane.wrapping_sub(operand), lane as i32 - operand as i32 >= max_lane as i32),
        "down" => (lane + operand, lane + operand <= max_lane),
        "xor" => (lane ^ operand, lane ^ operand <= max_lane),
        "idx" => (min_lane | (operand & !segment_mask), true),
        _ => unreachable!(),
    };
    if valid { source } else { lane }
}

#[test]
fn case_g1_shuffles_move_values_as_ptx_says() {
    fn check(mode: &str, size: u32, width: u32, operand: u32, shuffle: impl Fn(u32) -> u32 + Sync) {
        let lanes = |thread: u32| (size - thread / 32 * 32).min(32);
        let outside = |thread: &u32| source(mode, *thread % 32, operand, width) >= lanes(*thread);
        let about = format!("{mode} {operand} within {width}, block of {size}");
        if (0..size).any(|thread| outside(&thread)) {
            let error = launch(1, size).run(|| _ = shuffle(thread_idx().x)).unwrap_err();
            assert!(outside(&error.thread.x), "{about}: {error:?}");
            let expected = format!(
                "lane {} reads lane {} with `shfl_{mode}` and the mask 0xffffffff, but its warp is the last of a block of \
                 {size} threads and has {} lanes",
                error.thread.x % 32,
                source(mode, error.thread.x % 32, operand, width),
                lanes(error.thread.x)
            );
            assert_eq!(error.message, expected, "{about}");
            return;
        }
        let results = collect(&launch(1, size), || shuffle(thread_idx().x));
        for (thread, result) in (0..).zip(results) {
            let expected = thread / 32 * 32 + source(mode, thread % 32, operand, width);
            assert_eq!(result, expected, "{about}, thread {thread}");
        }
    }
    for size in [1_u32, 16, 31, 32, 40, 64] {
        for width in [1, 2, 4, 8, 16, 32] {
            for operand in [0, 1, 2, 5, 16, 31, 33] {
                let m = FULL_MASK;
                check("idx", size, width, operand, |own| shfl_idx_within(m, own, operand, width));
                check("up", size, width, operand, |own| {
                    (shfl_up_within(m, i64::from(own) << 33, operand, width) >> 33) as u32
                });
                check("down", size, width, operand, |own| {
                    shfl_down_within(m, [f64::from(own), -1.0], operand, width)[0] as u32
                });
                check("xor", size, width, operand, |own| shfl_xor_within(m, own as f32, operand, width) as u32);
            }
        }
    }
}

#[test]
fn a_shuffle_from_a_lane_that_takes_no_part_names_the_rule() {
    let error = launch(1, 32)
        .run(|| {
            if lane_id() < 4 {
                _ = shfl_down(0xf, 1, 1)
            }
        })
        .unwrap_err();
    assert_eq!(error.thread.x, 3);
    assert_eq!(error.message, "lane 3 reads lane 4 with `shfl_down`, but the mask 0x0000000f leaves lane 4 out");
    assert!(error.file.ends_with("tests.rs"), "{error:?}");
    let error = launch(1, 32)
        .run(|| {
            if lane_id() != 7 {
                _ = shfl_idx(FULL_MASK, 1, 7)
            }
        })
        .unwrap_err();
    let (_, rule) = error.message.split_once(" reads ").expect("a lane reads");
    assert_eq!(rule, "lane 7 with `shfl_idx` and the mask 0xffffffff, but lane 7 has ended and sends nothing");
    let error = launch(1, 32).run(|| _ = broadcast(0xffff_ffff, 1, 32)).unwrap_err();
    assert_eq!(error.message, "lane 32 is not in the mask 0xffffffff to send a value");
    let error = launch(1, 1).run(|| _ = shfl_xor(1, true, 1)).unwrap_err();
    assert!(error.message.starts_with("lane 0 reads lane 1 with `shfl_xor`, but the mask"), "{error:?}");
}

#[test]
fn a_shuffle_in_a_destructor_ends_no_process() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(shfl_xor(FULL_MASK, 5, 1), 5);
        }
    }
    let error = launch(1, 2)
        .run(|| {
            let _late = Late;
            assert!(thread_idx().x == 1, "enough");
            std::mem::forget(_late);
        })
        .unwrap_err();
    assert_eq!(error.message, "enough");
}

#[test]
fn shuffles_carry_every_type() {
    fn check<T: WarpValue + PartialEq + std::fmt::Debug + Send + Sync>(values: [T; 2]) {
        let got = collect(&launch(1, 2), || Some(shfl_xor(0b11, values[thread_idx().x as usize], 1)));
        assert_eq!(got, [Some(values[1]), Some(values[0])]);
    }
    check([i8::MIN, 1]);
    check([u8::MAX, 1]);
    check([i16::MIN, 1]);
    check([u16::MAX, 1]);
    check([i32::MIN, 1]);
    check([u32::MAX, 1]);
    check([i64::MIN, 1]);
    check([u64::MAX, 1]);
    check([isize::MIN, 1]);
    check([usize::MAX, 1]);
    check([f32::MIN_POSITIVE, -0.0]);
    check([f64::INFINITY, 1e-320]);
    check([half::f16::MAX, half::f16::EPSILON]);
    check([half::bf16::MAX, half::bf16::EPSILON]);
    check([u128::MAX - 7, 1 << 100]);
    check([i128::MIN, -1]);
    check([[1_u8, 2, 3], [255, 254, 253]]);
    check([[1_u16; 7], [u16::MAX; 7]]);
    check([[1.5_f32, -0.0, f32::MAX, 3.0], [0.0; 4]]);
    check([[1_u64, 2], [3, u64::MAX]]);
    check([true, false]);
    check(['\u{10ffff}', 'a']);
    check([std::cmp::Ordering::Less, std::cmp::Ordering::Greater]);
    check([std::num::NonZeroU64::MAX, std::num::NonZeroU64::MIN]);
    check([None, Some(u64::MAX)]);
    check([Some('x'), None]);
    check([(true, 7_u8, -3_i64, 'q'), (false, 255, i64::MIN, '\0')]);
    check([Dim3::new(1, 2, 3), Dim3::new(u32::MAX, 0, 9)]);
    check([((), (true, Some(false)), 1.5_f64), ((), (false, None), -0.0)]);
}

#[test]
fn bits_that_are_no_value_panic_or_become_one() {
    assert!(bool::from_lane_bits(u128::MAX) && !bool::from_lane_bits(u128::MAX - 1));
    assert_eq!(std::cmp::Ordering::from_lane_bits(0x7f), std::cmp::Ordering::Greater);
    for bad in [0xd800_u128, 0x11_0000, u128::MAX] {
        assert!(catch_unwind(|| char::from_lane_bits(bad)).is_err());
        assert!(catch_unwind(|| Option::<char>::from_lane_bits(bad << 1 | 1)).is_err());
    }
    assert!(catch_unwind(|| std::num::NonZeroU8::from_lane_bits(0x100)).is_err());
}

/// The tree and the scan of the docs, over the values of the lanes that are there.
fn expected_reduction(values: &[String]) -> (String, Vec<String>) {
    let join = |a: &String, b: &String| format!("({a} {b})");
    let mut tree = values.to_vec();
    while tree.len() > 1 {
        tree = tree.chunks(2).map(|pair| if let [a, b] = pair { join(a, b) } else { pair[0].clone() }).collect();
    }
    let mut scan = values.to_vec();
    for reach in [1, 2, 4, 8, 16] {
        let before = scan.clone();
        for rank in reach..scan.len() {
            scan[rank] = join(&before[rank - reach], &before[rank]);
        }
    }
    (tree.swap_remove(0), scan)
}

#[test]
fn reductions_and_scans_join_in_the_order_of_the_docs() {
    // The texts lie in a table; what moves between lanes are their numbers.
    let table = Mutex::new(Vec::<String>::new());
    let number = |text: String| {
        let mut table = table.lock().unwrap();
        table.push(text);
        table.len() as u32 - 1
    };
    let text = |number: u32| table.lock().unwrap()[number as usize].clone();
    let join = |a: u32, b: u32| {
        let joined = format!("({} {})", text(a), text(b));
        number(joined)
    };
    for (size, mask) in [(32, FULL_MASK), (32, 0x8421_00f1), (21, FULL_MASK), (1, 1), (32, 1 << 31), (19, 0xfff0_fff0)]
    {
        let results = collect(&launch(1, size), || {
            if mask & lanemask_eq() == 0 {
                return None;
            }
            let own = number(lane_id().to_string());
            let first = number("first".to_owned());
            let reduced = text(warp::reduce(mask, own, join));
            let scanned = text(inclusive_scan(mask, own, join));
            Some((reduced, scanned, text(exclusive_scan(mask, first, own, join))))
        });
        let ranks: Vec<u32> = (0..size).filter(|lane| mask & 1 << lane != 0).collect();
        let values: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let (reduced, scanned) = expected_reduction(&values);
        for (rank, lane) in ranks.iter().enumerate() {
            let before = if rank == 0 { "first".to_owned() } else { scanned[rank - 1].clone() };
            let expected = Some((reduced.clone(), scanned[rank].clone(), before));
            assert_eq!(results[*lane as usize], expected, "lane {lane} of {mask:#x} in a block of {size}");
        }
    }
}

#[test]
fn a_group_misses_its_threads_that_have_ended() {
    let error = launch(1, 32)
        .run(|| {
            let tile = this_thread_block().tiled_partition::<8>();
            if lane_id() != 13 {
                _ = tile.reduce_add(1);
            }
        })
        .unwrap_err();
    assert_eq!(
        error.message,
        "`reduce_add` needs all threads of its group, the lanes 0x0000ff00 of the warp, but lane 13 has ended"
    );
    assert!((8..16).contains(&error.thread.x) && error.file.ends_with("tests.rs"), "{error:?}");
    let error = launch(1, 32)
        .run(|| {
            let tile = this_thread_block().tiled_partition::<8>();
            if lane_id() != 13 {
                _ = tile.shfl(1, 5);
            }
        })
        .unwrap_err();
    assert!(error.message.ends_with("but lane 13 has ended and sends nothing"), "{error:?}");
    let error = launch(1, (5, 3)).run(|| _ = this_thread_block().tiled_partition::<16>()).unwrap_err();
    assert_eq!(error.message, "a tile of 16 threads is larger than its block of 15");
}

#[test]
fn one_lane_is_elected_and_lane_masks_split_the_warp() {
    let results = collect(&launch(1, 40), || {
        let lane = lane_id();
        assert_eq!(lanemask_lt() | lanemask_eq() | lanemask_gt(), u32::MAX);
        assert_eq!((lanemask_le(), lanemask_ge()), (lanemask_lt() | 1 << lane, lanemask_gt() | 1 << lane));
        assert_eq!(
            (lanemask_eq(), lanemask_lt().count_ones(), lanemask_gt().count_ones()),
            (1 << lane, lane, 31 - lane)
        );
        if lane < 3 {
            return false;
        }
        elect(FULL_MASK)
    });
    let elected: Vec<usize> = (0..40).filter(|thread| results[*thread]).collect();
    assert_eq!(elected, [3, 35]);
}

#[test]
fn a_warp_reduces_with_shuffles_alone_and_in_groups() {
    let sums = collect(&launch(3, 64), || {
        let (mut warp, mut group) = (thread_idx().x, thread_idx().x);
        for delta in [16, 8, 4, 2, 1] {
            warp += shfl_down(FULL_MASK, warp, delta);
        }
        for bits in [8, 4, 2, 1] {
            group += shfl_xor_within(FULL_MASK, group, bits, 16);
        }
        (shfl_idx(FULL_MASK, warp, 0), group)
    });
    for (t, (warp, group)) in (0..).zip(sums) {
        let t = t % 64;
        let sum_from = |first: u32, count: u32| (first..first + count).sum::<u32>();
        assert_eq!(warp, sum_from(t / 32 * 32, 32));
        assert_eq!(group, sum_from(t / 16 * 16, 16));
    }
}

#[test]
fn case_g6_half_a_warp_meets_alone() {
    let results = collect(&launch(1, 32), || {
        let lane = lane_id();
        if lane < 16 {
            let mut sum = lane;
            for bits in [8, 4, 2, 1] {
                sum += shfl_xor(0xffff, sum, bits);
            }
            sum
        } else {
            ballot(0xffff_0000, lane % 2 == 0)
        }
    });
    assert!(results[..16].iter().all(|&sum| sum == 120));
    assert!(results[16..].iter().all(|&mask| mask == 0x5555_0000));
}

#[test]
fn votes_and_matches_see_the_lanes_that_are_there() {
    for size in [1_u32, 5, 31, 32, 33, 70] {
        let results = collect(&launch(1, size), || {
            let t = thread_idx().x;
            let m = FULL_MASK;
            let votes = (ballot(m, t % 3 == 0), all(m, true), all(m, t % 32 != 0), any(m, t % 32 == 0), any(m, false));
            let matches =
                (match_any(m, t % 4), match_any(m, u64::from(t % 2) << 40), match_all(m, 7_i64), match_all(m, t));
            (votes, matches)
        });
        for (t, (votes, matches)) in (0..).zip(results) {
            let first = t / 32 * 32;
            let members: Vec<u32> = (first..size.min(first + 32)).collect();
            let mask = |test: &dyn Fn(u32) -> bool| {
                members.iter().filter(|&&other| test(other)).fold(0_u32, |mask, other| mask | 1 << (other - first))
            };
            assert_eq!(votes, (mask(&|o| o % 3 == 0), true, false, true, false), "thread {t} of {size}");
            let alone = if members.len() == 1 { 1 } else { 0 };
            let expected = (mask(&|o| o % 4 == t % 4), mask(&|o| o % 2 == t % 2), mask(&|_| true), alone);
            assert_eq!(matches, expected, "thread {t} of {size}");
        }
    }
}

#[test]
fn lanes_that_ended_do_not_hold_up_a_warp() {
    let results = collect(&launch(1, 64), || {
        let lane = lane_id();
        if lane >= 20 {
            return 0;
        }
        let first = ballot(FULL_MASK, true);
        if lane < 7 {
            return first;
        }
        first & ballot(FULL_MASK, true)
    });
    for (t, mask) in results.into_iter().enumerate() {
        let expected = match t % 32 {
            0..7 => 0xf_ffff,
            7..20 => 0xf_ff80,
            _ => 0,
        };
        assert_eq!(mask, expected, "thread {t}");
    }
}

#[test]
fn activemask_gives_the_lanes_of_the_same_branch() {
    let results = collect(&launch(1, 48), || {
        let lane = lane_id();
        let mask = if lane % 2 == 0 { activemask() } else { activemask() };
        // What activemask gives can be used as a mask at once.
        assert_eq!(ballot(mask, true), mask);
        mask
    });
    for (t, mask) in results.into_iter().enumerate() {
        let there = if t < 32 { FULL_MASK } else { 0xffff };
        assert_eq!(mask, there & if t % 2 == 0 { 0x5555_5555 } else { 0xaaaa_aaaa });
    }
}

#[test]
fn misused_masks_are_reported() {
    let error = launch(1, 32).run(|| _ = ballot(0xff, true)).unwrap_err();
    assert_eq!(error.message, "lane 8 calls `vote` with the mask 0x000000ff, in which it is not");
    assert!(error.file.ends_with("tests.rs"));
    let error =
        launch(1, 2).run(|| if thread_idx().x == 0 { _ = ballot(0b11, true) } else { sync_warp(0b11) }).unwrap_err();
    assert!(
        error.message.starts_with("lanes of one mask do different things: thread (0, 0, 0) is in `vote` at "),
        "{error:?}"
    );
    let error = launch(1, 1).run(|| _ = shfl_down_within(1, 1, 1, 12)).unwrap_err();
    assert_eq!(error.message, "a group of 12 lanes");
}

fn shared_of<T>() -> *mut [T; 4] {
    shared!([T; 4])
}

#[inline(never)]
fn shared_in_a_callee() -> *mut u32 {
    shared!(u32)
}

macro_rules! two_shared {
    () => {
        [shared!(u32).addr(), shared!(u32).addr()]
    };
}

#[test]
fn case_f1_shared_allocations_are_distinct_and_common_to_the_block() {
    let results = collect(&launch(4, 33), || {
        let mut parts = vec![
            (shared!([u8; 3]).addr(), 3, 1),
            (shared!([f64; 7]).addr(), 56, 8),
            (shared_in_a_callee().addr(), 4, 4),
            (shared_of::<u32>().addr(), 16, 4),
            (shared_of::<i32>().addr(), 16, 4),
            (shared_of::<u64>().addr(), 32, 8),
        ];
        parts.extend(two_shared!().map(|address| (address, 4, 4)));
        assert_eq!(shared_of::<i32>().addr(), parts[4].0);
        assert_eq!(shared_in_a_callee().addr(), parts[2].0);
        // The same in the whole block.
        let addresses: u64 = parts.iter().map(|part| part.0 as u64).sum();
        assert_eq!(match_all(FULL_MASK, addresses), ballot(FULL_MASK, true));
        parts
    });
    for parts in &results {
        let mut parts = parts.clone();
        parts.sort_unstable();
        assert!(parts.iter().all(|&(address, _, align)| address % align == 0));
        assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{parts:x?}");
    }
}

#[test]
fn case_f5_a_new_block_finds_no_old_contents() {
    let values = collect(&launch(50, 1).shared(4), || {
        let (word, dynamic) = (shared!(u32), dynamic_shared::<u32>());
        // SAFETY: one thread a block; the executor fills the memory, so that reading it early is defined here.
        unsafe {
            let before = (word.read(), dynamic.read());
            word.write(1);
            dynamic.write(2);
            before
        }
    });
    let poison = u32::from_ne_bytes([super::shared::POISON; 4]);
    assert_eq!(values, [(poison, poison); 50]);
}

#[test]
fn dynamic_shared_memory_has_the_size_of_the_launch() {
    for bytes in [0, 4, 1000] {
        let results = collect(&launch(2, 64).shared(bytes), || {
            let dynamic = dynamic_shared::<[u32; 4]>();
            assert_eq!(dynamic_shared_bytes(), bytes);
            if thread_idx().x == 0 {
                for i in 0..bytes {
                    // SAFETY: inside the allocation; the others read after the barrier.
                    unsafe { dynamic.cast::<u8>().add(i).write(i as u8) };
                }
            }
            sync_threads();
            // SAFETY: thread 0 wrote these bytes before the barrier.
            let written = unsafe { std::slice::from_raw_parts(dynamic.cast::<u8>(), bytes) };
            assert!(written.iter().enumerate().all(|(i, &byte)| byte == i as u8));
            dynamic.addr()
        });
        assert!(results.iter().all(|address| address % 16 == 0));
    }
}

#[test]
fn atomics_are_right_across_blocks() {
    let (sum, min, max) = (AtomicF32::new(0.0), AtomicF64::new(5.0), AtomicF32::new(f32::NAN));
    let count = AtomicUsize::new(0);
    launch(64, 32)
        .run(|| {
            let signed = f64::from(thread_idx().x) - 16.0;
            sum.fetch_add(1.0, Relaxed);
            min.fetch_min(signed, Relaxed);
            max.fetch_max(signed as f32 / 4.0, Relaxed);
            count.fetch_add(1, Relaxed);
        })
        .unwrap();
    assert_eq!((sum.load(Relaxed), min.load(Relaxed), max.load(Relaxed)), (2048.0, -16.0, 3.75));
    assert_eq!(count.into_inner(), 2048);
    assert_eq!(min.fetch_max(f64::NAN, Relaxed), -16.0);
    assert_eq!(min.compare_exchange(-16.0, 1.0, Relaxed, Relaxed), Ok(-16.0));
    assert_eq!(min.compare_exchange(-16.0, 2.0, Relaxed, Relaxed), Err(1.0));
    assert_eq!(min.swap(3.0, Relaxed), 1.0);
    assert_eq!(min.fetch_sub(1.0, Relaxed), 3.0);
    assert_eq!(min.load(Relaxed), 2.0);
}

#[test]
fn a_block_may_wait_for_what_lower_blocks_wrote() {
    // A chained scan: every block spins on its predecessor, which has started before it.
    let done = AtomicU32::new(0);
    launch(500, 64)
        .run(|| {
            sync_threads();
            if thread_idx().x == 0 {
                while done.load(Relaxed) != block_idx().x {
                    std::hint::spin_loop();
                }
                done.fetch_add(1, Relaxed);
            }
            sync_threads();
        })
        .unwrap();
    assert_eq!(done.into_inner(), 500);
}

#[test]
fn launches_nest_and_run_from_many_threads() {
    let total = AtomicU32::new(0);
    let inner = |total: &AtomicU32| {
        launch(8, 33)
            .run(|| {
                sync_threads();
                total.fetch_add(u32::from(thread_idx().x == 0), Relaxed);
            })
            .unwrap();
    };
    rayon::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|_| inner(&total));
        }
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| inner(&total));
        }
    });
    // A kernel's thread that launches keeps its own place.
    launch(3, 2)
        .run(|| {
            let own = global_idx().get();
            sync_threads();
            inner(&total);
            sync_threads();
            assert_eq!(global_idx().get(), own);
        })
        .unwrap();
    assert_eq!(total.into_inner(), 8 * (4 + 4 + 6));
}

#[test]
fn deep_stacks_fit_when_asked_for() {
    fn depth(n: u32) -> u32 {
        let frame = std::hint::black_box([n; 256]);
        if n == 0 { 0 } else { depth(n - 1) + u32::from(frame[7] == n) }
    }
    let body = |_: &Scope| {
        sync_threads();
        assert_eq!(depth(1000), 1000);
    };
    run(&CpuLaunch {
        kernel: "deep",
        grid_dim: 2.into(),
        block_dim: 33.into(),
        shared_bytes: 0,
        needs_coroutines: true,
        cooperative: false,
        cluster_dim: 1.into(),
        stack_bytes: 16 << 20,
        output: &Silent,
        constants: &Values::default(),
        body: &body,
    })
    .unwrap();
}

#[test]
fn a_stack_that_cannot_be_had_is_reported() {
    let body = |_: &Scope| sync_threads();
    let error = run(&CpuLaunch {
        kernel: "greedy",
        grid_dim: 1.into(),
        block_dim: 2.into(),
        shared_bytes: 0,
        needs_coroutines: true,
        cooperative: false,
        cluster_dim: 1.into(),
        stack_bytes: 1 << 60,
        output: &Silent,
        constants: &Values::default(),
        body: &body,
    })
    .unwrap_err();
    assert!(error.message.starts_with("no stack of 1152921504606846976 bytes for a thread of `greedy`: "), "{error:?}");
}

#[test]
fn case_g3_the_grid_waits_for_a_neighbour_blocks_write() {
    for (blocks, size) in [(1, 1), (1, 64), (2, 1), (7, 33), (24, 256), (100, 32), (301, 3)] {
        let (first, second): (Vec<AtomicU32>, Vec<AtomicU32>) =
            (0..blocks).map(|_| (AtomicU32::new(0), AtomicU32::new(0))).unzip();
        let rounds = 6;
        let results = collect(&launch(blocks, size).cooperative(), || {
            let (own, next) = (block_idx().x as usize, ((block_idx().x + 1) % blocks) as usize);
            let mut value = own as u32;
            for round in 0..rounds {
                let slots = if round % 2 == 0 { &first } else { &second };
                if thread_idx().x == size - 1 {
                    slots[own].store(value * 3 + round, Relaxed);
                }
                this_grid().sync();
                value = slots[next].load(Relaxed);
                sync_threads();
            }
            value
        });
        let mut expected: Vec<u32> = (0..blocks).collect();
        for round in 0..rounds {
            let written: Vec<u32> = expected.iter().map(|value| value * 3 + round).collect();
            expected = (0..blocks as usize).map(|block| written[(block + 1) % blocks as usize]).collect();
        }
        for (i, value) in results.into_iter().enumerate() {
            assert_eq!(value, expected[i / size as usize], "thread {i} of {blocks} blocks of {size}");
        }
    }
}

#[test]
fn ranks_in_the_grid_count_in_all_dimensions() {
    for (grid, block) in [((3, 2, 2), (4, 3, 2)), ((1, 1, 5), (2, 2, 2)), ((5, 1, 1), (7, 1, 1))] {
        let launch = launch(grid, block).cooperative();
        let ranks = collect(&launch, || {
            let grid = this_grid();
            assert_eq!(
                (grid.num_blocks(), grid.num_threads()),
                (launch.grid.count(), launch.grid.count() * launch.block.count())
            );
            (grid.block_rank(), grid.thread_rank())
        });
        for (i, (block, thread)) in (0..).zip(ranks) {
            assert_eq!((block, thread), (i / launch.block.count(), i));
        }
    }
}

#[test]
fn case_e5_a_panic_before_a_grid_sync_ends_what_waits() {
    for (panicking, size) in [(3, 64), (0, 64), (u32::MAX, 64), (0, 1)] {
        let passed = AtomicU32::new(0);
        let error = launch(40, size)
            .cooperative()
            .run(|| {
                this_grid().sync();
                // Of block 5 the one thread, or all.
                if block_idx().x == 5 && (thread_idx().x == panicking || panicking == u32::MAX) {
                    panic!("gone");
                }
                this_grid().sync();
                passed.fetch_add(1, Relaxed);
            })
            .unwrap_err();
        assert_eq!((error.message.as_str(), error.block), ("gone", Dim3::new(5, 0, 0)));
        assert_eq!(error.thread, Dim3::new(if panicking == u32::MAX { 0 } else { panicking }, 0, 0));
        assert_eq!(passed.into_inner(), 0, "what comes after the barrier needs what was not written");
    }
}

#[test]
fn blocks_that_do_not_come_to_a_grid_sync_are_reported() {
    let line = line!() + 7;
    let error = launch(30, 4)
        .cooperative()
        .run(|| {
            if block_idx().x == 20 {
                return;
            }
            this_grid().sync();
        })
        .unwrap_err();
    assert_eq!((error.line, error.block), (line, Dim3::new(0, 0, 0)));
    assert!(
        error.message.starts_with("block (20, 0, 0) has ended and does not come to the grid sync at "),
        "{error:?}"
    );
    assert!(error.message.ends_with(", where block (0, 0, 0) waits"), "{error:?}");

    let line = line!() + 7;
    let error = launch(30, 4)
        .cooperative()
        .run(|| {
            if block_idx().x == 20 {
                this_grid().sync();
            } else {
                this_grid().sync();
            }
        })
        .unwrap_err();
    assert!(error.message.starts_with("blocks are at different grid syncs: block (0, 0, 0) at "), "{error:?}");
    assert!(error.message.contains(&format!("tests.rs:{line}:")), "{error:?}");
    assert!(
        error.message.contains(&format!("block (20, 0, 0) at runtime/src/cpu/tests.rs:{}:", line - 2)),
        "{error:?}"
    );

    let error = launch(3, 4)
        .cooperative()
        .run(|| if thread_idx().x == 0 { this_grid().sync() } else { sync_threads() })
        .unwrap_err();
    assert!(error.message.contains("thread (0, 0, 0) waits at the grid sync at "), "{error:?}");
    assert!(error.message.contains("thread (1, 0, 0) waits at the barrier at "), "{error:?}");
}

#[test]
fn threads_that_ended_are_not_waited_for_by_the_grid() {
    let passed = AtomicU32::new(0);
    launch(20, 10)
        .cooperative()
        .run(|| {
            if thread_idx().x % 2 == 0 {
                return;
            }
            this_grid().sync();
            passed.fetch_add(1, Relaxed);
        })
        .unwrap();
    assert_eq!(passed.into_inner(), 100);
}

#[test]
fn a_grid_sync_in_an_ordinary_launch_says_so() {
    let error = launch(2, 2).run(|| this_grid().sync()).unwrap_err();
    assert_eq!(error.message, "`Grid::sync` needs a cooperative launch: `LaunchConfig::cooperative()`");
    assert!(error.file.ends_with("tests.rs"));
}

#[test]
fn cooperative_launches_run_beside_each_other() {
    let total = AtomicU32::new(0);
    let body = || {
        for _ in 0..3 {
            this_grid().sync();
            total.fetch_add(1, Relaxed);
        }
    };
    rayon::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|_| launch(9, 5).cooperative().run(body).unwrap());
        }
    });
    assert_eq!(total.into_inner(), 6 * 9 * 5 * 3);
}

#[test]
fn a_cooperative_launch_may_be_as_large_as_it_is_said() {
    let blocks = resident_blocks(1024) as u32;
    assert!((1..1 << 20).contains(&blocks));
    let passed = AtomicU32::new(0);
    // All at once would map more stacks than a system allows by default: they take turns.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let body = || {
                    this_grid().sync();
                    passed.fetch_add(1, Relaxed);
                };
                launch(blocks, 1024).cooperative().run(body).unwrap();
            });
        }
    });
    assert_eq!(passed.into_inner(), 3 * blocks * 1024);
}

#[test]
fn a_block_of_one_thread_completes_a_named_barrier_alone() {
    let results = collect(&launch(3, 1), || {
        NamedBarrier::<1>::sync(32);
        NamedBarrier::<2>::arrive(32);
        7
    });
    assert_eq!(results, [7; 3]);
}

#[test]
fn named_barriers_are_for_some_warps_of_a_block() {
    for size in [64_u32, 96, 128, 100] {
        // The first two warps exchange among themselves, round after round; the next produces for the last.
        let results = collect(&launch(3, size), || {
            let slots = shared!([u32; 128]).cast::<u32>();
            let t = thread_idx().x;
            let mut value = t;
            match warp_id() {
                0 | 1 => {
                    for _ in 0..5 {
                        // SAFETY: each thread writes its own slot, and barriers part the writes from the reads.
                        unsafe { slots.add(t as usize).write(value) };
                        NamedBarrier::<1>::sync(64);
                        // SAFETY: as above.
                        value = unsafe { slots.add((t as usize + 32) % 64).read() } + 1;
                        NamedBarrier::<2>::sync(64);
                    }
                }
                2 if size > 96 => {
                    // SAFETY: as above.
                    unsafe { slots.add(t as usize).write(t) };
                    NamedBarrier::<15>::arrive(64);
                }
                2 => {}
                _ => {
                    NamedBarrier::<15>::sync(64);
                    // SAFETY: the slots were written before their threads came to the barrier.
                    value = (64..96).map(|t| unsafe { slots.add(t).read() }).sum();
                }
            }
            value
        });
        for (i, value) in (0..).zip(results) {
            let t = i % size;
            let expected = match t {
                0..64 => (t + 32) % 64 + 5,
                64..96 => t,
                _ => (64..96).sum(),
            };
            assert_eq!(value, expected, "thread {t} of {size}");
        }
    }
}

#[test]
fn case_g5_threads_that_disagree_at_a_named_barrier_are_reported_with_both_places() {
    let line = line!() + 4;
    let error = launch(1, 96)
        .run(|| {
            if thread_idx().x < 32 {
                NamedBarrier::<3>::sync(64);
            } else {
                NamedBarrier::<3>::sync(96);
            }
        })
        .unwrap_err();
    assert!(error.message.starts_with("threads count differently at named barrier 3: thread (0, 0, 0) to 64 at "));
    assert!(error.message.contains(&format!("tests.rs:{line}:")), "{error:?}");
    assert!(error.message.contains("thread (32, 0, 0) to 96 at "), "{error:?}");
    assert!(error.message.contains(&format!("tests.rs:{}:", line + 2)), "{error:?}");
    assert_eq!((error.line, error.thread.x), (line + 2, 32));

    // Two halves wait at two barriers, each for all.
    let error = launch(1, 64)
        .run(|| if thread_idx().x < 32 { NamedBarrier::<3>::sync(64) } else { sync_threads() })
        .unwrap_err();
    let start = "threads of the block wait for each other in vain: thread (0, 0, 0) waits at named barrier 3 at ";
    assert!(error.message.starts_with(start), "{error:?}");
    assert!(
        error.message.contains(", to which 32 of 64 threads have come; thread (32, 0, 0) waits at the barrier at ")
    );

    let error = launch(1, 40).run(|| NamedBarrier::<1>::sync(96)).unwrap_err();
    assert_eq!(
        error.message,
        "96 threads at named barrier 1: whole warps meet there, so 32 to 64 threads of this block"
    );
    for wrong in [0, 33] {
        let error = launch(1, 40).run(|| NamedBarrier::<1>::arrive(wrong)).unwrap_err();
        assert!(error.message.starts_with(&format!("{wrong} threads at named barrier 1")), "{error:?}");
    }
}

#[test]
fn case_e5_a_panic_before_a_named_barrier_ends_what_waits() {
    let passed = AtomicU32::new(0);
    let error = launch(1, 96)
        .run(|| {
            NamedBarrier::<1>::sync(96);
            assert!(thread_idx().x != 3, "gone");
            if thread_idx().x < 64 {
                NamedBarrier::<1>::sync(64);
            }
            passed.fetch_add(1, Relaxed);
        })
        .unwrap_err();
    assert_eq!((error.message.as_str(), error.thread.x), ("gone", 3));
    assert_eq!(passed.into_inner(), 32, "only those that do not wait go on");
}

#[test]
fn blocks_know_their_place_in_their_cluster() {
    for (grid, cluster) in
        [((6, 4, 2), (2, 2, 1)), ((8, 1, 1), (8, 1, 1)), ((3, 6, 4), (1, 3, 2)), ((5, 1, 1), (1, 1, 1))]
    {
        for cooperative in [false, true] {
            let launch = Launch { cooperative, ..launch(grid, (2, 2)).cluster(cluster) };
            let dim = launch.cluster;
            let places = collect(&launch, || {
                assert_eq!((cluster_dim(), this_cluster().num_blocks()), (dim, dim.count() as u32));
                let (block, cluster) = (block_idx(), cluster_idx());
                assert_eq!((block.x / dim.x, block.y / dim.y, block.z / dim.z), (cluster.x, cluster.y, cluster.z));
                assert_eq!(this_cluster().block_rank(), cluster_rank());
                (cluster.x, cluster.y, cluster.z, cluster_rank())
            });
            let distinct: HashSet<_> = places.iter().collect();
            assert_eq!(distinct.len() as u64, launch.grid.count());
            assert!(places.iter().all(|place| u64::from(place.3) < dim.count()));
        }
    }
}

#[test]
fn blocks_of_a_cluster_exchange_through_each_others_shared_memory() {
    for (blocks, cluster, size) in [(8, 4, 32), (6, 2, 33), (16, 8, 1), (3, 1, 64), (4, 4, 256)] {
        for cooperative in [false, true] {
            let launch = Launch { cooperative, ..launch(blocks, size).cluster(cluster).shared(4 * size as usize) };
            let results = collect(&launch, || {
                let (slot, dynamic) = (shared!(u64).cast::<u32>(), dynamic_shared::<u32>());
                let t = thread_idx().x as usize;
                let mut value = block_idx().x;
                for round in 0..4 {
                    // SAFETY: the first thread writes its block's slot and each thread its own, between two barriers of the
                    // cluster, and all blocks are alive until the last.
                    unsafe {
                        if t == 0 {
                            slot.add(1).write(value + 1);
                        }
                        dynamic.add(t).write(value * 10);
                    }
                    this_cluster().sync();
                    let next = (cluster_rank() + 1) % cluster;
                    // SAFETY: as above.
                    unsafe {
                        let other = this_cluster().map_shared_rank(slot.add(1), next).read();
                        assert_eq!(this_cluster().map_shared_rank(dynamic.add(t), next).read(), (other - 1) * 10);
                        value = other + round;
                    }
                    this_cluster().sync();
                }
                value
            });
            let mut expected: Vec<u32> = (0..blocks).collect();
            for round in 0..4 {
                let before = expected.clone();
                for (block, value) in expected.iter_mut().enumerate() {
                    let (first, rank) = (block as u32 / cluster * cluster, block as u32 % cluster);
                    *value = before[(first + (rank + 1) % cluster) as usize] + 1 + round;
                }
            }
            for (i, value) in results.into_iter().enumerate() {
                assert_eq!(
                    value,
                    expected[i / size as usize],
                    "thread {i} of {blocks} blocks in clusters of {cluster}"
                );
            }
        }
    }
}

#[test]
fn blocks_of_a_cluster_at_different_barriers_are_reported() {
    let line = line!() + 5;
    let error = launch(4, 2)
        .cluster(2)
        .run(|| {
            if block_idx().x == 3 {
                this_cluster().sync();
            } else {
                this_cluster().sync();
            }
        })
        .unwrap_err();
    let start = "blocks of a cluster are at different barriers: block (2, 0, 0) at the cluster sync at ";
    assert!(error.message.starts_with(start), "{error:?}");
    let other = format!("block (3, 0, 0) at the cluster sync at runtime/src/cpu/tests.rs:{line}:");
    assert!(error.message.contains(&other), "{error:?}");
    let error = launch(4, 2)
        .cluster(2)
        .cooperative()
        .run(|| if block_idx().x == 3 { this_cluster().sync() } else { this_grid().sync() })
        .unwrap_err();
    assert!(error.message.contains("block (3, 0, 0) at the cluster sync at "), "{error:?}");
    assert!(error.message.contains("block (2, 0, 0) at the grid sync at "), "{error:?}");
}

#[test]
fn case_e5_blocks_and_threads_that_are_gone_are_not_waited_for_by_a_cluster() {
    for cooperative in [false, true] {
        let passed = AtomicU32::new(0);
        let launch = Launch { cooperative, ..launch(4, 40).cluster(4) };
        let error = launch
            .run(|| {
                this_cluster().sync();
                if block_idx().x == 1 {
                    return;
                }
                assert!(block_idx().x != 2 || thread_idx().x != 3, "gone");
                this_cluster().sync();
                passed.fetch_add(1, Relaxed);
            })
            .unwrap_err();
        assert_eq!((error.message.as_str(), error.block.x, error.thread.x), ("gone", 2, 3));
        assert_eq!(passed.into_inner(), 3 * 40 - 1);
    }
}

#[test]
fn addresses_that_cannot_be_mapped_are_told() {
    let error = launch(2, 1).cluster(2).run(|| _ = this_cluster().map_shared_rank(shared!(u32), 2)).unwrap_err();
    assert_eq!(error.message, "block 2 of a cluster of 2");
    let error =
        launch(2, 1).cluster(2).run(|| _ = this_cluster().map_shared_rank(&raw mut *Box::new(1), 1)).unwrap_err();
    assert!(error.message.ends_with("is not an address of the block's shared memory"), "{error:?}");
    assert!(error.file.ends_with("tests.rs"));
}

/// The block's mbarrier of `count` arrivals, ready for all threads.
fn mbarrier<'a>(count: u32) -> &'a Mbarrier {
    let barrier = shared!(Mbarrier);
    if thread_idx() == Dim3::new(0, 0, 0) {
        // SAFETY: one thread does, before the others come past the barrier.
        unsafe { Mbarrier::init(barrier, count) };
    }
    sync_threads();
    // SAFETY: initialised above, and there as long as the block.
    unsafe { &*barrier }
}

#[test]
fn mbarriers_part_writes_from_reads() {
    for size in BLOCK_SIZES {
        let values = collect(&launch(3, size), || {
            let (barrier, slots) = (mbarrier(size), shared!([[u32; 1024]; 2]).cast::<u32>());
            let t = thread_idx().x as usize;
            let mut value = t as u32;
            for round in 0..6 {
                let half = round % 2 * 1024;
                // SAFETY: each thread writes its own slot; what it overwrites was read before the phase in between.
                unsafe { slots.add(half + t).write(value) };
                let phase = barrier.arrive();
                assert!(size > 1 || barrier.test_wait(phase));
                barrier.wait(phase);
                assert!(barrier.test_wait(phase));
                // SAFETY: written before its thread arrived.
                value = unsafe { slots.add(half + (t + 1) % size as usize).read() } + 1;
            }
            value
        });
        for (i, value) in (0..).zip(values) {
            assert_eq!(value, (i % size + 6) % size + 6, "thread {i} in blocks of {size}");
        }
    }
}

#[test]
fn waits_in_vain_at_an_mbarrier_are_reported() {
    let error = launch(1, 40).run(|| mbarrier(41).wait(mbarrier(41).arrive())).unwrap_err();
    assert!(
        error.message.starts_with(
            "threads of the block wait for each other in vain: thread (0, 0, 0) waits at the mbarrier at "
        ),
        "{error:?}"
    );
    let error = launch(1, 1).run(|| mbarrier(2).wait(mbarrier(2).arrive())).unwrap_err();
    assert!(error.message.starts_with("a thread that is alone in its block waits at an mbarrier"), "{error:?}");
    for count in [0, 1 << 20] {
        let error = launch(1, 2).run(|| _ = mbarrier(count)).unwrap_err();
        assert_eq!(error.message, format!("an mbarrier of {count} arrivals; it counts 1 to 1048575"));
    }
}

#[test]
fn case_e5_a_panic_before_an_mbarrier_ends_what_waits() {
    let passed = AtomicU32::new(0);
    let error = launch(1, 64)
        .run(|| {
            let barrier = mbarrier(64);
            assert!(thread_idx().x != 3, "gone");
            barrier.wait(barrier.arrive());
            passed.fetch_add(1, Relaxed);
        })
        .unwrap_err();
    assert_eq!((error.message.as_str(), error.thread.x, passed.into_inner()), ("gone", 3, 0));
}

#[test]
fn a_witness_stays_stale_after_launches_of_more_threads_than_there_are_stamps() {
    thread_local! {
        static KEPT: RefCell<Option<slot::SlotIdx>> = const { RefCell::new(None) };
    }
    launch(1, 2)
        .run(|| {
            let own = slot_idx();
            if own.get() == 1 {
                KEPT.set(Some(own));
            }
        })
        .unwrap();
    // 2^64 - 1 threads, so that a counter of threads would be back at the one before it. The first ends the launch.
    let error = launch((u32::MAX, 6_700_417, 641), 1).plain().run(|| panic!("enough")).unwrap_err();
    assert_eq!(error.message, "enough");
    let error = launch(1, 1).run(|| {
        KEPT.with_borrow(|kept| {
            shared_array!([u32; 2]).put_at(kept.as_ref().unwrap(), 1);
        })
    });
    let message = error.unwrap_err().message;
    assert_eq!(message, "an index witness was used outside the run of the thread that made it");
}

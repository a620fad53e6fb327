//! The executor against what a grid means, without the launcher: bodies are closures over plain memory.
#![expect(clippy::if_same_then_else, reason = "a call in two branches is two places, which is what is tested")]
#![allow(clippy::manual_is_multiple_of, reason = "the expected values beside it use remainders too")]

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use warpsmith_device::abi::{KernelParam, Scope};
use warpsmith_device::host::{BoundKernel, Context, JoinedThreads, Joins, ThreadPlace};
use warpsmith_device::mbarrier::Mbarrier;
use warpsmith_device::view::{GridExtent, RawGridSlice};
use warpsmith_device::*;

use super::schedule::Schedule;
use super::{CpuLaunch, CpuPanic, DEFAULT_STACK_BYTES, resident_blocks, run};
use crate::constants::Values;

mod faults;
mod lanes;
mod meetings;
mod panics;
mod schedules;

/// Sizes around a warp and the largest block.
const BLOCK_SIZES: [u32; 9] = [1, 2, 31, 32, 33, 63, 65, 256, 1024];

/// Takes no notice of what threads print.
struct Silent;

impl warpsmith_device::host::Output for Silent {
    fn print(&self, _block: Dim3, _thread: Dim3, _text: std::fmt::Arguments<'_>) {}
}

#[derive(Clone, Copy)]
struct Launch {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    coroutines: bool,
    joins: Joins,
    cooperative: bool,
    cluster: Dim3,
    schedule: Option<Schedule>,
    stack_bytes: usize,
}

/// The schedule of tests that name none, from `WARPSMITH_SCHEDULE`, so that they all can be run under it. All hold under `ascending`;
/// under others those do not that name the first thread to fail or wait for lower blocks.
fn usual_schedule() -> Option<Schedule> {
    let value = std::env::var("WARPSMITH_SCHEDULE").ok()?;
    Some(value.parse().unwrap())
}

fn launch(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Launch {
    Launch {
        grid: grid.into(),
        block: block.into(),
        shared_bytes: 0,
        coroutines: true,
        joins: Joins::default(),
        cooperative: false,
        cluster: 1.into(),
        schedule: usual_schedule(),
        stack_bytes: DEFAULT_STACK_BYTES,
    }
}

impl Launch {
    fn plain(mut self) -> Self {
        self.coroutines = false;
        self
    }

    /// As kernels that never wait and ask for nothing by block; `planes` for one of two dimensions.
    fn joined(mut self, planes: bool) -> Self {
        self.coroutines = false;
        self.schedule = None;
        self.joins = Joins { lines: true, planes };
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

    fn under(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    fn stack(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
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
            joins: self.joins,
            cooperative: self.cooperative,
            cluster_dim: self.cluster,
            stack_bytes: self.stack_bytes,
            schedule: self.schedule,
            checked: false,
            output: &Silent,
            constants: &Values::default(),
            body: &|context, first, count| {
                let width = u64::from(self.grid.x) * u64::from(self.block.x);
                let reaches = if self.joins.lines { width } else { 0 };
                if self.joins.planes {
                    // SAFETY: the executor gives threads of the context's block, and sees to the rest.
                    unsafe { context.run_threads(first, count, &Body::<true, _> { reaches, body: &body }) };
                } else {
                    // SAFETY: as above.
                    unsafe { context.run_threads(first, count, &Body::<false, _> { reaches, body: &body }) };
                }
            },
        })
    }
}

/// A kernel whose memory holds the elements of the threads whose places along x are below `reaches`.
struct Body<const IS_PLANE: bool, F> {
    reaches: u64,
    body: F,
}

// SAFETY: so it does of those whose places along x are smaller.
unsafe impl<const IS_PLANE: bool, F: for<'s> Fn(&'s Scope)> BoundKernel for Body<IS_PLANE, F> {
    const IS_PLANE: bool = IS_PLANE;

    fn reaches(&self, place: &ThreadPlace) -> bool {
        place.x < self.reaches
    }

    fn run(&self, scope: &Scope) {
        (self.body)(scope);
    }

    fn run_joined(&self, context: &mut Context<'_>, threads: JoinedThreads) {
        // SAFETY: `run_threads` gives them.
        unsafe { context.run_joined(threads, self) };
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
    let scope = LaunchScope {
        grid_dim: grid,
        block_dim: block,
        cluster_dim,
        output: &Silent,
        constants: &constants,
        joins: Joins::default(),
    };
    let context = Context::new(&meeting, scope);
    context.enter(|| {
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
    assert!(error.file.ends_with(file!()));
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
        assert!(error.file.ends_with(file!()), "{error:?}");
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
    assert!(error.message.contains(&format!("{}:{}:", file!(), line + 2)), "{error:?}");
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
fn a_barrier_in_a_launch_without_barriers_says_so() {
    let error = launch(1, 2).plain().run(sync_threads).unwrap_err();
    assert!(error.message.starts_with("`sync_threads` was reached in a kernel that was launched as one without"));
    launch(4, 1).plain().run(sync_threads).unwrap();
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
    let body = || {
        sync_threads();
        assert_eq!(depth(1000), 1000);
    };
    launch(2, 33).stack(16 << 20).run(body).unwrap();
}

#[test]
fn a_stack_that_cannot_be_had_is_reported() {
    let error = launch(1, 2).stack(1 << 60).run(sync_threads).unwrap_err();
    assert!(error.message.starts_with("no stack of 1152921504606846976 bytes for a thread of `test`: "), "{error:?}");
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

/// Blocks that run as one, threads of which ask for their places in spite of it.
#[test]
fn threads_of_joined_blocks_are_told_their_own_places() {
    for (planes, grid, block) in
        [(false, (37, 3, 2), (48, 1, 1)), (true, (37, 3, 2), (48, 1, 1)), (true, (9, 4, 2), (7, 3, 2))]
    {
        let launch = launch(Dim3::from(grid), Dim3::from(block)).joined(planes);
        let (grid, block) = (launch.grid, launch.block);
        let runs: Vec<AtomicU32> = (0..grid.count() * block.count()).map(|_| AtomicU32::new(0)).collect();
        launch
            .run(|| {
                let (b, t, global) = (block_idx(), thread_idx(), global_idx());
                let number = |at: Dim3, of: Dim3| {
                    (u64::from(at.z) * u64::from(of.y) + u64::from(at.y)) * u64::from(of.x) + u64::from(at.x)
                };
                assert!(b.x < grid.x && t.x < block.x);
                assert_eq!(global.get() as u64, number(b, grid) * block.count() + number(t, block));
                assert_eq!(u64::from(warp_id() * 32 + lane_id()), number(t, block));
                let plane = global_idx_2d();
                assert_eq!(plane.x() as u32, b.x * block.x + t.x);
                runs[global.get()].fetch_add(1, Relaxed);
            })
            .unwrap();
        assert!(runs.iter().all(|runs| runs.load(Relaxed) == 1), "{grid} x {block}: each thread was to run once");
    }
}

#[test]
fn witnesses_are_of_one_thread_also_among_joined_blocks() {
    for (planes, block) in [(false, Dim3::new(8, 1, 1)), (true, Dim3::new(8, 2, 1))] {
        let mut elements = vec![0_u32; 40 * block.count() as usize];
        let raw = RawGridSlice { ptr: elements.as_mut_ptr(), extent: GridExtent { len: elements.len(), map: Linear } };
        thread_local!(static KEPT: RefCell<Option<GlobalIdx>> = const { RefCell::new(None) });
        struct Shared<T>(T);
        // SAFETY: the test's threads reach distinct elements.
        unsafe impl<T> Sync for Shared<T> {}
        let raw = Shared(raw);
        let panic = launch(40, block)
            .joined(planes)
            .run_scoped(|scope| {
                let raw = &raw;
                if let Some(kept) = KEPT.take() {
                    // SAFETY: the slice outlives the launch.
                    let mut slice = unsafe { <GridSliceMut<'static, u32> as KernelParam>::from_raw(raw.0, scope) };
                    let _ = slice.get_mut(&kept);
                }
                KEPT.set(Some(global_idx()));
            })
            .unwrap_err();
        KEPT.set(None);
        assert!(panic.message.contains("outside the run of the thread"), "{}", panic.message);
    }
}

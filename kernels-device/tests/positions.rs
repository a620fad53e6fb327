//! Positions and witnesses against plain arithmetic, for a thread that the test moves about by hand.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use warpsmith_device::abi::Scope;
use warpsmith_device::constant::ConstantDesc;
use warpsmith_device::host::{
    Arrived, BarrierVotes, Block, BoundKernel, ConstantValues, Context, Gathered, JoinedThreads, Joins, LaunchScope,
    Met, Output, Place, SharedKey, ThreadPlace, WarpOperation, outside,
};
use warpsmith_device::*;

/// A block whose threads never meet.
struct Alone;

impl Block for Alone {
    fn next_block(&self, _: u64) {}
    fn can_wait(&self) -> bool {
        false
    }
    fn sync_threads(&self, _: u32, _: Place, _: bool) -> Met<BarrierVotes> {
        Met::Never
    }
    fn barrier_votes(&self, _: u32) -> BarrierVotes {
        unreachable!("it cannot wait")
    }
    fn warp(&self, _: u32, _: Place, _: u32, _: WarpOperation, _: u128) -> Met<Option<u128>> {
        Met::Never
    }
    fn warp_result(&self, _: u32) -> Option<u128> {
        unreachable!("it cannot wait")
    }
    fn warp_gather(&self, _: u32, _: Place, _: u32, _: &'static str, _: u128) -> Met<Gathered> {
        Met::Never
    }
    fn gathered(&self, _: u32) -> Gathered {
        unreachable!("it cannot wait")
    }
    fn suspend(&self) {
        unreachable!("it cannot wait")
    }
    fn activemask(&self, _: u32, _: Place) -> u32 {
        unreachable!("it cannot wait")
    }
    fn named_barrier(&self, _: u32, _: Place, _: u32, _: u32, _: bool) {}

    fn wait_at(&self, _: u32, _: Place, _: usize) -> bool {
        false
    }

    fn arrive_at(&self, _: *mut u64, _: fn(u64) -> Arrived) -> u64 {
        unreachable!("the test has no mbarrier")
    }
    fn test_at(&self, _: u32, _: *const u64, _: &dyn Fn(u64) -> bool) -> bool {
        unreachable!("the test has no mbarrier")
    }

    fn poll_at(&self, _: u32, _: Place, _: usize) {
        unreachable!("nothing waits here")
    }
    fn can_sync_grid(&self) -> bool {
        false
    }

    fn sync_grid(&self, _: u32, _: Place) {}

    fn sync_cluster(&self, _: u32, _: Place) {}

    fn map_shared(&self, own: *mut u8, _: u32) -> Option<*mut u8> {
        Some(own)
    }

    fn shared(&self, _: SharedKey, _: usize, _: usize) -> *mut u8 {
        unreachable!("the test allocates nothing")
    }
    fn dynamic_shared(&self) -> (*mut u8, usize) {
        unreachable!("the test allocates nothing")
    }
}

impl Output for Alone {
    fn print(&self, _: Dim3, _: Dim3, _: std::fmt::Arguments<'_>) {}
}

impl ConstantValues for Alone {
    fn find(&self, _: &ConstantDesc) -> Option<*const u8> {
        None
    }
}

/// Runs `check` as each of the given threads of a launch.
fn as_threads(grid: Dim3, block: Dim3, threads: impl IntoIterator<Item = (u64, u32)>, mut check: impl FnMut(u64, u32)) {
    let cluster_dim = Dim3::new(1, 1, 1);
    let scope = LaunchScope {
        grid_dim: grid,
        block_dim: block,
        cluster_dim,
        output: &Alone,
        constants: &Alone,
        joins: Joins::default(),
    };
    let context = Context::new(&Alone, scope);
    context.enter(|| {
        for (b, t) in threads {
            context.set_block(b);
            context.set_thread(t);
            check(b, t);
        }
    });
}

fn all_threads(grid: Dim3, block: Dim3) -> impl Iterator<Item = (u64, u32)> {
    (0..grid.count()).flat_map(move |b| (0..block.count() as u32).map(move |t| (b, t)))
}

#[test]
fn positions_count_x_fastest_in_every_shape() {
    for (grid, block) in
        [((1, 1, 1), (1, 1, 1)), ((2, 3, 4), (4, 2, 3)), ((5, 1, 2), (33, 1, 1)), ((1, 7, 1), (1, 5, 1))]
    {
        let (grid, block) = (Dim3::from(grid), Dim3::from(block));
        as_threads(grid, block, all_threads(grid, block), |b, t| {
            let number = |at: Dim3, of: Dim3| {
                (u64::from(at.z) * u64::from(of.y) + u64::from(at.y)) * u64::from(of.x) + u64::from(at.x)
            };
            assert_eq!(number(block_idx(), grid), b);
            assert_eq!(number(thread_idx(), block), u64::from(t));
            assert_eq!(global_idx().get() as u64, b * block.count() + u64::from(t));
            assert_eq!((lane_id(), warp_id()), (t % 32, t / 32));
            let at = global_idx_3d();
            assert_eq!(at.x() as u64, u64::from(block_idx().x) * u64::from(block.x) + u64::from(thread_idx().x));
            assert_eq!(at.z() as u64, u64::from(block_idx().z) * u64::from(block.z) + u64::from(thread_idx().z));
        });
    }
}

#[test]
fn case_a1_indices_beyond_32_bits_are_exact() {
    let (grid, block) = (Dim3::new(i32::MAX as u32, 65_535, 2), Dim3::new(16, 8, 8));
    let last = grid.count() - 1;
    as_threads(grid, block, [(0, 0), (1 << 33, 1023), (last, 0), (last, 1023)], |b, t| {
        assert_eq!(global_idx().get() as u64, b * 1024 + u64::from(t));
        assert_eq!(run_idx::<1>().start() as u64, b * 1024 + u64::from(t));
    });
    // A run that lies past every slice has no start, rather than a wrong one.
    as_threads(grid, block, [(last, 0)], |_, _| {
        assert_eq!(run_idx::<{ 1 << 20 }>().start(), usize::MAX);
        assert_eq!(run_idx::<{ 1 << 20 }>().nth(5).get(), usize::MAX);
    });
}

#[test]
fn two_dimensional_places_are_unique_when_there_are_layers() {
    for (grid, block) in [((2, 2, 3), (3, 2, 2)), ((1, 3, 1), (2, 1, 4)), ((4, 1, 4), (1, 1, 1))] {
        let (grid, block) = (Dim3::from(grid), Dim3::from(block));
        let mut seen = HashSet::new();
        as_threads(grid, block, all_threads(grid, block), |_, _| {
            let at = global_idx_2d();
            assert!(seen.insert((at.x(), at.y())), "{at:?} twice in {grid} x {block}");
            if (block_idx().z, thread_idx().z) == (0, 0) {
                assert_eq!(at.y() as u32, block_idx().y * block.y + thread_idx().y);
            }
        });
        assert_eq!(seen.len() as u64, grid.count() * block.count());
    }
}

#[test]
fn strides_share_out_every_length() {
    let (grid, block) = (Dim3::from((2, 2)), Dim3::from(4));
    for len in (0..40).chain([100, 1001]) {
        let (mut elements, mut runs) = (vec![0; len], vec![0; len.div_ceil(3)]);
        as_threads(grid, block, all_threads(grid, block), |b, t| {
            let own = (b * 4 + u64::from(t)) as usize;
            for i in grid_stride(len) {
                assert_eq!(i.get() % 16, own);
                elements[i.get()] += 1;
            }
            for run in run_stride::<3>(len) {
                assert_eq!(run.start() % 3, 0);
                assert_eq!(run.start() / 3 % 16, own);
                runs[run.start() / 3] += 1;
            }
        });
        assert!(elements.iter().chain(&runs).all(|&count| count == 1), "{len} elements");
    }
    // No length makes a stride wrap around.
    as_threads(grid, block, [(3, 3)], |_, _| {
        let last = grid_stride(usize::MAX).len();
        assert_eq!(last, (isize::MAX as usize - 15).div_ceil(16));
    });
}

#[test]
fn contexts_nest() {
    let (outer, inner) = (Dim3::from(8), Dim3::from(2));
    as_threads(outer, outer, [(7, 7)], |_, _| {
        as_threads(inner, inner, [(1, 0)], |_, _| assert_eq!(global_idx().get(), 2));
        assert_eq!(global_idx().get(), 63);
    });
    let outside = std::panic::catch_unwind(block_dim).unwrap_err();
    let message = outside.downcast_ref::<String>().unwrap();
    assert_eq!(message, "`block_dim` was called outside a kernel; only the threads of a launch have it");
}

#[test]
fn strides_in_two_and_three_dimensions_visit_every_place_once() {
    for (grid, block) in
        [((1, 1, 1), (1, 1, 1)), ((2, 3, 1), (4, 2, 1)), ((1, 2, 2), (3, 1, 2)), ((5, 1, 1), (33, 1, 1))]
    {
        let (grid, block) = (Dim3::from(grid), Dim3::from(block));
        for (width, height, depth) in [(0, 3, 2), (3, 0, 1), (1, 1, 1), (8, 6, 4), (9, 7, 5), (40, 2, 1), (200, 3, 0)] {
            let mut plane = vec![0; width * height];
            let mut volume = vec![0; width * height * depth];
            as_threads(grid, block, all_threads(grid, block), |_, _| {
                let own = global_idx_2d();
                let mut last = None;
                for i in grid_stride_2d(width, height) {
                    assert_eq!(i.x() % (grid.x * block.x) as usize, own.x());
                    // Row by row.
                    assert!(last < Some((i.y(), i.x())));
                    last = Some((i.y(), i.x()));
                    plane[i.y() * width + i.x()] += 1;
                }
                let mut last = None;
                for i in grid_stride_3d(width, height, depth) {
                    assert!(last < Some((i.z(), i.y(), i.x())));
                    last = Some((i.z(), i.y(), i.x()));
                    volume[(i.z() * height + i.y()) * width + i.x()] += 1;
                }
            });
            assert!(plane.iter().chain(&volume).all(|count| *count == 1), "{grid} x {block} over {width} x {height}");
        }
    }
    // Lengths that no memory has end too.
    let (grid, block) = (Dim3::new(i32::MAX as u32, 65_535, 65_535), Dim3::new(1024, 1, 1));
    as_threads(grid, block, [(0, 5)], |_, _| {
        assert_eq!(grid_stride_2d(usize::MAX, 1).count(), usize::MAX / 2 / (grid.x as usize * 1024) + 1);
    });
}

/// The threads of a row are run by two loops, one for those that have neighbours inside the kernel's memory and one for others.
#[test]
fn threads_that_run_in_rows_are_where_single_ones_are() {
    type Seen = (Dim3, Dim3, usize, (usize, usize), u64);
    let look = || -> Seen {
        let plane = global_idx_2d();
        (block_idx(), thread_idx(), global_idx().get(), (plane.x(), plane.y()), u64::from(lane_id()))
    };
    for (grid, block) in
        [((3, 1, 1), (37, 1, 1)), ((2, 3, 2), (5, 3, 2)), ((4, 1, 1), (1, 1, 1)), ((1, 2, 3), (2, 1, 4))]
    {
        let (grid, block) = (Dim3::from(grid), Dim3::from(block));
        let expected = RefCell::new(Vec::new());
        as_threads(grid, block, all_threads(grid, block), |_, _| expected.borrow_mut().push(look()));
        let (expected, all) = (expected.into_inner(), grid.count() * block.count());
        let cluster_dim = Dim3::new(1, 1, 1);
        let unjoined = LaunchScope {
            grid_dim: grid,
            block_dim: block,
            cluster_dim,
            output: &Alone,
            constants: &Alone,
            joins: Joins::default(),
        };
        let ways = [(false, false), (false, true), (true, true)];
        for (first, (is_plane, joins)) in [0, block.count() as u32 / 2, block.count() as u32 - 1]
            .into_iter()
            .flat_map(|first| ways.map(|way| (first, way)))
        {
            let scope = LaunchScope { joins: Joins { lines: joins, planes: joins }, ..unjoined };
            let lens = [0, 1, all / 2, all - 1, all].map(|len| (len, u64::MAX, u64::MAX));
            let planes = [(1, 1), (2, 2), (5, 3), (9, 9), (36, 1), (111, 1)].map(|(x, y)| (u64::MAX, x, y));
            for (len, width, height) in lens.into_iter().chain(planes) {
                let is_inside = |global, x, y| global < len && x < width && y < height;
                let (seen, inside) = (RefCell::new(Vec::new()), Cell::new(0));
                let mut context = Context::new(&Alone, scope);
                context.set_block(0);
                outside(|| {
                    let reaches = |place: &ThreadPlace| is_inside(place.global, place.x, place.y);
                    let body = |_: &Scope| {
                        let plane = global_idx_2d();
                        let (global, x, y) = (global_idx().get() as u64, plane.x() as u64, plane.y() as u64);
                        // What the compiler was told of inner threads must not have made up answers.
                        let is_rim = x == 0 || !is_inside(global + 1, x + 1, y);
                        inside.set(
                            inside.get() + 2 * u64::from(is_inside(global, x, y))
                                - u64::from(is_rim && is_inside(global, x, y)),
                        );
                        seen.borrow_mut().push(look());
                    };
                    let left = all - u64::from(first);
                    if is_plane {
                        // SAFETY: `first` is a thread of the block, and `outside` restores the context.
                        unsafe { context.run_threads(first, left, &Body::<true, _, _> { reaches, body }) };
                    } else {
                        // SAFETY: as above.
                        unsafe { context.run_threads(first, left, &Body::<false, _, _> { reaches, body }) };
                    }
                });
                if is_plane {
                    // Joined blocks run row by row.
                    seen.borrow_mut().sort_unstable_by_key(|seen| seen.2);
                }
                assert_eq!(
                    *seen.borrow(),
                    expected[first as usize..],
                    "{grid} x {block} from {first}, {len} and {width} x {height} inside"
                );
                let expected_inside: u64 = expected[first as usize..]
                    .iter()
                    .map(|&(_, _, global, (x, y), _)| {
                        let (global, x, y) = (global as u64, x as u64, y as u64);
                        let is_inner = x > 0 && is_inside(global + 1, x + 1, y);
                        u64::from(is_inside(global, x, y)) * (1 + u64::from(is_inner))
                    })
                    .sum();
                assert_eq!(
                    inside.get(),
                    expected_inside,
                    "{grid} x {block} from {first}, {len} and {width} x {height}"
                );
            }
        }
    }
}

/// A kernel of two functions.
struct Body<const IS_PLANE: bool, R, F> {
    reaches: R,
    body: F,
}

// SAFETY: the tests' memory holds all before a thread that it holds, in its row too.
unsafe impl<const IS_PLANE: bool, R: Fn(&ThreadPlace) -> bool, F: Fn(&Scope)> BoundKernel for Body<IS_PLANE, R, F> {
    const IS_PLANE: bool = IS_PLANE;

    fn reaches(&self, place: &ThreadPlace) -> bool {
        (self.reaches)(place)
    }

    fn run(&self, scope: &Scope) {
        (self.body)(scope);
    }

    fn run_joined(&self, context: &mut Context<'_>, threads: JoinedThreads) {
        // SAFETY: `run_threads` gives them.
        unsafe { context.run_joined(threads, self) };
    }
}

/// A grid may have more threads than there are numbers: those after the last start again from 0, also within a row.
#[test]
fn numbers_that_start_again_in_a_row_are_those_of_single_threads() {
    let (grid, block) = (Dim3::new(i32::MAX as u32, 65_535, 65_535), Dim3::new(1000, 1, 1));
    let number = u64::MAX / 1000;
    let look = || (thread_idx(), global_idx().get(), global_idx_2d().x());
    let expected = RefCell::new(Vec::new());
    as_threads(grid, block, (0..1000).map(|t| (number, t)), |_, _| expected.borrow_mut().push(look()));
    let numbers: Vec<usize> = expected.borrow().iter().map(|seen| seen.1).collect();
    assert!(numbers.contains(&usize::MAX) && numbers.contains(&0), "the row was to hold the last number and the first");
    let cluster_dim = Dim3::new(1, 1, 1);
    let scope = LaunchScope {
        grid_dim: grid,
        block_dim: block,
        cluster_dim,
        output: &Alone,
        constants: &Alone,
        joins: Joins::default(),
    };
    let mut context = Context::new(&Alone, scope);
    context.set_block(number);
    let seen = RefCell::new(Vec::new());
    let body = |_: &Scope| seen.borrow_mut().push(look());
    let reaches = |_: &ThreadPlace| true;
    // SAFETY: 0 is a thread of the block, and `outside` restores the context.
    outside(|| unsafe { context.run_threads(0, 1000, &Body::<false, _, _> { reaches, body }) });
    assert_eq!(seen.into_inner(), expected.into_inner());
}

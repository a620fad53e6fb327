//! Shared arrays that are filled and read in phases, and what becomes of threads that do not keep to them.

use std::cell::RefCell;

use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, devices, random};

/// Threads of a block.
const BLOCK: usize = 96;

/// One slot a thread, reversed; then three slots a thread, shifted by one; then a value of 16 bytes.
#[kernel]
fn phases(input: &[u32], mut output: GridSliceMut<[u32; 6]>) {
    let i = global_idx();
    let thread = slot_idx().get();
    let mut slots = shared_array!([u32; BLOCK]);
    slots.put(input[i.get()]);
    let reading = slots.sync();
    let reversed = reading.at(BLOCK - 1 - thread);

    let mut many = shared_array!([u16; 3 * BLOCK]);
    for slot in block_stride(3 * BLOCK) {
        many.put_at(&slot, input[i.get()] as u16 ^ slot.get() as u16);
    }
    let many = many.sync();
    let shifted = many.get(thread * 3 + 1).unwrap_or(9);
    let outside = u32::from(many.get(3 * BLOCK).is_none());

    let mut wide = shared_array!([[u32; 4]; BLOCK]);
    wide.fill_with(|at| [at as u32, input[i.get()], 3, thread as u32]);
    let wide = wide.sync();
    let [a, b, ..] = wide.at((thread + 1) % BLOCK);
    if let Some(output) = output.get_mut(&i) {
        *output = [reversed, shifted.into(), outside, a, b, reading.len() as u32];
    }
}

#[test]
fn what_threads_put_others_read_after_the_barrier() {
    let input: Vec<u32> = (0..3 * BLOCK as u64).map(|i| random(41, i) as u32).collect();
    let mut expected = Vec::new();
    for block in input.chunks(BLOCK) {
        for thread in 0..BLOCK {
            let slot = thread * 3 + 1;
            let next = (thread + 1) % BLOCK;
            let shifted = block[slot % BLOCK] as u16 ^ slot as u16;
            expected.push([block[BLOCK - 1 - thread], shifted.into(), 1, next as u32, block[next], BLOCK as u32]);
        }
    }
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 6]>(input.len())?;
        phases::launch(stream, LaunchConfig::new(3, BLOCK as u32), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// A tree of sums whose steps have one barrier each.
#[kernel]
fn tree(input: &[u64], mut output: GridSliceMut<u64, PerBlock>) {
    let thread = slot_idx().get();
    let mut slots = shared_array!([u64; 128]);
    slots.put(input[global_idx().get()]);
    let mut slots = slots.sync();
    let mut half = 64;
    while half > 0 {
        let sum = (thread < half).then(|| slots.at(thread).wrapping_mul(3) ^ slots.at(thread + half));
        let mut next = slots.without_sync();
        if let Some(sum) = sum {
            next.put(sum);
        }
        slots = next.sync();
        half /= 2;
    }
    if let Some(leader) = block_leader()
        && let Some(output) = output.get_mut(&leader)
    {
        *output = slots.at(0);
    }
}

#[test]
fn a_tree_needs_one_barrier_a_step() {
    let input: Vec<u64> = (0..5 * 128).map(|i| random(42, i)).collect();
    let expected: Vec<u64> = input
        .chunks(128)
        .map(|block| {
            let mut values = block.to_vec();
            while values.len() > 1 {
                let (low, high) = values.split_at(values.len() / 2);
                values = low.iter().zip(high).map(|(a, b)| a.wrapping_mul(3) ^ b).collect();
            }
            values[0]
        })
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u64>(5)?;
        tree::launch(stream, LaunchConfig::new(5, 128), &stream.to_device(&input)?, &mut output)?;
        stream.to_host(&output)
    });
}

/// A transpose through rows with and without padding, of 8 and 32 bits, and runs of neighbours.
#[kernel]
fn transposes(input: &[u32], width: usize, mut output: GridSliceMut<[u32; 3], TransposedTiles<4>>) {
    let mut padded = shared_array!(PaddedRows<u32, 16, 16>);
    let mut dense = shared_array!(Rows<u8, 16, 16>);
    for place in tile_idx::<4>().elements() {
        let value = if place.x() < width { input.get(place.y() * width + place.x()).copied().unwrap_or(0) } else { 0 };
        padded.put_at(&slot_idx().round(place.number()), value);
        dense.put_at(&slot_idx().round(place.number()), value as u8);
    }
    let padded = padded.sync();
    let dense = dense.without_sync();
    let (x, y) = (thread_idx().x as usize, thread_idx().y as usize);
    for place in transposed_tile_idx::<4>().elements() {
        let row = y + 4 * place.number();
        let run: [u8; 4] = dense.run([x, row / 4 * 4]);
        if let Some(output) = output.get_mut(&place) {
            *output = [padded.at([x, row]), dense.at([x, row]).into(), u32::from(run[row % 4])];
        }
    }
}

#[test]
fn tiles_are_transposed() {
    for (width, height) in [(16, 16), (40, 23), (1, 100), (33, 1)] {
        let input: Vec<u32> = (0..width * height).map(|i| random(43, i as u64) as u32).collect();
        let expected: Vec<[u32; 3]> = (0..width * height)
            .map(|i| input[i % height * width + i / height])
            .map(|value| [value, value & 0xff, value & 0xff])
            .collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<[u32; 3]>(width * height)?;
            let grid = (width.div_ceil(16) as u32, height.div_ceil(16) as u32);
            let view = output.plane_mut(height, width)?;
            transposes::launch(stream, LaunchConfig::new(grid, (16, 4)), &stream.to_device(&input)?, width, view)?;
            stream.to_host(&output)
        });
    }
}

macro_rules! counting {
    ($($(#[$docs:meta])* $name:ident($map:ty, $first:expr);)*) => {$(
        $(#[$docs])*
        #[kernel]
        fn $name(mut output: GridSliceMut<u32, $map>) {
            for own in $first.elements() {
                if let Some(output) = output.get_mut(&own) {
                    *output += 1;
                }
            }
        }
    )*};
}
counting! {
    /// Adds 1 to each of the thread's striped elements.
    count_striped(Striped<3>, striped_idx::<3>());
    /// Adds 1 to each of the thread's elements of its block's tile.
    count_tiles(Tiles<3>, tile_idx::<3>());
    /// Adds 1 to each of the thread's elements of its block's transposed tile.
    count_transposed(TransposedTiles<3>, transposed_tile_idx::<3>());
}

/// Adds 1 to each element of the thread's patch, in two ways, and to none outside.
#[kernel]
fn count_patches(mut output: GridSliceMut<u32, Patches<2, 3>>) {
    let own = patch_idx();
    for row in 0..2 {
        if row == 0
            && let Some(output) = output.row_mut(&own, row)
        {
            output.iter_mut().for_each(|output| *output += 1);
            continue;
        }
        for column in 0..3 {
            if let Some(output) = output.get_mut(&own.at(row, column)) {
                *output += 1;
            }
        }
    }
}

/// Adds 1 to the block's element.
#[kernel]
fn count_blocks(mut output: GridSliceMut<u32, PerBlock>) {
    if let Some(leader) = block_leader()
        && let Some(output) = output.get_mut(&leader)
    {
        *output += 1;
    }
}

/// Along x, y and z.
type Sizes = (u32, u32, u32);

/// Grids and blocks of one, two and three dimensions.
const LAUNCHES: &[(Sizes, Sizes)] = &[
    ((1, 1, 1), (1, 1, 1)),
    ((5, 1, 1), (64, 1, 1)),
    ((3, 4, 1), (8, 4, 1)),
    ((2, 3, 2), (4, 3, 2)),
    ((1, 1, 5), (1, 2, 7)),
    ((4, 1, 3), (33, 1, 1)),
];

#[test]
fn every_map_gives_each_element_to_one_thread_under_every_launch() {
    for &(grid, block) in LAUNCHES {
        let config = LaunchConfig::new(grid, block);
        let (blocks, threads) = (grid.0 * grid.1 * grid.2, block.0 * block.1 * block.2);
        let all = (blocks * threads) as usize;
        // Exactly as many elements as there are; fewer, so that the end is cut; more, which stay untouched.
        for len in [3 * all, 2 * all + 1, 4 * all] {
            let expected: Vec<u32> = (0..len).map(|i| u32::from(i < 3 * all)).collect();
            check_on_devices(&expected, |stream| {
                let mut output = stream.zeroed::<u32>(len)?;
                count_striped::launch(stream, config, &mut output)?;
                stream.to_host(&output)
            });
        }
        let expected: Vec<u32> = (0..blocks + 3).map(|i| u32::from(i < blocks)).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u32>(expected.len())?;
            count_blocks::launch(stream, config, &mut output)?;
            stream.to_host(&output)
        });
        let layers = (grid.2 * block.2) as usize;
        let across = (grid.0 * block.0) as usize;
        let down = (grid.1 * block.1) as usize * layers;
        let tile_columns = (grid.1 * layers as u32 * block.0) as usize;
        let tile_rows = (grid.0 * block.1) as usize;
        for (width, height) in [(across, 3 * down), (across + 2, 3 * down + 1), (across.div_ceil(2), 2 * down)] {
            let expected: Vec<u32> =
                (0..width * height).map(|i| u32::from(i % width < across && i / width < 3 * down)).collect();
            check_on_devices(&expected, |stream| {
                let mut output = stream.zeroed::<u32>(width * height)?;
                count_tiles::launch(stream, config, output.plane_mut(width, height)?)?;
                stream.to_host(&output)
            });
        }
        let (width, height) = (tile_columns + 1, 3 * tile_rows + 1);
        let expected: Vec<u32> =
            (0..width * height).map(|i| u32::from(i % width < tile_columns && i / width < 3 * tile_rows)).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u32>(width * height)?;
            count_transposed::launch(stream, config, output.plane_mut(width, height)?)?;
            stream.to_host(&output)
        });
        // A row of a patch is written when it lies inside as a whole: the width is a multiple of it here.
        let (width, height) = (3 * across, 2 * down + 1);
        let expected: Vec<u32> = (0..width * height).map(|i| u32::from(i / width < 2 * down)).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u32>(width * height)?;
            count_patches::launch(stream, config, output.plane_mut(width, height)?)?;
            stream.to_host(&output)
        });
    }
}

/// Indexes past the end where `place` says so.
#[kernel]
fn outside(place: usize, mut output: GridSliceMut<u32>) {
    let mut rows = shared_array!(Rows<u32, 4, 8>);
    rows.put(7);
    let rows = rows.sync();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = rows.at([1, place]);
    }
}

#[test]
fn an_index_outside_the_shape_is_a_panic() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u32>(32).expect("a small allocation works");
        outside::launch(&stream, LaunchConfig::new(1, 32), 7, &mut output).expect("the launch itself works");
        assert_eq!(stream.to_host(&output).expect("nothing panicked"), [7; 32]);
        outside::launch(&stream, LaunchConfig::new(1, 32), 8, &mut output).expect("the launch itself works");
        let error = stream.synchronize().expect_err("column 8 of 8").to_string();
        assert!(error.contains("access to 1 slot(s) from [1, 8] on leaves a shared array of 4 by 8 slots"), "{error}");
    }
}

/// Half of the block leaves the array for a bare barrier; then all look at all slots and use what they find as an index.
#[kernel]
fn diverging(input: &[u32], mut output: GridSliceMut<u32>) {
    let thread = slot_idx().get();
    let mut slots = shared_array!([u32; BLOCK]);
    slots.put(thread as u32);
    let reading = if thread.is_multiple_of(2) {
        slots.sync()
    } else {
        sync_threads();
        // This half writes on while the other reads.
        slots.put(u32::MAX);
        slots.without_sync()
    };
    let mut total = 0u32;
    for slot in 0..BLOCK {
        let found = reading.at(slot);
        total = total.wrapping_add(input.get(found as usize).copied().unwrap_or(found));
    }
    sync_threads();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = total;
    }
}

#[test]
fn threads_at_different_barriers_read_values_or_are_reported() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let input = stream.to_device(&vec![1u32; BLOCK]).expect("a small copy works");
        let mut output = stream.zeroed::<u32>(4 * BLOCK).expect("a small allocation works");
        diverging::launch(&stream, LaunchConfig::new(4, BLOCK as u32), &input, &mut output).expect("it starts");
        if device.is_cpu() {
            let error = stream.synchronize().expect_err("the halves are at different barriers").to_string();
            assert!(error.contains("different barriers") && error.contains("shared_phases.rs"), "{error}");
        } else {
            // Each slot holds its number, which finds a 1, or u32::MAX, which adds itself.
            for total in stream.to_host(&output).expect("no fault") {
                let written = (BLOCK as u32).wrapping_sub(total) / 2;
                assert!(written as usize <= BLOCK, "{total}");
            }
        }
    }
}

/// Thread 3 panics before it writes its slot; the others read all slots.
#[kernel]
fn missing(input: &[u32], mut output: GridSliceMut<u32>) {
    let thread = slot_idx().get();
    let mut slots = shared_array!([u32; BLOCK]);
    assert!(thread != 3 || input.is_empty(), "thread {thread} has nothing to put");
    slots.put(thread as u32);
    let slots = slots.sync();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = (0..BLOCK).map(|slot| if slot == 3 { slots.at(slot) & 1 } else { slots.at(slot) }).sum();
    }
}

#[test]
fn case_e5_a_panic_before_a_thread_writes_its_slot_leaves_the_others_some_value() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let input = stream.to_device(&[1u32]).expect("a small copy works");
        let mut output = stream.zeroed::<u32>(BLOCK).expect("a small allocation works");
        missing::launch(&stream, LaunchConfig::new(1, BLOCK as u32), &input, &mut output).expect("it starts");
        let error = stream.synchronize().expect_err("thread 3 panics").to_string();
        assert!(error.contains("thread 3 has nothing to put") && error.contains("(3, 0, 0)"), "{error}");
        let all_but_3 = (0..BLOCK as u32).sum::<u32>() - 3;
        for (thread, total) in stream.to_host(&output).expect("the context lives on").into_iter().enumerate() {
            assert!(thread == 3 || total == all_but_3 || total == all_but_3 + 1, "thread {thread}: {total}");
        }
    }
}

thread_local! {
    static KEPT: RefCell<Option<SharedArray<[u32; 4], warpsmith::shared::Reading>>> = const { RefCell::new(None) };
}

#[test]
fn a_handle_is_of_no_use_after_its_threads_run() {
    /// The first thread keeps its handle past its run, and the second, which the same core runs next, uses it.
    #[cfg(not(warpsmith_device))]
    fn on_the_host() -> u32 {
        if thread_idx().x == 0 {
            let mut slots = shared_array!([u32; 4]);
            slots.put(1);
            KEPT.set(Some(slots.without_sync()));
            return 0;
        }
        KEPT.with_borrow(|kept| kept.as_ref().map_or(0, |kept| kept.at(0)))
    }
    #[cfg(warpsmith_device)]
    fn on_the_host() -> u32 {
        0
    }
    #[kernel]
    fn keeping(mut output: GridSliceMut<u32>) {
        let value = on_the_host();
        if let Some(output) = output.get_mut(&global_idx()) {
            *output = value;
        }
    }
    let stream = Device::cpu().stream().expect("a device gives streams");
    let mut output = stream.zeroed::<u32>(2).expect("a small allocation works");
    keeping::launch(&stream, LaunchConfig::new(1, 2), &mut output).expect("it starts");
    let error = stream.synchronize().expect_err("thread 1 uses thread 0's handle").to_string();
    assert!(error.contains("outside the run of the thread that made it") && error.contains("(1, 0, 0)"), "{error}");
}

/// Three arrays of different types out of dynamic shared memory, the middle one aligned after odd bytes.
#[kernel]
fn carved(input: &[u32], lens: [usize; 3], mut output: GridSliceMut<[u32; 4]>) {
    let i = global_idx();
    let thread = slot_idx().get();
    let value = input[i.get()];
    let mut carver = DynamicShared::new();
    let mut bytes = carver.take::<u8>(lens[0]);
    let mut doubles = carver.take::<f64>(lens[1]);
    let mut words = carver.take::<u32>(lens[2]);
    let left = carver.left();
    bytes.fill_with(|at| at as u8);
    doubles.fill_with(|at| at as f64 + 0.5);
    words.put(value);
    let (bytes, doubles, words) = (bytes.sync(), doubles.without_sync(), words.without_sync());
    if let Some(output) = output.get_mut(&i) {
        let sum: u32 = (0..lens[0]).map(|at| u32::from(bytes.at(at))).sum();
        let total: f64 = (0..lens[1]).map(|at| doubles.at(at)).sum();
        *output = [sum, (total * 2.0) as u32, words.at(words.len() - 1 - thread), left as u32];
    }
}

#[test]
fn case_f4_dynamic_shared_memory_is_carved_into_arrays_that_do_not_overlap() {
    let input: Vec<u32> = (0..2 * BLOCK as u64).map(|i| random(44, i) as u32).collect();
    // The last is above 48 KiB, which the launch has to opt in to.
    for lens in [[3, 5, BLOCK], [0, 0, BLOCK], [101, 6000, BLOCK]] {
        let doubles = lens[0].next_multiple_of(8);
        let bytes = doubles + 8 * lens[1] + 4 * lens[2];
        let sum = (0..lens[0] as u32).sum::<u32>();
        let total = (lens[1] * lens[1]) as u32;
        let expected: Vec<[u32; 4]> =
            (0..2 * BLOCK).map(|i| [sum, total, input[i / BLOCK * BLOCK + BLOCK - 1 - i % BLOCK], 12]).collect();
        check_on_devices(&expected, |stream| {
            let config = LaunchConfig::new(2, BLOCK as u32).with_shared_bytes(bytes as u32 + 12);
            let mut output = stream.zeroed::<[u32; 4]>(input.len())?;
            carved::launch(stream, config, &stream.to_device(&input)?, lens, &mut output)?;
            stream.to_host(&output)
        });
    }
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let input = stream.to_device(&input).expect("a small copy works");
        let mut output = stream.zeroed::<[u32; 4]>(2 * BLOCK).expect("a small allocation works");
        for (lens, message) in [
            ([3, 5, BLOCK], "an array of 96 items of 4 bytes from byte 48 on does not fit into the launch's 400 bytes"),
            ([1, usize::MAX / 4, 1], "items of 8 bytes from byte 8 on does not fit into the launch's 400 bytes"),
        ] {
            let config = LaunchConfig::new(2, BLOCK as u32).with_shared_bytes(400);
            carved::launch(&stream, config, &input, lens, &mut output).expect("the launch itself works");
            let error = stream.synchronize().expect_err("too little shared memory").to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}

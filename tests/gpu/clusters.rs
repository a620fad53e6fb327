//! Clusters: blocks that wait for each other and reach each other's shared memory.

use warpsmith::prelude::*;
use warpsmith::{LaunchError, shared};
use warpsmith_tests::{check_on_devices, devices};

/// Where a block stands.
#[kernel]
fn places(mut output: GridSliceMut<[u32; 8]>) {
    let (dim, index) = (cluster_dim(), cluster_idx());
    let cluster = this_cluster();
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = [dim.x, dim.y, dim.z, index.x, index.y, index.z, cluster.block_rank(), cluster.num_blocks()];
    }
}

/// Whether the device takes launches in clusters.
fn has_clusters(device: &Device) -> bool {
    device.capability().is_none_or(|capability| capability.major >= 9)
}

#[test]
fn blocks_know_their_place_in_their_cluster() {
    for device in devices() {
        for (grid, cluster) in
            [((6, 4, 2), (2, 2, 1)), ((8, 1, 1), (8, 1, 1)), ((3, 6, 4), (1, 3, 2)), ((5, 2, 1), (1, 1, 1))]
        {
            let (grid, cluster) = (Dim3::from(grid), Dim3::from(cluster));
            if !has_clusters(device) && cluster.count() > 1 {
                continue;
            }
            let stream = device.stream().expect("a device gives streams");
            let threads = grid.count() as usize * 32;
            let mut output = stream.zeroed::<[u32; 8]>(threads).expect("a small copy works");
            let config = LaunchConfig::new(grid, 32).with_cluster(cluster);
            places::launch(&stream, config, &mut output).unwrap_or_else(|error| panic!("on {device}: {error}"));
            let results = stream.to_host(&output).expect("no thread panics");
            for (i, result) in results.iter().enumerate() {
                let block = (i / 32) as u32;
                let at = [block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y];
                let of = [cluster.x, cluster.y, cluster.z];
                let index: Vec<u32> = at.iter().zip(of).map(|(at, of)| at / of).collect();
                let within: Vec<u32> = at.iter().zip(of).map(|(at, of)| at % of).collect();
                let rank = (within[2] * cluster.y + within[1]) * cluster.x + within[0];
                let expected = [of[0], of[1], of[2], index[0], index[1], index[2], rank, cluster.count() as u32];
                assert_eq!(*result, expected, "block {at:?} of {grid} in clusters of {cluster} on {device}");
            }
        }
    }
}

/// Each block takes over what the next of its cluster has in shared memory, round after round: a number in a static
/// allocation and one a thread in the dynamic one.
#[kernel]
fn exchange(rounds: u32, mut output: GridSliceMut<u32>) {
    let (slot, slots) = (shared!([u32; 2]).cast::<u32>(), dynamic_shared::<u32>());
    let thread = thread_idx().x as usize;
    let next = (cluster_rank() + 1) % this_cluster().num_blocks();
    let mut value = block_idx().x;
    for round in 0..rounds {
        // SAFETY: the first thread writes its block's number and each thread its own, between two barriers of the cluster.
        unsafe {
            if thread == 0 {
                slot.add(1).write(value + 1);
            }
            slots.add(thread).write(value * 10);
        }
        this_cluster().sync();
        // SAFETY: what the other block wrote before the barrier; it does not end before the next one.
        let (number, own) = unsafe {
            let cluster = this_cluster();
            (cluster.map_shared_rank(slot.add(1), next).read(), cluster.map_shared_rank(slots.add(thread), next).read())
        };
        assert!(own == (number - 1) * 10, "{own} is not ten times {number} less one");
        value = number % 1000 + round;
        this_cluster().sync();
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn blocks_exchange_through_distributed_shared_memory() {
    for device in devices() {
        for (blocks, cluster, threads) in [(8u32, 4u32, 32u32), (6, 2, 33), (16, 8, 128), (3, 1, 64), (24, 4, 256)] {
            for cooperative in [false, true] {
                if !has_clusters(device) && cluster > 1 {
                    continue;
                }
                let rounds = 20;
                let mut expected: Vec<u32> = (0..blocks).collect();
                for round in 0..rounds {
                    let before = expected.clone();
                    for (block, value) in expected.iter_mut().enumerate() {
                        let (first, rank) = (block as u32 / cluster * cluster, block as u32 % cluster);
                        *value = (before[(first + (rank + 1) % cluster) as usize] + 1) % 1000 + round;
                    }
                }
                let stream = device.stream().expect("a device gives streams");
                let mut output = stream.zeroed::<u32>((blocks * threads) as usize).expect("a small copy works");
                let config = LaunchConfig::new(blocks, threads).with_cluster(cluster).with_shared_bytes(4 * threads);
                let config = if cooperative { config.cooperative() } else { config };
                exchange::launch(&stream, config, rounds, &mut output)
                    .unwrap_or_else(|error| panic!("on {device}: {error}"));
                let results = stream.to_host(&output).unwrap_or_else(|error| panic!("on {device}: {error}"));
                for (i, result) in results.iter().enumerate() {
                    let block = i / threads as usize;
                    assert_eq!(
                        *result, expected[block],
                        "block {block} of {blocks} in clusters of {cluster} on {device}"
                    );
                }
            }
        }
    }
}

/// A kernel that syncs clusters and the grid in turns.
#[kernel]
fn both(mut output: GridSliceMut<u32>) {
    let mut value = 0;
    for _ in 0..10 {
        this_cluster().sync();
        this_grid().sync();
        value += 1;
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

#[test]
fn a_launch_may_be_cooperative_and_in_clusters() {
    for device in devices().filter(|device| has_clusters(device)) {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u32>(8 * 64).expect("a small copy works");
        let config = LaunchConfig::new(8, 64).with_cluster(2).cooperative();
        both::launch(&stream, config, &mut output).unwrap_or_else(|error| panic!("on {device}: {error}"));
        assert_eq!(stream.to_host(&output).expect("no thread panics"), [10; 8 * 64], "on {device}");
    }
}

#[test]
fn without_a_cluster_launch_a_block_is_a_cluster_of_its_own() {
    let expected: Vec<[u32; 8]> = (0..3 * 64).map(|i| [1, 1, 1, i / 64, 0, 0, 0, 1]).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u32; 8]>(expected.len())?;
        places::launch(stream, LaunchConfig::new(3, 64), &mut output)?;
        stream.to_host(&output)
    });
    let expected: Vec<u32> = (0..3 * 64).map(|i| i / 64 + 1).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u32>(expected.len())?;
        exchange::launch(stream, LaunchConfig::new(3, 64).with_shared_bytes(256), 1, &mut output)?;
        stream.to_host(&output)
    });
}

/// A panic in some threads of block 1, or in all, and cluster barriers after it.
#[kernel]
fn panic_before_cluster_sync(first: u32, last: u32, mut output: GridSliceMut<u32>) {
    let thread = thread_idx().x;
    this_cluster().sync();
    assert!(block_idx().x != 1 || thread < first || thread > last, "thread {thread} gives up");
    for _ in 0..3 {
        this_cluster().sync();
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = 1;
    }
}

#[test]
fn case_e5_panic_before_cluster_syncs() {
    for device in devices().filter(|device| has_clusters(device)) {
        for (first, last) in [(3, 3), (0, 31), (0, 95)] {
            let stream = device.stream().expect("a device gives streams");
            let mut output = stream.zeroed::<u32>(4 * 96).expect("a small copy works");
            let config = LaunchConfig::new(4, 96).with_cluster(4);
            let error = panic_before_cluster_sync::launch(&stream, config, first, last, &mut output)
                .and_then(|()| stream.synchronize())
                .expect_err("a panic comes back as an error");
            let panic = error.kernel_panic().unwrap_or_else(|| panic!("on {device}: {error}"));
            assert_eq!(panic.block.x, 1, "on {device}");
            assert!((first..=last).contains(&panic.thread.x), "thread {} on {device}", panic.thread.x);
            let results = stream.to_host(&output).expect("the stream goes on");
            for (i, result) in (0..4 * 96).zip(results) {
                let gone = i / 96 == 1 && (first..=last).contains(&(i % 96));
                assert_eq!(result, u32::from(!gone), "thread {i} with {first}..={last} on {device}");
            }
        }
    }
}

#[test]
fn wrong_clusters_are_refused() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<[u32; 8]>(1).expect("a small copy works");
        let mut refused = |grid: (u32, u32), cluster: (u32, u32)| {
            places::launch(&stream, LaunchConfig::new(grid, 32).with_cluster(cluster), &mut output)
                .expect_err("such clusters are refused")
        };
        let error = refused((16, 4), (16, 1)).to_string();
        assert!(error.contains("in clusters of 16 blocks; a cluster has at most 8"), "{error}");
        let error = refused((16, 3), (2, 2)).to_string();
        assert!(error.contains("cluster_dim.y = 2, of which the grid's 3 blocks are no multiple"), "{error}");
        if !has_clusters(device) {
            let error = refused((16, 4), (2, 2));
            assert!(matches!(error, warpsmith::Error::Launch(LaunchError::NoClusters { .. })), "{error}");
        }
    }
}

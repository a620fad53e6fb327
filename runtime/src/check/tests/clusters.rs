//! Blocks that wait for each other: clusters and cooperative launches.

use warpsmith_device::{block_idx, shared, sync_threads, this_cluster, this_grid, thread_idx};

use super::*;

fn me() -> usize {
    thread_idx().x as usize
}

#[test]
fn a_grid_barrier_orders_all_blocks() {
    let x = Buffer::new("x", 256, Mark::Init);
    let kernel = |sync: bool| {
        let x = &x;
        move || {
            x.at(global()).store(1.0);
            if sync {
                this_grid().sync();
            } else {
                sync_threads();
            }
            x.at(255 - global()).load();
        }
    };
    let launch = Launch { cooperative: true, ..launch(4, 64) };
    launch.clean(&[&x], kernel(true));
    let findings = launch.find(&[&x], kernel(false));
    assert!(findings.iter().all(|finding| finding.rule == CheckRule::DataRace) && !findings.is_empty());
}

#[test]
fn a_cluster_barrier_orders_its_blocks_and_no_others() {
    let x = Buffer::new("x", 512, Mark::Init);
    let kernel = |distance: u32| {
        let x = &x;
        move || {
            x.at(global()).store(1.0);
            this_cluster().sync();
            let other = block_idx().x ^ distance;
            x.at(64 * other as usize + 63 - me()).load();
        }
    };
    let launch = Launch { cluster: 2.into(), ..launch(8, 64) };
    launch.clean(&[&x], kernel(1));
    let findings = launch.find(&[&x], kernel(2));
    assert!(findings.iter().all(|finding| finding.rule == CheckRule::DataRace) && !findings.is_empty());
}

#[test]
fn shared_memory_of_a_cluster_is_ordered_by_its_barrier() {
    let kernel = |first: bool, last: bool| {
        move || {
            let tile = shared!([f32; 64]);
            Slot(tile.addr() + 4 * me()).store(1.0);
            if first {
                this_cluster().sync();
            } else {
                sync_threads();
            }
            let other = this_cluster().map_shared_rank(tile, 1 - this_cluster().block_rank());
            Slot(other.addr() + 4 * (63 - me())).load();
            if last {
                this_cluster().sync();
            }
            Slot(tile.addr() + 4 * me()).store_at(2.0, at::OTHER_STORE);
        }
    };
    let launch = Launch { cluster: 2.into(), ..launch(8, 64) };
    launch.clean(&[], kernel(true, true));
    for (first, last) in [(true, false), (false, true)] {
        let findings = launch.find(&[], kernel(first, last));
        assert!(findings.iter().any(|finding| finding.rule == CheckRule::DataRace), "{}", list(&findings));
    }
}

#[test]
fn reads_of_a_cluster_do_not_stand_for_those_of_another() {
    let x = Buffer::new("x", 64, Mark::Init);
    let kernel = |reader: u32| {
        let x = &x;
        move || {
            let block = block_idx().x;
            if me() == 0 && (block < 2 || block == reader) {
                x.at(0).load();
            }
            this_cluster().sync();
            if me() == 0 && block == 0 {
                x.at(0).store(1.0);
            }
        }
    };
    // The other cluster's block reads after both of the first and before the write.
    let launch = Launch { cluster: 2.into(), cooperative: true, ..launch(4, 32) };
    launch.clean(&[&x], kernel(1));
    for reader in [2, 3] {
        let finding = launch.caught(CheckRule::DataRace, &[&x], kernel(reader));
        let blocks = [finding.side.block.x, finding.other.as_ref().unwrap().block.x];
        assert_eq!(blocks, [0, reader], "{finding}");
    }
}

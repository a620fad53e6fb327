//! Clusters, where the device has them; elsewhere a block is a cluster of its own.

use super::{architecture_at_least, bar_sync, block_idx};
use crate::index::Dim3;
use crate::ptx;

/// The first architecture with clusters.
const FIRST: u32 = 90;

macro_rules! registers {
    ($($name:ident $x:literal $y:literal $z:literal, else $alone:expr;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name() -> Dim3 {
            if !architecture_at_least(FIRST) {
                return $alone;
            }
            let (x, y, z): (u32, u32, u32);
            // SAFETY: reads registers that do not change.
            unsafe {
                ptx!($x, out(reg) x, options(pure, nomem, nostack));
                ptx!($y, out(reg) y, options(pure, nomem, nostack));
                ptx!($z, out(reg) z, options(pure, nomem, nostack));
            }
            Dim3 { x, y, z }
        }
    )*};
}
registers! {
    cluster_dim "mov.u32 {0}, %cluster_nctaid.x;" "mov.u32 {0}, %cluster_nctaid.y;" "mov.u32 {0}, %cluster_nctaid.z;",
        else Dim3 { x: 1, y: 1, z: 1 };
    cluster_idx "mov.u32 {0}, %clusterid.x;" "mov.u32 {0}, %clusterid.y;" "mov.u32 {0}, %clusterid.z;", else block_idx();
}

#[inline(always)]
pub(crate) fn cluster_rank() -> u32 {
    if !architecture_at_least(FIRST) {
        return 0;
    }
    let rank: u32;
    // SAFETY: reads a register that does not change.
    unsafe { ptx!("mov.u32 {0}, %cluster_ctarank;", out(reg) rank, options(pure, nomem, nostack)) };
    rank
}

#[inline(always)]
pub(crate) fn sync() {
    if !architecture_at_least(FIRST) {
        return bar_sync();
    }
    // SAFETY: a barrier writes no memory of its own.
    unsafe { ptx!("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;") };
}

/// `rank` is below the number of the cluster's blocks.
#[inline(always)]
pub(crate) fn map_shared_rank(own: *mut u8, rank: u32) -> *mut u8 {
    if !architecture_at_least(FIRST) {
        return own;
    }
    let mapped: *mut u8;
    // SAFETY: only computes an address.
    unsafe {
        ptx!("mapa.u64 {0}, {1}, {2};", out(reg) mapped, in(reg) own, in(reg) rank, options(pure, nomem, nostack))
    };
    mapped
}

//! Clusters: a few blocks that run together, wait for each other, and reach each other's shared memory.
//!
//! A launch says how blocks form clusters (`LaunchConfig::with_cluster`), on compute capability 9.0 and on the CPU executor.
//! In every other launch, and on older devices, each block is a cluster of its own.

#[cfg(warpsmith_device)]
use crate::intrinsics::cluster as position;

use crate::index::Dim3;

#[cfg(not(warpsmith_device))]
mod position {
    //! The same questions, asked of the CPU executor.
    use crate::host::current;
    use crate::index::Dim3;

    macro_rules! ask {
        ($($name:ident)*) => {$(
            #[inline]
            #[track_caller]
            pub(super) fn $name() -> Dim3 {
                current(stringify!($name), |context| context.$name())
            }
        )*};
    }
    ask!(cluster_dim cluster_idx block_in_cluster);
}

/// Blocks of a cluster along each dimension. PTX: `%cluster_nctaid`, compute capability 9.0; 1 below.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn cluster_dim() -> Dim3 {
    position::cluster_dim()
}

/// The index of the block's cluster in the grid of clusters. PTX: `%clusterid`, compute capability 9.0; the block's own index
/// below.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn cluster_idx() -> Dim3 {
    position::cluster_idx()
}

/// The number of the block in its cluster, x fastest. PTX: `%cluster_ctarank`, compute capability 9.0; 0 below.
#[inline]
#[must_use]
#[cfg_attr(not(warpsmith_device), track_caller)]
pub fn cluster_rank() -> u32 {
    #[cfg(warpsmith_device)]
    return position::cluster_rank();
    #[cfg(not(warpsmith_device))]
    {
        let (block, dim) = (position::block_in_cluster(), position::cluster_dim());
        (block.z * dim.y + block.y) * dim.x + block.x
    }
}

/// The blocks of a cluster; from [`this_cluster`].
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    _private: (),
}

/// The cluster that the calling thread's block belongs to.
#[inline]
#[must_use]
pub fn this_cluster() -> Cluster {
    Cluster { _private: () }
}

impl Cluster {
    /// Waits until every thread of the cluster that has not ended has come here, and makes their earlier writes visible to
    /// each other, those to shared memory included.
    ///
    /// Every thread of every block of the cluster must call it, at the same place. PTX: `barrier.cluster.arrive.aligned` and
    /// `barrier.cluster.wait.aligned`, compute capability 9.0; `barrier.sync 0` below, where the block is alone.
    ///
    /// # Panics
    /// The CPU executor reports threads that wait at different places.
    ///
    /// # Source
    /// PTX ISA, "barrier.cluster".
    #[inline(always)]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn sync(&self) {
        #[cfg(warpsmith_device)]
        position::sync();
        #[cfg(not(warpsmith_device))]
        {
            let place = core::panic::Location::caller();
            crate::host::require_waiting("Cluster::sync");
            crate::host::current("Cluster::sync", |context| context.block().sync_cluster(context.thread(), place));
        }
    }

    /// The number of the calling thread's block in the cluster: [`cluster_rank`].
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn block_rank(&self) -> u32 {
        cluster_rank()
    }

    /// Blocks of the cluster. PTX: `%cluster_nctarank`, compute capability 9.0; 1 below.
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn num_blocks(&self) -> u32 {
        let dim = cluster_dim();
        dim.x.wrapping_mul(dim.y).wrapping_mul(dim.z)
    }

    /// The address at which the block number `rank` of the cluster has what `own` is in the calling thread's block: distributed
    /// shared memory.
    ///
    /// `own` is an address in the block's shared memory, from `shared!` or `dynamic_shared`. PTX: `mapa.u64`, compute
    /// capability 9.0. Making the address reaches nothing; using it is unsafe as for every pointer, and besides the other
    /// block must have started and not have ended: [`sync`](Self::sync) after the start and before the end sees to both.
    ///
    /// # Panics
    /// When the cluster has no block of that number. The CPU executor also panics when `own` is no address of shared memory.
    ///
    /// # Source
    /// PTX ISA, "mapa"; CUDA C++ Programming Guide, "Distributed Shared Memory".
    #[inline]
    #[must_use]
    #[cfg_attr(not(warpsmith_device), track_caller)]
    pub fn map_shared_rank<T>(&self, own: *mut T, rank: u32) -> *mut T {
        let blocks = self.num_blocks();
        assert!(rank < blocks, "block {rank} of a cluster of {blocks}");
        #[cfg(warpsmith_device)]
        return position::map_shared_rank(own.cast(), rank).cast();
        #[cfg(not(warpsmith_device))]
        {
            let own: *mut u8 = own.cast();
            let mapped = crate::host::current("map_shared_rank", |context| context.block().map_shared(own, rank));
            assert!(mapped.is_some(), "{own:?} is not an address of the block's shared memory");
            mapped.unwrap_or(own).cast()
        }
    }
}

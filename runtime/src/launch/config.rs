//! The shape of a launch, and its check against what the device and the kernel allow.

use warpsmith_device::Dim3;

use crate::cpu;
use crate::device::Device;
use crate::driver::LaunchShape;
use crate::error::LaunchError;
use crate::module::LoadedKernel;

/// Blocks of the grid, threads of a block, and bytes of shared memory that the launch adds.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// // One thread for each of a million elements, in blocks of 256.
/// assert_eq!(LaunchConfig::for_len(1_000_000).grid_dim(), Dim3::new(3907, 1, 1));
/// // A picture in tiles of 16 by 16, with room for a tile of `f32` in shared memory.
/// let config = LaunchConfig::new((1920 / 16, 1080u32.div_ceil(16)), (16, 16)).with_shared_bytes(16 * 16 * 4);
/// assert_eq!(config.grid_dim().y, 68);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    grid_dim: Dim3,
    block_dim: Dim3,
    shared_bytes: u32,
    cooperative: bool,
    cluster_dim: Dim3,
    /// Made for a length of 0: the launch starts nothing.
    empty: bool,
}

impl LaunchConfig {
    /// Threads of a block where the caller does not say.
    pub(crate) const DEFAULT_BLOCK: u32 = 256;

    /// A grid and its blocks; sizes are written `n`, `(x, y)`, `(x, y, z)` or as a [`Dim3`].
    #[must_use]
    pub fn new(grid_dim: impl Into<Dim3>, block_dim: impl Into<Dim3>) -> Self {
        Self {
            grid_dim: grid_dim.into(),
            block_dim: block_dim.into(),
            shared_bytes: 0,
            cooperative: false,
            cluster_dim: Dim3::new(1, 1, 1),
            empty: false,
        }
    }

    /// At least one thread for each of `len` elements, in blocks of 256. A launch for 0 elements starts nothing.
    #[must_use]
    pub fn for_len(len: usize) -> Self {
        Self::for_len_with_block(len, Self::DEFAULT_BLOCK)
    }

    /// As [`for_len`](Self::for_len), in blocks of `threads`.
    #[must_use]
    pub fn for_len_with_block(len: usize, threads: u32) -> Self {
        const MOST_ALONG_X: u64 = i32::MAX as u64;
        let blocks = (len as u64).div_ceil(u64::from(threads.max(1)));
        // Past 2^31 blocks the grid gets rows: the global index counts over all of them.
        let rows = blocks.div_ceil(MOST_ALONG_X).max(1);
        let grid_dim = Dim3::new(saturate(blocks.div_ceil(rows)), saturate(rows), 1);
        Self { empty: len == 0, ..Self::new(grid_dim, threads) }
    }

    /// At least one thread for each element of `width` by `height`, in blocks of 32 by 8. Starts nothing when one is 0.
    #[must_use]
    pub fn for_2d(width: usize, height: usize) -> Self {
        Self::for_shape([width, height, 1], Dim3::new(32, 8, 1))
    }

    /// At least one thread for each element of `width` by `height` by `depth`, in blocks of 32 by 4 by 2. Starts nothing
    /// when one is 0.
    #[must_use]
    pub fn for_3d(width: usize, height: usize, depth: usize) -> Self {
        Self::for_shape([width, height, depth], Dim3::new(32, 4, 2))
    }

    fn for_shape([width, height, depth]: [usize; 3], block_dim: Dim3) -> Self {
        let blocks = |elements: usize, threads: u32| saturate((elements as u64).div_ceil(u64::from(threads)));
        let grid_dim = Dim3::new(blocks(width, block_dim.x), blocks(height, block_dim.y), blocks(depth, block_dim.z));
        Self { empty: width == 0 || height == 0 || depth == 0, ..Self::new(grid_dim, block_dim) }
    }

    /// The same launch with this many bytes of dynamic shared memory per block.
    #[must_use]
    pub const fn with_shared_bytes(mut self, shared_bytes: u32) -> Self {
        self.shared_bytes = shared_bytes;
        self
    }

    /// The same launch with all blocks of the grid resident at once, so that they can wait for each other: what a kernel with
    /// `Grid::sync` needs. Refused when there are more blocks than the device can hold at once.
    ///
    /// # Source
    /// CUDA C++ Programming Guide, "Grid Synchronization".
    #[must_use]
    pub const fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// The same launch in clusters of so many blocks, which run together and reach each other's shared memory: at most 8 in
    /// all, and the grid a multiple of them in each dimension. GPUs have clusters from compute capability 9.0 on.
    ///
    /// # Source
    /// CUDA C++ Programming Guide, "Thread Block Clusters".
    #[must_use]
    pub fn with_cluster(mut self, cluster_dim: impl Into<Dim3>) -> Self {
        self.cluster_dim = cluster_dim.into();
        self
    }

    /// The same threads of a block in another shape.
    pub(crate) const fn with_block_dim(mut self, block_dim: Dim3) -> Self {
        self.block_dim = block_dim;
        self
    }

    /// Blocks of the grid.
    #[must_use]
    pub const fn grid_dim(&self) -> Dim3 {
        self.grid_dim
    }

    /// Threads of a block.
    #[must_use]
    pub const fn block_dim(&self) -> Dim3 {
        self.block_dim
    }

    /// Bytes of dynamic shared memory per block.
    #[must_use]
    pub const fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// Whether all blocks of the grid are resident at once.
    #[must_use]
    pub const fn is_cooperative(&self) -> bool {
        self.cooperative
    }

    /// Blocks of a cluster; one where nothing else was said.
    #[must_use]
    pub const fn cluster_dim(&self) -> Dim3 {
        self.cluster_dim
    }

    /// As the driver's wrapper takes it.
    pub(crate) const fn shape(&self) -> LaunchShape {
        LaunchShape {
            grid: self.grid_dim,
            block: self.block_dim,
            cluster: self.cluster_dim,
            shared_bytes: self.shared_bytes,
            cooperative: self.cooperative,
        }
    }

    /// Whether grid and block extend along x only, so that a kernel's global index needs no other dimension.
    pub(crate) const fn is_along_x(&self) -> bool {
        let (grid, block) = (self.grid_dim, self.block_dim);
        grid.y == 1 && grid.z == 1 && block.y == 1 && block.z == 1
    }

    /// Whether it was made for a length of 0, so that a launch starts nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.empty
    }
}

/// A size that does not fit is past every limit, and the check says so.
fn saturate(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// Checks a launch that is not empty.
pub(crate) fn check(config: &LaunchConfig, kernel: &LoadedKernel, device: &Device) -> Result<(), LaunchError> {
    let threads = u64::from(check_block(config, kernel, device)?);
    check_cluster(config, kernel, device)?;
    if config.cooperative {
        check_cooperative(config, kernel, device, threads)
    } else if kernel.syncs_grid() {
        Err(LaunchError::NotCooperative { kernel: kernel.path().to_owned() })
    } else {
        Ok(())
    }
}

/// Shapes of a kernel's launches on one device that [`check`] is sure to take, told apart by three comparisons: along x, neither in
/// clusters nor cooperative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualShapes {
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
}

impl UsualShapes {
    pub(crate) const NONE: Self = Self { blocks: 0, threads: 0, shared_bytes: 0 };

    /// Those of `kernel`; none where it asks for one shape or a cooperative launch.
    pub(crate) fn of(kernel: &LoadedKernel, device: &Device) -> Self {
        let (limits, options) = (device.limits(), &kernel.desc().options);
        if kernel.syncs_grid() || options.block != [0; 3] {
            return Self::NONE;
        }
        let own = [options.max_threads, kernel.gpu().map_or(0, |code| code.max_threads)];
        let own = own.into_iter().filter(|&most| most != 0);
        let threads = own.fold(limits.max_threads_per_block.min(limits.max_block_dim.x), u32::min);
        let shared = u64::from(limits.max_shared_bytes).checked_sub(kernel.fixed_shared_bytes());
        match shared.and_then(|bytes| u32::try_from(bytes).ok()) {
            Some(shared_bytes) => Self { blocks: limits.max_grid_dim.x, threads, shared_bytes },
            None => Self::NONE,
        }
    }

    /// Whether this is one of them.
    #[inline]
    pub(crate) fn contain(&self, config: &LaunchConfig) -> bool {
        let (grid, block) = (config.grid_dim.x, config.block_dim.x);
        config.is_along_x()
            && config.cluster_dim == Dim3::new(1, 1, 1)
            && !config.cooperative
            && (1..=self.blocks).contains(&grid)
            && (1..=self.threads).contains(&block)
            && config.shared_bytes <= self.shared_bytes
    }
}

/// Checks sizes of grid and block, and the block's shared memory; gives the block's threads.
pub(crate) fn check_block(config: &LaunchConfig, kernel: &LoadedKernel, device: &Device) -> Result<u32, LaunchError> {
    let limits = device.limits();
    let (grid, block) = (config.grid_dim, config.block_dim);
    let name = || kernel.path().to_owned();
    let dimensions = [
        ("block_dim.x", block.x, limits.max_block_dim.x),
        ("block_dim.y", block.y, limits.max_block_dim.y),
        ("block_dim.z", block.z, limits.max_block_dim.z),
        ("grid_dim.x", grid.x, limits.max_grid_dim.x),
        ("grid_dim.y", grid.y, limits.max_grid_dim.y),
        ("grid_dim.z", grid.z, limits.max_grid_dim.z),
    ];
    for (dimension, requested, limit) in dimensions {
        if requested == 0 {
            return Err(LaunchError::ZeroDimension { kernel: name(), dimension });
        }
        // A block that is too large is named as a whole below: that is the limit people know.
        if requested > limit
            && (dimension.starts_with("grid") || block.count() <= u64::from(limits.max_threads_per_block))
        {
            return Err(LaunchError::DimensionTooLarge { kernel: name(), dimension, requested, limit });
        }
    }
    // Three 32-bit numbers may pass 64 bits together.
    let threads = u64::try_from(u128::from(block.x) * u128::from(block.y) * u128::from(block.z)).unwrap_or(u64::MAX);
    if threads > u64::from(limits.max_threads_per_block) {
        return Err(LaunchError::BlockTooLarge {
            kernel: name(),
            requested: threads,
            limit: limits.max_threads_per_block,
        });
    }
    check_kernel(config, kernel, threads)?;
    let fixed = kernel.fixed_shared_bytes();
    let dynamic = u64::from(config.shared_bytes);
    let (requested, limit) = (fixed + dynamic, u64::from(limits.max_shared_bytes));
    if requested > limit {
        return Err(LaunchError::SharedMemory { kernel: name(), requested, fixed, dynamic, limit });
    }
    Ok(u32::try_from(threads).expect("the block's size was checked above"))
}

/// Most blocks in a cluster that every GPU with clusters takes.
const MAX_CLUSTER_BLOCKS: u32 = 8;

/// Checks a launch's clusters.
fn check_cluster(config: &LaunchConfig, kernel: &LoadedKernel, device: &Device) -> Result<(), LaunchError> {
    let (grid, cluster) = (config.grid_dim, config.cluster_dim);
    if cluster == Dim3::new(1, 1, 1) {
        return Ok(());
    }
    let kernel = || kernel.path().to_owned();
    let dimensions = [
        ("cluster_dim.x", cluster.x, grid.x),
        ("cluster_dim.y", cluster.y, grid.y),
        ("cluster_dim.z", cluster.z, grid.z),
    ];
    for (dimension, blocks, _) in dimensions {
        if blocks == 0 {
            return Err(LaunchError::ZeroDimension { kernel: kernel(), dimension });
        }
    }
    let requested = u64::try_from(u128::from(cluster.x) * u128::from(cluster.y) * u128::from(cluster.z));
    let requested = requested.unwrap_or(u64::MAX);
    if requested > u64::from(MAX_CLUSTER_BLOCKS) {
        return Err(LaunchError::ClusterTooLarge { kernel: kernel(), requested, limit: MAX_CLUSTER_BLOCKS });
    }
    for (dimension, blocks, of_grid) in dimensions {
        if of_grid % blocks != 0 {
            return Err(LaunchError::ClusterShape { kernel: kernel(), dimension, cluster: blocks, grid: of_grid });
        }
    }
    match device.capability() {
        Some(capability) if capability.major < 9 => {
            Err(LaunchError::NoClusters { kernel: kernel(), device: device.to_string(), capability })
        }
        _ => Ok(()),
    }
}

/// Checks that all blocks of a grid can be resident at once.
fn check_cooperative(
    config: &LaunchConfig,
    kernel: &LoadedKernel,
    device: &Device,
    threads: u64,
) -> Result<(), LaunchError> {
    let threads_u32 = u32::try_from(threads).expect("a block's size was checked before");
    let mut is_executors = false;
    let limit = match kernel.gpu() {
        None => {
            let own = cpu::resident_blocks(threads_u32);
            let shared = kernel.fixed_shared_bytes() + u64::from(config.shared_bytes);
            let of_gpu = device.profile().map_or(u64::MAX, |profile| profile.resident_blocks(threads_u32, shared));
            is_executors = own < of_gpu;
            own.min(of_gpu)
        }
        Some(code) => {
            let shape = config.shape();
            let resident = if shape.is_clustered() {
                let clusters = code.function.resident_clusters(&shape);
                clusters.map(|clusters| u64::from(clusters) * config.cluster_dim.count())
            } else {
                let each = code.function.resident_blocks(threads_u32, config.shared_bytes);
                each.map(|each| u64::from(each) * u64::from(device.limits().multiprocessors))
            };
            resident.map_err(|source| LaunchError::Driver {
                kernel: kernel.path().to_owned(),
                config: Box::new(*config),
                source,
            })?
        }
    };
    // No dimension is over 2^31, so only the product of all three may wrap, and then x and y alone are past every limit.
    let grid = config.grid_dim;
    let requested = u64::try_from(u128::from(grid.x) * u128::from(grid.y) * u128::from(grid.z)).unwrap_or(u64::MAX);
    if requested > limit {
        let (kernel, device) = (kernel.path().to_owned(), device.to_string());
        let reason = if is_executors { cpu::why_no_more(requested, threads_u32) } else { String::new() };
        return Err(LaunchError::CooperativeTooLarge { kernel, device, requested, threads, limit, reason });
    }
    Ok(())
}

/// Checks a block against the kernel's own bounds.
fn check_kernel(config: &LaunchConfig, kernel: &LoadedKernel, threads: u64) -> Result<(), LaunchError> {
    let options = &kernel.desc().options;
    let [x, y, z] = options.block;
    let compiled = Dim3 { x, y, z };
    if options.block != [0; 3] && compiled != config.block_dim {
        let kernel = kernel.path().to_owned();
        return Err(LaunchError::BlockShape { kernel, requested: config.block_dim, compiled });
    }
    let too_large = |limit, reason| {
        Err(LaunchError::BlockTooLargeForKernel { kernel: kernel.path().to_owned(), requested: threads, limit, reason })
    };
    if options.max_threads != 0 && threads > u64::from(options.max_threads) {
        return too_large(options.max_threads, "`#[kernel(max_threads = ..)]`".to_owned());
    }
    match kernel.gpu() {
        Some(code) if threads > u64::from(code.max_threads) => {
            too_large(code.max_threads, format!("each thread uses {} registers", code.registers))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gets_enough_threads_and_no_block_more() {
        for len in [1, 255, 256, 257, 1 << 20, (1 << 20) + 1, u32::MAX as usize, 1 << 40, (1 << 44) + 7] {
            let config = LaunchConfig::for_len(len);
            let (grid, block) = (config.grid_dim(), config.block_dim());
            assert!(grid.x <= i32::MAX as u32 && grid.y <= 65_535 && grid.z == 1, "{len}: {grid}");
            let threads = grid.count() * block.count();
            assert!(threads >= len as u64, "{len}");
            // A grid of several rows rounds up to whole rows.
            assert!(threads - (len as u64) < u64::from(grid.y) * block.count(), "{len}");
        }
        assert!(LaunchConfig::for_len(0).is_empty());
        assert!(!LaunchConfig::for_len(1).is_empty());
    }

    #[test]
    fn shapes_are_covered_in_every_dimension() {
        for (width, height, depth) in [(1, 1, 1), (32, 8, 2), (33, 9, 3), (1000, 7, 5)] {
            let config = LaunchConfig::for_3d(width, height, depth);
            let (grid, block) = (config.grid_dim(), config.block_dim());
            for (elements, blocks, threads) in
                [(width, grid.x, block.x), (height, grid.y, block.y), (depth, grid.z, block.z)]
            {
                assert_eq!(blocks as usize, elements.div_ceil(threads as usize));
            }
        }
        assert!(LaunchConfig::for_2d(0, 5).is_empty() && LaunchConfig::for_2d(5, 0).is_empty());
        assert!(LaunchConfig::for_3d(5, 5, 0).is_empty());
        assert_eq!(LaunchConfig::for_2d(usize::MAX, 1).grid_dim().x, u32::MAX);
    }
}

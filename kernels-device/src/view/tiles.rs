//! `N` rows a thread in two dimensions: a block's tile is `N` times as high as the block, in place or transposed.

use super::{OwnershipMap, Plane, sealed};
use crate::abi::{KernelValue, fold_layout, leaf_layout};
use crate::index::{Stamp, block_dim, block_idx, grid_dim, thread_idx};

/// Most rows of a thread: with grids of at most 65 535 blocks along y and z, no row number wraps around.
const MOST_ROWS: usize = 1 << 12;

/// `block * dim + thread` along z, and then along y: layers of a grid or block follow each other.
#[inline]
#[cfg_attr(not(warpsmith_device), track_caller)]
fn block_row() -> u64 {
    let (block, grid, dim) = (block_idx(), grid_dim(), block_dim());
    let layer = u64::from(block.z).wrapping_mul(u64::from(dim.z)).wrapping_add(u64::from(thread_idx().z));
    layer.wrapping_mul(u64::from(grid.y)).wrapping_add(u64::from(block.y))
}

macro_rules! tiles {
    ($(
        $(#[$docs:meta])*
        $map:ident, $witness:ident, $make:ident, column block $column:expr, row block $row:expr;
    )*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub struct $map<const N: usize> {
            plane: Plane,
        }

        impl<const N: usize> $map<N> {
            /// The shape.
            #[inline]
            #[must_use]
            pub const fn plane(&self) -> Plane {
                self.plane
            }
        }

        impl<const N: usize> From<Plane> for $map<N> {
            fn from(plane: Plane) -> Self {
                Self { plane }
            }
        }

        #[doc = concat!("A witness of one of a thread's own elements under [`", stringify!($map), "`].")]
        #[derive(Debug)]
        pub struct $witness<const N: usize> {
            x: usize,
            y: usize,    // Invariant: the thread's first row.
            step: usize, // Invariant: rows of a block.
            nth: usize,  // Invariant: below N.
            stamp: Stamp,
        }

        impl<const N: usize> $witness<N> {
            /// Column.
            #[inline]
            #[must_use]
            pub fn x(&self) -> usize {
                self.x
            }

            /// Row.
            #[inline]
            #[must_use]
            pub fn y(&self) -> usize {
                self.y.wrapping_add(self.nth.wrapping_mul(self.step))
            }

            /// Which of the thread's elements this is: its row in the tile is `thread_idx().y + nth * block_dim().y`.
            #[inline]
            #[must_use]
            pub fn number(&self) -> usize {
                self.nth
            }

            /// A witness of the thread's element number `nth`.
            ///
            /// # Panics
            /// When `nth` is not below `N`.
            #[inline]
            #[must_use]
            #[cfg_attr(not(warpsmith_device), track_caller)]
            pub fn nth(&self, nth: usize) -> Self {
                assert!(nth < N, "element {nth} of {N}");
                Self { nth, ..*self }
            }

            /// Witnesses of all the thread's elements, from the first row on.
            #[inline]
            pub fn elements(&self) -> impl Iterator<Item = Self> + use<N> {
                let (x, y, step, stamp) = (self.x, self.y, self.step, self.stamp);
                (0..N).map(move |nth| Self { x, y, step, nth, stamp })
            }
        }

        #[doc = concat!("A witness of the thread's own elements under [`", stringify!($map), "`], at the first of them.")]
        #[inline]
        #[must_use]
        #[cfg_attr(not(warpsmith_device), track_caller)]
        pub fn $make<const N: usize>() -> $witness<N> {
            const { assert!(N > 0 && N <= MOST_ROWS, "a thread has from 1 to 4096 elements") };
            let (thread, dim): (_, _) = (thread_idx(), block_dim());
            let (column, row): (u64, u64) = ($column, $row);
            let x = column.wrapping_mul(u64::from(dim.x)).wrapping_add(u64::from(thread.x));
            let y = row.wrapping_mul(N as u64).wrapping_mul(u64::from(dim.y)).wrapping_add(u64::from(thread.y));
            $witness { x: x as usize, y: y as usize, step: dim.y as usize, nth: 0, stamp: Stamp::now() }
        }

        impl<const N: usize> sealed::Witness for $witness<N> {
            #[inline]
            fn stamp(&self) -> Stamp {
                self.stamp
            }
        }

        // SAFETY: lengths, no address.
        unsafe impl<const N: usize> KernelValue for $map<N> {
            const LAYOUT: u64 = fold_layout(fold_layout(leaf_layout::<Self>(stringify!($map)), N as u64), Plane::LAYOUT);
        }

        // SAFETY: the place tells the block (one of its coordinates from the column, the other from the row), the thread
        // in it and `nth`, and nothing wraps around; different places are different elements, as for `Plane`.
        unsafe impl<const N: usize> OwnershipMap for $map<N> {
            type Index = $witness<N>;
            const FITS: bool = true;

            #[inline]
            fn element(&self, index: &$witness<N>) -> Option<usize> {
                self.plane.place(index.x(), index.y())
            }
        }
    )*};
}

tiles! {
    /// A [`Plane`] cut into tiles as wide as a block and `N` times as high, of which block `(x, y)` owns the tile in
    /// column `x` and row `y`, and each thread every `block_dim().y`-th element of a column. Witness: [`tile_idx`].
    ///
    /// Blocks of `(x, y)` threads cover a plane in a grid of `(width.div_ceil(x), height.div_ceil(N * y))`. A launch argument is
    /// `buffer.plane_mut(width, height)?`, as for [`Plane`].
    ///
    /// # Examples
    /// ```
    /// use warpsmith_device::{GridSliceMut, SliceViews, Tiles, tile_idx};
    ///
    /// /// The mean of each element and its right neighbour, four rows a thread.
    /// fn smooth(x: &[f32], mut y: GridSliceMut<f32, Tiles<4>>) {
    ///     let plane = y.map().plane();
    ///     let x = x.plane(plane.width(), plane.height());
    ///     for place in tile_idx::<4>().elements() {
    ///         if let Some(y) = y.get_mut(&place) {
    ///             let (column, row) = (place.x() as i32, place.y() as i32);
    ///             *y = (x.clamped(column, row) + x.clamped(column + 1, row)) / 2.0;
    ///         }
    ///     }
    /// }
    /// ```
    Tiles, TileIdx, tile_idx, column block u64::from(block_idx().x), row block block_row();
    /// As [`Tiles`], but block `(x, y)` owns the tile in column `y` and row `x`: where a transposed matrix has the block's
    /// tile. Tiles are square where `block_dim().x == N * block_dim().y`. Witness: [`transposed_tile_idx`].
    TransposedTiles, TransposedTileIdx, transposed_tile_idx, column block block_row(), row block u64::from(block_idx().x);
}

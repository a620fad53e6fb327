//! What `#[derive(KernelValue)]` hashes: types that differ in anything that matters have different layouts.
#![forbid(unsafe_code)]
#![allow(dead_code, reason = "the types are only measured")]

use std::marker::PhantomData;

use warpsmith::prelude::*;

const fn layout<T: KernelValue>() -> u64 {
    <T as KernelValue>::LAYOUT
}

mod first {
    use warpsmith::prelude::*;

    #[derive(Clone, Copy, KernelValue)]
    pub(super) struct Point {
        x: f32,
        y: f32,
    }
}

mod second {
    use warpsmith::prelude::*;

    #[derive(Clone, Copy, KernelValue)]
    pub(super) struct Point {
        x: f32,
        y: f32,
    }
}

/// The same name with fields of other types, order, names or alignment.
macro_rules! variants {
    ($($module:ident { $($body:tt)* })*) => {
        $(
            mod $module {
                use warpsmith::prelude::*;

                #[derive(Clone, Copy, KernelValue)]
                $($body)*

                pub(super) const LAYOUT: u64 = super::layout::<Shape>();
            }
        )*

        fn layouts() -> Vec<(&'static str, u64)> {
            vec![$((stringify!($module), $module::LAYOUT)),*]
        }
    };
}

variants! {
    unit { struct Shape; }
    named { struct Shape { x: f32, y: u32 } }
    swapped_types { struct Shape { x: u32, y: f32 } }
    swapped_names { struct Shape { y: f32, x: u32 } }
    renamed { struct Shape { x: f32, z: u32 } }
    other_type { struct Shape { x: f32, y: i32 } }
    one_more { struct Shape { x: f32, y: u32, z: () } }
    tuple { struct Shape(f32, u32); }
    aligned { #[repr(align(16))] struct Shape { x: f32, y: u32 } }
    in_order { #[repr(C)] struct Shape { x: u8, y: u32, z: u8 } }
    packed { #[repr(C, packed)] struct Shape { x: u8, y: u32, z: u8 } }
    packed_in_pairs { #[repr(C, packed(2))] struct Shape { x: u8, y: u32, z: u8 } }
    nested { struct Shape { x: [f32; 2], y: Option<(u8, bool)> } }
    nested_longer { struct Shape { x: [f32; 3], y: Option<(u8, bool)> } }
    choice { enum Shape { A, B } }
    choice_swapped { enum Shape { B, A } }
    choice_from_one { enum Shape { A = 1, B } }
    choice_negative { enum Shape { A = -1, B } }
    choice_computed { enum Shape { A = 1 << 4, B = WIDE } const WIDE: isize = 40; }
    choice_wide { #[repr(u64)] enum Shape { A, B } }
    choice_top { #[repr(u64)] enum Shape { A = u64::MAX - 1, B } }
    with_data { enum Shape { A, B(u32), C { x: f32 } } }
    with_other_data { enum Shape { A, B(i32), C { x: f32 } } }
    with_renamed_data { enum Shape { A, B(u32), C { y: f32 } } }
    with_numbered_data { #[repr(u8)] enum Shape { A = 3, B(u32), C { x: f32 } = 9 } }
    never { enum Shape {} }
}

#[test]
fn layouts_differ_where_types_do() {
    let layouts = layouts();
    for (i, (name, layout)) in layouts.iter().enumerate() {
        for (other_name, other) in &layouts[..i] {
            assert_ne!(layout, other, "{name} and {other_name}");
        }
    }
}

#[test]
fn layouts_agree_where_types_do() {
    assert_eq!(layout::<first::Point>(), layout::<second::Point>());
}

#[derive(Clone, Copy, KernelValue)]
struct Matrix<T, const ROWS: usize, const COLUMNS: usize> {
    cells: [[T; COLUMNS]; ROWS],
}

trait Storage: Copy {
    type Cell: Copy;
}

#[derive(Clone, Copy)]
struct Bytes;
impl Storage for Bytes {
    type Cell = u8;
}

/// `S` is not plain data itself; what it names is.
#[derive(Clone, Copy, KernelValue)]
struct Stored<S: Storage>
where
    S::Cell: PartialEq,
{
    cell: S::Cell,
    qualified: <S as Storage>::Cell,
    marker: PhantomData<fn() -> S>,
}

#[derive(Clone, Copy, KernelValue)]
enum Either<L, R> {
    Left(L),
    Right { right: R },
}

#[derive(Clone, Copy, KernelValue)]
struct r#Raw {
    r#type: u8,
}

#[test]
fn generic_types_cross() {
    let layouts = [
        layout::<Matrix<f32, 2, 3>>(),
        layout::<Matrix<f32, 3, 2>>(),
        layout::<Matrix<u32, 2, 3>>(),
        layout::<Stored<Bytes>>(),
        layout::<Either<u8, u16>>(),
        layout::<Either<u16, u8>>(),
        layout::<Either<Matrix<u8, 1, 1>, Raw>>(),
        layout::<Raw>(),
    ];
    for (i, layout) in layouts.iter().enumerate() {
        assert!(!layouts[..i].contains(layout), "{i}");
    }
}

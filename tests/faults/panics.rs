//! Every way to panic.

use std::cell::RefCell;
use std::collections::BTreeMap;

use warpsmith_tests::{fault, zero};

fault! {
    fn index_of_an_array(x: u64) -> u64 {
        let values = [3, 1, 4, 1, 5];
        values[x as usize]
    }
    trips on: 70, passes: 2
}

fault! {
    fn index_of_a_slice(x: u64) -> u64 {
        fn at(values: &[u64], i: usize) -> u64 {
            values[i]
        }
        let values = [x; 9];
        at(&values[..5], x as usize)
    }
    trips on: 5, passes: 4
}

fault! {
    fn index_of_a_vec(x: u64) -> u64 {
        let values: Vec<u64> = (0..10).collect();
        values[x as usize]
    }
    trips on: 1 << 40, passes: 9
}

fault! {
    fn range_end(x: u64) -> u64 {
        [1u64, 2, 3][..x as usize].iter().sum()
    }
    trips on: 4, passes: 3
}

fault! {
    fn range_order(x: u64) -> u64 {
        let values = [1u64, 2, 3, 4];
        values[x as usize..2].iter().sum()
    }
    trips on: 3, passes: 1
}

fault! {
    fn store_out_of_bounds(x: u64) -> u64 {
        let mut values = [0u64; 4];
        values[x as usize] = 7;
        values[3] + 1
    }
    trips on: 4, passes: 3
}

fault! {
    fn division_by_zero(x: u64) -> u64 {
        100 / (x as u32) as u64
    }
    trips on: 0, passes: 3
}

fault! {
    fn remainder_by_zero(x: u64) -> u64 {
        (100i16 % x as i16) as u64
    }
    trips on: 0, passes: 7
}

fault! {
    fn division_that_overflows(x: u64) -> u64 {
        (i32::MIN / x as i32) as u64
    }
    trips on: u64::MAX, passes: 2
}

fault! {
    fn case_e7_unwrap_of_none(x: u64) -> u64 {
        x.checked_sub(5).unwrap()
    }
    trips on: 4, passes: 5
}

fault! {
    fn expect_of_none(x: u64) -> u64 {
        [1u64, 2, 3].get(x as usize).copied().expect("the table has three entries")
    }
    trips on: 3, passes: 0
}

fault! {
    fn unwrap_of_an_error(x: u64) -> u64 {
        fn odd(x: u64) -> Result<u64, u32> {
            if x % 2 == 1 { Ok(x) } else { Err(x as u32) }
        }
        odd(x).unwrap()
    }
    trips on: 4, passes: 5
}

fault! {
    fn many_values_of_many_types(x: u64) -> u64 {
        let wide = (u128::from(x) << 70) + 1;
        let half = half::f16::from_f32(x as f32 / 4.0);
        assert!(x < 7, "{x} {wide:#x} {:>+20} {:08.3} {half} {}", -(wide as i128), x as f64 / 3.0, x == 9);
        x
    }
    trips on: 9, passes: 5
}

fault! {
    fn more_values_than_a_record_holds(x: u64) -> u64 {
        let y = x + 1;
        assert!(x < 7, "{x} {y} {x:x} {y:e} {x:b} {y:o} {x:?} {y:#?} {x} {y}");
        x
    }
    trips on: 9, passes: 5, on a GPU says: "9 10 9 1e1 1001 12 9 10 _ _"
}

fault! {
    fn wide_integers_that_differ(x: u64) -> u64 {
        let wide = u128::from(x) << 64;
        assert_eq!(wide, 1 << 66, "after {x} steps");
        x
    }
    trips on: 5, passes: 4
}

fault! {
    fn expect_of_an_error(x: u64) -> u64 {
        u64::from(u8::try_from(x).expect("a byte"))
    }
    trips on: 256, passes: 255, on a GPU says: "a byte: _"
}

fault! {
    fn panic_with_text(x: u64) -> u64 {
        if x == 3 {
            panic!("three is not allowed");
        }
        x
    }
    trips on: 3, passes: 4
}

fault! {
    fn panic_with_braces_and_text(x: u64) -> u64 {
        if x == 3 {
            panic!("{{x}} is 100 % {}", "wrong");
        }
        x
    }
    trips on: 3, passes: 4
}

fault! {
    fn panic_with_placeholders_of_every_form(x: u64) -> u64 {
        if x > 1000 {
            let third = x as f64 / 3.0;
            panic!("{:08x} {:#X} {:>+9} {third:.2}", x as u32, x, x as i16);
        }
        x
    }
    trips on: 1001, passes: 1000
}

fault! {
    fn panic_with_integers(x: u64) -> u64 {
        if x > 1000 {
            panic!("x = {x}, low byte {}, negative {}, hex {:x}", x as u8, -(x as i16), x as u32);
        }
        x
    }
    trips on: 1001, passes: 1000
}

fault! {
    fn panic_with_floats(x: u64) -> u64 {
        let value = x as f64 / 4.0;
        if value > 10.0 {
            panic!("{value} is too large, as is {}", value as f32 * 0.1);
        }
        x
    }
    trips on: 41, passes: 40
}

fault! {
    fn panic_with_bool_and_char(x: u64) -> u64 {
        if x == 97 {
            panic!("{} {} {:?}", x > 5, x as u8 as char, x as u8 as char);
        }
        x
    }
    trips on: 97, passes: 40
}

fault! {
    fn assert_plain(x: u64) -> u64 {
        assert!(x < 10);
        x
    }
    trips on: 10, passes: 9
}

fault! {
    fn assert_with_values(x: u64) -> u64 {
        assert!(x < 10, "{x} is not below {}", 10);
        x
    }
    trips on: 10, passes: 9
}

fault! {
    fn assert_equal(x: u64) -> u64 {
        assert_eq!(x % 7, 3);
        x
    }
    trips on: 11, passes: 10
}

fault! {
    fn assert_not_equal(x: u64) -> u64 {
        assert_ne!(x as i32, -1, "minus one");
        x
    }
    trips on: u64::MAX, passes: 10
}

fault! {
    fn unreachable_code(x: u64) -> u64 {
        match x % 3 {
            0 => 5,
            1 => 6,
            _ => unreachable!("{} has remainder two", x),
        }
    }
    trips on: 8, passes: 7
}

fault! {
    fn not_yet_implemented(x: u64) -> u64 {
        if x == 0 { todo!() } else { x }
    }
    trips on: 0, passes: 7
}

fault! {
    fn inside_a_callee_that_tracks_its_caller(x: u64) -> u64 {
        #[track_caller]
        fn positive(x: i64) -> u64 {
            if x <= 0 {
                panic!("{x} is not positive");
            }
            x as u64
        }
        positive(x as i64 - 5)
    }
    trips on: 2, passes: 7
}

fault! {
    fn refcell_borrowed_twice(x: u64) -> u64 {
        let cell = RefCell::new(x);
        let held = cell.borrow();
        if x == 9 {
            *cell.borrow_mut() = 3;
        }
        *held
    }
    trips on: 9, passes: 8
}

fault! {
    fn copy_of_unequal_lengths(x: u64) -> u64 {
        let mut target = [0u64; 4];
        target[..x as usize].copy_from_slice(&[1, 2, 3]);
        target[2]
    }
    trips on: 2, passes: 3
}

fault! {
    fn split_past_the_end(x: u64) -> u64 {
        let values = [1u64, 2, 3];
        let (left, right) = values.split_at(x as usize);
        left.len() as u64 * 10 + right.len() as u64
    }
    trips on: 4, passes: 1
}

fault! {
    fn chunks_of_zero(x: u64) -> u64 {
        [1u64, 2, 3].chunks(x as usize).count() as u64
    }
    trips on: 0, passes: 2
}

fault! {
    fn step_of_zero(x: u64) -> u64 {
        (0..10u64).step_by(x as usize).sum()
    }
    trips on: 0, passes: 3
}

fault! {
    fn capacity_overflow(x: u64) -> u64 {
        Vec::<u64>::with_capacity((x as usize).wrapping_sub(1)).capacity() as u64
    }
    trips on: 0, passes: 5
}

fault! {
    fn removal_past_the_end(x: u64) -> u64 {
        vec![1, 2, 3].remove(x as usize)
    }
    trips on: 3, passes: 1
}

fault! {
    fn missing_key(x: u64) -> u64 {
        let map = BTreeMap::from([(1u64, 10u64), (2, 20)]);
        map[&x]
    }
    trips on: 3, passes: 1
}

fault! {
    fn logarithm_of_zero(x: u64) -> u64 {
        x.ilog2().into()
    }
    trips on: 0, passes: 9
}

fault! {
    fn clamp_with_bounds_in_the_wrong_order(x: u64) -> u64 {
        5u64.clamp(x, 10)
    }
    trips on: 11, passes: 9
}

fault! {
    fn case_l3_inside_sort_by(x: u64) -> u64 {
        let mut values: Vec<u64> = (0..30).map(|i| i * 7 % 30).collect();
        values.sort_by(|a, b| {
            if *a == x {
                panic!("met {a}");
            }
            a.cmp(b)
        });
        values[3]
    }
    trips on: 11, passes: 99
}

fault! {
    fn case_l3_inside_drop(x: u64) -> u64 {
        struct Fuse(u64);
        impl Drop for Fuse {
            fn drop(&mut self) {
                assert!(self.0 != 13, "dropped at {}", self.0);
            }
        }
        let fuse = Fuse(x);
        fuse.0 + 1
    }
    trips on: 13, passes: 12
}

fault! {
    fn case_l3_inside_map(x: u64) -> u64 {
        (0..10u64).map(|i| 100 / (x.wrapping_sub(i) | zero(x))).sum()
    }
    trips on: 4, passes: 20
}

fault! {
    fn case_e6_inside_a_trait_object(x: u64) -> u64 {
        let check: &dyn Fn(u64) -> u64 = if x % 2 == 0 { &|v| v / 2 } else { &|v| panic!("{v} is odd") };
        check(x)
    }
    trips on: 7, passes: 8
}

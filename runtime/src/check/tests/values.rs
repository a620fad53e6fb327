//! Arithmetic that was asked for: overflow, lossy casts, numbers that are not finite.

use warpsmith_device::thread_idx;

use super::*;

#[test]
fn arithmetic_is_reported_where_it_was_asked_for() {
    let kernel = || {
        if thread_idx().x == 3 {
            // SAFETY: a checked launch runs.
            unsafe {
                __warpsmith_check_overflow(at::SUM, 1, 1);
                __warpsmith_check_overflow(at::PRODUCT, 0, 0);
                __warpsmith_check_non_finite(at::DIVISION, f64::INFINITY, 1.0, 0.0, 0.0, 2);
            }
        }
    };
    let rules = |options| {
        let launch = Launch { options, ..launch(1, 32) };
        launch.find(&[], kernel).iter().map(|finding| finding.rule).collect::<Vec<_>>()
    };
    let none = CheckOptions::new();
    assert_eq!(rules(none), []);
    assert_eq!(rules(none.overflow(true)), [CheckRule::Overflow; 2]);
    assert_eq!(rules(none.lossy_casts(true)), []);
    assert_eq!(rules(none.non_finite(true)), [CheckRule::NonFinite]);
}

#[test]
fn a_number_that_is_not_finite_is_reported_where_it_comes_from() {
    let finding = launch(1, 32).caught(CheckRule::NonFinite, &[], || {
        // SAFETY: a checked launch runs.
        unsafe { __warpsmith_check_non_finite(at::DIVISION, f64::NAN, 0.0, 0.0, 0.0, 2) };
    });
    assert_eq!(finding.side.action, "computes a division of 0.0 and 0.0, which is NaN");
    for operands in [[f64::NAN, 1.0], [1.0, f64::INFINITY], [f64::NEG_INFINITY, 0.0]] {
        launch(1, 32).clean(&[], || {
            // SAFETY: as above.
            unsafe { __warpsmith_check_non_finite(at::DIVISION, f64::NAN, operands[0], operands[1], 0.0, 2) };
        });
    }
    assert_eq!(finding.message, "the first of the launch");
    // The second operand of an operation on one is none.
    launch(1, 1).caught(CheckRule::NonFinite, &[], || {
        // SAFETY: as above.
        unsafe { __warpsmith_check_non_finite(at::DIVISION, f64::INFINITY, 1000.0, f64::NAN, 0.0, 1) };
    });
}

#[test]
fn only_the_first_number_that_is_not_finite_is_called_the_first() {
    let found = launch(1, 2).find(&[], || {
        for place in [at::DIVISION, at::LOAD] {
            // SAFETY: a checked launch runs.
            unsafe { __warpsmith_check_non_finite(place, f64::INFINITY, f64::from(f32::MAX), 10.0, 0.0, 2) };
        }
    });
    let told: Vec<_> = found.iter().map(|finding| (finding.message.as_str(), finding.count)).collect();
    assert_eq!(told, [("the first of the launch", 2), ("", 2)]);
    // The place is one of `f32`.
    assert_eq!(found[0].side.action, "computes a division of 3.4028235e38 and 10.0, which is inf");
}

#[test]
fn an_overflow_tells_its_operands_and_where_a_library_has_it() {
    let finding = launch(1, 1).caught(CheckRule::Overflow, &[], || {
        // SAFETY: a checked launch runs.
        unsafe { __warpsmith_check_overflow(at::SUM, i32::MAX as u64, u64::from(-1i32 as u32)) };
    });
    let told = "overflows in 2147483647i32 + -1i32 at kernel.rs:112:5 (in core/src/num/mod.rs:3) in `kernel`";
    assert!(finding.to_string().ends_with(told), "{finding}");
    let finding = launch(1, 1).caught(CheckRule::Overflow, &[], || {
        // SAFETY: as above.
        unsafe { __warpsmith_check_overflow(at::PRODUCT, 0, 0) };
    });
    assert_eq!(finding.side.action, "overflows in mul");
}

#[test]
fn three_operands_are_all_looked_at() {
    let fused = |c: f64| {
        move || {
            // SAFETY: a checked launch runs.
            unsafe { __warpsmith_check_non_finite(at::DIVISION, f64::INFINITY, 2.0, 3.0, c, 3) };
        }
    };
    let finding = launch(1, 1).caught(CheckRule::NonFinite, &[], fused(4.0));
    assert_eq!(finding.side.action, "computes a division of 2.0, 3.0 and 4.0, which is inf");
    launch(1, 1).clean(&[], fused(f64::INFINITY));
}

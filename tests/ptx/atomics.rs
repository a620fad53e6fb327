//! The instructions that atomics become: order, scope, address space, and `red` where nothing looks at the value before.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use half::{bf16, f16};
use warpsmith::atomic::{BlockScope, DeviceScope, SystemScope};
use warpsmith::prelude::*;
use warpsmith::shared;
use warpsmith_tests::ptx;

/// The standard library's integers in every order, with the values before.
#[kernel]
fn of_the_standard_library(n: &AtomicU32, seen: &AtomicU32) {
    let mut sum = n.fetch_add(1, Ordering::Relaxed);
    sum ^= n.fetch_sub(2, Ordering::Acquire);
    sum ^= n.fetch_max(3, Ordering::Release);
    sum ^= n.fetch_or(4, Ordering::AcqRel);
    sum ^= n.swap(5, Ordering::SeqCst);
    sum ^= n.compare_exchange(6, 7, Ordering::AcqRel, Ordering::Relaxed).unwrap_or(8);
    sum ^= n.load(Ordering::Acquire);
    seen.store(sum, Ordering::Release);
}

#[test]
fn atomics_of_the_standard_library_are_for_the_system_in_their_order() {
    ptx::of(module_path!(), "of_the_standard_library")
        .check("atom.relaxed.sys.global.add.u32")
        .check("atom.acquire.sys.global.add.u32")
        .check("atom.release.sys.global.max.u32")
        .check("atom.acq_rel.sys.global.or.b32")
        .check("fence.sc.sys;\n\tatom.acquire.sys.global.exch.b32")
        .check("atom.acq_rel.sys.global.cas.b32")
        .check("ld.acquire.sys.global.b32")
        .check("st.release.sys.global.b32");
}

/// The same without a look at the values before.
#[kernel]
fn unused(n: &AtomicU32, wide: &AtomicI64) {
    n.fetch_add(1, Ordering::Relaxed);
    n.fetch_and(2, Ordering::Release);
    n.fetch_xor(3, Ordering::AcqRel);
    n.device().fetch_inc(4, Ordering::Relaxed);
    wide.fetch_min(5, Ordering::Relaxed);
    wide.block().fetch_max(6, Ordering::Relaxed);
}

#[test]
fn unused_results_are_reductions() {
    ptx::of(module_path!(), "unused")
        .check("red.relaxed.sys.global.add.u32")
        .check("red.release.sys.global.and.b32")
        // `red` cannot acquire.
        .check("atom.acq_rel.sys.global.xor.b32")
        .check("red.relaxed.gpu.global.inc.u32")
        .check("red.relaxed.sys.global.min.s64")
        .check("red.relaxed.cta.global.max.s64");
}

/// Bytes and pairs of bytes.
#[kernel]
fn narrow(bytes: &[AtomicU8], short: &AtomicU16, seen: &AtomicU32) {
    let mut sum = u32::from(bytes[1].fetch_or(1, Ordering::AcqRel));
    sum += u32::from(bytes[2].fetch_and(2, Ordering::Acquire));
    sum += u32::from(bytes[3].fetch_add(3, Ordering::Release));
    sum += u32::from(short.fetch_max(4, Ordering::AcqRel));
    sum += u32::from(short.compare_exchange(5, 6, Ordering::Acquire, Ordering::Acquire).unwrap_or(7));
    seen.store(sum, Ordering::Relaxed);
    bytes[0].store(8, Ordering::Release);
}

#[test]
fn narrow_integers_keep_order_and_scope() {
    ptx::of(module_path!(), "narrow")
        .check("atom.acq_rel.sys.global.or.b32")
        .check("atom.acquire.sys.global.and.b32")
        .check("atom.release.sys.global.cas.b32")
        .check("atom.acq_rel.sys.global.cas.b32")
        .check("atom.acquire.sys.global.cas.b16")
        .check("st.release.sys.global.b8")
        .check_not("atom.global");
}

/// Every operation on every integer, for the device.
#[kernel]
fn integers(a: &AtomicU32, b: &std::sync::atomic::AtomicI32, c: &AtomicU64, d: &AtomicI64, seen: &AtomicU64) {
    let mut sum = 0u64;
    macro_rules! each {
        ($($atomic:ident)*) => {$(
            let atomic = $atomic.device();
            sum ^= atomic.fetch_add(3, Ordering::Relaxed) as u64;
            sum ^= atomic.fetch_sub(4, Ordering::Acquire) as u64;
            sum ^= atomic.fetch_min(5, Ordering::Release) as u64;
            sum ^= atomic.fetch_max(6, Ordering::AcqRel) as u64;
            sum ^= atomic.fetch_and(7, Ordering::Relaxed) as u64;
            sum ^= atomic.fetch_or(8, Ordering::Relaxed) as u64;
            sum ^= atomic.fetch_xor(9, Ordering::Relaxed) as u64;
            sum ^= atomic.swap(10, Ordering::AcqRel) as u64;
            sum ^= atomic.compare_exchange(11, 12, Ordering::Release, Ordering::Acquire).unwrap_or(13) as u64;
            sum ^= atomic.load(Ordering::Acquire) as u64;
            atomic.store(14, Ordering::Release);
        )*};
    }
    each!(a b c d);
    sum ^= u64::from(a.block().fetch_inc(15, Ordering::AcqRel));
    sum ^= u64::from(a.system().fetch_dec(16, Ordering::SeqCst));
    seen.system().store(sum, Ordering::SeqCst);
}

#[test]
fn each_operation_is_one_instruction_with_its_scope() {
    let text = ptx::of(module_path!(), "integers");
    for (unsigned, signed, bits) in [("u32", "s32", "b32"), ("u64", "s64", "b64")] {
        text.check_count(&format!("atom.relaxed.gpu.global.add.{unsigned}"), 2)
            .check_count(&format!("atom.acquire.gpu.global.add.{unsigned}"), 2)
            .check(&format!("atom.release.gpu.global.min.{unsigned}"))
            .check(&format!("atom.release.gpu.global.min.{signed}"))
            .check(&format!("atom.acq_rel.gpu.global.max.{unsigned}"))
            .check(&format!("atom.acq_rel.gpu.global.max.{signed}"))
            .check_count(&format!("atom.relaxed.gpu.global.and.{bits}"), 2)
            .check_count(&format!("atom.relaxed.gpu.global.or.{bits}"), 2)
            .check_count(&format!("atom.relaxed.gpu.global.xor.{bits}"), 2)
            .check_count(&format!("atom.acq_rel.gpu.global.exch.{bits}"), 2)
            .check_count(&format!("atom.acq_rel.gpu.global.cas.{bits}"), 2)
            .check_count(&format!("ld.acquire.gpu.global.{bits}"), 2)
            .check_count(&format!("st.release.gpu.global.{bits}"), 2);
    }
    text.check("atom.acq_rel.cta.global.inc.u32")
        .check("fence.sc.sys;\n\tatom.acquire.sys.global.dec.u32")
        .check("st.release.sys.global.b64");
}

/// Floats of every size, in global memory and for the block in shared memory.
#[kernel]
fn floats(f: &AtomicF32, d: &AtomicF64, h: &AtomicF16, b: &AtomicBf16, hh: &AtomicF16x2, bb: &AtomicBf16x2) {
    let (one_h, one_b) = (f16::ONE, bf16::ONE);
    f.store(f.fetch_add(1.0, Ordering::Relaxed), Ordering::Relaxed);
    d.store(d.device().fetch_add(1.0, Ordering::AcqRel), Ordering::Relaxed);
    h.store(h.device().fetch_add(one_h, Ordering::Relaxed), Ordering::Relaxed);
    b.store(b.device().fetch_add(one_b, Ordering::Release), Ordering::Relaxed);
    hh.device().fetch_add(F16x2::new(one_h, one_h), Ordering::Relaxed);
    bb.device().fetch_add(Bf16x2::new(one_b, one_b), Ordering::Relaxed);
    let own = shared!(AtomicF32);
    // SAFETY: all threads store the same value, before the barrier.
    unsafe { own.write(AtomicF32::new(0.0)) };
    sync_threads();
    // SAFETY: written before the barrier, and an atomic from here on.
    let own = unsafe { &*own };
    own.block().fetch_add(f.load(Ordering::Relaxed), Ordering::Relaxed);
    let before = own.block().swap(2.0, Ordering::AcqRel);
    f.device().store(before + own.block().load(Ordering::Acquire), Ordering::Release);
}

#[test]
fn floats_are_added_by_the_hardware_where_it_can() {
    let all = |text: &ptx::Text| {
        text.check("atom.relaxed.sys.global.add.f32")
            .check("atom.acq_rel.gpu.global.add.f64")
            .check("atom.relaxed.gpu.global.add.noftz.f16")
            .check("red.relaxed.gpu.global.add.noftz.f16x2")
            .check("red.relaxed.cta.shared.add.f32")
            .check("atom.acq_rel.cta.shared.exch.b32")
            .check("ld.acquire.cta.shared.b32")
            .check("st.release.gpu.global.b32");
    };
    let text = ptx::of(module_path!(), "floats");
    all(&text);
    text.check("atom.release.gpu.global.add.noftz.bf16").check("red.relaxed.gpu.global.add.noftz.bf16x2");
    if let Some(text) = ptx::of_architecture(module_path!(), "floats", 75) {
        all(&text);
        text.check_not("bf16").check("atom.release.gpu.global.cas.b32").check("atom.relaxed.gpu.global.cas.b32");
    }
}

/// The larger of two floats, through integers.
#[kernel]
fn float_maximum(x: &f32, largest: &AtomicF32) {
    largest.device().fetch_max(*x, Ordering::Relaxed);
}

#[test]
fn float_extremes_take_one_instruction_of_integers() {
    ptx::of(module_path!(), "float_maximum")
        .check("atom.relaxed.gpu.global.max.s32")
        .check("atom.relaxed.gpu.global.min.u32")
        // For a NaN in memory.
        .check("atom.relaxed.gpu.global.cas.b32");
}

/// All fences there are.
#[kernel]
fn fences(n: &AtomicU32) {
    n.store(1, Ordering::Relaxed);
    warpsmith::atomic::fence::<BlockScope>(Ordering::Release);
    n.store(2, Ordering::Relaxed);
    warpsmith::atomic::fence::<DeviceScope>(Ordering::AcqRel);
    n.store(3, Ordering::Relaxed);
    warpsmith::atomic::fence::<SystemScope>(Ordering::SeqCst);
    n.store(4, Ordering::Relaxed);
    fence(Ordering::Acquire);
    n.store(5, Ordering::Relaxed);
}

#[test]
fn fences_name_order_and_scope() {
    ptx::of(module_path!(), "fences")
        .check("fence.acq_rel.cta;")
        .check("fence.acq_rel.gpu;")
        .check("fence.sc.sys;")
        .check("fence.acq_rel.sys;")
        .check_count("st.relaxed.sys.global.b32", 5);
}

/// An atomic that may be the thread's own.
#[kernel]
fn here_or_there(place: u32, count: &AtomicU32, seen: &AtomicU32) {
    let own = [const { AtomicU32::new(1) }; 2];
    let all = [&own[0], &own[1], count];
    let chosen = all[place as usize % 3];
    chosen.fetch_add(7, Ordering::Relaxed);
    seen.store(own[0].load(Ordering::Relaxed) + own[1].load(Ordering::Relaxed), Ordering::Relaxed);
}

#[test]
fn atomics_of_which_nothing_is_known_look_out_for_the_stack() {
    ptx::of(module_path!(), "here_or_there").check("isspacep.local").check("red.relaxed.sys.add.u32");
    // Where all is known there is nothing to look out for.
    ptx::of(module_path!(), "integers").check_not("isspacep");
}

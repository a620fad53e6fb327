//! Kernels that are `unsafe fn`: raw pointers, unchecked indices, and a launch that is `unsafe` too.

use warpsmith::prelude::*;

/// Writes through a pointer.
///
/// # Safety
/// `y` points to as many elements as the grid has threads, `x` to one.
#[kernel]
unsafe fn scatter(x: *const f32, y: *mut f32, scale: f32) {
    let i = global_idx();
    // SAFETY: the caller promises one element for each thread.
    unsafe { *y.add(i.get()) = scale * *x };
}

/// # Safety
/// `x` is as long as the grid has threads.
#[kernel(unchecked, max_threads = 64)]
unsafe fn copy<T: KernelValue>(x: &[T], mut y: GridSliceMut<T>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = x[i.get()];
    }
}

#[test]
fn pointers_are_passed_as_they_are() {
    let stream = Device::cpu().stream().expect("the executor has streams");
    let x = 3.0f32;
    let mut y = [0.0f32; 8];
    // SAFETY: eight threads, eight elements; the executor's device is the host.
    unsafe { scatter::launch(&stream, LaunchConfig::new(2, 4), &raw const x, y.as_mut_ptr(), 0.5) }
        .expect("a good launch");
    stream.synchronize().expect("no thread panicked");
    assert_eq!(y, [1.5; 8]);
}

#[test]
fn unchecked_kernels_compute_the_same() {
    let stream = Device::cpu().stream().expect("the executor has streams");
    let x = stream.to_device(&[1u16, 2, 3, 4]).expect("the executor has memory");
    let mut y = stream.to_device(&[0u16; 4]).expect("the executor has memory");
    // SAFETY: four threads, four elements.
    unsafe { copy::launch(&stream, LaunchConfig::new(1, 4), &x, &mut y) }.expect("a good launch");
    assert_eq!(stream.to_host(&y).expect("no thread panicked"), [1, 2, 3, 4]);
    // SAFETY: it is refused.
    let error = unsafe { copy::launch(&stream, LaunchConfig::new(1, 65), &x, &mut y) }.expect_err("over max_threads");
    assert!(error.to_string().contains("64"), "{error}");
}

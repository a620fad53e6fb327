//! Memory fences: order a thread's own reads and writes as others see them; they wait for no one.

/// Orders memory for the threads of the block. PTX: `membar.cta`.
#[inline(always)]
pub fn threadfence_block() {
    #[cfg(warpsmith_device)]
    crate::intrinsics::membar_cta();
    #[cfg(not(warpsmith_device))]
    {
        let _scope = crate::atomic::scope::Scoped::new(crate::atomic::code::BLOCK);
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }
}

/// Orders memory for all threads of the device. PTX: `membar.gl`.
#[inline(always)]
pub fn threadfence() {
    #[cfg(warpsmith_device)]
    crate::intrinsics::membar_gl();
    #[cfg(not(warpsmith_device))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// Orders memory for all threads of all devices and of the host. PTX: `membar.sys`.
#[inline(always)]
pub fn threadfence_system() {
    #[cfg(warpsmith_device)]
    crate::intrinsics::membar_sys();
    #[cfg(not(warpsmith_device))]
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

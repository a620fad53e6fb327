//! Names: of the target, of symbols as people write them, and of the functions the lowering and the device crate share.

/// The target that kernels are lowered to.
pub(super) const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Ties an entry to its description.
pub(super) const REGISTER: &str = "__warpsmith_register";
/// A static shared allocation.
pub(super) const SHARED: &str = "__warpsmith_shared";
/// The launch's dynamic shared memory.
pub(super) const DYNAMIC_SHARED: &str = "__warpsmith_dynamic_shared";
/// Prefix of the loads of what several threads may reach, by their bits: `(ptr) -> int`.
pub(super) const LOAD_RACING: &str = "__warpsmith_load_racing_";
/// Prefix of the stores to what several threads may reach, by their bits: `(ptr, int)`.
pub(super) const STORE_RACING: &str = "__warpsmith_store_racing_";
/// The words of the block's named barriers: `() -> ptr`.
pub(super) const NAMED_BARRIERS: &str = "__warpsmith_named_barriers";
/// Prefix of the special registers.
pub(super) const SPECIAL_REGISTER: &str = "__warpsmith_sreg_";
/// Records a panic and ends the thread: `(site, location, eight words of values) -> !`.
pub(super) const PANIC: &str = "__warpsmith_panic";
/// A place that prints: `(site, types) -> number`.
pub(super) const PRINT_SITE: &str = "__warpsmith_print_site";
/// What only the launch knows: the entry's hidden arguments, 0 the panic record's address, 1 the launch's id, 2 the bytes of
/// stack; and [`STACK_END`], [`ALONG_X`] and [`GRID_BARRIER`].
pub(super) const HIDDEN: &str = "__warpsmith_hidden";
/// How many hidden arguments an entry has.
pub(super) const HIDDEN_COUNT: u64 = 3;
/// The lowest address that the thread's stack may reach; computed at the kernel's start.
pub(super) const STACK_END: u64 = 3;
/// Whether the launch extends along x only: a constant, known when PTX is made.
pub(super) const ALONG_X: u64 = 4;
/// Whether the architecture is at least the argument: a constant, known when PTX is made.
pub(super) const ARCHITECTURE_AT_LEAST: &str = "__warpsmith_architecture_at_least";
/// The address of the launch's grid barrier: one more hidden argument, of kernels that ask for it.
pub(super) const GRID_BARRIER: u64 = 5;
/// Noted where the kernel asks which block a thread is in, or which thread of its block. No PTX comes of it.
pub(super) const PLACE_IN_BLOCK: u64 = 6;
/// Noted where the kernel asks for a thread's number in the grid. No PTX comes of it.
pub(super) const NUMBER_IN_GRID: u64 = 7;
/// Panics when the stack is about to end; called at the start of functions that may recurse.
pub(super) const CHECK_STACK: &str = "__warpsmith_check_stack";
/// Stands before a loop with a hint, and names it: `() -> u32`.
pub(super) const LOOP_BEFORE: &str = "__warpsmith_loop_before";
/// Stands in the loop's body: `(name, count)`, where 0 copies are as many as the loop has steps.
pub(super) const LOOP_UNROLL: &str = "__warpsmith_loop_unroll";
/// A condition with the value that is expected of it: `(condition, expected) -> condition`.
pub(super) const EXPECT: &str = "__warpsmith_expect";
/// Allocates device memory: `(size, align) -> ptr`.
pub(super) const ALLOCATE: &str = "__warpsmith_alloc";
/// Allocates zeroed device memory: `(size, align) -> ptr`.
pub(super) const ALLOCATE_ZEROED: &str = "__warpsmith_alloc_zeroed";
/// Frees device memory: `(ptr, size, align)`.
pub(super) const FREE: &str = "__warpsmith_dealloc";
/// Changes an allocation's size: `(ptr, size, align, new_size) -> ptr`.
pub(super) const REALLOCATE: &str = "__warpsmith_realloc";
/// Compares memory: `(ptr, ptr, len) -> i32`.
pub(super) const COMPARE: &str = "__warpsmith_memcmp";
/// Copies memory that may overlap: `(ptr, ptr, len) -> ptr`.
pub(super) const MOVE: &str = "__warpsmith_memmove";
/// Fills memory: `(ptr, byte, len) -> ptr`.
pub(super) const FILL: &str = "__warpsmith_memset";
/// Prefix of the atomic operations: `load`, `store`, `rmw` or `cas`, and the word's bits follow.
pub(super) const ATOMIC: &str = "__warpsmith_atomic_";
/// Length of a string that ends in zero.
pub(super) const STRING_LENGTH: &str = "__warpsmith_strlen";

/// Functions that later steps may call and that must survive until then.
pub(super) const DEVICE_RUNTIME: &[&str] = &[PANIC, CHECK_STACK];

/// A symbol as people write it, without hashes.
pub(super) fn demangle(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

//! The `#[kernel]` attribute and the derives of warpsmith; use them through the `warpsmith` crate.

mod casts;
mod check;
mod derive;
mod derive_any_bits;
mod derive_warp_value;
mod expand;
mod foreign;
mod loops;
mod parse;
mod print;
mod ptx;
mod targets;
mod testing;

#[cfg(test)]
mod expansion_tests;

use proc_macro::TokenStream;

/// Makes a function a kernel: it keeps working as a function, and gets a typed `launch` beside it.
///
/// `fn saxpy(..)` stays as written. In addition `saxpy::launch(&stream, config, ..)` starts it over a grid, on a GPU or
/// on the CPU executor, with one argument for each parameter of the function. An `unsafe fn` has an `unsafe` launch.
///
/// # Parameters
/// | parameter | argument of `launch` | meaning |
/// | --- | --- | --- |
/// | `a: T`, where `T: KernelValue` | `T` | plain data, copied to every thread |
/// | `x: &[T]`, where `T: DeviceElement` | `&DeviceBuffer<T>`, `DeviceSlice<T>` | device memory that all threads read |
/// | `x: &T` | `&DeviceBuffer<T>` | its first element |
/// | `y: GridSliceMut<T>` | `&mut DeviceBuffer<T>`, `DeviceSliceMut<T>` | device memory of which each thread writes its own elements |
/// | `y: GridSliceMut<T, Plane>`, also with `Tiles<N>`, `TransposedTiles<N>`, `Patches<R, C>` | `buffer.plane_mut(width, height)?` | the same, by column and row |
/// | `y: GridSliceMut<T, Volume>` | `buffer.volume_mut(width, height, depth)?` | the same in three dimensions |
/// | `x: &[F32x4]`, `y: GridSliceMut<F32x4>` and the like | `x.as_vectors()?`, `y.as_vectors_mut()?` of buffers of `f32` | the same, 16 bytes at a time |
/// | `n: &[AtomicU32]` and the like | `&mut DeviceBuffer<u32>`, `&DeviceBuffer<AtomicU32>` | device memory that all threads update |
/// | `p: *const T`, `p: *mut T` | the pointer | an address; only in an `unsafe fn` |
///
/// Type and constant generics, bounds and `where` clauses are those of the function, so `launch::<f32>(..)` works where
/// nothing else fixes the type.
///
/// # Options
/// `#[kernel(block = 256, contract)]`; numbers may be constants of type `u32`, and constant generics may take part.
///
/// | option | meaning |
/// | --- | --- |
/// | `block = X`, `block = (X, Y)`, `block = (X, Y, Z)` | compiled for exactly this block shape; a launch with another is refused |
/// | `max_threads = N` | most threads a block may have, at most 1024 |
/// | `min_blocks = N` | blocks that should fit on a multiprocessor at once; needs `block` or `max_threads` |
/// | `max_registers = N` | most registers a thread may use, at most 255 |
/// | `contract` | `a * b + c` may be fused into one rounding |
/// | `approx` | `f32` division and square root may be approximated, to 2 and 1 units in the last place; a quotient by more than 2^126 becomes 0 (PTX: `div.approx.f32`, `sqrt.approx.f32`) |
/// | `ftz` | subnormal `f32` operands and results become zero of their sign on a GPU (PTX: `.ftz`); the CPU executor keeps them |
/// | `opt_level = L` | 0, 1, 2, 3 (the default), or `"s"` for small code; at 0 hints on loops and branches have no effect |
/// | `fast_math` | float maths may be reassociated and approximated |
/// | `unchecked` | index checks are removed; only for an `unsafe fn` |
///
/// # Loops
/// A loop in the kernel may carry a hint, on a statement of its own; functions outside carry them under [`macro@loops`]:
///
/// | attribute | meaning |
/// | --- | --- |
/// | `#[unroll]` | as many copies of the body as the loop has steps, where the compiler can count them; else it stays a loop |
/// | `#[unroll(N)]` | `N` copies a turn, `N` a constant of type `u32`; what is left over gets a loop of its own |
/// | `#[no_unroll]` | one copy, and `ptxas` is asked to keep to it (PTX: `.pragma "nounroll"`) |
///
/// # Another name for the crate
/// What this writes names the crate `::warpsmith`. Where `Cargo.toml` gives it another name, `ws` for example, the crate's
/// root says `extern crate ws as warpsmith;`.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// /// Adds `a * x` to `y`.
/// #[kernel]
/// fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {
///     let i = global_idx();
///     if let Some(y) = y.get_mut(&i) {
///         *y += a * x[i.get()];
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let x = stream.to_device(&[1.0f32; 1000])?;
/// let mut y = stream.to_device(&[2.0f32; 1000])?;
/// saxpy::launch(&stream, LaunchConfig::for_len(x.len()), 3.0, &x, &mut y)?;
/// assert_eq!(stream.to_host(&y)?, [5.0; 1000]);
/// # Ok(())
/// # }
/// ```
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::kernel(options.into(), item.into()).into()
}

/// Makes a function a test that runs on several devices and compares what it gives.
///
/// The function takes the device and gives what is to be the same on each: `()`, a value with `PartialEq` and `Debug`, or a `Result` of
/// one of these, of which an error fails the test. It runs
///
/// 1. on the CPU executor as it is, blocks spread over the cores: what it gives there is what the other runs must give too;
/// 2. on the CPU executor under several schedules, each an order of blocks and threads that would show a missing barrier;
/// 3. on the checked executor under three schedules, if the program has code for it, as it has where a build script compiles the
///    test's package and does not say otherwise;
/// 4. on a GPU, where there is one.
///
/// A panic of the function, or of a kernel, fails the run it happens in. The report names each run that failed or differs, and the
/// command that makes it again.
///
/// What the function compares on its own, it compares in each run: it may give `()` and assert as other tests do.
///
/// # Options
/// `#[warpsmith::test(schedules = 20, tolerance = 1e-6)]`
///
/// | option | meaning |
/// | --- | --- |
/// | `schedules = N` | under how many schedules it runs, 6 unless given: `reversed`, `round-robin`, and random and adversarial ones in turns; with 0, one checked run is left of three |
/// | `tolerance = T` | floats may differ by `T`, and large ones by `T` of their size; the value has `warpsmith::testing::Compare`, as numbers, tuples, arrays and vectors do |
/// | `gpu = false`, `checked = false` | no runs there; `true` makes it a failure where there are none |
///
/// # Variables
/// | variable | meaning |
/// | --- | --- |
/// | `WARPSMITH_TEST_ONLY=random:42` | of the runs but the plain one only this: a schedule, `checked:` and a schedule, `gpu`, or `plain` |
/// | `WARPSMITH_TEST_SEED=7` | the first seed of the random and adversarial schedules, 1 unless set: other seeds try other orders |
/// | `WARPSMITH_REQUIRE_GPU=1` | a test that finds no GPU fails, instead of saying so and leaving it out |
/// | `WARPSMITH_CHECK=1` | the same for the checked executor |
/// | `WARPSMITH_DEVICE` | `cpu` leaves the GPU out, `gpu:1` takes another |
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// /// Sums of pairs of neighbours.
/// #[kernel]
/// fn pair_sums(input: &[f32], mut output: GridSliceMut<f32>) {
///     let i = global_idx();
///     if let Some(output) = output.get_mut(&i) {
///         *output = input[2 * i.get()] + input[2 * i.get() + 1];
///     }
/// }
///
/// #[warpsmith::test(tolerance = 1e-6)]
/// fn pairs_are_summed(device: &Device) -> warpsmith::Result<Vec<f32>> {
///     let stream = device.stream()?;
///     let input: Vec<f32> = (0..2000).map(|i| i as f32 / 10.0).collect();
///     let mut output = stream.zeroed::<f32>(1000)?;
///     pair_sums::launch(&stream, LaunchConfig::for_len(1000), &stream.to_device(&input)?, &mut output)?;
///     let sums = stream.to_host(&output)?;
///     assert_eq!(sums[1], 0.5);
///     Ok(sums)
/// }
/// ```
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    testing::test(options.into(), item.into()).into()
}

/// Lets loops of a function, an `impl` or a module outside of kernels carry `#[unroll]`, `#[unroll(N)]` and `#[no_unroll]`.
///
/// They mean what they mean in a [`macro@kernel`], once a kernel calls the function; the CPU executor takes no notice of them.
/// The function cannot be `const`.
///
/// A loop whose number of steps only the launch knows can be unrolled by `N`, not in full. With a barrier or another
/// operation of several threads in its body, it stays as it is unless the number of steps is a known multiple of `N`.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// /// The dot product of two rows, four steps at a time.
/// #[loops]
/// fn dot(a: &[f32], b: &[f32]) -> f32 {
///     let mut sum = 0.0;
///     #[unroll(4)]
///     for (a, b) in a.iter().zip(b) {
///         sum += a * b;
///     }
///     sum
/// }
///
/// assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
/// # Source
/// CUDA C++ Programming Guide, "#pragma unroll"; PTX ISA, "Pragma Strings: \"nounroll\"".
#[proc_macro_attribute]
pub fn loops(options: TokenStream, item: TokenStream) -> TokenStream {
    loops::loops(options.into(), item.into()).into()
}

/// Writes PTX instructions into a kernel, with operands as `asm!` has them; an `unsafe` operation.
///
/// First comes the PTX, in one or more string literals, each a line. Operands are written `{0}`, `{}` or by name; braces that
/// PTX itself needs are doubled, and `%` and `$` stand as they are. Then come the operands:
///
/// | operand | in the text |
/// | --- | --- |
/// | `in(reg) x`, `out(reg) place`, `inout(reg) place`, `inout(reg) x => place` | a register of the width of the value's type |
/// | the same with `(pred)` | a predicate; `x` and `place` are `bool` |
/// | the same with `(reg128)` | a register of 128 bits (`.b128`: PTX 8.3, compute capability 7.0), from and to `u128` and `i128` |
/// | `const N` | the number |
/// | `sym NAME` | a register with the generic address of a static or a function |
///
/// A `reg` is an integer of 8 to 64 bits, `char`, a float, `half::f16` or `bf16`, or a pointer. PTX has no 8-bit registers: 8-bit
/// integers come in 16 bits, extended by their sign. `lateout` and `inlateout` let a result share the register of an input
/// that is read before it is written. There may be hundreds of operands.
///
/// Give `options(pure, nomem, nostack)` where the instructions only compute, `readonly` in place of `nomem` where they read memory;
/// without, they stay where they are, as often as they are, and memory counts as changed: what several threads do together
/// must stay so. Registers and labels that the text declares are its own.
///
/// `; else { .. }` at the end is what the CPU executor does instead: it assigns all outputs. Without it, reaching the macro on
/// the executor panics.
///
/// # Errors
/// The macro reports an operand that is not there or that the text never names, an unknown instruction, a missing `;`, and
/// brackets that do not match. The build reports operands of another width than their instruction has; and where it finds `ptxas`
/// (by `WARPSMITH_PTXAS`, `CUDA_HOME`, `CUDA_PATH` or `PATH`; `WARPSMITH_PTXAS=none` does without), what that says, at the macro's
/// place. Else the driver says it when the kernel is loaded.
///
/// # Examples
/// ```
/// use warpsmith::ptx;
///
/// /// The position of the highest set bit, or `u32::MAX` for 0.
/// fn find_highest(value: u32) -> u32 {
///     let position: u32;
///     // SAFETY: `bfind` only computes.
///     unsafe {
///         ptx!("bfind.u32 {position}, {0};", in(reg) value, position = out(reg) position, options(pure, nomem, nostack);
///             else { position = value.checked_ilog2().unwrap_or(u32::MAX) })
///     };
///     position
/// }
///
/// assert_eq!(find_highest(20), 4);
///
/// /// `a + b` where `add`, else `a - b`.
/// fn add_or_subtract(a: f32, b: f32, add: bool) -> f32 {
///     let result: f32;
///     // SAFETY: the instructions only compute.
///     unsafe {
///         ptx!("@{add} add.f32 {r}, {a}, {b};", "@!{add} sub.f32 {r}, {a}, {b};",
///             r = out(reg) result, a = in(reg) a, b = in(reg) b, add = in(pred) add, options(pure, nomem, nostack);
///             else { result = if add { a + b } else { a - b } })
///     };
///     result
/// }
///
/// assert_eq!(add_or_subtract(5.0, 3.0, false), 2.0);
/// ```
/// # Source
/// PTX ISA, "Instruction Set"; Rust reference, "Inline assembly".
#[proc_macro]
pub fn ptx(input: TokenStream) -> TokenStream {
    ptx::ptx(input.into()).into()
}

/// Declares a type that launches kernels which another compiler made, with typed arguments.
///
/// `unsafe struct` is a promise of its author, for every module that the type is made of: each kernel, launched with any arguments and any
/// [`LaunchConfig`](../warpsmith/struct.LaunchConfig.html) that meet its condition, and with any value of the declared variables, reads only
/// the elements of its slices, writes only those of its `&mut` slices and only valid values of their types, and uses nothing else in a way
/// that other code could notice. An `unsafe fn` promises the same to the caller who keeps what its documentation asks.
///
/// Arity and widths are compared with the module when the type is made. The methods take the stream, the launch's shape and the arguments,
/// as the `launch` of a `#[kernel]` does.
///
/// | part | meaning |
/// | --- | --- |
/// | `from (image)` | makes `load(&device)`: `image` is the bytes of a module, its text, or a closure `\|device\| Ok(module)` |
/// | without it | only `unsafe fn new(&module)`, whose caller promises that the module is the one that was meant |
/// | `fn name(a: &[f32], n: u32);` | a kernel: a method of that name |
/// | `as "symbol"` | its name in the module, or the name expression that it was compiled with |
/// | `requires { condition }` | checked at each launch: slices have `len()`, numbers are what they are |
/// | `requires \|config\| { condition }` | the same, and the condition sees the `LaunchConfig` |
/// | `static name: T;` | a variable: a method that gives a `ForeignGlobal<T>` |
///
/// # Examples
/// ```
/// use warpsmith::foreign_kernels;
/// use warpsmith::prelude::*;
///
/// foreign_kernels! {
///     /// Arithmetic on vectors.
///     pub unsafe struct Vector from (".version 7.0\n.target sm_75\n.address_size 64\n") {
///         /// Adds two vectors.
///         fn add(a: &[f32], b: &[f32], c: &mut [f32], n: u32)
///             requires { n as usize <= a.len().min(b.len()).min(c.len()) };
///     }
/// }
///
/// fn sums(vector: &Vector, stream: &Stream, a: &[f32], b: &[f32]) -> warpsmith::Result<Vec<f32>> {
///     let (a, b) = (stream.to_device(a)?, stream.to_device(b)?);
///     let mut c = stream.zeroed::<f32>(a.len())?;
///     vector.add(stream, LaunchConfig::for_len(a.len()), &a, &b, &mut c, a.len() as u32)?;
///     stream.to_host(&c)
/// }
///
/// // Code from elsewhere needs a GPU.
/// assert!(Vector::load(&Device::cpu()).is_err());
/// ```
/// A host slice is no argument, and neither is a shared borrow where the kernel writes:
/// ```compile_fail
/// # use warpsmith::prelude::*;
/// warpsmith::foreign_kernels! {
///     unsafe struct Fill { fn fill(x: &mut [f32]) requires |config| { config.grid_dim().count() <= 1 }; }
/// }
/// fn wrong(fill: &Fill, stream: &Stream, x: &DeviceBuffer<f32>) {
///     let _ = fill.fill(stream, LaunchConfig::new(1, 1), x);
/// }
/// ```
/// Pointers that nobody vouches for make a launch `unsafe`:
/// ```compile_fail
/// warpsmith::foreign_kernels! {
///     unsafe struct Raw { fn fill(x: *mut f32); }
/// }
/// ```
/// The promise is written out:
/// ```compile_fail
/// warpsmith::foreign_kernels! {
///     struct Raw { fn fill(x: &mut [f32]); }
/// }
/// ```
#[proc_macro]
pub fn foreign_kernels(input: TokenStream) -> TokenStream {
    foreign::foreign_kernels(input.into()).into()
}

/// Lets a `Copy` struct or enum cross to the device by value and live in device memory.
///
/// Every field must be a `KernelValue` itself, so the type holds no host pointer. Structs, tuple structs and enums, with
/// data or without, may be generic over types and constants; unions and types with lifetimes are refused. The derive
/// hashes size, alignment, field offsets, field types and discriminants, so that host and device are known to agree.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// #[derive(Clone, Copy, KernelValue)]
/// struct Particle<const N: usize> {
///     position: [f32; N],
///     charge: f32,
/// }
///
/// /// Moves a particle along.
/// #[kernel]
/// fn advance<const N: usize>(velocity: [f32; N], mut particles: GridSliceMut<Particle<N>>) {
///     if let Some(particle) = particles.get_mut(&global_idx()) {
///         for (x, v) in particle.position.iter_mut().zip(velocity) {
///             *x += v * particle.charge;
///         }
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let mut particles = stream.to_device(&[Particle { position: [0.0, 1.0], charge: 2.0 }])?;
/// advance::launch(&stream, LaunchConfig::for_len(1), [0.5, 0.0], &mut particles)?;
/// assert_eq!(stream.to_host(&particles)?[0].position, [1.0, 1.0]);
/// # Ok(())
/// # }
/// ```
#[proc_macro_derive(KernelValue)]
pub fn kernel_value(item: TokenStream) -> TokenStream {
    derive::kernel_value(item.into()).into()
}

/// Lets a `Copy` struct, or an enum without data, move between the lanes of a warp.
///
/// Every field must be a `WarpValue` itself, and all of them take 128 bits at most; their bits are packed. A GPU gives
/// unspecified bits where the lane to read takes no part: then any valid fields may come together, so derive it only
/// where all of them make a valid value. An enum's variants travel as numbers; one that there is not is a panic.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
/// use warpsmith::warp;
///
/// #[derive(Clone, Copy, WarpValue)]
/// struct Best {
///     score: f32,
///     at: u32,
///     exact: bool,
/// }
///
/// /// Where each warp's best score lies.
/// #[kernel]
/// fn best(scores: &[f32], mut y: GridSliceMut<u32>) {
///     let i = global_idx();
///     let own = Best { score: scores[i.get()], at: i.get() as u32, exact: true };
///     let best = warp::reduce(FULL_MASK, own, |a, b| if b.score > a.score { b } else { a });
///     if let Some(y) = y.get_mut(&i) {
///         *y = best.at;
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let scores = stream.to_device(&[3.0, 9.0, 2.0, 9.0])?;
/// let mut y = stream.zeroed::<u32>(4)?;
/// best::launch(&stream, LaunchConfig::new(1, 4), &scores, &mut y)?;
/// assert_eq!(stream.to_host(&y)?, [1; 4]);
/// # Ok(())
/// # }
/// ```
#[proc_macro_derive(WarpValue)]
pub fn warp_value(item: TokenStream) -> TokenStream {
    derive_warp_value::warp_value(item.into()).into()
}

/// Prints a line from a kernel, with the formats of `println!`.
///
/// On a GPU the thread writes the values, and which place prints them, into a buffer of the stream in page-locked host
/// memory; the format never leaves the host, which puts the text together when the stream is synchronised (or copied from,
/// or dropped). Lines of one thread come in order, lines of different threads in any order, and never one inside another.
/// Where they go, `Stream::set_output_sink` and `Device::set_output_sink` say; without them to the standard output.
///
/// When the buffer is full, further lines are lost until the next synchronise. A notice then says how many, of which
/// kernel; `Device::set_output_bytes` gives streams larger buffers. A line takes 40 bytes and 8 for each value (16 for a
/// 128-bit one; a text its length and 8).
///
/// The CPU executor prints at once, and loses nothing. Outside a kernel this is `println!`.
///
/// # What can be printed
/// Integers of every width, `f32`, `f64`, `half::f16` and `bf16`, `bool`, `char`, pointers, text, `Dim3`, and arrays,
/// slices and references of these: see `Printable`. All of `format_args!` is understood: positions, names, captured
/// variables, `width$`, `.*`. The format itself is a string literal.
///
/// PTX: an `atom.sys.add.u64` for the room, then `st.volatile.b64` for each word and a `st.release.sys.b64`; compute
/// capability 7.0. A kernel that prints nothing is compiled as if this did not exist.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// #[kernel]
/// fn halves(x: &[f32]) {
///     let i = thread_idx().x as usize;
///     let half = x[i] / 2.0;
///     gpu_println!("x[{i}] / 2 = {half:.3}");
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let x = stream.to_device(&[1.0f32, 2.5])?;
/// halves::launch(&stream, LaunchConfig::new(1, 2), &x)?;
/// stream.synchronize()?; // prints "x[0] / 2 = 0.500" and "x[1] / 2 = 1.250"
/// # Ok(())
/// # }
/// ```
/// # Source
/// CUDA C++ Programming Guide, "Formatted Output"; Rust's `std::fmt`.
#[proc_macro]
pub fn gpu_println(input: TokenStream) -> TokenStream {
    print::print(input.into(), true).into()
}

/// Prints from a kernel without ending the line: `gpu_println!` says how.
///
/// What one thread prints in pieces is put together: a line comes out whole once the thread ends it, or the launch ends.
#[proc_macro]
pub fn gpu_print(input: TokenStream) -> TokenStream {
    print::print(input.into(), false).into()
}

/// What `gpu_dbg!` of the crate `warpsmith` is made of.
#[doc(hidden)]
#[proc_macro]
pub fn gpu_dbg_line(input: TokenStream) -> TokenStream {
    print::dbg(input.into()).into()
}

/// Says that every bit pattern is a value of a `Copy` struct: it may live in safe shared memory and move between lanes.
///
/// Every field must be `AnyBits` itself, and there may be no padding between or behind them: the build fails otherwise. The
/// struct is a `KernelValue` too, by its own derive. What the fields promise each other does not hold for all bits: derive
/// it only where any fields make a valid value. A struct of up to 16 bytes is then a `WarpValue` without a derive.
///
/// # Examples
/// ```
/// use warpsmith::prelude::*;
///
/// #[derive(Clone, Copy, KernelValue, AnyBits)]
/// struct Particle {
///     position: [f32; 3],
///     charge: f32,
/// }
///
/// /// Each thread takes its left neighbour's particle; the first keeps its own.
/// #[kernel]
/// fn shift(mut particles: GridSliceMut<Particle>) {
///     let mut one = particles.get_mut(&global_idx());
///     let tile = this_thread_block().tiled_partition::<4>();
///     let own = one.as_deref().copied().unwrap_or(Particle { position: [0.0; 3], charge: 0.0 });
///     let left = tile.shfl_up(own, 1);
///     if let Some(one) = &mut one {
///         **one = left;
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// # let stream = Device::cpu().stream()?;
/// let all: Vec<Particle> = (0..4).map(|i| Particle { position: [0.0; 3], charge: i as f32 }).collect();
/// let mut particles = stream.to_device(&all)?;
/// shift::launch(&stream, LaunchConfig::new(1, 4), &mut particles)?;
/// let charges: Vec<f32> = stream.to_host(&particles)?.iter().map(|particle| particle.charge).collect();
/// assert_eq!(charges, [0.0, 0.0, 1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
#[proc_macro_derive(AnyBits)]
pub fn any_bits(item: TokenStream) -> TokenStream {
    derive_any_bits::any_bits(item.into()).into()
}

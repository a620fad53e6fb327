//! A kernel ready to be launched: its code found in the program, compared with the host's view of it, and loaded.

use std::collections::HashMap;
use std::ffi::CString;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use warpsmith_build::bundle::{Image, KernelKey, KernelRecord, MessageFormat, ParamRecord};
use warpsmith_device::abi::{KernelDesc, KernelOptions, ParamDesc};
use warpsmith_device::host::Joins;

use crate::check::code::{self as checked_code, CheckedKernel};
use crate::constants::ModuleConstants;
use crate::device::{Device, GpuParts};
use crate::driver::{FunctionAttribute, GpuFunction, GpuModule, Limit, code};
use crate::error::{DriverError, ModuleError, ParamShape, Version};
use crate::launch::{KernelCode, UsualShapes};
use crate::registry::Registry;

/// Stack that a thread gets when its kernel's call depth is not known, unless the device has more already.
const UNBOUNDED_STACK_BYTES: usize = 16 << 10;
/// Heap that kernels which allocate get, unless the device has more already.
const HEAP_BYTES: usize = 256 << 20;

/// A CUDA version that knows every PTX.
const NEWEST_DRIVER: Version = Version { major: u32::MAX, minor: 0 };

/// A kernel that a device can launch. What each launch looks at comes first, in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct LoadedKernel {
    number: u32,
    gpu: Option<GpuCode>,
    path: String,
    desc: &'static KernelDesc,
    record: Option<&'static KernelRecord>,
    checked: Option<CheckedKernel>,
}

/// A kernel's entry on a GPU, with what the driver says about it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct GpuCode {
    pub(crate) function: GpuFunction,
    pub(crate) usual: UsualShapes,
    /// Whether a launch needs nothing but its arguments.
    pub(crate) is_plain: bool,
    pub(crate) max_threads: u32,
    pub(crate) registers: u32,
    pub(crate) shared_bytes: u64,
    /// `None` where the kernel reads no constant that the host sets.
    pub(crate) constants: Option<ModuleConstants>,
}

impl LoadedKernel {
    /// A kernel of a module from elsewhere, with the number under which the device knows its name.
    pub(crate) fn foreign(number: u32, name: &str, gpu: Option<GpuCode>) -> Self {
        static DESC: KernelDesc =
            KernelDesc::new("foreign", "warpsmith", file!(), line!(), column!(), KernelOptions::NONE, &[]);
        Self { number, path: name.to_owned(), desc: &DESC, record: None, gpu, checked: None }
    }

    /// Its place in the device's table; part of each launch's id.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Module path and name.
    #[inline]
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Where it is defined.
    pub(crate) fn place(&self) -> (String, u32, u32) {
        (self.desc.file.get().to_owned(), self.desc.line, self.desc.column)
    }

    pub(crate) fn desc(&self) -> &'static KernelDesc {
        self.desc
    }

    /// The panic site with this number.
    pub(crate) fn site(&self, number: u32) -> Option<&MessageFormat> {
        self.record?.sites.get(usize::try_from(number).ok()?)
    }

    /// The place that prints with this number.
    pub(crate) fn print_site(&self, number: u32) -> Option<&MessageFormat> {
        self.record?.prints.get(usize::try_from(number).ok()?)
    }

    /// Whether it may print.
    #[inline]
    pub(crate) fn prints(&self) -> bool {
        self.record.is_some_and(|record| !record.prints.is_empty())
    }

    /// Its code on the GPU, or `None` on the CPU executor.
    #[inline]
    pub(crate) fn gpu(&self) -> Option<&GpuCode> {
        self.gpu.as_ref()
    }

    /// Its code for the checker, on a checked device.
    #[inline]
    pub(crate) fn checked(&self) -> Option<&CheckedKernel> {
        self.checked.as_ref()
    }

    /// Whether the CPU executor must run its threads as coroutines. Where no build script looked, it may need them.
    pub(crate) fn needs_coroutines(&self) -> bool {
        self.record.is_none_or(|record| record.uses_barrier || record.uses_warp)
    }

    /// Which of its blocks the CPU executor may run as one. Where no build script looked, none.
    pub(crate) fn joins(&self) -> Joins {
        let Some(record) = self.record else { return Joins::default() };
        let lines = !(self.needs_coroutines() || record.asks_place_in_block);
        Joins { lines, planes: lines && !record.asks_number_in_grid }
    }

    /// Whether it waits for the whole grid, as far as is known: its launches are cooperative, and on a GPU its entry takes a
    /// barrier's address.
    pub(crate) fn syncs_grid(&self) -> bool {
        self.record.is_some_and(|record| record.syncs_grid)
    }

    /// Whether its call depth is not known.
    pub(crate) fn has_unbounded_stack(&self) -> bool {
        self.record.is_some_and(|record| record.unbounded_stack)
    }

    /// Bytes of shared memory that the kernel declares.
    pub(crate) fn fixed_shared_bytes(&self) -> u64 {
        match &self.gpu {
            Some(code) => code.shared_bytes,
            None => self.record.map_or(0, |record| record.shared_bytes),
        }
    }

    fn load(device: &Device, desc: &'static KernelDesc, instance: &str, along_x: bool) -> Result<Self, ModuleError> {
        let path = kernel_path(desc);
        let key = KernelKey {
            module_path: desc.module_path.get().to_owned(),
            name: desc.name.get().to_owned(),
            file: desc.file.get().to_owned(),
            line: desc.line,
            column: desc.column,
            instance: instance.to_owned(),
        };
        let Some(parts) = device.parts() else {
            // The executor runs the host's own code; the metadata only says how it may run it.
            let record = Registry::get().ok().and_then(|registry| registry.find(&key));
            if let (Some(profile), Some(record)) = (device.profile(), record) {
                // As on that GPU under the newest driver.
                let architecture = profile.capability().architecture();
                choose_image(&path, &images_for(record, along_x), architecture, device.name(), NEWEST_DRIVER)?;
            }
            let checked = if device.check_options().is_some() {
                Some(checked(&path, desc, &key, record.is_some())?)
            } else {
                None
            };
            return Ok(Self { number: 0, path, desc, record, gpu: None, checked });
        };
        let registry = Registry::get()?;
        let record = registry.find(&key).ok_or_else(|| not_found(registry, &path, &key))?;
        compare_params(&path, desc.params(), &record.params)?;
        let gpu = load_code(device, parts, &path, record, along_x)?;
        let mut kernel = Self { number: 0, path, desc, record: Some(record), gpu: Some(gpu), checked: None };
        let usual = UsualShapes::of(&kernel, device);
        let is_special = kernel.prints() || kernel.syncs_grid() || kernel.has_unbounded_stack();
        if let Some(code) = &mut kernel.gpu {
            code.usual = usual;
            code.is_plain = !is_special && code.constants.is_none();
        }
        Ok(kernel)
    }
}

/// The code that a checked device runs.
fn checked(
    path: &str,
    desc: &'static KernelDesc,
    key: &KernelKey,
    is_compiled: bool,
) -> Result<CheckedKernel, ModuleError> {
    let found = checked_code::find(key)?.ok_or_else(|| ModuleError::NotChecked {
        kernel: path.to_owned(),
        krate: key.module_path.split("::").next().unwrap_or_default().to_owned(),
        is_generic: is_generic(&key.instance),
        is_compiled,
    })?;
    compare_params(path, desc.params(), found.params)?;
    Ok(found)
}

/// Whether the type name of a kernel's instance has types or constants in it.
fn is_generic(instance: &str) -> bool {
    instance.contains("::__Instance<")
}

/// Module path and name of a kernel.
pub(crate) fn kernel_path(desc: &KernelDesc) -> String {
    format!("{}::{}", desc.module_path.get(), desc.name.get())
}

fn not_found(registry: &Registry, path: &str, key: &KernelKey) -> ModuleError {
    let krate = key.module_path.split("::").next().unwrap_or_default().to_owned();
    // A failed target is the likeliest reason where there is one. Cargo's target names have dashes, module paths have not.
    let failure = registry
        .failures()
        .iter()
        .find(|failure| failure.target.split_whitespace().last().is_some_and(|name| name.replace('-', "_") == krate))
        .or_else(|| registry.failures().first());
    match failure {
        Some(failure) => ModuleError::BuildFailed {
            kernel: path.to_owned(),
            target: failure.target.clone(),
            message: failure.message.clone(),
        },
        None => ModuleError::NotFound {
            kernel: path.to_owned(),
            krate,
            instance: key.instance.clone(),
            searched: registry.len(),
        },
    }
}

fn compare_params(path: &str, host: &[ParamDesc], device: &[ParamRecord]) -> Result<(), ModuleError> {
    if host.len() != device.len() {
        return Err(ModuleError::ParamCountMismatch {
            kernel: path.to_owned(),
            host: host.len(),
            device: device.len(),
        });
    }
    for (index, (host, device)) in host.iter().zip(device).enumerate() {
        let host = ParamShape::from(host);
        let device = ParamShape {
            kind: device.kind,
            size: device.size,
            align: device.align,
            extent_size: device.extent_size,
            layout: device.layout,
        };
        if host != device {
            return Err(ModuleError::ParamMismatch { kernel: path.to_owned(), index, host, device });
        }
    }
    Ok(())
}

/// The newest PTX version that a driver for this CUDA version knows.
fn newest_ptx(cuda: Version) -> Version {
    let (major, minor) = match (cuda.major, cuda.minor) {
        (..=11, minor) => (7, minor.min(8)),
        (12, minor @ 0..=5) => (8, minor),
        (12, 6) => (8, 5),
        (12, minor) => (8, minor - 1),
        (major, minor) => (major - 4, minor),
    };
    Version { major, minor }
}

/// The first CUDA version whose driver knows this PTX version.
fn first_cuda(ptx: Version) -> Version {
    let (major, minor) = match (ptx.major, ptx.minor) {
        (..=7, minor) => (11, minor),
        (8, minor @ 0..=5) => (12, minor),
        (8, minor) => (12, minor + 1),
        (major, minor) => (major + 4, minor),
    };
    Version { major, minor }
}

fn ptx_version(image: &Image) -> Version {
    Version { major: image.ptx_version / 10, minor: image.ptx_version % 10 }
}

/// The images for launches that extend along x only, or for any launch; a kernel may have one kind alone.
fn images_for(record: &KernelRecord, along_x: bool) -> Vec<&Image> {
    let narrow = along_x && record.images.iter().any(|image| image.along_x);
    record.images.iter().filter(|image| image.along_x == narrow).collect()
}

/// The image to load: the highest architecture up to the GPU's whose PTX the driver knows.
fn choose_image<'a>(
    path: &str,
    images: &[&'a Image],
    architecture: u32,
    device: &str,
    driver: Version,
) -> Result<&'a Image, ModuleError> {
    let known = newest_ptx(driver);
    let fitting = images.iter().copied().filter(|image| image.architecture <= architecture);
    let best = fitting.clone().filter(|image| ptx_version(image) <= known).max_by_key(|image| image.architecture);
    if let Some(best) = best {
        return Ok(best);
    }
    let Some(needed) = fitting.map(ptx_version).min() else {
        let available: Vec<String> = images.iter().map(|image| format!("sm_{}", image.architecture)).collect();
        return Err(ModuleError::NoImage {
            kernel: path.to_owned(),
            device: device.to_owned(),
            architecture,
            available: if available.is_empty() { "no architecture".to_owned() } else { available.join(", ") },
        });
    };
    Err(ModuleError::DriverTooOld { kernel: path.to_owned(), driver, known, needed, remedy: first_cuda(needed) })
}

fn load_code(
    device: &Device,
    parts: &GpuParts,
    path: &str,
    record: &'static KernelRecord,
    along_x: bool,
) -> Result<GpuCode, ModuleError> {
    let driver = parts.gpu.driver().version();
    let images = images_for(record, along_x);
    let image = choose_image(path, &images, parts.capability.architecture(), device.name(), driver)?;
    let text = CString::new(image.ptx.as_str()).map_err(|_| corrupt(path, "its PTX holds a zero byte"))?;
    let entry = CString::new(record.entry.as_str()).map_err(|_| corrupt(path, "its entry's name holds a zero byte"))?;
    prepare_limits(parts, path, record);
    let rejected = |source, log: String| {
        let log = with_inline_sites(&log, image);
        ModuleError::Rejected { kernel: path.to_owned(), architecture: image.architecture, log, source }
    };
    let module = GpuModule::load(&parts.gpu, &text).map_err(|failure| {
        if failure.source.code == code::UNSUPPORTED_PTX_VERSION {
            let needed = ptx_version(image);
            return ModuleError::DriverTooOld {
                kernel: path.to_owned(),
                driver,
                known: newest_ptx(driver),
                needed,
                remedy: first_cuda(needed),
            };
        }
        rejected(failure.source, failure.log)
    })?;
    let rejected = |source| rejected(source, String::new());
    let constants = match record.constants.as_slice() {
        [] => None,
        constants => Some(ModuleConstants::find(&module, constants).map_err(rejected)?),
    };
    let function = Arc::new(module).function(&entry).map_err(rejected)?;
    GpuCode::new(device, path, function, constants).map_err(rejected)
}

impl GpuCode {
    /// Asks the driver what the kernel needs, and allows it the shared memory that the device has.
    pub(crate) fn new(
        device: &Device,
        path: &str,
        function: GpuFunction,
        constants: Option<ModuleConstants>,
    ) -> Result<Self, DriverError> {
        let shared_bytes = function.attribute(FunctionAttribute::SharedSizeBytes)?;
        let max_threads = function.attribute(FunctionAttribute::MaxThreadsPerBlock)?;
        let registers = function.attribute(FunctionAttribute::NumRegs)?;
        let local_bytes = function.attribute(FunctionAttribute::LocalSizeBytes)?;
        // Dynamic shared memory above 48 KiB must be asked for; asking once costs nothing where it is not used.
        let room = device.limits().max_shared_bytes.saturating_sub(shared_bytes);
        let room = i32::try_from(room).unwrap_or(i32::MAX);
        function.set_attribute(FunctionAttribute::MaxDynamicSharedSizeBytes, room)?;
        tracing::debug!(kernel = path, registers, shared_bytes, local_bytes, max_threads, "loaded");
        let (is_plain, usual) = (false, UsualShapes::NONE);
        Ok(Self { function, max_threads, registers, shared_bytes: u64::from(shared_bytes), constants, is_plain, usual })
    }
}

fn corrupt(path: &str, reason: &str) -> ModuleError {
    ModuleError::Corrupt { reason: format!("kernel `{path}`: {reason}") }
}

/// Raises the device's stack and heap to what the kernel may need; never lowers what the user has set.
fn prepare_limits(parts: &GpuParts, path: &str, record: &KernelRecord) {
    let wanted = [
        (record.unbounded_stack, Limit::StackSize, UNBOUNDED_STACK_BYTES),
        (record.uses_heap, Limit::MallocHeapSize, HEAP_BYTES),
    ];
    for (_, limit, bytes) in wanted.into_iter().filter(|(needed, ..)| *needed) {
        let raised =
            parts.gpu.limit(limit).and_then(|now| if now < bytes { parts.gpu.set_limit(limit, bytes) } else { Ok(()) });
        if let Err(error) = raised {
            // The kernel runs with what there is, and reports when that is not enough.
            tracing::warn!(kernel = path, ?limit, bytes, %error, "the limit could not be raised");
        }
    }
}

/// The kernels that a device has been asked for, each loaded once.
#[derive(Debug)]
pub(crate) struct KernelTable {
    /// Where most are found without a lock: each is filled once.
    front: Box<[FrontSlot]>,
    state: RwLock<TableState>,
}

/// A loaded kernel and what it is found by, in one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct FrontSlot(OnceLock<(PlaceKey, Arc<LoadedKernel>)>);

impl Default for KernelTable {
    fn default() -> Self {
        Self { front: (0..Self::FRONT).map(|_| FrontSlot::default()).collect(), state: RwLock::default() }
    }
}

#[derive(Debug, Default)]
struct TableState {
    by_place: HashMap<PlaceKey, Arc<Slot>, BuildHasherDefault<PlaceHasher>>,
    by_number: Vec<Arc<LoadedKernel>>,
    /// Numbers of kernels from elsewhere, by name.
    foreign: HashMap<String, u32>,
}

/// A kernel that was asked for: loaded, being loaded, or to be tried again.
#[derive(Debug, Default)]
struct Slot {
    kernel: OnceLock<Arc<LoadedKernel>>,
    loading: Mutex<()>,
}

/// Addresses of a description and of an instance's name. Both are constants of the program, so equal addresses and
/// lengths mean equal contents; the same kernel may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PlaceKey {
    desc: usize,
    instance: usize,
    instance_len: usize,
    along_x: bool,
}

/// Mixes a few machine words; the keys are addresses, so nobody chooses them to collide.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    #[inline]
    fn write_usize(&mut self, word: usize) {
        self.0 = (self.0.rotate_left(23) ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

impl KernelTable {
    /// Slots of the front.
    const FRONT: usize = 256;
    /// How many slots after each other may hold a kernel.
    const WINDOW: usize = 4;

    /// The kernel for launches of this shape, loaded at the first call.
    #[inline]
    pub(crate) fn get(
        &self,
        device: &Device,
        desc: &'static KernelDesc,
        instance: &'static str,
        along_x: bool,
    ) -> Result<KernelCode<'_>, ModuleError> {
        let key = PlaceKey {
            desc: (&raw const *desc).addr(),
            instance: instance.as_ptr().addr(),
            instance_len: instance.len(),
            along_x,
        };
        for slot in self.window(&key) {
            match slot.0.get() {
                Some((found, kernel)) if *found == key => return Ok(KernelCode::borrowed(kernel)),
                Some(_) => {}
                None => break,
            }
        }
        Ok(KernelCode::owned(self.load(key, device, desc, instance)?))
    }

    /// Where in the front a kernel may be.
    #[inline]
    fn window(&self, key: &PlaceKey) -> impl Iterator<Item = &FrontSlot> {
        let mut hasher = PlaceHasher::default();
        key.hash(&mut hasher);
        let start = hasher.finish() as usize;
        (0..Self::WINDOW).map(move |at| &self.front[(start + at) % Self::FRONT])
    }

    /// Finds or loads a kernel while others may be launched and loaded; one kernel is loaded by one thread.
    #[cold]
    fn load(
        &self,
        key: PlaceKey,
        device: &Device,
        desc: &'static KernelDesc,
        instance: &'static str,
    ) -> Result<Arc<LoadedKernel>, ModuleError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = state.by_place.get(&key).and_then(|slot| slot.kernel.get()) {
            return Ok(Arc::clone(kernel));
        }
        drop(state);
        let slot = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(state.by_place.entry(key).or_default())
        };
        let _loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = slot.kernel.get() {
            return Ok(Arc::clone(kernel));
        }
        let kernel = LoadedKernel::load(device, desc, instance, key.along_x)?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let number = u32::try_from(state.by_number.len()).expect("a program has less than 2^32 kernels");
        let kernel = Arc::new(LoadedKernel { number, ..kernel });
        state.by_number.push(Arc::clone(&kernel));
        // While the lock is held, nobody else fills the front.
        if let Some(free) = self.window(&key).find(|slot| slot.0.get().is_none()) {
            free.0.get_or_init(|| (key, Arc::clone(&kernel)));
        }
        Ok(Arc::clone(slot.kernel.get_or_init(|| kernel)))
    }

    /// A number for kernels from elsewhere of this name, under which messages find the name and nothing else.
    pub(crate) fn foreign_number(&self, name: &str) -> u32 {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = state.foreign.get(name) {
            return number;
        }
        let number = u32::try_from(state.by_number.len()).expect("a program has less than 2^32 kernels");
        state.by_number.push(Arc::new(LoadedKernel::foreign(number, name, None)));
        state.foreign.insert(name.to_owned(), number);
        number
    }

    /// The kernel with this number.
    pub(crate) fn by_number(&self, number: u32) -> Option<Arc<LoadedKernel>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.by_number.get(usize::try_from(number).ok()?).cloned()
    }
}

/// The driver's words, with the place of the `ptx!` under each line that speaks of one.
fn with_inline_sites(log: &str, image: &Image) -> String {
    let line_of = |text: &str| text.split_once("line ")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let mut lines = Vec::new();
    for text in log.lines() {
        lines.push(text.to_owned());
        lines.extend(
            line_of(text).and_then(|line| image.inline_site(line)).map(|site| format!("    in `ptx!` at {site}")),
        );
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use warpsmith_build::bundle::{Bundle, frame};
    use warpsmith_device::abi::{KernelParam, Value};

    use super::*;

    #[test]
    fn the_drivers_words_name_the_macro_that_they_are_about() {
        let ptx = "add.u32 %r1, %r2, %r3;\n\t// begin inline asm\n\t// ptx! at src/main.rs:7:9\n\tadd.u32 %r1, %rd2;\n";
        let image = Image { ptx: ptx.to_owned(), ..Image::default() };
        let log = "ptxas application ptx input, line 4; error   : Arguments mismatch for instruction 'add'\n\
                   ptxas application ptx input, line 1; error   : of ours\nptxas fatal   : Ptx assembly aborted";
        let lines: Vec<String> = with_inline_sites(log, &image).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[1], "    in `ptx!` at src/main.rs:7:9");
        assert_eq!([&*lines[0], &lines[2], &lines[3]].join("\n"), log);
    }

    fn image(architecture: u32, ptx_version: u32) -> Image {
        Image { architecture, ptx_version, along_x: false, ptx: String::new() }
    }

    const CUDA_12_4: Version = Version { major: 12, minor: 4 };
    const CUDA_13_0: Version = Version { major: 13, minor: 0 };

    #[test]
    fn the_best_image_that_driver_and_gpu_take_is_chosen() {
        let images = [image(75, 63), image(80, 70), image(90, 78), image(100, 86)];
        let choose = |architecture, driver| {
            choose_image("k", &images.each_ref(), architecture, "a GPU", driver).map(|image| image.architecture)
        };
        assert_eq!(choose(90, CUDA_13_0).unwrap(), 90);
        assert_eq!(choose(89, CUDA_13_0).unwrap(), 80);
        assert_eq!(choose(120, CUDA_13_0).unwrap(), 100);
        assert_eq!(choose(120, CUDA_12_4).unwrap(), 90);
        assert_eq!(choose(90, Version { major: 11, minor: 4 }).unwrap(), 80);
    }

    #[test]
    fn an_old_gpu_or_driver_is_told_what_to_do() {
        let images = [image(80, 86), image(90, 86)];
        let old_gpu = choose_image("m::k", &images.each_ref(), 75, "Tesla T4", CUDA_13_0).unwrap_err().to_string();
        assert!(old_gpu.contains("compiled for sm_80, sm_90; Tesla T4 is sm_75"), "{old_gpu}");
        assert!(old_gpu.contains("WARPSMITH_ARCHITECTURES"), "{old_gpu}");
        let old_driver = choose_image("m::k", &images.each_ref(), 90, "a GPU", CUDA_12_4).unwrap_err().to_string();
        assert!(old_driver.contains("supports CUDA 12.4 (PTX up to 8.4)"), "{old_driver}");
        assert!(old_driver.contains("8.6 at the least; update the NVIDIA driver to one for CUDA 12.7"), "{old_driver}");
        let none = choose_image("m::k", &[], 90, "a GPU", CUDA_12_4).unwrap_err().to_string();
        assert!(none.contains("no architecture"), "{none}");
    }

    #[test]
    fn ptx_and_cuda_versions_go_together() {
        // The PTX ISA's table of release notes.
        let table = [
            ((11, 4), (7, 4)),
            ((11, 8), (7, 8)),
            ((12, 0), (8, 0)),
            ((12, 5), (8, 5)),
            ((12, 6), (8, 5)),
            ((12, 7), (8, 6)),
            ((12, 8), (8, 7)),
            ((12, 9), (8, 8)),
            ((13, 0), (9, 0)),
            ((13, 1), (9, 1)),
        ];
        for ((cuda_major, cuda_minor), (major, minor)) in table {
            let cuda = Version { major: cuda_major, minor: cuda_minor };
            assert_eq!(newest_ptx(cuda), Version { major, minor }, "{cuda}");
            assert!(first_cuda(Version { major, minor }) <= cuda, "{cuda}");
            assert_eq!(newest_ptx(first_cuda(Version { major, minor })), Version { major, minor }, "{cuda}");
        }
    }

    #[test]
    fn a_parameter_that_differs_is_named_with_both_shapes() {
        let host = [<Value<f32> as KernelParam>::DESC, <&'static [u32] as KernelParam>::DESC];
        let record = |desc: &ParamDesc| ParamRecord {
            kind: desc.kind as u32,
            align: desc.align,
            size: desc.size,
            extent_size: desc.extent_size,
            layout: desc.layout,
        };
        let same: Vec<ParamRecord> = host.iter().map(record).collect();
        assert!(compare_params("m::k", &host, &same).is_ok());
        let mut other = same.clone();
        other[1].size = 8;
        let message = compare_params("m::k", &host, &other).unwrap_err().to_string();
        assert!(message.contains("parameter 1 of kernel `m::k`"), "{message}");
        assert!(message.contains("elements of 4 bytes") && message.contains("elements of 8 bytes"), "{message}");
        let mut layout = same.clone();
        layout[0].layout ^= 1;
        assert!(matches!(compare_params("m::k", &host, &layout), Err(ModuleError::ParamMismatch { index: 0, .. })));
        assert!(matches!(compare_params("m::k", &host, &same[..1]), Err(ModuleError::ParamCountMismatch { .. })));
    }

    #[test]
    fn a_missing_kernel_names_the_crate_that_needs_a_build_script() {
        let key =
            KernelKey { module_path: "my_crate::image".to_owned(), name: "blur".to_owned(), ..KernelKey::default() };
        let message = not_found(&Registry::default(), "my_crate::image::blur", &key).to_string();
        assert!(message.contains("`my_crate`") && message.contains("warpsmith_build::compile()"), "{message}");
    }

    #[test]
    fn a_kernel_whose_device_build_failed_brings_the_compilers_message() {
        let failed = |target: &str, message: &str| {
            let (target, failure) = (target.to_owned(), Some(message.to_owned()));
            frame(&Bundle { target, failure, ..Bundle::default() }.encode())
        };
        let section =
            [failed("test other", "error: of another target"), failed("bin my-crate", "error[E0308]: mismatched")];
        let registry = Registry::read(&section.concat()).unwrap();
        let key = KernelKey { module_path: "my_crate::image".to_owned(), ..KernelKey::default() };
        let message = not_found(&registry, "my_crate::image::blur", &key).to_string();
        assert!(message.contains("the device build of `bin my-crate` failed:\nerror[E0308]: mismatched"), "{message}");
    }

    #[test]
    fn a_kernel_is_loaded_once() {
        static DESC: KernelDesc = KernelDesc::new("k", "m", file!(), line!(), column!(), KernelOptions::NONE, &[]);
        let (table, device) = (KernelTable::default(), Device::cpu());
        let get = |instance| table.get(&device, &DESC, instance, false).unwrap().to_owned();
        let (first, again, other) = (get("f32"), get("f32"), get("f64"));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        assert_eq!(table.by_number(other.number()).unwrap().path(), "m::k");
        assert!(table.by_number(2).is_none());
        assert!(first.needs_coroutines());
    }

    /// The front holds 256 at the most, and not always that many.
    #[test]
    fn more_kernels_than_the_front_holds_are_each_loaded_once() {
        static DESC: KernelDesc = KernelDesc::new("k", "m", file!(), line!(), column!(), KernelOptions::NONE, &[]);
        static NAMES: [u8; 1000] = [b'x'; 1000];
        let (table, device) = (KernelTable::default(), Device::cpu());
        let names = str::from_utf8(&NAMES).unwrap();
        let all = || -> Vec<_> {
            let at = (1..=NAMES.len()).flat_map(|len| [false, true].map(|along_x| (&names[..len], along_x)));
            at.map(|(name, along_x)| table.get(&device, &DESC, name, along_x).unwrap().to_owned()).collect()
        };
        let first = all();
        assert!(first.iter().zip(0..).all(|(kernel, number)| kernel.number() == number));
        assert!(first.iter().zip(&all()).all(|(first, again)| Arc::ptr_eq(first, again)));
        assert!(table.front.iter().all(|slot| slot.0.get().is_some()), "so many fill the front");
    }
}

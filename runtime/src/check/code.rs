//! The checker's code that the program carries: kernels compiled once more, with calls of the checker's hooks in them.

use std::collections::HashMap;
use std::sync::OnceLock;

use warpsmith_build::bundle::{CheckedEntry, CheckedModule, CheckedSite, KernelKey, ParamRecord};
use warpsmith_build::bundle::{SiteFlags, SiteKind as Kind, SiteValue};

use super::hooks;
use super::site::{Site, SiteKind, Sites, ValueKind};
use crate::error::ModuleError;

/// Runs one thread of a kernel: takes a list of the addresses of the entry's arguments, as the driver does.
pub(crate) type RunThread = unsafe extern "C-unwind" fn(*const *const u8);

/// A kernel's code for the checker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedKernel {
    /// One thread's run.
    pub(crate) run: RunThread,
    /// Its parameters.
    pub(crate) params: &'static [ParamRecord],
    /// The places in it that the hooks name by number.
    pub(crate) sites: &'static Sites,
}

/// The code of a kernel, or `None` where the program has none.
pub(crate) fn find(key: &KernelKey) -> Result<Option<CheckedKernel>, ModuleError> {
    static KERNELS: OnceLock<Result<HashMap<KernelKey, CheckedKernel>, String>> = OnceLock::new();
    let kernels = KERNELS.get_or_init(|| {
        hooks::keep();
        read(section::entries())
    });
    let kernels = kernels.as_ref().map_err(|reason| ModuleError::Corrupt { reason: reason.clone() })?;
    Ok(kernels.get(key).copied())
}

/// Whether the program has code of any kernel.
pub(crate) fn is_carried() -> bool {
    section::entries().iter().any(|entry| !entry.module.is_null())
}

fn read(entries: &[CheckedEntry]) -> Result<HashMap<KernelKey, CheckedKernel>, String> {
    let mut all = HashMap::new();
    for entry in entries.iter().filter(|entry| !entry.module.is_null()) {
        // SAFETY: the build script's lowering wrote the entry with these lengths; the linker mapped what it points to for the
        // program's whole life.
        let (bytes, functions) = unsafe {
            (
                std::slice::from_raw_parts(entry.module, entry.module_len as usize),
                std::slice::from_raw_parts(entry.functions, entry.function_count as usize),
            )
        };
        let module = CheckedModule::decode(bytes).map_err(|error| error.to_string())?;
        if module.kernels.len() != functions.len() {
            let (kernels, functions) = (module.kernels.len(), functions.len());
            return Err(format!("{} has {kernels} kernels and {functions} functions for the checker", module.target));
        }
        // Read once in the program's life.
        let sites = module.sites.into_iter().map(site).collect::<Result<_, _>>()?;
        let sites: &'static Sites = Box::leak(Box::new(Sites::new(sites)));
        for (kernel, &run) in module.kernels.into_iter().zip(functions) {
            let params: &'static [ParamRecord] = kernel.params.leak();
            // As with PTX, an instance that comes twice was made from one source.
            all.entry(kernel.key).or_insert(CheckedKernel { run, params, sites });
        }
    }
    Ok(all)
}

/// A place as the checker has it.
fn site(from: CheckedSite) -> Result<Site, String> {
    let flag = |bit| from.flags & bit != 0;
    let kind = Kind::from_number(from.kind).ok_or_else(|| format!("{} is no kind of place", from.kind))?;
    let kind = match kind {
        Kind::Load => SiteKind::Load,
        Kind::Store => SiteKind::Store,
        Kind::Copy => SiteKind::Copy,
        Kind::Atomic => SiteKind::Atomic {
            reads: flag(SiteFlags::READS),
            writes: flag(SiteFlags::WRITES),
            acquire: flag(SiteFlags::ACQUIRES),
            release: flag(SiteFlags::RELEASES),
        },
        Kind::Fence => SiteKind::Fence { acquire: flag(SiteFlags::ACQUIRES), release: flag(SiteFlags::RELEASES) },
        Kind::Overflow => SiteKind::Overflow { operation: from.operation, is_signed: flag(SiteFlags::SIGNED) },
        Kind::Float => SiteKind::Float(from.operation),
    };
    let value = match from.value {
        v if v == SiteValue::Int as u32 => ValueKind::Int,
        v if v == SiteValue::F16 as u32 => ValueKind::F16,
        v if v == SiteValue::F32 as u32 => ValueKind::F32,
        v if v == SiteValue::F64 as u32 => ValueKind::F64,
        v if v == SiteValue::Pointer as u32 => ValueKind::Pointer,
        _ => ValueKind::Other,
    };
    let CheckedSite { file, line, column, function, inner, bytes, align, .. } = from;
    let function = kernel_of_entry(&function).map_or_else(|| function.clone(), str::to_owned);
    let counted = match kind {
        SiteKind::Load | SiteKind::Store => SiteFlags::counted_bytes(from.flags),
        _ => None,
    };
    Ok(Site { file, line, column, function, inner, kind, bytes, align, value, counted })
}

/// The kernel whose entry this is: its own code stands there once the compiler has taken the function in.
fn kernel_of_entry(function: &str) -> Option<&str> {
    let (start, rest) = function.split_once(">::__kernel::__Instance")?;
    rest.ends_with("::entry").then(|| start.trim_start_matches('<'))
}

#[cfg(target_os = "linux")]
mod section {
    //! The section itself, between the symbols that the linker puts around it.

    use warpsmith_build::bundle::CheckedEntry;

    #[repr(transparent)]
    struct Anchor(CheckedEntry);

    // SAFETY: its pointers are null.
    unsafe impl Sync for Anchor {}

    /// An entry to skip: with it the section exists in every program, so that its two symbols do.
    #[used]
    #[unsafe(link_section = "warpsmith_checked")]
    static ANCHOR: Anchor = Anchor(CheckedEntry {
        module: std::ptr::null(),
        module_len: 0,
        functions: std::ptr::null(),
        function_count: 0,
    });

    unsafe extern "C" {
        #[link_name = "__start_warpsmith_checked"]
        static START: CheckedEntry;
        #[link_name = "__stop_warpsmith_checked"]
        static STOP: CheckedEntry;
    }

    pub(super) fn entries() -> &'static [CheckedEntry] {
        // Naming the anchor keeps a linker that collects garbage from taking it away.
        std::hint::black_box(&raw const ANCHOR);
        let start = &raw const START;
        let len = ((&raw const STOP).addr() - start.addr()) / size_of::<CheckedEntry>();
        // SAFETY: the linker puts the two symbols around the section, which holds entries of one size and alignment and
        // nothing else, is mapped for the program's whole life and never written.
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

#[cfg(not(target_os = "linux"))]
mod section {
    //! Other systems have no such section yet.

    use warpsmith_build::bundle::CheckedEntry;

    pub(super) fn entries() -> &'static [CheckedEntry] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use warpsmith_build::bundle::CheckedRecord;

    use super::*;

    extern "C-unwind" fn nothing(_: *const *const u8) {}

    fn entry(module: &'static [u8], functions: &'static [RunThread]) -> CheckedEntry {
        CheckedEntry {
            module: module.as_ptr(),
            module_len: module.len() as u64,
            functions: functions.as_ptr(),
            function_count: functions.len() as u64,
        }
    }

    #[test]
    fn an_entry_is_called_by_its_kernels_name() {
        assert_eq!(kernel_of_entry("<<app::sum>::__kernel::__Instance>::entry"), Some("app::sum"));
        assert_eq!(kernel_of_entry("<<app::sum>::__kernel::__Instance<f32, true>>::entry"), Some("app::sum"));
        assert_eq!(kernel_of_entry("app::helper"), None);
        assert_eq!(kernel_of_entry("<<app::sum>::__kernel::__Instance>::entry::{{closure}}"), None);
    }

    #[test]
    fn kernels_are_found_by_key_with_their_places() {
        let key = |name: &str| KernelKey { name: name.into(), ..KernelKey::default() };
        let module = CheckedModule {
            target: "bin app".into(),
            kernels: ["one", "two"].map(|name| CheckedRecord { key: key(name), params: Vec::new() }).into(),
            sites: vec![CheckedSite { line: 7, ..CheckedSite::default() }],
        };
        let bytes: &'static [u8] = module.encode().leak();
        let skipped =
            CheckedEntry { module: std::ptr::null(), module_len: 0, functions: std::ptr::null(), function_count: 0 };
        let all = read(&[skipped, entry(bytes, &[nothing, nothing])]).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[&key("two")].sites.get(0).unwrap().line, 7);
        let error = read(&[entry(bytes, &[nothing])]).unwrap_err();
        assert_eq!(error, "bin app has 2 kernels and 1 functions for the checker");
        assert!(read(&[entry(b"damaged", &[nothing])]).is_err());
    }

    #[test]
    fn this_program_has_a_section() {
        assert!(find(&KernelKey::default()).unwrap().is_none());
        assert!(!cfg!(target_os = "linux") || !section::entries().is_empty());
    }
}

//! How a profiler enters: the library that `NVTX_INJECTION64_PATH` names is loaded, and writes its functions into tables
//! that are handed to it. Layouts and numbers are those of NVTX version 3 (`nvtx3/nvtxDetail/nvtxTypes.h`).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Modules of functions that a profiler may ask for, and how many slots each has; the first of each is never used.
const CORE: usize = 1;
const CORE2: usize = 5;
const MODULE_SLOTS: [usize; 7] = [0, 16, 9, 16, 7, 16, 7];
const MOST_SLOTS: usize = 16;

/// Slots of the module `CORE2`, whose functions know domains.
const DOMAIN_MARK: usize = 1;
const DOMAIN_RANGE_PUSH: usize = 4;
const DOMAIN_RANGE_POP: usize = 5;
const DOMAIN_CREATE: usize = 12;

/// Slots of the module `CORE`.
const MARK: usize = 2;
const RANGE_PUSH: usize = 9;
const RANGE_POP: usize = 11;

const NVTX_VERSION: u16 = 3;
const MESSAGE_TYPE_ASCII: i32 = 1;

/// `nvtxEventAttributes_t`.
#[repr(C)]
struct EventAttributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

type Slot = AtomicPtr<c_void>;
type Table = [*const Slot; MOST_SLOTS + 1];

/// What profilers write their functions into.
static SLOTS: [[Slot; MOST_SLOTS]; MODULE_SLOTS.len()] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_SLOTS] }; MODULE_SLOTS.len()];

/// The addresses of the slots: for each module a list with a null pointer first and last.
struct Tables([Table; MODULE_SLOTS.len()]);

// SAFETY: addresses of statics, which any thread may use.
unsafe impl Send for Tables {}
// SAFETY: as above.
unsafe impl Sync for Tables {}

static TABLES: Tables = Tables({
    let mut tables = [[null(); MOST_SLOTS + 1]; MODULE_SLOTS.len()];
    let mut module = 0;
    while module < MODULE_SLOTS.len() {
        let mut slot = 1;
        while slot < MODULE_SLOTS[module] {
            tables[module][slot] = &raw const SLOTS[module][slot];
            slot += 1;
        }
        module += 1;
    }
    tables
});

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    bytes: usize,
    get_module_function_table: extern "C" fn(c_uint, *mut *const *const Slot, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    bytes: usize,
    version: u32,
    reserved: u32,
    set_injection_version: extern "C" fn(u32),
}

static CALLBACKS: Callbacks =
    Callbacks { bytes: size_of::<Callbacks>(), get_module_function_table: module_function_table };

static VERSION_INFO: VersionInfo = VersionInfo {
    bytes: size_of::<VersionInfo>(),
    version: NVTX_VERSION as u32,
    reserved: 0,
    set_injection_version: ignore_version,
};

extern "C" fn ignore_version(_version: u32) {}

extern "C" fn module_function_table(module: c_uint, table: *mut *const *const Slot, len: *mut c_uint) -> c_int {
    let Some(module) = usize::try_from(module).ok().filter(|&module| (1..MODULE_SLOTS.len()).contains(&module)) else {
        return 0;
    };
    if !table.is_null() {
        // SAFETY: the profiler passes a place for the answer or null, as the interface says.
        unsafe { *table = TABLES.0[module].as_ptr().cast() };
    }
    if !len.is_null() {
        // SAFETY: as above.
        unsafe { *len = c_uint::try_from(MODULE_SLOTS[module]).expect("a table has few slots") };
    }
    1
}

extern "C" fn export_table(id: u32) -> *const c_void {
    const CALLBACK_TABLE: u32 = 1;
    const VERSION_TABLE: u32 = 3;
    match id {
        CALLBACK_TABLE => (&raw const CALLBACKS).cast(),
        VERSION_TABLE => (&raw const VERSION_INFO).cast(),
        _ => null(),
    }
}

type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;

/// A profiler that listens.
pub(super) struct Tool {
    /// Stays null where the profiler knows no domains.
    domain: *mut c_void,
}

// SAFETY: the profiler's handle may be used from any thread, as NVTX says of domains.
unsafe impl Send for Tool {}
// SAFETY: as above.
unsafe impl Sync for Tool {}

/// The profiler that was put into this process, if there is one.
#[inline]
pub(super) fn tool() -> Option<&'static Tool> {
    static TOOL: OnceLock<Option<Tool>> = OnceLock::new();
    TOOL.get_or_init(Tool::load).as_ref()
}

/// The function that the profiler has written into a slot.
fn slot(module: usize, index: usize) -> Option<*mut c_void> {
    let function = SLOTS[module][index].load(Ordering::Acquire);
    (!function.is_null()).then_some(function)
}

macro_rules! call {
    ($function:expr, fn($($argument:ty),*) -> $result:ty, $($value:expr),*) => {{
        // SAFETY: the profiler wrote it into the slot of a function of this type.
        let function = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>($function) };
        // SAFETY: the arguments are as NVTX wants them, and alive during the call.
        unsafe { function($($value),*) }
    }};
}

impl Tool {
    fn load() -> Option<Self> {
        let variable = if size_of::<usize>() == 8 { "NVTX_INJECTION64_PATH" } else { "NVTX_INJECTION32_PATH" };
        let path = std::env::var_os(variable)?;
        // SAFETY: the library's initialisers run, which whoever set the variable asked for.
        let library = match unsafe { libloading::Library::new(&path) } {
            Ok(library) => library,
            Err(error) => {
                tracing::warn!(variable, path = %path.display(), %error, "no ranges: the profiler cannot be loaded");
                return None;
            }
        };
        // Profilers keep threads and functions in it: it is never unloaded.
        let library = Box::leak(Box::new(library));
        // SAFETY: the symbol has this type in every NVTX injection library.
        let initialize = match unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") } {
            Ok(symbol) => *symbol,
            Err(error) => {
                tracing::warn!(variable, path = %path.display(), %error, "no ranges: the library is no NVTX profiler");
                return None;
            }
        };
        // SAFETY: it takes the function that gives the tables.
        if unsafe { initialize(export_table) } == 0 {
            tracing::warn!(variable, path = %path.display(), "no ranges: the profiler refused to start");
            return None;
        }
        let name: &CStr = c"warpsmith";
        let domain = slot(CORE2, DOMAIN_CREATE)
            .map_or(std::ptr::null_mut(), |create| call!(create, fn(*const c_char) -> *mut c_void, name.as_ptr()));
        Some(Self { domain })
    }

    pub(super) fn push(&self, name: &CStr) {
        if let Some(push) = slot(CORE2, DOMAIN_RANGE_PUSH).filter(|_| !self.domain.is_null()) {
            let attributes = attributes(name);
            call!(push, fn(*mut c_void, *const EventAttributes) -> c_int, self.domain, &raw const attributes);
        } else if let Some(push) = slot(CORE, RANGE_PUSH) {
            call!(push, fn(*const c_char) -> c_int, name.as_ptr());
        }
    }

    pub(super) fn pop(&self) {
        if let Some(pop) =
            slot(CORE2, DOMAIN_RANGE_POP).filter(|_| !self.domain.is_null() && slot(CORE2, DOMAIN_RANGE_PUSH).is_some())
        {
            call!(pop, fn(*mut c_void) -> c_int, self.domain);
        } else if let Some(pop) = slot(CORE, RANGE_POP) {
            call!(pop, fn() -> c_int,);
        }
    }

    pub(super) fn mark(&self, name: &CStr) {
        if let Some(mark) = slot(CORE2, DOMAIN_MARK).filter(|_| !self.domain.is_null()) {
            let attributes = attributes(name);
            call!(mark, fn(*mut c_void, *const EventAttributes) -> (), self.domain, &raw const attributes);
        } else if let Some(mark) = slot(CORE, MARK) {
            call!(mark, fn(*const c_char) -> (), name.as_ptr());
        }
    }
}

fn attributes(name: &CStr) -> EventAttributes {
    EventAttributes {
        version: NVTX_VERSION,
        size: u16::try_from(size_of::<EventAttributes>()).expect("a small struct"),
        category: 0,
        color_type: 0,
        color: 0,
        payload_type: 0,
        reserved: 0,
        payload: 0,
        message_type: MESSAGE_TYPE_ASCII,
        message: name.as_ptr(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_nvtx_3() {
        assert_eq!(size_of::<EventAttributes>(), 48);
        assert_eq!(std::mem::offset_of!(EventAttributes, payload), 24);
        assert_eq!(std::mem::offset_of!(EventAttributes, message), 40);
        assert_eq!(size_of::<Callbacks>(), 16);
        assert_eq!(size_of::<VersionInfo>(), 24);
    }

    #[test]
    fn tables_list_their_slots_between_null_pointers() {
        for (module, &slots) in MODULE_SLOTS.iter().enumerate() {
            let (mut table, mut len): (*const *const Slot, c_uint) = (null(), 0);
            let known = module_function_table(module as c_uint, &raw mut table, &raw mut len);
            assert_eq!(known, c_int::from(module != 0), "module {module}");
            if known == 0 {
                continue;
            }
            assert_eq!(len as usize, slots);
            // SAFETY: a table has that many entries and one more.
            let entries = unsafe { std::slice::from_raw_parts(table, slots + 1) };
            assert!(entries[0].is_null() && entries[slots].is_null());
            for (index, entry) in entries.iter().enumerate().take(slots).skip(1) {
                assert_eq!(*entry, &raw const SLOTS[module][index]);
            }
        }
        assert_eq!(module_function_table(7, std::ptr::null_mut(), std::ptr::null_mut()), 0);
        assert!(export_table(0).is_null() && export_table(2).is_null() && !export_table(1).is_null());
    }
}

//! A profiler as NVTX sees one: it puts its functions into the tables it is handed, and writes down what they are told,
//! into the file that `NVTX_TOOL_LOG` names. Built by the test with `rustc`, as a `cdylib`.
//!
//! `NVTX_TOOL_KNOWS` is `domains` or `core`: the functions that it has.

#![allow(non_snake_case, reason = "the function is named as NVTX wants it")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io::Write;

#[repr(C)]
struct Attributes {
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

#[repr(C)]
struct Callbacks {
    bytes: usize,
    get_module_function_table: extern "C" fn(c_uint, *mut *mut *mut *const c_void, *mut c_uint) -> c_int,
}

fn write(line: &str) {
    let path = std::env::var_os("NVTX_TOOL_LOG").expect("the test names a file");
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("the file opens");
    writeln!(file, "{line}").expect("the file takes a line");
}

fn text(message: *const c_char) -> String {
    // SAFETY: NVTX passes NUL-terminated text.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

fn attributes(attributes: *const Attributes) -> String {
    // SAFETY: NVTX passes attributes that are alive during the call.
    let attributes = unsafe { &*attributes };
    assert_eq!((attributes.version, attributes.size, attributes.message_type), (3, 48, 1));
    text(attributes.message)
}

extern "C" fn domain_create(name: *const c_char) -> *mut c_void {
    write(&format!("domain {}", text(name)));
    std::ptr::without_provenance_mut(0x5eed)
}

extern "C" fn domain_push(domain: *mut c_void, event: *const Attributes) -> c_int {
    assert_eq!(domain.addr(), 0x5eed);
    write(&format!("push {}", attributes(event)));
    0
}

extern "C" fn domain_pop(domain: *mut c_void) -> c_int {
    assert_eq!(domain.addr(), 0x5eed);
    write("pop");
    0
}

extern "C" fn domain_mark(domain: *mut c_void, event: *const Attributes) {
    assert_eq!(domain.addr(), 0x5eed);
    write(&format!("mark {}", attributes(event)));
}

extern "C" fn push(message: *const c_char) -> c_int {
    write(&format!("core push {}", text(message)));
    0
}

extern "C" fn pop() -> c_int {
    write("core pop");
    0
}

extern "C" fn mark(message: *const c_char) {
    write(&format!("core mark {}", text(message)));
}

#[unsafe(no_mangle)]
extern "C" fn InitializeInjectionNvtx2(export_table: extern "C" fn(u32) -> *const c_void) -> c_int {
    let callbacks: *const Callbacks = export_table(1).cast();
    // SAFETY: the table of this number has this layout.
    let callbacks = unsafe { &*callbacks };
    assert_eq!(callbacks.bytes, size_of::<Callbacks>());
    let put = |module: c_uint, slot: usize, function: *const c_void| {
        let (mut table, mut len) = (std::ptr::null_mut(), 0);
        assert_eq!((callbacks.get_module_function_table)(module, &raw mut table, &raw mut len), 1);
        assert!(slot < len as usize);
        // SAFETY: a table has that many entries, and each but the first is the address of a slot.
        unsafe { **table.add(slot) = function };
    };
    match std::env::var("NVTX_TOOL_KNOWS").as_deref() {
        Ok("domains") => {
            put(5, 1, domain_mark as *const c_void);
            put(5, 4, domain_push as *const c_void);
            put(5, 5, domain_pop as *const c_void);
            put(5, 12, domain_create as *const c_void);
            1
        }
        Ok("core") => {
            put(1, 2, mark as *const c_void);
            put(1, 9, push as *const c_void);
            put(1, 11, pop as *const c_void);
            1
        }
        _ => 0,
    }
}

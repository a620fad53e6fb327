//! Memory: the allocator and the C memory functions get the device crate's bodies; shared memory gets its own space.

use std::collections::HashMap;

use super::constants::{address, bytes_at};
use super::names::{
    ALLOCATE, ALLOCATE_ZEROED, COMPARE, DYNAMIC_SHARED, FILL, FREE, LOAD_RACING, MOVE, NAMED_BARRIERS, REALLOCATE,
    SHARED, STORE_RACING, STRING_LENGTH, demangle,
};
use crate::llvm::{Builder, Context, FUNCTION, Module, Value, linkage};

/// PTX's address space of shared memory.
const SHARED_SPACE: u32 = 3;

/// What the names of a kernel's own shared memory begin with.
pub(super) const SHARED_PREFIX: &str = "ws_shared_";
/// The variable with a word for each named barrier, 0 included.
const NAMED_BARRIER_WORDS: &str = "ws_shared_named_barriers";
/// Its size in bytes.
const NAMED_BARRIER_BYTES: u64 = 16 * 4;

/// Clears the kernel's named barriers where it has some: one thread does, before any other goes on.
pub(super) fn clear_named_barriers(context: &Context, module: &Module, builder: &Builder) {
    let Some(words) = named_barriers(module) else { return };
    let mut text =
        "{ .reg .pred %first; .reg .b32 %x, %y, %z; mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z; \
                    or.b32 %x, %x, %y; or.b32 %x, %x, %z; setp.eq.u32 %first, %x, 0; mov.b32 %z, 0; "
            .to_owned();
    for offset in (0..NAMED_BARRIER_BYTES).step_by(16) {
        text.push_str(&format!("@%first st.v4.b32 [$0+{offset}], {{%z, %z, %z, %z}}; "));
    }
    text.push_str("bar.sync 0; }");
    let generic = context.ptr(0);
    let ty = context.void().function(&[generic]);
    let call = builder.call(ty, ty.inline_asm(&text, "l,~{memory}", true), &[words.address_space_cast(generic)]);
    call.add_call_attribute(FUNCTION, context.enum_attribute("convergent", 0));
}

/// The kernel's named barriers, where it has some.
pub(super) fn named_barriers(module: &Module) -> Option<Value> {
    module.global(NAMED_BARRIER_WORDS).filter(|words| words.has_uses())
}

/// Points allocator and memory functions at the device crate's bodies.
pub(super) fn replace(module: &Module) {
    for function in module.functions() {
        if !function.is_declaration() || !function.has_uses() {
            continue;
        }
        let symbol = function.name();
        let target = match symbol.as_str() {
            "memcmp" | "bcmp" => COMPARE,
            "memcpy" | "memmove" => MOVE,
            "memset" => FILL,
            "strlen" => STRING_LENGTH,
            _ => match demangle(&symbol).as_str() {
                "__rustc::__rust_alloc" | "__rust_alloc" => ALLOCATE,
                "__rustc::__rust_alloc_zeroed" | "__rust_alloc_zeroed" => ALLOCATE_ZEROED,
                "__rustc::__rust_dealloc" | "__rust_dealloc" => FREE,
                "__rustc::__rust_realloc" | "__rust_realloc" => REALLOCATE,
                "__rustc::__rust_no_alloc_shim_is_unstable_v2" | "__rust_no_alloc_shim_is_unstable_v2" => {
                    for call in function.users() {
                        call.erase();
                    }
                    continue;
                }
                _ => continue,
            },
        };
        let target = module.declare(target, function.value_type());
        function.replace_uses(target);
    }
}

/// Gives each static shared allocation a variable in shared memory.
///
/// # Errors
/// The call whose size, alignment or name is not constant.
pub(super) fn place_shared(context: &Context, module: &Module) -> Result<(), String> {
    let generic = context.ptr(0);
    if let Some(marker) = module.function(DYNAMIC_SHARED) {
        let window = module.add_global("ws_dynamic_shared", context.int(8).array(0), SHARED_SPACE);
        window.set_linkage(linkage::EXTERNAL);
        window.set_alignment(16);
        for call in marker.users() {
            call.replace_with(window.address_space_cast(generic));
        }
    }
    if let Some(marker) = module.function(NAMED_BARRIERS) {
        let ty = context.int(8).array(NAMED_BARRIER_BYTES);
        let words = module.add_global(NAMED_BARRIER_WORDS, ty, SHARED_SPACE);
        words.set_initializer(ty.undef());
        words.set_linkage(linkage::INTERNAL);
        words.set_alignment(16);
        for call in marker.users() {
            call.replace_with(words.address_space_cast(generic));
        }
    }
    let Some(marker) = module.function(SHARED) else { return Ok(()) };
    let mut placed: HashMap<(Vec<u8>, u64, u32), Value> = HashMap::new();
    for call in marker.users() {
        let arguments = call.arguments();
        let constant = || {
            let (global, into) = address(arguments[0])?;
            let mut key = bytes_at(global, into, usize::try_from(arguments[1].as_int()?).ok()?)?;
            // Two places in one expansion of a macro print alike; each has a static of its own.
            key.extend(address(arguments[4])?.0.name().bytes());
            Some((key, arguments[2].as_int()?, u32::try_from(arguments[3].as_int()?).ok()?))
        };
        let (key, size, align) = constant()
            .ok_or_else(|| format!("a shared allocation's size, alignment or name is not constant: {}", call.text()))?;
        let number = placed.len();
        // Local types of one name print alike; what has another shape is certainly another allocation.
        let variable = *placed.entry((key, size, align)).or_insert_with(|| {
            let ty = context.int(8).array(size);
            let variable = module.add_global(&format!("{SHARED_PREFIX}{number}"), ty, SHARED_SPACE);
            variable.set_initializer(ty.undef());
            variable.set_linkage(linkage::INTERNAL);
            // Whole vectors can be moved only when the alignment is known to allow it.
            variable.set_alignment(align.max(if size >= 16 { 16 } else { 1 }));
            variable
        });
        call.replace_with(variable.address_space_cast(generic));
    }
    Ok(())
}

/// Accesses to what several threads may reach at once become plain loads and stores. A load is frozen: one that races, or
/// that nobody wrote before, would give `undef`, which may be another value in each use.
pub(super) fn place_racing_accesses(context: &Context, module: &Module) {
    for bits in [8, 16, 32, 64] {
        let ty = context.int(bits);
        let calls = |prefix: &str| module.function(&format!("{prefix}{bits}")).map(Value::users).unwrap_or_default();
        for call in calls(LOAD_RACING) {
            let builder = context.builder();
            builder.before(call);
            let loaded = builder.load(ty, call.operand(0));
            loaded.set_alignment(bits / 8);
            call.replace_with(builder.freeze(loaded));
        }
        for call in calls(STORE_RACING) {
            let builder = context.builder();
            builder.before(call);
            builder.store(call.operand(1), call.operand(0)).set_alignment(bits / 8);
            call.erase();
        }
    }
}

/// Bytes of static shared memory in a module.
pub(super) fn shared_bytes(module: &Module) -> u64 {
    let mut total = 0_u64;
    for global in module.globals() {
        if global.name().starts_with(SHARED_PREFIX) || global.name().starts_with("ws_hidden") {
            let align = u64::from(global.alignment().max(1));
            total = total.next_multiple_of(align) + module.size_of(global.value_type());
        }
    }
    total
}

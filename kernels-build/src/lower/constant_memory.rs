//! Constants that the host sets: each static of the device crate's `Constant` gets a variable in PTX's `.const` space, by
//! whose name the launcher finds it in the loaded module.

use std::collections::HashMap;
use std::mem::{offset_of, size_of};

use warpsmith_device::constant::{CONSTANT_MAGIC, ConstantDesc};

use super::Pipeline;
use super::constants::ConstBytes;
use super::entries::fnv;
use crate::bundle::{ConstantKey, ConstantRecord};
use crate::job::LowerError;
use crate::llvm::{Context, Module, Value, linkage};

/// PTX's address space of constant memory.
const CONST_SPACE: u32 = 4;

/// Moves the constants of a target's kernels to the `.const` space.
///
/// # Errors
/// Two constants that cannot be told apart, or a declaration that is not what the device crate makes.
pub(super) fn place(
    context: &Context,
    module: &Module,
    pipeline: &Pipeline<'_>,
) -> Result<Vec<ConstantRecord>, LowerError> {
    let mut placed: HashMap<ConstantKey, ConstantRecord> = HashMap::new();
    for global in module.globals() {
        // It holds an `UnsafeCell`, so that rustc never makes it a constant.
        if global.is_global_constant() || global.is_declaration() || !global.has_uses() {
            continue;
        }
        let Some(bytes) = ConstBytes::of_global(global) else { continue };
        let Some(desc) = description(&bytes) else { continue };
        let unreadable = || pipeline.internal(format!("a constant is unreadable: {}", global.name()));
        let (mut record, value) = read(&bytes, desc).ok_or_else(unreadable)?;
        record.symbol = format!("{PREFIX}{:016x}", fnv(format!("{:?}", record.key).as_bytes()));
        let align = u32::try_from(record.align).map_err(|_| unreadable())?;
        let variable = module.add_global(&record.symbol, context.int(8).array(record.size), CONST_SPACE);
        variable.set_initializer(context.bytes(value));
        variable.set_global_constant(true);
        // Nobody may count on the value of the declaration.
        variable.set_externally_initialized();
        variable.set_linkage(linkage::EXTERNAL);
        // Whole vectors can be read only when the alignment is known to allow it.
        variable.set_alignment(align.max(if record.size >= 16 { 16 } else { 1 }));
        global.replace_uses(variable.address_space_cast(context.ptr(0)));
        if let Some(other) = placed.insert(record.key.clone(), record) {
            let ConstantKey { module_path, name, file, line, .. } = other.key;
            return Err(LowerError::Unsupported {
                problems: vec![format!(
                    "two constants are both named `{module_path}::{name}` and declared at {file}:{line}, so that the host cannot \
                     say which it sets: declare them in places of their own, not both in one macro"
                )],
            });
        }
    }
    let mut all: Vec<ConstantRecord> = placed.into_values().collect();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(all)
}

/// What the names of constants begin with.
const PREFIX: &str = "ws_constant_";

/// The constants among `all` that a kernel's module reaches; from here on the driver finds them.
pub(super) fn reached(module: &Module, all: &[ConstantRecord]) -> Vec<ConstantRecord> {
    let mut reached = Vec::new();
    for record in all {
        if let Some(variable) = module.global(&record.symbol).filter(|variable| variable.has_uses()) {
            variable.set_linkage(linkage::EXTERNAL);
            reached.push(record.clone());
        }
    }
    reached
}

/// Bytes that a module's constants take.
pub(super) fn bytes(constants: &[ConstantRecord], module: &Module) -> u64 {
    let variables = constants.iter().filter_map(|record| module.global(&record.symbol));
    variables.fold(0, |end, variable: Value| {
        let align = u64::from(variable.alignment().max(1));
        end.next_multiple_of(align) + module.size_of(variable.value_type())
    })
}

/// Where the description stands: behind the value.
fn description(bytes: &ConstBytes) -> Option<usize> {
    let last = bytes.bytes.len().checked_sub(size_of::<ConstantDesc>())?;
    let at = |offset: usize| {
        bytes.u64_at(offset) == Some(CONSTANT_MAGIC[0]) && bytes.u64_at(offset + 8) == Some(CONSTANT_MAGIC[1])
    };
    (0..=last / 8).rev().map(|word| word * 8).find(|offset| at(*offset))
}

/// The record, without a symbol, and the declared value.
fn read(bytes: &ConstBytes, desc: usize) -> Option<(ConstantRecord, &[u8])> {
    let key = ConstantKey {
        module_path: bytes.string_at(desc + offset_of!(ConstantDesc, module_path))?,
        name: bytes.string_at(desc + offset_of!(ConstantDesc, name))?,
        file: bytes.string_at(desc + offset_of!(ConstantDesc, file))?,
        line: bytes.u32_at(desc + offset_of!(ConstantDesc, line))?,
        column: bytes.u32_at(desc + offset_of!(ConstantDesc, column))?,
    };
    let size = bytes.u64_at(desc + offset_of!(ConstantDesc, size))?;
    let value = bytes.bytes.get(..usize::try_from(size).ok()?)?;
    if value.len() > desc {
        return None;
    }
    let record = ConstantRecord {
        key,
        symbol: String::new(),
        size,
        align: bytes.u64_at(desc + offset_of!(ConstantDesc, align))?,
        layout: bytes.u64_at(desc + offset_of!(ConstantDesc, layout))?,
    };
    Some((record, value))
}

//! Finds the kernels of a target: the calls that tie each entry to its description.

use std::collections::HashMap;
use std::mem::{offset_of, size_of};

use warpsmith_device::abi::{ABI_VERSION, KernelDesc, KernelOptions, ParamDesc, ParamKind};

use super::Pipeline;
use super::constants::{ConstBytes, address, bytes_at};
use super::names::{REGISTER, demangle};
use crate::bundle::{KernelKey, ParamRecord};
use crate::job::LowerError;
use crate::llvm::{Attribute, Context, FUNCTION, Module, Value, kind, opcode};

/// A kernel instance of the target.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The symbol of the Rust entry in the bitcode.
    pub(super) symbol: String,
    pub(super) key: KernelKey,
    pub(super) params: Vec<ParamRecord>,
    pub(super) options: KernelOptions,
}

impl Entry {
    /// The kernel as messages name it.
    pub(super) fn title(&self) -> String {
        let generics = self.key.instance.find('<').map_or("", |at| &self.key.instance[at..]);
        format!("{}::{}{generics}", self.key.module_path, self.key.name)
    }

    /// The entry's name in the PTX.
    pub(super) fn ptx_name(&self) -> String {
        let name: String = self.key.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        format!("ws_{name}_{:016x}", fnv(self.symbol.as_bytes()))
    }
}

/// FNV-1a: names and cache keys of ours, where a collision costs a message and not a wrong result.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Lists the kernels, and removes the calls that told of them.
pub(super) fn find(context: &Context, module: &Module, pipeline: &Pipeline<'_>) -> Result<Vec<Entry>, LowerError> {
    let Some(register) = module.function(REGISTER) else { return Ok(Vec::new()) };
    let mut by_key: HashMap<KernelKey, Entry> = HashMap::new();
    let always = context.enum_attribute("alwaysinline", 0);
    let mut rounds = 0;
    loop {
        let calls: Vec<Value> = register.users().into_iter().filter(|user| user.is_instruction()).collect();
        let mut unread = Vec::new();
        for call in calls {
            match read(call) {
                Some(entry) => {
                    if let Some(other) = by_key.get(&entry.key)
                        && other.symbol != entry.symbol
                    {
                        return Err(LowerError::DuplicateKey { key: entry.title() });
                    }
                    by_key.insert(entry.key.clone(), entry);
                }
                None => unread.push(call),
            }
        }
        if unread.is_empty() {
            break;
        }
        if rounds == 8 {
            return Err(pipeline.internal(format!("a kernel's description is not constant: {}", unread[0].text())));
        }
        unread.into_iter().for_each(|call| inline_operands(call, always));
        module.run("always-inline,function(sroa,instsimplify)", None).map_err(|reason| pipeline.internal(reason))?;
        rounds += 1;
    }
    let mut entries: Vec<Entry> = by_key.into_values().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    if let Some(entry) = entries.iter().find(|e| e.params.len() > 1 << 12) {
        return Err(pipeline.internal(format!("kernel `{}` has too many parameters", entry.title())));
    }
    Ok(entries)
}

fn read(call: Value) -> Option<Entry> {
    let arguments = call.arguments();
    let entry = arguments[0].as_function()?;
    let (desc, offset) = address(arguments[1])?;
    if offset != 0 {
        return None;
    }
    let instance_len = usize::try_from(arguments[3].as_int()?).ok()?;
    let (instance, instance_offset) = address(arguments[2])?;
    let instance = String::from_utf8(bytes_at(instance, instance_offset, instance_len)?).ok()?;
    let desc = ConstBytes::of_global(desc)?;
    if desc.u32_at(offset_of!(KernelDesc, abi_version))? != ABI_VERSION {
        return None;
    }
    let key = KernelKey {
        module_path: desc.string_at(offset_of!(KernelDesc, module_path))?,
        name: desc.string_at(offset_of!(KernelDesc, name))?,
        file: desc.string_at(offset_of!(KernelDesc, file))?,
        line: desc.u32_at(offset_of!(KernelDesc, line))?,
        column: desc.u32_at(offset_of!(KernelDesc, column))?,
        instance,
    };
    Some(Entry { symbol: entry.name(), key, params: params(&desc)?, options: options(&desc)? })
}

/// Lets the calls that compute a description's operands be inlined: `type_name` and the like return constants.
fn inline_operands(call: Value, always: Attribute) {
    for mut operand in call.arguments() {
        while operand.is_instruction() && operand.opcode() == opcode::EXTRACT_VALUE {
            operand = operand.operand(0);
        }
        if operand.is_instruction()
            && operand.opcode() == opcode::CALL
            && let Some(callee) = operand.called().as_function()
            && !callee.is_declaration()
        {
            callee.remove_attribute(FUNCTION, "noinline");
            callee.remove_attribute(FUNCTION, "optnone");
            callee.add_attribute(FUNCTION, always);
        }
    }
}

fn options(desc: &ConstBytes) -> Option<KernelOptions> {
    let at = |field: usize| desc.u32_at(offset_of!(KernelDesc, options) + field);
    let block = offset_of!(KernelOptions, block);
    Some(KernelOptions {
        block: [at(block)?, at(block + 4)?, at(block + 8)?],
        max_threads: at(offset_of!(KernelOptions, max_threads))?,
        min_blocks: at(offset_of!(KernelOptions, min_blocks))?,
        max_registers: at(offset_of!(KernelOptions, max_registers))?,
        contract: at(offset_of!(KernelOptions, contract))?,
        fast_math: at(offset_of!(KernelOptions, fast_math))?,
        unchecked: at(offset_of!(KernelOptions, unchecked))?,
        opt_level: at(offset_of!(KernelOptions, opt_level))?,
        ftz: at(offset_of!(KernelOptions, ftz))?,
        approx: at(offset_of!(KernelOptions, approx))?,
    })
}

fn params(desc: &ConstBytes) -> Option<Vec<ParamRecord>> {
    let count = usize::try_from(desc.u64_at(offset_of!(KernelDesc, param_count))?).ok()?;
    if count == 0 {
        return Some(Vec::new());
    }
    let (global, into) = desc.address_at(offset_of!(KernelDesc, params))?;
    let table = ConstBytes::of_global(global)?;
    let start = usize::try_from(into).ok()?;
    (0..count)
        .map(|i| {
            let at = start + i * size_of::<ParamDesc>();
            Some(ParamRecord {
                kind: table.u32_at(at + offset_of!(ParamDesc, kind))?,
                align: table.u32_at(at + offset_of!(ParamDesc, align))?,
                size: table.u64_at(at + offset_of!(ParamDesc, size))?,
                extent_size: table.u64_at(at + offset_of!(ParamDesc, extent_size))?,
                layout: table.u64_at(at + offset_of!(ParamDesc, layout))?,
            })
        })
        .collect()
}

/// The `byval` sizes and alignments of the entry's flattened arguments, in order; nothing for plain ones.
pub(super) fn flattened(params: &[ParamRecord]) -> Vec<Option<(u64, u32)>> {
    let mut all = Vec::new();
    for param in params {
        match param.kind {
            k if k == ParamKind::Value as u32 => {
                all.push((param.size > 0).then_some((param.size, param.align)));
            }
            k if k == ParamKind::Slice as u32 => all.extend([None, None]),
            k if k == ParamKind::GridSliceMut as u32 => all.extend([None, Some((param.extent_size, 8))]),
            _ => all.push(None),
        }
    }
    all
}

/// Whether the Rust entry has the parameters that its description promises: pointers and 64-bit integers.
pub(super) fn fits(entry: &Entry, function: Value) -> Result<(), String> {
    let types = function.value_type().parameter_types();
    let wanted = flattened(&entry.params);
    let plain = types.iter().all(|t| t.kind() == kind::POINTER || t.is_int(64));
    if types.len() == wanted.len() && plain && function.value_type().return_type().kind() == kind::VOID {
        return Ok(());
    }
    Err(format!(
        "entry `{}` has type {}, but its description has {} arguments",
        demangle(&entry.symbol),
        function.value_type().text(),
        wanted.len()
    ))
}

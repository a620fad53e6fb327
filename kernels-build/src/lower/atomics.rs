//! Atomics: the device crate's calls become LLVM's instructions, and those become PTX with the scope and the order that
//! they ask for, which LLVM's own PTX printer leaves out of `atom`.

use warpsmith_device::atomic::code;

use super::names::ATOMIC;
use crate::llvm::{Context, Machine, Module, Type, Value, kind, opcode, operation, ordering};

/// PTX's address spaces.
const GLOBAL: u32 = 1;
const SHARED: u32 = 3;

/// From this architecture on, PTX adds `bf16` numbers in memory.
const ADDS_BF16: u32 = 90;

/// Replaces the device crate's calls by atomic instructions, where the calls' numbers are constant.
pub(super) fn replace(context: &Context, module: &Module) {
    for function in module.functions() {
        let name = function.name();
        let Some((kind, bits)) = name.strip_prefix(ATOMIC).and_then(|rest| rest.split_once('_')) else { continue };
        let Ok(bits) = bits.parse() else { continue };
        for call in function.users() {
            if call.is_instruction() && call.opcode() == opcode::CALL && call.called() == function {
                replace_call(context, call, kind, context.int(bits));
            }
        }
    }
}

fn replace_call(context: &Context, call: Value, kind: &str, word: Type) {
    let arguments = call.arguments();
    let Some(how) = arguments.last().and_then(|how| how.as_int()) else { return };
    let Ok(how) = u32::try_from(how) else { return };
    let (operation, order, scope) = code::decode(how);
    let order = match order {
        code::RELAXED => ordering::RELAXED,
        code::ACQUIRE => ordering::ACQUIRE,
        code::RELEASE => ordering::RELEASE,
        code::ACQUIRE_RELEASE => ordering::ACQUIRE_RELEASE,
        _ => ordering::SEQUENTIAL,
    };
    let scope = context.sync_scope(match scope {
        code::BLOCK => "block",
        code::DEVICE => "device",
        _ => "",
    });
    let pointer = arguments[0];
    let builder = context.builder();
    builder.before(call);
    let result = match kind {
        "load" => {
            let load = builder.load(word, pointer);
            load.make_atomic(order, scope);
            load
        }
        "store" => {
            builder.store(arguments[1], pointer).make_atomic(order, scope);
            call.erase();
            return;
        }
        "cas" => {
            let failure = match order {
                ordering::RELEASE => ordering::RELAXED,
                ordering::ACQUIRE_RELEASE => ordering::ACQUIRE,
                order => order,
            };
            let pair = builder.compare_exchange(pointer, [arguments[1], arguments[2]], [order, failure], scope);
            builder.extract_value(pair, 0)
        }
        _ => {
            let (operation, ty) = match operation {
                code::EXCHANGE => (operation::EXCHANGE, word),
                code::ADD => (operation::ADD, word),
                code::SUB => (operation::SUB, word),
                code::AND => (operation::AND, word),
                code::OR => (operation::OR, word),
                code::XOR => (operation::XOR, word),
                code::MIN => (operation::MIN, word),
                code::MAX => (operation::MAX, word),
                code::UNSIGNED_MIN => (operation::UNSIGNED_MIN, word),
                code::UNSIGNED_MAX => (operation::UNSIGNED_MAX, word),
                code::INC => (operation::WRAPPING_INCREMENT, word),
                code::DEC => (operation::WRAPPING_DECREMENT, word),
                code::ADD_BF16 => (operation::FLOAT_ADD, context.bf16()),
                code::ADD_F16X2 => (operation::FLOAT_ADD, context.f16().vector(2)),
                code::ADD_BF16X2 => (operation::FLOAT_ADD, context.bf16().vector(2)),
                _ if word.is_int(16) => (operation::FLOAT_ADD, context.f16()),
                _ if word.is_int(32) => (operation::FLOAT_ADD, context.f32()),
                _ => (operation::FLOAT_ADD, context.f64()),
            };
            let value = if ty == word { arguments[1] } else { builder.cast(opcode::BITCAST, arguments[1], ty) };
            let before = builder.atomic_rmw(operation, pointer, value, order, scope);
            if ty == word { before } else { builder.cast(opcode::BITCAST, before, word) }
        }
    };
    call.replace_with(result);
}

/// Writes the atomics of a finished kernel as PTX, where the hardware has them for the type; LLVM makes loops around a
/// compare-exchange of the others, which keep scope and order.
///
/// `pointers` are the positions of the entry's arguments that are addresses in global memory.
///
/// # Errors
/// LLVM's, for a fault of ours.
pub(super) fn write(
    context: &Context,
    module: &Module,
    entry: Value,
    pointers: &[usize],
    machine: &Machine,
    architecture: u32,
) -> Result<(), String> {
    let is_ours = |instruction: &Value| matches!(instruction.opcode(), opcode::ATOMICRMW | opcode::CMPXCHG);
    if !module.functions().flat_map(Value::instructions).any(|instruction| is_ours(&instruction)) {
        return Ok(());
    }
    // The code generator, too, takes the arguments for global addresses, but only when the PTX text stands already.
    let parameters = entry.parameters();
    for position in pointers {
        say_global(context, entry, parameters[*position]);
    }
    module.run("function(infer-address-spaces)", Some(machine))?;
    for function in module.functions() {
        let instructions: Vec<Value> = function.instructions().filter(is_ours).collect();
        for instruction in instructions {
            if instruction.opcode() == opcode::CMPXCHG {
                compare_exchange(context, instruction);
            } else {
                read_modify_write(context, instruction, architecture);
            }
        }
    }
    Ok(())
}

/// Has an argument pass through the global address space, so that LLVM can infer it for the uses.
fn say_global(context: &Context, entry: Value, argument: Value) {
    if !argument.has_uses() {
        return;
    }
    let users = argument.users();
    let builder = context.builder();
    builder.before(entry.blocks()[0].first());
    let global = builder.cast(opcode::ADDRSPACECAST, argument, context.ptr(GLOBAL));
    let generic = builder.cast(opcode::ADDRSPACECAST, global, context.ptr(0));
    for user in users {
        for index in 0..user.operand_count() {
            if user.operand(index) == argument {
                user.set_operand(index, generic);
            }
        }
    }
}

/// The parts of an instruction's name that say in what order, for which threads and where.
struct Name {
    /// What stands before the instruction.
    fence: String,
    order: &'static str,
    scope: &'static str,
    space: &'static str,
}

fn name(context: &Context, instruction: Value) -> Name {
    let id = instruction.sync_scope();
    let scope = if id == context.sync_scope("block") {
        ".cta"
    } else if id == context.sync_scope("device") {
        ".gpu"
    } else {
        ".sys"
    };
    let (fence, order) = match instruction.ordering() {
        ordering::RELAXED => (String::new(), ".relaxed"),
        ordering::ACQUIRE => (String::new(), ".acquire"),
        ordering::RELEASE => (String::new(), ".release"),
        ordering::ACQUIRE_RELEASE => (String::new(), ".acq_rel"),
        // The fence releases too.
        _ => (format!("fence.sc{scope};\n\t"), ".acquire"),
    };
    let space = match instruction.operand(0).ty().address_space() {
        GLOBAL => ".global",
        SHARED => ".shared",
        _ => "",
    };
    Name { fence, order, scope, space }
}

/// A register class of PTX and the integer that fills one, for values of a type.
fn register(context: &Context, ty: Type) -> (&'static str, Type) {
    match ty.kind() {
        kind::FLOAT => ("f", ty),
        kind::DOUBLE => ("d", ty),
        kind::HALF | kind::BFLOAT => ("h", context.int(16)),
        kind::VECTOR => ("r", context.int(32)),
        kind::INTEGER if ty.int_bits() == 16 => ("h", ty),
        kind::INTEGER if ty.int_bits() == 32 => ("r", ty),
        _ => ("l", ty),
    }
}

/// What PTX calls the operation on the type, where it has it.
fn operation_name(operation: i32, ty: Type, architecture: u32) -> Option<&'static str> {
    let element = if ty.kind() == kind::VECTOR { ty.element() } else { ty };
    if operation == operation::FLOAT_ADD {
        let is_pair = ty.kind() == kind::VECTOR;
        return match element.kind() {
            kind::FLOAT if !is_pair => Some("add.f32"),
            kind::DOUBLE if !is_pair => Some("add.f64"),
            kind::HALF => Some(if is_pair { "add.noftz.f16x2" } else { "add.noftz.f16" }),
            kind::BFLOAT if architecture >= ADDS_BF16 => {
                Some(if is_pair { "add.noftz.bf16x2" } else { "add.noftz.bf16" })
            }
            _ => None,
        };
    }
    let is_wide = match ty.kind() {
        kind::FLOAT => false,
        kind::DOUBLE | kind::POINTER => true,
        kind::INTEGER if ty.int_bits() == 32 => false,
        kind::INTEGER if ty.int_bits() == 64 => true,
        _ => return None,
    };
    let pick = |narrow, wide| Some(if is_wide { wide } else { narrow });
    match operation {
        operation::EXCHANGE => pick("exch.b32", "exch.b64"),
        operation::ADD | operation::SUB => pick("add.u32", "add.u64"),
        operation::AND => pick("and.b32", "and.b64"),
        operation::OR => pick("or.b32", "or.b64"),
        operation::XOR => pick("xor.b32", "xor.b64"),
        operation::MAX => pick("max.s32", "max.s64"),
        operation::MIN => pick("min.s32", "min.s64"),
        operation::UNSIGNED_MAX => pick("max.u32", "max.u64"),
        operation::UNSIGNED_MIN => pick("min.u32", "min.u64"),
        operation::WRAPPING_INCREMENT if !is_wide => Some("inc.u32"),
        operation::WRAPPING_DECREMENT if !is_wide => Some("dec.u32"),
        _ => None,
    }
}

fn read_modify_write(context: &Context, instruction: Value, architecture: u32) {
    let operation = instruction.atomic_operation();
    let (pointer, value) = (instruction.operand(0), instruction.operand(1));
    let ty = value.ty();
    let is_logic = matches!(operation, operation::AND | operation::OR | operation::XOR);
    if is_logic && (ty.is_int(8) || ty.is_int(16)) {
        narrow_logic(context, instruction);
        return;
    }
    let Some(operation_name) = operation_name(operation, ty, architecture) else { return };
    let name = name(context, instruction);
    let Name { fence, order, scope, space } = &name;
    let builder = context.builder();
    builder.before(instruction);
    let (class, register) = register(context, ty);
    let value = match operation {
        operation::SUB => builder.binary(opcode::SUB, ty.null(), value),
        _ if register != ty => builder.cast(opcode::BITCAST, value, register),
        _ => value,
    };
    let can_reduce = operation != operation::EXCHANGE && matches!(*order, ".relaxed" | ".release");
    if can_reduce && !instruction.has_uses() {
        let ty = context.void().function(&[pointer.ty(), register]);
        let text = format!("/*ws*/{fence}red{order}{scope}{space}.{operation_name} [$0], $1;");
        builder.call(ty, ty.inline_asm(&text, &format!("l,{class},~{{memory}}"), true), &[pointer, value]);
        instruction.erase();
        return;
    }
    let call_type = register.function(&[pointer.ty(), register]);
    let text = format!("/*ws*/{fence}atom{order}{scope}{space}.{operation_name} $0, [$1], $2;");
    let asm = call_type.inline_asm(&text, &format!("={class},l,{class},~{{memory}}"), true);
    let before = builder.call(call_type, asm, &[pointer, value]);
    instruction.replace_with(if register == ty { before } else { builder.cast(opcode::BITCAST, before, ty) });
}

/// Logic on one or two bytes, as logic on the word around them that changes nothing else.
fn narrow_logic(context: &Context, instruction: Value) {
    let (pointer, value) = (instruction.operand(0), instruction.operand(1));
    let (i32, i64) = (context.int(32), context.int(64));
    let narrow = value.ty();
    let builder = context.builder();
    builder.before(instruction);
    let address = builder.cast(opcode::PTRTOINT, pointer, i64);
    let word = builder.binary(opcode::AND, address, i64.int_value(!3));
    let word = builder.cast(opcode::INTTOPTR, word, pointer.ty());
    let byte = builder.binary(opcode::AND, builder.cast(opcode::TRUNC, address, i32), i32.int_value(3));
    let shift = builder.binary(opcode::SHL, byte, i32.int_value(3));
    let mut operand = builder.binary(opcode::SHL, builder.cast(opcode::ZEXT, value, i32), shift);
    if instruction.atomic_operation() == operation::AND {
        let own = i32.int_value((1 << narrow.int_bits()) - 1);
        let others = builder.binary(opcode::XOR, builder.binary(opcode::SHL, own, shift), i32.int_value(0xffff_ffff));
        operand = builder.binary(opcode::OR, operand, others);
    }
    let operation = instruction.atomic_operation();
    let wide = builder.atomic_rmw(operation, word, operand, instruction.ordering(), instruction.sync_scope());
    if instruction.has_uses() {
        let before = builder.binary(opcode::LSHR, wide, shift);
        instruction.replace_with(builder.cast(opcode::TRUNC, before, narrow));
    } else {
        instruction.erase();
    }
    read_modify_write(context, wide, 0);
}

/// LLVM's PTX has scope and order of 32 and 64-bit ones; of 16-bit ones it would make a loop.
fn compare_exchange(context: &Context, instruction: Value) {
    let (pointer, expected, new) = (instruction.operand(0), instruction.operand(1), instruction.operand(2));
    let ty = expected.ty();
    if !ty.is_int(16) {
        return;
    }
    let Name { fence, order, scope, space } = name(context, instruction);
    let builder = context.builder();
    builder.before(instruction);
    let call_type = ty.function(&[pointer.ty(), ty, ty]);
    let text = format!("/*ws*/{fence}atom{order}{scope}{space}.cas.b16 $0, [$1], $2, $3;");
    let asm = call_type.inline_asm(&text, "=h,l,h,h,~{memory}", true);
    let before = builder.call(call_type, asm, &[pointer, expected, new]);
    let same = builder.icmp(32, before, expected);
    let pair = builder.insert_value(instruction.ty().poison(), before, 0);
    instruction.replace_with(builder.insert_value(pair, same, 1));
}

//! Atomics: the device crate's calls become LLVM's instructions, and those become PTX with the scope and the order that
//! they ask for, which LLVM's own PTX printer leaves out of `atom`.

use warpsmith_device::atomic::code;

use super::names::ATOMIC;
use crate::llvm::{
    Builder, Context, FUNCTION, Machine, Module, Type, Value, kind, linkage, opcode, operation, ordering,
};

/// PTX's address spaces.
const GENERIC: u32 = 0;
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
            let orders = [order, load_part(order)];
            let pair = builder.compare_exchange(pointer, [arguments[1], arguments[2]], orders, scope);
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
    if !module.functions().flat_map(Value::instructions).any(is_atomic) {
        return Ok(());
    }
    // The code generator, too, takes the arguments for global addresses, but only when the PTX text stands already.
    let parameters = entry.parameters();
    for position in pointers {
        say_global(context, entry, parameters[*position]);
    }
    module.run("function(infer-address-spaces)", Some(machine))?;
    if guard_stack(context, module) {
        module.run("always-inline,globaldce", None)?;
    }
    for function in module.functions() {
        let instructions: Vec<Value> = function.instructions().collect();
        for instruction in instructions {
            match instruction.opcode() {
                opcode::CMPXCHG => compare_exchange(context, instruction),
                opcode::ATOMICRMW => read_modify_write(context, instruction, architecture),
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_atomic(instruction: Value) -> bool {
    match instruction.opcode() {
        opcode::ATOMICRMW | opcode::CMPXCHG => true,
        opcode::LOAD | opcode::STORE => instruction.ordering() != ordering::NOT_ATOMIC,
        _ => false,
    }
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
    let generic = builder.cast(opcode::ADDRSPACECAST, global, context.ptr(GENERIC));
    for user in users {
        for index in 0..user.operand_count() {
            if user.operand(index) == argument {
                user.set_operand(index, generic);
            }
        }
    }
}

/// Lets atomics at addresses of which nothing is known work on the thread's own stack too, where PTX has none. Returns whether
/// there was one.
fn guard_stack(context: &Context, module: &Module) -> bool {
    let instructions = || module.functions().flat_map(Value::instructions);
    if !instructions().any(Value::is_alloca) {
        return false;
    }
    let place = |instruction: Value| u32::from(instruction.opcode() == opcode::STORE);
    let in_doubt: Vec<Value> =
        instructions().filter(|i| is_atomic(*i) && i.operand(place(*i)).ty().address_space() == GENERIC).collect();
    let is_local = module.declare("llvm.nvvm.isspacep.local", context.int(1).function(&[context.ptr(GENERIC)]));
    for (number, instruction) in in_doubt.iter().copied().enumerate() {
        let operands = instruction.operands();
        let types: Vec<Type> = operands.iter().map(|operand| operand.ty()).collect();
        let either = module.add_function(&format!("ws_atomic_{number}"), instruction.ty().function(&types));
        either.set_linkage(linkage::INTERNAL);
        either.add_attribute(FUNCTION, context.enum_attribute("alwaysinline", 0));
        let parameters = either.parameters();
        let [start, on_stack, elsewhere] = ["", "stack", "elsewhere"].map(|name| either.append_block(context, name));
        let builder = context.builder();
        builder.at_end(start);
        let pointer = parameters[place(instruction) as usize];
        builder.branch_if(builder.call_function(is_local, &[pointer]), on_stack, elsewhere);
        builder.at_end(on_stack);
        match plainly(&builder, instruction, &parameters) {
            Some(_) if instruction.opcode() == opcode::STORE => builder.ret(None),
            Some(result) => builder.ret(Some(result)),
            None => drop(builder.branch(elsewhere)),
        }
        builder.at_end(elsewhere);
        let (order, scope) = (instruction.ordering(), instruction.sync_scope());
        let result = match instruction.opcode() {
            opcode::LOAD => builder.load(instruction.ty(), pointer),
            opcode::STORE => builder.store(parameters[0], pointer),
            opcode::CMPXCHG => {
                let orders = [order, load_part(order)];
                builder.compare_exchange(pointer, [parameters[1], parameters[2]], orders, scope)
            }
            _ => builder.atomic_rmw(instruction.atomic_operation(), pointer, parameters[1], order, scope),
        };
        if matches!(instruction.opcode(), opcode::LOAD | opcode::STORE) {
            result.make_atomic(order, scope);
        }
        builder.ret((instruction.opcode() != opcode::STORE).then_some(result));
        builder.before(instruction);
        let call = builder.call_function(either, &operands);
        if instruction.opcode() == opcode::STORE {
            instruction.erase();
        } else {
            instruction.replace_with(call);
        }
    }
    !in_doubt.is_empty()
}

/// What an order says of the load in an exchange.
fn load_part(order: i32) -> i32 {
    match order {
        ordering::RELEASE => ordering::RELAXED,
        ordering::ACQUIRE_RELEASE => ordering::ACQUIRE,
        order => order,
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
    let same = builder.icmp(EQUAL, before, expected);
    let pair = builder.insert_value(instruction.ty().poison(), before, 0);
    instruction.replace_with(builder.insert_value(pair, same, 1));
}

/// Comparisons of integers in LLVM's C API.
const UNSIGNED_GREATER: i32 = 34;
const UNSIGNED_LESS: i32 = 36;
const SIGNED_GREATER: i32 = 38;
const SIGNED_LESS: i32 = 40;
const EQUAL: i32 = 32;

/// Does to memory that no other thread sees what an atomic does, by plain loads and stores. Gives the instruction's result, of
/// a store the store.
pub(super) fn plainly(builder: &Builder, instruction: Value, operands: &[Value]) -> Option<Value> {
    match instruction.opcode() {
        opcode::LOAD => return Some(builder.load(instruction.ty(), operands[0])),
        opcode::STORE => return Some(builder.store(operands[0], operands[1])),
        _ => {}
    }
    let pointer = operands[0];
    if instruction.opcode() == opcode::CMPXCHG {
        let (expected, new) = (operands[1], operands[2]);
        let old = builder.load(expected.ty(), pointer);
        let same = builder.icmp(EQUAL, old, expected);
        builder.store(builder.select(same, new, old), pointer);
        let pair = builder.insert_value(instruction.ty().poison(), old, 0);
        return Some(builder.insert_value(pair, same, 1));
    }
    let operand = operands[1];
    let old = builder.load(operand.ty(), pointer);
    let all_ones = || builder.binary(opcode::SUB, operand.ty().null(), operand.ty().int_value(1));
    let picked = |predicate| builder.select(builder.icmp(predicate, old, operand), old, operand);
    let new = match instruction.atomic_operation() {
        operation::EXCHANGE => operand,
        operation::ADD => builder.binary(opcode::ADD, old, operand),
        operation::SUB => builder.binary(opcode::SUB, old, operand),
        operation::AND => builder.binary(opcode::AND, old, operand),
        operation::NAND => builder.binary(opcode::XOR, builder.binary(opcode::AND, old, operand), all_ones()),
        operation::OR => builder.binary(opcode::OR, old, operand),
        operation::XOR => builder.binary(opcode::XOR, old, operand),
        operation::MAX => picked(SIGNED_GREATER),
        operation::MIN => picked(SIGNED_LESS),
        operation::UNSIGNED_MAX => picked(UNSIGNED_GREATER),
        operation::UNSIGNED_MIN => picked(UNSIGNED_LESS),
        operation::FLOAT_ADD => builder.binary(opcode::FADD, old, operand),
        operation::WRAPPING_INCREMENT => {
            let next = builder.binary(opcode::ADD, old, operand.ty().int_value(1));
            builder.select(builder.icmp(UNSIGNED_LESS, old, operand), next, operand.ty().null())
        }
        operation::WRAPPING_DECREMENT => {
            let next = builder.binary(opcode::SUB, old, operand.ty().int_value(1));
            // 0 minus 1 is past every limit that `next` could be below.
            builder.select(builder.icmp(UNSIGNED_LESS, next, operand), next, operand)
        }
        _ => return None,
    };
    builder.store(new, pointer);
    Some(old)
}

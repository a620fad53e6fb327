//! What the host's processor leaves behind in the bitcode: vendor intrinsics, feature detection, wide conversions.

use super::constants::ConstBytes;
use super::names::demangle;
use crate::llvm::{Builder, Context, Module, Type, Value, kind, opcode};

/// Replaces what has a meaning on the device; what is left of vendor code is named by `validate`.
pub(super) fn replace(context: &Context, module: &Module) {
    for function in module.functions() {
        let name = function.name();
        if name.starts_with("llvm.x86.") {
            for user in function.users() {
                if user.is_instruction() && user.opcode() == opcode::CALL {
                    vendor_intrinsic(context, module, user, &name);
                }
            }
        } else if name.starts_with('_') {
            let path = demangle(&name);
            // `test` is inline, so that unoptimised dependencies bring it with its load of the cache several calls away.
            // `init_inner` is what `cpufeatures::new!` asks the processor with, never inlined.
            let asks = ["detect_and_initialize", "test"].map(|name| format!("std_detect::detect::cache::{name}"));
            if asks.contains(&path) || path.ends_with("::init_get::init_inner") {
                answer_nothing(context, module, function);
            } else if let Some(name) = path.strip_prefix("libm::math::arch::x86::fma::") {
                // It picks an implementation by what the host's processor has; a GPU has the instruction.
                if name == "fma" || name == "fmaf" {
                    fused(context, module, function);
                }
            } else if let Some(name) = path.strip_prefix("half::binary16::arch::") {
                // What it computes where the host's processor has no F16C; a GPU has the instructions.
                match name {
                    "f32_to_f16_fallback" | "f64_to_f16_fallback" => to_half(context, module, function),
                    "f16_to_f32_fallback" | "f16_to_f64_fallback" => from_half(context, module, function),
                    _ => {}
                }
            }
        }
    }
    for global in module.globals() {
        let path = demangle(&global.name());
        if path.starts_with("std_detect::detect::cache::CACHE") {
            no_features(global);
        } else if is_dispatch_cache(&path) {
            freeze(global);
        }
    }
    for function in module.functions() {
        for instruction in function.instructions() {
            wide_conversion(context, module, instruction);
        }
    }
}

/// A function of three floats becomes the instruction.
fn fused(context: &Context, module: &Module, function: Value) {
    let ty = function.value_type();
    let suffix = match ty.return_type().kind() {
        kind::FLOAT => "f32",
        kind::DOUBLE => "f64",
        _ => return,
    };
    let intrinsic = module.declare(&format!("llvm.fma.{suffix}"), ty);
    let is_done = |first: Value| first.opcode() == opcode::CALL && first.called() == intrinsic;
    if !function.is_declaration() && is_done(function.blocks()[0].first()) {
        return;
    }
    let function = module.redeclare(function);
    let builder = context.builder();
    builder.at_end(function.append_block(context, ""));
    builder.ret(Some(builder.call(ty, intrinsic, &function.parameters())));
}

/// A function of a float becomes the conversion to the bits of a half; `f64` goes through `f32`, as with F16C.
fn to_half(context: &Context, module: &Module, function: Value) {
    let ty = function.value_type();
    if is_short(function) || !ty.return_type().is_int(16) || ty.parameter_types().len() != 1 {
        return;
    }
    let function = module.redeclare(function);
    let builder = context.builder();
    builder.at_end(function.append_block(context, ""));
    let mut value = function.parameters()[0];
    if value.ty().kind() == kind::DOUBLE {
        value = builder.cast(opcode::FPTRUNC, value, context.f32());
    }
    let convert_type = context.int(16).function(&[context.f32()]);
    let convert = module.declare("llvm.convert.to.fp16.f32", convert_type);
    builder.ret(Some(builder.call(convert_type, convert, &[value])));
}

/// A function of a half's bits becomes the conversion to a float, which is exact.
fn from_half(context: &Context, module: &Module, function: Value) {
    let ty = function.value_type();
    let parameters = ty.parameter_types();
    if is_short(function) || parameters.len() != 1 || !parameters[0].is_int(16) {
        return;
    }
    let function = module.redeclare(function);
    let builder = context.builder();
    builder.at_end(function.append_block(context, ""));
    let convert_type = context.f32().function(&[context.int(16)]);
    let convert = module.declare("llvm.convert.from.fp16.f32", convert_type);
    let mut value = builder.call(convert_type, convert, &function.parameters());
    if ty.return_type().kind() == kind::DOUBLE {
        value = builder.cast(opcode::FPEXT, value, context.f64());
    }
    builder.ret(Some(value));
}

/// Whether a function is one that was replaced already: a few instructions in one block.
fn is_short(function: Value) -> bool {
    let blocks = function.blocks();
    blocks.len() == 1 && blocks[0].instructions().count() <= 3
}

/// Feature detection finds nothing, so that code above the baseline folds away.
fn answer_nothing(context: &Context, module: &Module, function: Value) {
    if function.blocks().len() == 1 && function.blocks()[0].instructions().count() == 1 {
        return;
    }
    let function = module.redeclare(function);
    let builder = context.builder();
    builder.at_end(function.append_block(context, ""));
    let result = function.value_type().return_type();
    builder.ret((result.kind() != kind::VOID).then(|| result.null()));
}

/// Statics in which crates remember what the host's processor can do, or which of their functions suits it.
fn is_dispatch_cache(path: &str) -> bool {
    // `cpufeatures::new!` makes a module `NAME` with a `STORAGE`; memchr keeps function pointers.
    (path.starts_with("memchr::") && path.ends_with("::FN")) || (path.ends_with("::STORAGE") && path.contains("cpuid"))
}

/// Such a static keeps its first value: it is asked anew each time, and what is found is not kept.
fn freeze(cache: Value) {
    let Some(first) = cache.initializer() else { return };
    for user in cache.users().into_iter().filter(|user| user.is_instruction()) {
        match user.opcode() {
            opcode::LOAD if user.ty() == first.ty() => user.replace_with(first),
            // rustc writes an integer as the bytes of an array.
            opcode::LOAD => {
                if let Some(value) = constant_of(cache, user.ty()) {
                    user.replace_with(value);
                }
            }
            opcode::STORE if user.operand(1) == cache => user.erase(),
            _ => {}
        }
    }
}

/// A static's first value as one of the given type.
fn constant_of(global: Value, ty: Type) -> Option<Value> {
    let all = ConstBytes::of_global(global)?;
    match ty.kind() {
        kind::POINTER => all.address_at(0).filter(|(_, into)| *into == 0).map(|(target, _)| target),
        kind::INTEGER if ty.int_bits() <= 64 => {
            let mut bytes = [0; 8];
            let len = (ty.int_bits() / 8) as usize;
            bytes[..len].copy_from_slice(all.bytes.get(..len)?);
            Some(ty.int_value(u64::from_le_bytes(bytes)))
        }
        _ => None,
    }
}

/// The cache of feature detection reads as "not asked yet".
fn no_features(cache: Value) {
    for user in cache.users() {
        let is_load = user.is_instruction() && user.opcode() == opcode::LOAD;
        let loads: Vec<Value> = if is_load { vec![user] } else { user.users() };
        for load in loads {
            if load.is_instruction() && load.opcode() == opcode::LOAD {
                load.replace_with(load.ty().null());
            }
        }
    }
}

/// Gives the vendor intrinsics that rustc does not lower to generic code their meaning.
fn vendor_intrinsic(context: &Context, module: &Module, call: Value, name: &str) {
    let builder = context.builder();
    builder.before(call);
    let arguments = call.arguments();
    let Some(name) = name.strip_prefix("llvm.x86.") else { return };
    let result = match name {
        "xgetbv" => call.ty().null(),
        "sse2.pause" | "sse2.lfence" | "sse2.mfence" | "sse.sfence" => {
            call.erase();
            return;
        }
        // The second operand is the answer when either is NaN or both are zero.
        "sse.min.ps" | "sse2.min.pd" => choose(&builder, 4, arguments[0], arguments[1]),
        "sse.max.ps" | "sse2.max.pd" => choose(&builder, 2, arguments[0], arguments[1]),
        "sse.min.ss" | "sse2.min.sd" => lowest(context, &builder, &arguments, |b, x, y| choose(b, 4, x, y)),
        "sse.max.ss" | "sse2.max.sd" => lowest(context, &builder, &arguments, |b, x, y| choose(b, 2, x, y)),
        "sse.cmp.ps" | "sse2.cmp.pd" => match compare(context, &builder, &arguments) {
            Some(value) => value,
            None => return,
        },
        "sse2.cvttps2dq" => truncate(context, &builder, arguments[0], 4),
        "sse.cvttss2si" | "sse2.cvttsd2si" => truncate_lowest(context, &builder, arguments[0], 32),
        "sse.cvttss2si64" | "sse2.cvttsd2si64" => truncate_lowest(context, &builder, arguments[0], 64),
        // To nearest: the mode asked for, or the one that is set, which is no other.
        "vcvtps2ph.128" if matches!(arguments[1].as_int(), Some(0 | 4 | 8)) => {
            half(context, module, &builder, arguments[0], 4)
        }
        "vcvtps2ph.256" if matches!(arguments[1].as_int(), Some(0 | 4 | 8)) => {
            half(context, module, &builder, arguments[0], 8)
        }
        "addcarry.64" | "addcarry.32" => carry(context, &builder, &arguments, opcode::ADD, call.ty()),
        "subborrow.64" | "subborrow.32" => carry(context, &builder, &arguments, opcode::SUB, call.ty()),
        _ => return,
    };
    call.replace_with(result);
}

fn choose(builder: &Builder, predicate: i32, left: Value, right: Value) -> Value {
    builder.select(builder.fcmp(predicate, left, right), left, right)
}

fn lowest(context: &Context, builder: &Builder, arguments: &[Value], f: fn(&Builder, Value, Value) -> Value) -> Value {
    let zero = context.int(32).int_value(0);
    let left = builder.extract_element(arguments[0], zero);
    let right = builder.extract_element(arguments[1], zero);
    builder.insert_element(arguments[0], f(builder, left, right), zero)
}

/// LLVM's predicate for each of the eight comparisons of `cmpps`.
fn compare(context: &Context, builder: &Builder, arguments: &[Value]) -> Option<Value> {
    let predicate = match arguments[2].as_int()? {
        0 => 1,  // equal, ordered
        1 => 4,  // less
        2 => 5,  // less or equal
        3 => 8,  // unordered
        4 => 14, // not equal, or unordered
        5 => 11, // not less: greater or equal, or unordered
        6 => 10, // not less or equal: greater, or unordered
        7 => 7,  // ordered
        _ => return None,
    };
    let ty = arguments[0].ty();
    let bits = if ty.element().kind() == kind::DOUBLE { 64 } else { 32 };
    let mask = builder.cast(
        opcode::SEXT,
        builder.fcmp(predicate, arguments[0], arguments[1]),
        context.int(bits).vector(ty.vector_len()),
    );
    Some(builder.cast(opcode::BITCAST, mask, ty))
}

/// `cvttps2dq`: what does not fit becomes `i32::MIN`.
fn truncate(context: &Context, builder: &Builder, value: Value, lanes: u32) -> Value {
    let i32 = context.int(32);
    let mut result = i32.vector(lanes).poison();
    for lane in 0..lanes {
        let index = i32.int_value(u64::from(lane));
        let element = builder.extract_element(value, index);
        result = builder.insert_element(result, truncate_one(context, builder, element, 32), index);
    }
    result
}

/// `cvtps2ph`: each float as the bits of a half, in a vector of eight.
fn half(context: &Context, module: &Module, builder: &Builder, value: Value, lanes: u32) -> Value {
    let ty = context.int(16).function(&[value.ty().element()]);
    let convert = module.declare("llvm.convert.to.fp16.f32", ty);
    let mut result = context.int(16).vector(8).null();
    for lane in 0..lanes {
        let index = context.int(32).int_value(u64::from(lane));
        let element = builder.extract_element(value, index);
        result = builder.insert_element(result, builder.call(ty, convert, &[element]), index);
    }
    result
}

fn truncate_lowest(context: &Context, builder: &Builder, value: Value, bits: u32) -> Value {
    let element = builder.extract_element(value, context.int(32).int_value(0));
    truncate_one(context, builder, element, bits)
}

fn truncate_one(context: &Context, builder: &Builder, value: Value, bits: u32) -> Value {
    let ty = value.ty();
    let limit = ty.real(if bits == 32 { 2_147_483_648.0 } else { 9_223_372_036_854_775_808.0 });
    let low = ty.real(if bits == 32 { -2_147_483_648.0 } else { -9_223_372_036_854_775_808.0 });
    let fits = builder.binary(opcode::AND, builder.fcmp(4, value, limit), builder.fcmp(3, value, low));
    let int = context.int(bits);
    let converted = builder.freeze(builder.cast(opcode::FPTOSI, value, int));
    builder.select(fits, converted, int.int_value(1 << (bits - 1)))
}

/// `(carry, a, b)` gives `{carry, result}`.
fn carry(context: &Context, builder: &Builder, arguments: &[Value], operation: i32, result: Type) -> Value {
    let ty = arguments[1].ty();
    let zero = arguments[0].ty().null();
    let carry_in = builder.cast(opcode::ZEXT, builder.icmp(33, arguments[0], zero), ty);
    let first = builder.binary(operation, arguments[1], arguments[2]);
    let second = builder.binary(operation, first, carry_in);
    // Unsigned overflow: an addition's result is below its operand, a subtraction's above.
    let predicate = if operation == opcode::ADD { 36 } else { 34 };
    let one = builder.icmp(predicate, first, arguments[1]);
    let two = builder.icmp(predicate, second, first);
    let out = builder.cast(opcode::ZEXT, builder.binary(opcode::OR, one, two), context.int(8));
    builder.insert_value(builder.insert_value(result.poison(), out, 0), second, 1)
}

/// Conversions between floats and 128-bit integers, which LLVM's PTX backend lacks, call compiler-builtins.
fn wide_conversion(context: &Context, module: &Module, instruction: Value) {
    let code = match instruction.opcode() {
        code @ opcode::FPTOUI..=opcode::SITOFP => code,
        // `as` saturates, and so do compiler-builtins' functions.
        opcode::CALL => match instruction.called().as_function().map(Value::name) {
            Some(name) if name.starts_with("llvm.fptoui.sat.i128.") => opcode::FPTOUI,
            Some(name) if name.starts_with("llvm.fptosi.sat.i128.") => opcode::FPTOSI,
            _ => return,
        },
        _ => return,
    };
    let (from, to) = (instruction.operand(0).ty(), instruction.ty());
    if !from.is_int(128) && !to.is_int(128) {
        return;
    }
    let float = |t: Type| match t.kind() {
        kind::FLOAT => Some("sf"),
        kind::DOUBLE => Some("df"),
        _ => None,
    };
    let name = match code {
        opcode::FPTOUI => float(from).map(|f| format!("__fixuns{f}ti")),
        opcode::FPTOSI => float(from).map(|f| format!("__fix{f}ti")),
        opcode::UITOFP => float(to).map(|f| format!("__floatunti{f}")),
        _ => float(to).map(|f| format!("__floatti{f}")),
    };
    let Some(name) = name else { return };
    let callee = module.declare(&name, to.function(&[from]));
    let builder = context.builder();
    builder.before(instruction);
    let value = builder.call(to.function(&[from]), callee, &[instruction.operand(0)]);
    instruction.replace_with(value);
}

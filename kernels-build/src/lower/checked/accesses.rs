//! A call of the checker before each access to memory that other threads, or other launches, may know of.

mod joined;

use std::collections::{HashMap, HashSet};

use self::joined::{Access, Step};
use super::sites::{Sites, of_kind};
use crate::bundle::{CheckedSite, SiteFlags, SiteKind, SiteValue};
use crate::llvm::{Builder, Context, Module, Type, Value, is_call, kind, opcode, ordering};
use crate::lower::entries::{Entry, flattened};

/// Prefix of the functions that the checker exports.
const HOOK: &str = "__warpsmith_check_";

/// Puts the calls in.
pub(super) fn announce(context: &Context, module: &Module, entries: &[Entry], sites: &mut Sites) {
    let by_value = entries.iter().flat_map(|entry| by_value(module, entry)).collect();
    let mut writer = Writer {
        context,
        module,
        builder: context.builder(),
        by_value,
        sites,
        held: HashMap::new(),
        joined: HashMap::new(),
    };
    let functions: Vec<Value> = module.functions().filter(|function| !function.is_declaration()).collect();
    for function in functions {
        let all: Vec<Value> = function.instructions().collect();
        writer.joined = joined::joined(writer.steps(&all));
        for instruction in all {
            writer.visit(instruction);
        }
    }
}

struct Writer<'a> {
    context: &'a Context,
    module: &'a Module,
    builder: Builder,
    by_value: HashSet<Value>,
    sites: &'a mut Sites,
    /// Of loads that are moved, which of their bytes hold something: a bit for each.
    held: HashMap<Value, Value>,
    /// Accesses that a GPU makes with one instruction; see [`joined`].
    joined: HashMap<Value, u32>,
}

/// The parameters of an entry that are the addresses of values which the launch brings along: nobody writes them.
fn by_value(module: &Module, entry: &Entry) -> Vec<Value> {
    let parameters = module.function(&entry.symbol).map(Value::parameters).unwrap_or_default();
    let all = flattened(&entry.params).into_iter().zip(parameters);
    all.filter_map(|(by_value, parameter)| by_value.map(|_| parameter)).collect()
}

impl Writer<'_> {
    fn visit(&mut self, instruction: Value) {
        match instruction.opcode() {
            opcode::LOAD => {
                self.load(instruction);
                self.take_any_address(instruction, instruction.operand(0));
            }
            opcode::STORE => {
                self.store(instruction);
                self.take_any_address(instruction, instruction.operand(1));
            }
            opcode::ATOMICRMW => {
                self.atomic(
                    instruction,
                    instruction.operand(0),
                    instruction.ty(),
                    SiteFlags::READS | SiteFlags::WRITES,
                );
            }
            opcode::CMPXCHG => self.exchange(instruction),
            opcode::FENCE => self.fence(instruction),
            _ if is_call(instruction) => self.call(instruction),
            _ => {}
        }
    }

    /// Has an access that the checker looks at take any address: what it finds misaligned does not end the process.
    fn take_any_address(&self, access: Value, pointer: Value) {
        // Narrower ones take any address on the host anyway.
        if access.ordering() == ordering::NOT_ATOMIC && access.alignment() > 8 && !self.is_private(pointer) {
            access.set_alignment(1);
        }
    }

    /// A function's code as [`joined`] looks at it.
    fn steps(&mut self, all: &[Value]) -> Vec<Step<Value, Value, (u64, u32)>> {
        let mut steps = Vec::new();
        let mut block = None;
        for &instruction in all {
            if block != Some(instruction.block()) {
                block = Some(instruction.block());
                steps.push(Step::Wall);
            }
            steps.extend(self.step(instruction));
        }
        steps
    }

    fn step(&mut self, instruction: Value) -> Option<Step<Value, Value, (u64, u32)>> {
        let is_store = match instruction.opcode() {
            opcode::LOAD => false,
            opcode::STORE => true,
            opcode::ATOMICRMW | opcode::CMPXCHG | opcode::FENCE => return Some(Step::Wall),
            _ => return (is_call(instruction) && may_disturb(instruction)).then_some(Step::Wall),
        };
        if instruction.ordering() != ordering::NOT_ATOMIC {
            return Some(Step::Wall);
        }
        let pointer = instruction.operand(u32::from(is_store));
        if self.is_private(pointer) {
            return None;
        }
        let moved = if is_store { instruction.operand(0) } else { instruction };
        if is_moved(self.context, moved) {
            return Some(Step::Other { is_store });
        }
        let bytes = self.module.store_size(moved.ty()) as u32;
        let (base, offset) = base_and_offset(pointer);
        let line = self.sites.line(instruction);
        let access = Access { is_store, base, offset, bytes, align: instruction.alignment(), line };
        Some(Step::Access(instruction, access))
    }

    fn load(&mut self, load: Value) {
        let pointer = load.operand(0);
        if load.ordering() != ordering::NOT_ATOMIC {
            return self.atomic(load, pointer, load.ty(), SiteFlags::READS);
        }
        let bytes = self.module.store_size(load.ty());
        let is_moved = is_moved(self.context, load);
        // The copy that is announced before the store is of both.
        let is_copied = || is_moved && load.users().into_iter().any(|user| copied_from(self.context, user).is_some());
        if self.is_private(pointer) || bytes == 0 || is_copied() {
            return;
        }
        if is_moved {
            self.held(load);
            return;
        }
        let site = self.counted(load, self.access(SiteKind::Load, load.ty(), load.alignment()));
        let Some(number) = self.sites.number(load, site) else { return };
        self.look_at_alignment(load, pointer, bytes, number);
        match bytes {
            1 | 2 | 4 | 8 | 16 => self.hook(load, &format!("load_{bytes}"), &[pointer], number),
            _ => self.hook(load, "load_n", &[pointer, self.usize(bytes)], number),
        }
    }

    fn store(&mut self, store: Value) {
        let (value, pointer) = (store.operand(0), store.operand(1));
        if store.ordering() != ordering::NOT_ATOMIC {
            return self.atomic(store, pointer, value.ty(), SiteFlags::WRITES);
        }
        let bytes = self.module.store_size(value.ty());
        if self.is_private(pointer) || bytes == 0 {
            return;
        }
        if let Some(from) = copied_from(self.context, store) {
            let site = CheckedSite { bytes: bytes as u32, align: store.alignment(), ..of_kind(SiteKind::Copy) };
            let Some(number) = self.sites.number(store, site) else { return };
            return self.hook(store, "copy", &[pointer, from, self.usize(bytes)], number);
        }
        let held = if is_moved(self.context, value) { self.held(value) } else { None };
        let site = self.counted(store, self.access(SiteKind::Store, value.ty(), store.alignment()));
        let Some(number) = self.sites.number(store, site) else { return };
        if let Some(held) = held {
            return self.hook(store, "put_n", &[pointer, self.usize(bytes), held], number);
        }
        self.look_at_alignment(store, pointer, bytes, number);
        self.builder.before(store);
        match (bytes, self.bits(value)) {
            (1 | 2 | 4 | 8, Some(bits)) => self.hook(store, &format!("store_{bytes}"), &[pointer, bits], number),
            (16, _) => self.hook(store, "store_16", &[pointer], number),
            _ => self.hook(store, "store_n", &[pointer, self.usize(bytes)], number),
        }
    }

    /// Calls the checker before an access to part of a value whose alignment is larger than the part.
    fn look_at_alignment(&self, access: Value, pointer: Value, bytes: u64, site: u32) {
        if matches!(bytes, 1 | 2 | 4 | 8) && u64::from(access.alignment()) > bytes {
            self.hook(access, "align", &[pointer], site);
        }
    }

    /// Calls the checker before a load that is only moved, unless that was done: which bytes of it hold something.
    fn held(&mut self, load: Value) -> Option<Value> {
        if let Some(held) = self.held.get(&load) {
            return Some(*held);
        }
        let pointer = load.operand(0);
        if self.is_private(pointer) {
            return None;
        }
        let site = self.access(SiteKind::Load, load.ty(), load.alignment());
        let number = self.sites.number(load, site)?;
        let arguments = [pointer, self.usize(self.module.store_size(load.ty()))];
        let held = self.hook_giving(self.context.int(32), load, "move_n", &arguments, number);
        self.held.insert(load, held);
        Some(held)
    }

    fn atomic(&mut self, instruction: Value, pointer: Value, word: Type, flags: u32) {
        if self.is_private(pointer) {
            return;
        }
        let mut site = self.access(SiteKind::Atomic, word, instruction.alignment());
        site.flags = flags | orders(instruction.ordering());
        let Some(number) = self.sites.number(instruction, site) else { return };
        self.hook(instruction, "atomic", &[pointer], number);
    }

    /// A compare-exchange: the checker is told what it expects, as one that fails only reads.
    fn exchange(&mut self, exchange: Value) {
        let (pointer, expected) = (exchange.operand(0), exchange.operand(1));
        if self.is_private(pointer) {
            return;
        }
        self.builder.before(exchange);
        let Some(bits) = self.bits(expected) else {
            return self.atomic(exchange, pointer, expected.ty(), SiteFlags::READS | SiteFlags::WRITES);
        };
        let mut site = self.access(SiteKind::Atomic, expected.ty(), exchange.alignment());
        let [success, failure] = exchange.exchange_orderings();
        site.flags = SiteFlags::READS | SiteFlags::WRITES | orders(success);
        let Some(number) = self.sites.number(exchange, site) else { return };
        let acquires = self.context.int(32).int_value(u64::from(orders(failure) & SiteFlags::ACQUIRES != 0));
        self.hook(exchange, "exchange", &[pointer, bits, acquires], number);
    }

    fn fence(&mut self, fence: Value) {
        if fence.is_single_thread() {
            return;
        }
        let site = CheckedSite { flags: orders(fence.ordering()), ..of_kind(SiteKind::Fence) };
        let Some(number) = self.sites.number(fence, site) else { return };
        self.hook(fence, "fence", &[], number);
    }

    /// Copies, fills and comparisons of memory.
    fn call(&mut self, call: Value) {
        let Some(callee) = call.called().as_function() else { return };
        let name = callee.name();
        let is =
            |names: [&str; 2]| names.iter().any(|wanted| name == *wanted || name.starts_with(&format!("{wanted}.")));
        let arguments = call.arguments();
        if is(["llvm.memcpy", "llvm.memmove"]) || is(["memcpy", "memmove"]) {
            let (to, from) = (arguments[0], arguments[1]);
            if self.is_private(to) && self.is_private(from) {
                return;
            }
            let Some(number) = self.sites.number(call, of_kind(SiteKind::Copy)) else { return };
            let bytes = self.length(call, arguments[2]);
            self.hook(call, "copy", &[to, from, bytes], number);
            for argument in 1..=2 {
                call.remove_call_attribute(argument, "align");
            }
        } else if is(["llvm.memset", "memset"]) {
            if self.is_private(arguments[0]) {
                return;
            }
            let Some(number) = self.sites.number(call, of_kind(SiteKind::Store)) else { return };
            let bytes = self.length(call, arguments[2]);
            self.hook(call, "store_n", &[arguments[0], bytes], number);
            call.remove_call_attribute(1, "align");
        } else if is(["memcmp", "bcmp"]) {
            let Some(number) = self.sites.number(call, of_kind(SiteKind::Load)) else { return };
            let bytes = self.length(call, arguments[2]);
            for pointer in [arguments[0], arguments[1]] {
                self.hook(call, "load_n", &[pointer, bytes], number);
            }
        }
    }

    /// Whether an address is that of the thread's own stack, of a static or of an argument, as far as can be seen.
    fn is_private(&self, mut pointer: Value) -> bool {
        loop {
            if pointer.is_alloca() || pointer.as_global().is_some() || self.by_value.contains(&pointer) {
                return true;
            }
            let is_step = pointer.is_instruction() && matches!(pointer.opcode(), opcode::GEP | opcode::BITCAST)
                || matches!(pointer.constant_opcode(), Some(opcode::GEP | opcode::BITCAST));
            if !is_step {
                return false;
            }
            pointer = pointer.operand(0);
        }
    }

    /// A site with what an access counts as in the memory report.
    fn counted(&self, access: Value, site: CheckedSite) -> CheckedSite {
        let flags = match self.joined.get(&access) {
            None => 0,
            Some(0) => SiteFlags::FOLLOWS,
            Some(bytes) => SiteFlags::joined(*bytes),
        };
        CheckedSite { flags, ..site }
    }

    fn access(&self, what: SiteKind, ty: Type, align: u32) -> CheckedSite {
        let value = match ty.kind() {
            kind::INTEGER => SiteValue::Int,
            kind::HALF => SiteValue::F16,
            kind::FLOAT => SiteValue::F32,
            kind::DOUBLE => SiteValue::F64,
            kind::POINTER => SiteValue::Pointer,
            _ => SiteValue::Other,
        };
        CheckedSite { bytes: self.module.store_size(ty) as u32, align, value: value as u32, ..of_kind(what) }
    }

    /// Calls the checker before an instruction; a name stands for one list of types.
    fn hook(&self, before: Value, name: &str, arguments: &[Value], site: u32) {
        self.hook_giving(self.context.void(), before, name, arguments, site);
    }

    fn hook_giving(&self, result: Type, before: Value, name: &str, arguments: &[Value], site: u32) -> Value {
        let mut all = arguments.to_vec();
        all.push(self.context.int(32).int_value(u64::from(site)));
        let types: Vec<Type> = all.iter().map(|argument| argument.ty()).collect();
        let function = self.module.declare(&format!("{HOOK}{name}"), result.function(&types));
        self.builder.before(before);
        self.builder.call_function(function, &all)
    }

    fn usize(&self, value: u64) -> Value {
        self.context.int(64).int_value(value)
    }

    /// A length as 64 bits.
    fn length(&self, before: Value, length: Value) -> Value {
        if length.ty().is_int(64) {
            return length;
        }
        self.builder.before(before);
        self.builder.cast(opcode::ZEXT, length, self.context.int(64))
    }

    /// The bits of a value of at most 64 as an integer of 64, written where the builder stands.
    fn bits(&self, value: Value) -> Option<Value> {
        let (ty, word) = (value.ty(), self.context.int(64));
        let bits = match ty.kind() {
            kind::INTEGER => ty.int_bits(),
            kind::POINTER => return Some(self.builder.cast(opcode::PTRTOINT, value, word)),
            kind::HALF | kind::BFLOAT | kind::FLOAT | kind::DOUBLE | kind::VECTOR => {
                let bits = self.module.store_size(ty) * 8;
                if bits > 64 || ty.kind() == kind::VECTOR && !is_whole_bytes(ty) {
                    return None;
                }
                let integer = self.context.int(bits as u32);
                let value = self.builder.cast(opcode::BITCAST, value, integer);
                return Some(if bits == 64 { value } else { self.builder.cast(opcode::ZEXT, value, word) });
            }
            _ => return None,
        };
        match bits {
            64 => Some(value),
            0..64 => Some(self.builder.cast(opcode::ZEXT, value, word)),
            _ => None,
        }
    }
}

/// Whether a call may read or write memory that others know of, or wait; only of LLVM's own functions is it known that they do not.
fn may_disturb(call: Value) -> bool {
    const MOVES: [&str; 3] = ["llvm.memcpy.", "llvm.memmove.", "llvm.memset."];
    let callee = call.called().as_function().filter(|callee| callee.is_intrinsic());
    callee.is_none_or(|callee| MOVES.iter().any(|name| callee.name().starts_with(name)))
}

/// An address without the constants that are added to it, and their sum in bytes.
fn base_and_offset(mut pointer: Value) -> (Value, i64) {
    let mut offset = 0_i64;
    loop {
        let is_step = pointer.is_instruction() && pointer.opcode() == opcode::GEP && pointer.operand_count() == 2;
        if !is_step || !pointer.gep_element().is_int(8) {
            return (pointer, offset);
        }
        let Some(bytes) = pointer.operand(1).as_int() else { return (pointer, offset) };
        offset = offset.wrapping_add(bytes.cast_signed());
        pointer = pointer.operand(0);
    }
}

/// Whether a vector has no bits between its elements and fills its bytes.
fn is_whole_bytes(vector: Type) -> bool {
    let element = vector.element();
    match element.kind() {
        kind::INTEGER => (element.int_bits() * vector.vector_len()).is_multiple_of(8),
        kind::HALF | kind::BFLOAT | kind::FLOAT | kind::DOUBLE => true,
        _ => false,
    }
}

/// What an ordering does, as [`SiteFlags`].
fn orders(order: i32) -> u32 {
    match order {
        ordering::ACQUIRE => SiteFlags::ACQUIRES,
        ordering::RELEASE => SiteFlags::RELEASES,
        ordering::ACQUIRE_RELEASE | ordering::SEQUENTIAL => SiteFlags::ACQUIRES | SiteFlags::RELEASES,
        _ => 0,
    }
}

/// Whether a load is of an integer that is only moved, and may hold nothing: bytes of it may be padding, which is no value that
/// anyone reads. Of loads of a program's own integers rustc says that they hold something.
fn is_moved(context: &Context, load: Value) -> bool {
    if !load.is_instruction() || load.opcode() != opcode::LOAD || load.ordering() != ordering::NOT_ATOMIC {
        return false;
    }
    let users = load.users();
    let is_stored = |user: &Value| {
        user.is_instruction()
            && user.opcode() == opcode::STORE
            && user.operand(0) == load
            && user.ordering() == ordering::NOT_ATOMIC
    };
    load.ty().kind() == kind::INTEGER
        && load.ty().int_bits() <= 256
        && !load.has_metadata(context, "noundef")
        && !users.is_empty()
        && users.iter().all(is_stored)
}

/// Where an integer comes from that is only moved, by a load and a store between which nothing stands that might write or wait.
fn copied_from(context: &Context, store: Value) -> Option<Value> {
    let load = store.operand(0);
    if !is_moved(context, load) || !load.has_one_use() || load.block() != store.block() {
        return None;
    }
    let mut between = std::iter::successors(load.next(), |i| i.next()).take_while(|i| *i != store);
    let disturbs = |i: Value| {
        matches!(i.opcode(), opcode::STORE | opcode::FENCE | opcode::ATOMICRMW | opcode::CMPXCHG) || is_call(i)
    };
    (!between.any(disturbs)).then(|| load.operand(0))
}

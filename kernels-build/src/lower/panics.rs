//! Turns panics into records: what core would format, the host formats from a site's template and the recorded values.
//!
//! Every way to panic ends in one of a few functions of core, alloc and std. A call to one of them becomes a call of the
//! device crate's `__warpsmith_panic(site, location, values)`, which writes the launch's record and ends the thread. So
//! formatting never reaches the device, and what was only there to be formatted disappears.

use std::collections::HashMap;

use super::constants::{ConstBytes, address, bytes_at, integer_pointer};
use super::names::{PANIC, demangle};
use warpsmith_device::print::{Scalar, TypeCode};

use crate::bundle::MessageFormat;
use crate::llvm::{Builder, Context, FUNCTION, Module, Type, Value, kind, opcode};

/// The format of an index check that failed: of the check itself, not of a message that begins alike.
pub(super) const OUT_OF_BOUNDS: &str = "index out of bounds: the len is {0} but the index is {1}";

/// How many words of values a record holds.
const WORDS: usize = 8;

/// The panic sites met so far.
pub(super) struct Panics<'c> {
    context: &'c Context,
    pub(super) sites: Vec<MessageFormat>,
    index: HashMap<MessageFormat, u32>,
    /// Functions that only pass a message on, and how often they were put off to be inlined into whoever has the message.
    put_off: HashMap<String, u32>,
}

/// How a panicking function takes its message.
enum Shape {
    /// The message is known by the function's name.
    Fixed(String),
    /// `(index, len, location)`.
    Bounds,
    /// `(message pointer, message length, location)`.
    Text,
    /// `(template, arguments, .., location)`.
    Format,
    /// `(message pointer, message length, value, vtable, location)`.
    Unwrap,
    /// `(kind, left, right, template, arguments, location)`; the types are in the name.
    AssertGeneric(String),
    /// `(required alignment, address, location)`.
    Misaligned,
    /// `(align, size)`.
    Allocation,
}

fn shape(name: &str) -> Option<Shape> {
    let fixed = |text: &str| Some(Shape::Fixed(text.to_owned()));
    if let Some(what) = name.strip_prefix("core::panicking::panic_const::panic_const_") {
        return fixed(constant_message(what));
    }
    if let Some(types) = name.strip_prefix("core::panicking::assert_failed::<") {
        return Some(Shape::AssertGeneric(types.trim_end_matches('>').to_owned()));
    }
    if name.starts_with("std::panicking::begin_panic::<") || name.starts_with("std::panicking::panic_any::<") {
        return fixed("explicit panic");
    }
    match name {
        "core::panicking::panic_fmt" | "core::panicking::panic_nounwind_fmt" => Some(Shape::Format),
        "core::panicking::panic"
        | "core::panicking::panic_nounwind"
        | "core::panicking::panic_nounwind_nobacktrace"
        | "core::option::expect_failed" => Some(Shape::Text),
        "core::panicking::panic_bounds_check" => Some(Shape::Bounds),
        "core::panicking::panic_explicit" => fixed("explicit panic"),
        "core::panicking::panic_in_cleanup" => fixed("panic in a destructor during cleanup"),
        "core::panicking::panic_cannot_unwind" => fixed("panic in a function that cannot unwind"),
        "core::panicking::panic_null_pointer_dereference" => fixed("null pointer dereference occurred"),
        "core::panicking::panic_misaligned_pointer_dereference" => Some(Shape::Misaligned),
        "core::panicking::panic_invalid_enum_construction" => {
            fixed("trying to construct an enum from an invalid value")
        }
        "core::option::unwrap_failed" => fixed("called `Option::unwrap()` on a `None` value"),
        "core::result::unwrap_failed" => Some(Shape::Unwrap),
        "alloc::alloc::handle_alloc_error" | "alloc::alloc::handle_alloc_error::rt_error" => Some(Shape::Allocation),
        "core::cell::panic_already_borrowed" => fixed("RefCell already borrowed"),
        "core::cell::panic_already_mutably_borrowed" => fixed("RefCell already mutably borrowed"),
        "std::process::abort" | "core::intrinsics::abort" => fixed("the kernel aborted"),
        "__rustc::rust_panic" | "std::panicking::rust_panic" | "std::panicking::rust_panic_with_hook" => {
            fixed("explicit panic")
        }
        _ => None,
    }
}

fn constant_message(what: &str) -> &str {
    match what {
        "add_overflow" => "attempt to add with overflow",
        "sub_overflow" => "attempt to subtract with overflow",
        "mul_overflow" => "attempt to multiply with overflow",
        "div_overflow" => "attempt to divide with overflow",
        "rem_overflow" => "attempt to calculate the remainder with overflow",
        "neg_overflow" => "attempt to negate with overflow",
        "shr_overflow" => "attempt to shift right with overflow",
        "shl_overflow" => "attempt to shift left with overflow",
        "div_by_zero" => "attempt to divide by zero",
        "rem_by_zero" => "attempt to calculate the remainder with a divisor of zero",
        "async_fn_resumed" => "`async fn` resumed after completion",
        other => other,
    }
}

/// A message under construction.
#[derive(Default)]
struct Message {
    format: MessageFormat,
    words: Vec<Value>,
}

impl Message {
    fn text(&mut self, text: &str) {
        self.format.format.push_str(&text.replace('{', "{{").replace('}', "}}"));
    }

    /// A value whose words are these, with what stands behind its placeholder's colon.
    fn value(&mut self, scalar: Scalar, options: &str, words: &[Value]) {
        if self.words.len() + words.len() > WORDS {
            return self.unknown();
        }
        let number = self.format.types.len();
        let colon = if options.is_empty() { "" } else { ":" };
        self.format.format.push_str(&format!("{{{number}{colon}{options}}}"));
        self.format.types.push(TypeCode::of(scalar).0);
        self.words.extend(words);
    }

    /// A value that the record does not hold.
    fn unknown(&mut self) {
        self.text("_");
    }
}

impl<'c> Panics<'c> {
    pub(super) fn new(context: &'c Context) -> Self {
        Self { context, sites: Vec::new(), index: HashMap::new(), put_off: HashMap::new() }
    }

    /// Has what `format_args!` calls inlined, so that a message's parts can be seen where it is made.
    pub(super) fn inline_helpers(&self, module: &Module) {
        let always = self.context.enum_attribute("alwaysinline", 0);
        for function in module.functions() {
            if function.is_declaration() {
                continue;
            }
            let name = demangle(&function.name());
            // The atomics too: which static is read, and in what order, is seen only in place.
            let helpers =
                ["<core::fmt::rt::", "<core::fmt::Arguments>::", "core::sync::atomic::", "<core::sync::atomic::"];
            if helpers.iter().any(|path| name.starts_with(path)) {
                function.remove_attribute(FUNCTION, "noinline");
                function.add_attribute(FUNCTION, always);
            }
        }
    }

    /// Whether a call's message is a parameter of the function it stands in: then that function is to be inlined first.
    fn waits_for_caller(&mut self, call: Value, shape: &Shape) -> bool {
        let message = match shape {
            Shape::Text | Shape::Unwrap | Shape::Format => call.operand(0),
            Shape::AssertGeneric(_) => call.operand(3),
            _ => return false,
        };
        let function = call.parent_function();
        if !function.parameters().contains(&message) {
            return false;
        }
        let count = self.put_off.entry(function.name()).or_default();
        *count += 1;
        if *count > 3 || !function.has_uses() {
            return false;
        }
        function.remove_attribute(FUNCTION, "noinline");
        function.add_attribute(FUNCTION, self.context.enum_attribute("alwaysinline", 0));
        true
    }

    /// Replaces every call of a panicking function in the module. Returns whether some wait for inlining.
    pub(super) fn replace(&mut self, module: &Module) -> bool {
        let mut waiting = false;
        let i64 = self.context.int(64);
        let mut parameters = vec![self.context.int(32), i64];
        parameters.resize(2 + WORDS, i64);
        let record_type = self.context.void().function(&parameters);
        for function in module.functions() {
            let symbol = function.name();
            let Some(shape) = shape(&demangle(&symbol)) else { continue };
            let record = module.declare(PANIC, record_type);
            let body_users: Vec<Value> = function.users();
            for user in body_users {
                if user.is_instruction() && user.opcode() == opcode::CALL && user.called() == function {
                    if self.waits_for_caller(user, &shape) {
                        waiting = true;
                    } else {
                        self.replace_call(user, &shape, record);
                    }
                }
            }
            let other_uses = function
                .users()
                .into_iter()
                .any(|user| !user.is_instruction() || user.opcode() != opcode::CALL || user.called() != function);
            if other_uses {
                self.replace_body(module, function, &shape, record);
            }
        }
        // `core::intrinsics::abort` is a trap, which would cost the whole context.
        if let Some(trap) = module.function("llvm.trap") {
            let record = module.declare(PANIC, record_type);
            for user in trap.users() {
                if user.is_instruction() && user.opcode() == opcode::CALL {
                    self.replace_call(user, &Shape::Fixed("the kernel aborted".to_owned()), record);
                }
            }
        }
        waiting
    }

    /// A panicking function whose address is taken gets a body that tells what is known without looking at a call.
    fn replace_body(&mut self, module: &Module, function: Value, shape: &Shape, record: Value) {
        let mut message = Message::default();
        message.text(match shape {
            Shape::Fixed(text) => text,
            _ => "a panic whose message is made at run time",
        });
        let function = module.redeclare(function);
        let builder = self.context.builder();
        builder.at_end(function.append_block(self.context, ""));
        let location = self.location(&builder, &function.parameters());
        self.emit(&builder, record, message, location);
        builder.unreachable();
    }

    fn replace_call(&mut self, call: Value, shape: &Shape, record: Value) {
        let arguments = call.arguments();
        let builder = self.context.builder();
        builder.before(call);
        let mut message = Message::default();
        let i64 = self.context.int(64);
        let word = |value: Value| [widen(self.context, &builder, value, false)];
        match shape {
            Shape::Fixed(text) => message.text(text),
            Shape::Bounds => {
                message.text("index out of bounds: the len is ");
                message.value(Scalar::Usize, "", &word(arguments[1]));
                message.text(" but the index is ");
                message.value(Scalar::Usize, "", &word(arguments[0]));
                debug_assert_eq!(message.format.format, OUT_OF_BOUNDS);
            }
            Shape::Misaligned => {
                message.text("misaligned pointer dereference: address must be a multiple of 0x");
                message.value(Scalar::Usize, "x", &word(arguments[0]));
                message.text(" but is 0x");
                message.value(Scalar::Usize, "x", &word(arguments[1]));
            }
            Shape::Text => message.text(&constant_text(arguments[0], arguments[1])),
            Shape::Format => self.format(&builder, arguments[0], arguments[1], &mut message),
            Shape::Unwrap => {
                message.text(&constant_text(arguments[0], arguments[1]));
                message.text(": ");
                let formatter = address(arguments[3]).and_then(|(vtable, into)| {
                    Some(ConstBytes::of_global(vtable)?.address_at(usize::try_from(into).ok()? + 24)?.0)
                });
                self.formatted(&builder, arguments[2], formatter.map(|f| demangle(&f.name())), &mut message);
            }
            Shape::AssertGeneric(types) => {
                let operator = match arguments[0].as_int() {
                    Some(0) => "==",
                    Some(1) => "!=",
                    _ => "matches",
                };
                message.text(&format!("assertion `left {operator} right` failed"));
                let (left, right) = types.split_once(", ").unwrap_or((types, types));
                if arguments.len() >= 6 && has_message(arguments[3]) {
                    message.text(": ");
                    self.format(&builder, arguments[3], arguments[4], &mut message);
                }
                message.text("\n  left: ");
                self.formatted(
                    &builder,
                    arguments[1],
                    Some(format!("<{left} as core::fmt::Debug>::fmt")),
                    &mut message,
                );
                message.text("\n right: ");
                self.formatted(
                    &builder,
                    arguments[2],
                    Some(format!("<{right} as core::fmt::Debug>::fmt")),
                    &mut message,
                );
            }
            Shape::Allocation => {
                message.text("memory allocation of ");
                match arguments.get(1) {
                    Some(size) => message.value(Scalar::Usize, "", &word(*size)),
                    None => message.unknown(),
                }
                message.text(" bytes failed: the device heap is exhausted");
            }
        }
        let location =
            if matches!(shape, Shape::Allocation) { i64.int_value(0) } else { self.location(&builder, &arguments) };
        self.emit(&builder, record, message, location);
        if call.has_uses() {
            call.replace_uses(call.ty().poison());
        }
        call.erase();
    }

    /// The last argument, when it can be a `&'static Location`.
    fn location(&self, builder: &Builder, arguments: &[Value]) -> Value {
        let i64 = self.context.int(64);
        match arguments.last() {
            Some(last) if last.ty().kind() == kind::POINTER => builder.cast(opcode::PTRTOINT, *last, i64),
            _ => i64.int_value(0),
        }
    }

    fn emit(&mut self, builder: &Builder, record: Value, message: Message, location: Value) {
        let (i32, i64) = (self.context.int(32), self.context.int(64));
        let sites = &mut self.sites;
        let site = *self.index.entry(message.format).or_insert_with_key(|format| {
            sites.push(format.clone());
            u32::try_from(sites.len() - 1).expect("a target has fewer than 2^32 panic messages")
        });
        let mut arguments = vec![i32.int_value(u64::from(site)), location];
        arguments.extend(&message.words);
        arguments.resize(2 + WORDS, i64.int_value(0));
        builder.call_function(record, &arguments);
    }

    /// Adds what `format_args!` made: its template, and its arguments where they are plain.
    fn format(&self, builder: &Builder, template: Value, arguments: Value, message: &mut Message) {
        let Some((text, into)) = address(template) else {
            return message.text("a panic whose message is made at run time");
        };
        if let Some(tagged) = integer_pointer(arguments)
            && tagged & 1 == 1
        {
            let bytes = bytes_at(text, into, (tagged >> 1) as usize).unwrap_or_default();
            return message.text(&String::from_utf8_lossy(&bytes));
        }
        let Some(bytes) = ConstBytes::of_global(text).map(|t| t.bytes[into as usize..].to_vec()) else {
            return message.text("a panic whose message is made at run time");
        };
        let stored = if arguments.is_alloca() { stores_into(arguments) } else { HashMap::new() };
        for part in Template::new(&bytes) {
            match part {
                Part::Text(text) => message.text(&text),
                Part::Value(index, options) => {
                    let value = stored.get(&(16 * index as u64)).copied();
                    let formatter = stored.get(&(16 * index as u64 + 8)).and_then(|f| f.as_function());
                    match value {
                        Some(value) => {
                            let formatter = formatter.map(|f| demangle(&f.name()));
                            self.formatted_with(builder, value, formatter, options, message);
                        }
                        None => message.unknown(),
                    }
                }
            }
        }
    }

    /// Adds one value behind a pointer, formatted as the named function would.
    fn formatted(&self, builder: &Builder, pointer: Value, formatter: Option<String>, message: &mut Message) {
        self.formatted_with(builder, pointer, formatter, Options::NONE, message);
    }

    /// The same, with a placeholder's options.
    fn formatted_with(
        &self,
        builder: &Builder,
        pointer: Value,
        formatter: Option<String>,
        options: Options,
        message: &mut Message,
    ) {
        let Some((ty, trait_name)) = formatter.as_deref().and_then(split_formatter) else {
            return message.unknown();
        };
        let mut ty = ty;
        let mut pointer = pointer;
        while let Some(inner) = ty.strip_prefix('&') {
            if inner == "str" {
                // A text is two words; only one that is known now goes into the message.
                if let Some(text) = constant_text_behind(pointer) {
                    let text = if trait_name == "Debug" { format!("{text:?}") } else { text };
                    return message.text(&text);
                }
                return message.unknown();
            }
            pointer = builder.load(self.context.ptr(0), pointer);
            ty = inner.trim_start_matches("mut ");
        }
        if ty == "()" {
            return message.text("()");
        }
        let (Some((load, scalar)), Some(kind)) = (self.plain(ty), options.kind(trait_name)) else {
            return message.unknown();
        };
        let value = builder.load(load, pointer);
        let options = format!("{}{kind}", options.text());
        if load.is_int(128) {
            let i64 = self.context.int(64);
            let high = builder.binary(opcode::LSHR, value, self.context.int(128).int_value(64));
            let words = [value, high].map(|half| builder.cast(opcode::TRUNC, half, i64));
            message.value(scalar, &options, &words);
        } else {
            message.value(scalar, &options, &[widen(self.context, builder, value, ty.starts_with('i'))]);
        }
    }

    /// How a plain type is loaded and kept.
    fn plain(&self, ty: &str) -> Option<(Type, Scalar)> {
        let int = |bits| self.context.int(bits);
        Some(match ty {
            "i8" => (int(8), Scalar::I8),
            "i16" => (int(16), Scalar::I16),
            "i32" => (int(32), Scalar::I32),
            "i64" => (int(64), Scalar::I64),
            "i128" => (int(128), Scalar::I128),
            "isize" => (int(64), Scalar::Isize),
            "u8" => (int(8), Scalar::U8),
            "u16" => (int(16), Scalar::U16),
            "u32" => (int(32), Scalar::U32),
            "u64" => (int(64), Scalar::U64),
            "u128" => (int(128), Scalar::U128),
            "usize" => (int(64), Scalar::Usize),
            "half::binary16::f16" => (int(16), Scalar::F16),
            "half::bfloat::bf16" => (int(16), Scalar::Bf16),
            "f32" => (self.context.f32(), Scalar::F32),
            "f64" => (self.context.f64(), Scalar::F64),
            "bool" => (int(8), Scalar::Bool),
            "char" => (int(32), Scalar::Char),
            _ => return None,
        })
    }
}

/// `<u32 as core::fmt::Display>::fmt` is type `u32` and trait `Display`.
fn split_formatter(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_prefix('<')?;
    let (ty, rest) = inside.split_once(" as core::fmt::")?;
    let (trait_name, end) = rest.split_once('>')?;
    (end == "::fmt").then_some((ty, trait_name))
}

/// A value as a word of a record.
fn widen(context: &Context, builder: &Builder, value: Value, is_signed: bool) -> Value {
    let i64 = context.int(64);
    let ty = value.ty();
    match ty.kind() {
        kind::FLOAT => builder.cast(opcode::ZEXT, builder.cast(opcode::BITCAST, value, context.int(32)), i64),
        kind::DOUBLE => builder.cast(opcode::BITCAST, value, i64),
        kind::INTEGER if ty.int_bits() < 64 => {
            builder.cast(if is_signed { opcode::SEXT } else { opcode::ZEXT }, value, i64)
        }
        _ => value,
    }
}

fn has_message(template: Value) -> bool {
    !template.is_null() && !template.is_undef() && address(template).is_some()
}

fn constant_text(pointer: Value, len: Value) -> String {
    let text = address(pointer).zip(len.as_int()).and_then(|((global, into), len)| {
        Some(String::from_utf8_lossy(&bytes_at(global, into, usize::try_from(len).ok()?)?).into_owned())
    });
    text.unwrap_or_else(|| "a panic whose message is made at run time".to_owned())
}

/// The text of a `&str` behind a pointer, when both its words are known.
fn constant_text_behind(pointer: Value) -> Option<String> {
    if let Some((global, into)) = address(pointer) {
        return ConstBytes::of_global(global)?.string_at(usize::try_from(into).ok()?);
    }
    if !pointer.is_alloca() {
        return None;
    }
    let stored = stores_into(pointer);
    let (global, into) = address(*stored.get(&0)?)?;
    let len = stored.get(&8)?.as_int()?;
    Some(String::from_utf8_lossy(&bytes_at(global, into, usize::try_from(len).ok()?)?).into_owned())
}

/// What is stored into a stack slot, by offset, where there is one store to that offset.
fn stores_into(slot: Value) -> HashMap<u64, Value> {
    let mut found: HashMap<u64, Vec<Value>> = HashMap::new();
    collect_stores(slot, 0, &mut found);
    found.into_iter().filter_map(|(offset, values)| (values.len() == 1).then(|| (offset, values[0]))).collect()
}

/// Notes the stores through an address inside a stack slot.
fn collect_stores(address: Value, offset: u64, found: &mut HashMap<u64, Vec<Value>>) {
    for user in address.users() {
        match user.opcode() {
            opcode::STORE if user.operand(1) == address => found.entry(offset).or_default().push(user.operand(0)),
            opcode::GEP if user.operand(0) == address && user.operand_count() == 2 => {
                let Some(index) = user.operand(1).as_int() else { continue };
                let element = user.gep_element();
                let scale = match element.kind() {
                    kind::INTEGER => u64::from(element.int_bits() / 8),
                    // `fmt::Argument`: two words.
                    kind::STRUCT => 16,
                    _ => continue,
                };
                collect_stores(user, offset.wrapping_add(index.wrapping_mul(scale)), found);
            }
            _ => {}
        }
    }
}

/// A part of `format_args!`'s template.
enum Part {
    Text(String),
    Value(usize, Options),
}

/// A placeholder's options, as rustc packs them.
#[derive(Clone, Copy)]
struct Options {
    flags: u32,
    width: u32,
    precision: Option<u32>,
}

impl Options {
    /// Those of `{}`: filled with spaces, aligned as the type is.
    const NONE: Self = Self { flags: 0x6000_0020, width: 0, precision: None };

    /// What stands before the letter in a placeholder.
    fn text(self) -> String {
        let mut text = String::new();
        let alignment = ["<", ">", "^", ""][(self.flags >> 29 & 3) as usize];
        if !alignment.is_empty() {
            text.push(char::from_u32(self.flags & 0x1f_ffff).unwrap_or(' '));
            text.push_str(alignment);
        }
        for (flag, mark) in [(1 << 21, '+'), (1 << 23, '#'), (1 << 24, '0')] {
            if self.flags & flag != 0 {
                text.push(mark);
            }
        }
        if self.width != 0 {
            text.push_str(&self.width.to_string());
        }
        if let Some(precision) = self.precision {
            text.push_str(&format!(".{precision}"));
        }
        text
    }

    /// The letter of a trait.
    fn kind(self, trait_name: &str) -> Option<&'static str> {
        Some(match trait_name {
            "Display" => "",
            "Debug" if self.flags & 1 << 25 != 0 => "x?",
            "Debug" if self.flags & 1 << 26 != 0 => "X?",
            "Debug" => "?",
            "LowerHex" => "x",
            "UpperHex" => "X",
            "Octal" => "o",
            "Binary" => "b",
            "LowerExp" => "e",
            "UpperExp" => "E",
            _ => return None,
        })
    }
}

/// Walks the bytes that rustc compiles `format_args!` to: literal pieces with their length in front, placeholders with
/// the options they have, and a zero at the end.
struct Template<'a> {
    bytes: &'a [u8],
    next: usize,
}

impl<'a> Template<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, next: 0 }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(len)?;
        self.bytes = tail;
        Some(head)
    }
}

impl Iterator for Template<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let head = self.take(1)?[0];
        match head {
            0 => None,
            1..=0x7f => Some(Part::Text(String::from_utf8_lossy(self.take(usize::from(head))?).into_owned())),
            0x80 => {
                let len = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
                Some(Part::Text(String::from_utf8_lossy(self.take(usize::from(len))?).into_owned()))
            }
            _ => {
                let mut options = Options::NONE;
                if head & 1 != 0 {
                    options.flags = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
                }
                // Bits 4 and 5 say that width and precision are arguments: then they are not known here.
                if head & 2 != 0 {
                    let width = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
                    options.width = if head & 16 == 0 { u32::from(width) } else { 0 };
                }
                if head & 4 != 0 {
                    let precision = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
                    options.precision = (head & 32 == 0).then_some(u32::from(precision));
                }
                let index = if head & 8 != 0 {
                    usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
                } else {
                    self.next
                };
                self.next = index + 1;
                Some(Part::Value(index, options))
            }
        }
    }
}

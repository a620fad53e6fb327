//! Finishes one kernel: its entry as the driver calls it, optimisation, and PTX for each architecture.

use std::collections::{BTreeSet, HashMap, HashSet};

use warpsmith_device::constant::CONSTANT_BYTES;

use super::asm::{self, REWRITTEN};
use super::device_memory::{SHARED_PREFIX, clear_named_barriers, named_barriers, shared_bytes};
use super::entries::{Entry, flattened, fnv};
use super::names::{
    ALLOCATE, ALLOCATE_ZEROED, ALONG_X, ARCHITECTURE_AT_LEAST, CHECK_STACK, GRID_BARRIER, HIDDEN, HIDDEN_COUNT,
    NUMBER_IN_GRID, PANIC, PLACE_IN_BLOCK, REALLOCATE, STACK_END, TRIPLE,
};
use super::validate::Doubt;
use super::{
    aggregates, atomics, constant_memory, dump, geometry, link, panics, prints, shape, state_space, statics, validate,
    workarounds,
};
use crate::bundle::{Bundle, ConstantRecord, Image, KernelRecord, MessageFormat};
use crate::job::LowerJob;
use crate::llvm::{self, Context, FUNCTION, Machine, Module, Value, kind, linkage, opcode};
use crate::ptxas;
use crate::store::stamp;

/// PTX's calling convention for kernels.
const PTX_KERNEL: u32 = 71;
/// Above so many panic sites the record is written by a function that is called, not inlined.
const INLINED_SITES: usize = 48;

/// The PTX version that an architecture asks for at least: older drivers read older versions only.
pub(super) fn ptx_version(architecture: u32) -> u32 {
    match architecture {
        ..=75 => 63,
        76..=80 => 70,
        81..=86 => 71,
        87 => 74,
        88 | 110 => 90,
        89 | 90 => 78,
        91..=101 => 86,
        102..=109 | 121 => 88,
        111..=120 => 87,
        _ => 90,
    }
}

/// The code generator for an architecture, optimising in full.
pub(super) fn machine(architecture: u32, ptx_version: u32) -> Result<Machine, String> {
    machine_at(architecture, ptx_version, 3)
}

/// The code generator for an architecture at a level from 0 to 3.
fn machine_at(architecture: u32, ptx_version: u32, level: i32) -> Result<Machine, String> {
    let features = format!("+ptx{ptx_version}");
    Machine::new(TRIPLE, &format!("sm_{architecture}"), &features, level)
}

/// LLVM's pipeline for a kernel, and the code generator's level.
fn level(entry: &Entry) -> (&'static str, i32) {
    match entry.options.opt_level {
        1 => ("default<O0>", 0),
        2 => ("default<O1>", 1),
        3 => ("default<O2>", 2),
        5 => ("default<Os>", 2),
        _ => ("default<O3>", 3),
    }
}

/// Why a kernel was not lowered.
pub(super) enum Failure {
    /// It reaches what a GPU cannot run: one message for each thing.
    Unsupported(Vec<String>),
    /// A fault of ours.
    Internal(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Internal(reason)
    }
}

/// What the kernels of a target have in common.
pub(super) struct Common<'a> {
    pub(super) sites: &'a [MessageFormat],
    pub(super) constants: &'a [ConstantRecord],
    pub(super) job: &'a LowerJob,
}

/// Lowers one kernel of the linked module.
pub(super) fn finish(
    bitcode: &[u8],
    entry: &Entry,
    common: &Common<'_>,
    doubts: &[Doubt],
) -> Result<KernelRecord, Failure> {
    let Common { sites, constants, job } = *common;
    let context = Context::new();
    let module = context.parse(bitcode, &entry.symbol)?;
    link::keep_only(&module, &HashSet::from([entry.symbol.clone(), CHECK_STACK.to_owned()]))?;
    if !has_unbounded_stack(&module) {
        link::keep_only(&module, &HashSet::from([entry.symbol.clone()]))?;
    }
    let bytes = parameter_bytes(entry, hidden_count(&module));
    if bytes > PARAMETER_BYTES[1] {
        return Err(Failure::Unsupported(vec![format!(
            "kernel `{}` has {bytes} bytes of parameters; a GPU takes {} at most: put large values into a buffer",
            entry.title(),
            PARAMETER_BYTES[1]
        )]));
    }
    let constants = constant_memory::reached(&module, constants);
    let bytes = constant_memory::bytes(&constants, &module);
    if bytes > CONSTANT_BYTES as u64 {
        return Err(Failure::Unsupported(vec![format!(
            "kernel `{}` reaches {bytes} bytes of constants in `constant!`; a GPU takes {CONSTANT_BYTES} in one kernel: put \
             large ones into a buffer",
            entry.title(),
        )]));
    }
    let key = cache_key(&module, entry, sites, &constants, job);
    if let Some(record) = cached(job, &key, entry) {
        return Ok(record);
    }
    let mut record = describe(&module, entry);
    record.constants = constants;
    record.prints = prints::number(&context, &module)?;
    if entry.options.unchecked != 0 {
        drop_index_checks(&module, sites);
    }
    aggregates::expand(&context, &module);
    statics::break_rings(&context, &module, &entry.symbol)?;
    flags(&context, &module, entry);
    let prepared = module.to_bitcode();
    let mut sites = Sites { of_target: sites, numbers: HashMap::new(), of_kernel: Vec::new() };
    // Where the kernel asks for its place in the grid, launches along x get code of their own.
    let shapes: &[bool] = if asks_for_shape(&module) { &[false, true] } else { &[false] };
    for along_x in shapes {
        for architectures in by_answers(&module, &job.architectures)? {
            variant(&prepared, entry, doubts, &architectures, *along_x, &mut sites, &mut record)?;
        }
    }
    for image in &record.images {
        assemble(image, job)?;
    }
    record.sites = sites.of_kernel;
    record.images.sort_by_key(|image| (image.architecture, image.along_x));
    store(job, &key, &record);
    Ok(record)
}

/// Optimises the kernel for any launch or for those along x, and adds its PTX for `architectures` to the record.
fn variant(
    prepared: &[u8],
    entry: &Entry,
    doubts: &[Doubt],
    architectures: &[u32],
    along_x: bool,
    sites: &mut Sites<'_>,
    record: &mut KernelRecord,
) -> Result<(), Failure> {
    let context = Context::new();
    let module = context.parse(prepared, &entry.symbol)?;
    answer_shape(&context, &module, along_x);
    geometry::fold(&context, &module, entry.options.block, along_x);
    let lowest = architectures.iter().copied().min().unwrap_or(75);
    answer_architecture(&context, &module, lowest)?;
    build_entry(&context, &module, entry, record.hidden_count())?;
    let (pipeline, level) = level(entry);
    let lowest = machine_at(lowest, ptx_version(lowest), level)?;
    // While the optimiser runs, a panic is one call that never returns: the code around it stays small.
    if let Some(panic) = module.function(PANIC) {
        panic.set_linkage(linkage::EXTERNAL);
        // The record is written at no line of its own, wherever it is inlined.
        panic.forget_lines();
        panic.remove_attribute(FUNCTION, "alwaysinline");
        panic.remove_attribute(FUNCTION, "inlinehint");
        panic.add_attribute(FUNCTION, context.enum_attribute("noinline", 0));
        panic.add_attribute(FUNCTION, context.enum_attribute("cold", 0));
    }
    module.run(pipeline, Some(&lowest))?;
    shape::release(&module);
    let unsupported = validate::remaining(&module, doubts);
    if !unsupported.is_empty() {
        return Err(Failure::Unsupported(unsupported));
    }
    check_stack(&context, &module, &entry.ptx_name())?;
    sites.number(&context, &module)?;
    // After O3 the address spaces are inferred, which lets shared and global accesses be widened.
    module.run(
        "always-inline,function(infer-address-spaces,infer-alignment,load-store-vectorizer,simplifycfg),globaldce",
        Some(&lowest),
    )?;
    workarounds::apply(&context, &module);
    state_space::choose(&context, &module, entry);
    hidden_arguments(&context, &module, entry, record.hidden_count())?;
    module.run("globaldce", None)?;
    dump(&module, &format!("{}{}", entry.ptx_name(), if along_x { "_x" } else { "" }), "optimised");
    module.verify()?;
    record.shared_bytes = record.shared_bytes.max(shared_bytes(&module));
    if record.shared_bytes > SHARED_BYTES {
        return Err(Failure::Unsupported(vec![format!(
            "kernel `{}` has {} bytes of shared memory in `shared!`; a GPU takes {SHARED_BYTES} of that kind at most: use \
             `dynamic_shared` for what is larger, with `LaunchConfig::with_shared_bytes`",
            entry.title(),
            record.shared_bytes
        )]));
    }
    record.unbounded_stack |= has_unbounded_stack(&module);
    let needed = needed_version(&module, parameter_bytes(entry, record.hidden_count()));
    let pointers = pointer_positions(&module, entry)?;
    for architecture in architectures {
        let copy = module.duplicate();
        let ptx_version = ptx_version(*architecture).max(needed);
        let machine = machine_at(*architecture, ptx_version, level)?;
        let outer = copy.function(&entry.ptx_name()).ok_or_else(|| "the entry vanished".to_owned())?;
        atomics::write(&context, &copy, outer, &pointers, &machine, *architecture)?;
        let ptx = machine.emit(&copy)?.replace(REWRITTEN, "");
        let image = Image { architecture: *architecture, ptx_version, along_x, ptx };
        record.images.push(image);
    }
    Ok(())
}

/// Asks `ptxas`, where there is one, about a kernel with text of a `ptx!`, which LLVM never reads.
fn assemble(image: &Image, job: &LowerJob) -> Result<(), Failure> {
    let Some(ptxas) = job.ptxas.as_ref().filter(|_| image.ptx.contains(Image::INLINE_SITE)) else { return Ok(()) };
    let complaints = ptxas::complaints(ptxas, image).map_err(|error| {
        let path = ptxas.display();
        Failure::Unsupported(vec![format!(
            "cannot run {path} on inline PTX: {error}; WARPSMITH_PTXAS=none does without it"
        )])
    })?;
    if complaints.is_empty() {
        return Ok(());
    }
    let architecture = image.architecture;
    let message = |(site, text)| format!("`ptx!` at {site}: ptxas says for sm_{architecture}: {text}");
    Err(Failure::Unsupported(complaints.into_iter().map(message).collect()))
}

/// The positions of the entry's arguments that are addresses of device memory: all pointers but by-value arguments.
fn pointer_positions(module: &Module, entry: &Entry) -> Result<Vec<usize>, String> {
    let outer = module.function(&entry.ptx_name()).ok_or("the entry vanished")?;
    let by_value = flattened(&entry.params);
    let is_address = |(i, parameter): (usize, Value)| {
        let is_pointer = parameter.ty().kind() == kind::POINTER && by_value.get(i).is_some_and(Option::is_none);
        is_pointer.then_some(i)
    };
    Ok(outer.parameters().into_iter().enumerate().filter_map(is_address).collect())
}

/// Bytes of static shared memory that PTX allows.
const SHARED_BYTES: u64 = 48 << 10;

/// Bytes of arguments that every PTX version allows, and that PTX 8.1 does.
const PARAMETER_BYTES: [u64; 2] = [4352, 32764];

/// Bytes of the entry's arguments, the hidden ones included.
fn parameter_bytes(entry: &Entry, hidden_count: u64) -> u64 {
    let hidden = (0..hidden_count).map(|_| None);
    let place = |end: u64, argument: Option<(u64, u32)>| {
        let (size, align) = argument.unwrap_or((8, 8));
        end.next_multiple_of(u64::from(align.max(1))) + size
    };
    flattened(&entry.params).into_iter().chain(hidden).fold(0, place)
}

/// The PTX version that the code needs, whatever the architecture.
fn needed_version(module: &Module, parameter_bytes: u64) -> u32 {
    let of_asm = calls(module).filter(|call| call.called().is_inline_asm());
    let of_asm = of_asm.map(|call| asm::ptx_version(&call.called().asm_parts().0)).max().unwrap_or(0);
    if parameter_bytes > PARAMETER_BYTES[0] { of_asm.max(81) } else { of_asm }
}

/// Has functions that may recurse look at the stack first: past its end the context would be lost.
fn check_stack(context: &Context, module: &Module, outer: &str) -> Result<(), String> {
    let Some(check) = module.function(CHECK_STACK) else { return Ok(()) };
    check.set_linkage(linkage::INTERNAL);
    if !has_unbounded_stack(module) {
        return module.run("globaldce", None);
    }
    // Its calls stand at no line, so what is inlined from it must not claim one.
    check.forget_lines();
    check.remove_attribute(FUNCTION, "noinline");
    check.add_attribute(FUNCTION, context.enum_attribute("alwaysinline", 0));
    for function in module.functions().filter(|f| !f.is_declaration()) {
        let name = function.name();
        if name == outer || name == CHECK_STACK || name == PANIC {
            continue;
        }
        let builder = context.builder();
        let first = function.blocks()[0].instructions().find(|i| !i.is_alloca());
        builder.before(first.unwrap_or_else(|| function.blocks()[0].first()));
        builder.call_function(check, &[]);
    }
    Ok(())
}

/// The calls that ask for one of the launch's hidden arguments.
fn hidden_calls(module: &Module, which: u64) -> Vec<Value> {
    let users = module.function(HIDDEN).map(Value::users).unwrap_or_default();
    users.into_iter().filter(|call| call.operand(0).as_int() == Some(which)).collect()
}

/// Whether the kernel waits for the whole grid.
fn syncs_grid(module: &Module) -> bool {
    !hidden_calls(module, GRID_BARRIER).is_empty()
}

/// How many hidden arguments the kernel's entry has.
fn hidden_count(module: &Module) -> u64 {
    HIDDEN_COUNT + u64::from(syncs_grid(module))
}

impl KernelRecord {
    /// As [`hidden_count`], once the kernel is described: what optimisation drops stays an argument.
    fn hidden_count(&self) -> u64 {
        HIDDEN_COUNT + u64::from(self.syncs_grid)
    }
}

/// Whether the kernel asks if its launch extends along x only.
fn asks_for_shape(module: &Module) -> bool {
    !hidden_calls(module, ALONG_X).is_empty()
}

/// Answers that question, and removes what was noted for the executor.
fn answer_shape(context: &Context, module: &Module, along_x: bool) {
    for (which, answer) in [(ALONG_X, along_x), (PLACE_IN_BLOCK, false), (NUMBER_IN_GRID, false)] {
        for call in hidden_calls(module, which) {
            call.replace_with(context.int(64).int_value(u64::from(answer)));
        }
    }
}

/// The calls that ask whether the architecture is at least some number, with that number.
fn architecture_calls(module: &Module) -> Result<Vec<(Value, u64)>, String> {
    let users = module.function(ARCHITECTURE_AT_LEAST).map(Value::users).unwrap_or_default();
    let least = |call: Value| call.operand(0).as_int().ok_or("which architecture is asked for is not constant");
    users.into_iter().map(|call| Ok((call, least(call)?))).collect()
}

/// The architectures in groups for which the kernel's questions about them have the same answers.
fn by_answers(module: &Module, architectures: &[u32]) -> Result<Vec<Vec<u32>>, String> {
    let mut groups: Vec<(Vec<bool>, Vec<u32>)> = Vec::new();
    let asked: BTreeSet<u64> = architecture_calls(module)?.into_iter().map(|(_, least)| least).collect();
    for architecture in architectures {
        let answers: Vec<bool> = asked.iter().map(|least| u64::from(*architecture) >= *least).collect();
        match groups.iter_mut().find(|(of_group, _)| *of_group == answers) {
            Some((_, group)) => group.push(*architecture),
            None => groups.push((answers, vec![*architecture])),
        }
    }
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

/// Answers those questions.
fn answer_architecture(context: &Context, module: &Module, architecture: u32) -> Result<(), String> {
    for (call, least) in architecture_calls(module)? {
        call.replace_with(context.int(32).int_value(u64::from(u64::from(architecture) >= least)));
    }
    Ok(())
}

/// What is known of the kernel before optimisation.
fn describe(module: &Module, entry: &Entry) -> KernelRecord {
    let mut record = KernelRecord {
        key: entry.key.clone(),
        entry: entry.ptx_name(),
        params: entry.params.clone(),
        block: entry.options.block,
        max_threads: entry.options.max_threads,
        ..KernelRecord::default()
    };
    record.uses_heap = [ALLOCATE, ALLOCATE_ZEROED, REALLOCATE].iter().any(|name| module.function(name).is_some());
    record.syncs_grid = syncs_grid(module);
    let has_shared = module.globals().any(|global| global.name().starts_with(SHARED_PREFIX));
    record.asks_place_in_block = !hidden_calls(module, PLACE_IN_BLOCK).is_empty() || has_shared;
    record.asks_number_in_grid = !hidden_calls(module, NUMBER_IN_GRID).is_empty();
    record.uses_barrier = named_barriers(module).is_some();
    for call in calls(module) {
        if call.called().is_inline_asm() {
            let (template, ..) = call.called().asm_parts();
            let instructions = asm::instructions(&template);
            record.uses_barrier |= is_block_barrier(instructions);
            record.uses_warp |= is_warp_operation(instructions);
        }
    }
    record
}

/// Every call in the module.
fn calls(module: &Module) -> impl Iterator<Item = Value> {
    module.functions().flat_map(Value::instructions).filter(|instruction| instruction.opcode() == opcode::CALL)
}

/// The panic sites of a kernel.
struct Sites<'a> {
    of_target: &'a [MessageFormat],
    /// Number in the kernel of each of the target's sites.
    numbers: HashMap<u64, u64>,
    of_kernel: Vec<MessageFormat>,
}

impl Sites<'_> {
    /// Numbers the sites that optimisation left, from 0, and has the record written in place where they are few.
    fn number(&mut self, context: &Context, module: &Module) -> Result<(), String> {
        let Some(panic) = module.function(PANIC) else { return Ok(()) };
        let mut count = 0;
        for call in calls(module).filter(|call| call.called() == panic) {
            let site = call.operand(0).as_int().ok_or("a panic site is not constant")?;
            let next = self.numbers.len() as u64;
            let number = *self.numbers.entry(site).or_insert(next);
            if number == next {
                let site = usize::try_from(site).map_err(|error| error.to_string())?;
                self.of_kernel.push(self.of_target.get(site).ok_or("a panic site is unknown")?.clone());
            }
            call.set_operand(0, context.int(32).int_value(number));
            count += 1;
        }
        panic.set_linkage(linkage::INTERNAL);
        if count <= INLINED_SITES {
            panic.remove_attribute(FUNCTION, "noinline");
            panic.add_attribute(FUNCTION, context.enum_attribute("alwaysinline", 0));
        }
        Ok(())
    }
}

fn is_block_barrier(template: &str) -> bool {
    ["bar.sync", "bar.red", "bar.arrive", "barrier."].iter().any(|word| template.contains(word))
}

fn is_warp_operation(template: &str) -> bool {
    ["shfl", "vote", "match.", "redux", "activemask", "bar.warp"].iter().any(|word| template.contains(word))
}

/// In a kernel that asked for it, an index is never out of bounds.
fn drop_index_checks(module: &Module, sites: &[MessageFormat]) {
    let Some(panic) = module.function(PANIC) else { return };
    for call in panic.users() {
        let site = call.operand(0).as_int().and_then(|n| sites.get(usize::try_from(n).ok()?));
        if site.is_some_and(|s| s.format == panics::OUT_OF_BOUNDS) {
            // Without the call, what is left of the block is `unreachable`.
            call.erase();
        }
    }
}

/// Builds the entry that the driver calls: the Rust entry's arguments, by-value ones as `byval`, then the hidden ones.
fn build_entry(context: &Context, module: &Module, entry: &Entry, hidden_count: u64) -> Result<(), String> {
    let inner = module.function(&entry.symbol).ok_or("the entry vanished")?;
    let mut types = inner.value_type().parameter_types();
    let arguments = types.len();
    types.extend((0..hidden_count).map(|_| context.int(64)));
    let outer = module.add_function(&entry.ptx_name(), context.void().function(&types));
    outer.set_call_conv(PTX_KERNEL);
    for (i, by_value) in flattened(&entry.params).into_iter().enumerate() {
        let index = u32::try_from(i + 1).map_err(|error| error.to_string())?;
        if let Some((size, align)) = by_value {
            let bytes = context.int(8).array(size);
            outer.add_attribute(index, context.type_attribute("byval", bytes));
            outer.add_attribute(index, context.enum_attribute("align", u64::from(align)));
            outer.add_attribute(index, context.enum_attribute("readonly", 0));
        } else {
            for attribute in inner.attributes(index) {
                outer.add_attribute(index, attribute);
            }
        }
    }
    for name in ["nounwind", "convergent"] {
        outer.add_attribute(FUNCTION, context.enum_attribute(name, 0));
    }
    let options = entry.options;
    let text = |name: &str, value: String| outer.add_attribute(FUNCTION, context.string_attribute(name, &value));
    if options.block != [0; 3] {
        text("nvvm.reqntid", format!("{},{},{}", options.block[0], options.block[1], options.block[2]));
    } else if options.max_threads != 0 {
        text("nvvm.maxntid", options.max_threads.to_string());
    }
    if options.min_blocks != 0 {
        text("nvvm.minctasm", options.min_blocks.to_string());
    }
    if options.max_registers != 0 {
        text("nvvm.maxnreg", options.max_registers.to_string());
    }
    let builder = context.builder();
    builder.at_end(outer.append_block(context, ""));
    clear_named_barriers(context, module, &builder);
    let parameters = outer.parameters();
    let call = builder.call_function(inner, &parameters[..arguments]);
    call.add_call_attribute(FUNCTION, context.enum_attribute("convergent", 0));
    builder.ret(None);
    inner.set_linkage(linkage::INTERNAL);
    inner.remove_attribute(FUNCTION, "noinline");
    inner.add_attribute(FUNCTION, context.enum_attribute("alwaysinline", 0));
    if let Some(hidden) = module.function(HIDDEN) {
        // It reads what never changes, so optimisation may move and merge its calls.
        for (name, value) in [("memory", 0), ("nounwind", 0), ("willreturn", 0), ("nofree", 0), ("nosync", 0)] {
            hidden.add_attribute(FUNCTION, context.enum_attribute(name, value));
        }
        hidden.remove_attribute(FUNCTION, "convergent");
        for call in hidden.users() {
            call.remove_call_attribute(FUNCTION, "convergent");
        }
    }
    Ok(())
}

/// Gives the launch's record and id to where they are asked for: the entry has them as arguments, functions that were
/// not inlined find them in shared memory, where each thread put them.
fn hidden_arguments(context: &Context, module: &Module, entry: &Entry, hidden_count: u64) -> Result<(), String> {
    let Some(hidden) = module.function(HIDDEN) else { return Ok(()) };
    let outer = module.function(&entry.ptx_name()).ok_or("the entry vanished")?;
    let parameters = outer.parameters();
    let first = parameters.len() - hidden_count as usize;
    // The parameter that holds a hidden argument, where one does.
    let parameter = |which: u64| match which {
        GRID_BARRIER if hidden_count > HIDDEN_COUNT => Some(parameters[first + HIDDEN_COUNT as usize]),
        0..HIDDEN_COUNT => Some(parameters[first + which as usize]),
        _ => None,
    };
    let i64 = context.int(64);
    let mut kept = None;
    for call in hidden.users() {
        let which = call.operand(0).as_int().filter(|which| *which == STACK_END || parameter(*which).is_some());
        let which = which.ok_or("which hidden argument is asked for is not constant")?;
        if call.parent_function() == outer
            && let Some(value) = parameter(which)
        {
            call.replace_with(value);
            continue;
        }
        let slot = *kept.get_or_insert_with(|| {
            let ty = i64.array(GRID_BARRIER + 1);
            let slot = module.add_global("ws_hidden", ty, 3);
            slot.set_initializer(ty.undef());
            slot.set_linkage(linkage::INTERNAL);
            slot.set_alignment(8);
            slot
        });
        let builder = context.builder();
        builder.before(call);
        let place = builder.offset(context, slot, i64.int_value(8 * which));
        call.replace_with(builder.load(i64, place));
    }
    if let Some(slot) = kept {
        let builder = context.builder();
        builder.before(outer.blocks()[0].first());
        for which in 0..=GRID_BARRIER {
            if let Some(value) = parameter(which) {
                builder.store(value, builder.offset(context, slot, i64.int_value(8 * which)));
            }
        }
        let ty = i64.function(&[]);
        let stack = builder.call(ty, ty.inline_asm("stacksave.u64 $0;", "=l", true), &[]);
        let end = builder.binary(opcode::SUB, stack, parameters[first + 2]);
        builder.store(end, builder.offset(context, slot, i64.int_value(8 * STACK_END)));
    }
    Ok(())
}

/// Sets the flags that let `a * b + c` fuse, `f32` division and roots be approximated, or floats be treated as reals, and
/// says what becomes of subnormals and whether size counts.
fn flags(context: &Context, module: &Module, entry: &Entry) {
    const CONTRACT: u32 = 1 << 5;
    const APPROXIMATE: u32 = 1 << 6;
    const FAST: u32 = 0x7f;
    let options = entry.options;
    if options.opt_level == 5 {
        for function in module.functions().filter(|f| !f.is_declaration()) {
            function.add_attribute(FUNCTION, context.enum_attribute("optsize", 0));
        }
    }
    if options.ftz != 0 {
        for function in module.functions().filter(|f| !f.is_declaration()) {
            let value = "preserve-sign,preserve-sign";
            function.add_attribute(FUNCTION, context.string_attribute("denormal-fp-math-f32", value));
        }
        // What libdevice asks for the same.
        module.set_flag(context, "nvvm-reflect-ftz", 1);
    }
    let everywhere = match (options.fast_math != 0, options.contract != 0) {
        (true, _) => FAST,
        (false, true) => CONTRACT,
        (false, false) => 0,
    };
    if everywhere == 0 && options.approx == 0 {
        return;
    }
    let bodies = math_bodies(module);
    for function in module.functions() {
        // Rounding by adding and subtracting a large number is no longer that when sums may be taken apart.
        let everywhere = if bodies.contains(&function) { everywhere & CONTRACT } else { everywhere };
        for instruction in function.instructions() {
            let Some(flags) = instruction.fast_math_flags() else { continue };
            let approximates = options.approx != 0 && is_division_or_root(instruction);
            let wanted = everywhere | if approximates { APPROXIMATE } else { 0 };
            if wanted != 0 {
                instruction.set_fast_math_flags(flags | wanted);
            }
        }
    }
}

/// The bodies of maths functions, of libdevice or ours, and all that they call.
fn math_bodies(module: &Module) -> HashSet<Value> {
    let is_body = |name: &str| ["__nv_", "__warpsmith_math_"].iter().any(|prefix| name.starts_with(prefix));
    let mut open: Vec<Value> = module.functions().filter(|function| is_body(&function.name())).collect();
    let mut all = HashSet::new();
    while let Some(function) = open.pop() {
        if all.insert(function) {
            let calls = function.instructions().filter(|instruction| instruction.opcode() == opcode::CALL);
            open.extend(calls.filter_map(|call| call.called().as_function()));
        }
    }
    all
}

/// Whether an instruction is one of those on `f32` that have an approximate form.
fn is_division_or_root(instruction: Value) -> bool {
    instruction.ty().kind() == kind::FLOAT
        && match instruction.opcode() {
            opcode::FDIV => true,
            opcode::CALL => instruction.called().as_function().is_some_and(|f| f.name() == "llvm.sqrt.f32"),
            _ => false,
        }
}

/// Whether the call graph has a ring or a call through a pointer.
fn has_unbounded_stack(module: &Module) -> bool {
    let mut calls: HashMap<Value, Vec<Value>> = HashMap::new();
    for function in module.functions() {
        for instruction in function.instructions() {
            if instruction.opcode() != opcode::CALL || instruction.called().is_inline_asm() {
                continue;
            }
            match instruction.called().as_function() {
                Some(callee) => calls.entry(function).or_default().push(callee),
                None => return true,
            }
        }
    }
    // A ring is left when functions without callees are taken away again and again.
    loop {
        let leaves: HashSet<Value> = module.functions().filter(|f| calls.get(f).is_none_or(Vec::is_empty)).collect();
        let before: usize = calls.values().map(Vec::len).sum();
        for callees in calls.values_mut() {
            callees.retain(|callee| !leaves.contains(callee));
        }
        let after: usize = calls.values().map(Vec::len).sum();
        if after == 0 {
            return false;
        }
        if after == before {
            return true;
        }
    }
}

/// Changes with the PTX that this crate makes of the same bitcode, so that no older one comes from the cache.
const REVISION: u32 = 6;

/// A kernel's cache entry is named by all that its PTX depends on.
///
/// The bitcode holds the panics' numbers alone, not their texts, and of constants neither layout nor alignment.
fn cache_key(
    module: &Module,
    entry: &Entry,
    sites: &[MessageFormat],
    constants: &[ConstantRecord],
    job: &LowerJob,
) -> String {
    let panics = module.function(PANIC).map(Value::users).unwrap_or_default();
    let texts: BTreeSet<_> = panics.into_iter().filter_map(|call| call.operand(0).as_int()).collect();
    let texts: Vec<_> = texts.into_iter().map(|number| (number, sites.get(number as usize))).collect();
    let text = format!(
        "{} {REVISION} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {texts:?} {constants:?} {entry:?}",
        env!("CARGO_PKG_VERSION"),
        llvm::version(),
        llvm::debug_arguments(),
        job.llvm,
        job.architectures,
        job.libdevice,
        job.ptxas,
        job.ptxas.as_deref().and_then(stamp),
    );
    let bitcode = module.to_bitcode();
    format!("{:016x}{:016x}-{}", fnv(&bitcode), fnv(text.as_bytes()), bitcode.len())
}

fn cached(job: &LowerJob, key: &str, entry: &Entry) -> Option<KernelRecord> {
    let bytes = std::fs::read(job.cache.as_ref()?.join(key)).ok()?;
    let record = Bundle::decode(&bytes).ok()?.kernels.pop()?;
    (record.key == entry.key).then_some(record)
}

/// A cache that cannot be written costs time, nothing else.
fn store(job: &LowerJob, key: &str, record: &KernelRecord) {
    let Some(folder) = &job.cache else { return };
    let bundle = Bundle { kernels: vec![record.clone()], ..Bundle::default() };
    let part = folder.join(format!("{key}.{}.part", std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, bundle.encode()))
        .and_then(|()| std::fs::rename(&part, folder.join(key)));
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
}

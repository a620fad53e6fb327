//! From bitcode to PTX: the steps in order, for all kernels of one target.
//!
//! Steps that concern all kernels run once on the linked module; then each kernel goes on in a module and a thread of
//! its own, so that compile time is spread over cores and an unchanged kernel's PTX comes from the cache.

mod aggregates;
mod asm;
mod atomics;
mod checked;
mod constant_memory;
mod constants;
mod device_memory;
mod emit;
mod entries;
mod geometry;
mod leftovers;
mod link;
mod math;
mod names;
mod panics;
mod parallel;
mod prints;
mod retarget;
mod shape;
mod state_space;
mod statics;
mod validate;
mod workarounds;

use std::collections::HashSet;

use self::entries::Entry;
use self::names::TRIPLE;
use self::validate::Doubt;
use crate::bundle::{KernelRecord, MessageFormat};
use crate::job::{LowerError, LowerJob};
use crate::llvm::{self, Context, Machine, Module};

pub(crate) use checked::{CheckedCode, lower_checked};

/// What every step may look at.
struct Pipeline<'a> {
    job: &'a LowerJob,
    machine: Machine,
    triple: &'a str,
}

impl Pipeline<'_> {
    fn internal(&self, reason: impl Into<String>) -> LowerError {
        LowerError::Internal { reason: reason.into(), job: Box::new(self.job.clone()) }
    }
}

/// Lowers the kernels of one target to PTX.
///
/// # Errors
/// [`LowerError`]: a file or the LLVM library that cannot be read, kernels that reach what a GPU cannot run, kernels
/// that cannot be told apart, or a fault of this crate.
pub fn lower(job: &LowerJob) -> Result<Vec<KernelRecord>, LowerError> {
    llvm::load(&job.llvm).map_err(|reason| LowerError::Llvm { path: job.llvm.clone(), reason })?;
    llvm::set_context_of_errors(&job.target);
    let lowest = job.architectures.iter().copied().min().unwrap_or(75);
    let machine = emit::machine(lowest, emit::ptx_version(lowest))
        .map_err(|reason| LowerError::Llvm { path: job.llvm.clone(), reason })?;
    let pipeline = Pipeline { job, machine, triple: TRIPLE };
    let context = Context::new();

    let bitcode = link::read(&job.bitcode)?;
    let module = context.parse(&bitcode, &job.target).map_err(|reason| pipeline.internal(reason))?;
    module.set_target(TRIPLE, &pipeline.machine);
    let entries = entries::find(&context, &module, &pipeline)?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    link::drop_anchors(&module);
    let sites = gather(&context, &module, &entries, &pipeline)?;
    let constants = constant_memory::place(&context, &module, &pipeline)?;
    let doubts = validate::check(&context, &module, &entries)?;
    retarget::prepare(&context, &module, &entries).map_err(|reason| pipeline.internal(reason))?;
    dump(&module, &job.target, "linked");
    let common = emit::Common { sites: &sites, constants: &constants, job };
    lower_each(&module, &entries, &common, &doubts, &pipeline)
}

/// Links what the kernels reach, replacing panics, assembly and maths as they come in, until nothing is missing.
fn gather(
    context: &Context,
    module: &Module,
    entries: &[Entry],
    pipeline: &Pipeline<'_>,
) -> Result<Vec<MessageFormat>, LowerError> {
    let internal = |reason| pipeline.internal(reason);
    let mut keep: HashSet<String> = entries.iter().map(|entry| entry.symbol.clone()).collect();
    let mut sources = link::Sources::new(pipeline.job, pipeline)?;
    let mut panics = panics::Panics::new(context);
    let mut unknown: HashSet<String> = HashSet::new();
    // Which kernels recurse shows only after optimisation; those that do not drop it again.
    keep.insert(names::CHECK_STACK.to_owned());
    let mut anchored = false;
    loop {
        link::resolve_aliases(module);
        link::keep_only(module, &keep).map_err(internal)?;
        panics.inline_helpers(module);
        module
            .run("always-inline,function(lower-invoke,simplifycfg<no-switch-to-lookup>,sroa,instsimplify)", None)
            .map_err(internal)?;
        shape::annotate(context, module);
        let waiting = panics.replace(module);
        let problems = asm::rewrite(context, module);
        if !problems.is_empty() {
            return Err(LowerError::Unsupported { problems });
        }
        atomics::replace(context, module);
        leftovers::replace(context, module);
        math::replace(context, module, pipeline.job.libdevice.is_some());
        device_memory::replace(module);
        keep.extend(names::DEVICE_RUNTIME.iter().filter(|n| module.function(n).is_some()).map(|n| (*n).to_owned()));
        link::keep_only(module, &keep).map_err(internal)?;
        let mut missing: Vec<String> = link::undefined(module).into_iter().filter(|n| !unknown.contains(n)).collect();
        if !anchored {
            // Nothing calls it yet.
            module.declare(names::CHECK_STACK, context.void().function(&[]));
            missing.push(names::CHECK_STACK.to_owned());
            anchored = true;
        }
        if missing.is_empty() && !waiting {
            break;
        }
        if !missing.is_empty() && !sources.link_missing(context, module, &missing, pipeline)? {
            unknown.extend(missing);
        }
    }
    if let Some(path) = &pipeline.job.libdevice {
        math::link_libdevice(context, module, path, pipeline)?;
    }
    Ok(panics.sites)
}

/// Finishes each kernel alone, on all cores.
fn lower_each(
    module: &Module,
    entries: &[Entry],
    common: &emit::Common<'_>,
    doubts: &[Vec<Doubt>],
    pipeline: &Pipeline<'_>,
) -> Result<Vec<KernelRecord>, LowerError> {
    let bitcode = module.to_bitcode();
    let numbered: Vec<(usize, &Entry)> = entries.iter().enumerate().collect();
    let done = parallel::map(&numbered, |&(index, entry)| {
        llvm::set_context_of_errors(&format!("kernel `{}`", entry.title()));
        emit::finish(&bitcode, entry, common, &doubts[index])
    });
    let mut kernels = Vec::new();
    let mut problems = Vec::new();
    let mut unsupported = Vec::new();
    for (entry, finished) in entries.iter().zip(done) {
        match finished {
            Ok(record) => kernels.push(record),
            Err(emit::Failure::Unsupported(reasons)) => unsupported.extend(reasons),
            Err(emit::Failure::Internal(reason)) => problems.push(format!("kernel `{}`: {reason}", entry.title())),
        }
    }
    if !problems.is_empty() {
        return Err(pipeline.internal(problems.join("\n")));
    }
    if unsupported.is_empty() { Ok(kernels) } else { Err(LowerError::Unsupported { problems: unsupported }) }
}

/// Writes a module as text into the folder named by `WARPSMITH_DUMP_LLVM`, for whoever debugs the lowering.
fn dump(module: &Module, name: &str, step: &str) {
    if let Some(folder) = std::env::var_os("WARPSMITH_DUMP_LLVM") {
        let clean: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let path = std::path::Path::new(&folder).join(format!("{clean}.{step}.ll"));
        if let Err(error) = std::fs::write(&path, module.to_text()) {
            eprintln!("warpsmith: cannot write {}: {error}", path.display());
        }
    }
}

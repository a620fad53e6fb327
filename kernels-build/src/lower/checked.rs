//! From the CPU executor's bitcode to the checker's code: an object for the host, which tells the checker of every access.
//!
//! The bitcode comes from a nested build of its own, in which the device functions have the executor's bodies. What
//! kernels reach is linked together as for a GPU, but for the standard library, which the program has already. It is
//! optimised, so that what is left of accesses is what memory sees, and each of them gets a call in front.

mod accesses;
mod floats;
mod overflow;
mod sites;
mod table;

use std::collections::HashSet;

use super::entries::{self, Entry};
use super::{Pipeline, dump, link, parallel};
use crate::job::{LowerError, LowerJob};
use crate::llvm::{self, Context, FUNCTION, Machine, Module, Value, linkage};
use sites::Sites;

/// Declared by the device crate where the profile has `lto`.
const LTO: &str = "__warpsmith_lto";

const NO_LTO: &str = "the profile has `lto`, with which the standard library's functions that checked kernels call are \
                      optimised away before they are linked; check in a profile without it, as `dev` or \
                      `cargo build --release --config profile.release.lto=false`";

/// Kernels that are worth a module of their own, so that all cores have work.
const KERNELS_PER_MODULE: usize = 16;

/// An object with the checker's code of some kernels.
#[derive(Debug)]
pub(crate) struct CheckedCode {
    /// The one symbol that it defines for others.
    pub(crate) symbol: String,
    pub(crate) object: Vec<u8>,
}

/// Lowers the kernels of one target for the checker; the objects' symbols start with `symbol`.
///
/// # Errors
/// As [`lower`](super::lower).
pub(crate) fn lower_checked(job: &LowerJob, triple: &str, symbol: &str) -> Result<Vec<CheckedCode>, LowerError> {
    llvm::load(&job.llvm).map_err(|reason| LowerError::Llvm { path: job.llvm.clone(), reason })?;
    llvm::set_context_of_errors(&job.target);
    let machine = machine(job, triple)?;
    let pipeline = Pipeline { job, machine, triple };
    let context = Context::new();

    let bitcode = link::read(&job.bitcode)?;
    let module = context.parse(&bitcode, &job.target).map_err(|reason| pipeline.internal(reason))?;
    module.set_target(triple, &pipeline.machine);
    let entries = entries::find(&context, &module, &pipeline)?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    if module.function(LTO).is_some() {
        return Err(LowerError::Unsupported { problems: vec![NO_LTO.to_owned()] });
    }
    // What says it is called where kernels are launched, and that code goes.
    let wraps = overflow::wraps(&module);
    link::drop_anchors(&module);
    gather(&context, &module, &entries, &pipeline)?;
    let linked = module.to_bitcode();
    let parts: Vec<(usize, &[Entry])> = entries.chunks(KERNELS_PER_MODULE).enumerate().collect();
    let lowered = parallel::map(&parts, |&(number, entries)| {
        let symbol = format!("{symbol}_{number}");
        let object = instrument(&linked, entries, job, triple, &symbol, wraps)?;
        Ok(CheckedCode { symbol, object })
    });
    lowered.into_iter().collect()
}

fn machine(job: &LowerJob, triple: &str) -> Result<Machine, LowerError> {
    let cpu = if triple.starts_with("x86_64") { "x86-64" } else { "generic" };
    Machine::position_independent(triple, cpu, 2).map_err(|reason| LowerError::Llvm { path: job.llvm.clone(), reason })
}

/// Lowers some kernels of the linked module.
fn instrument(
    linked: &[u8],
    entries: &[Entry],
    job: &LowerJob,
    triple: &str,
    symbol: &str,
    wraps: bool,
) -> Result<Vec<u8>, LowerError> {
    llvm::set_context_of_errors(&job.target);
    let pipeline = Pipeline { job, machine: machine(job, triple)?, triple };
    let internal = |reason| pipeline.internal(reason);
    let context = Context::new();
    let module = context.parse(linked, &job.target).map_err(internal)?;
    link::keep_only(&module, &entries.iter().map(|entry| entry.symbol.clone()).collect()).map_err(internal)?;

    let mut sites = Sites::default();
    if wraps {
        overflow::report_and_go_on(&context, &module, &mut sites);
    }
    optimise(&context, &module, &pipeline).map_err(internal)?;
    overflow::place_again(&context, &module, &mut sites);
    accesses::announce(&context, &module, entries, &mut sites);
    floats::announce(&context, &module, &mut sites);
    forget_effects(&module);
    ask_softly(&module);
    table::append(&context, &module, entries, sites, &job.target, symbol);
    module.run("always-inline", None).map_err(internal)?;
    dump(&module, symbol, "checked");
    module.verify().map_err(internal)?;
    pipeline.machine.emit_object(&module).map_err(internal)
}

/// Links what the kernels reach of the target's dependencies.
fn gather(context: &Context, module: &Module, entries: &[Entry], pipeline: &Pipeline<'_>) -> Result<(), LowerError> {
    let keep: HashSet<String> = entries.iter().map(|entry| entry.symbol.clone()).collect();
    let mut sources = link::Sources::without_sysroot(pipeline.job, pipeline)?;
    let mut elsewhere: HashSet<String> = HashSet::new();
    loop {
        link::resolve_aliases(module);
        link::keep_only(module, &keep).map_err(|reason| pipeline.internal(reason))?;
        let missing: Vec<String> =
            link::undefined(module).into_iter().filter(|name| !elsewhere.contains(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if !sources.link_missing(context, module, &missing, pipeline)? {
            elsewhere.extend(missing);
        }
    }
}

/// Optimises, but puts no accesses together into vectors: one access stays one instruction, and an integer that is only moved an
/// integer. LLVM's options for its pipelines did not keep it from that; it makes no vectors where floats are not to be used.
fn optimise(context: &Context, module: &Module, pipeline: &Pipeline<'_>) -> Result<(), String> {
    const NO_VECTORS: &str = "noimplicitfloat";
    let defined = || module.functions().filter(|function| !function.is_declaration());
    let no_vectors = context.enum_attribute(NO_VECTORS, 0);
    defined().for_each(|function| function.add_attribute(FUNCTION, no_vectors));
    module.run("default<O2>", Some(&pipeline.machine))?;
    defined().for_each(|function| function.remove_attribute(FUNCTION, NO_VECTORS));
    Ok(())
}

/// Lets programs link without the runtime's functions: cargo gives the objects of a package's tests to all of them, and one that
/// has no kernels may not have the runtime either.
fn ask_softly(module: &Module) {
    let is_runtimes = |function: &Value| function.is_declaration() && function.name().starts_with("__warpsmith_");
    for function in module.functions().filter(is_runtimes) {
        function.set_linkage(linkage::EXTERN_WEAK);
    }
}

/// Takes away what was found out about functions before they had the checker's calls.
fn forget_effects(module: &Module) {
    const EFFECTS: [&str; 3] = ["memory", "nosync", "willreturn"];
    for function in module.functions().filter(|function| !function.is_declaration()) {
        for effect in EFFECTS {
            function.remove_attribute(FUNCTION, effect);
        }
        for call in function.instructions().filter(|i| llvm::is_call(*i)) {
            for effect in EFFECTS {
                call.remove_call_attribute(FUNCTION, effect);
            }
        }
    }
}

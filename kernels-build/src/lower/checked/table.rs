//! What the program finds the checker's code by: a function for each kernel that takes arguments as the driver does, and an
//! entry in a section.

use super::sites::Sites;
use crate::bundle::{CHECKED_SECTION, CheckedModule, CheckedRecord};
use crate::llvm::{Context, FUNCTION, Module, Value, linkage};
use crate::lower::entries::{Entry, flattened};

/// Adds both; the entry is the only symbol that is left.
pub(super) fn append(context: &Context, module: &Module, entries: &[Entry], sites: Sites, target: &str, symbol: &str) {
    let functions: Vec<Value> = entries.iter().map(|entry| function(context, module, entry)).collect();
    let record = |entry: &Entry| CheckedRecord { key: entry.key.clone(), params: entry.params.clone() };
    let kernels = entries.iter().map(record).collect();
    let encoded = CheckedModule { target: target.to_owned(), kernels, sites: sites.into_inner() }.encode();
    let pointer = context.ptr(0);
    let hidden = |name: &str, value: Value| {
        let global = module.add_global(name, value.ty(), 0);
        global.set_initializer(value);
        global.set_global_constant(true);
        global.set_linkage(linkage::INTERNAL);
        global
    };
    let length = |count: usize| context.int(64).int_value(count as u64);
    let table = hidden("warpsmith.functions", context.array(pointer, &functions));
    let bytes = hidden("warpsmith.module", context.bytes(&encoded));
    let fields = [bytes, length(encoded.len()), table, length(functions.len())];
    let value = context.structure(&fields);
    let entry = module.add_global(symbol, value.ty(), 0);
    entry.set_initializer(value);
    entry.set_global_constant(true);
    entry.set_section(CHECKED_SECTION);
    entry.set_alignment(8);
    // Nothing refers to it by name: linkers that collect garbage must be told.
    let used = context.array(pointer, &[entry]);
    let anchor = module.add_global("llvm.used", used.ty(), 0);
    anchor.set_initializer(used);
    anchor.set_linkage(linkage::APPENDING);
    anchor.set_section("llvm.metadata");
}

/// The function that loads an entry's arguments from where a list says they lie, and calls it.
fn function(context: &Context, module: &Module, entry: &Entry) -> Value {
    let inner = module.function(&entry.symbol).expect("entries are kept until here");
    let function =
        module.add_function(&format!("warpsmith.run.{}", entry.symbol), context.void().function(&[context.ptr(0)]));
    function.set_linkage(linkage::INTERNAL);
    // Panics pass through it.
    function.add_attribute(FUNCTION, context.enum_attribute("uwtable", 2));
    let list = function.parameters()[0];
    let builder = context.builder();
    builder.at_end(function.append_block(context, "start"));
    let mut arguments = Vec::new();
    for (index, (by_value, parameter)) in flattened(&entry.params).into_iter().zip(inner.parameters()).enumerate() {
        let place = builder.offset(context, list, context.int(64).int_value(8 * index as u64));
        let address = builder.load(context.ptr(0), place);
        // What goes by value is passed by its address; the rest is a pointer or a length that lies there.
        arguments.push(if by_value.is_some() { address } else { builder.load(parameter.ty(), address) });
    }
    builder.call_function(inner, &arguments);
    builder.ret(None);
    inner.set_linkage(linkage::INTERNAL);
    function
}

//! Places that print: each becomes a number, by which the host finds the format and the types of the values.

use std::mem::offset_of;

use warpsmith_device::print::{Site, TypeList};

use super::constants::{ConstBytes, address};
use super::names::PRINT_SITE;
use crate::bundle::MessageFormat;
use crate::llvm::{Context, Module, Value};

/// Numbers the places of one kernel's module that print, and gives them in the order of their numbers.
///
/// # Errors
/// A call whose format or types are not constant.
pub(super) fn number(context: &Context, module: &Module) -> Result<Vec<MessageFormat>, String> {
    let Some(marker) = module.function(PRINT_SITE) else { return Ok(Vec::new()) };
    let mut sites: Vec<MessageFormat> = Vec::new();
    for call in marker.users() {
        let site = read(call).ok_or_else(|| format!("what a place prints is not constant: {}", call.text()))?;
        let number = sites.iter().position(|known| *known == site).unwrap_or_else(|| {
            sites.push(site);
            sites.len() - 1
        });
        call.replace_with(context.int(32).int_value(number as u64));
    }
    Ok(sites)
}

fn read(call: Value) -> Option<MessageFormat> {
    let (site, offset) = address(call.operand(0))?;
    let site = ConstBytes::of_global(site).filter(|_| offset == 0)?;
    let prefix = site.string_at(offset_of!(Site, prefix))?;
    let mut format = prefix.replace('{', "{{").replace('}', "}}");
    format.push_str(&site.string_at(offset_of!(Site, format))?);
    if site.u32_at(offset_of!(Site, newline))? != 0 {
        format.push('\n');
    }
    let mut types = Vec::new();
    let list = call.operand(1);
    if !list.is_null() {
        let (mut list, mut at) = address(list)?;
        loop {
            let bytes = ConstBytes::of_global(list)?;
            let start = usize::try_from(at).ok()?;
            types.push(bytes.u64_at(start + offset_of!(TypeList, first))?);
            match bytes.address_at(start + offset_of!(TypeList, rest)) {
                Some((rest, into)) => (list, at) = (rest, into),
                None => break,
            }
        }
    }
    Some(MessageFormat { format, types })
}

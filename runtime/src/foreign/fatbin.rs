//! What is read from a fatbin: its members, and whether they lie inside it.

use super::elf::Elf;
use super::ptx;
use super::signature::EntrySignature;

/// A module in a fatbin.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    kind: u16,
    architecture: u32,
    is_compressed: bool,
    data: &'a [u8],
}

const PTX: u16 = 1;
const CUBIN: u16 = 2;

impl<'a> Member<'a> {
    /// Its bytes, where it is a cubin that is not compressed.
    pub(crate) fn plain_elf(&self) -> Option<&'a [u8]> {
        (self.kind == CUBIN && !self.is_compressed).then_some(self.data)
    }

    pub(crate) fn name(&self) -> String {
        format!("for sm_{}", self.architecture)
    }

    /// Its kernels; `None` where it cannot be read.
    fn entries(&self) -> Option<Vec<EntrySignature>> {
        if self.is_compressed {
            return None;
        }
        match self.kind {
            PTX => Some(ptx::entries(std::str::from_utf8(self.data).ok()?.trim_end_matches('\0'))),
            CUBIN => Some(Elf::parse(self.data).ok()?.entries()),
            _ => None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The members; the error says what lies outside the file.
pub(crate) fn members(bytes: &[u8]) -> Result<Vec<Member<'_>>, String> {
    /// Bits of a member's flags: compressed in one way or another.
    const COMPRESSED: u32 = 0xe000;
    let len = bytes.len();
    let cut = || format!("a part of it lies outside its {len} bytes, so it was cut short");
    let long = |at: usize| Some(u64::from(word(bytes, at)?) | u64::from(word(bytes, at + 4)?) << 32);
    let index = |value: u64| usize::try_from(value).map_err(|_| cut());
    let header = usize::try_from(word(bytes, 4).ok_or_else(cut)? >> 16).map_err(|_| cut())?;
    let size = index(long(8).ok_or_else(cut)?)?;
    let end = header.checked_add(size).filter(|&end| end <= len).ok_or_else(cut)?;
    let mut at = header;
    let mut members = Vec::new();
    while at < end {
        let head = bytes.get(at..end).ok_or_else(cut)?;
        let kind = u16::try_from(word(head, 0).ok_or_else(cut)? & 0xffff).map_err(|_| cut())?;
        let header = usize::try_from(word(head, 4).ok_or_else(cut)?).map_err(|_| cut())?;
        let size = index(long(at + 8).ok_or_else(cut)?)?;
        let flags = word(head, 40).ok_or_else(cut)?;
        let architecture = word(head, 28).ok_or_else(cut)?;
        let next = header.checked_add(size).filter(|&next| next != 0).ok_or_else(cut)?;
        let data = head.get(header..next).ok_or_else(cut)?;
        members.push(Member { kind, architecture, is_compressed: flags & COMPRESSED != 0, data });
        at += next;
    }
    if members.is_empty() { Err("it holds no module".to_owned()) } else { Ok(members) }
}

/// The kernels of a fatbin. What its members say differently, or may because one cannot be read, is left open: which one the
/// driver takes is not known.
pub(crate) fn entries(bytes: &[u8]) -> Vec<EntrySignature> {
    let members = members(bytes).unwrap_or_default();
    let mut known: Vec<EntrySignature> = Vec::new();
    let mut all_are_read = true;
    for member in &members {
        let Some(entries) = member.entries() else {
            all_are_read = false;
            continue;
        };
        for entry in entries {
            match known.iter_mut().find(|each| each.name == entry.name) {
                None => known.push(entry),
                Some(each) => {
                    if each.sizes() != entry.sizes() {
                        each.parameters = None;
                    }
                }
            }
        }
    }
    if !all_are_read {
        known.iter_mut().for_each(|entry| entry.parameters = None);
    }
    known
}

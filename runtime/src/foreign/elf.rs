//! What is read from a cubin: whether its parts lie inside it, its kernels, and the sizes of their parameters.

use super::signature::{EntrySignature, Parameter};

/// A 64-bit ELF file whose headers and sections lie inside its bytes.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
    sections: Vec<Section<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Section<'a> {
    name: u32,
    kind: u32,
    link: u32,
    data: &'a [u8],
}

const SYMBOLS: u32 = 2;
/// Sections that have no bytes in the file: `NOBITS`, and NVIDIA's own for global, local and shared memory.
const NO_BYTES: [u32; 4] = [8, 0x7000_0007, 0x7000_0009, 0x7000_000a];
const RELOCATABLE: u16 = 1;
/// `STO_CUDA_ENTRY` in a symbol's `st_other`.
const CUDA_ENTRY: u8 = 0x10;
const FUNCTION: u8 = 2;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// Part of the bytes, where it lies inside.
fn part(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(offset.checked_add(size)?).ok()?);
    bytes.get(start..end)
}

fn text_at(bytes: &[u8], at: u32) -> Option<&str> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    std::str::from_utf8(&rest[..rest.iter().position(|&byte| byte == 0)?]).ok()
}

impl<'a> Elf<'a> {
    /// Reads the headers; the error says what lies outside the file.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        const HEADER_BYTES: usize = 64;
        const SECTION_BYTES: u64 = 64;
        const PROGRAM_BYTES: u64 = 56;
        let len = bytes.len();
        let cut = |what: &str| format!("{what} lies outside its {len} bytes, so it was cut short");
        if len < HEADER_BYTES {
            return Err(cut("the header"));
        }
        let field = |at| u64_at(bytes, at).unwrap_or(0);
        let half = |at| u64::from(u16_at(bytes, at).unwrap_or(0));
        if bytes[5] != 1 {
            return Err("it is big-endian".to_owned());
        }
        let (program_offset, section_offset) = (field(32), field(40));
        let (program_size, program_count, section_size, section_count) = (half(54), half(56), half(58), half(60));
        if program_count != 0 && program_size != PROGRAM_BYTES || section_count != 0 && section_size != SECTION_BYTES {
            return Err(format!("its headers have {program_size} and {section_size} bytes; they must have 56 and 64"));
        }
        let programs = part(bytes, program_offset, program_count * PROGRAM_BYTES);
        let programs = programs.ok_or_else(|| cut("the table of segments"))?;
        for program in programs.chunks_exact(56) {
            let (offset, size) = (u64_at(program, 8).unwrap_or(0), u64_at(program, 32).unwrap_or(0));
            part(bytes, offset, size).ok_or_else(|| cut("a segment"))?;
        }
        let table = part(bytes, section_offset, section_count * SECTION_BYTES);
        let table = table.ok_or_else(|| cut("the table of sections"))?;
        let mut sections = Vec::new();
        for header in table.chunks_exact(64) {
            let word = |at| u32_at(header, at).unwrap_or(0);
            let (kind, offset, size) = (word(4), u64_at(header, 24).unwrap_or(0), u64_at(header, 32).unwrap_or(0));
            let has_bytes = kind != 0 && !NO_BYTES.contains(&kind);
            let data = match part(bytes, offset, size) {
                Some(data) if has_bytes => data,
                None if has_bytes => return Err(cut("a section")),
                _ => &[],
            };
            sections.push(Section { name: word(0), kind, link: word(40), data });
        }
        Ok(Self { bytes, sections })
    }

    /// Whether it has to be linked before it can be loaded.
    pub(crate) fn is_relocatable(&self) -> bool {
        u16_at(self.bytes, 16) == Some(RELOCATABLE)
    }

    fn name(&self, section: &Section<'_>) -> Option<&'a str> {
        let names = self.sections.get(usize::from(u16_at(self.bytes, 62)?))?;
        text_at(names.data, section.name)
    }

    /// The kernels, by name, with what `.nv.info.NAME` says of their parameters.
    pub(crate) fn entries(&self) -> Vec<EntrySignature> {
        let mut entries = Vec::new();
        for table in self.sections.iter().filter(|section| section.kind == SYMBOLS) {
            let Some(names) = usize::try_from(table.link).ok().and_then(|link| self.sections.get(link)) else {
                continue;
            };
            for symbol in table.data.chunks_exact(24) {
                let (info, other) = (symbol[4], symbol[5]);
                if info & 0xf != FUNCTION || other & CUDA_ENTRY == 0 {
                    continue;
                }
                let name = u32_at(symbol, 0).and_then(|at| text_at(names.data, at));
                let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
                entries.push(EntrySignature { name: name.to_owned(), parameters: self.parameters(name) });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    fn parameters(&self, entry: &str) -> Option<Vec<Parameter>> {
        let section = self.sections.iter().find(|section| {
            self.name(section).and_then(|name| name.strip_prefix(".nv.info.")).is_some_and(|name| name == entry)
        })?;
        parameters(section.data)
    }
}

/// The parameters in a kernel's attributes: entries of a format, a number, and 16 bits of value or size.
fn parameters(mut data: &[u8]) -> Option<Vec<Parameter>> {
    const SIZED: u8 = 4;
    const PARAMETER: u8 = 0x17;
    let mut found: Vec<(u16, Parameter)> = Vec::new();
    while !data.is_empty() {
        let (format, attribute, size) = (*data.first()?, *data.get(1)?, usize::from(u16_at(data, 2)?));
        data = &data[4..];
        if format != SIZED {
            continue;
        }
        let value = data.get(..size)?;
        data = &data[size..];
        if attribute == PARAMETER {
            let ordinal = u16_at(value, 4)?;
            // The size in bytes stands above 18 other bits.
            let bytes = usize::try_from(u32_at(value, 8)? >> 18).ok()?;
            found.push((ordinal, Parameter { bytes, align: 1 }));
        }
    }
    found.sort_by_key(|(ordinal, _)| *ordinal);
    let in_order = found.iter().enumerate().all(|(index, (ordinal, _))| usize::from(*ordinal) == index);
    // Without any it may be that they are listed in another way than this one.
    (in_order && !found.is_empty()).then(|| found.into_iter().map(|(_, parameter)| parameter).collect())
}

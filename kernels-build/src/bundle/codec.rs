//! Bytes of a bundle: little-endian numbers, length-prefixed lists and strings, a version first, a checksum last.

use super::{
    Bundle, CheckedModule, CheckedRecord, CheckedSite, ConstantKey, ConstantRecord, Image, KernelKey, KernelRecord,
    MessageFormat, ParamRecord,
};
use std::fmt;

/// Version of the encoding; a reader refuses every other one.
pub const VERSION: u32 = 8;

/// First word of each entry in the `warpsmith_bundles` section: `WSMITH01` read as a big-endian number.
pub const ENTRY_MAGIC: u64 = 0x5753_4D49_5448_3031;

/// Alignment in bytes of the entries in the section.
pub const ENTRY_ALIGN: usize = 16;

/// Why bytes are not a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a value.
    Truncated {
        /// Offset in bytes of the value.
        offset: usize,
        /// Bytes that the value takes.
        wanted: u64,
        /// Bytes that are left.
        left: usize,
    },
    /// Another version of this crate wrote them.
    Version {
        /// The version found.
        found: u32,
    },
    /// The checksum at the end does not match.
    Checksum {
        /// The checksum stored.
        stored: u64,
        /// The checksum of what was read.
        computed: u64,
    },
    /// A string is not UTF-8.
    Utf8 {
        /// Offset in bytes of the string.
        offset: usize,
    },
    /// A number stands where only some numbers have a meaning.
    Invalid {
        /// What the number means.
        what: &'static str,
        /// The number.
        value: u64,
        /// Offset in bytes of the number.
        offset: usize,
    },
    /// Bytes are left over after the bundle.
    Trailing {
        /// How many.
        left: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { offset, wanted, left } => {
                write!(f, "the bundle is cut off: {wanted} bytes wanted at offset {offset}, {left} left")
            }
            Self::Version { found } => {
                write!(f, "the bundle has format version {found}; this build reads version {VERSION}")
            }
            Self::Checksum { stored, computed } => {
                write!(f, "the bundle is corrupt: checksum {stored:#018x} stored, {computed:#018x} computed")
            }
            Self::Utf8 { offset } => write!(f, "the bundle is corrupt: the text at offset {offset} is not UTF-8"),
            Self::Invalid { what, value, offset } => {
                write!(f, "the bundle is corrupt: {value} at offset {offset} is no {what}")
            }
            Self::Trailing { left } => write!(f, "the bundle is corrupt: {left} bytes follow its end"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Bundle {
    /// The bundle as bytes, for [`Bundle::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a bundle back.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not exactly one bundle of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

impl CheckedModule {
    /// The module as bytes, for [`CheckedModule::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a module back.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not exactly one module of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

fn encode<T: Code>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    VERSION.put(&mut out);
    value.put(&mut out);
    let sum = checksum(&out);
    sum.put(&mut out);
    out
}

fn decode<T: Code>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut reader = Reader { bytes, offset: 0 };
    let found = u32::get(&mut reader)?;
    if found != VERSION {
        return Err(DecodeError::Version { found });
    }
    let body = bytes.len().checked_sub(8).filter(|&body| body >= 4).ok_or(DecodeError::Truncated {
        offset: 4,
        wanted: 8,
        left: bytes.len() - 4,
    })?;
    let stored = u64::get(&mut Reader { bytes, offset: body })?;
    let computed = checksum(&bytes[..body]);
    if stored != computed {
        return Err(DecodeError::Checksum { stored, computed });
    }
    let mut reader = Reader { bytes: &bytes[..body], offset: 4 };
    let value = T::get(&mut reader)?;
    match body - reader.offset {
        0 => Ok(value),
        left => Err(DecodeError::Trailing { left }),
    }
}

/// One entry of the `warpsmith_bundles` section: [`ENTRY_MAGIC`], the length, the bytes, zeros up to the alignment.
#[must_use]
pub fn frame(bundle: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bundle.len() + 2 * ENTRY_ALIGN);
    ENTRY_MAGIC.put(&mut out);
    (bundle.len() as u64).put(&mut out);
    out.extend_from_slice(bundle);
    out.resize(out.len().next_multiple_of(ENTRY_ALIGN), 0);
    out
}

/// Lists the bundles in the bytes of a `warpsmith_bundles` section; units of zeros between entries are skipped.
#[must_use]
pub fn entries(section: &[u8]) -> Entries<'_> {
    Entries { section, offset: 0 }
}

/// Iterator of [`entries`]; ends after the first error.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    section: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let zeros = [0; ENTRY_ALIGN];
        while self.section.get(self.offset..self.offset + ENTRY_ALIGN) == Some(&zeros[..]) {
            self.offset += ENTRY_ALIGN;
        }
        if self.offset >= self.section.len() {
            return None;
        }
        let entry = read_entry(self.section, self.offset);
        match &entry {
            Ok(bytes) => self.offset += (ENTRY_ALIGN + bytes.len()).next_multiple_of(ENTRY_ALIGN),
            Err(_) => self.offset = self.section.len(),
        }
        Some(entry)
    }
}

fn read_entry(section: &[u8], offset: usize) -> Result<&[u8], DecodeError> {
    let mut reader = Reader { bytes: section, offset };
    let magic = u64::get(&mut reader)?;
    if magic != ENTRY_MAGIC {
        return Err(DecodeError::Invalid { what: "entry", value: magic, offset });
    }
    let len = u64::get(&mut reader)?;
    reader.take(len)
}

/// FNV-1a over bytes.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize, // Invariant: at most `bytes.len()`.
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], DecodeError> {
        let left = self.bytes.len() - self.offset;
        let len = usize::try_from(len).ok().filter(|&len| len <= left).ok_or(DecodeError::Truncated {
            offset: self.offset,
            wanted: len,
            left,
        })?;
        let taken = &self.bytes[self.offset..self.offset + len];
        self.offset += len;
        Ok(taken)
    }
}

/// A value with an encoding.
trait Code: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Code for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let bytes = reader.take(size_of::<Self>() as u64)?;
                Ok(Self::from_le_bytes(bytes.try_into().expect("`take` gave as many bytes as asked for")))
            }
        }
    )*};
}
numbers!(u8, u32, u64);

impl Code for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset;
        match u8::get(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Invalid { what: "truth value", value: value.into(), offset }),
        }
    }
}

impl Code for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let len = u64::get(reader)?;
        let offset = reader.offset;
        let bytes = reader.take(len)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::Utf8 { offset })
    }
}

impl<T: Code> Code for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Each item takes a byte or more, so a corrupt length ends with the bytes; nothing is reserved for it.
        let len = u64::get(reader)?;
        let mut items = Self::new();
        for _ in 0..len {
            items.push(T::get(reader)?);
        }
        Ok(items)
    }
}

impl<T: Code> Code for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::get(reader)? { Some(T::get(reader)?) } else { None })
    }
}

impl Code for [u32; 3] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|number| number.put(out));
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok([u32::get(reader)?, u32::get(reader)?, u32::get(reader)?])
    }
}

macro_rules! records {
    ($($record:ident { $($field:ident),* $(,)? })*) => {$(
        impl Code for $record {
            fn put(&self, out: &mut Vec<u8>) {
                // Taken apart whole, so that a new field cannot be forgotten here.
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self { $($field: Code::get(reader)?),* })
            }
        }
    )*};
}
records! {
    Bundle { target, compiler, kernels, failure }
    CheckedModule { target, kernels, sites }
    CheckedRecord { key, params }
    CheckedSite { file, line, column, function, inner, kind, operation, flags, bytes, align, value }
    KernelKey { module_path, name, file, line, column, instance }
    KernelRecord {
        key, entry, params, block, max_threads, uses_barrier, uses_warp, syncs_grid, asks_place_in_block,
        asks_number_in_grid, uses_heap, unbounded_stack, shared_bytes, constants, sites, prints, images,
    }
    ConstantKey { module_path, name, file, line, column }
    ConstantRecord { key, symbol, size, align, layout }
    ParamRecord { kind, align, size, extent_size, layout }
    MessageFormat { format, types }
    Image { architecture, ptx_version, along_x, ptx }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator (xorshift64*), so that a failing case can be named by its seed.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
        }

        fn below(&mut self, limit: u64) -> u64 {
            self.next() % limit
        }

        fn text(&mut self) -> String {
            let len = [0, 1, 7, 300][self.below(4) as usize];
            (0..len).map(|_| ['a', ':', '\n', '\0', 'é', '漢', '🦀', '"'][self.below(8) as usize]).collect()
        }

        fn list<T>(&mut self, most: u64, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
            (0..self.below(most + 1)).map(|_| item(self)).collect()
        }

        fn number(&mut self) -> u32 {
            [0, 1, self.next() as u32, u32::MAX][self.below(4) as usize]
        }

        fn message(&mut self) -> MessageFormat {
            MessageFormat { format: self.text(), types: self.list(3, Self::next) }
        }

        fn kernel(&mut self) -> KernelRecord {
            KernelRecord {
                key: KernelKey {
                    module_path: self.text(),
                    name: self.text(),
                    file: self.text(),
                    line: self.number(),
                    column: self.number(),
                    instance: self.text(),
                },
                entry: self.text(),
                params: self.list(4, |random| ParamRecord {
                    kind: random.number(),
                    align: random.number(),
                    size: random.next(),
                    extent_size: random.next(),
                    layout: random.next(),
                }),
                block: [self.number(), self.number(), self.number()],
                max_threads: self.number(),
                uses_barrier: self.below(2) == 0,
                uses_warp: self.below(2) == 0,
                syncs_grid: self.below(2) == 0,
                asks_place_in_block: self.below(2) == 0,
                asks_number_in_grid: self.below(2) == 0,
                uses_heap: self.below(2) == 0,
                unbounded_stack: self.below(2) == 0,
                shared_bytes: self.next(),
                constants: self.list(3, |random| ConstantRecord {
                    key: ConstantKey {
                        module_path: random.text(),
                        name: random.text(),
                        file: random.text(),
                        line: random.number(),
                        column: random.number(),
                    },
                    symbol: random.text(),
                    size: random.next(),
                    align: random.next(),
                    layout: random.next(),
                }),
                sites: self.list(3, Self::message),
                prints: self.list(3, Self::message),
                images: self.list(3, |random| Image {
                    architecture: random.number(),
                    ptx_version: random.number(),
                    along_x: random.number() % 2 == 0,
                    ptx: random.text(),
                }),
            }
        }

        fn bundle(&mut self) -> Bundle {
            Bundle {
                target: self.text(),
                compiler: self.text(),
                kernels: self.list(4, Self::kernel),
                failure: if self.below(2) == 0 { Some(self.text()) } else { None },
            }
        }
    }

    /// Runs `check` on random bundles and says which seed failed. `WARPSMITH_SEED` repeats one.
    fn each_seed(check: impl Fn(&mut Random, u64)) {
        let seeds = match std::env::var("WARPSMITH_SEED") {
            Ok(seed) => vec![seed.parse().expect("WARPSMITH_SEED is a number")],
            Err(_) => {
                let start = std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .map_or(1, |time| time.as_nanos() as u64);
                (0..200).map(|step| start.wrapping_add(step * 7919) | 1).collect::<Vec<_>>()
            }
        };
        for seed in seeds {
            println!("WARPSMITH_SEED={seed}");
            check(&mut Random(seed), seed);
        }
    }

    #[test]
    fn round_trip() {
        each_seed(|random, seed| {
            let bundle = random.bundle();
            assert_eq!(Bundle::decode(&bundle.encode()), Ok(bundle), "seed {seed}");
        });
    }

    #[test]
    fn every_truncation_is_an_error() {
        each_seed(|random, seed| {
            let bytes = random.bundle().encode();
            let step = (bytes.len() / 64).max(1);
            for len in (0..bytes.len()).step_by(step) {
                assert!(Bundle::decode(&bytes[..len]).is_err(), "seed {seed}: cut to {len} bytes of {}", bytes.len());
            }
        });
    }

    #[test]
    fn every_flipped_bit_is_an_error() {
        each_seed(|random, seed| {
            let mut bytes = random.bundle().encode();
            for _ in 0..32 {
                let at = random.below(bytes.len() as u64) as usize;
                let bit = 1 << random.below(8);
                bytes[at] ^= bit;
                assert!(Bundle::decode(&bytes).is_err(), "seed {seed}: bit {bit:#x} of byte {at}");
                bytes[at] ^= bit;
            }
        });
    }

    /// Behind a right checksum too, wrong contents are an error and no panic or huge allocation.
    #[test]
    fn corrupt_contents_never_panic() {
        each_seed(|random, _| {
            let mut bytes = random.bundle().encode();
            let body = bytes.len() - 8;
            for _ in 0..8 {
                let at = 4 + random.below(body as u64 - 4) as usize;
                bytes[at] = [0, 1, 0x7f, 0xff][random.below(4) as usize];
            }
            let sum = checksum(&bytes[..body]).to_le_bytes();
            bytes[body..].copy_from_slice(&sum);
            if let Ok(bundle) = Bundle::decode(&bytes) {
                assert_eq!(bundle.encode(), bytes, "what decodes is what was encoded");
            }
        });
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Bundle::default().encode();
        bytes[0] = 9;
        let error = Bundle::decode(&bytes).expect_err("version 9 is not ours");
        assert_eq!(error, DecodeError::Version { found: 9 });
        assert_eq!(error.to_string(), format!("the bundle has format version 9; this build reads version {VERSION}"));
    }

    #[test]
    fn section_with_gaps_lists_every_entry() {
        let bundles: Vec<Vec<u8>> = [0, 1, 15, 16, 17, 4000].map(|len| vec![7; len]).to_vec();
        let mut section = vec![0; 32];
        for bundle in &bundles {
            section.extend(frame(bundle));
            section.extend([0; 48]);
        }
        let found: Vec<Vec<u8>> = entries(&section).map(|entry| entry.expect("entry").to_vec()).collect();
        assert_eq!(found, bundles);
    }

    #[test]
    fn broken_section_is_one_error() {
        let mut section = frame(b"abc");
        section[8] = 200;
        assert_eq!(
            entries(&section).collect::<Vec<_>>(),
            [Err(DecodeError::Truncated { offset: 16, wanted: 200, left: 16 })]
        );
        section[0] = 9;
        assert!(matches!(entries(&section).collect::<Vec<_>>()[..], [Err(DecodeError::Invalid { what: "entry", .. })]));
    }
}

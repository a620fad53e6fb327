//! The bundle: the kernels of one compiled target, with their PTX and metadata, as bytes that a program carries.

mod codec;

pub use codec::{DecodeError, ENTRY_ALIGN, ENTRY_MAGIC, Entries, VERSION, entries, frame};

/// Name of the ELF section that holds the framed bundles of a program.
pub const SECTION: &str = "warpsmith_bundles";

/// The kernels of one target (a lib, bin, test, example or bench).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The target as cargo names it, with its kind: `bin photo`, `lib warpsmith_tests`.
    pub target: String,
    /// `rustc -vV`'s first line, of the compiler that made the bitcode.
    pub compiler: String,
    /// The kernels; order has no meaning.
    pub kernels: Vec<KernelRecord>,
    /// Why the target has no kernels: rustc's message, when the nested build of this target failed.
    pub failure: Option<String>,
}

/// Name of the ELF section that lists the checker's code of a program, as [`CheckedEntry`]s.
pub const CHECKED_SECTION: &str = "warpsmith_checked";

/// One target's code for the checker, as it lies in [`CHECKED_SECTION`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CheckedEntry {
    /// An encoded [`CheckedModule`]; null in an entry that is to be skipped.
    pub module: *const u8,
    /// Its length in bytes.
    pub module_len: u64,
    /// One function for each kernel of the module, in its order. It takes a list of the addresses of the entry's arguments, as
    /// the driver does, and runs one thread.
    pub functions: *const unsafe extern "C-unwind" fn(*const *const u8),
    /// How many.
    pub function_count: u64,
}

/// The kernels of one target whose code for the checker was made, and the places in it that the checker hears of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedModule {
    /// The target as cargo names it, with its kind.
    pub target: String,
    /// The kernels.
    pub kernels: Vec<CheckedRecord>,
    /// The places; the checker's hooks name one by index.
    pub sites: Vec<CheckedSite>,
}

/// A kernel instance in a [`CheckedModule`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedRecord {
    /// What names it.
    pub key: KernelKey,
    /// Its parameters.
    pub params: Vec<ParamRecord>,
}

/// A place in a kernel's code that the checker hears of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckedSite {
    /// Source file.
    pub file: String,
    /// Line, from 1; 0 when not known.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The function around it, demangled.
    pub function: String,
    /// Where in a library that the line calls it happens, as `core/src/num/mod.rs:394`; empty where the line itself does it.
    pub inner: String,
    /// One of [`SiteKind`], as a number.
    pub kind: u32,
    /// What an arithmetic operation is called; empty for others.
    pub operation: String,
    /// Bits of [`SiteFlags`].
    pub flags: u32,
    /// Bytes of an access, 0 when the hook says; of an overflow's operands, 0 when they are not known.
    pub bytes: u32,
    /// Alignment in bytes that the code relies on.
    pub align: u32,
    /// One of [`SiteValue`], as a number.
    pub value: u32,
}

/// What happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SiteKind {
    /// A value is read.
    Load = 0,
    /// A value is written.
    Store = 1,
    /// Bytes are copied.
    Copy = 2,
    /// An atomic operation; its flags say more.
    Atomic = 3,
    /// A fence; its flags say more.
    Fence = 4,
    /// Integer arithmetic that may overflow.
    Overflow = 5,
    /// Arithmetic on floats.
    Float = 6,
}

impl SiteKind {
    /// The kind of a number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        const ALL: [SiteKind; 7] = [
            SiteKind::Load,
            SiteKind::Store,
            SiteKind::Copy,
            SiteKind::Atomic,
            SiteKind::Fence,
            SiteKind::Overflow,
            SiteKind::Float,
        ];
        ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Bits that say what an atomic operation or a fence does, and what a plain access is joined with.
#[derive(Clone, Copy, Debug)]
pub struct SiteFlags;

impl SiteFlags {
    /// It reads.
    pub const READS: u32 = 1;
    /// It writes.
    pub const WRITES: u32 = 2;
    /// It acquires.
    pub const ACQUIRES: u32 = 4;
    /// It releases.
    pub const RELEASES: u32 = 8;
    /// A GPU makes it with another access's instruction, which counts for it.
    pub const FOLLOWS: u32 = 16;

    /// Where the bytes stand that a GPU's instruction moves with this access and those that follow it.
    const JOINED: u32 = 8;

    /// The bits of an access that counts as one of so many bytes, at most 255.
    #[must_use]
    pub const fn joined(bytes: u32) -> u32 {
        bytes << Self::JOINED
    }

    /// As how many bytes an access counts in the memory report: 0 where another one counts for it, nothing where it is alone.
    #[must_use]
    pub const fn counted_bytes(flags: u32) -> Option<u32> {
        match flags >> Self::JOINED & 0xff {
            0 if flags & Self::FOLLOWS != 0 => Some(0),
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// The integers that it computes with have a sign.
    pub const SIGNED: u32 = 32;
}

/// How the bits of a value are to be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SiteValue {
    /// Only as bytes.
    Other = 0,
    /// An integer.
    Int = 1,
    /// A 16-bit float.
    F16 = 2,
    /// An `f32`.
    F32 = 3,
    /// An `f64`.
    F64 = 4,
    /// A pointer.
    Pointer = 5,
}

/// What names a kernel instance, equal in the host build and the nested build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelKey {
    /// `module_path!()` of the definition.
    pub module_path: String,
    /// The function's name.
    pub name: String,
    /// `file!()` of the definition.
    pub file: String,
    /// Line of the definition, from 1.
    pub line: u32,
    /// Column of the definition, from 1.
    pub column: u32,
    /// Type name of the generic arguments: `type_name` of a struct generic over them.
    pub instance: String,
}

/// One kernel instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRecord {
    /// What names it.
    pub key: KernelKey,
    /// Its entry point in the PTX.
    pub entry: String,
    /// Its parameters, as `warpsmith_device::abi::ParamDesc` has them.
    pub params: Vec<ParamRecord>,
    /// Exact block shape it was compiled for; zeros when any.
    pub block: [u32; 3],
    /// Most threads in a block; 0 when not given.
    pub max_threads: u32,
    /// Whether it waits at a block barrier: the CPU executor then needs coroutines.
    pub uses_barrier: bool,
    /// Whether it exchanges values within warps: likewise.
    pub uses_warp: bool,
    /// Whether it waits for the whole grid: such a kernel is launched cooperatively, with a grid barrier as its last
    /// hidden argument.
    pub syncs_grid: bool,
    /// Whether it asks which block a thread is in, or which thread of its block, or has shared memory: the CPU executor then
    /// runs each block's threads by themselves.
    pub asks_place_in_block: bool,
    /// Whether it asks for a thread's number in the grid: likewise for blocks of many rows.
    pub asks_number_in_grid: bool,
    /// Whether it allocates: the device heap must be sized.
    pub uses_heap: bool,
    /// Whether its call graph has a ring or an indirect call, so that its stack depth is not known.
    pub unbounded_stack: bool,
    /// Bytes of static shared memory.
    pub shared_bytes: u64,
    /// The constants that it reads and the host sets.
    pub constants: Vec<ConstantRecord>,
    /// Its panic sites; a panic record on the device names one by index.
    pub sites: Vec<MessageFormat>,
    /// Its places that print; a record in a stream's output buffer names one by index.
    pub prints: Vec<MessageFormat>,
    /// Its PTX, one or two for each architecture, lowest first.
    pub images: Vec<Image>,
}

/// What names a constant that the host sets, equal in the host build and the nested build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstantKey {
    /// `module_path!()` of the declaration.
    pub module_path: String,
    /// The static's name.
    pub name: String,
    /// `file!()` of the declaration.
    pub file: String,
    /// Line of the declaration, from 1.
    pub line: u32,
    /// Column of the declaration, from 1.
    pub column: u32,
}

/// A constant that a kernel reads and the host sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstantRecord {
    /// What names it.
    pub key: ConstantKey,
    /// Its variable in the PTX, which holds the declared value.
    pub symbol: String,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// Layout hash.
    pub layout: u64,
}

/// Shape of one parameter; see `warpsmith_device::abi::ParamDesc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamRecord {
    /// `ParamKind` as a number.
    pub kind: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Size in bytes.
    pub size: u64,
    /// Size in bytes of the second argument.
    pub extent_size: u64,
    /// Layout hash.
    pub layout: u64,
}

/// A text with values in it: what a place prints, or what a panic says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessageFormat {
    /// The format, as `format_args!` has it; every placeholder says which value it prints, by number.
    pub format: String,
    /// The values' types, as `warpsmith_device::print::TypeCode` has them.
    pub types: Vec<u64>,
}

/// A kernel's PTX for one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Architecture: 90 for `sm_90`.
    pub architecture: u32,
    /// PTX version that it asks for: 78 for 7.8.
    pub ptx_version: u32,
    /// Whether it is right only for launches whose grid and blocks extend along x alone, which the other image of the
    /// same architecture need not be: a global index then costs one multiplication.
    pub along_x: bool,
    /// The text.
    pub ptx: String,
}

impl Image {
    /// Starts the comment before the instructions of a `ptx!`, which gives the macro's place.
    pub const INLINE_SITE: &'static str = "// ptx! at ";

    /// The place of the `ptx!` that a line of the text, counted from 1, is of: file, line and column. An assembler may name a
    /// mistake's next line, so that counts too.
    #[must_use]
    pub fn inline_site(&self, line: usize) -> Option<&str> {
        let mut site = None;
        let mut ended = 0;
        for (number, text) in self.ptx.lines().enumerate().take(line) {
            let text = text.trim_start();
            if let Some(place) = text.strip_prefix(Self::INLINE_SITE) {
                site = Some(place.trim_end());
                ended = 0;
            } else if text.starts_with("// begin inline asm") {
                site = None;
            } else if text.starts_with("// end inline asm") {
                ended = number;
            }
        }
        site.filter(|_| ended == 0 || line <= ended + 3)
    }
}

//! Gathers what the kernels reach: the target's own code, then dependencies and the sysroot, symbol by symbol.
//!
//! A source module is read lazily and its definitions are given `linkonce_odr` linkage, which LLVM's linker takes over
//! only where something refers to them: so a kernel that needs one function of core costs one function of core.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection};

use super::Pipeline;
use crate::job::{LowerError, LowerJob};
use crate::llvm::{Context, Module, Value, kind, linkage};

/// A file of bitcode whose symbols are known.
struct Source {
    name: String,
    bitcode: Vec<u8>,
}

/// Where symbols are defined.
pub(super) struct Sources {
    all: Vec<Source>,
    definitions: HashMap<String, usize>,
    /// Sysroot libraries not read yet, the likeliest first.
    sysroot: Vec<PathBuf>,
}

impl Sources {
    /// Reads the symbols of the dependencies; the sysroot's libraries follow when a symbol is still missing.
    pub(super) fn new(job: &LowerJob, pipeline: &Pipeline<'_>) -> Result<Self, LowerError> {
        let mut sources =
            Self { all: Vec::new(), definitions: HashMap::new(), sysroot: sysroot_libraries(&job.rust_lib)? };
        for path in &job.dependencies {
            let bitcode = read(path)?;
            sources.add(path.display().to_string(), bitcode, pipeline)?;
        }
        Ok(sources)
    }

    /// Reads the symbols of the dependencies alone: what the sysroot defines, the program has already.
    pub(super) fn without_sysroot(job: &LowerJob, pipeline: &Pipeline<'_>) -> Result<Self, LowerError> {
        let mut sources = Self::new(job, pipeline)?;
        sources.sysroot.clear();
        Ok(sources)
    }

    fn add(&mut self, name: String, bitcode: Vec<u8>, pipeline: &Pipeline<'_>) -> Result<(), LowerError> {
        let context = Context::new();
        let module = context.parse_lazily(&bitcode, &name).map_err(|reason| pipeline.internal(reason))?;
        let index = self.all.len();
        for symbol in module.functions().chain(module.globals()) {
            if !symbol.is_declaration() && !matches!(symbol.linkage(), linkage::INTERNAL | linkage::PRIVATE) {
                self.definitions.entry(symbol.name()).or_insert(index);
            }
        }
        for alias in module.aliases() {
            self.definitions.entry(alias.name()).or_insert(index);
        }
        drop(module);
        self.all.push(Source { name, bitcode });
        Ok(())
    }

    fn find(&mut self, symbol: &str, pipeline: &Pipeline<'_>) -> Result<Option<usize>, LowerError> {
        loop {
            if let Some(index) = self.definitions.get(symbol) {
                return Ok(Some(*index));
            }
            if self.sysroot.is_empty() {
                return Ok(None);
            }
            let library = self.sysroot.remove(0);
            for (name, bitcode) in rlib_bitcode(&library)? {
                self.add(name, bitcode, pipeline)?;
            }
        }
    }

    /// Links what defines the missing symbols, once. Returns whether anything was linked.
    pub(super) fn link_missing(
        &mut self,
        context: &Context,
        module: &Module,
        missing: &[String],
        pipeline: &Pipeline<'_>,
    ) -> Result<bool, LowerError> {
        let mut needed: Vec<usize> = Vec::new();
        let mut seen = HashSet::new();
        for symbol in missing {
            if let Some(index) = self.find(symbol, pipeline)?
                && seen.insert(index)
            {
                needed.push(index);
            }
        }
        for index in &needed {
            let source = &self.all[*index];
            let part =
                context.parse_lazily(&source.bitcode, &source.name).map_err(|reason| pipeline.internal(reason))?;
            part.set_target(pipeline.triple, &pipeline.machine);
            if source.name.contains(SYSROOT_MARK) {
                part.strip_debug_info();
            }
            make_optional(&part);
            module.link(part).map_err(|reason| pipeline.internal(reason))?;
        }
        Ok(!needed.is_empty())
    }
}

/// Lets LLVM's linker leave out what nothing refers to.
fn make_optional(module: &Module) {
    drop_anchors(module);
    for symbol in module.functions().chain(module.globals()) {
        if !symbol.is_declaration()
            && !matches!(symbol.linkage(), linkage::INTERNAL | linkage::PRIVATE | linkage::AVAILABLE_EXTERNALLY)
        {
            symbol.clear_comdat();
            symbol.set_linkage(linkage::LINK_ONCE_ODR);
        }
    }
}

/// Drops `llvm.used` and its like, which would keep what no kernel reaches.
pub(super) fn drop_anchors(module: &Module) {
    for global in module.globals() {
        if global.linkage() == linkage::APPENDING {
            global.delete_global();
        }
    }
}

/// The functions and statics that are declared, used, and not defined.
pub(super) fn undefined(module: &Module) -> Vec<String> {
    module
        .functions()
        .filter(|f| f.is_declaration() && !f.is_intrinsic() && f.has_uses())
        .chain(module.globals().filter(|g| g.is_declaration() && g.has_uses()))
        .map(Value::name)
        .filter(|name| !name.starts_with("llvm."))
        .collect()
}

/// Keeps the given functions reachable from outside, hides everything else and drops what they do not reach.
pub(super) fn keep_only(module: &Module, keep: &HashSet<String>) -> Result<(), String> {
    for symbol in module.functions().chain(module.globals()) {
        if symbol.is_declaration() || symbol.linkage() == linkage::APPENDING {
            continue;
        }
        symbol.clear_comdat();
        symbol.set_linkage(if keep.contains(&symbol.name()) { linkage::EXTERNAL } else { linkage::INTERNAL });
    }
    module.run("globaldce", None)
}

/// Replaces aliases by what they stand for.
pub(super) fn resolve_aliases(module: &Module) {
    for alias in module.aliases() {
        if alias.ty().kind() == kind::POINTER {
            alias.replace_uses(alias.alias_target());
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, LowerError> {
    fs::read(path).map_err(|source| LowerError::Io { path: path.to_owned(), source })
}

const SYSROOT_MARK: &str = ".rlib(";

fn sysroot_libraries(folder: &Path) -> Result<Vec<PathBuf>, LowerError> {
    let entries = fs::read_dir(folder).map_err(|source| LowerError::Io { path: folder.to_owned(), source })?;
    let mut all: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.extension().is_some_and(|e| e == "rlib")).collect();
    let rank = |path: &PathBuf| {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let known = ["libcore-", "libcompiler_builtins-", "liballoc-", "libhashbrown-", "libstd-"];
        (known.iter().position(|k| name.starts_with(k)).unwrap_or(known.len()), name)
    };
    all.sort_by_key(rank);
    Ok(all)
}

/// The bitcode that a library of the sysroot carries in its objects' `.llvmbc` sections.
fn rlib_bitcode(path: &Path) -> Result<Vec<(String, Vec<u8>)>, LowerError> {
    let data = read(path)?;
    let bad = |error: object::Error| LowerError::Io {
        path: path.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()),
    };
    let archive = ArchiveFile::parse(&*data).map_err(bad)?;
    let mut all = Vec::new();
    for member in archive.members() {
        let member = member.map_err(bad)?;
        let bytes = member.data(&*data).map_err(bad)?;
        let Ok(file) = object::File::parse(bytes) else { continue };
        let Some(section) = file.section_by_name(".llvmbc") else { continue };
        let name = format!("{}({})", path.display(), String::from_utf8_lossy(member.name()));
        all.push((name, section.data().map_err(bad)?.to_vec()));
    }
    Ok(all)
}

//! Puts bundles into the programs that cargo links: as objects for executables, as an archive for libraries.

mod archive;

use crate::bundle::{self, Bundle};
use crate::lower::CheckedCode;
use crate::nested::Kind;
use archive::Member;
use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, FileFlags, SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    elf,
};
use std::path::{Path, PathBuf};

/// Why bundles were not embedded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// No object can be written for the target.
    #[error("kernels cannot be embedded into programs for {target}: only ELF targets of x86-64 and AArch64 are known")]
    Target {
        /// The triple.
        target: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The object could not be made.
    #[error("cannot make the object {path}")]
    Object {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: object::write::Error,
    },
}

/// Bundles of a package's targets, by where they go.
#[derive(Debug, Default)]
pub(crate) struct Embedder {
    lib: Vec<Bundle>,
    lib_tests: Vec<Bundle>,
    bins: Vec<(String, Bundle)>,
    others: Vec<(Kind, Bundle)>,
    checked: Vec<CheckedObject>,
}

/// The checker's code of one target.
#[derive(Debug)]
pub(crate) struct CheckedObject {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) is_unit_test: bool,
    pub(crate) code: CheckedCode,
}

impl Embedder {
    /// Takes the bundle of one target.
    pub(crate) fn add(&mut self, kind: Kind, name: &str, is_unit_test: bool, bundle: Bundle) {
        match kind {
            Kind::Lib if is_unit_test => self.lib_tests.push(bundle),
            Kind::Lib => self.lib.push(bundle),
            Kind::Bin => self.bins.push((name.to_owned(), bundle)),
            kind => self.others.push((kind, bundle)),
        }
    }

    /// Takes the checker's code of one target.
    pub(crate) fn add_checked(&mut self, object: CheckedObject) {
        self.checked.push(object);
    }

    /// Writes the files into a folder; the lines that tell cargo to link them.
    pub(crate) fn write(mut self, folder: &Path, target: &str, unique: &str) -> Result<Vec<String>, EmbedError> {
        self.drop_repeated();
        let mut lines = Vec::new();
        let (of_library, checked): (Vec<CheckedObject>, Vec<_>) =
            self.checked.drain(..).partition(|checked| checked.kind == Kind::Lib && !checked.is_unit_test);
        if !self.lib.is_empty() {
            let name = format!("warpsmith_kernels_{unique}");
            let path = folder.join(format!("lib{name}.a"));
            let symbol = format!("__warpsmith_kernels_{unique}");
            let object = object_file(&self.lib, target, &symbol, &path)?;
            let mut members = vec![Member { name: "kernels.o", object: &object, symbol: &symbol }];
            members.extend(of_library.iter().map(|checked| Member {
                name: "checked.o",
                object: &checked.code.object,
                symbol: &checked.code.symbol,
            }));
            write(&path, &archive::archive(&members))?;
            lines.push(format!("cargo::rustc-link-search=native={}", folder.display()));
            // Whole, since nothing refers to it by name; cargo passes it on to all that link the library.
            lines.push(format!("cargo::rustc-link-lib=static:+whole-archive={name}"));
        }
        let mut link = |stem: &str, option: &str, bundles: &[Bundle]| {
            let path = folder.join(format!("{stem}.o"));
            let symbol =
                format!("__warpsmith_kernels_{unique}_{}", stem.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
            write(&path, &object_file(bundles, target, &symbol, &path)?)?;
            lines.push(format!("cargo::{option}={}", path.display()));
            Ok(())
        };
        while let Some((name, _)) = self.bins.first() {
            let name = name.clone();
            let (same, rest): (Vec<_>, Vec<_>) = self.bins.drain(..).partition(|(other, _)| *other == name);
            self.bins = rest;
            let bundles: Vec<Bundle> = same.into_iter().map(|(_, bundle)| bundle).collect();
            link(&format!("bin-{name}"), &format!("rustc-link-arg-bin={name}"), &bundles)?;
        }
        for (kind, option) in [
            (Kind::Example, "rustc-link-arg-examples"),
            (Kind::Test, "rustc-link-arg-tests"),
            (Kind::Bench, "rustc-link-arg-benches"),
        ] {
            let bundles: Vec<Bundle> =
                self.others.iter().filter(|(other, _)| *other == kind).map(|(_, bundle)| bundle.clone()).collect();
            if !bundles.is_empty() {
                link(&format!("{}s", kind.name()), option, &bundles)?;
            }
        }
        if !self.lib_tests.is_empty() {
            // Cargo has no option for a library's unit tests alone.
            link("lib-tests", "rustc-link-arg", &self.lib_tests)?;
        }
        for checked in checked {
            let path = folder.join(format!("{}.o", checked.code.symbol));
            write(&path, &checked.code.object)?;
            let option = match checked.kind {
                _ if checked.is_unit_test && checked.kind == Kind::Lib => "rustc-link-arg".to_owned(),
                Kind::Lib | Kind::Bin => format!("rustc-link-arg-bin={}", checked.name),
                Kind::Example => "rustc-link-arg-examples".to_owned(),
                Kind::Test => "rustc-link-arg-tests".to_owned(),
                Kind::Bench => "rustc-link-arg-benches".to_owned(),
            };
            lines.push(format!("cargo::{option}={}", path.display()));
        }
        Ok(lines)
    }

    /// Takes out of unit tests what the target itself brings along already.
    fn drop_repeated(&mut self) {
        let known: Vec<_> = self.lib.iter().flat_map(|bundle| bundle.kernels.clone()).collect();
        for bundle in &mut self.lib_tests {
            bundle.kernels.retain(|kernel| !known.contains(kernel));
        }
        self.lib_tests.retain(|bundle| !bundle.kernels.is_empty() || bundle.failure.is_some());
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), EmbedError> {
    // An unchanged file keeps its time, so that nothing is linked anew for it.
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::write(path, bytes).map_err(|source| EmbedError::Io { path: path.to_owned(), source })
}

/// A relocatable object with the bundles in the section where programs look for them.
fn object_file(bundles: &[Bundle], target: &str, symbol: &str, path: &Path) -> Result<Vec<u8>, EmbedError> {
    let architecture = match target.split('-').next() {
        Some("x86_64") => Architecture::X86_64,
        Some("aarch64") => Architecture::Aarch64,
        _ => return Err(EmbedError::Target { target: target.to_owned() }),
    };
    if ["windows", "apple", "wasm"].iter().any(|other| target.contains(other)) {
        return Err(EmbedError::Target { target: target.to_owned() });
    }
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    // GNU's linker keeps retained sections only of files that say they follow its conventions.
    object.flags = FileFlags::Elf { os_abi: elf::ELFOSABI_GNU, abi_version: 0, e_flags: elf::FileFlags(0) };
    let section = object.add_section(Vec::new(), bundle::SECTION.as_bytes().to_vec(), SectionKind::ReadOnlyData);
    let bytes: Vec<u8> = bundles.iter().flat_map(|bundle| bundle::frame(&bundle.encode())).collect();
    object.append_section_data(section, &bytes, bundle::ENTRY_ALIGN as u64);
    object.section_mut(section).flags =
        SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: elf::SHF_ALLOC | elf::SHF_GNU_RETAIN };
    object.add_symbol(Symbol {
        name: symbol.as_bytes().to_vec(),
        value: 0,
        size: bytes.len() as u64,
        kind: SymbolKind::Data,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    });
    // Without this section GNU's linker gives the program an executable stack.
    object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
    object.write().map_err(|source| EmbedError::Object { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::{KernelKey, KernelRecord};
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    fn bundle(target: &str, kernels: &[&str]) -> Bundle {
        let kernel = |name: &&str| KernelRecord {
            key: KernelKey { name: (*name).into(), ..KernelKey::default() },
            ..KernelRecord::default()
        };
        Bundle { target: target.into(), kernels: kernels.iter().map(kernel).collect(), ..Bundle::default() }
    }

    #[test]
    fn object_holds_the_bundles() {
        let bundles = [bundle("bin a", &["one"]), bundle("bin b", &[])];
        let bytes = object_file(&bundles, "x86_64-unknown-linux-gnu", "symbol", Path::new("a.o")).expect("an object");
        let file = object::File::parse(&*bytes).expect("an object");
        let section = file.section_by_name(bundle::SECTION).expect("the section");
        assert_eq!(section.align(), 16);
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { panic!("ELF") };
        assert_eq!(sh_flags, elf::SHF_ALLOC | elf::SHF_GNU_RETAIN);
        let data = section.data().expect("data");
        let found: Vec<Bundle> =
            bundle::entries(data).map(|entry| Bundle::decode(entry.expect("an entry")).expect("a bundle")).collect();
        assert_eq!(found, bundles);
        assert!(file.symbols().any(|found| found.name() == Ok("symbol") && found.is_global()));
    }

    #[test]
    fn each_target_gets_its_own() {
        let folder = std::env::temp_dir().join(format!("warpsmith-embed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut embedder = Embedder::default();
        embedder.add(Kind::Lib, "app", false, bundle("lib app", &["one"]));
        embedder.add(Kind::Lib, "app", true, bundle("lib app (unit tests)", &["one", "two"]));
        embedder.add(Kind::Bin, "app", false, bundle("bin app", &["three"]));
        embedder.add(Kind::Bin, "app", true, bundle("bin app (unit tests)", &["four"]));
        embedder.add(Kind::Test, "t", false, bundle("test t", &["five"]));
        embedder.add(Kind::Test, "u", false, bundle("test u", &["six"]));
        embedder.add(Kind::Bench, "b", false, bundle("bench b", &["seven"]));
        let lines = embedder.write(&folder, "x86_64-unknown-linux-gnu", "app_1").expect("written");
        let at = |name: &str| folder.join(name).display().to_string();
        assert_eq!(
            lines,
            [
                format!("cargo::rustc-link-search=native={}", folder.display()),
                "cargo::rustc-link-lib=static:+whole-archive=warpsmith_kernels_app_1".into(),
                format!("cargo::rustc-link-arg-bin=app={}", at("bin-app.o")),
                format!("cargo::rustc-link-arg-tests={}", at("tests.o")),
                format!("cargo::rustc-link-arg-benches={}", at("benchs.o")),
                format!("cargo::rustc-link-arg={}", at("lib-tests.o")),
            ]
        );
        let bytes = std::fs::read(folder.join("lib-tests.o")).expect("written");
        let file = object::File::parse(&*bytes).expect("an object");
        let data = file.section_by_name(bundle::SECTION).expect("the section").data().expect("data");
        let entry = bundle::entries(data).next().expect("one").expect("an entry");
        let names: Vec<String> =
            Bundle::decode(entry).expect("a bundle").kernels.into_iter().map(|kernel| kernel.key.name).collect();
        assert_eq!(names, ["two"], "the library brings the other one");
        std::fs::remove_dir_all(folder).expect("cleaned up");
    }

    #[test]
    fn other_systems_are_refused() {
        for target in ["x86_64-pc-windows-msvc", "aarch64-apple-darwin", "riscv64gc-unknown-linux-gnu"] {
            let error = object_file(&[], target, "s", Path::new("a.o")).expect_err(target);
            assert!(matches!(error, EmbedError::Target { .. }), "{error}");
        }
    }
}

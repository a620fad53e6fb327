//! Recognising and reading modules, without a device.

use super::elf::Elf;
use super::image::{ForeignImage, ImageKind};
use super::{CudaSource, CudaTarget, Nvrtc, fatbin};
use crate::device::ComputeCapability;
use crate::error::{Error, ForeignError};

/// A cubin with one kernel `add` of these parameters, made by hand: names, symbols, attributes, and no code.
fn cubin(sizes: &[u32], class: u8, kind: u16) -> Vec<u8> {
    let names = b"\0.nv.info.add\0add\0";
    let mut symbol = [0u8; 48];
    symbol[24] = 14;
    symbol[28] = 0x12;
    symbol[29] = 0x10;
    // A flag without a value first, then a parameter for each size, last one first.
    let mut info = vec![1, 0x50, 0, 0];
    for (index, size) in sizes.iter().enumerate().rev() {
        let ordinal = u16::try_from(index).unwrap();
        info.extend([4, 0x17, 12, 0, 0, 0, 0, 0]);
        info.extend(ordinal.to_le_bytes());
        info.extend((ordinal * 8).to_le_bytes());
        info.extend((size << 18 | 0x1f000).to_le_bytes());
    }
    let parts: [(u32, u32, u32, &[u8]); 3] = [(0, 3, 0, names), (0, 2, 1, &symbol), (1, 0x7000_0000, 2, &info)];
    let mut bytes = vec![0u8; 64];
    let mut table = vec![0u8; 64];
    for (name, kind, link, data) in parts {
        let mut header = [0u8; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[40..44].copy_from_slice(&link.to_le_bytes());
        table.extend(header);
        bytes.extend(data);
    }
    let at = bytes.len() as u64;
    bytes.extend(table);
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1, 0x41]);
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[18..20].copy_from_slice(&190u16.to_le_bytes());
    bytes[40..48].copy_from_slice(&at.to_le_bytes());
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
    bytes[58..64].copy_from_slice(&[64, 0, 4, 0, 1, 0]);
    bytes
}

/// A fatbin of these members, each a kind, flags and bytes.
fn fatbin_of(members: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, flags, data) in members {
        let mut header = [0u8; 64];
        header[..2].copy_from_slice(&kind.to_le_bytes());
        header[4] = 64;
        header[8..16].copy_from_slice(&(data.len() as u64).to_le_bytes());
        header[28] = 90;
        header[40..44].copy_from_slice(&flags.to_le_bytes());
        body.extend(header);
        body.extend(*data);
    }
    let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn kind(bytes: &[u8]) -> Result<ImageKind, String> {
    ForeignImage::new("it", bytes).map(|image| image.kind()).map_err(|error| error.to_string())
}

const EXECUTABLE: u16 = 2;
const PTX: &[u8] =
    b"// made by hand\n.version 7.0\n.target sm_80\n.address_size 64\n.entry add(.param .u64 a) { ret; }\n";

#[test]
fn the_bytes_say_what_they_are() {
    let cubin64 = cubin(&[8], 2, EXECUTABLE);
    assert_eq!(kind(PTX), Ok(ImageKind::Ptx));
    assert_eq!(kind(&cubin64), Ok(ImageKind::Cubin));
    assert_eq!(kind(&fatbin_of(&[(2, 0x11, &cubin64), (1, 0x11, PTX)])), Ok(ImageKind::Fatbin));
    assert_eq!(kind(b"!<arch>\n"), Ok(ImageKind::Library));
    let mut host = cubin64.clone();
    host[18] = 62;
    assert_eq!(kind(&host), Ok(ImageKind::Object));
    let refused: [(&[u8], &str); 9] = [
        (b"", "it is empty"),
        (&cubin(&[8], 1, EXECUTABLE), "32-bit cubin"),
        (b"\x7fELF\x02", "ends inside the header"),
        (b"BC\xc0\xde1234", "LLVM bitcode"),
        (b"\xff\xfe\x00\x01", "no kind that is known"),
        (b"extern \"C\" __global__ void add() {}", "`CudaSource` compiles"),
        (b"hello", "does not begin with `.version`"),
        (b".version 7.0\n.address_size 32\n", ".address_size is 32"),
        (b".version 7.0\n\0.target sm_80", "a zero byte at 13"),
    ];
    for (bytes, words) in refused {
        let error = kind(bytes).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_was_cut_short_never_reaches_the_driver() {
    let whole = cubin(&[8, 4], 2, EXECUTABLE);
    for end in 20..whole.len() {
        let error = kind(&whole[..end]).unwrap_err();
        assert!(error.contains("cut short"), "{end}: {error}");
    }
    let fat = fatbin_of(&[(2, 0x11, &whole), (1, 0x11, PTX)]);
    for end in 4..fat.len() {
        assert!(kind(&fat[..end]).unwrap_err().contains("cut short"), "{end}");
    }
    let inner = fatbin_of(&[(2, 0x11, &whole[..whole.len() - 1])]);
    assert!(kind(&inner).unwrap_err().contains("its cubin for sm_90"));
    assert!(kind(&fatbin_of(&[])).unwrap_err().contains("holds no module"));
}

#[test]
fn damaged_bytes_are_read_without_a_panic() {
    let whole = fatbin_of(&[(2, 0x11, &cubin(&[8, 24, 4], 2, EXECUTABLE)), (1, 0x11, PTX)]);
    let seed = 0x5eed_u64;
    println!("seed {seed:#x}");
    let mut random = seed;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + next() % 4 {
            let at = usize::try_from(next()).unwrap() % bytes.len();
            bytes[at] = next().to_le_bytes()[0];
        }
        if kind(&bytes).is_ok() {
            drop(fatbin::entries(&bytes));
        }
        drop(Elf::parse(&bytes[80..]).map(|elf| elf.entries()));
    }
}

#[test]
fn parameters_are_read_from_cubins_and_fatbins() {
    let bytes = cubin(&[8, 8, 24, 4], 2, EXECUTABLE);
    let entries = Elf::parse(&bytes).unwrap().entries();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].name.as_str(), entries[0].sizes()), ("add", Some(vec![8, 8, 24, 4])));
    let one = cubin(&[8], 2, EXECUTABLE);
    let sizes = |members: &[(u16, u32, &[u8])]| fatbin::entries(&fatbin_of(members))[0].sizes();
    assert_eq!(sizes(&[(2, 0x11, &one), (1, 0x11, PTX)]), Some(vec![8]));
    assert_eq!(sizes(&[(2, 0x11, &bytes), (1, 0x11, PTX)]), None, "they differ");
    assert_eq!(sizes(&[(2, 0x11, &one), (1, 0x8011, b"compressed")]), None, "one cannot be read");
}

#[test]
fn what_only_links_is_not_loaded() {
    let relocatable = ForeignImage::new("it", &cubin(&[8], 2, 1)).unwrap().check_loadable().unwrap_err();
    assert!(relocatable.to_string().starts_with("it is a cubin, which is relocatable"), "{relocatable}");
    let library = ForeignImage::new("it", b"!<arch>\n").unwrap().check_loadable().unwrap_err();
    assert!(library.to_string().contains("give it to a `Linker`"), "{library}");
}

#[test]
fn a_cubin_of_nvrtc_is_read_as_the_source_has_it() {
    let nvrtc = match Nvrtc::open() {
        Ok(nvrtc) => nvrtc,
        Err(error @ Error::Foreign(ForeignError::NvrtcMissing { .. })) => {
            let required = std::env::var("WARPSMITH_REQUIRE_NVRTC").is_ok_and(|value| value == "1");
            assert!(!required, "WARPSMITH_REQUIRE_NVRTC=1, but: {error}");
            eprintln!("SKIPPED: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let text = "struct S { char bytes[24]; };\nextern \"C\" __global__ void k(float* x, S s, double d, short h, char c) \
                { x[0] = s.bytes[3] + d + h + c; }\nextern \"C\" __global__ void none() {}\n";
    let compile = |target| CudaSource::new(text).compile(&nvrtc, target).unwrap();
    for (major, minor) in [(8, 0), (9, 0), (10, 0)] {
        let capability = ComputeCapability { major, minor };
        let cubin = compile(CudaTarget::cubin(capability));
        let image = ForeignImage::new("it", cubin.bytes()).unwrap();
        image.check_loadable().unwrap();
        let entries = Elf::parse(image.bytes()).unwrap().entries();
        let ptx = compile(CudaTarget::ptx(capability));
        let of_ptx = super::ptx::entries(std::str::from_utf8(ptx.bytes()).unwrap());
        assert_eq!(of_ptx.len(), 2);
        for (name, expected) in [("k", vec![8, 24, 8, 2, 1]), ("none", vec![])] {
            for entries in [&entries, &of_ptx] {
                let found = entries.iter().find(|entry| entry.name == name).unwrap();
                assert_eq!(found.sizes().as_ref(), Some(&expected), "{name} for {capability}");
            }
        }
    }
}

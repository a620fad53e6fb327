//! Kernels from elsewhere: handwritten PTX, linked pairs and CUDA C++, on a GPU where there is one.

mod common;

use std::fmt::Write as _;

use common::{gpu, text};
use warpsmith::foreign::{ByValue, CudaSource, CudaTarget, ForeignModule, ImageKind, JitOptions, Linker, Nvrtc};
use warpsmith::prelude::*;
use warpsmith::{ComputeCapability, Error, ForeignError, foreign_kernels};

const HEAD: &str = ".version 6.3\n.target sm_75\n.address_size 64\n";

/// `c[i] = a[i] + b[i]` for `i < n`, and a variable and a constant.
const VECTOR: &str = ".version 6.3\n.target sm_75\n.address_size 64\n\
.visible .global .align 4 .f32 factor = 0f40000000;\n\
.visible .const .align 4 .b8 table[16];\n\
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n\
    .reg .pred %p; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>;\n\
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r1, [n];\n\
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4;\n\
    setp.ge.u32 %p, %r5, %r1; @%p ret;\n\
    cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2; cvta.to.global.u64 %rd3, %rd3;\n\
    mul.wide.u32 %rd4, %r5, 4; add.s64 %rd1, %rd1, %rd4; add.s64 %rd2, %rd2, %rd4; add.s64 %rd3, %rd3, %rd4;\n\
    ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; add.rn.f32 %f3, %f1, %f2; st.global.f32 [%rd3], %f3; ret;\n}\n\
.visible .entry scale(.param .u64 x, .param .u32 n)\n{\n\
    .reg .pred %p; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>;\n\
    ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n];\n\
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4;\n\
    setp.ge.u32 %p, %r5, %r1; @%p ret;\n\
    cvta.to.global.u64 %rd1, %rd1; mul.wide.u32 %rd4, %r5, 4; add.s64 %rd1, %rd1, %rd4;\n\
    ld.global.f32 %f1, [factor]; ld.const.f32 %f2, [table+4];\n\
    ld.global.f32 %f3, [%rd1]; mul.rn.f32 %f3, %f3, %f1; add.rn.f32 %f3, %f3, %f2; st.global.f32 [%rd1], %f3; ret;\n}\n";

foreign_kernels! {
    unsafe struct Vector from (VECTOR) {
        static factor: f32;
        static table: [f32; 4];
        fn add(a: &[f32], b: &[f32], c: &mut [f32], n: u32) requires { n as usize <= a.len().min(b.len()).min(c.len()) };
        fn scale(x: &mut [f32], n: u32) requires { n as usize <= x.len() };
    }
}

#[test]
fn handwritten_ptx_runs_beside_kernels_of_our_own() {
    let Some(device) = gpu() else { return };
    let vector = Vector::load(&device).unwrap();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    for len in [0u16, 1, 31, 32, 33, 255, 256, 257, 10_000] {
        let numbers: Vec<f32> = (0..len).map(f32::from).collect();
        let (a, b) = (first.to_device(&numbers).unwrap(), second.to_device(&numbers).unwrap());
        let mut c = first.zeroed::<f32>(numbers.len()).unwrap();
        let config = LaunchConfig::for_len(numbers.len());
        vector.factor().write(&second, &3.0).unwrap();
        vector.table().write(&second, &[0.0, 0.5, 0.0, 0.0]).unwrap();
        vector.add(&first, config, &a, &b, &mut c, u32::from(len)).unwrap();
        vector.scale(&second, config, &mut c, u32::from(len)).unwrap();
        vector.factor().write(&first, &100.0).unwrap();
        let expected: Vec<f32> = numbers.iter().map(|number| number * 6.0 + 0.5).collect();
        assert_eq!(first.to_host(&c).unwrap(), expected, "{len}");
        assert_eq!(vector.factor().read(&second).unwrap(), 100.0);
        assert_eq!(vector.table().read(&first).unwrap()[1], 0.5);
    }
}

const CALLER: &str = ".extern .func (.param .b32 result) twice(.param .b32 x);\n\
.visible .entry run(.param .u64 x)\n{\n\
    .reg .b32 %r<4>; .reg .b64 %rd<4>;\n\
    ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1; ld.global.u32 %r1, [%rd1];\n\
    { .param .b32 in; .param .b32 out; st.param.b32 [in], %r1; call.uni (out), twice, (in); ld.param.b32 %r2, [out]; }\n\
    st.global.u32 [%rd1], %r2; ret;\n}\n";

const CALLED: &str = ".visible .func (.param .b32 result) twice(.param .b32 x)\n{\n\
    .reg .b32 %r<4>; ld.param.b32 %r1, [x]; shl.b32 %r1, %r1, 1; st.param.b32 [result], %r1; ret;\n}\n";

foreign_kernels! {
    unsafe struct Linked {
        fn run(x: &mut [u32]) requires |config| { !x.is_empty() && config.grid_dim().count() * config.block_dim().count() <= 1 };
    }
}

#[test]
fn two_modules_are_joined() {
    let Some(device) = gpu() else { return };
    let link = |parts: &[(&str, &str)]| {
        let mut linker = Linker::new(&device, &JitOptions::new())?;
        for (name, body) in parts {
            linker.add(name, format!("{HEAD}{body}"))?;
        }
        linker.load()
    };
    let module = link(&[("caller", CALLER), ("called", CALLED)]).unwrap();
    assert_eq!(module.kind(), ImageKind::Cubin);
    // SAFETY: the module is the one that is declared.
    let linked = unsafe { Linked::new(&module) }.unwrap();
    let stream = device.stream().unwrap();
    let mut x = stream.to_device(&[21u32]).unwrap();
    linked.run(&stream, LaunchConfig::new(1, 1), &mut x).unwrap();
    assert_eq!(stream.to_host(&x).unwrap(), [42]);
    let error = text(link(&[("caller", CALLER)]).map(drop).unwrap_err());
    assert!(error.contains("caller could not be linked") && error.contains("twice"), "{error}");
}

#[test]
fn the_drivers_compiler_says_what_it_does_not_take() {
    let Some(device) = gpu() else { return };
    let mut broken = HEAD.to_owned();
    write!(broken, ".visible .entry k() {{ nonsense.u32 %r1; ret; }}").unwrap();
    let error = ForeignModule::load(&device, broken).unwrap_err();
    assert!(matches!(error, Error::Foreign(ForeignError::Rejected { .. })), "{error}");
    assert!(text(error).contains("line 4"));
}

const CUDA: &str = r#"#include "factor.h"
struct Pair { float a; double b; };
__constant__ int offset;
template <typename T> __global__ void scale(T* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * T(FACTOR) + T(offset);
}
extern "C" __global__ void pair(float* x, Pair pair) { x[0] = pair.a + float(pair.b); }
"#;

#[derive(Clone, Copy, KernelValue)]
#[repr(C)]
struct Pair {
    a: f32,
    b: f64,
}

foreign_kernels! {
    /// Compiled when it is loaded.
    unsafe struct Scale from (|device: &Device| source().load(&Nvrtc::open()?, device)) {
        static offset: i32;
        fn floats(x: &mut [f32], n: i32) as "scale<float>" requires { usize::try_from(n).is_ok_and(|n| n <= x.len()) };
        fn doubles(x: &mut [f64], n: i32) as "scale<double>" requires { usize::try_from(n).is_ok_and(|n| n <= x.len()) };
        fn pair(x: &mut [f32], pair: ByValue<Pair>) requires { !x.is_empty() };
    }
}

fn source() -> CudaSource {
    CudaSource::new(CUDA)
        .name("scale.cu")
        .header("factor.h", "#define FACTOR 3\n")
        .name_expression("scale<float>")
        .name_expression("scale<double>")
}

/// The library; without it the test says that it is skipped. `WARPSMITH_REQUIRE_NVRTC=1` makes its absence a failure.
fn nvrtc() -> Option<Nvrtc> {
    match Nvrtc::open() {
        Ok(nvrtc) => Some(nvrtc),
        Err(error @ Error::Foreign(ForeignError::NvrtcMissing { .. })) => {
            let required = std::env::var("WARPSMITH_REQUIRE_NVRTC").is_ok_and(|value| value == "1");
            assert!(!required, "WARPSMITH_REQUIRE_NVRTC=1, but: {error}");
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "SKIPPED what needs NVRTC: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

const SM_90: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

#[test]
fn cuda_source_is_compiled_without_a_gpu() {
    let Some(nvrtc) = nvrtc() else { return };
    let cubin = source().compile(&nvrtc, CudaTarget::cubin(SM_90)).unwrap();
    assert!(cubin.bytes().starts_with(b"\x7fELF"));
    assert_eq!(cubin.lowered_name("scale<float>").unwrap(), "_Z5scaleIfEvPT_i");
    let error = text(cubin.lowered_name("scale<int>").map(drop).unwrap_err());
    assert!(
        error.contains("without the name expression `scale<int>`; it has `scale<double>`, `scale<float>`"),
        "{error}"
    );
    let ptx = source().option("-lineinfo").compile(&nvrtc, CudaTarget::ptx(SM_90)).unwrap();
    let ptx = std::str::from_utf8(ptx.bytes()).unwrap();
    assert!(ptx.contains(".entry _Z5scaleIdEvPT_i") && ptx.contains(".target sm_90") && !ptx.contains('\0'), "{ptx}");
    let specific = source().compile(&nvrtc, CudaTarget::ptx(SM_90).architecture_specific()).unwrap();
    assert!(std::str::from_utf8(specific.bytes()).unwrap().contains(".target sm_90a"));
    let error = text(cubin.load(&Device::cpu()).map(drop).unwrap_err());
    assert!(error.contains("loading CUDA C++ needs a GPU"), "{error}");
}

#[test]
fn headers_come_from_a_folder() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = std::env::temp_dir().join(format!("warpsmith headers {}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("value.h"), "#define VALUE 1234567\n").unwrap();
    let source = CudaSource::new("#include \"value.h\"\n__global__ void k(int* x) { x[0] = VALUE; }\n");
    let found = source.clone().include_path(&folder).compile(&nvrtc, CudaTarget::ptx(SM_90)).unwrap();
    assert!(std::str::from_utf8(found.bytes()).unwrap().contains("1234567"));
    let error = text(source.compile(&nvrtc, CudaTarget::ptx(SM_90)).map(drop).unwrap_err());
    assert!(error.contains("value.h"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_does_not_compile_shows_its_line() {
    let Some(nvrtc) = nvrtc() else { return };
    let compile = |source: CudaSource| text(source.compile(&nvrtc, CudaTarget::cubin(SM_90)).map(drop).unwrap_err());
    let error = compile(CudaSource::new("__global__ void k(float* x) {\n  x[0] = undeclared;\n}\n").name("wrong.cu"));
    assert!(error.starts_with("wrong.cu does not compile for sm_90 (NVRTC "), "{error}");
    assert!(
        error.contains("wrong.cu(2): error") && error.contains("x[0] = undeclared;") && error.contains('^'),
        "{error}"
    );
    let error = compile(CudaSource::new("#include \"absent.h\"\n"));
    assert!(error.contains("absent.h"), "{error}");
    let error = compile(CudaSource::new("__global__ void k() {}").name_expression("nothing<int>"));
    assert!(error.contains("nothing"), "{error}");
    let error = compile(CudaSource::new("__global__ void k() {}").option("--no-such-option"));
    assert!(error.contains("no-such-option"), "{error}");
    let error = compile(CudaSource::new("a\0b"));
    assert!(error.contains("zero byte"), "{error}");
}

#[test]
fn compiled_templates_run() {
    let (Some(device), Some(nvrtc)) = (gpu(), nvrtc()) else { return };
    drop(nvrtc);
    let scale = Scale::load(&device).unwrap();
    let stream = device.stream().unwrap();
    scale.offset().write(&stream, &7).unwrap();
    let mut floats = stream.to_device(&[1.0f32, 2.0, 3.0]).unwrap();
    let mut doubles = stream.to_device(&[1.0f64; 300]).unwrap();
    scale.floats(&stream, LaunchConfig::for_len(3), &mut floats, 3).unwrap();
    scale.doubles(&stream, LaunchConfig::for_len(300), &mut doubles, 299).unwrap();
    assert_eq!(stream.to_host(&floats).unwrap(), [10.0, 13.0, 16.0]);
    assert_eq!(stream.to_host(doubles.slice(298..)).unwrap(), [10.0, 1.0]);
    scale.pair(&stream, LaunchConfig::new(1, 1), &mut floats, ByValue(Pair { a: 0.5, b: 0.25 })).unwrap();
    assert_eq!(stream.to_host(floats.slice(..1)).unwrap(), [0.75]);
    assert!(scale.floats(&stream, LaunchConfig::for_len(4), &mut floats, 4).is_err());
}

#[test]
fn without_a_gpu_the_error_says_so() {
    let error = text(Vector::load(&Device::cpu()).map(drop).unwrap_err());
    assert!(error.contains("needs a GPU") && error.contains("#[kernel]"), "{error}");
    let error = text(ForeignModule::from_file(&Device::cpu(), "none.ptx").map(drop).unwrap_err());
    assert!(error.contains("needs a GPU"), "{error}");
}

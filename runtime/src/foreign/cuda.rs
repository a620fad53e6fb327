//! CUDA C++ source, compiled by NVRTC.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::ptr::null_mut;

use super::image::ForeignImage;
use super::module::ForeignModule;
use super::nvrtc::{Nvrtc, Program};
use super::options::JitOptions;
use crate::device::{ComputeCapability, Device};
use crate::error::{ForeignError, Result};

/// What CUDA C++ is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaTarget {
    capability: ComputeCapability,
    is_ptx: bool,
    is_specific: bool,
}

impl CudaTarget {
    /// Machine code for one architecture: nothing is left to do when it is loaded, and the driver need not know the PTX of a newer NVRTC.
    #[must_use]
    pub const fn cubin(capability: ComputeCapability) -> Self {
        Self { capability, is_ptx: false, is_specific: false }
    }

    /// PTX, which the driver compiles when it is loaded, for this architecture or a later one.
    #[must_use]
    pub const fn ptx(capability: ComputeCapability) -> Self {
        Self { capability, is_ptx: true, is_specific: false }
    }

    /// With the instructions that this architecture alone has: `sm_90a`.
    #[must_use]
    pub const fn architecture_specific(mut self) -> Self {
        self.is_specific = true;
        self
    }
}

impl fmt::Display for CudaTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, suffix) = (if self.is_ptx { "compute" } else { "sm" }, if self.is_specific { "a" } else { "" });
        write!(f, "{kind}_{}{suffix}", self.capability.architecture())
    }
}

/// CUDA C++ source text, with what it is compiled with.
///
/// # Examples
/// ```
/// use warpsmith::foreign::{CudaSource, CudaTarget, Nvrtc};
/// use warpsmith::{ComputeCapability, ForeignError};
///
/// let source = CudaSource::new("template<class T> __global__ void scale(T* x, int n) { /* ... */ }")
///     .name("scale.cu")
///     .name_expression("scale<float>");
/// match Nvrtc::open() {
///     Ok(nvrtc) => {
///         let target = CudaTarget::cubin(ComputeCapability { major: 9, minor: 0 });
///         let compiled = source.compile(&nvrtc, target)?;
///         assert_eq!(compiled.lowered_name("scale<float>")?, "_Z5scaleIfEvPT_i");
///     }
///     // Where it is not installed the error says what to install.
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), warpsmith::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CudaSource {
    text: String,
    name: String,
    options: Vec<String>,
    headers: Vec<(String, String)>,
    expressions: Vec<String>,
}

impl CudaSource {
    /// A source.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let (options, headers, expressions) = (Vec::new(), Vec::new(), Vec::new());
        Self { text: text.into(), name: "source.cu".to_owned(), options, headers, expressions }
    }

    /// What messages call the source.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// An option of NVRTC, such as `--use_fast_math` or `-DWIDTH=4`.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// A folder in which included files are looked for.
    #[must_use]
    pub fn include_path(self, folder: impl AsRef<Path>) -> Self {
        let option = format!("--include-path={}", folder.as_ref().display());
        self.option(option)
    }

    /// The text of a file that the source includes by this name.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// A kernel or variable that is to be found by its name in C++, such as an instance of a template: `scale<float>`.
    #[must_use]
    pub fn name_expression(mut self, expression: impl Into<String>) -> Self {
        self.expressions.push(expression.into());
        self
    }

    /// Compiles the source.
    ///
    /// # Errors
    /// [`ForeignError::Compile`] with NVRTC's log, which shows the lines that it is about; [`ForeignError::Nvrtc`] for a target or an
    /// option that NVRTC does not know.
    pub fn compile(&self, nvrtc: &Nvrtc, target: CudaTarget) -> Result<CompiledCuda> {
        const COMPILATION: c_int = 6;
        let program = OpenProgram::new(nvrtc, self)?;
        let expressions = texts(&self.expressions)?;
        for expression in &expressions {
            // SAFETY: the program is valid, the text NUL-terminated.
            let answer = unsafe { (nvrtc.functions.nvrtcAddNameExpression)(program.program, expression.as_ptr()) };
            nvrtc.check(&self.name, "nvrtcAddNameExpression", answer)?;
        }
        let mut options = vec![format!("--gpu-architecture={target}")];
        options.extend(self.options.iter().cloned());
        let options = texts(&options)?;
        let list = pointers(&options);
        // SAFETY: as many NUL-terminated texts as the count says, which live through the call.
        let answer = unsafe { (nvrtc.functions.nvrtcCompileProgram)(program.program, count(&list), list.as_ptr()) };
        let log = program.log()?;
        match nvrtc.check(&self.name, "nvrtcCompileProgram", answer) {
            Err(_) if answer == COMPILATION => {
                let (major, minor) = nvrtc.version();
                return Err(ForeignError::Compile {
                    name: self.name.clone(),
                    target: target.to_string(),
                    version: format!("{major}.{minor}"),
                    log: with_source_lines(&log, &self.name, &self.text),
                }
                .into());
            }
            Err(ForeignError::Nvrtc { name, call, answer, .. }) => {
                return Err(ForeignError::Nvrtc { name, call, answer, log }.into());
            }
            other => other?,
        }
        let mut names = BTreeMap::new();
        for (expression, text) in self.expressions.iter().zip(&expressions) {
            names.insert(expression.clone(), program.lowered(text)?);
        }
        let bytes = program.code(target.is_ptx)?;
        Ok(CompiledCuda { name: self.name.clone(), target, bytes, names, log })
    }

    /// Compiles the source for a GPU's own architecture, and loads it there.
    ///
    /// # Errors
    /// As [`compile`](Self::compile) and [`ForeignModule::load`].
    pub fn load(&self, nvrtc: &Nvrtc, device: &Device) -> Result<ForeignModule> {
        let capability = device.capability().filter(|_| device.is_gpu());
        let capability = capability.ok_or(ForeignError::NeedsGpu { operation: "loading CUDA C++" })?;
        self.compile(nvrtc, CudaTarget::cubin(capability))?.load(device)
    }
}

fn texts(texts: &[String]) -> Result<Vec<CString>, ForeignError> {
    let text = |text: &String| CString::new(text.as_str()).map_err(|_| ForeignError::Name { name: text.clone() });
    texts.iter().map(text).collect()
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

fn count<T>(list: &[T]) -> c_int {
    c_int::try_from(list.len()).expect("there are few")
}

/// A program of NVRTC's, destroyed when dropped.
struct OpenProgram<'a> {
    nvrtc: &'a Nvrtc,
    name: &'a str,
    program: Program, // Invariant: valid until drop.
}

impl<'a> OpenProgram<'a> {
    fn new(nvrtc: &'a Nvrtc, source: &'a CudaSource) -> Result<Self, ForeignError> {
        let text = CString::new(source.text.as_str()).map_err(|_| ForeignError::NotAModule {
            what: source.name.clone(),
            reason: "the source holds a zero byte".to_owned(),
        })?;
        let name = CString::new(source.name.as_str()).map_err(|_| ForeignError::Name { name: source.name.clone() })?;
        let (names, contents): (Vec<String>, Vec<String>) = source.headers.iter().cloned().unzip();
        let (names, contents) = (texts(&names)?, texts(&contents)?);
        let (names, contents) = (pointers(&names), pointers(&contents));
        let mut program: Program = null_mut();
        // SAFETY: all texts are NUL-terminated and as many as the count says; NVRTC copies them.
        let answer = unsafe {
            (nvrtc.functions.nvrtcCreateProgram)(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                count(&names),
                contents.as_ptr(),
                names.as_ptr(),
            )
        };
        nvrtc.check(&source.name, "nvrtcCreateProgram", answer)?;
        Ok(Self { nvrtc, name: &source.name, program })
    }

    fn log(&self) -> Result<String, ForeignError> {
        let functions = &self.nvrtc.functions;
        let bytes = self.bytes("nvrtcGetProgramLog", functions.nvrtcGetProgramLogSize, functions.nvrtcGetProgramLog)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned())
    }

    fn code(&self, is_ptx: bool) -> Result<Vec<u8>, ForeignError> {
        let functions = &self.nvrtc.functions;
        if is_ptx {
            let mut text = self.bytes("nvrtcGetPTX", functions.nvrtcGetPTXSize, functions.nvrtcGetPTX)?;
            while text.last() == Some(&0) {
                text.pop();
            }
            Ok(text)
        } else {
            self.bytes("nvrtcGetCUBIN", functions.nvrtcGetCUBINSize, functions.nvrtcGetCUBIN)
        }
    }

    /// What NVRTC has of the program: its size is asked for first.
    fn bytes(
        &self,
        call: &'static str,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, ForeignError> {
        let mut len = 0usize;
        // SAFETY: it writes one number; the program is valid.
        self.nvrtc.check(self.name, call, unsafe { size(self.program, &raw mut len) })?;
        let mut bytes = vec![0u8; len];
        if len != 0 {
            // SAFETY: there is room for as many bytes as NVRTC said.
            self.nvrtc.check(self.name, call, unsafe { get(self.program, bytes.as_mut_ptr().cast()) })?;
        }
        Ok(bytes)
    }

    fn lowered(&self, expression: &CStr) -> Result<String, ForeignError> {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: it writes one address; the program is valid and was compiled.
        let answer =
            unsafe { (self.nvrtc.functions.nvrtcGetLoweredName)(self.program, expression.as_ptr(), &raw mut name) };
        self.nvrtc.check(self.name, "nvrtcGetLoweredName", answer)?;
        // SAFETY: on success it is a NUL-terminated text that lives as long as the program.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is valid and not used again.
        let _ = unsafe { (self.nvrtc.functions.nvrtcDestroyProgram)(&raw mut self.program) };
    }
}

/// The log, with the source's line and a mark under each message about the source that does not show it itself.
fn with_source_lines(log: &str, name: &str, source: &str) -> String {
    let prefix = format!("{name}(");
    let mut lines = Vec::new();
    let mut rest = log.lines().peekable();
    while let Some(line) = rest.next() {
        lines.push(line.to_owned());
        let number = line.strip_prefix(&prefix).and_then(|rest| rest.split_once("): "));
        let number =
            number.and_then(|(number, _)| number.parse::<usize>().ok()).and_then(|number| number.checked_sub(1));
        let Some(text) = number.and_then(|number| source.lines().nth(number)) else { continue };
        if rest.peek().is_some_and(|next| next.trim() == text.trim()) {
            continue;
        }
        lines.push(format!("    {}", text.trim()));
        lines.push(format!("    {}", "^".repeat(text.trim().chars().count().max(1))));
    }
    lines.join("\n")
}

/// CUDA C++ that was compiled.
#[derive(Clone, Debug)]
pub struct CompiledCuda {
    name: String,
    target: CudaTarget,
    bytes: Vec<u8>,
    names: BTreeMap<String, String>,
    log: String,
}

impl CompiledCuda {
    /// The PTX or the cubin.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it was compiled for.
    #[must_use]
    pub fn target(&self) -> CudaTarget {
        self.target
    }

    /// NVRTC's warnings.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The name that the module has for a name expression.
    ///
    /// # Errors
    /// [`ForeignError::NoSuchExpression`] for one that was not given to the source.
    pub fn lowered_name(&self, expression: &str) -> Result<&str> {
        let name = self.names.get(expression).ok_or_else(|| ForeignError::NoSuchExpression {
            name: self.name.clone(),
            expression: expression.to_owned(),
            available: self.names.keys().cloned().collect(),
        })?;
        Ok(name)
    }

    /// Loads it on a GPU. Kernels and variables are then found by their name expressions too.
    ///
    /// # Errors
    /// As [`ForeignModule::load`].
    pub fn load(&self, device: &Device) -> Result<ForeignModule> {
        if !device.is_gpu() {
            return Err(ForeignError::NeedsGpu { operation: "loading CUDA C++" }.into());
        }
        let image = ForeignImage::new(&self.name, &self.bytes)?;
        ForeignModule::from_image(device, &image, &JitOptions::new(), self.names.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_does_not_show_the_source_gets_its_lines() {
        let source = "one\n  two = three;\n";
        let shown = "s.cu(2): error: wrong\n    two = three;\n    ^\n\n1 error";
        assert_eq!(with_source_lines(shown, "s.cu", source), shown);
        assert_eq!(
            with_source_lines("s.cu(2): error: wrong\n1 error", "s.cu", source),
            "s.cu(2): error: wrong\n    two = three;\n    ^^^^^^^^^^^^\n1 error"
        );
        assert_eq!(
            with_source_lines("s.cu(9): error: x\nt.h(1): error", "s.cu", source),
            "s.cu(9): error: x\nt.h(1): error"
        );
    }
}

//! What the driver's compiler and linker are told.

use std::ffi::c_uint;

use crate::device::ComputeCapability;

/// Options of the driver's compiler, for PTX that is loaded or linked. Machine code in a cubin or a fatbin is taken as it is.
///
/// # Examples
/// ```
/// use warpsmith::foreign::JitOptions;
///
/// let options = JitOptions::new().max_registers(32).line_info(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JitOptions {
    max_registers: Option<u32>,
    threads_per_block: Option<u32>,
    optimization_level: Option<u32>,
    line_info: bool,
    debug_info: bool,
    target: Option<ComputeCapability>,
}

impl JitOptions {
    /// As the driver compiles without options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Most registers that a thread may have.
    #[must_use]
    pub fn max_registers(mut self, registers: u32) -> Self {
        self.max_registers = Some(registers);
        self
    }

    /// Threads in a block that there must be registers for.
    #[must_use]
    pub fn threads_per_block(mut self, threads: u32) -> Self {
        self.threads_per_block = Some(threads);
        self
    }

    /// How much is optimised, from 0 to 4; the driver does 4 by itself. More than 4 is taken as 4.
    #[must_use]
    pub fn optimization_level(mut self, level: u32) -> Self {
        self.optimization_level = Some(level.min(4));
        self
    }

    /// Whether profilers see lines of the source.
    #[must_use]
    pub fn line_info(mut self, on: bool) -> Self {
        self.line_info = on;
        self
    }

    /// Whether debuggers see the source's variables; the code is slower.
    #[must_use]
    pub fn debug_info(mut self, on: bool) -> Self {
        self.debug_info = on;
        self
    }

    /// The architecture that is compiled for, which is otherwise the GPU's own.
    #[must_use]
    pub fn target(mut self, target: ComputeCapability) -> Self {
        self.target = Some(target);
        self
    }

    /// As pairs of `CUjit_option` and a number.
    pub(crate) fn pairs(&self) -> Vec<(c_uint, usize)> {
        const MAX_REGISTERS: c_uint = 0;
        const THREADS_PER_BLOCK: c_uint = 1;
        const OPTIMIZATION_LEVEL: c_uint = 7;
        const TARGET: c_uint = 9;
        const GENERATE_DEBUG_INFO: c_uint = 11;
        const GENERATE_LINE_INFO: c_uint = 13;
        let number = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let numbers = [
            (MAX_REGISTERS, self.max_registers),
            (THREADS_PER_BLOCK, self.threads_per_block),
            (OPTIMIZATION_LEVEL, self.optimization_level),
            (TARGET, self.target.map(ComputeCapability::architecture)),
            (GENERATE_DEBUG_INFO, self.debug_info.then_some(1)),
            (GENERATE_LINE_INFO, self.line_info.then_some(1)),
        ];
        numbers.into_iter().filter_map(|(key, value)| Some((key, number(value?)))).collect()
    }
}

//! What the launch's shape is known to be: sizes and positions that it fixes become constants before optimisation.

use crate::llvm::{Context, Module, Value};

/// Answers the questions for thread and block indices and sizes that have only one answer: those of the block's shape,
/// where the kernel names it (zeros where not), and those of y and z, where the launch extends along x only.
pub(super) fn fold(context: &Context, module: &Module, block: [u32; 3], along_x: bool) {
    let register = |name: &str, axis: &str, value: u32| {
        let intrinsic = module.function(&format!("llvm.nvvm.read.ptx.sreg.{name}.{axis}"));
        for call in intrinsic.map(Value::users).unwrap_or_default() {
            call.replace_with(context.int(32).int_value(u64::from(value)));
        }
    };
    for (axis, own) in ["x", "y", "z"].into_iter().zip(block) {
        let flat = along_x && axis != "x";
        if flat {
            register("ctaid", axis, 0);
            register("nctaid", axis, 1);
        }
        let size = if flat { 1 } else { own };
        if size != 0 {
            register("ntid", axis, size);
        }
        if size == 1 {
            register("tid", axis, 0);
        }
    }
}

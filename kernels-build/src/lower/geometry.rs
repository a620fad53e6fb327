//! What the launch's shape is known to be: sizes and positions that it fixes become constants before optimisation, and
//! thread indices get their range.

use crate::llvm::{Context, Module, Value};

/// Answers the questions for thread and block indices and sizes that have only one answer: those of the block's shape,
/// where the kernel names it (zeros where not), and those of y and z, where the launch extends along x only.
pub(super) fn fold(context: &Context, module: &Module, block: [u32; 3], along_x: bool) {
    let calls = |register: &str, axis: &str| {
        let intrinsic = module.function(&format!("llvm.nvvm.read.ptx.sreg.{register}.{axis}"));
        intrinsic.map(Value::users).unwrap_or_default()
    };
    let is_always = |register: &str, axis: &str, value: u32| {
        for call in calls(register, axis) {
            call.replace_with(context.int(32).int_value(u64::from(value)));
        }
    };
    for (axis, own) in ["x", "y", "z"].into_iter().zip(block) {
        let flat = along_x && axis != "x";
        if flat {
            is_always("ctaid", axis, 0);
            is_always("nctaid", axis, 1);
        }
        match if flat { 1 } else { own } {
            0 => {}
            1 => {
                is_always("ntid", axis, 1);
                is_always("tid", axis, 0);
            }
            size => {
                is_always("ntid", axis, size);
                for call in calls("tid", axis) {
                    call.set_range(context, context.below_node(size));
                }
            }
        }
    }
}

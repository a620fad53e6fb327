//! Operands of `ptx!` have the types that registers have.
use warpsmith::ptx;

fn types(pair: [u32; 2], wide: u128, flag: bool, x: u32) {
    unsafe {
        ptx!("mov.b64 %a, {0};", in(reg) pair);
        ptx!("mov.b64 %a, {0};", in(reg) wide);
        ptx!("mov.b32 %a, {0};", in(reg) flag);
        ptx!("@{0} exit;", in(pred) x);
    }
}

fn needs_unsafe(x: u32) {
    ptx!("mov.b32 %a, {0};", in(reg) x);
}

fn main() {}

//! The text and the operands of `ptx!` are checked.
use warpsmith::prelude::*;
use warpsmith::ptx;

fn texts(x: u32, flag: bool) -> u32 {
    let r: u32;
    unsafe {
        ptx!("add.u32 {0}, {1}, 1", out(reg) r, in(reg) x);
        ptx!("ad.u32 {0}, {1}, 1;", out(reg) r, in(reg) x);
        ptx!("add.u32 {0}, {2}, 1;", out(reg) r, in(reg) x);
        ptx!("add.u32 {r}, {y}, 1;", r = out(reg) r, x = in(reg) x);
        ptx!("mov.u32 {0}, 1;", out(reg) r, in(reg) x);
        ptx!("{{ mov.u32 {0}, {1};", out(reg) r, in(reg) x);
        ptx!("{ mov.u32 %a, %b; }");
        ptx!("mov.u32 {0:e}, 1;", out(reg) r);
        ptx!("ld.u32 {0}, [{1};", out(reg) r, in(reg) x);
        ptx!("@{0} exit;", in(reg) x);
        ptx!(".visible .entry f;");
    }
    let _ = flag;
    r
}

fn syntax(x: u32, text: &str) -> u32 {
    let r: u32;
    unsafe {
        ptx!(text);
        ptx!("mov.u32 {0}, 1;", out("eax") r);
        ptx!("mov.u32 {0}, 1;", out(reg) r, options(raw));
        ptx!("exit;", clobber_abi("C"));
        ptx!("mov.u32 {0}, {1};", out(reg) r, inn(reg) x);
        ptx!("mov.u32 {0}, {1};", out(reg) r, in(reg) x, "exit;");
        ptx!("mov.u32 {0}, 1;", out(reg) r; { r = 1 });
        ptx!("mov.u32 {0}, 1;", out(reg) r; else r = 1);
        ptx!();
        ptx!("mov.u32 {0}, 1;", out(reg) r, else { r = 1 });
    }
    r
}

#[kernel]
fn nothing(x: &[f32]) {
    let _ = x;
}

fn main() {}

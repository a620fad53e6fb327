//! Programs as Rust.

use std::fmt::{self, Write};

use super::program::{
    self, ARRAYS, COUNTERS, Condition, Exchange, Operation, Program, REGISTERS, Reach, Step, Value, Vote,
};

/// Kernels for all programs of a seed, and a list of their launches.
pub(crate) fn file(seed: u64) -> String {
    let mut text = format!(
        "// Written by the build script for the seed {seed}.\n\
         use core::sync::atomic::{{AtomicU32, Ordering::Relaxed}};\n\
         use warpsmith::prelude::*;\n\
         use crate::slots::{{Slots, counters}};\n\n\
         /// The seed that these kernels are made from.\n\
         pub const SEED: u64 = {seed};\n\n\
         fn lanes() -> u32 {{ (block_dim().x - warp_id() * 32).min(32) }}\n\
         fn mask() -> u32 {{ u32::MAX >> (32 - lanes()) }}\n"
    );
    let programs = program::programs(seed);
    for (number, program) in programs.iter().enumerate() {
        kernel(number, program, &mut text).expect("a string takes all text");
    }
    text.push_str(
        "\n/// Launches a kernel: stream, shape, input, totals, output.\n\
         pub type Launch = fn(&Stream, LaunchConfig, &DeviceBuffer<u32>, &mut DeviceBuffer<u32>, &mut DeviceBuffer<u32>) \
         -> warpsmith::Result<()>;\n\n\
         /// The launches of all kernels.\n\
         pub static LAUNCHES: &[Launch] = &[\n",
    );
    for number in 0..programs.len() {
        let _ = writeln!(
            text,
            "    |stream, config, input, totals, output| k{number}::launch(stream, config, input, totals, output),"
        );
    }
    text.push_str("];\n");
    text
}

fn kernel(number: usize, program: &Program, text: &mut String) -> fmt::Result {
    let threads = program.threads;
    writeln!(text, "\n#[kernel]\nfn k{number}(input: &[u32], totals: &[AtomicU32], mut output: GridSliceMut<u32>) {{")?;
    writeln!(text, "    let i = global_idx();\n    let (t, w, b) = (thread_idx().x, warp_id(), block_idx().x);")?;
    for array in 0..ARRAYS {
        writeln!(text, "    // SAFETY: the program is made such that accesses never race.")?;
        writeln!(text, "    let s{array} = unsafe {{ Slots::<{threads}>::new(shared!([u32; {threads}])) }};")?;
    }
    if program.atomics {
        writeln!(text, "    // SAFETY: it stays in this thread.")?;
        writeln!(text, "    let counters = unsafe {{ counters(shared!([u32; {COUNTERS}])) }};")?;
    }
    writeln!(text, "    let (mut r0, mut r1, mut r2, mut r3) = (input[i.get()], t, b, 7_u32);")?;
    steps(&program.body, threads, 1, text)?;
    writeln!(text, "    if let Some(output) = output.get_mut(&i) {{")?;
    let result =
        (0..REGISTERS).fold("0_u32".to_owned(), |sum, register| format!("({sum}).rotate_left(7) ^ r{register}"));
    writeln!(text, "        *output = {result};\n    }}\n}}")
}

fn steps(body: &[Step], threads: u32, indent: usize, text: &mut String) -> fmt::Result {
    body.iter().try_for_each(|step| write_step(step, threads, indent, text))
}

fn write_step(step: &Step, threads: u32, indent: usize, text: &mut String) -> fmt::Result {
    let pad = "    ".repeat(indent);
    match step {
        Step::Set(register, v) => writeln!(text, "{pad}r{register} = {};", value(v)),
        Step::Store(array, v) => writeln!(text, "{pad}s{array}.set(t, {});", value(v)),
        Step::Load(register, array, reach, which) => {
            let which = match reach {
                Reach::Own => "t".to_owned(),
                Reach::Warp => format!("w * 32 + {} % lanes()", value(which)),
                Reach::Block => format!("{} % {threads}", value(which)),
            };
            writeln!(text, "{pad}r{register} = s{array}.get({which});")
        }
        Step::Barrier(None) => writeln!(text, "{pad}sync_threads();"),
        Step::Barrier(Some((register, vote, c))) => {
            let name = match vote {
                Vote::Count => "count",
                Vote::And => "and",
                Vote::Or => "or",
            };
            writeln!(text, "{pad}r{register} = sync_threads_{name}({}) as u32;", condition(c))
        }
        Step::WarpSync => writeln!(text, "{pad}sync_warp(mask());"),
        Step::WarpOperation(register, exchange, v) => {
            let v = value(v);
            let call = match exchange {
                Exchange::Shuffle(lane) => format!("shfl_idx(mask(), {v}, {} % lanes())", value(lane)),
                Exchange::Sum => format!("reduce_add(mask(), {v})"),
                Exchange::Ballot => format!("ballot(mask(), {v} % 2 != 0)"),
                Exchange::Match => format!("match_any(mask(), {v} % 3)"),
            };
            writeln!(text, "{pad}r{register} = {call};")
        }
        Step::Named(id, warps, array, register, which) => {
            let (count, group) = (warps * 32, threads.min(warps * 32));
            writeln!(text, "{pad}if w < {warps} {{")?;
            writeln!(text, "{pad}    NamedBarrier::<{id}>::sync({count});")?;
            writeln!(text, "{pad}    r{register} = s{array}.get({} % {group});", value(which))?;
            writeln!(text, "{pad}    NamedBarrier::<{id}>::sync({count});\n{pad}}}")
        }
        Step::HandOver(id, warps, array, v, register, which) => {
            let (count, group) = (threads.div_ceil(32) * 32, warps * 32);
            writeln!(text, "{pad}if w < {warps} {{")?;
            writeln!(text, "{pad}    s{array}.set(t, {});", value(v))?;
            writeln!(text, "{pad}    NamedBarrier::<{id}>::arrive({count});\n{pad}}} else {{")?;
            writeln!(text, "{pad}    NamedBarrier::<{id}>::sync({count});")?;
            writeln!(text, "{pad}    r{register} = s{array}.get({} % {group});\n{pad}}}", value(which))
        }
        Step::If(c, then, other) => {
            writeln!(text, "{pad}if {} {{", condition(c))?;
            steps(then, threads, indent + 1, text)?;
            if !other.is_empty() {
                writeln!(text, "{pad}}} else {{")?;
                steps(other, threads, indent + 1, text)?;
            }
            writeln!(text, "{pad}}}")
        }
        Step::Loop(depth, turns, modulus, body) => {
            writeln!(text, "{pad}for turn{depth} in 0..{} % {modulus} {{", value(turns))?;
            steps(body, threads, indent + 1, text)?;
            writeln!(text, "{pad}}}")
        }
        Step::Count(number, v) => writeln!(text, "{pad}counters[{number}].{}({}, Relaxed);", change(*number), value(v)),
        Step::LoadCounter(register, number) => writeln!(text, "{pad}r{register} = counters[{number}].load(Relaxed);"),
        Step::Total(number, v) => writeln!(text, "{pad}totals[{number}].{}({}, Relaxed);", change(*number), value(v)),
    }
}

/// How a counter or total is changed.
fn change(number: usize) -> &'static str {
    ["fetch_add", "fetch_xor", "fetch_or", "fetch_max"][number]
}

fn condition(condition: &Condition) -> String {
    format!("{} % {} < {}", value(&condition.value), condition.modulus, condition.below)
}

/// A value in parentheses where they are needed.
fn value(v: &Value) -> String {
    match v {
        Value::Constant(constant) => format!("{constant}_u32"),
        Value::Register(register) => format!("r{register}"),
        Value::Thread => "t".to_owned(),
        Value::Warp => "w".to_owned(),
        Value::Block => "b".to_owned(),
        Value::Turn(depth) => format!("turn{depth}"),
        Value::Join(operation, both) => {
            let (a, b) = (value(&both.0), value(&both.1));
            match operation {
                Operation::Add => format!("{a}.wrapping_add({b})"),
                Operation::Sub => format!("{a}.wrapping_sub({b})"),
                Operation::Mul => format!("{a}.wrapping_mul({b})"),
                Operation::Xor => format!("({a} ^ {b})"),
                Operation::And => format!("({a} & {b})"),
                Operation::Min => format!("{a}.min({b})"),
                Operation::Rotate => format!("{a}.rotate_left({b} & 31)"),
            }
        }
    }
}

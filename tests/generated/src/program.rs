//! Programs: how they are made from a seed, and what they give.
//!
//! A program is made such that it has no races. Each shared array is in a mode: each thread touches its own slot only, or each reads what it
//! likes of its warp, or of its block, and none writes. The mode changes at meetings of those whom it concerns.

/// Registers of a thread.
pub const REGISTERS: usize = 4;
/// Shared arrays.
pub const ARRAYS: usize = 2;
/// Counters in shared memory, and totals in global memory. Each has an operation of its own, by which threads change it in any
/// order.
pub const COUNTERS: usize = 4;
/// Programs that are made.
pub const PROGRAMS: usize = 200;
/// Of these so many have no atomics.
pub const WITHOUT_ATOMICS: usize = 120;
/// Blocks that each runs in.
pub const BLOCKS: u32 = 2;

const WARP: u32 = 32;

/// A program, and the shape of the blocks that it is for.
#[derive(Debug)]
pub struct Program {
    /// Threads of a block.
    pub threads: u32,
    /// Whether it uses counters and totals.
    pub atomics: bool,
    /// What each thread does.
    pub body: Vec<Step>,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A constant.
    Constant(u32),
    /// A register.
    Register(usize),
    /// The thread's number in its block.
    Thread,
    /// The warp's number in its block.
    Warp,
    /// The block's number.
    Block,
    /// The turns that the loop at this depth has made.
    Turn(usize),
    /// Two values joined.
    Join(Operation, Box<(Value, Value)>),
}

/// How two values are joined.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Wrapping sum.
    Add,
    /// Wrapping difference.
    Sub,
    /// Wrapping product.
    Mul,
    /// Bits that differ.
    Xor,
    /// Bits of both.
    And,
    /// The smaller one.
    Min,
    /// Rotated to the left by the other's low five bits.
    Rotate,
}

/// `value % modulus < below`.
#[derive(Clone, Debug)]
pub struct Condition {
    /// What is looked at.
    pub value: Value,
    /// Not 0.
    pub modulus: u32,
    /// From 1 to the modulus.
    pub below: u32,
}

/// What each thread that comes here does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sets a register.
    Set(usize, Value),
    /// Writes the thread's own slot of an array.
    Store(usize, Value),
    /// Reads a slot of an array: whose, says the reach, and the value says which of them.
    Load(usize, usize, Reach, Value),
    /// All threads of the block meet; they may vote, and a register gets what came of it.
    Barrier(Option<(usize, Vote, Condition)>),
    /// The warp's threads meet.
    WarpSync,
    /// The warp's threads meet and exchange a value.
    WarpOperation(usize, Exchange, Value),
    /// The threads of the first so many warps meet at the named barrier, read each other's slots, and meet there again.
    Named(u32, u32, usize, usize, Value),
    /// The first so many warps write their slots and arrive at the named barrier, where the others wait and then read these.
    HandOver(u32, u32, usize, Value, usize, Value),
    /// One way or the other.
    If(Condition, Vec<Step>, Vec<Step>),
    /// A loop at this depth with `value % modulus` turns.
    Loop(usize, Value, u32, Vec<Step>),
    /// Changes a counter of the block.
    Count(usize, Value),
    /// Reads a counter of the block.
    LoadCounter(usize, usize),
    /// Changes a total of the launch.
    Total(usize, Value),
}

/// Whose slots a load may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The thread's own.
    Own,
    /// Those of its warp.
    Warp,
    /// Those of its block.
    Block,
}

/// What the threads at a barrier vote on.
#[derive(Clone, Copy, Debug)]
pub enum Vote {
    /// How many say yes.
    Count,
    /// Whether all do.
    And,
    /// Whether any does.
    Or,
}

/// What the threads of a warp exchange.
#[derive(Clone, Debug)]
pub enum Exchange {
    /// The value of the lane with this number, modulo the lanes that there are.
    Shuffle(Value),
    /// The sum of all.
    Sum,
    /// The lanes whose value is odd.
    Ballot,
    /// The lanes whose value is the same modulo 3.
    Match,
}

/// Numbers that follow from a seed: SplitMix64.
#[derive(Debug)]
pub struct Draws(u64);

impl Draws {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.bits()) * u64::from(limit)) >> 32) as u32
    }

    fn index(&mut self, limit: usize) -> usize {
        self.below(limit as u32) as usize
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }
}

/// The programs of a seed.
pub fn programs(seed: u64) -> Vec<Program> {
    (0..PROGRAMS).map(|number| Program::new(seed, number)).collect()
}

/// Who comes to a step together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    Block,
    Warp,
    Nobody,
}

/// What is made so far.
struct Maker {
    draws: Draws,
    threads: u32,
    atomics: bool,
    modes: [Reach; ARRAYS],
    counts: bool, // Whether counters are changed now, or read.
    depth: usize, // Of loops.
}

impl Program {
    /// A program of a seed, by its number.
    pub fn new(seed: u64, number: usize) -> Self {
        let mut draws = Draws::new(seed ^ (number as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        let threads = [32, 40, 64, 96, 100][draws.index(5)];
        let atomics = number >= WITHOUT_ATOMICS;
        let mut maker = Maker { draws, threads, atomics, modes: [Reach::Own; ARRAYS], counts: true, depth: 0 };
        let mut body: Vec<Step> =
            (0..ARRAYS).map(|array| Step::Store(array, maker.value(Together::Nobody, 2))).collect();
        let steps = 8 + maker.draws.index(6);
        maker.steps(Together::Block, steps, &mut body);
        Self { threads, atomics, body }
    }
}

impl Maker {
    /// A value that is the same for all who are together.
    fn value(&mut self, together: Together, size: u32) -> Value {
        if size > 0 && !self.draws.one_in(3) {
            use Operation::*;
            let operation = [Add, Sub, Mul, Xor, And, Min, Rotate][self.draws.index(7)];
            return Value::Join(operation, Box::new((self.value(together, size - 1), self.value(together, size - 1))));
        }
        let kinds = match together {
            Together::Block => 3,
            Together::Warp => 4,
            Together::Nobody => 8,
        };
        match self.draws.index(kinds) {
            0 => Value::Constant(self.draws.bits()),
            1 => Value::Block,
            2 if self.depth > 0 => Value::Turn(self.draws.index(self.depth)),
            2 => Value::Constant(self.draws.below(100)),
            3 => Value::Warp,
            4 => Value::Thread,
            _ => Value::Register(self.draws.index(REGISTERS)),
        }
    }

    fn condition(&mut self, together: Together) -> Condition {
        let value = self.value(together, 2);
        let modulus = 2 + self.draws.below(3);
        Condition { value, modulus, below: 1 + self.draws.below(modulus - 1) }
    }

    fn register(&mut self) -> usize {
        self.draws.index(REGISTERS)
    }

    fn steps(&mut self, together: Together, count: usize, body: &mut Vec<Step>) {
        for _ in 0..count {
            self.step(together, body);
        }
    }

    fn step(&mut self, together: Together, body: &mut Vec<Step>) {
        let kinds = match together {
            Together::Block => 16,
            Together::Warp => 11,
            Together::Nobody => 8,
        };
        match self.draws.index(kinds) {
            0 | 1 => body.push(Step::Set(self.register(), self.value(Together::Nobody, 2))),
            2 | 3 => {
                let array = self.draws.index(ARRAYS);
                if self.modes[array] == Reach::Own && self.draws.one_in(2) {
                    body.push(Step::Store(array, self.value(Together::Nobody, 2)));
                } else {
                    let (register, which) = (self.register(), self.value(Together::Nobody, 1));
                    body.push(Step::Load(register, array, self.modes[array], which));
                }
            }
            4 if self.atomics => {
                let number = self.draws.index(COUNTERS);
                let value = self.value(Together::Nobody, 1);
                body.push(match self.draws.index(2) {
                    0 if self.counts => Step::Count(number, value),
                    0 => Step::LoadCounter(self.register(), number),
                    _ => Step::Total(number, value),
                });
            }
            4 | 5 => self.branch(Together::Nobody, body),
            6 | 7 => self.repeat(Together::Nobody, body),
            8 => self.meet_warp(body),
            9 => {
                let exchange = match self.draws.index(4) {
                    0 => Exchange::Shuffle(self.value(Together::Nobody, 1)),
                    1 => Exchange::Sum,
                    2 => Exchange::Ballot,
                    _ => Exchange::Match,
                };
                body.push(Step::WarpOperation(self.register(), exchange, self.value(Together::Nobody, 1)));
            }
            10 if self.draws.one_in(2) => self.branch(Together::Warp, body),
            10 => self.repeat(Together::Warp, body),
            11 | 12 => self.meet_block(body),
            13 => self.meet_by_name(body),
            14 => self.branch(Together::Block, body),
            _ => self.repeat(Together::Block, body),
        }
    }

    /// All of the block meet, and the modes of arrays change.
    fn meet_block(&mut self, body: &mut Vec<Step>) {
        let vote = self.draws.one_in(3).then(|| {
            let vote = [Vote::Count, Vote::And, Vote::Or][self.draws.index(3)];
            (self.register(), vote, self.condition(Together::Nobody))
        });
        body.push(Step::Barrier(vote));
        for array in 0..ARRAYS {
            self.modes[array] = [Reach::Own, Reach::Block][self.draws.index(2)];
        }
        self.counts = self.draws.one_in(2);
    }

    /// The warp meets, and the modes of arrays change that are its own affair.
    fn meet_warp(&mut self, body: &mut Vec<Step>) {
        body.push(Step::WarpSync);
        for array in 0..ARRAYS {
            if self.modes[array] != Reach::Block {
                self.modes[array] = [Reach::Own, Reach::Warp][self.draws.index(2)];
            }
        }
    }

    /// Some warps meet at a named barrier, if an array is such that they can exchange through it.
    fn meet_by_name(&mut self, body: &mut Vec<Step>) {
        let Some(array) = (0..ARRAYS).find(|&array| self.modes[array] == Reach::Own) else {
            return self.meet_block(body);
        };
        let warps = self.threads.div_ceil(WARP);
        let id = 1 + self.draws.below(15);
        let register = self.register();
        if warps > 1 && self.draws.one_in(2) {
            let first = 1 + self.draws.below(warps - 1);
            let (value, which) = (self.value(Together::Nobody, 1), self.value(Together::Nobody, 1));
            body.push(Step::HandOver(id, first, array, value, register, which));
            // Those who wrote must not write again before the others have read.
            body.push(Step::Barrier(None));
        } else {
            let first = 1 + self.draws.below(warps);
            body.push(Step::Named(id, first, array, register, self.value(Together::Nobody, 1)));
        }
    }

    fn branch(&mut self, together: Together, body: &mut Vec<Step>) {
        let condition = self.condition(together);
        let then = self.nested(together);
        let other = if self.draws.one_in(2) { self.nested(together) } else { Vec::new() };
        body.push(Step::If(condition, then, other));
    }

    fn repeat(&mut self, together: Together, body: &mut Vec<Step>) {
        if self.depth == 2 {
            return self.branch(Together::Nobody, body);
        }
        let turns = self.value(together, 1);
        let modulus = 2 + self.draws.below(3);
        self.depth += 1;
        let inner = self.nested(together);
        self.depth -= 1;
        body.push(Step::Loop(self.depth, turns, modulus, inner));
    }

    /// Steps that leave the modes as they were, so that they can be left out and repeated.
    fn nested(&mut self, together: Together) -> Vec<Step> {
        let before = (self.modes, self.counts);
        let mut body = Vec::new();
        let count = 1 + self.draws.index(3);
        self.depth_guarded(together, count, &mut body);
        if (self.modes, self.counts) != before {
            body.push(if together == Together::Block { Step::Barrier(None) } else { Step::WarpSync });
            (self.modes, self.counts) = before;
        }
        body
    }

    /// Nested steps are plain where nesting would go on for long.
    fn depth_guarded(&mut self, together: Together, count: usize, body: &mut Vec<Step>) {
        for _ in 0..count {
            if self.draws.one_in(2) {
                self.step(together, body);
            } else {
                body.push(Step::Set(self.register(), self.value(Together::Nobody, 2)));
            }
        }
    }
}

impl Operation {
    fn join(self, a: u32, b: u32) -> u32 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            Self::Xor => a ^ b,
            Self::And => a & b,
            Self::Min => a.min(b),
            Self::Rotate => a.rotate_left(b & 31),
        }
    }
}

/// Joins a value to a counter or total, each in its own way.
fn accumulate(number: usize, old: u32, value: u32) -> u32 {
    match number {
        0 => old.wrapping_add(value),
        1 => old ^ value,
        2 => old | value,
        _ => old.max(value),
    }
}

/// What a launch of a program gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// A number for each thread of the grid.
    pub output: Vec<u32>,
    /// The totals.
    pub totals: [u32; COUNTERS],
}

/// A block while it is interpreted: step by step, all of its threads.
struct Machine<'a> {
    threads: usize,
    block: u32,
    registers: Vec<[u32; REGISTERS]>,
    turns: Vec<[u32; 4]>,
    arrays: [Vec<u32>; ARRAYS],
    counters: [u32; COUNTERS],
    totals: &'a mut [u32; COUNTERS],
}

impl Program {
    /// What the program gives for this input, of one number for each thread of the grid.
    pub fn run(&self, input: &[u32]) -> Given {
        let threads = self.threads as usize;
        let mut given = Given { output: Vec::new(), totals: [0; COUNTERS] };
        for (block, input) in (0..).zip(input.chunks(threads)) {
            let mut machine = Machine {
                threads,
                block,
                registers: (0..).zip(input).map(|(thread, &input)| [input, thread, block, 7]).collect(),
                turns: vec![[0; 4]; threads],
                arrays: std::array::from_fn(|_| vec![0; threads]),
                counters: [0; COUNTERS],
                totals: &mut given.totals,
            };
            machine.steps(&self.body, &vec![true; threads]);
            given.output.extend(machine.registers.iter().map(result));
        }
        given
    }
}

/// What a thread leaves, of its registers.
fn result(registers: &[u32; REGISTERS]) -> u32 {
    registers.iter().fold(0, |sum: u32, register| sum.rotate_left(7) ^ register)
}

impl Machine<'_> {
    fn value(&self, thread: usize, value: &Value) -> u32 {
        match value {
            Value::Constant(constant) => *constant,
            Value::Register(register) => self.registers[thread][*register],
            Value::Thread => thread as u32,
            Value::Warp => thread as u32 / WARP,
            Value::Block => self.block,
            Value::Turn(depth) => self.turns[thread][*depth],
            Value::Join(operation, both) => operation.join(self.value(thread, &both.0), self.value(thread, &both.1)),
        }
    }

    fn holds(&self, thread: usize, condition: &Condition) -> bool {
        self.value(thread, &condition.value) % condition.modulus < condition.below
    }

    /// The threads of a thread's warp.
    fn warp(&self, thread: usize) -> std::ops::Range<usize> {
        let first = thread / WARP as usize * WARP as usize;
        first..self.threads.min(first + WARP as usize)
    }

    fn steps(&mut self, steps: &[Step], active: &[bool]) {
        steps.iter().for_each(|step| self.step(step, active));
    }

    fn step(&mut self, step: &Step, active: &[bool]) {
        let threads = || (0..active.len()).filter(|&thread| active[thread]);
        match step {
            Step::Set(register, value) => {
                threads().for_each(|thread| self.registers[thread][*register] = self.value(thread, value));
            }
            Step::Store(array, value) => {
                threads().for_each(|thread| self.arrays[*array][thread] = self.value(thread, value));
            }
            Step::Load(register, array, reach, which) => {
                for thread in threads() {
                    let which = self.value(thread, which) as usize;
                    let slot = match reach {
                        Reach::Own => thread,
                        Reach::Warp => self.warp(thread).start + which % self.warp(thread).len(),
                        Reach::Block => which % self.threads,
                    };
                    self.registers[thread][*register] = self.arrays[*array][slot];
                }
            }
            Step::Barrier(None) | Step::WarpSync => {}
            Step::Barrier(Some((register, vote, condition))) => {
                let count = threads().filter(|&thread| self.holds(thread, condition)).count();
                let result = match vote {
                    Vote::Count => count as u32,
                    Vote::And => u32::from(count == self.threads),
                    Vote::Or => u32::from(count > 0),
                };
                threads().for_each(|thread| self.registers[thread][*register] = result);
            }
            Step::WarpOperation(register, exchange, value) => {
                let values: Vec<u32> = (0..self.threads).map(|thread| self.value(thread, value)).collect();
                let mask = |warp: std::ops::Range<usize>, holds: &dyn Fn(u32) -> bool| {
                    let first = warp.start;
                    warp.filter(|&lane| holds(values[lane])).fold(0, |mask, lane| mask | 1 << (lane - first))
                };
                let results: Vec<u32> = (0..self.threads)
                    .map(|thread| {
                        let warp = self.warp(thread);
                        match exchange {
                            Exchange::Shuffle(lane) => {
                                values[warp.start + self.value(thread, lane) as usize % warp.len()]
                            }
                            Exchange::Sum => values[warp].iter().fold(0, |sum: u32, value| sum.wrapping_add(*value)),
                            Exchange::Ballot => mask(warp, &|value| value % 2 != 0),
                            Exchange::Match => mask(warp, &|value| value % 3 == values[thread] % 3),
                        }
                    })
                    .collect();
                threads().for_each(|thread| self.registers[thread][*register] = results[thread]);
            }
            Step::Named(_, warps, array, register, which) => {
                let group = self.threads.min((warps * WARP) as usize);
                for thread in threads().filter(|&thread| thread < group) {
                    let slot = self.value(thread, which) as usize % group;
                    self.registers[thread][*register] = self.arrays[*array][slot];
                }
            }
            Step::HandOver(_, warps, array, value, register, which) => {
                let group = (warps * WARP) as usize;
                for thread in threads().filter(|&thread| thread < group) {
                    self.arrays[*array][thread] = self.value(thread, value);
                }
                for thread in threads().filter(|&thread| thread >= group) {
                    let slot = self.value(thread, which) as usize % group;
                    self.registers[thread][*register] = self.arrays[*array][slot];
                }
            }
            Step::If(condition, then, other) => {
                let taken: Vec<bool> =
                    (0..active.len()).map(|thread| active[thread] && self.holds(thread, condition)).collect();
                let rest: Vec<bool> = active.iter().zip(&taken).map(|(active, taken)| *active && !taken).collect();
                self.steps(then, &taken);
                self.steps(other, &rest);
            }
            Step::Loop(depth, value, modulus, body) => {
                let turns: Vec<u32> = (0..active.len()).map(|thread| self.value(thread, value) % modulus).collect();
                for turn in 0..*modulus {
                    let active: Vec<bool> =
                        (0..active.len()).map(|thread| active[thread] && turn < turns[thread]).collect();
                    for thread in 0..active.len() {
                        self.turns[thread][*depth] = turn;
                    }
                    self.steps(body, &active);
                }
            }
            Step::Count(number, value) => {
                for thread in threads() {
                    self.counters[*number] = accumulate(*number, self.counters[*number], self.value(thread, value));
                }
            }
            Step::LoadCounter(register, number) => {
                threads().for_each(|thread| self.registers[thread][*register] = self.counters[*number]);
            }
            Step::Total(number, value) => {
                for thread in threads() {
                    self.totals[*number] = accumulate(*number, self.totals[*number], self.value(thread, value));
                }
            }
        }
    }
}

//! Patterns with known costs, and random ones against a model that keeps everything.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// One access of a thread.
#[derive(Clone, Copy, Debug)]
struct Access {
    site: u32,
    thread: u32,
    address: usize,
    bytes: usize,
    is_shared: bool,
    is_write: bool,
}

/// Where buffers of a test start: aligned as device memory is.
const BASE: usize = 0x7f00_0000_0000;

fn record(traffic: &mut Traffic, access: Access) {
    let Access { site, thread, address, bytes, is_shared, is_write } = access;
    traffic.record(site, thread, address, bytes, is_shared, is_write);
}

fn report(traffic: Traffic) -> MemoryReport {
    traffic.finish("kernel", |site| ("src/main.rs", site + 1))
}

/// One block of `threads`, each of which reads `bytes` at an offset once: requests, taken, fewest.
fn cost(threads: u32, is_shared: bool, bytes: usize, offset: impl Fn(usize) -> usize) -> (u64, u64, u64) {
    let mut traffic = Traffic::new(threads);
    for thread in 0..threads {
        let address = BASE + offset(thread as usize);
        record(&mut traffic, Access { site: 0, thread, address, bytes, is_shared, is_write: false });
    }
    let report = report(traffic);
    let lines: Vec<_> = report.lines().collect();
    let [line] = lines[..] else { panic!("one line was reached: {report}") };
    assert_eq!((line.accesses, line.left_out), (u64::from(threads), 0));
    (line.requests, line.transactions, line.fewest)
}

#[test]
fn wavefronts_of_shared_memory() {
    let shared = |bytes, offset: fn(usize) -> usize| cost(32, true, bytes, offset);
    // Floats at a stride of so many floats.
    assert_eq!(shared(4, |t| 4 * t), (1, 1, 1));
    assert_eq!(shared(4, |t| 4 * 2 * t), (1, 2, 1));
    assert_eq!(shared(4, |t| 4 * 8 * t), (1, 8, 1));
    assert_eq!(shared(4, |t| 4 * 32 * t), (1, 32, 1));
    assert_eq!(shared(4, |t| 4 * 33 * t), (1, 1, 1));
    assert_eq!(shared(4, |t| 4 * 3 * t), (1, 1, 1));
    // One word for all, two words of one bank, and lanes in another order.
    assert_eq!(shared(4, |_| 64), (1, 1, 1));
    assert_eq!(shared(4, |t| t % 2 * 128), (1, 2, 1));
    assert_eq!(shared(4, |t| 4 * (31 - t)), (1, 1, 1));
    // Bytes and half words of one word are one.
    assert_eq!(shared(1, |t| t), (1, 1, 1));
    assert_eq!(shared(2, |t| 2 * t), (1, 1, 1));
    assert_eq!(shared(1, |t| 128 * t), (1, 32, 1));
    // 8 bytes by halves, 16 by quarters.
    assert_eq!(shared(8, |t| 8 * t), (1, 2, 2));
    assert_eq!(shared(8, |t| 16 * t), (1, 4, 2));
    assert_eq!(shared(8, |_| 8), (1, 2, 2));
    assert_eq!(shared(16, |t| 16 * t), (1, 4, 4));
    assert_eq!(shared(16, |t| 32 * t), (1, 8, 4));
    assert_eq!(shared(16, |t| 128 * t), (1, 32, 4));
}

#[test]
fn sectors_of_global_memory() {
    let global = |bytes, offset: fn(usize) -> usize| cost(32, false, bytes, offset);
    assert_eq!(global(4, |t| 4 * t), (1, 4, 4));
    assert_eq!(global(4, |t| 4 * 2 * t), (1, 8, 4));
    assert_eq!(global(4, |t| 4 * 32 * t), (1, 32, 4));
    assert_eq!(global(4, |t| 4 * 33 * t), (1, 32, 4));
    assert_eq!(global(4, |_| 4), (1, 1, 1));
    // A start that is off by one float.
    assert_eq!(global(4, |t| 4 * t + 4), (1, 5, 4));
    assert_eq!(global(8, |t| 8 * t), (1, 8, 8));
    assert_eq!(global(16, |t| 16 * t), (1, 16, 16));
    assert_eq!(global(1, |t| t), (1, 1, 1));
    assert_eq!(global(1, |t| 32 * t), (1, 32, 1));
    // The column of a matrix whose rows have 1000 floats.
    assert_eq!(global(4, |t| 4 * 1000 * t), (1, 32, 4));
}

#[test]
fn accesses_that_one_instruction_cannot_make_are_several() {
    // 12 bytes at multiples of 12: three floats each.
    assert_eq!(cost(32, false, 12, |t| 12 * t), (3, 36, 12));
    // 64 bytes: four times 16.
    assert_eq!(cost(32, false, 64, |t| 64 * t), (4, 4 * 32, 4 * 16));
    // A double that is aligned to 4 bytes: twice 4.
    assert_eq!(cost(32, false, 8, |t| 8 * t + 4), (2, 9 + 8, 8));
}

#[test]
fn a_warp_may_be_partial() {
    assert_eq!(cost(1, false, 4, |t| 4 * t), (1, 1, 1));
    assert_eq!(cost(7, false, 4, |t| 4 * t), (1, 1, 1));
    assert_eq!(cost(9, false, 4, |t| 4 * t), (1, 2, 2));
    assert_eq!(cost(33, false, 4, |t| 4 * t), (2, 5, 5));
    assert_eq!(cost(100, true, 4, |t| 128 * t), (4, 100, 4));
    // Halves and quarters that nobody is in take no turn.
    assert_eq!(cost(16, true, 8, |t| 8 * t), (1, 1, 1));
    assert_eq!(cost(9, true, 16, |t| 16 * t), (1, 2, 2));
}

/// A 32 x 32 tile written by rows and read by columns, by a block of 32 x 8, as a transpose does.
#[test]
fn a_transposed_tile_conflicts_without_padding() {
    for (columns, taken) in [(32, 32), (33, 1)] {
        let mut traffic = Traffic::new(256);
        for thread in 0..256u32 {
            let (x, y) = (thread as usize % 32, thread as usize / 32);
            for row in (y..32).step_by(8) {
                let address = BASE + 4 * (row * columns + x);
                record(&mut traffic, Access { site: 0, thread, address, bytes: 4, is_shared: true, is_write: true });
                let address = BASE + 4 * (x * columns + row);
                record(&mut traffic, Access { site: 1, thread, address, bytes: 4, is_shared: true, is_write: false });
            }
        }
        let report = report(traffic);
        let lines: Vec<_> = report.lines().map(|line| (line.line, line.requests, line.transactions)).collect();
        assert_eq!(lines, [(1, 32, 32), (2, 32, 32 * taken)], "{columns} columns");
    }
}

#[test]
fn reads_and_writes_memories_and_blocks_are_told_apart_and_summed() {
    let mut traffic = Traffic::new(32);
    for _ in 0..3 {
        for thread in 0..32 {
            for (is_shared, is_write) in [(false, false), (false, true), (true, false)] {
                let address = BASE + 8 * thread as usize;
                record(&mut traffic, Access { site: 0, thread, address, bytes: 4, is_shared, is_write });
            }
        }
        traffic.end_of_block();
    }
    let report = report(traffic);
    let lines: Vec<_> =
        report.lines().map(|line| (line.space, line.is_write, line.requests, line.transactions)).collect();
    let (global, shared) = (MemorySpace::Global, MemorySpace::Shared);
    assert_eq!(lines, [(global, false, 3, 24), (global, true, 3, 24), (shared, false, 3, 6)]);
}

/// Lanes that part: the even ones come once, the odd ones twice.
#[test]
fn executions_are_paired_by_number() {
    let mut traffic = Traffic::new(32);
    for thread in 0..32 {
        for turn in 0..1 + thread as usize % 2 {
            let address = BASE + 4 * thread as usize + 4096 * turn;
            record(&mut traffic, Access { site: 0, thread, address, bytes: 4, is_shared: false, is_write: false });
        }
    }
    let report = report(traffic);
    let line = report.lines().next().expect("a line was reached");
    assert_eq!((line.requests, line.transactions, line.fewest), (2, 4 + 4, 4 + 2));
}

#[test]
fn of_a_lane_far_ahead_later_executions_are_left_out() {
    let mut traffic = Traffic::with_limits(64, Limits { ahead: 100, open: 1000 });
    let mut run = |thread, from: usize, to| {
        for turn in from..to {
            let address = BASE + 128 * turn + 4 * thread as usize;
            record(&mut traffic, Access { site: 0, thread, address, bytes: 4, is_shared: false, is_write: false });
        }
    };
    // The first warp's lanes run one after another, 150 turns each. Then they have met, and are 10 turns ahead at most.
    (0..32).for_each(|thread| run(thread, 0, 150));
    for start in (150..250).step_by(10) {
        (0..32).for_each(|thread| run(thread, start, start + 10));
    }
    // The second warp has one lane that comes.
    run(40, 0, 300);
    let report = report(traffic);
    let line = report.lines().next().expect("a line was reached");
    assert_eq!((line.requests, line.transactions), (200 + 100, 4 * 200 + 100));
    assert_eq!((line.accesses, line.left_out), (32 * 200 + 100, 32 * 50 + 200));
}

#[test]
fn what_waits_for_lanes_is_bounded_and_the_quiet_go_first() {
    let mut traffic = Traffic::with_limits(1024, Limits { ahead: 100, open: 1000 });
    for thread in 0..1024u32 {
        // The first lane of each warp stays away, so that none of its requests is complete.
        for turn in 0..if thread % 32 == 0 { 0 } else { 80 } {
            let address = BASE + 4096 * turn + 4 * thread as usize;
            record(&mut traffic, Access { site: 0, thread, address, bytes: 4, is_shared: false, is_write: false });
            assert!(traffic.open <= 1000);
        }
    }
    let report = report(traffic);
    let line = report.lines().next().expect("a line was reached");
    assert_eq!((line.requests, line.transactions, line.left_out), (32 * 80, 32 * 80 * 4, 0));
}

/// Requests and their costs by definition, over all accesses at once.
fn naive(accesses: &[Access]) -> BTreeMap<(u32, bool, bool), [u64; 4]> {
    let mut executions = BTreeMap::new();
    let mut requests: BTreeMap<_, Vec<Access>> = BTreeMap::new();
    for &access in accesses {
        let Access { site, thread, is_write, .. } = access;
        let execution: &mut u64 = executions.entry((site, thread, is_write)).or_default();
        requests.entry((site, is_write, thread / 32, *execution)).or_default().push(access);
        *execution += 1;
    }
    let mut totals: BTreeMap<_, [u64; 4]> = BTreeMap::new();
    for ((site, is_write, _, _), request) in requests {
        for is_shared in [false, true] {
            let request: Vec<_> = request.iter().filter(|access| access.is_shared == is_shared).collect();
            let Some(first) = request.first() else { continue };
            let [accesses, requests, taken, fewest] = totals.entry((site, is_write, is_shared)).or_default();
            *accesses += request.len() as u64;
            *requests += 1;
            if is_shared {
                // As many lanes as 128 bytes serve.
                let lanes = 32.min(128 / first.bytes as u32);
                for group in 0..32 / lanes {
                    let mut banks: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
                    for access in request.iter().filter(|access| access.thread % 32 / lanes == group) {
                        for byte in access.address..access.address + access.bytes {
                            banks.entry(byte / 4 % 32).or_default().insert(byte / 4);
                        }
                    }
                    *taken += banks.values().map(|words| words.len() as u64).max().unwrap_or(0);
                    *fewest += u64::from(!banks.is_empty());
                }
            } else {
                let bytes: BTreeSet<usize> =
                    request.iter().flat_map(|access| access.address..access.address + access.bytes).collect();
                let sectors: BTreeSet<usize> = bytes.iter().map(|byte| byte / 32).collect();
                *taken += sectors.len() as u64;
                *fewest += bytes.len().div_ceil(32) as u64;
            }
        }
    }
    totals
}

/// A generator of its own, so that a printed seed always gives the same case.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// Random threads in random turns, at sites with random strides and widths.
fn random_accesses(random: &mut Random, threads: u32) -> Vec<Access> {
    let sites: Vec<(usize, usize, usize)> = (0..1 + random.below(6))
        .map(|_| {
            let bytes = 1 << random.below(5);
            (bytes, bytes * [0, 1, 1, 2, 3, 17, 32, 33][random.below(8)], bytes * random.below(40))
        })
        .collect();
    (0..random.below(2000))
        .map(|_| {
            let site = random.below(sites.len());
            let (bytes, stride, start) = sites[site];
            let thread = random.below(threads as usize);
            let stray = if random.below(10) == 0 { bytes * random.below(1000) } else { 0 };
            let address = BASE + start + thread * stride + stray;
            let (is_shared, is_write) = (random.below(2) == 0, random.below(3) == 0);
            Access { site: site as u32, thread: thread as u32, address, bytes, is_shared, is_write }
        })
        .collect()
}

#[test]
fn random_accesses_cost_what_the_definitions_say() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let threads = [1, 31, 32, 33, 64, 100][random.below(6)];
        let mut traffic = Traffic::new(threads);
        let mut expected: BTreeMap<_, [u64; 4]> = BTreeMap::new();
        for _block in 0..1 + random.below(3) {
            let accesses = random_accesses(&mut random, threads);
            accesses.iter().for_each(|&access| record(&mut traffic, access));
            traffic.end_of_block();
            for (key, counts) in naive(&accesses) {
                let sum = expected.entry(key).or_default();
                (0..4).for_each(|at| sum[at] += counts[at]);
            }
        }
        let report = report(traffic);
        let counted: BTreeMap<_, _> = report
            .lines()
            .map(|line| {
                let key = (line.line - 1, line.is_write, line.space == MemorySpace::Shared);
                (key, [line.accesses, line.requests, line.transactions, line.fewest])
            })
            .collect();
        assert_eq!(counted, expected, "seed {seed}");
    }
}

/// With limits that are always met, every access is in a request or left out, and no request has more than its lanes.
#[test]
fn limits_lose_nothing_uncounted() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let threads = [1, 32, 50, 96][random.below(4)];
        let limits = Limits { ahead: 1 + random.below(8), open: 8 + random.below(20) };
        let mut traffic = Traffic::with_limits(threads, limits);
        let accesses = random_accesses(&mut random, threads);
        for &access in &accesses {
            record(&mut traffic, access);
            assert!(traffic.open <= limits.open, "seed {seed}");
        }
        let report = report(traffic);
        let counted: u64 = report.lines().map(|line| line.accesses + line.left_out).sum();
        assert_eq!(counted, accesses.len() as u64, "seed {seed}");
        assert!(report.lines().all(|line| line.accesses <= 32 * line.requests), "seed {seed}: {report}");
    }
}

/// A report of this very file: its line 1 reads floats at a stride of two, its line 2 writes a column of shared memory.
fn small_report() -> MemoryReport {
    let mut traffic = Traffic::new(32);
    for thread in 0..32 {
        let at = thread as usize;
        record(
            &mut traffic,
            Access { site: 0, thread, address: BASE + 8 * at, bytes: 4, is_shared: false, is_write: false },
        );
        record(
            &mut traffic,
            Access { site: 1, thread, address: BASE + 128 * at, bytes: 4, is_shared: true, is_write: true },
        );
    }
    traffic.finish("a::<f32>", |site| (file!(), site + 1))
}

#[test]
fn the_table_has_a_line_for_each() {
    let report = small_report();
    let expected = format!(
        "kernel `a::<f32>`\n  \
         line{space}  memory  kind      accesses    requests       taken      fewest              efficiency\n  \
         {file}:1  global  reads           32           1           8           4  sectors         50.0 %\n  \
         {file}:2  shared  writes          32           1          32           1  wavefronts       3.1 %\n",
        space = " ".repeat(file!().len() - 2),
        file = file!(),
    );
    assert_eq!(report.to_string(), expected);
    assert!(MemoryReport::default().is_empty());
    assert!(MemoryReport::default().to_string().contains("no accesses"));
}

#[test]
fn the_listing_has_figures_beside_the_source() {
    let listing = small_report().annotated_source();
    let lines: Vec<&str> = listing.lines().collect();
    assert_eq!(lines[0], format!("==> {} <==", file!()));
    assert!(lines[1].starts_with("    1 | //! Patterns with known costs"), "{}", lines[1]);
    assert!(lines[1].ends_with("// 1 request of global reads: 8 sectors, fewest 4 (50.0 %)"), "{}", lines[1]);
    assert!(lines[2].ends_with("// 1 request of shared writes: 32 wavefronts, fewest 1 (3.1 %)"), "{}", lines[2]);
    assert_eq!(lines[3].trim_end(), "    3 | use std::collections::{BTreeMap, BTreeSet};");
    assert_eq!(lines.len(), 1 + include_str!("tests.rs").lines().count());
}

#[test]
fn a_file_that_is_not_there_is_listed_by_its_lines() {
    let mut traffic = Traffic::new(1);
    record(&mut traffic, Access { site: 6, thread: 0, address: BASE, bytes: 4, is_shared: false, is_write: true });
    let report = traffic.finish("a", |site| ("no/such/file.rs", site + 1));
    let listing = report.annotated_source();
    assert!(listing.starts_with("==> no/such/file.rs <==\n(this file could not be read)\n    7 | "), "{listing}");
}

#[test]
fn the_page_is_whole_and_escaped() {
    let page = small_report().to_html();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<code>a::&lt;f32&gt;</code>") && !page.contains("a::<f32>"));
    for tag in ["table", "tbody", "tr", "td", "th", "div", "span", "code", "pre", "p", "h1", "h2", "a", "i"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    // Links lead to lines that are there.
    for link in page.split("href=\"#").skip(1) {
        let target = link.split('"').next().expect("it is quoted");
        assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
    }
    assert!(!page.contains("http"), "it needs nothing else");
}

#[test]
fn reports_of_launches_are_summed() {
    let mut both = small_report();
    both.merge(small_report());
    let counts: Vec<_> = both.lines().map(|line| (line.requests, line.transactions, line.efficiency())).collect();
    assert_eq!(counts, [(2, 16, 0.5), (2, 64, 1.0 / 32.0)]);
}

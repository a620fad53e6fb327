//! Reads and writes of device memory that nothing orders, and what orders them.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use warpsmith::CheckRule::{ConflictingWrites, DataRace};
use warpsmith::atomic::{BlockScope, DeviceScope, fence};
use warpsmith::prelude::*;
use warpsmith::{Schedule, atomic};
use warpsmith_checker_tests::{Apart, Meeting, always_silent, findings_under};

/// A race of lines of a kernel on the memory of a parameter.
fn race<'a>(kernel: &'a str, lines: [&'a str; 2], memory: &'a str, apart: Apart) -> Meeting<'a> {
    Meeting { rule: DataRace, kernel, lines, memory, apart }
}

/// The address of a buffer for kernels that do as they like with it.
fn raw(buffer: &DeviceBuffer<u32>) -> *mut u32 {
    buffer.as_device_ptr().cast_mut()
}

/// Each block takes what the next one wrote, with the grid's barrier between or only its own.
///
/// # Safety
/// `places` has an element a block.
#[kernel]
unsafe fn exchange<const OF_GRID: bool>(places: *mut u32, mut output: GridSliceMut<u32>) {
    let (own, blocks) = (block_idx().x as usize, grid_dim().x as usize);
    if thread_idx().x == 0 {
        // SAFETY: one thread of the block writes its block's.
        unsafe { *places.add(own) = own as u32 + 5 };
    }
    if OF_GRID {
        this_grid().sync();
    } else {
        sync_threads();
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        // SAFETY: some block's.
        *output = unsafe { *places.add((own + 1) % blocks) };
    }
}

fn exchanged<const OF_GRID: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (places, mut output) = (stream.zeroed(3)?, stream.zeroed(96)?);
    let config = LaunchConfig::new(3, 32).cooperative();
    // SAFETY: three blocks and three places.
    unsafe { exchange::launch::<OF_GRID>(stream, config, raw(&places), &mut output) }
}

#[test]
fn an_exchange_through_the_grid_without_its_barrier() {
    race("exchange", ["*places.add(own) =", "*places.add((own + 1) % blocks)"], "`places`", Apart::Blocks)
        .is_always_found(exchanged::<false>);
    always_silent(exchanged::<true>);
}

/// No order between a block's number and that of the last.
const NOTHING: u32 = 0;
/// The counter itself releases and acquires.
const BY_COUNTER: u32 = 1;
/// Fences around a counter that orders nothing.
const BY_FENCES: u32 = 2;
/// The fence before the counter alone, and none after it.
const HALF_FENCED: u32 = 3;
/// As in CUDA: `threadfence` before, and after by the one that found out.
const BY_THREADFENCES: u32 = 4;

/// The block that comes last adds up what all have left.
///
/// # Safety
/// `parts` has an element a block.
#[kernel]
unsafe fn last_block<const ORDER: u32>(parts: *mut u32, count: &[AtomicU32], mut sums: GridSliceMut<u32, PerBlock>) {
    let Some(leader) = block_leader() else { return };
    // SAFETY: the block's own.
    unsafe { *parts.add(leader.get()) = block_idx().x };
    match ORDER {
        BY_FENCES | HALF_FENCED => fence::<DeviceScope>(Ordering::Release),
        BY_THREADFENCES => threadfence(),
        _ => {}
    }
    let order = if ORDER == BY_COUNTER { Ordering::AcqRel } else { Ordering::Relaxed };
    let before = count[0].fetch_add(1, order);
    if before + 1 < grid_dim().x {
        return;
    }
    match ORDER {
        BY_FENCES => fence::<DeviceScope>(Ordering::Acquire),
        BY_THREADFENCES => threadfence(),
        _ => {}
    }
    let mut sum = 0;
    for block in 0..grid_dim().x as usize {
        // SAFETY: some block's.
        sum += unsafe { *parts.add(block) };
    }
    if let Some(place) = sums.get_mut(&leader) {
        *place = sum;
    }
}

fn last_of_blocks<const ORDER: u32>(stream: &Stream) -> warpsmith::Result<()> {
    let (parts, mut count, mut sums) = (stream.zeroed(5)?, stream.zeroed::<u32>(1)?, stream.zeroed(5)?);
    // SAFETY: five blocks and five parts.
    unsafe { last_block::launch::<ORDER>(stream, LaunchConfig::new(5, 32), raw(&parts), &mut count, &mut sums) }
}

#[test]
fn a_last_block_that_knows_nothing_of_the_others() {
    let parts = race("last_block", ["*parts.add(leader.get()) =", "*parts.add(block)"], "`parts`", Apart::Blocks);
    parts.is_always_found(last_of_blocks::<NOTHING>);
    parts.is_always_found(last_of_blocks::<HALF_FENCED>);
    always_silent(last_of_blocks::<BY_COUNTER>);
    always_silent(last_of_blocks::<BY_FENCES>);
    always_silent(last_of_blocks::<BY_THREADFENCES>);
}

/// The first block publishes a value under a flag, and the others look once whether it is there.
///
/// # Safety
/// `value` is one element.
#[kernel]
unsafe fn publish<const RELEASED: bool, const ACQUIRED: bool>(
    value: *mut u32,
    flag: &[AtomicU32],
    mut output: GridSliceMut<u32>,
) {
    let is_first = global_idx().get() == 0;
    if is_first {
        // SAFETY: one thread writes.
        unsafe { *value = 7 };
        flag[0].store(1, if RELEASED { Ordering::Release } else { Ordering::Relaxed });
    }
    let seen = flag[0].load(if ACQUIRED { Ordering::Acquire } else { Ordering::Relaxed });
    if seen == 1
        && let Some(output) = output.get_mut(&global_idx())
    {
        // SAFETY: it is one element.
        *output = unsafe { *value };
    }
}

fn published<const RELEASED: bool, const ACQUIRED: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (value, mut flag, mut output) = (stream.zeroed(1)?, stream.zeroed::<u32>(1)?, stream.zeroed(64)?);
    // SAFETY: it is one element.
    unsafe {
        publish::launch::<RELEASED, ACQUIRED>(stream, LaunchConfig::new(2, 32), raw(&value), &mut flag, &mut output)
    }
}

#[test]
fn a_flag_that_is_published_without_release_or_seen_without_acquire() {
    let lines = ["*value = 7", "*output = unsafe { *value }"];
    // Where others come first they see no flag, and read nothing.
    for launches in [published::<false, true>, published::<true, false>, published::<false, false>] {
        let findings = findings_under(Schedule::Ascending, launches);
        let finding = race("publish", lines, "`value`", Apart::Threads).is_in(&findings);
        assert_eq!((finding.memory.as_ref().map(|memory| (memory.len, memory.element))), Some((1, 0)), "{finding}");
    }
    always_silent(published::<true, true>);
}

/// Counts the input's values, with plain additions or with atomic ones.
///
/// # Safety
/// `bins` has 8 elements.
#[kernel]
unsafe fn histogram<const ATOMIC: bool>(input: &[u32], bins: *mut u32) {
    let bin = (input[global_idx().get()] % 8) as usize;
    if ATOMIC {
        // SAFETY: one of 8, reached by atomics alone.
        unsafe { AtomicU32::from_ptr(bins.add(bin)) }.fetch_add(1, Ordering::Relaxed);
    } else {
        // SAFETY: one of 8.
        unsafe { *bins.add(bin) += 1 };
    }
}

fn counted<const ATOMIC: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (input, bins) = (stream.filled(6, 4)?, stream.zeroed(8)?);
    // SAFETY: there are 8 bins.
    unsafe { histogram::launch::<ATOMIC>(stream, LaunchConfig::new(4, 1), &input, raw(&bins)) }
}

#[test]
fn a_histogram_of_blocks_without_atomics() {
    let line = "*bins.add(bin) += 1";
    race("histogram", [line, line], "`bins`", Apart::Blocks).is_always_found(counted::<false>);
    always_silent(counted::<true>);
}

/// Smooths a row; `from` and `to` may be one buffer.
///
/// # Safety
/// Both have an element a thread.
#[kernel]
unsafe fn smooth(from: *const u32, to: *mut u32, len: usize) {
    let i = global_idx().get();
    let next = if i + 1 < len { i + 1 } else { i };
    // SAFETY: all are below the length.
    unsafe { *to.add(i) = *from.add(i) + *from.add(next) };
}

#[test]
fn a_stencil_in_place() {
    let smoothed = |in_place: bool| {
        move |stream: &Stream| {
            let (from, to) = (stream.filled(1, 128)?, stream.zeroed(128)?);
            let to = if in_place { &from } else { &to };
            // SAFETY: both have 128 elements.
            unsafe { smooth::launch(stream, LaunchConfig::new(2, 64), from.as_device_ptr(), raw(to), 128) }
        }
    };
    // One buffer has two names; which of the two is told depends on neither.
    let line = "*to.add(i) = *from.add(i) + *from.add(next)";
    for schedule in warpsmith_checker_tests::SCHEDULES {
        let findings = findings_under(schedule, smoothed(true));
        let name = findings.first().and_then(|finding| finding.memory.as_ref()).map(|memory| memory.name.as_str());
        let name = name.unwrap_or_else(|| panic!("nothing was found under {schedule}"));
        assert!(["`from`", "`to`"].contains(&name), "{name}");
        let finding = race("smooth", [line, line], name, Apart::Threads).is_in(&findings);
        // What one thread reads beside its own, another writes.
        let other = finding.other.as_ref().expect("a race has two sides");
        assert_eq!(finding.side.thread.x.abs_diff(other.thread.x), 1, "{finding}");
    }
    always_silent(smoothed(false));
}

/// All add to a word atomically, and one reads it, plainly or atomically.
#[kernel]
fn mixed<const PLAIN: bool>(word: &[AtomicU32], mut output: GridSliceMut<u32>) {
    let i = global_idx();
    word[0].fetch_add(1, Ordering::Relaxed);
    if i.get() == 20
        && let Some(output) = output.get_mut(&i)
    {
        *output = if PLAIN {
            // SAFETY: a word of the buffer.
            unsafe { *word[0].as_ptr() }
        } else {
            word[0].load(Ordering::Relaxed)
        };
    }
}

#[test]
fn a_plain_read_of_what_others_add_to() {
    let added = |plain: bool| {
        move |stream: &Stream| {
            let (mut word, mut output) = (stream.zeroed::<u32>(1)?, stream.zeroed(64)?);
            let config = LaunchConfig::new(2, 32);
            if plain {
                mixed::launch::<true>(stream, config, &mut word, &mut output)
            } else {
                mixed::launch::<false>(stream, config, &mut word, &mut output)
            }
        }
    };
    for schedule in warpsmith_checker_tests::SCHEDULES {
        let findings = findings_under(schedule, added(true));
        let finding = &findings.first().unwrap_or_else(|| panic!("nothing was found under {schedule}"));
        let blocks = finding.other.as_ref().is_some_and(|other| other.block != finding.side.block);
        let apart = if blocks { Apart::Blocks } else { Apart::Threads };
        let finding = race("mixed", ["word[0].fetch_add(1", "*word[0].as_ptr()"], "`word`", apart).is_in(&findings);
        assert!(finding.to_string().contains(" atomically"), "{finding}");
    }
    always_silent(added(false));
}

/// Threads of a block exchange through device memory, after a barrier of the warp or of the block.
///
/// # Safety
/// `places` has an element a thread.
#[kernel]
unsafe fn through_memory<const OF_BLOCK: bool>(places: *mut u32, mut output: GridSliceMut<u32>) {
    let i = global_idx();
    // SAFETY: the thread's own.
    unsafe { *places.add(i.get()) = i.get() as u32 };
    if OF_BLOCK {
        sync_threads();
    } else {
        sync_warp(FULL_MASK);
    }
    // SAFETY: one of the same block's.
    let other = unsafe { *places.add(i.get() ^ 32) };
    if let Some(output) = output.get_mut(&i) {
        *output = other;
    }
}

fn through<const OF_BLOCK: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (places, mut output) = (stream.zeroed(128)?, stream.zeroed(128)?);
    // SAFETY: 128 threads and as many places.
    unsafe { through_memory::launch::<OF_BLOCK>(stream, LaunchConfig::new(2, 64), raw(&places), &mut output) }
}

#[test]
fn warps_that_exchange_through_device_memory() {
    race("through_memory", ["*places.add(i.get()) =", "*places.add(i.get() ^ 32)"], "`places`", Apart::Warps)
        .is_always_found(through::<false>);
    always_silent(through::<true>);
}

/// A lock: the words behind it are touched by whoever holds it, which takes it with or without acquiring.
///
/// # Safety
/// `total` is one element.
#[kernel]
unsafe fn locked<const ACQUIRES: bool>(lock: &[AtomicU32], total: *mut u32) {
    let order = if ACQUIRES { Ordering::Acquire } else { Ordering::Relaxed };
    while lock[0].compare_exchange(0, 1, order, Ordering::Relaxed).is_err() {}
    // SAFETY: one element, and the thread holds the lock.
    unsafe { *total += 1 };
    lock[0].store(0, Ordering::Release);
}

#[test]
fn a_lock_that_acquires_nothing() {
    let counted = |acquires: bool| {
        move |stream: &Stream| {
            let (mut lock, total) = (stream.zeroed::<u32>(1)?, stream.zeroed(1)?);
            let config = LaunchConfig::new(8, 1);
            // SAFETY: it is one element.
            unsafe {
                if acquires {
                    locked::launch::<true>(stream, config, &mut lock, raw(&total))
                } else {
                    locked::launch::<false>(stream, config, &mut lock, raw(&total))
                }
            }
        }
    };
    race("locked", ["*total += 1", "*total += 1"], "`total`", Apart::Blocks).is_always_found(counted(false));
    always_silent(counted(true));
}

/// Views that give each thread its own, and device atomics of a scope.
#[kernel]
fn views(words: &[AtomicU32], mut runs: GridSliceMut<u32, Runs<4>>, mut plane: GridSliceMut<u8, Plane>) {
    for (i, element) in runs.run_mut(&run_idx::<4>()).iter_mut().enumerate() {
        *element = i as u32;
    }
    for i in grid_stride_2d(plane.map().width(), plane.map().height()) {
        if let Some(byte) = plane.get_mut(&i) {
            *byte += 1;
        }
    }
    atomic::AtomicRef::<_, DeviceScope>::new(&words[0]).fetch_max(global_idx().get() as u32, Ordering::Relaxed);
}

#[test]
fn views_give_each_thread_its_own() {
    always_silent(|stream| {
        let (mut words, mut runs, mut plane) =
            (stream.zeroed::<u32>(1)?, stream.zeroed(256)?, stream.zeroed::<u8>(77 * 5)?);
        views::launch(stream, LaunchConfig::new(2, 32), &mut words, &mut runs, plane.plane_mut(77, 5)?)
    });
}

#[test]
fn one_launch_comes_after_another() {
    always_silent(|stream| {
        let (a, b) = (stream.filled(1, 128)?, stream.zeroed(128)?);
        let config = LaunchConfig::new(2, 64);
        for _ in 0..3 {
            // SAFETY: both have 128 elements.
            unsafe {
                smooth::launch(stream, config, a.as_device_ptr(), raw(&b), 128)?;
                smooth::launch(stream, config, b.as_device_ptr(), raw(&a), 128)?;
            }
        }
        Ok(())
    });
}

/// Threads look at a word, and exchange it if it holds what it never holds, or what it does.
///
/// # Safety
/// `word` has an element.
#[kernel]
unsafe fn exchanged_if<const SUCCEEDS: bool>(word: *mut u32, mut output: GridSliceMut<u32>) {
    let expected = if SUCCEEDS { 0 } else { 99 };
    // SAFETY: there is a word.
    let _ = unsafe { AtomicU32::from_ptr(word) }.compare_exchange(expected, 5, Ordering::Relaxed, Ordering::Relaxed);
    // SAFETY: as above.
    let value = unsafe { *word };
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = value;
    }
}

fn exchanging<const SUCCEEDS: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (word, mut output) = (stream.zeroed(1)?, stream.zeroed(128)?);
    // SAFETY: there is a word.
    unsafe { exchanged_if::launch::<SUCCEEDS>(stream, LaunchConfig::new(1, 64), raw(&word), &mut output) }
}

#[test]
fn an_exchange_that_fails_only_reads() {
    race("exchanged_if", ["compare_exchange(expected", "= unsafe { *word }"], "`word`", Apart::Threads)
        .is_always_found(exchanging::<true>);
    always_silent(exchanging::<false>);
}

/// Block 0 leaves a value and says so with an exchange that succeeds, or with one that fails and so releases nothing; block 1 looks.
///
/// # Safety
/// `value` has an element.
#[kernel]
unsafe fn said_by_exchange<const FAILS: bool>(value: *mut u32, flag: &[AtomicU32], mut output: GridSliceMut<u32>) {
    if thread_idx().x > 0 {
        return;
    }
    let mut seen = 0;
    if block_idx().x == 0 {
        flag[0].store(3, Ordering::Relaxed);
        // SAFETY: there is one.
        unsafe { *value = 7 };
        let expected = if FAILS { 4 } else { 3 };
        let _ = flag[0].compare_exchange(expected, 1, Ordering::Release, Ordering::Relaxed);
    } else if flag[0].load(Ordering::Acquire) != 0 {
        // SAFETY: as above.
        seen = unsafe { *value };
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = seen;
    }
}

fn saying<const FAILS: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (value, mut flag, mut output) = (stream.zeroed(1)?, stream.zeroed::<u32>(1)?, stream.zeroed(64)?);
    // SAFETY: there is a value.
    unsafe { said_by_exchange::launch::<FAILS>(stream, LaunchConfig::new(2, 32), raw(&value), &mut flag, &mut output) }
}

#[test]
fn an_exchange_that_fails_releases_nothing() {
    let findings = findings_under(Schedule::Ascending, saying::<true>);
    race("said_by_exchange", ["*value = 7", "seen = unsafe { *value }"], "`value`", Apart::Blocks).is_in(&findings);
    always_silent(saying::<false>);
}

/// All threads write a half of a word atomically, and one of them the other half plainly; or all write one half both ways.
///
/// # Safety
/// `words` has an element.
#[kernel]
unsafe fn halves<const SAME: bool>(words: *mut u32) {
    let half = words.cast::<u16>();
    // SAFETY: of the word.
    unsafe { AtomicU16::from_ptr(half) }.store(1, Ordering::Relaxed);
    if global_idx().get() == 40 {
        // SAFETY: of the word, and no other thread's.
        unsafe { *half.add(usize::from(!SAME)) = 2 };
    }
}

fn halved<const SAME: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let words = stream.zeroed(1)?;
    // SAFETY: there is a word.
    unsafe { halves::launch::<SAME>(stream, LaunchConfig::new(2, 64), raw(&words)) }
}

#[test]
fn halves_of_a_word_are_kept_apart() {
    for schedule in warpsmith_checker_tests::SCHEDULES {
        let findings = findings_under(schedule, halved::<true>);
        let conflict = findings.first().unwrap_or_else(|| panic!("under {schedule} nothing is found"));
        assert!(conflict.rule == ConflictingWrites, "under {schedule}: {conflict}");
    }
    always_silent(halved::<false>);
}

/// Each thread writes a word atomically and, if `PLAINLY`, plainly after that without a wait.
///
/// # Safety
/// `word` has an element.
#[kernel]
unsafe fn twice<const PLAINLY: bool>(word: *mut u32) {
    if thread_idx().x > 0 {
        return;
    }
    // SAFETY: there is one.
    unsafe { AtomicU32::from_ptr(word) }.store(1, Ordering::Relaxed);
    if PLAINLY && block_idx().x == 0 {
        // SAFETY: as above.
        unsafe { *word = 2 };
    }
}

fn written_twice<const PLAINLY: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let word = stream.zeroed(1)?;
    // SAFETY: there is a word.
    unsafe { twice::launch::<PLAINLY>(stream, LaunchConfig::new(3, 32), raw(&word)) }
}

#[test]
fn a_plain_write_after_an_atomic_one_of_the_same_thread() {
    let lines = ["store(1, Ordering::Relaxed)", "*word = 2"];
    // In other orders the atomic write takes the place of those that the plain one conflicts with.
    let findings = findings_under(Schedule::Ascending, written_twice::<true>);
    Meeting { rule: ConflictingWrites, ..race("twice", lines, "`word`", Apart::Blocks) }.is_in(&findings);
    always_silent(written_twice::<false>);
}

/// A counter of all blocks, or one for each, whose additions are atomic for a block alone.
#[kernel]
fn block_scoped<const SHARED: bool>(counts: &[AtomicU32]) {
    let own = if SHARED { 0 } else { block_idx().x as usize };
    counts[own].block().fetch_add(1, Ordering::Relaxed);
}

fn scoped<const SHARED: bool>(stream: &Stream) -> warpsmith::Result<()> {
    block_scoped::launch::<SHARED>(stream, LaunchConfig::new(3, 64), &mut stream.zeroed::<u32>(3)?)
}

/// Additions for all threads by some blocks, and for its own alone by one; then for all by all.
#[kernel]
fn scopes_differ<const NARROW: bool>(counts: &[AtomicU32]) {
    if NARROW && block_idx().x == 1 {
        counts[0].block().fetch_add(1, Ordering::Relaxed);
    } else {
        counts[0].device().fetch_add(1, Ordering::Relaxed);
    }
}

fn differing<const NARROW: bool>(stream: &Stream) -> warpsmith::Result<()> {
    scopes_differ::launch::<NARROW>(stream, LaunchConfig::new(3, 64), &mut stream.zeroed::<u32>(1)?)
}

#[test]
fn blocks_that_count_with_atomics_of_a_block() {
    let add = ["block().fetch_add", "block().fetch_add"];
    race("block_scoped", add, "`counts`", Apart::Blocks).is_always_found(scoped::<true>);
    let findings = findings_under(Schedule::Ascending, scoped::<true>);
    assert!(findings[0].message.starts_with("block-scoped atomics of different blocks"), "{}", findings[0]);
    always_silent(scoped::<false>);
    let lines = ["block().fetch_add", "device().fetch_add"];
    race("scopes_differ", lines, "`counts`", Apart::Blocks).is_always_found(differing::<true>);
    always_silent(differing::<false>);
}

/// A thread leaves a value and says so by a flag, for its block or for all threads; another of its block or of the next one looks.
///
/// # Safety
/// `value` has an element.
#[kernel]
unsafe fn said_in_scope<const OF_BLOCK: bool, const ACROSS: bool>(
    value: *mut u32,
    flag: &[AtomicU32],
    mut output: GridSliceMut<u32>,
) {
    let i = global_idx().get();
    let mut seen = 0;
    if i == 0 {
        // SAFETY: there is one.
        unsafe { *value = 7 };
        if OF_BLOCK {
            flag[0].block().store(1, Ordering::Release);
        } else {
            flag[0].device().store(1, Ordering::Release);
        }
    } else if i == if ACROSS { 64 } else { 32 } {
        let flag =
            if OF_BLOCK { flag[0].block().load(Ordering::Acquire) } else { flag[0].device().load(Ordering::Acquire) };
        if flag == 1 {
            // SAFETY: as above.
            seen = unsafe { *value };
        }
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = seen;
    }
}

fn in_scope<const OF_BLOCK: bool, const ACROSS: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (value, mut flag, mut output) = (stream.zeroed(1)?, stream.zeroed::<u32>(1)?, stream.zeroed(128)?);
    let config = LaunchConfig::new(2, 64);
    // SAFETY: there is a value.
    unsafe { said_in_scope::launch::<OF_BLOCK, ACROSS>(stream, config, raw(&value), &mut flag, &mut output) }
}

#[test]
fn a_flag_for_a_block_says_nothing_to_others() {
    let flags = ["block().store(1", "block().load("];
    race("said_in_scope", flags, "`flag`", Apart::Blocks).is_always_found(in_scope::<true, true>);
    let values = ["*value = 7", "seen = unsafe { *value }"];
    race("said_in_scope", values, "`value`", Apart::Blocks)
        .is_in(&findings_under(Schedule::Ascending, in_scope::<true, true>));
    always_silent(in_scope::<true, false>);
    always_silent(in_scope::<false, true>);
    always_silent(in_scope::<false, false>);
}

/// The same by fences around relaxed accesses: for the block, or for all threads, on either side.
///
/// # Safety
/// `value` has an element.
#[kernel]
unsafe fn fenced_in_scope<const OF_BLOCK: u32, const ACROSS: bool>(
    value: *mut u32,
    flag: &[AtomicU32],
    mut output: GridSliceMut<u32>,
) {
    let i = global_idx().get();
    let mut seen = 0;
    if i == 0 {
        // SAFETY: there is one.
        unsafe { *value = 7 };
        if OF_BLOCK & 1 != 0 {
            threadfence_block();
        } else {
            threadfence();
        }
        flag[0].store(1, Ordering::Relaxed);
    } else if i == if ACROSS { 64 } else { 32 } && flag[0].load(Ordering::Relaxed) == 1 {
        if OF_BLOCK & 2 != 0 {
            fence::<BlockScope>(Ordering::AcqRel);
        } else {
            fence::<DeviceScope>(Ordering::AcqRel);
        }
        // SAFETY: as above.
        seen = unsafe { *value };
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = seen;
    }
}

fn fenced<const OF_BLOCK: u32, const ACROSS: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let (value, mut flag, mut output) = (stream.zeroed(1)?, stream.zeroed::<u32>(1)?, stream.zeroed(128)?);
    let config = LaunchConfig::new(2, 64);
    // SAFETY: there is a value.
    unsafe { fenced_in_scope::launch::<OF_BLOCK, ACROSS>(stream, config, raw(&value), &mut flag, &mut output) }
}

#[test]
fn a_fence_for_a_block_orders_nothing_for_others() {
    let values = ["*value = 7", "seen = unsafe { *value }"];
    let across = race("fenced_in_scope", values, "`value`", Apart::Blocks);
    across.is_in(&findings_under(Schedule::Ascending, fenced::<1, true>));
    across.is_in(&findings_under(Schedule::Ascending, fenced::<2, true>));
    across.is_in(&findings_under(Schedule::Ascending, fenced::<3, true>));
    always_silent(fenced::<0, true>);
    always_silent(fenced::<0, false>);
    always_silent(fenced::<1, false>);
    always_silent(fenced::<2, false>);
    always_silent(fenced::<3, false>);
}

/// Each thread writes single bytes of a word and then the whole of another's, or of its own.
///
/// # Safety
/// `words` has an element a block.
#[kernel]
unsafe fn byte_then_word<const OWN: bool>(words: *mut u32) {
    if thread_idx().x == 0 {
        let block = block_idx().x as usize;
        let word = if OWN { block } else { 0 };
        // SAFETY: a block's or the first.
        unsafe {
            if block == 0 || OWN {
                *words.add(word).cast::<u8>() = 1;
                *words.add(word) = 2;
            } else {
                *words.add(word).cast::<u8>().add(3) = 3;
            }
        }
    }
}

fn bytes_then_word<const OWN: bool>(stream: &Stream) -> warpsmith::Result<()> {
    let words = stream.zeroed(2)?;
    // SAFETY: two blocks and as many words.
    unsafe { byte_then_word::launch::<OWN>(stream, LaunchConfig::new(2, 32), raw(&words)) }
}

#[test]
fn a_word_that_is_written_after_a_byte_of_it() {
    let lines = ["*words.add(word) = 2", "add(3) = 3"];
    Meeting { rule: ConflictingWrites, ..race("byte_then_word", lines, "`words`", Apart::Blocks) }
        .is_always_found(bytes_then_word::<false>);
    always_silent(bytes_then_word::<true>);
}

//! What a checked device looks for.

use crate::cpu::schedule::Schedule;

/// What the checker looks for beyond what it always does, and how it runs launches; for
/// [`Device::cpu_checked_with`](crate::Device::cpu_checked_with).
///
/// Races, reads of memory that nobody wrote, accesses outside of buffers and to freed ones, misaligned accesses and barriers
/// that threads miss are always looked for.
///
/// # Examples
/// ```
/// use warpsmith::CheckOptions;
///
/// let options = CheckOptions::new().overflow(true).non_finite(true);
/// assert!(options.finds_overflow() && !options.finds_lossy_casts());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    overflow: bool,
    lossy_casts: bool,
    non_finite: bool,
    memory_report: bool,
    schedule: Schedule,
    schedules: u32,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CheckOptions {
    /// What is always looked for, and nothing more.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            overflow: false,
            lossy_casts: false,
            non_finite: false,
            memory_report: false,
            schedule: Schedule::Ascending,
            schedules: 1,
        }
    }

    /// Whether integer arithmetic that wraps is a finding.
    #[must_use]
    pub const fn overflow(mut self, find: bool) -> Self {
        self.overflow = find;
        self
    }

    /// Whether an `as` between numbers that changes the value is a finding.
    #[must_use]
    pub const fn lossy_casts(mut self, find: bool) -> Self {
        self.lossy_casts = find;
        self
    }

    /// Whether a NaN or an infinity that comes of finite operands is a finding.
    #[must_use]
    pub const fn non_finite(mut self, find: bool) -> Self {
        self.non_finite = find;
        self
    }

    /// Whether bank conflicts and uncoalesced accesses are counted, for [`Device::memory_report`](crate::Device::memory_report).
    #[must_use]
    pub const fn memory_report(mut self, count: bool) -> Self {
        self.memory_report = count;
        self
    }

    /// The schedule under which launches run: in ascending order unless one is given.
    #[must_use]
    pub const fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Under how many schedules each launch is run, each time from the same memory, to compare what it leaves there; 1 compares
    /// nothing. The first is [`schedule`](Self::schedule), whose outcome stays; the others are `Random(1)`, `Random(2)` and so on.
    ///
    /// An element that differs is a finding, with both values and schedules. Results of floating-point atomics differ in their
    /// last bits, which is one, too. 0 is taken as 1.
    #[must_use]
    pub const fn schedules(mut self, count: u32) -> Self {
        self.schedules = if count == 0 { 1 } else { count };
        self
    }

    /// See [`overflow`](Self::overflow).
    #[must_use]
    pub const fn finds_overflow(&self) -> bool {
        self.overflow
    }

    /// See [`lossy_casts`](Self::lossy_casts).
    #[must_use]
    pub const fn finds_lossy_casts(&self) -> bool {
        self.lossy_casts
    }

    /// See [`non_finite`](Self::non_finite).
    #[must_use]
    pub const fn finds_non_finite(&self) -> bool {
        self.non_finite
    }

    /// See [`memory_report`](Self::memory_report).
    #[must_use]
    pub const fn counts_memory(&self) -> bool {
        self.memory_report
    }

    /// See [`schedule`](Self::schedule).
    #[must_use]
    pub const fn run_under(&self) -> Schedule {
        self.schedule
    }

    /// See [`schedules`](Self::schedules).
    #[must_use]
    pub const fn schedule_count(&self) -> u32 {
        self.schedules
    }

    /// What `WARPSMITH_CHECK` asks for: `None` for nothing, empty or `0`; the word that is none otherwise.
    pub(crate) fn parse(value: &str) -> Result<Option<Self>, String> {
        let mut options = Self::new();
        match value.trim() {
            "" | "0" => return Ok(None),
            "1" => return Ok(Some(options)),
            _ => {}
        }
        for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let schedules =
                word.strip_prefix("schedules=").and_then(|count| count.parse().ok()).filter(|&count| count > 0);
            options = match word {
                _ if schedules.is_some() => options.schedules(schedules.unwrap_or(1)),
                "1" => options,
                "overflow" => options.overflow(true),
                "lossy" => options.lossy_casts(true),
                "non-finite" => options.non_finite(true),
                "memory" => options.memory_report(true),
                _ => return Err(word.to_owned()),
            };
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_what_to_look_for() {
        let plain = CheckOptions::new();
        for (value, expected) in [
            ("", Ok(None)),
            ("0", Ok(None)),
            ("1", Ok(Some(plain))),
            ("overflow", Ok(Some(plain.overflow(true)))),
            ("1, memory", Ok(Some(plain.memory_report(true)))),
            ("lossy,non-finite", Ok(Some(plain.lossy_casts(true).non_finite(true)))),
            ("overflow, schedules=5", Ok(Some(plain.overflow(true).schedules(5)))),
            ("schedules=0", Err("schedules=0".to_owned())),
            ("schedules=many", Err("schedules=many".to_owned())),
            ("yes", Err("yes".to_owned())),
            ("overflow,lossi", Err("lossi".to_owned())),
        ] {
            assert_eq!(CheckOptions::parse(value), expected, "{value:?}");
        }
    }
}

//! The table of a report.

use std::fmt;
use std::time::Duration;

use super::report::TimelineReport;

const HEADER: [&str; 9] =
    ["kernel", "launches", "total", "shortest", "median", "longest", "bytes", "GB/s", "share of copy"];

impl fmt::Display for TimelineReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernels = self.kernels();
        let mut devices: Vec<&str> = kernels.iter().map(|kernel| kernel.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        if devices.is_empty() {
            return f.write_str("nothing was launched or copied");
        }
        for (index, device) in devices.into_iter().enumerate() {
            if index != 0 {
                f.write_str("\n\n")?;
            }
            f.write_str(device)?;
            if let Some(bandwidth) = self.copy_bandwidths().get(device) {
                write!(f, ": copies of its own memory reach {:.1} GB/s", bandwidth / 1e9)?;
            }
            let mut lines = vec![HEADER.map(str::to_owned)];
            for kernel in kernels.iter().filter(|kernel| kernel.device == device) {
                lines.push([
                    kernel.name.clone(),
                    kernel.launches.to_string(),
                    time(kernel.total),
                    time(kernel.shortest),
                    time(kernel.median),
                    time(kernel.longest),
                    kernel.bytes.to_string(),
                    format!("{:.1}", kernel.throughput() / 1e9),
                    kernel.share_of_copy.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
                ]);
            }
            write_lines(f, &lines)?;
        }
        Ok(())
    }
}

/// Writes lines in columns: the first to the left, numbers to the right.
fn write_lines(f: &mut fmt::Formatter<'_>, lines: &[[String; HEADER.len()]]) -> fmt::Result {
    let widths: [usize; HEADER.len()] =
        std::array::from_fn(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0));
    for line in lines {
        f.write_str("\n")?;
        for (column, (text, &width)) in line.iter().zip(&widths).enumerate() {
            if column == 0 {
                write!(f, "{text:width$}")?;
            } else {
                write!(f, "  {text:>width$}")?;
            }
        }
    }
    Ok(())
}

/// A time with four digits, in the unit that suits it.
fn time(time: Duration) -> String {
    let microseconds = time.as_secs_f64() * 1e6;
    match microseconds {
        ..1e3 => format!("{microseconds:.2} us"),
        ..1e6 => format!("{:.2} ms", microseconds / 1e3),
        _ => format!("{:.2} s", microseconds / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::example;
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_kernel() {
        let expected = "\
GPU 0 (Test): copies of its own memory reach 2.0 GB/s
kernel              launches     total  shortest    median   longest  bytes  GB/s  share of copy
demo::saxpy                2  40.00 us  10.00 us  30.00 us  30.00 us  16000   0.4         20.0 %
copy to the host           1   4.00 us   4.00 us   4.00 us   4.00 us   4000   1.0              -
copy on the device         1   2.00 us   2.00 us   2.00 us   2.00 us   1000   0.5         50.0 %
demo::other_saxpy          1   1.00 us   1.00 us   1.00 us   1.00 us      0   0.0          0.0 %";
        assert_eq!(example().to_string(), expected);
    }

    #[test]
    fn an_empty_report_says_so() {
        let report = TimelineReport::new(Vec::new(), std::collections::BTreeMap::new());
        assert_eq!(report.to_string(), "nothing was launched or copied");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!(time(Duration::from_nanos(1_500)), "1.50 us");
        assert_eq!(time(Duration::from_micros(12_345)), "12.35 ms");
        assert_eq!(time(Duration::from_secs(75)), "75.00 s");
    }
}

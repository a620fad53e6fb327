//! A report as one HTML page, without scripts and without other files.

use std::fmt::Write;

use super::listing::{self, File};
use super::report::{LineTraffic, MemoryReport};

const STYLE: &str = include_str!("page.css");

/// Lines of source kept before and after those with traffic.
const AROUND: u32 = 12;

/// The page.
pub(super) fn page(report: &MemoryReport) -> String {
    let mut page = String::new();
    write(report, &mut page).expect("text takes everything");
    page
}

fn write(report: &MemoryReport, page: &mut String) -> std::fmt::Result {
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Memory report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Memory report</h1>\n\
         <p>Requests of warps, as a GPU would make them. Global memory moves sectors of 32 bytes; shared memory takes a \
         wavefront for each word that lanes want of one bank. <em>Fewest</em> is what accesses of the same size by as many \
         lanes can take.</p>\n"
    )?;
    if report.is_empty() {
        page.push_str("<p>No accesses of device or shared memory were counted.</p>\n");
    } else {
        table(report, page)?;
        let all = report.of_all_kernels();
        for file in listing::files(&all) {
            source(&file, page)?;
        }
    }
    page.push_str("</body>\n</html>\n");
    Ok(())
}

/// All lines, those first that lose most.
fn table(report: &MemoryReport, page: &mut String) -> std::fmt::Result {
    page.push_str(
        "<div class=\"wide\"><table>\n<thead><tr><th>Line</th><th>Access</th><th>Efficiency</th><th class=\"n\">Taken</th>\
         <th class=\"n\">Fewest</th><th class=\"n\">Requests</th><th class=\"n\">Accesses</th><th>Kernel</th></tr></thead>\n\
         <tbody>\n",
    );
    let mut lines: Vec<LineTraffic<'_>> = report.lines().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.transactions - line.fewest));
    for line in lines {
        let LineTraffic {
            kernel, file, line: number, space, accesses, requests, transactions, fewest, left_out, ..
        } = line;
        let left_out = match left_out {
            0 => String::new(),
            count => format!("<br><small>{} left out</small>", grouped(count)),
        };
        writeln!(
            page,
            "<tr><td><a href=\"#{}\"><code>{}:{number}</code></a></td><td class=\"fixed\">{space} {}</td><td class=\"fixed\">{}</td>\
             <td class=\"n\">{} {}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}{left_out}</td>\
             <td><code>{}</code></td></tr>",
            anchor(file, number),
            escape(file),
            line.kind(),
            bar(&line),
            grouped(transactions),
            space.unit(),
            grouped(fewest),
            grouped(requests),
            grouped(accesses),
            escape(kernel)
        )?;
    }
    page.push_str("</tbody>\n</table></div>\n");
    Ok(())
}

/// A file's lines with traffic and those around them.
fn source(file: &File<'_>, page: &mut String) -> std::fmt::Result {
    writeln!(page, "<h2><code>{}</code></h2>", escape(file.name))?;
    if file.source.is_none() {
        page.push_str("<p>This file could not be read; here are the numbers of its lines.</p>\n");
    }
    page.push_str("<div class=\"wide\"><table class=\"source\">\n<tbody>\n");
    let around = if file.source.is_some() { AROUND } else { 0 };
    let end = file.source.as_ref().map_or(u32::MAX, |lines| u32::try_from(lines.len()).unwrap_or(u32::MAX));
    let mut shown = 0;
    for &number in file.traffic.keys() {
        let start = number.saturating_sub(around).max(shown + 1);
        if start > shown + 1 && file.source.is_some() {
            page.push_str("<tr class=\"gap\"><td></td><td>⋯</td><td></td></tr>\n");
        }
        let until = number.saturating_add(around).min(end).max(number);
        // Lines up to the next one with traffic are its own to write.
        let next = file.traffic.range(number + 1..).next().map_or(u32::MAX, |(&next, _)| next);
        for each in start..=until.min(next - 1) {
            source_line(file, each, page)?;
            shown = each;
        }
    }
    page.push_str("</tbody>\n</table></div>\n");
    Ok(())
}

fn source_line(file: &File<'_>, number: u32, page: &mut String) -> std::fmt::Result {
    let traffic = file.traffic.get(&number).map_or(&[][..], Vec::as_slice);
    let worst = traffic.iter().map(LineTraffic::efficiency).fold(1.0, f64::min);
    let class = if traffic.is_empty() { "" } else { grade(worst) };
    write!(
        page,
        "<tr id=\"{}\" class=\"{class}\"><td class=\"n\">{number}</td><td><pre>{}</pre></td><td>",
        anchor(file.name, number),
        escape(file.line(number))
    )?;
    for line in traffic {
        write!(
            page,
            "<div title=\"{}\">{} {} {}</div>",
            escape(&listing::figures(line)),
            line.space,
            line.kind(),
            bar(line)
        )?;
    }
    page.push_str("</td></tr>\n");
    Ok(())
}

/// Efficiency as a number and as a bar.
fn bar(line: &LineTraffic<'_>) -> String {
    let percent = line.efficiency() * 100.0;
    format!(
        "<span class=\"bar {}\"><i style=\"width:{percent:.0}%\"></i></span> <span class=\"percent\">{percent:.1} %</span>",
        grade(line.efficiency())
    )
}

fn grade(efficiency: f64) -> &'static str {
    match efficiency {
        0.8.. => "good",
        0.5.. => "fair",
        _ => "poor",
    }
}

fn anchor(file: &str, line: u32) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("{}-{line}", file.chars().map(plain).collect::<String>())
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

//! A panic's message, put together from its site's template and the values that the kernel recorded.
//!
//! Values print as `format!` prints them on the host, with the options of their placeholders.

use std::fmt::Write;

use warpsmith_build::bundle::{PanicSite, SiteValue, ValueFormat};

/// The message of a panic at `site` with these values.
pub(crate) fn message(site: &PanicSite, values: &[u64; 4]) -> String {
    let mut values = values.iter();
    let mut message = String::new();
    for (index, piece) in site.pieces.iter().enumerate() {
        message.push_str(piece);
        let Some(&how) = site.values.get(index) else { continue };
        let bits = if how.format == ValueFormat::Opaque { None } else { values.next() };
        match bits {
            Some(&bits) => message.push_str(&value(how, bits)),
            None => message.push('_'),
        }
    }
    message
}

#[expect(clippy::cast_possible_truncation, reason = "the record keeps every value as 64 bits")]
fn value(how: SiteValue, bits: u64) -> String {
    let short = f32::from_bits(bits as u32);
    let long = f64::from_bits(bits);
    match how.format {
        ValueFormat::Unsigned => integer(how, false, "", bits.to_string()),
        ValueFormat::Signed => {
            let number = bits.cast_signed();
            integer(how, number < 0, "", number.unsigned_abs().to_string())
        }
        ValueFormat::LowerHex => integer(how, false, "0x", format!("{bits:x}")),
        ValueFormat::UpperHex => integer(how, false, "0x", format!("{bits:X}")),
        ValueFormat::Binary => integer(how, false, "0b", format!("{bits:b}")),
        ValueFormat::Octal => integer(how, false, "0o", format!("{bits:o}")),
        ValueFormat::F32 => float(how, short.is_sign_negative(), &Digits(short, short.abs(), false)),
        ValueFormat::F32Debug => float(how, short.is_sign_negative(), &Digits(short, short.abs(), true)),
        ValueFormat::F64 => float(how, long.is_sign_negative(), &Digits(long, long.abs(), false)),
        ValueFormat::F64Debug => float(how, long.is_sign_negative(), &Digits(long, long.abs(), true)),
        ValueFormat::Bool => text(how, if bits & 1 != 0 { "true" } else { "false" }),
        ValueFormat::Char => {
            text(how, char::from_u32(bits as u32).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut [0; 4]))
        }
        // `Debug` of a character takes no notice of options.
        ValueFormat::CharDebug => format!("{:?}", char::from_u32(bits as u32).unwrap_or(char::REPLACEMENT_CHARACTER)),
        ValueFormat::Opaque => "_".to_owned(),
    }
}

/// An integer: sign, prefix, digits; zeros go between prefix and digits.
fn integer(how: SiteValue, negative: bool, prefix: &str, digits: String) -> String {
    let mut head = sign(how, negative).to_owned();
    if how.flags & SiteValue::ALTERNATE != 0 {
        head.push_str(prefix);
    }
    number(how, &head, &digits)
}

/// A float's value, its magnitude, and whether `Debug` prints it.
struct Digits<T>(T, T, bool);

/// The digits of a magnitude, with a precision or as many as it takes.
trait Magnitude {
    fn digits(&self, precision: Option<usize>) -> String;
    fn is_nan(&self) -> bool;
}

macro_rules! magnitude {
    ($ty:ty) => {
        impl Magnitude for Digits<$ty> {
            fn digits(&self, precision: Option<usize>) -> String {
                match (precision, self.2) {
                    (Some(precision), false) => format!("{:.precision$}", self.1),
                    (Some(precision), true) => format!("{:.precision$?}", self.1),
                    (None, false) => self.1.to_string(),
                    (None, true) => format!("{:?}", self.1),
                }
            }

            fn is_nan(&self) -> bool {
                self.0.is_nan()
            }
        }
    };
}
magnitude!(f32);
magnitude!(f64);

fn float(how: SiteValue, negative: bool, digits: &dyn Magnitude) -> String {
    let precision = (how.precision != SiteValue::NO_PRECISION).then_some(how.precision as usize);
    let head = if digits.is_nan() { "" } else { sign(how, negative) };
    number(how, head, &digits.digits(precision))
}

fn sign(how: SiteValue, negative: bool) -> &'static str {
    match (negative, how.flags & SiteValue::PLUS != 0) {
        (true, _) => "-",
        (false, true) => "+",
        (false, false) => "",
    }
}

/// Numbers stand at the right of their width, or have zeros after their sign.
fn number(how: SiteValue, head: &str, digits: &str) -> String {
    let len = head.len() + digits.len();
    if how.flags & SiteValue::ZERO != 0 {
        let missing = (how.width as usize).saturating_sub(len);
        return format!("{head}{}{digits}", "0".repeat(missing));
    }
    pad(how, &format!("{head}{digits}"), 1)
}

/// Text is cut to its precision and stands at the left of its width.
fn text(how: SiteValue, text: &str) -> String {
    let cut: String = match how.precision {
        SiteValue::NO_PRECISION => text.to_owned(),
        precision => text.chars().take(precision as usize).collect(),
    };
    pad(how, &cut, 0)
}

/// Fills a text up to its width; `usual` is where it stands when the placeholder does not say.
fn pad(how: SiteValue, text: &str, usual: u32) -> String {
    let missing = (how.width as usize).saturating_sub(text.chars().count());
    let place = if how.alignment() == 3 { usual } else { how.alignment() };
    let before = match place {
        0 => 0,
        1 => missing,
        _ => missing / 2,
    };
    let mut out = String::new();
    let fill = |count: usize, out: &mut String| (0..count).for_each(|_| out.push(how.fill()));
    fill(before, &mut out);
    let _ = out.write_str(text);
    fill(missing - before, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(pieces: &[&str], values: &[SiteValue]) -> PanicSite {
        PanicSite { pieces: pieces.iter().map(|&piece| piece.to_owned()).collect(), values: values.to_vec() }
    }

    fn plain(pieces: &[&str], formats: &[ValueFormat], values: [u64; 4]) -> String {
        message(&site(pieces, &formats.iter().map(|&format| SiteValue::plain(format)).collect::<Vec<_>>()), &values)
    }

    /// The flags of a fill character, an alignment and other flags.
    fn how(
        format: ValueFormat,
        fill: char,
        alignment: u32,
        flags: u32,
        width: u32,
        precision: Option<u32>,
    ) -> SiteValue {
        let flags = u32::from(fill) | alignment << 29 | flags;
        SiteValue { format, flags, width, precision: precision.unwrap_or(SiteValue::NO_PRECISION) }
    }

    #[test]
    fn messages_read_as_rust_prints_them() {
        use ValueFormat::{Bool, Char, CharDebug, F32, F32Debug, F64, F64Debug, LowerHex, Opaque, Signed, Unsigned};
        assert_eq!(plain(&["attempt to divide by zero"], &[], [0; 4]), "attempt to divide by zero");
        let bounds = ["index out of bounds: the len is ", " but the index is ", ""];
        assert_eq!(
            plain(&bounds, &[Unsigned, Unsigned], [3, u64::MAX, 0, 0]),
            format!("index out of bounds: the len is 3 but the index is {}", u64::MAX)
        );
        assert_eq!(plain(&["", ""], &[Signed], [(-5i64).cast_unsigned(), 0, 0, 0]), "-5");
        assert_eq!(plain(&["", ""], &[Signed], [i64::MIN.cast_unsigned(), 0, 0, 0]), i64::MIN.to_string());
        for value in [1.0f32, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-7] {
            let bits = u64::from(value.to_bits());
            assert_eq!(plain(&["", " ", ""], &[F32, F32Debug], [bits, bits, 0, 0]), format!("{value} {value:?}"));
        }
        for value in [1.0f64, 1e300, -2.5] {
            let bits = value.to_bits();
            assert_eq!(plain(&["", " ", ""], &[F64, F64Debug], [bits, bits, 0, 0]), format!("{value} {value:?}"));
        }
        let values = [1, u64::from('é'), u64::from('\n'), 255];
        assert_eq!(plain(&["", " ", " ", " ", ""], &[Bool, Char, CharDebug, LowerHex], values), "true é '\\n' ff");
        assert_eq!(plain(&["got ", ""], &[Opaque], [7, 0, 0, 0]), "got _");
    }

    #[test]
    fn what_was_not_recorded_takes_no_value() {
        use ValueFormat::{Opaque, Unsigned};
        assert_eq!(plain(&["", " ", " ", ""], &[Opaque, Unsigned, Opaque], [7, 8, 0, 0]), "_ 7 _");
    }

    #[test]
    fn more_values_than_a_record_holds_print_as_unknown() {
        let pieces = ["", ",", ",", ",", ",", "!"];
        assert_eq!(plain(&pieces, &[ValueFormat::Unsigned; 5], [1, 2, 3, 4]), "1,2,3,4,_!");
    }

    #[test]
    fn options_of_placeholders_are_kept() {
        use ValueFormat::{Binary, Bool, Char, F32, F64, F64Debug, LowerHex, Octal, Signed, Unsigned, UpperHex};
        let one = |how: SiteValue, bits: u64| message(&site(&["", ""], &[how]), &[bits, 0, 0, 0]);
        for x in [0u64, 7, 1001, u64::MAX] {
            assert_eq!(one(how(Unsigned, ' ', 3, 0, 8, None), x), format!("{x:8}"));
            assert_eq!(one(how(Unsigned, '*', 2, 0, 9, None), x), format!("{x:*^9}"));
            assert_eq!(one(how(Unsigned, ' ', 0, SiteValue::PLUS, 7, None), x), format!("{x:<+7}"));
            assert_eq!(one(how(LowerHex, ' ', 3, SiteValue::ZERO, 8, None), x), format!("{x:08x}"));
            assert_eq!(one(how(LowerHex, ' ', 3, SiteValue::ALTERNATE, 0, None), x), format!("{x:#x}"));
            let both = SiteValue::ALTERNATE | SiteValue::ZERO;
            assert_eq!(one(how(UpperHex, ' ', 3, both, 10, None), x), format!("{x:#010X}"));
            assert_eq!(one(how(Binary, '.', 1, SiteValue::ALTERNATE, 12, None), x), format!("{x:.>#12b}"));
            assert_eq!(one(how(Octal, ' ', 3, 0, 0, None), x), format!("{x:o}"));
        }
        for x in [-1001i64, -1, 0, 5] {
            assert_eq!(one(how(Signed, ' ', 3, SiteValue::ZERO, 7, None), x.cast_unsigned()), format!("{x:07}"));
            assert_eq!(one(how(Signed, ' ', 3, SiteValue::PLUS, 0, None), x.cast_unsigned()), format!("{x:+}"));
        }
        for x in [1.0f64 / 3.0, -2.5, 0.0, -0.0, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let bits = x.to_bits();
            assert_eq!(one(how(F64, ' ', 3, 0, 0, Some(2)), bits), format!("{x:.2}"));
            assert_eq!(one(how(F64, ' ', 3, SiteValue::ZERO, 12, Some(3)), bits), format!("{x:012.3}"));
            assert_eq!(one(how(F64, ' ', 3, SiteValue::PLUS, 12, Some(1)), bits), format!("{x:+12.1}"));
            assert_eq!(one(how(F64Debug, '-', 0, 0, 9, None), bits), format!("{x:-<9?}"));
        }
        let short = 0.1f32;
        assert_eq!(one(how(F32, ' ', 3, 0, 0, Some(0)), u64::from(short.to_bits())), format!("{short:.0}"));
        assert_eq!(one(how(Bool, ' ', 3, 0, 7, None), 1), format!("{:7}", true));
        assert_eq!(one(how(Bool, ' ', 1, 0, 7, Some(2)), 0), format!("{:>7.2}", false));
        assert_eq!(one(how(Char, 'é', 2, 0, 4, None), u64::from('ü')), format!("{:é^4}", 'ü'));
    }
}

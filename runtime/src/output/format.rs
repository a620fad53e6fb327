//! A line put together from its format and its values, as `format!` would.
//!
//! Options of placeholders are known at run time only, so there is a call of `format!` for each combination of those that
//! change what is printed. Fill and alignment only say where padding goes, which is done here.

use std::fmt::{self, Debug, Write};

use super::value::{Leaf, Value};

/// Formats values; `None` when the format is not one that the macro writes, or has not as many values.
pub(super) fn format(text: &str, values: &[Value]) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = after;
            continue;
        }
        let (placeholder, after) = split_placeholder(rest)?;
        let (number, options) = placeholder.split_once(':').unwrap_or((placeholder, ""));
        let value = values.get(number.parse::<usize>().ok()?)?;
        let options = Options::parse(options, values)?;
        if options.is_alternate {
            write!(out, "{:#?}", Shown(value, options)).ok()?;
        } else {
            write!(out, "{:?}", Shown(value, options)).ok()?;
        }
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// A placeholder behind its opening brace, and what follows it. A brace may be the fill character.
fn split_placeholder(text: &str) -> Option<(&str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let mut from = digits;
    if let Some(options) = text[digits..].strip_prefix(':') {
        let fill = options.chars().next()?;
        if options[fill.len_utf8()..].starts_with(['<', '^', '>']) {
            from = digits + 1 + fill.len_utf8();
        }
    }
    let end = from + text[from..].find('}')?;
    Some((&text[..end], &text[end + 1..]))
}

#[derive(Clone, Copy)]
enum Kind {
    Display,
    Debug,
    DebugLowerHex,
    DebugUpperHex,
    LowerHex,
    UpperHex,
    Octal,
    Binary,
    LowerExp,
    UpperExp,
    Pointer,
}

/// What stands behind a placeholder's colon.
#[derive(Clone, Copy)]
struct Options {
    fill: char,
    alignment: Option<char>,
    has_plus: bool,
    is_alternate: bool,
    has_zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    kind: Kind,
}

impl Options {
    fn parse(text: &str, values: &[Value]) -> Option<Self> {
        let mut rest = text;
        let mut options = Self {
            fill: ' ',
            alignment: None,
            has_plus: false,
            is_alternate: false,
            has_zero: false,
            width: None,
            precision: None,
            kind: Kind::Display,
        };
        let is_alignment = |c: &char| matches!(c, '<' | '^' | '>');
        let mut chars = rest.chars();
        let (first, second) = (chars.next(), chars.next());
        if let (Some(fill), Some(alignment)) = (first, second.filter(is_alignment)) {
            (options.fill, options.alignment) = (fill, Some(alignment));
            rest = &rest[fill.len_utf8() + 1..];
        } else if let Some(alignment) = first.filter(is_alignment) {
            options.alignment = Some(alignment);
            rest = &rest[1..];
        }
        let mut take = |flag: char| {
            let after = rest.strip_prefix(flag);
            rest = after.unwrap_or(rest);
            after.is_some()
        };
        options.has_plus = take('+');
        take('-');
        options.is_alternate = take('#');
        if !rest.starts_with("0$") {
            options.has_zero = take_flag(&mut rest, '0');
        }
        options.width = count(&mut rest, values)?;
        if take_flag(&mut rest, '.') {
            options.precision = Some(count(&mut rest, values)??);
        }
        options.kind = match rest {
            "" => Kind::Display,
            "?" => Kind::Debug,
            "x?" => Kind::DebugLowerHex,
            "X?" => Kind::DebugUpperHex,
            "x" => Kind::LowerHex,
            "X" => Kind::UpperHex,
            "o" => Kind::Octal,
            "b" => Kind::Binary,
            "e" => Kind::LowerExp,
            "E" => Kind::UpperExp,
            "p" => Kind::Pointer,
            _ => return None,
        };
        Some(options)
    }
}

fn take_flag(rest: &mut &str, flag: char) -> bool {
    let after = rest.strip_prefix(flag);
    *rest = after.unwrap_or(rest);
    after.is_some()
}

/// A width or precision: a number, or the number of a value and `$`.
fn count(rest: &mut &str, values: &[Value]) -> Option<Option<usize>> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    if digits.is_empty() {
        return Some(None);
    }
    *rest = after;
    let number = digits.parse::<usize>().ok()?;
    if !take_flag(rest, '$') {
        return Some(Some(number));
    }
    match values.get(number)? {
        Value::Leaf(Leaf::Usize(count)) => Some(Some(*count)),
        _ => None,
    }
}

/// A value with its options. `Debug` alone, so that lists print with what the standard library prints around them.
struct Shown<'a>(&'a Value, Options);

impl Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Leaf(Leaf::Dim3(dim)) if !matches!(self.1.kind, Kind::Display) => {
                // As derived; its fields take the options.
                let [x, y, z] = [dim.x, dim.y, dim.z].map(|count| Value::Leaf(Leaf::U32(count)));
                let [x, y, z] = [&x, &y, &z].map(|count| Shown(count, self.1));
                f.debug_struct("Dim3").field("x", &x).field("y", &y).field("z", &z).finish()
            }
            Value::Leaf(leaf) => f.write_str(&padded(leaf, self.1).ok_or(fmt::Error)?),
            Value::List(list) => f.debug_list().entries(list.iter().map(|value| Shown(value, self.1))).finish(),
        }
    }
}

/// A value as `format!` prints it, padding included.
fn padded(leaf: &Leaf, options: Options) -> Option<String> {
    let text = plain(leaf, options)?;
    let (Some(alignment), Some(_)) = (options.alignment, options.width) else { return Some(text) };
    // What the value's own implementation has padded shows in comparison with the same without a width. Where zeros go is
    // no question of alignment, and implementations that take no notice of a width take none of this.
    let bare = plain(leaf, Options { width: None, has_zero: false, ..options })?;
    let Some(missing) = text.chars().count().checked_sub(bare.chars().count()).filter(|missing| *missing > 0) else {
        return Some(text);
    };
    let spaces = " ".repeat(missing);
    if text != format!("{spaces}{bare}") && text != format!("{bare}{spaces}") {
        return Some(text);
    }
    let before = match alignment {
        '<' => 0,
        '>' => missing,
        _ => missing / 2,
    };
    let fill = |count: usize| std::iter::repeat_n(options.fill, count);
    Some(fill(before).chain(bare.chars()).chain(fill(missing - before)).collect())
}

/// A value as `format!` prints it with the usual alignment.
fn plain(leaf: &Leaf, options: Options) -> Option<String> {
    let mut out = String::new();
    let Options { has_plus, is_alternate, has_zero, width, precision, .. } = options;
    macro_rules! flags {
        ($kind:literal) => {
            match (has_plus, is_alternate) {
                (false, false) => flags!(@width "" $kind),
                (false, true) => flags!(@width "#" $kind),
                (true, false) => flags!(@width "+" $kind),
                (true, true) => flags!(@width "+#" $kind),
            }
        };
        (@width $flags:literal $kind:literal) => {
            match (width, precision) {
                (None, None) => write!(out, concat!("{:", $flags, $kind, "}"), *leaf),
                (None, Some(precision)) => write!(out, concat!("{:", $flags, ".1$", $kind, "}"), *leaf, precision),
                (Some(width), None) if has_zero => {
                    write!(out, concat!("{:", $flags, "01$", $kind, "}"), *leaf, width)
                }
                (Some(width), None) => write!(out, concat!("{:", $flags, "1$", $kind, "}"), *leaf, width),
                (Some(width), Some(precision)) if has_zero => {
                    write!(out, concat!("{:", $flags, "01$.2$", $kind, "}"), *leaf, width, precision)
                }
                (Some(width), Some(precision)) => {
                    write!(out, concat!("{:", $flags, "1$.2$", $kind, "}"), *leaf, width, precision)
                }
            }
        };
    }
    let written = match options.kind {
        Kind::Display => flags!(""),
        Kind::Debug => flags!("?"),
        Kind::DebugLowerHex => flags!("x?"),
        Kind::DebugUpperHex => flags!("X?"),
        Kind::LowerHex => flags!("x"),
        Kind::UpperHex => flags!("X"),
        Kind::Octal => flags!("o"),
        Kind::Binary => flags!("b"),
        Kind::LowerExp => flags!("e"),
        Kind::UpperExp => flags!("E"),
        Kind::Pointer => flags!("p"),
    };
    written.ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use warpsmith_device::Dim3;
    use warpsmith_device::print::{Printable, Writer};

    use super::super::value::Reader;
    use super::*;

    /// A value as the host reads it after a device has written it.
    fn travelled<T: Printable + ?Sized>(value: &T) -> Value {
        let mut words = Vec::new();
        value.write(&mut Writer::new(&mut words));
        assert_eq!(words.len() as u64, value.words());
        let mut reader = Reader { words: &words };
        let read = reader.value(T::TYPE).expect("the words are all there");
        assert!(reader.words.is_empty());
        if let Some(short) = words.len().checked_sub(1) {
            assert!(Reader { words: &words[..short] }.value(T::TYPE).is_none());
        }
        read
    }

    /// Compares with what `format!` makes of the same value and options.
    macro_rules! same {
        ($value:expr; $($options:literal)*) => {{
            let value = $value;
            let read = travelled(&value);
            $(
                let expected = format!(concat!("[{:", $options, "}]"), value);
                let found = format(concat!("[{0:", $options, "}]"), std::slice::from_ref(&read));
                assert_eq!(found.as_deref(), Some(expected.as_str()), "{}", $options);
            )*
        }};
    }

    macro_rules! same_numbers {
        ($($value:expr),* $(,)?) => {$(
            same!($value; "" "?" "+" "+?" "#?" "8" "08" "+08" "<9" "^9" ">9" "*<9" "é^+10" "0>7" "^07" "#" "-" "}<4" "{>4" ":>7"
                "1" "40" "^41" "#040?" "x?" "#X?" ".3" "12.2" "012.3" "*>12.0?" "+.1");
        )*};
    }

    macro_rules! same_integers {
        ($($type:ty),*) => {$(
            for value in [0, 1, 7, 100, <$type>::MIN, <$type>::MAX, <$type>::MAX / 3 * 2] {
                same_numbers!(value);
                same!(value; "x" "X" "o" "b" "#x" "#X" "#o" "#b" "08x" "#010x" "#0140b" "*^12x" "+x" "02x?" "#012x?" "e" "E"
                    "12e" "012E" ".2e" "+.1e" "_^+20.3e" "<#9o");
            }
        )*};
    }

    #[test]
    fn integers_print_as_on_the_host() {
        same_integers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
        same_integers!(i32);
        for value in [-1i32, -42, i32::MIN + 1] {
            same_numbers!(value, i64::from(value), i128::from(value), value as i8, value as i16, value as isize);
        }
    }

    #[test]
    fn floats_print_as_on_the_host() {
        let values = [
            0.0f64,
            -0.0,
            1.0,
            -1.5,
            1.0 / 3.0,
            1e-7,
            1e16,
            1e300,
            f64::MIN_POSITIVE / 8.0,
            f64::MAX,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            123_456.789,
            0.5,
            2.5,
        ];
        for value in values {
            let short = value as f32;
            same_numbers!(value, short, f16::from_f64(value), bf16::from_f64(value));
            same!(value; "e" "E" "+e" ".3e" "20.3e" "020.3E" "*^+20.0e" "#e");
            same!(short; "e" "E" "+e" ".3e" "20.3e" "020.3E" "*^+20.0e" "#e");
            same!(f16::from_f64(value); "e" "E" "x" "X" "o" "b");
            same!(bf16::from_f64(value); "e" "E" "x" "X" "o" "b");
        }
    }

    #[test]
    fn other_values_print_as_on_the_host() {
        for value in [false, true] {
            same_numbers!(value);
        }
        for value in ['a', 'é', '漢', '\n', '\'', '"', '\0', char::MAX] {
            same_numbers!(value);
        }
        for value in ["", "a", "12345678", "123456789", "漢字", "quote \" \\ \n tab\t", " spaced "] {
            same_numbers!(value, &&value);
        }
        same_numbers!(Dim3::new(1, u32::MAX, 3));
        same!((); "?" "5?" "*^8?");
        for value in [std::ptr::null::<u8>(), std::ptr::without_provenance(0xdead_beef)] {
            same!(value; "?" "p" "#p" "24p" "#24p" "*^24p" "024p" "<20?" "#?");
        }
    }

    #[test]
    fn lists_print_as_on_the_host() {
        same!([1i32, -2, 3]; "?" "#?" "5?" "*^5?" "+?" "05?" "#x?" "02X?" ".2?");
        same!([1.5f32, f32::NAN]; "?" "#?" ".2?" "08.3?" "+?" "^12.1?");
        same!([["a", "b\n"], ["", "漢"]]; "?" "#?" "9?");
        same!([[[1u8; 2]; 3]; 1]; "?" "#?" "#04x?");
        same!([0u64; 0]; "?" "#?");
        same!([[0u64; 0]; 2]; "?" "#?");
        same!(&[1u128, u128::MAX][..]; "?" "#?" "x?");
        same!(&[&[1u16, 2][..], &[], &[3]][..]; "?" "#?");
        same!([true; 3]; "?" "7?");
        same!(&&[Dim3::new(1, 2, 3)]; "?" "#?");
    }

    #[test]
    fn whole_formats_print_as_on_the_host() {
        let (width, precision, x) = (9usize, 2usize, 1.0f64 / 3.0);
        let values = [travelled(&width), travelled(&precision), travelled(&x), travelled("text")];
        assert_eq!(
            format("{{{2:0$.1$}}} {3}> {2:*^+0$.1$e} }}{{ {3:?}\n", &values).unwrap(),
            format!("{{{x:width$.precision$}}} {}> {x:*^+width$.precision$e} }}{{ {:?}\n", "text", "text")
        );
        assert_eq!(format("no value", &[]).unwrap(), "no value");
        for wrong in ["{0", "{0:", "{x}", "{0:y}", "{4}", "{}", "{0:3$}", "}"] {
            assert!(format(wrong, &values).is_none(), "{wrong}");
        }
    }
}

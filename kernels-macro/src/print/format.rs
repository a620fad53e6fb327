//! A format string taken apart: what is printed where, and how, with every value named by a number.

/// A value that a format prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// One of those after the format, by its place.
    Given(usize),
    /// A variable.
    Captured(String),
}

/// A format whose placeholders name their values by number.
#[derive(Debug, Default)]
pub(super) struct Format {
    /// The format.
    pub(super) text: String,
    /// The values by their numbers, and whether it is the address that is printed.
    pub(super) arguments: Vec<(Argument, bool)>,
}

impl Format {
    /// Takes a format apart; `names` are those of the values after it. `None` where rustc has an error to tell.
    pub(super) fn parse(text: &str, names: &[Option<String>]) -> Option<Self> {
        let mut format = Self::default();
        let mut parser = Parser { rest: text, names, next: 0 };
        loop {
            let end = parser.rest.find(['{', '}']).unwrap_or(parser.rest.len());
            format.text.push_str(&parser.rest[..end]);
            parser.rest = &parser.rest[end..];
            if parser.rest.is_empty() {
                return Some(format);
            }
            if let Some(brace) = ["{{", "}}"].into_iter().find(|brace| parser.take(brace)) {
                format.text.push_str(brace);
            } else if parser.take("{") {
                parser.placeholder(&mut format)?;
            } else {
                return None;
            }
        }
    }

    fn number(&mut self, argument: Argument, address: bool) -> usize {
        let argument = (argument, address);
        self.arguments.iter().position(|known| *known == argument).unwrap_or_else(|| {
            self.arguments.push(argument);
            self.arguments.len() - 1
        })
    }
}

/// A width or a precision.
enum Count {
    Number(String),
    Value(Argument),
}

struct Parser<'a> {
    rest: &'a str,
    names: &'a [Option<String>],
    /// The value of the next placeholder that names none.
    next: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (part, rest) = self.rest.split_at(end);
        self.rest = rest;
        part
    }

    /// The value with this number or name.
    fn argument(&self, name: &str) -> Option<Argument> {
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return self.given(name.parse().ok()?);
        }
        let place = self.names.iter().position(|given| given.as_deref() == Some(name));
        Some(place.map_or_else(|| Argument::Captured(name.to_owned()), Argument::Given))
    }

    fn given(&self, place: usize) -> Option<Argument> {
        (place < self.names.len()).then_some(Argument::Given(place))
    }

    fn next(&mut self) -> Option<Argument> {
        self.next += 1;
        self.given(self.next - 1)
    }

    fn name(&mut self) -> &'a str {
        self.take_while(|c| c.is_alphanumeric() || c == '_')
    }

    /// A number, or a value's number or name and a `$`.
    fn count(&mut self) -> Option<Option<Count>> {
        let before = self.rest;
        let name = self.name();
        if !name.is_empty() && self.take("$") {
            return Some(Some(Count::Value(self.argument(name)?)));
        }
        self.rest = before;
        let digits = self.take_while(|c| c.is_ascii_digit());
        Some((!digits.is_empty()).then(|| Count::Number(digits.to_owned())))
    }

    /// A placeholder behind its opening brace.
    fn placeholder(&mut self, format: &mut Format) -> Option<()> {
        self.take_while(char::is_whitespace);
        let name = self.name();
        self.take_while(char::is_whitespace);
        let mut options = String::new();
        let (mut width, mut precision) = (None, None);
        let mut takes_precision = false;
        let mut kind = "";
        if self.take(":") {
            let mut chars = self.rest.chars();
            let (first, second) = (chars.next()?, chars.next());
            let is_alignment = |c: char| matches!(c, '<' | '^' | '>');
            let fill =
                if second.is_some_and(is_alignment) { first.len_utf8() + 1 } else { usize::from(is_alignment(first)) };
            options.push_str(&self.rest[..fill]);
            self.rest = &self.rest[fill..];
            for flag in ["+", "-", "#"] {
                if self.take(flag) {
                    options.push_str(flag);
                }
            }
            // `0$` is a width.
            if self.rest.starts_with('0') && !self.rest.starts_with("0$") {
                self.take("0");
                options.push('0');
            }
            width = self.count()?;
            if self.take(".") {
                takes_precision = self.take("*");
                if !takes_precision {
                    precision = Some(self.count()??);
                }
            }
            kind = self.take_while(|c| c.is_alphabetic() || c == '?');
            self.take_while(char::is_whitespace);
        }
        if !self.take("}") || !["", "?", "x?", "X?", "o", "x", "X", "p", "b", "e", "E"].contains(&kind) {
            return None;
        }
        if takes_precision {
            // The precision is the value before.
            precision = Some(Count::Value(self.next()?));
        }
        let value = if name.is_empty() { self.next()? } else { self.argument(name)? };
        let number = format.number(value, kind == "p");
        let mut count = |count: Option<Count>| match count {
            None => String::new(),
            Some(Count::Number(number)) => number,
            Some(Count::Value(value)) => format!("{}$", format.number(value, false)),
        };
        let width = count(width);
        let precision = precision.map(|precision| format!(".{}", count(Some(precision)))).unwrap_or_default();
        let options = format!("{options}{width}{precision}{kind}");
        // Without options there is no colon, behind which the closing brace might be taken for a fill character.
        let colon = if options.is_empty() { "" } else { ":" };
        format.text.push_str(&format!("{{{number}{colon}{options}}}"));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, names: &[Option<&str>]) -> Option<(String, Vec<(Argument, bool)>)> {
        let names: Vec<Option<String>> = names.iter().map(|name| name.map(str::to_owned)).collect();
        Format::parse(text, &names).map(|format| (format.text, format.arguments))
    }

    #[test]
    fn placeholders_name_their_values_by_number() {
        use Argument::{Captured, Given};
        let captured = |name: &str| (Captured(name.to_owned()), false);
        let given = |place| (Given(place), false);
        assert_eq!(parse("a {{}} b", &[]).unwrap().0, "a {{}} b");
        assert_eq!(
            parse("{} {x:?} {1:>08.3} {}", &[None, None]).unwrap(),
            ("{0} {1:?} {2:>08.3} {2}".to_owned(), vec![given(0), captured("x"), given(1)])
        );
        assert_eq!(
            parse("{:w$.*} {n:0$e} { n :#010x? }", &[None, None, Some("n")]).unwrap(),
            ("{0:1$.2$} {3:2$e} {3:#010x?}".to_owned(), vec![given(1), captured("w"), given(0), given(2)])
        );
        assert_eq!(parse("{:é^+5}{0:0>3}", &[None]).unwrap().0, "{0:é^+5}{0:0>3}");
        assert_eq!(
            parse("{x:p}{x:?}", &[]).unwrap(),
            ("{0:p}{1:?}".to_owned(), vec![(Captured("x".to_owned()), true), captured("x")])
        );
    }

    #[test]
    fn what_is_no_format_is_left_to_rustc() {
        for text in ["{", "}", "{:", "{}", "{1}", "{:y}", "{0", "{:.}", "{:?x}", "{a b}"] {
            assert!(parse(text, &[]).is_none(), "{text}");
        }
    }
}

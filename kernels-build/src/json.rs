//! A reader for the JSON that cargo prints.

use std::collections::BTreeMap;

/// A JSON value; numbers are not needed here, and kept as their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

const NULL: Value = Value::Null;
const DEEPEST: usize = 128;

impl Value {
    /// Reads one value that fills the text; `None` when the text is anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value(0)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }

    /// The member of an object; null when there is none.
    pub(crate) fn get(&self, name: &str) -> &Self {
        match self {
            Self::Object(members) => members.get(name).unwrap_or(&NULL),
            _ => &NULL,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        *self == Self::Bool(true)
    }

    /// The items of a list; none when it is no list.
    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The texts in a list.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.items().iter().filter_map(Self::text)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, text: &str) -> Option<()> {
        let found = self.bytes[self.at..].starts_with(text.as_bytes());
        self.at += if found { text.len() } else { 0 };
        found.then_some(())
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.space();
        match self.bytes.get(self.at)? {
            b'"' => Some(Value::Text(self.string()?)),
            b'{' | b'[' if depth == DEEPEST => None,
            b'{' => {
                let mut members = BTreeMap::new();
                self.list(b'}', |reader| {
                    reader.space();
                    let name = reader.string()?;
                    reader.space();
                    reader.take(":")?;
                    members.insert(name, reader.value(depth + 1)?);
                    Some(())
                })?;
                Some(Value::Object(members))
            }
            b'[' => {
                let mut items = Vec::new();
                self.list(b']', |reader| {
                    items.push(reader.value(depth + 1)?);
                    Some(())
                })?;
                Some(Value::List(items))
            }
            b't' => self.take("true").map(|()| Value::Bool(true)),
            b'f' => self.take("false").map(|()| Value::Bool(false)),
            b'n' => self.take("null").map(|()| Value::Null),
            b'-' | b'0'..=b'9' => {
                let start = self.at;
                while matches!(self.bytes.get(self.at), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
                    self.at += 1;
                }
                Some(Value::Number(String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned()))
            }
            _ => None,
        }
    }

    /// Reads from an opening bracket to its `end`, with commas between the items.
    fn list(&mut self, end: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.space();
        if self.bytes.get(self.at) == Some(&end) {
            self.at += 1;
            return Some(());
        }
        loop {
            item(self)?;
            self.space();
            let next = *self.bytes.get(self.at)?;
            self.at += 1;
            match next {
                b',' => {}
                next if next == end => return Some(()),
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut out = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(out).ok(),
                b'\\' => {
                    let escape = *self.bytes.get(self.at)?;
                    self.at += 1;
                    let char = match escape {
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'u' => self.unicode()?,
                        b'"' | b'\\' | b'/' => char::from(escape),
                        _ => return None,
                    };
                    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => out.push(byte),
            }
        }
    }

    fn unicode(&mut self) -> Option<char> {
        let high = self.hex()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        self.take("\\u")?;
        let low = self.hex()?.checked_sub(0xdc00).filter(|&low| low < 0x400)?;
        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low)
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = std::str::from_utf8(self.bytes.get(self.at..self.at + 4)?).ok()?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn reads_what_cargo_writes() {
        let text = r#" {"reason":"compiler-artifact","target":{"kind":["lib"],"test":true},"n":-1.5e3,"x":null,
            "escapes":"a\"\\\/\n\u00e9\ud83e\udd80é","empty":[],"none":{}} "#;
        let value = Value::parse(text).expect("valid");
        assert_eq!(value.get("reason").text(), Some("compiler-artifact"));
        assert_eq!(value.get("target").get("kind").texts().collect::<Vec<_>>(), ["lib"]);
        assert!(value.get("target").get("test").is_true());
        assert_eq!(value.get("n"), &Value::Number("-1.5e3".into()));
        assert_eq!(value.get("escapes").text(), Some("a\"\\/\né🦀é"));
        assert_eq!(value.get("absent").get("deeper"), &Value::Null);
        assert_eq!(value.get("empty").items(), []);
    }

    #[test]
    fn refuses_what_is_no_json() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "[1,]", "{\"a\"}", "\"\\u12\"", "\"\\ud800x\"", "nul", "1 2", "{\"a\":1,}", &deep] {
            assert_eq!(Value::parse(text), None, "{text:.20}");
        }
    }
}

//! What a compiled crate depends on: source files and environment variables, from rustc's dep-info.

use std::path::PathBuf;

/// Contents of a dep-info file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DepInfo {
    /// Files, as rustc names them: relative to its folder.
    pub(crate) files: Vec<PathBuf>,
    /// Environment variables.
    pub(crate) variables: Vec<String>,
}

impl DepInfo {
    /// Reads a makefile-style dep-info.
    pub(crate) fn parse(text: &str) -> Self {
        let mut info = Self::default();
        for line in text.lines() {
            if let Some(variable) = line.strip_prefix("# env-dep:") {
                let name = variable.split('=').next().unwrap_or_default();
                // What cargo sets is none of the user's.
                if !name.starts_with("CARGO") && name != "OUT_DIR" {
                    info.variables.push(name.to_owned());
                }
            } else if let Some((_, files)) = line.split_once(": ").filter(|_| !line.starts_with('#')) {
                info.files.extend(words(files).into_iter().map(PathBuf::from));
            }
        }
        info.files.sort();
        info.files.dedup();
        info
    }
}

/// Words between spaces; a backslash keeps the space after it.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&' ') => {
                words.last_mut().expect("never empty").push(' ');
                characters.next();
            }
            ' ' => words.push(String::new()),
            _ => words.last_mut().expect("never empty").push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_variables() {
        let text = "/t/app.d: src/main.rs src/a\\ b.rs /abs/x.txt\n\n/t/app.rmeta: src/main.rs\n\nsrc/main.rs:\n\
                    src/a\\ b.rs:\n# env-dep:CARGO_PKG_NAME=app\n# env-dep:MINE=1\n# env-dep:UNSET\n";
        let info = DepInfo::parse(text);
        assert_eq!(info.files, ["/abs/x.txt", "src/a b.rs", "src/main.rs"].map(PathBuf::from));
        assert_eq!(info.variables, ["MINE", "UNSET"]);
    }
}

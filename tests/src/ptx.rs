//! The PTX that a test program carries, and questions about its text.

use std::fmt::Write;

use warpsmith::{Image, KernelRecord};

/// Every kernel instance of this program.
///
/// # Panics
/// When the device build of one of its targets failed, or what it carries cannot be read.
#[must_use]
pub fn kernels() -> Vec<&'static KernelRecord> {
    let failures = warpsmith::failed_targets().expect("the linker put whole bundles into this program");
    let text = failures.iter().fold(String::new(), |mut text, (target, message)| {
        let _ = write!(text, "\n{target}: {message}");
        text
    });
    assert!(failures.is_empty(), "the device build failed for:{text}");
    warpsmith::compiled_kernels().expect("the linker put whole bundles into this program")
}

/// The PTX of one kernel, for asking about: every form of it for one architecture.
#[derive(Debug)]
pub struct Text {
    kernel: String,
    /// The form for launches along x alone, and the one for all.
    forms: Vec<String>,
}

/// The PTX of the kernel of this name in the module `module` (`module_path!()`), for the highest architecture that was built.
///
/// # Panics
/// When the program carries none, or more than one.
#[must_use]
pub fn of(module: &str, name: &str) -> Text {
    text(module, name, |_| true, None)
}

/// As [`of`], of the one instance of a generic kernel that is generic over `arguments`, as `type_name` writes them.
///
/// # Panics
/// As [`of`].
#[must_use]
pub fn of_instance(module: &str, name: &str, arguments: &str) -> Text {
    text(module, name, |instance| instance.ends_with(&format!("<{arguments}>")), None)
}

/// As [`of`], for this architecture; `None` after saying so when `WARPSMITH_ARCHITECTURES` left it out.
///
/// # Panics
/// As [`of`], and when the architecture was not built though that variable is not set.
#[must_use]
pub fn of_architecture(module: &str, name: &str, architecture: u32) -> Option<Text> {
    let text = text(module, name, |_| true, Some(architecture));
    if text.forms.is_empty() {
        assert!(std::env::var_os("WARPSMITH_ARCHITECTURES").is_some(), "`{name}` has no PTX for sm_{architecture}");
        println!("skipped: WARPSMITH_ARCHITECTURES leaves out sm_{architecture}");
        return None;
    }
    Some(text)
}

fn text(module: &str, name: &str, instance: impl Fn(&str) -> bool, architecture: Option<u32>) -> Text {
    let found: Vec<_> =
        kernels().into_iter().filter(|kernel| kernel.key.module_path == module && kernel.key.name == name).collect();
    let instances: Vec<&str> = found.iter().map(|kernel| kernel.key.instance.as_str()).collect();
    let found: Vec<_> = found.iter().filter(|kernel| instance(&kernel.key.instance)).collect();
    let [kernel] = found[..] else {
        panic!("{} kernels are meant by {module}::{name}, not one; there are {instances:?}", found.len())
    };
    let highest = kernel.images.iter().map(|image| image.architecture).max().expect("a kernel has images");
    let architecture = architecture.unwrap_or(highest);
    let forms = kernel.images.iter().filter(|image| image.architecture == architecture).map(code).collect();
    Text { kernel: name.to_owned(), forms }
}

/// An image's text without comments and debug sections, whose words would be found by mistake.
fn code(image: &Image) -> String {
    let mut code = String::new();
    for line in image.ptx.lines() {
        let line = line.split("//").next().unwrap_or("").trim_end();
        if line.trim_start().starts_with(".section") {
            break;
        }
        if !line.is_empty() {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Counts branches to labels that stand earlier, but for those with which a panic looks at its record once more.
fn backward_branches(form: &str) -> usize {
    let mut seen = std::collections::HashSet::new();
    let mut count = 0;
    let mut lines = form.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(label) = line.trim().strip_suffix(':') {
            let is_panic = lines.peek().is_some_and(|line| line.trim().starts_with("ld.volatile.b64"));
            if !is_panic {
                seen.insert(label);
            }
        } else if let Some((_, rest)) = line.split_once("bra") {
            let label = rest.trim_start_matches(".uni").trim().trim_end_matches(';');
            count += usize::from(seen.contains(label));
        }
    }
    count
}

impl Text {
    /// How often `part` occurs in each form.
    #[must_use]
    pub fn counts(&self, part: &str) -> Vec<usize> {
        self.forms.iter().map(|form| form.matches(part).count()).collect()
    }

    /// How many branches go back to an earlier label, in each form: one for each loop of the kernel's own.
    #[must_use]
    pub fn loops(&self) -> Vec<usize> {
        self.forms.iter().map(|form| backward_branches(form)).collect()
    }

    /// What stands before the first `part`, in each form that has one.
    #[must_use]
    pub fn before(&self, part: &str) -> Vec<&str> {
        self.forms.iter().filter_map(|form| Some(form.split_once(part)?.0)).collect()
    }

    /// Demands that `part` occurs in every form.
    ///
    /// # Panics
    /// When it does not, with the whole text.
    pub fn check(&self, part: &str) -> &Self {
        self.check_any(&[part])
    }

    /// Demands that one of `parts` occurs in every form.
    ///
    /// # Panics
    /// When none does, with the whole text.
    pub fn check_any(&self, parts: &[&str]) -> &Self {
        for form in &self.forms {
            assert!(parts.iter().any(|part| form.contains(part)), "`{}` has none of {parts:?}:\n{form}", self.kernel);
        }
        self
    }

    /// Demands that `part` occurs in no form.
    ///
    /// # Panics
    /// When it does, with the whole text.
    pub fn check_not(&self, part: &str) -> &Self {
        self.check_count(part, 0)
    }

    /// Demands that `part` occurs `count` times in every form.
    ///
    /// # Panics
    /// When it does not, with the whole text.
    pub fn check_count(&self, part: &str, count: usize) -> &Self {
        for (form, found) in self.forms.iter().zip(self.counts(part)) {
            assert_eq!(found, count, "`{}` has {part:?} {found} times, not {count}:\n{form}", self.kernel);
        }
        self
    }
}

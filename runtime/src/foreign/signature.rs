//! What a kernel takes, as the module says it.

/// One parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Size in bytes.
    pub(crate) bytes: usize,
    /// Alignment in bytes; 1 where the module does not say.
    pub(crate) align: usize,
}

/// A kernel as its module describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntrySignature {
    /// The name that the driver knows it by.
    pub(crate) name: String,
    /// `None` where they could not be read.
    pub(crate) parameters: Option<Vec<Parameter>>,
}

impl EntrySignature {
    /// The parameters' sizes in bytes.
    pub(crate) fn sizes(&self) -> Option<Vec<usize>> {
        Some(self.parameters.as_ref()?.iter().map(|parameter| parameter.bytes).collect())
    }
}

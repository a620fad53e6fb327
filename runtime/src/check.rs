//! The checker: what it knows of a launch's memory and threads while checked code runs, and what it finds.

pub(crate) mod code;
mod hooks;
mod options;
mod session;
pub(crate) mod site;
mod traffic;

pub use options::CheckOptions;
pub use traffic::{LineTraffic, MemoryReport, MemorySpace};

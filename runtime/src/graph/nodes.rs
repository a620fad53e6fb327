//! A graph's nodes, and what must come after what.

use std::fmt;
use std::sync::Arc;

use super::joined;
use super::recorder::{MemoryUse, Work};
use crate::constants::ModuleConstants;
use crate::memory::Access;
use crate::module::LoadedKernel;

/// A piece of work in a graph.
pub(super) struct Node {
    pub(super) work: Work,
    uses: Vec<MemoryUse>,
    /// The nodes that it comes after, all of which were added before it.
    pub(super) after: Vec<usize>,
}

/// The nodes in the order in which they were added, which is one that they can run in.
///
/// Invariant: of two nodes that use the same memory, which one of them writes, one comes after the other.
#[derive(Default)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    /// Adds a node after those named and after all that it must not run beside; gives its place.
    pub(super) fn push(&mut self, work: Work, uses: Vec<MemoryUse>, mut after: Vec<usize>) -> usize {
        let index = self.0.len();
        after.sort_unstable();
        after.dedup();
        // The latest first: what comes before it need not be named again.
        for other in (0..index).rev() {
            if conflict(&self.0[other].uses, &uses) && !after.iter().any(|&at| at == other || self.is_after(at, other))
            {
                after.push(other);
            }
        }
        self.0.push(Node { work, uses, after });
        index
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, index: usize) -> &Node {
        &self.0[index]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }

    /// Whether `node` comes after `other`, over others or not.
    fn is_after(&self, node: usize, other: usize) -> bool {
        let mut seen = vec![false; node + 1];
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            for &before in &self.0[at].after {
                if before == other {
                    return true;
                }
                // Only later nodes than `other` can come after it.
                if before > other && !std::mem::replace(&mut seen[before], true) {
                    open.push(before);
                }
            }
        }
        false
    }

    /// A node that would run beside `index` and use the same memory, which one of the two writes.
    pub(super) fn conflict(&self, index: usize, uses: &[MemoryUse]) -> Option<usize> {
        let beside = |&other: &usize| {
            let (later, earlier) = (index.max(other), index.min(other));
            other != index && !self.is_after(later, earlier)
        };
        (0..self.0.len()).filter(|&other| conflict(&self.0[other].uses, uses)).find(beside)
    }

    /// Whether the work is a launch of the same code as the node's.
    pub(super) fn is_same_kernel(&self, index: usize, work: &Work) -> bool {
        match (&self.0[index].work, work) {
            (Work::Kernel { launch: own, .. }, Work::Kernel { launch: other, .. }) => {
                Arc::ptr_eq(&own.kernel, &other.kernel)
            }
            _ => false,
        }
    }

    /// Gives a node other work; the caller has looked for conflicts.
    pub(super) fn replace(&mut self, index: usize, work: Work, uses: Vec<MemoryUse>) {
        self.0[index].work = work;
        self.0[index].uses = uses;
    }

    /// Each piece of memory once, with all that is done to it.
    pub(super) fn uses(&self) -> Vec<MemoryUse> {
        let mut all: Vec<MemoryUse> = Vec::new();
        for MemoryUse { storage, access } in self.0.iter().flat_map(|node| &node.uses) {
            match all.iter_mut().find(|known| Arc::ptr_eq(&known.storage, storage)) {
                Some(known) => known.access = joined(known.access, *access),
                None => all.push(MemoryUse { storage: storage.clone(), access: joined(*access, Access::Read) }),
            }
        }
        all
    }

    fn kernels(&self) -> impl DoubleEndedIterator<Item = &LoadedKernel> {
        self.0.iter().filter_map(|node| match &node.work {
            Work::Kernel { launch, .. } => Some(&*launch.kernel),
            _ => None,
        })
    }

    pub(super) fn last_kernel(&self) -> Option<&LoadedKernel> {
        self.kernels().next_back()
    }

    /// The kernels that read constants, each once.
    pub(super) fn kernels_with_constants(&self) -> impl Iterator<Item = (&str, &ModuleConstants)> {
        let mut seen: Vec<u32> = Vec::new();
        self.kernels().filter_map(move |kernel| {
            let constants = kernel.gpu()?.constants.as_ref()?;
            if seen.contains(&kernel.number()) {
                return None;
            }
            seen.push(kernel.number());
            Some((kernel.path(), constants))
        })
    }
}

fn conflict(uses: &[MemoryUse], others: &[MemoryUse]) -> bool {
    uses.iter().any(|one| others.iter().any(|other| one.conflicts(other)))
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|node| node.work.to_string())).finish()
    }
}

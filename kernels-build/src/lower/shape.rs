//! Turns the markers of hints into what LLVM knows: those of `#[unroll]` and `#[no_unroll]` into metadata on the edges that close
//! the loop, those of `likely` and `unlikely` into expectations.
//!
//! A marker stands first in the loop's body, where it is part of a loop of the control flow graph long before iterators are
//! inlined; what the optimiser makes of the loop keeps its metadata.

use std::collections::{HashMap, HashSet};

use super::names::{EXPECT, LOOP_BEFORE, LOOP_UNROLL};
use crate::llvm::{Block, Context, Metadata, Module, Value, opcode};

/// Hands each hint to its loop, and removes the markers.
pub(super) fn annotate(context: &Context, module: &Module) {
    let calls = |name| {
        let users = module.function(name).map(Value::users).unwrap_or_default();
        users.into_iter().filter(|user| user.is_instruction() && user.opcode() == opcode::CALL)
    };
    let mut functions: HashMap<Value, Vec<Value>> = HashMap::new();
    for marker in calls(LOOP_UNROLL) {
        functions.entry(marker.parent_function()).or_default().push(marker);
    }
    for (function, markers) in functions {
        for marker in markers {
            let [before, count] = marker.arguments()[..] else { continue };
            // A hint may add a block to its loop, so loops are looked for each time.
            let loops = loops_of(&Graph::of(function));
            let inside = loops.iter().filter(|each| each.body.contains(&marker.block()));
            let innermost = inside.min_by_key(|each| each.body.len());
            // A body that always leaves is no loop; its hint is not for the loop around it.
            let own = innermost.filter(|each| !before.is_instruction() || !each.body.contains(&before.block()));
            if let (Some(own), Some(node)) = (own, count.as_int().and_then(|count| node(context, count))) {
                for latch in &own.latches {
                    own_latch(context, module, own, *latch, &loops).terminator().set_loop(context, node);
                }
            }
            marker.erase();
        }
    }
    for before in calls(LOOP_BEFORE) {
        before.replace_with(context.int(32).int_value(0));
    }
    for expectation in calls(EXPECT) {
        let ty = expectation.called_type();
        let builder = context.builder();
        builder.before(expectation);
        let intrinsic = module.declare("llvm.expect.i1", ty);
        expectation.replace_with(builder.call(ty, intrinsic, &expectation.arguments()));
    }
}

/// Removes what kept the loops' ends apart, once the optimiser is through with them.
pub(super) fn release(module: &Module) {
    for anchor in module.function(ANCHOR).map(Value::users).unwrap_or_default() {
        anchor.erase();
    }
}

/// Does nothing, but is never removed: a block that holds it is not merged into another.
const ANCHOR: &str = "llvm.sideeffect";

fn node(context: &Context, count: u64) -> Option<Metadata> {
    Some(match u32::try_from(count).ok()? {
        0 => context.loop_node("llvm.loop.unroll.full", None),
        1 => context.loop_node("llvm.loop.unroll.disable", None),
        count => context.loop_node("llvm.loop.unroll.count", Some(count)),
    })
}

/// The block that closes the loop and keeps doing so. Where an inner loop's exit leads straight back to the outer loop's
/// start, one branch would end in both loops, and what it carries would be lost when the inner one changes its shape.
fn own_latch(context: &Context, module: &Module, own: &Loop<Block>, latch: Block, loops: &[Loop<Block>]) -> Block {
    let inner: Vec<_> = loops.iter().filter(|other| is_inside(other, own)).collect();
    if inner.is_empty() {
        return latch;
    }
    let builder = context.builder();
    let place = if inner.iter().any(|other| other.body.contains(&latch)) {
        let new = latch.parent().append_block(context, "");
        for phi in own.header.instructions() {
            let Some(mut incoming) = phi.incoming() else { break };
            // A switch may lead here by several of its edges, all with one value; the new block has one edge.
            let value = incoming.iter().find(|(_, from)| *from == latch).map(|(value, _)| *value);
            incoming.retain(|(_, from)| *from != latch);
            incoming.extend(value.map(|value| (value, new)));
            builder.before(phi);
            let replacement = builder.phi(phi.ty(), &incoming);
            phi.replace_with(replacement);
        }
        latch.redirect(own.header, new);
        builder.at_end(new);
        builder.branch(own.header);
        new
    } else {
        latch
    };
    let ty = context.void().function(&[]);
    builder.before(place.terminator());
    builder.call(ty, module.declare(ANCHOR, ty), &[]);
    place
}

fn is_inside(inner: &Loop<Block>, outer: &Loop<Block>) -> bool {
    inner.header != outer.header && outer.body.contains(&inner.header)
}

/// A loop: the blocks that are in it, and those that close it.
struct Loop<N> {
    header: N,
    body: HashSet<N>,
    latches: Vec<N>,
}

/// The control flow from an entry, every block by its number in an order in which a block comes before those it leads to,
/// but for edges that close loops.
struct Graph<N> {
    nodes: Vec<N>,
    predecessors: Vec<Vec<usize>>,
}

impl Graph<Block> {
    fn of(function: Value) -> Self {
        Self::new(function.blocks()[0], |block| block.successors())
    }
}

impl<N: Copy + Eq + std::hash::Hash> Graph<N> {
    fn new(entry: N, successors: impl Fn(N) -> Vec<N>) -> Self {
        let mut seen = HashSet::from([entry]);
        let mut finished = Vec::new();
        let mut path = vec![(entry, successors(entry))];
        while let Some((node, rest)) = path.last_mut() {
            match rest.pop() {
                Some(next) if seen.insert(next) => path.push((next, successors(next))),
                Some(_) => {}
                None => {
                    finished.push(*node);
                    path.pop();
                }
            }
        }
        finished.reverse();
        let numbers: HashMap<N, usize> = finished.iter().enumerate().map(|(i, node)| (*node, i)).collect();
        let mut predecessors = vec![Vec::new(); finished.len()];
        for (i, node) in finished.iter().enumerate() {
            for next in successors(*node) {
                predecessors[numbers[&next]].push(i);
            }
        }
        Self { nodes: finished, predecessors }
    }

    /// For each block the one that every way to it passes last; the entry's is itself.
    fn dominators(&self) -> Vec<usize> {
        let mut over: Vec<Option<usize>> = vec![None; self.nodes.len()];
        over[0] = Some(0);
        let mut changed = true;
        while changed {
            changed = false;
            for node in 1..self.nodes.len() {
                let known = self.predecessors[node].iter().copied().filter(|p| over[*p].is_some());
                let new = known.reduce(|mut a, mut b| {
                    while a != b {
                        // The later of the two cannot dominate the earlier.
                        let later = if a > b { &mut a } else { &mut b };
                        *later = over[*later].expect("blocks on the way up were reached");
                    }
                    a
                });
                if over[node] != new {
                    over[node] = new;
                    changed = true;
                }
            }
        }
        over.into_iter().map(|node| node.expect("every block is reached from the entry")).collect()
    }
}

/// The natural loops: one for each block that closes a ring with an edge from a block that it dominates.
fn loops_of<N: Copy + Eq + std::hash::Hash>(graph: &Graph<N>) -> Vec<Loop<N>> {
    let over = graph.dominators();
    let dominates = |above: usize, mut node: usize| {
        while node > above {
            node = over[node];
        }
        node == above
    };
    let mut loops = Vec::new();
    for header in 0..graph.nodes.len() {
        let closing = graph.predecessors[header].iter().copied();
        let latches: Vec<usize> = closing.filter(|latch| dominates(header, *latch)).collect();
        if latches.is_empty() {
            continue;
        }
        let mut body = HashSet::from([header]);
        let mut ahead = latches.clone();
        while let Some(node) = ahead.pop() {
            if body.insert(node) {
                ahead.extend(&graph.predecessors[node]);
            }
        }
        let node = |i: &usize| graph.nodes[*i];
        loops.push(Loop {
            header: node(&header),
            body: body.iter().map(node).collect(),
            latches: latches.iter().map(node).collect(),
        });
    }
    loops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(u32, u32)]) -> Vec<(Vec<u32>, Vec<u32>)> {
        let graph = Graph::new(0, |node| edges.iter().filter(|(from, _)| *from == node).map(|(_, to)| *to).collect());
        let sorted = |nodes: Vec<u32>| {
            let mut nodes = nodes;
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let mut all: Vec<_> = loops_of(&graph)
            .into_iter()
            .map(|each| (sorted(each.body.into_iter().collect()), sorted(each.latches)))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn nested_loops_are_told_apart() {
        // 1 heads the outer loop, 2 the inner one; 3 continues the inner loop early, 5 leaves both.
        let edges = [(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 2), (2, 6), (6, 1), (4, 5), (1, 5)];
        assert_eq!(found(&edges), [(vec![1, 2, 3, 4, 6], vec![6]), (vec![2, 3, 4], vec![3, 4])]);
    }

    #[test]
    fn branches_and_rings_with_two_entries_are_no_loops() {
        assert!(found(&[(0, 1), (0, 2), (1, 3), (2, 3)]).is_empty());
        assert!(found(&[(0, 1), (0, 2), (1, 2), (2, 1), (2, 3)]).is_empty());
        assert_eq!(found(&[(0, 0), (0, 1)]), [(vec![0], vec![0])]);
    }
}

//! A graph as text in the DOT language.

use std::fmt::Write;

use super::nodes::Nodes;

/// A line for each node, then a line for each order between two.
pub(super) fn text(nodes: &Nodes) -> String {
    let mut text = "digraph {\n    node [shape=box]\n".to_owned();
    for (index, node) in nodes.iter().enumerate() {
        let label = node.work.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace(", ", "\\n");
        writeln!(text, "    n{index} [label=\"{label}\"]").expect("a string takes all text");
    }
    for (index, node) in nodes.iter().enumerate() {
        for before in &node.after {
            writeln!(text, "    n{before} -> n{index}").expect("a string takes all text");
        }
    }
    text.push_str("}\n");
    text
}

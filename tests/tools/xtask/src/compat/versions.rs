//! Version nodes, from the tables of exported names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A version node: the one that it inherits from, and its names.
pub(super) struct Node {
    pub(super) version: String,
    pub(super) inherits: Option<String>,
    pub(super) names: Vec<String>,
}

/// The family of a version, and its numbers.
fn parts(version: &str) -> (&str, Vec<u32>) {
    let (family, numbers) = version.rsplit_once('_').unwrap_or((version, ""));
    let numbers = numbers.split('.').filter_map(|part| part.parse().ok());
    (family, numbers.collect())
}

/// The nodes of a table in their order. Public versions inherit from the ones before them.
pub(super) fn nodes(table: &str) -> Vec<Node> {
    let mut all: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (Some(version), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        all.entry((parts(version), version))
            .or_default()
            .push(name.to_owned());
    }
    let mut nodes: Vec<Node> = Vec::new();
    for (((family, _), version), names) in all {
        let before = nodes.last().map(|node| node.version.clone());
        let inherits =
            before.filter(|before| parts(before).0 == family && !family.ends_with("PRIVATE"));
        nodes.push(Node {
            version: version.to_owned(),
            inherits,
            names,
        });
    }
    nodes
}

/// The linker's version script. Nothing else is exported.
pub(super) fn script(nodes: &[Node], hides: bool) -> String {
    let mut text = String::new();
    for (at, node) in nodes.iter().enumerate() {
        let _ = write!(text, "{} {{", node.version);
        if !node.names.is_empty() {
            let _ = write!(text, " global: {};", node.names.join("; "));
        }
        if at == 0 && hides {
            text.push_str(" local: *;");
        }
        let _ = writeln!(text, " }} {};", node.inherits.as_deref().unwrap_or(""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{CM, VERBS};
    use super::*;

    #[test]
    fn versions_inherit_in_the_order_of_their_numbers() {
        let nodes: Vec<_> = [VERBS, CM].into_iter().flat_map(nodes).collect();
        let of = |version: &str| {
            let node = nodes.iter().find(|node| node.version == version);
            node.and_then(|node| node.inherits.clone())
        };
        assert_eq!(of("IBVERBS_1.1").as_deref(), Some("IBVERBS_1.0"));
        assert_eq!(of("IBVERBS_1.10").as_deref(), Some("IBVERBS_1.9"));
        assert_eq!(of("MLX5_1.26").as_deref(), Some("MLX5_1.25.1"));
        assert_eq!(of("IBVERBS_PRIVATE_65"), None);
        assert_eq!(of("MLX5_1.0"), None);
        assert_eq!(of("RDMACM_1.3").as_deref(), Some("RDMACM_1.2"));
        assert_eq!(of("RDMACM_1.0"), None);
    }
}

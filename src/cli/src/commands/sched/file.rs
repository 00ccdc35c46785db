//! Trees in files.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uverbs::mlx5::sched::{Element, ElementAttr, Kind, Limits, Tree};

use crate::failure::{Failure, Result};

/// A tree as it is written in a file.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    #[serde(default)]
    children: Vec<WrittenElement>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WrittenElement {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_mbps: Option<u32>,
    /// Its presence makes the element a node, even if the list is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    children: Option<Vec<WrittenElement>>,
}

/// Reads a tree, and checks it as far as that is possible without a device.
pub(super) fn read(path: &Path) -> Result<Tree> {
    let of_file = |failure: Failure| failure.while_doing(path.display());
    let text = fs::read_to_string(path).map_err(|error| of_file(Failure::new(error)))?;
    let is_json = path.extension().is_some_and(|end| end == "json");
    let tree = parse(&text, is_json).map_err(of_file)?;
    Limits::none()
        .check(&tree)
        .map_err(|error| of_file(Failure::from(error)))?;
    Ok(tree)
}

fn parse(text: &str, is_json: bool) -> Result<Tree> {
    let written: Written = if is_json {
        serde_json::from_str(text).map_err(Failure::usage)?
    } else {
        toml::from_str(text).map_err(|error| Failure::usage(error.to_string().trim_end()))?
    };
    Ok(Tree::new(written.children.into_iter().map(Element::from)))
}

impl From<WrittenElement> for Element {
    fn from(written: WrittenElement) -> Self {
        Self {
            name: written.name,
            attr: ElementAttr {
                share: written.share,
                max_mbps: written.max_mbps,
            },
            kind: match written.children {
                None => Kind::Leaf,
                Some(below) => Kind::Node(below.into_iter().map(Self::from).collect()),
            },
        }
    }
}

impl From<&Tree> for Written {
    fn from(tree: &Tree) -> Self {
        Self {
            children: tree.children.iter().map(WrittenElement::from).collect(),
        }
    }
}

impl From<&Element> for WrittenElement {
    fn from(element: &Element) -> Self {
        Self {
            name: element.name.clone(),
            share: element.attr.share,
            max_mbps: element.attr.max_mbps,
            children: match &element.kind {
                Kind::Leaf => None,
                Kind::Node(below) => Some(below.iter().map(Self::from).collect()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "
        [[children]]
        name = \"web\"
        share = 7
        [[children.children]]
        name = \"hot\"
        [[children]]
        name = \"bulk\"
        max_mbps = 4096
    ";

    #[test]
    fn toml_and_json_say_the_same() {
        let tree = parse(TOML, false).unwrap();
        let meant = Tree::new([
            Element::node("web", [Element::leaf("hot")]).share(7),
            Element::leaf("bulk").max_mbps(4096),
        ]);
        assert_eq!(tree, meant);
        let json = serde_json::to_string(&Written::from(&tree)).unwrap();
        assert_eq!(parse(&json, true).unwrap(), meant);
    }

    #[test]
    fn what_is_misspelt_is_reported_with_its_line() {
        let failure = parse("[[children]]\nname = \"a\"\nshares = 1\n", false).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains("shares") && text.contains("line 3"), "{text}");
    }
}

//! A tree described as data.

use crate::prm::ElementAttr;

/// A tree of elements, described. The root itself has neither name nor attributes.
///
/// ```
/// use uverbs_mlx5::sched::{Element, Tree};
///
/// let tree = Tree::new([
///     Element::leaf("g1").share(7),
///     Element::leaf("g2").share(3).max_mbps(4096),
/// ]);
/// assert_eq!(
///     tree.to_string(),
///     "root\n├── g1  70%\n└── g2  30%  at most 4096 Mb/s\n",
/// );
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tree {
    /// The elements below the root.
    pub children: Vec<Element>,
}

/// An element of a described tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Element {
    /// Its name. Names are unique in a tree, and identify the elements of two trees with each
    /// other.
    pub name: String,
    /// Its share and its cap.
    pub attr: ElementAttr,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of an element of a described tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Queues are attached to it.
    Leaf,
    /// A node with these elements below it.
    Node(Vec<Element>),
}

/// The position of an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// Its parent; `None` is the root.
    pub(super) parent: Option<&'a Element>,
    /// The number of levels below the root: 1 for its children.
    pub(super) depth: u32,
}

impl Tree {
    /// A tree with these elements below its root.
    pub fn new(children: impl IntoIterator<Item = Element>) -> Self {
        Self {
            children: children.into_iter().collect(),
        }
    }

    /// The element of that name.
    pub fn find(&self, name: &str) -> Option<&Element> {
        self.walk()
            .map(|(element, _)| element)
            .find(|element| element.name == name)
    }

    /// Every element, parents before children.
    pub(super) fn walk(&self) -> impl Iterator<Item = (&Element, Place<'_>)> {
        let mut stack: Vec<(&Element, Place<'_>)> = Vec::new();
        let top = Place {
            parent: None,
            depth: 1,
        };
        stack.extend(self.children.iter().rev().map(|child| (child, top)));
        std::iter::from_fn(move || {
            let (element, place) = stack.pop()?;
            let below = Place {
                parent: Some(element),
                depth: place.depth.saturating_add(1),
            };
            stack.extend(element.children().iter().rev().map(|child| (child, below)));
            Some((element, place))
        })
    }
}

impl Element {
    /// A leaf: queues are attached to it.
    pub fn leaf(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            attr: ElementAttr::new(),
            kind: Kind::Leaf,
        }
    }

    /// A node with these elements below it.
    pub fn node(name: impl Into<String>, children: impl IntoIterator<Item = Self>) -> Self {
        Self {
            name: name.into(),
            attr: ElementAttr::new(),
            kind: Kind::Node(children.into_iter().collect()),
        }
    }

    /// Sets its weight among its siblings; 0 is the device's default.
    #[must_use]
    pub fn share(mut self, share: u32) -> Self {
        self.attr.share = Some(share);
        self
    }

    /// Sets its highest send rate, Mb/s; 0 is no limit.
    #[must_use]
    pub fn max_mbps(mut self, max_mbps: u32) -> Self {
        self.attr.max_mbps = Some(max_mbps);
        self
    }

    /// The elements below it.
    pub fn children(&self) -> &[Self] {
        match &self.kind {
            Kind::Leaf => &[],
            Kind::Node(children) => children,
        }
    }

    /// Whether it is a leaf.
    pub fn is_leaf(&self) -> bool {
        matches!(self.kind, Kind::Leaf)
    }
}

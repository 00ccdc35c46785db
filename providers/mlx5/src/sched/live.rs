//! The elements of an applied tree: a device's, or a test's.

use std::fmt::Debug;

use uverbs_core::{DestroyError, Error, ErrorKind, Op, Result};

use super::element::{Leaf, Node, Scheduler};
use crate::prm::ElementAttr;

/// Something in which elements are created.
pub trait Elements {
    /// An element that exists.
    type Element: Debug;

    /// Creates the root.
    ///
    /// # Errors
    /// Those of the device.
    fn create_root(&self) -> Result<Self::Element>;

    /// Creates a leaf or a node below `parent`.
    ///
    /// # Errors
    /// Those of the device.
    fn create(
        &self,
        parent: &Self::Element,
        leaf: bool,
        attr: &ElementAttr,
    ) -> Result<Self::Element>;

    /// Changes the fields present in `attr`.
    ///
    /// # Errors
    /// Those of the device.
    fn modify(&self, element: &Self::Element, attr: &ElementAttr) -> Result<()>;

    /// Destroys an element, or returns it, unless it is unknown whether it is gone.
    ///
    /// # Errors
    /// Those of the device.
    fn destroy(&self, element: Self::Element) -> Result<(), DestroyError<Self::Element>>;

    /// Whether queues are attached to a leaf, so that it cannot be destroyed.
    fn is_used(&self, element: &Self::Element) -> bool;
}

/// An element of a device.
#[derive(Clone, Debug)]
pub enum LiveElement {
    /// A node.
    Node(Node),
    /// A leaf.
    Leaf(Leaf),
}

impl LiveElement {
    /// The device's number of the element.
    pub fn id(&self) -> u32 {
        match self {
            Self::Node(node) => node.id(),
            Self::Leaf(leaf) => leaf.id(),
        }
    }
}

impl Elements for Scheduler {
    type Element = LiveElement;

    fn create_root(&self) -> Result<LiveElement> {
        Self::create_root(self).map(LiveElement::Node)
    }

    fn create(&self, parent: &LiveElement, leaf: bool, attr: &ElementAttr) -> Result<LiveElement> {
        match parent {
            LiveElement::Node(node) if leaf => node.create_leaf(attr).map(LiveElement::Leaf),
            LiveElement::Node(node) => node.create_node(attr).map(LiveElement::Node),
            LiveElement::Leaf(_) => {
                Err(Error::new(Op::CreateSchedElement, ErrorKind::InvalidInput)
                    .fact("parent", "a leaf"))
            }
        }
    }

    fn modify(&self, element: &LiveElement, attr: &ElementAttr) -> Result<()> {
        match element {
            LiveElement::Node(node) => node.modify(attr),
            LiveElement::Leaf(leaf) => leaf.modify(attr),
        }
    }

    fn destroy(&self, element: LiveElement) -> Result<(), DestroyError<LiveElement>> {
        match element {
            LiveElement::Node(node) => node
                .destroy()
                .map_err(|refused| refused.map(LiveElement::Node)),
            LiveElement::Leaf(leaf) => leaf
                .destroy()
                .map_err(|refused| refused.map(LiveElement::Leaf)),
        }
    }

    fn is_used(&self, element: &LiveElement) -> bool {
        match element {
            // A node is used by the elements below it; the plan determines whether they are
            // destroyed first.
            LiveElement::Node(_) => false,
            LiveElement::Leaf(leaf) => leaf.is_used(),
        }
    }
}

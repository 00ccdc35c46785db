//! The tree of scheduling elements: who may send how much of what a function sends.
//!
//! A *node* shares what it is given among the elements below it, a *leaf* among the queues attached
//! to it. In each cycle an element gets its share relative to its siblings', up to its cap; what
//! one does not use goes to the others.
//!
//! [`Scheduler`] makes single elements. [`Tree`] describes a whole tree as data, [`Plan`] is how
//! one becomes another, and [`Applied`] is one that stands in a device.

mod apply;
mod attach;
mod check;
mod draw;
mod element;
mod live;
mod plan;
#[cfg(test)]
mod tests;
mod tree;

pub use apply::{Applied, ApplyError};
pub use attach::{Attachable, Leaves};
pub use check::{Limits, Note};
pub use element::{Leaf, Node, Scheduler};
pub use live::{Elements, LiveElement};
pub use plan::{Plan, Step};
pub use tree::{Element, Kind, Tree};

pub use crate::prm::element::ElementAttr;

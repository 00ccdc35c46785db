//! The tree of scheduling elements, which distributes a function's send rate.
//!
//! A *node* distributes its rate among the elements below it, a *leaf* among the queues attached to
//! it. In each cycle an element gets its share relative to its siblings', up to its cap; what it
//! does not use goes to its siblings.
//!
//! [`Scheduler`] creates single elements. [`Tree`] describes a whole tree as data, [`Plan`] is the
//! way from one to another, and [`Applied`] is a tree applied to a device.

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

//! Steering by the device's own match words: matchers, rules, actions, anchors
//! (`drivers/infiniband/hw/mlx5/fs.c`).
//!
//! Rules of verbs ([`flow`](crate::flow)) name headers that every device knows. These name any word
//! that this one can look at, lead to tables that firmware commands built, change headers, and
//! count.

mod action;
mod anchor;
mod matcher;
mod reformat;
mod rule;
mod table;
#[cfg(test)]
mod tests;
mod words;

pub use action::{FlowAction, HeaderChange, HeaderField};
pub use anchor::SteeringAnchor;
pub use matcher::{FlowMatcher, MatchKind, MatcherInit};
pub use reformat::Reformat;
pub use rule::{FlowCounter, FlowTarget, MatchRule, MatchedFlow};
pub use table::TableKind;
pub use words::{MatchHeaders, MatchWords};

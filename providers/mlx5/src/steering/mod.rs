//! Steering by the device's own match parameters: matchers, rules, actions, anchors
//! (`drivers/infiniband/hw/mlx5/fs.c`).
//!
//! Flow rules of the verbs ([`flow`](crate::flow)) name headers that every device knows. These
//! rules match any field that this device can match, lead to tables created by firmware commands,
//! change headers, and count packets.

mod action;
mod anchor;
mod matcher;
mod parameters;
mod reformat;
mod rule;
mod table;
#[cfg(test)]
mod tests;

pub use action::{FlowAction, HeaderChange, HeaderField};
pub use anchor::SteeringAnchor;
pub use matcher::{FlowMatcher, MatchKind, MatcherInit};
pub use parameters::{MatchHeaders, MatchParameters};
pub use reformat::Reformat;
pub use rule::{FlowCounter, FlowTarget, MatchRule, MatchedFlow};
pub use table::TableKind;

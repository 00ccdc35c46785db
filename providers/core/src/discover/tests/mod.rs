//! Discovery with scripted netlink, and temporary sysfs trees and nodes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod forks;
mod reports;
mod sources;
mod tables;
pub(crate) mod tree;

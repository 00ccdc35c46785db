//! Discovery on scripted netlink, made-up sysfs trees and made-up nodes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod forks;
mod sources;
mod tables;
mod tree;

//! Memory that this process shares with a device or with the kernel's side of a queue.
//!
//! Two rules hold in every file here: no reference is ever formed to memory that the other side
//! writes, and every access lies in bounds that were checked once, against the mapping's length,
//! never against a number that the other side can change later.

mod pages;
mod shared_ring;

pub use pages::Pages;
pub use shared_ring::{RingLayout, SharedRing};

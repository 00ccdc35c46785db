//! Memory that this process shares with a device or with the kernel's side of a queue.
//!
//! Two rules hold in every file here: no reference is ever formed to memory that the other side
//! writes, and every access lies in bounds that were checked once, against the mapping's length,
//! never against a number that the other side can change later.

pub mod barrier;
mod block_ring;
mod mmio;
mod pages;
mod record;
mod shared_ring;
mod unit_ring;
mod wide;

pub use block_ring::{Block, BlockRing};
pub use mmio::{HAS_REGISTERS, Register};
pub use pages::Pages;
pub use record::{Record, Records};
pub use shared_ring::{RingLayout, SharedRing};
pub use unit_ring::{UNIT, UnitRing};

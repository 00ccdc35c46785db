//! Memory that this process shares with a device, or with the kernel's side of a queue.
//!
//! Three rules hold in every file here. No reference is ever formed to memory that the other side
//! writes, except shared references to atomics. Every access is within bounds that were checked
//! once, against the mapping's length, never against a number that the other side can change later.
//! And every access is atomic, with one fixed width per location, used by all code that accesses
//! it:
//!
//! | memory | width | how that is ensured |
//! |---|---|---|
//! | [`Pages`] (queues that own their memory), exposed memory | 8-byte words; single bytes after the last whole word | `Words`: a part of a word is written by compare-and-exchange of the word |
//! | [`UnitRing`], [`BlockRing`], [`BlockTable`], [`BlockCursor`] | 8-byte words | a [`Part`] has one owner; accesses of other widths need exclusive access to the ring ([`BlockMut`]) |
//! | [`SharedRing`]: its slots | 8-byte words | it owns its mapping |
//! | [`SharedRing`]: its two indexes | 4 bytes | the same |
//! | [`Record`] | 4 bytes | each has its own slot |
//! | [`Register`], [`Mapping::load`](crate::sys::Mapping::load) | 8-byte words | registers are only stored to, and read only by tests |
//! | [`Counter`] | 4 bytes | it owns its mapping, and only reads |
//! | [`Window`] | 8 bytes, or 4 where a range does not end on 8 | it owns its mapping; a writer has exclusive access |
//!
//! Two overlapping atomic accesses of different widths are undefined behaviour if they are
//! concurrent and one of them writes (`std::sync::atomic`), so widths never mix where two threads
//! can access the same memory. Rust's rules do not cover what a device does: it accesses memory
//! coherently, with widths of its own.
//!
//! Accesses are relaxed, except those that hand something over (an index, a record, the word that
//! marks an entry as valid), which have acquire or release ordering themselves; ordering with
//! respect to a device is in [`barrier`].

pub mod barrier;
mod block_cursor;
mod block_ring;
mod block_table;
mod counter;
mod mmio;
mod pack;
mod page_pool;
mod pages;
mod part;
mod place;
mod queue_memory;
mod record;
mod shared_ring;
mod slab;
mod unit_ring;
mod wide;
mod window;
mod words;

pub use block_cursor::BlockCursor;
pub use block_ring::{Block, BlockMut, BlockRing};
pub use block_table::BlockTable;
pub use counter::Counter;
pub use mmio::{HAS_REGISTERS, Register};
pub use pack::{Pack, partial};
pub use page_pool::PagePool;
pub use pages::Pages;
pub use part::{KeepMapped, Part};
pub use place::write_in_place;
pub use queue_memory::{QueueBuffer, QueueMemory};
pub use record::{Record, Records};
pub use shared_ring::{RingLayout, SharedRing};
pub use unit_ring::{UNIT, UnitRing};
pub use window::Window;
pub use words::Words;

//! Memory that this process shares with a device or with the kernel's side of a queue.
//!
//! Three rules hold in every file here. No reference is ever formed to memory that the other side
//! writes, but for shared ones to atomics. Every access lies in bounds that were checked once,
//! against the mapping's length, never against a number that the other side can change later. And
//! every access is atomic, of a width that the place has for all who reach it:
//!
//! | memory | width | who keeps to it |
//! |---|---|---|
//! | [`Pages`] (exposed memory, a user's own queues) | words of 8 bytes; behind the last whole one, bytes | `Words`: a part of a word is written by exchanging the word |
//! | [`UnitRing`], [`BlockRing`] | words of 8 bytes | a [`Part`] has one holder; what is not made of words needs the ring for itself ([`BlockMut`]) |
//! | [`SharedRing`]: its slots | words of 8 bytes | it owns its mapping |
//! | [`SharedRing`]: its two indexes | 4 bytes | the same |
//! | [`Record`] | 4 bytes | each has a slot of its own |
//! | [`Register`], [`Mapping::load`](crate::sys::Mapping::load) | words of 8 bytes | registers are stored to, and read by tests alone |
//! | [`Counter`] | 4 bytes | it owns its mapping, and reads |
//! | [`Window`] | 8 bytes, or 4 where a range does not end on 8 | it owns its mapping; who writes, writes alone |
//!
//! Two accesses of different width that overlap are undefined to the language when threads make
//! them at the same time and one writes (`std::sync::atomic`), so widths never mix where two
//! threads can meet. What a device does is not the language's: it accesses its memory coherently,
//! in widths of its own.
//!
//! Accesses are relaxed, but for those that hand something over (an index, a record, the word that
//! says that an entry is there), which carry the order themselves; what orders them for a device is
//! in [`barrier`].

pub mod barrier;
mod block_ring;
mod counter;
mod mmio;
mod pack;
mod pages;
mod part;
mod place;
mod record;
mod shared_ring;
mod unit_ring;
mod wide;
mod window;
mod words;

pub use block_ring::{Block, BlockMut, BlockRing};
pub use counter::Counter;
pub use mmio::{HAS_REGISTERS, Register};
pub use pack::{Pack, partial};
pub use pages::Pages;
pub use part::{Kept, Part};
pub use place::write_in_place;
pub use record::{Record, Records};
pub use shared_ring::{RingLayout, SharedRing};
pub use unit_ring::{UNIT, UnitRing};
pub use window::Window;
pub use words::Words;

//! What a program runs on.

use std::sync::Arc;

use uverbs::recorder::Sink;
use uverbs::{Context, Result};

/// How many places a program has to make objects in: two contexts of one device, and one of
/// another.
pub const SITES: usize = 3;

/// What can become of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It does nothing, and says so.
    Fails,
    /// The kernel that the context was given panics, and did nothing.
    PanicsBefore,
    /// The same, and did all.
    PanicsAfter,
}

/// Devices, and whoever moves them. Everything that a program cannot decide happens here.
pub trait Device: Send + Sync {
    /// Opens the device of a site. The first two sites are of one device.
    ///
    /// # Errors
    /// Those of opening it.
    fn open(&self, site: usize, sink: Option<Arc<dyn Sink>>) -> Result<Context>;

    /// The devices write this byte everywhere they may still write: into the memory of all
    /// receives, reads and atomics that are posted and that they have not completed.
    fn scribble(&self, byte: u8);

    /// The devices work as long as there is something to do.
    fn run(&self);

    /// The devices stop working, or go on.
    fn freeze(&self, frozen: bool);

    /// The call that comes after so many others goes wrong.
    fn disturb(&self, site: usize, after: u8, fault: Fault);

    /// No more calls go wrong.
    fn mend(&self);

    /// How many receives a shared queue of that site has, as the device sees it.
    fn shared(&self, site: usize, number: u32) -> Option<usize>;

    /// What exists, in words; nothing when nothing does.
    fn left(&self) -> Option<String>;
}

//! What a program runs on.

use std::sync::Arc;

use uverbs::recorder::Sink;
use uverbs::{Context, Result};

/// How many places a program has to make objects in: two contexts of one device, and one of another.
pub const SITES: usize = 3;

/// Devices, and whoever moves them. Everything that a program cannot decide happens here.
pub trait Device: Send + Sync {
    /// Opens the device of a site. The first two sites are of one device.
    ///
    /// # Errors
    /// Those of opening it.
    fn open(&self, site: usize, sink: Option<Arc<dyn Sink>>) -> Result<Context>;

    /// The devices write this byte everywhere they may still write: into the memory of all receives, reads and atomics
    /// that are posted and that they have not completed.
    fn scribble(&self, byte: u8);

    /// The devices work as long as there is something to do.
    fn run(&self);

    /// The devices stop working, or go on.
    fn freeze(&self, frozen: bool);

    /// The kernel fails the call that comes after so many others.
    fn fail(&self, site: usize, after: u8);

    /// The kernel fails no more calls.
    fn mend(&self);

    /// The library lost hold of what the last call made. A kernel would have its pages pinned, which nobody else has.
    fn abandon(&self) {}

    /// How many receives a shared queue of that site has, as the device sees it.
    fn shared(&self, site: usize, number: u32) -> Option<usize>;

    /// What exists, in words; nothing when nothing does.
    fn left(&self) -> Option<String>;
}

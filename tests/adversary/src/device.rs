//! The devices that a program runs on.

use std::sync::Arc;

use uverbs::recorder::Sink;
use uverbs::{Context, Result};

/// Number of sites at which a program can create objects: two contexts of one device, and one of
/// another.
pub const SITES: usize = 3;

/// What can go wrong with a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It does nothing, and returns an error.
    Fails,
    /// The kernel that the context was given panics, without having done anything.
    PanicsBefore,
    /// The same, after having done everything.
    PanicsAfter,
}

/// Devices, and what drives them. Everything that a program has no control over happens here.
pub trait Device: Send + Sync {
    /// Opens the device of a site. The first two sites belong to the same device.
    ///
    /// # Errors
    /// Those of opening it.
    fn open(&self, site: usize, sink: Option<Arc<dyn Sink>>) -> Result<Context>;

    /// Makes the devices write this byte everywhere they may still write: to the memory of all
    /// receives, reads and atomics that are posted and not completed.
    fn scribble(&self, byte: u8);

    /// Lets the devices work until nothing is left to do.
    fn run(&self);

    /// Makes the devices stop working, or continue.
    fn freeze(&self, frozen: bool);

    /// Makes the call after the next `after` calls go wrong.
    fn disturb(&self, site: usize, after: u8, fault: Fault);

    /// No more calls go wrong from now on.
    fn mend(&self);

    /// Number of receives in a shared queue of that site, as the device sees it.
    fn shared(&self, site: usize, number: u32) -> Option<usize>;

    /// A description of what still exists; `None` if nothing does.
    fn left(&self) -> Option<String>;
}

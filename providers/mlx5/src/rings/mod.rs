//! What stands in the rings, by name, for whoever watches them.
//!
//! Written against the tables of the reference manual and the kernel's headers
//! (`include/linux/mlx5/qp.h`, `device.h`, `mlx5_ifc.h`), not against what this crate writes: a
//! mistake of an encoder shows. Any bytes can be read: what makes no sense is shown as it is.

mod completion;
mod key_change;
mod reader;
mod receive;
mod segments;
mod send;
mod told;

pub(crate) use segments::Route;
pub(crate) use told::{Completions, Sends, receives};

#[cfg(test)]
mod tests;

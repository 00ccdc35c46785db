//! Decodes the contents of the rings, by field name, for observers.
//!
//! Written from the tables of the reference manual and the kernel's headers
//! (`include/linux/mlx5/qp.h`, `device.h`, `mlx5_ifc.h`), not from the encoders of this crate, so
//! that their mistakes show. Arbitrary bytes can be decoded: what is malformed is shown as it is.

mod completion;
mod key_change;
mod reader;
mod receive;
mod report;
mod segments;
mod send;

pub(crate) use report::{Completions, Sends, receives};
pub(crate) use segments::Route;

#[cfg(test)]
mod tests;

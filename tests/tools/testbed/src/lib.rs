//! Boots a stock Debian kernel in QEMU, with a static program of this project as process 1, and
//! runs commands inside.
//!
//! ```no_run
//! use testbed::{Command, Kernel, Machine, Topology};
//!
//! # fn main() -> Result<(), testbed::Error> {
//! let guest = Machine::new(Kernel::named("6.12")?).topology(Topology::TwoHosts).with_debian_tools().boot()?;
//! let server = guest.spawn(Command::new("ibv_rc_pingpong").args(["-d", "rxe_a", "-g", "1"]).namespace("a"))?;
//! let client = Command::new("ibv_rc_pingpong").args(["-d", "rxe_b", "-g", "1", "10.1.0.1"]).namespace("b");
//! guest.run(client)?.check()?;
//! server.wait()?.check()?;
//! guest.power_off()
//! # }
//! ```
//!
//! Kernels and Debian packages are downloaded once, by `apt-get` in a folder of its own, into
//! `target/testbed` or the folder that `UVERBS_TESTBED_CACHE` names. Root is not required unless a
//! tool has to be installed; see [`host`].

pub mod accelerator;
mod cache;
pub mod cargo;
pub mod connectx;
mod debian;
mod error;
mod guest;
pub mod host;
mod image;
mod machine;
mod processor;
mod qemu;
pub mod suite;

pub use connectx::{Connectx, Function};
pub use debian::{Kernel, Packages};
pub use error::Error;
pub use guest::{Child, Command, Guest, Output, complaints};
pub use guest_init::{Ending, LogLine, Topology, WindowSize};
pub use machine::Machine;
pub use processor::Processor;

/// The program in the page about this crate compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/testbed.md")]
struct Page;

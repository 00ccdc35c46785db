//! A software ConnectX.
//!
//! The model takes the place of the firmware and the hardware of an mlx5 function: it answers PCI
//! configuration cycles, the initialization segment, the command queue and the doorbells of queues,
//! and moves data between the guest memories of the functions of one [`Fabric`]. Its clients, and
//! its judges, are the stock `mlx5_core` and `mlx5_ib` drivers of Linux and the stock libmlx5 of
//! rdma-core.
//!
//! There are two ways to drive it:
//! - in process, with [`Ram`] as guest memory and [`Counted`] interrupts, by [`Fabric::mmio_write`]
//!   and [`Fabric::advance`] — for tests and fuzzing;
//! - over vfio-user, by [`serve`], for QEMU.
//!
//! Every byte that a guest supplies is untrusted. The model never panics on it, never loops without
//! a bound, and reports what hardware would silently ignore.
#![allow(
    clippy::cast_possible_truncation,
    reason = "registers and counters are cut to their width by design; every narrowing keeps the low bits"
)]
#![allow(
    clippy::precedence,
    reason = "shift-and-or of register fields reads as in the manuals"
)]
#![allow(
    clippy::similar_names,
    reason = "tis, tir, rqt, sq, rq and cqn, qpn, eqn are the names of the manuals"
)]
#![allow(
    clippy::unnecessary_wraps,
    reason = "all commands have one signature, those that cannot be refused too"
)]

mod adapter;
mod budget;
mod buffer;
mod cmd;
mod command_queue;
mod device;
mod device_memory;
#[cfg(any(test, feature = "harness"))]
pub mod driver;
mod encryption;
mod engine;
mod faults;
mod flow;
#[cfg(any(test, feature = "harness"))]
mod harness;
mod init_segment;
mod layout;
mod memory;
mod memory_key;
mod memory_operation;
mod misbehaviour;
mod objects;
mod pci;
mod profile;
mod qos;
pub mod serve;
mod signature;
mod status;
mod steering_memory;
mod subnet;
mod table;
mod trace;

pub use adapter::Adapter;
pub use engine::{Doorbells, Fabric, FunctionId, Options};
pub use faults::Spoil;
#[cfg(any(test, feature = "harness"))]
pub use harness::run_program;
pub use memory::{BusError, Counted, GuestMemory, Interrupts, Ram};
pub use misbehaviour::Misbehaviour;
pub use pci::{BAR0_SIZE, CONFIG_SIZE, VECTORS};
pub use profile::{FunctionConfig, FunctionKind};
pub use trace::Trace;

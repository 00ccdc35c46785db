//! What only mlx5 devices have: firmware commands ([`devx`]), rates ([`pacing`]), and the
//! scheduling tree that divides a function's transmit bandwidth ([`sched`]).
//!
//! ```no_run
//! use uverbs::mlx5::sched::{Applied, Element, Tree};
//!
//! let context = uverbs::Context::open("mlx5_0")?;
//! let tree = Tree::new([
//!     Element::leaf("g1").share(7),
//!     Element::leaf("g2").share(3).max_mbps(4096),
//! ]);
//! let mut applied = Applied::new(context.mlx5()?.scheduling()?);
//! applied.apply(&tree)?;
//! println!("{tree}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod action;
mod adapter;
mod copies;
mod crypto;
mod data_direct;
mod dc;
mod directed;
mod entries;
mod firmware;
mod flow;
mod frame;
mod handles;
mod indirect;
mod masked;
mod matcher;
mod memory;
mod opening;
mod owned;
mod port;
mod queue_memory;
mod queue_pair;
mod scatter;
mod special;
mod stops;
mod thread;
mod var;
mod work_queue;
mod xrc;

pub use adapter::Adapter;
pub use firmware::FirmwareQueue;
pub use flow::FlowId;
pub use memory::{DeviceMemory, NullRegion};
pub use special::AtomicMasks;
pub use work_queue::{
    IndirectionTable, RssQueuePair, RssQueuePairBuilder, WorkQueue, WorkQueueBuilder,
};
pub use xrc::{XrcDomain, XrcTarget, XrcTargetBuilder};

pub use uverbs_core::hw::{Pages, QueueBuffer, QueueMemory, Register};
pub use uverbs_mlx5::flow::{
    EthernetFields, Flags as FlowFlags, FlowInit, FlowSpec, Ipv4Fields, Ipv6Fields,
    Kind as FlowKind, PortFields,
};
pub use uverbs_mlx5::rss::work_queue::{Flags as WorkQueueFlags, State as WorkQueueState};
pub use uverbs_mlx5::rss::{Hash, HashFields};
pub use uverbs_mlx5::{
    BlockSize, Crc, Encryption, EncryptionOrder, Escape, Guard, Signature, SignatureChange,
    SignatureError, SignaturePart, Signatures, SignedBlocks, T10Dif,
};
pub use uverbs_mlx5::{
    Clock, ClockInfo, DcDestination, DeviceMemoryInfo, Doorbells, Entries, EntrySize, Frame,
    IndirectKey, Interleaved, KeyChange, KeyLayout, KeyOptions, LagPort, MappedVar, MaskedAtomic,
    OperationWord, RegisterBits, Results, SharedXrcDomain, SteeringMemory, Streams, SwitchPort,
    ThreadDomain, Unit, Var, VarKind,
};
pub use uverbs_mlx5::{caps, devx, pacing, prm, sched, steering};

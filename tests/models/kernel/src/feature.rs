//! Which kernel version introduced what: the only place where the fake distinguishes versions.
//!
//! The versions come from the kernel's sources: `drivers/infiniband/core/uverbs_*.c` for methods,
//! `drivers/infiniband/sw/rxe` for the driver. Where a version's source was not available, the
//! first version seen with the feature counts; `docs/guide/kernels.md` lists these.

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_METHOD_GET_CONTEXT, UVERBS_METHOD_INVOKE_WRITE, UVERBS_METHOD_QUERY_CONTEXT,
    UVERBS_METHOD_QUERY_GID_ENTRY, UVERBS_METHOD_QUERY_GID_TABLE, UVERBS_METHOD_QUERY_MR,
    UVERBS_METHOD_QUERY_PORT_SPEED, UVERBS_METHOD_REG_MR, UVERBS_OBJECT_ASYNC_EVENT,
    UVERBS_OBJECT_CQ, UVERBS_OBJECT_DEVICE, UVERBS_OBJECT_MR, UVERBS_OBJECT_QP, UVERBS_OBJECT_SRQ,
    UVERBS_OBJECT_WQ,
};

macro_rules! features {
    ($($(#[doc = $what:literal])+ $name:ident since ($major:literal, $minor:literal),)+) => {
        /// A feature that kernels have from some version on.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum Feature {
            $($(#[doc = $what])+ $name,)+
        }

        impl Feature {
            /// All features, oldest first.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Major and minor version of the first kernel that has it.
            pub const fn since(self) -> (u8, u8) {
                match self {
                    $(Self::$name => ($major, $minor),)+
                }
            }
        }
    };
}

features! {
    /// The ioctl interface. Older kernels may have it; 4.18 is the oldest that was examined.
    Ioctl since (4, 18),
    /// Legacy commands through the ioctl interface.
    InvokeWrite since (5, 0),
    /// Methods for ports, lists of handles and memory advice, and destroy methods of objects
    /// without event counts.
    FirstMethods since (5, 0),
    /// Contexts and event files by methods; the context's reply includes what the core supports.
    ContextMethods since (5, 6),
    /// rxe: 512 bytes of inline data, and actual sizes for scatter/gather entries and inline data
    /// are reported. Before: 400 bytes, and requested sizes are reported.
    LongInline since (5, 6),
    /// Queue pairs, shared receive queues and work queues by methods.
    QueueMethods since (5, 8),
    /// Completion queues by methods, whatever the kernel's configuration.
    CqMethods since (5, 9),
    /// Methods that query contexts and regions.
    QueryMethods since (5, 9),
    /// GID tables by methods.
    GidMethods since (5, 10),
    /// rxe: extended commands. Before, the driver did not allow them.
    ExtendedOfRxe since (5, 11),
    /// rxe: memory windows.
    MemoryWindows since (5, 14),
    /// rxe: numbers of address handles.
    AddressNumbers since (5, 16),
    /// rxe: about a million objects of each kind, and requests per queue.
    LargeLimits since (5, 16),
    /// rxe: flush and atomic write.
    Flush since (6, 2),
    /// rxe: actual queue sizes of queue pairs are reported, not the requested ones.
    QueueSizes since (6, 3),
    /// rxe: re-registration.
    Reregister since (6, 4),
    /// The port's speed in 32 bits.
    SpeedEx since (6, 5),
    /// rxe: messages of up to 2 GiB.
    LongMessages since (6, 12),
    /// Contexts accept capability descriptors.
    ContextDescriptors since (6, 15),
    /// Regions by a method.
    RegisterMethod since (6, 17),
    /// The port's speed by a method.
    SpeedMethod since (7, 0),
    /// The core reports that drivers validate driver data.
    RobustUdata since (7, 2),
    /// The connection manager resolves services, and takes events that programs write.
    CmEvents since (7, 2),
}

impl Feature {
    /// Its bit in a set.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The feature that introduced an ioctl method of the core.
    pub const fn of_method(object: u16, method: u16) -> Self {
        match (object, method) {
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) => Self::InvokeWrite,
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) | (UVERBS_OBJECT_ASYNC_EVENT, _) => {
                Self::ContextMethods
            }
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT)
            | (UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR) => Self::QueryMethods,
            (
                UVERBS_OBJECT_DEVICE,
                UVERBS_METHOD_QUERY_GID_TABLE | UVERBS_METHOD_QUERY_GID_ENTRY,
            ) => Self::GidMethods,
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT_SPEED) => Self::SpeedMethod,
            (UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR) => Self::RegisterMethod,
            (UVERBS_OBJECT_QP | UVERBS_OBJECT_SRQ | UVERBS_OBJECT_WQ, _) => Self::QueueMethods,
            (UVERBS_OBJECT_CQ, _) => Self::CqMethods,
            _ => Self::FirstMethods,
        }
    }
}

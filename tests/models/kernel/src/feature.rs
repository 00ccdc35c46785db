//! What kernels have since when: the one place where the fake tells versions apart.
//!
//! The versions are read in the kernel's sources: `drivers/infiniband/core/uverbs_*.c` for methods,
//! `drivers/infiniband/sw/rxe` for the driver. Where a version's source was not at hand, the first
//! one that was seen with the feature counts; `docs/guide/kernels.md` says which these are.

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_METHOD_GET_CONTEXT, UVERBS_METHOD_INVOKE_WRITE, UVERBS_METHOD_QUERY_CONTEXT,
    UVERBS_METHOD_QUERY_GID_ENTRY, UVERBS_METHOD_QUERY_GID_TABLE, UVERBS_METHOD_QUERY_MR,
    UVERBS_METHOD_QUERY_PORT_SPEED, UVERBS_METHOD_REG_MR, UVERBS_OBJECT_ASYNC_EVENT,
    UVERBS_OBJECT_CQ, UVERBS_OBJECT_DEVICE, UVERBS_OBJECT_MR, UVERBS_OBJECT_QP, UVERBS_OBJECT_SRQ,
    UVERBS_OBJECT_WQ,
};

macro_rules! features {
    ($($(#[doc = $what:literal])+ $name:ident since ($major:literal, $minor:literal),)+) => {
        /// Something that kernels have from a version on.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        pub enum Feature {
            $($(#[doc = $what])+ $name,)+
        }

        impl Feature {
            /// All of them, oldest first.
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
    /// The ioctl interface. Older kernels may have it; 4.18 is the oldest that was read.
    Ioctl since (4, 18),
    /// Legacy commands through the ioctl interface.
    InvokeWrite since (5, 0),
    /// Methods for ports, lists of handles and advice on memory, and those that destroy what has no
    /// event counts.
    FirstMethods since (5, 0),
    /// Contexts and event files by methods; what the core supports is said with the context.
    ContextMethods since (5, 6),
    /// rxe: 512 bytes inline, and room for pieces and inline data that is reported as made. Before,
    /// 400, and as asked.
    LongInline since (5, 6),
    /// Queue pairs, shared receive queues and work queues by methods.
    QueueMethods since (5, 8),
    /// Completion queues by methods, whatever the kernel's configuration.
    CqMethods since (5, 9),
    /// Methods that tell of contexts and regions.
    QueryMethods since (5, 9),
    /// GID tables by methods.
    GidMethods since (5, 10),
    /// rxe: extended commands. Before, the driver allowed none.
    ExtendedOfRxe since (5, 11),
    /// rxe: memory windows.
    MemoryWindows since (5, 14),
    /// rxe: numbers of address handles.
    AddressNumbers since (5, 16),
    /// rxe: about a million of each object, and of requests in a queue.
    LargeLimits since (5, 16),
    /// rxe: flush and atomic write.
    Flush since (6, 2),
    /// rxe: sizes of queue pairs' queues are reported as made, not as asked.
    QueueSizes since (6, 3),
    /// rxe: registering again.
    Reregister since (6, 4),
    /// The port's speed in 32 bits.
    SpeedEx since (6, 5),
    /// rxe: messages of up to 2 GiB.
    LongMessages since (6, 12),
    /// Contexts take descriptors that say what they may do.
    ContextDescriptors since (6, 15),
    /// Regions by a method.
    RegisterMethod since (6, 17),
    /// The port's speed by a method.
    SpeedMethod since (7, 0),
    /// The core says that drivers check what they are told.
    RobustUdata since (7, 2),
}

impl Feature {
    /// Its place in a set.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// What an ioctl method of the core came with.
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

//! Memory regions, windows and their keys.

use std::fmt;

open_flags! {
    /// `ibv_access_flags`—access rights to registered memory, or through a queue pair.
    ///
    /// Default: empty, which allows only local reads. Remote write and remote atomic need local
    /// write.
    #[doc(alias = "ibv_access_flags")]
    pub struct AccessFlags: u32, ignored 0x3ff0_0000 {
        /// The local device may write (receive, read response).
        LOCAL_WRITE = 1 << 0, "IBV_ACCESS_LOCAL_WRITE";
        /// Peers may RDMA write.
        REMOTE_WRITE = 1 << 1, "IBV_ACCESS_REMOTE_WRITE";
        /// Peers may RDMA read.
        REMOTE_READ = 1 << 2, "IBV_ACCESS_REMOTE_READ";
        /// Peers may use atomics.
        REMOTE_ATOMIC = 1 << 3, "IBV_ACCESS_REMOTE_ATOMIC";
        /// Memory windows may be bound to the region.
        MW_BIND = 1 << 4, "IBV_ACCESS_MW_BIND";
        /// Addresses count from the start of the region.
        ZERO_BASED = 1 << 5, "IBV_ACCESS_ZERO_BASED";
        /// On-demand paging: the region is not pinned.
        ON_DEMAND = 1 << 6, "IBV_ACCESS_ON_DEMAND";
        /// The memory is huge pages.
        HUGETLB = 1 << 7, "IBV_ACCESS_HUGETLB";
        /// Peers may flush until globally visible.
        FLUSH_GLOBAL = 1 << 8, "IBV_ACCESS_FLUSH_GLOBAL";
        /// Peers may flush until persistent.
        FLUSH_PERSISTENT = 1 << 9, "IBV_ACCESS_FLUSH_PERSISTENT";
        /// The device may reorder its writes to memory. Optional: kernels that do not know it
        /// ignore it.
        RELAXED_ORDERING = 1 << 20, "IBV_ACCESS_RELAXED_ORDERING";
    }
}

impl AccessFlags {
    /// Bits 20 to 29: a kernel ignores those that it does not know, if it reports that it follows
    /// this rule (`CORE_SUPPORT` bit 0 when a context is opened).
    pub const OPTIONAL: Self = Self::from_bits_retain(0x3ff0_0000);

    /// Without the optional bits, for kernels that would reject them.
    #[must_use]
    pub const fn without_optional(self) -> Self {
        Self::from_bits_retain(self.bits() & !Self::OPTIONAL.bits())
    }

    /// Whether the kernel accepts the combination: remote write and remote atomic need local write.
    pub const fn is_consistent(self) -> bool {
        !self.intersects(Self::REMOTE_WRITE.union(Self::REMOTE_ATOMIC))
            || self.contains(Self::LOCAL_WRITE)
    }
}

macro_rules! key {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        ///
        /// Treated as a secret: `Debug` does not show it.
        #[repr(transparent)]
        #[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
        pub struct $name(u32);

        impl $name {
            /// From the number in host order.
            pub const fn from_raw(raw: u32) -> Self {
                Self(raw)
            }

            /// The number in host order.
            pub const fn raw(self) -> u32 {
                self.0
            }
        }

        impl From<u32> for $name {
            fn from(raw: u32) -> Self {
                Self(raw)
            }
        }

        impl From<$name> for u32 {
            fn from(key: $name) -> Self {
                key.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

key! {
    /// The key by which local requests name a memory region (lkey).
    LocalKey
}

key! {
    /// The key by which a peer's requests name a memory region or window (rkey).
    RemoteKey
}

impl RemoteKey {
    /// `ibv_inc_rkey`—the key with its low 8 bits, which the user of a type 2 window chooses,
    /// incremented by one.
    #[doc(alias = "ibv_inc_rkey")]
    #[must_use]
    pub const fn inc(self) -> Self {
        let [index @ .., own] = self.0.to_be_bytes();
        let [a, b, c] = index;
        Self(u32::from_be_bytes([a, b, c, own.wrapping_add(1)]))
    }
}

open_enum! {
    /// `ibv_advise_mr_advice`—a hint about unpinned memory.
    #[doc(alias = "ibv_advise_mr_advice")]
    pub enum MrAdvice: u32 {
        /// Fault pages in for reading.
        Prefetch = 0, "IBV_ADVISE_MR_ADVICE_PREFETCH", "prefetch";
        /// Fault pages in for writing.
        PrefetchWrite = 1, "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE", "prefetch for writing";
        /// Map pages that are already present for the device, without faulting others in.
        PrefetchNoFault = 2, "IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT", "prefetch without faults";
    }
}

request_flags! {
    /// How advice is carried out.
    pub struct MrAdviceFlags: u32 {
        /// Before the call returns.
        FLUSH = 1 << 0, "IBV_ADVISE_MR_FLAG_FLUSH";
    }
}

request_flags! {
    /// `ibv_rereg_mr_flags`—what a re-registration changes.
    #[doc(alias = "ibv_rereg_mr_flags")]
    pub struct ReregFlags: u32 {
        /// The memory.
        CHANGE_TRANSLATION = 1 << 0, "IBV_REREG_MR_CHANGE_TRANSLATION";
        /// The protection domain.
        CHANGE_PD = 1 << 1, "IBV_REREG_MR_CHANGE_PD";
        /// The access flags.
        CHANGE_ACCESS = 1 << 2, "IBV_REREG_MR_CHANGE_ACCESS";
    }
}

open_enum! {
    /// `ibv_mw_type`—how a memory window is bound.
    #[doc(alias = "ibv_mw_type")]
    pub enum MwType: u8 {
        /// Bound by a verb of its own; the device chooses the key.
        Type1 = 1, "IBV_MW_TYPE_1", "type 1";
        /// Bound by a work request; the user chooses the low byte of the key.
        Type2 = 2, "IBV_MW_TYPE_2", "type 2";
    }
}

//! `rdma/rdma_user_ioctl_cmds.h`: the verbs ioctl, its header and its attributes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ioctl::iowr;

/// The group of every RDMA ioctl.
pub const RDMA_IOCTL_MAGIC: u8 = 0x1b;

/// The ioctl that carries every verbs command: [`ib_uverbs_ioctl_hdr`] and its attributes.
///
/// The number holds the size of the header alone, however many attributes follow.
pub const RDMA_VERBS_IOCTL: u32 = iowr(RDMA_IOCTL_MAGIC, 1, size_of::<ib_uverbs_ioctl_hdr>());

kernel_enum! {
    /// Flags of an attribute.
    anonymous enum uverbs_attr_flags: u16 {
        /// From the caller: fail rather than ignore an attribute that the kernel does not know.
        UVERBS_ATTR_F_MANDATORY = 1 << 0,
        /// From the kernel: this output was filled. Not set on mandatory ones, which always are.
        UVERBS_ATTR_F_VALID_OUTPUT = 1 << 1,
    }
}

/// The choice an enum attribute makes.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_attr_enum_data {
    pub elem_id: u8,
    pub reserved: u8,
}
assert_layout!(ib_uverbs_attr_enum_data, size 2, align 1, {
    elem_id @ 0, reserved @ 1,
}, as "ib_uverbs_attr.attr_data.enum_data");

kernel_union! {
    /// Zero, except in enum attributes.
    union ib_uverbs_attr_data: [u16; 1] = "ib_uverbs_attr.attr_data" {
        enum_data: ib_uverbs_attr_enum_data,
        reserved: u16,
    }
}

/// One attribute of a command.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_attr {
    pub attr_id: u16,
    /// Bytes behind the pointer, or in `data` if not more than 8; 0 for handles and fds.
    pub len: u16,
    /// [`mod@uverbs_attr_flags`].
    pub flags: u16,
    pub attr_data: ib_uverbs_attr_data,
    /// A pointer, the value itself, or an object's handle.
    pub data: u64,
}
assert_layout!(ib_uverbs_attr, size 16, align 8, {
    attr_id @ 0, len @ 2, flags @ 4, attr_data @ 6, data @ 8,
}, also { data_s64 @ 8 + 8 });

impl ib_uverbs_attr {
    /// `data` as file-descriptor attributes use it.
    pub const fn data_s64(&self) -> i64 {
        self.data.cast_signed()
    }
}

/// Begins every command.
///
/// Followed by `attrs`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_uverbs_ioctl_hdr {
    /// Bytes of the header and all attributes.
    pub length: u16,
    pub object_id: u16,
    pub method_id: u16,
    pub num_attrs: u16,
    pub reserved1: u64,
    /// [`mod@crate::ib_user_ioctl_verbs::rdma_driver_id`].
    pub driver_id: u32,
    pub reserved2: u32,
}
assert_layout!(ib_uverbs_ioctl_hdr, size 24, align 8, {
    length @ 0, object_id @ 2, method_id @ 4, num_attrs @ 6, reserved1 @ 8, driver_id @ 16,
    reserved2 @ 20,
}, open { attrs @ 24 });

kernel_header! {
    "rdma/rdma_user_ioctl_cmds.h",
    structs: [
        ib_uverbs_attr_enum_data, ib_uverbs_attr_data, ib_uverbs_attr, ib_uverbs_ioctl_hdr,
    ],
    enums: [uverbs_attr_flags],
    constants: [RDMA_IOCTL_MAGIC, RDMA_VERBS_IOCTL],
}

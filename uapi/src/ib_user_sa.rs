//! `rdma/ib_user_sa.h`: path and service records of the subnet administrator.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::byte_order::{__be16, __be32, __be64};

kernel_enum! {
    /// What a path is for.
    anonymous enum ib_path_flags: u32 {
        IB_PATH_GMP = 1,
        IB_PATH_PRIMARY = 1 << 1,
        IB_PATH_ALTERNATE = 1 << 2,
        IB_PATH_OUTBOUND = 1 << 3,
        IB_PATH_INBOUND = 1 << 4,
        IB_PATH_INBOUND_REVERSE = 1 << 5,
        IB_PATH_BIDIRECTIONAL = 40,
    }
}

/// A path record as the wire has it, with what it is for.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_path_rec_data {
    pub flags: u32,
    pub reserved: u32,
    pub path_rec: [u32; 16],
}
assert_layout!(ib_path_rec_data, size 72, align 4, { flags @ 0, reserved @ 4, path_rec @ 8 });

/// A path record, unpacked.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ib_user_path_rec {
    pub dgid: [u8; 16],
    pub sgid: [u8; 16],
    pub dlid: __be16,
    pub slid: __be16,
    pub raw_traffic: u32,
    pub flow_label: __be32,
    pub reversible: u32,
    pub mtu: u32,
    pub pkey: __be16,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub numb_path: u8,
    pub sl: u8,
    pub mtu_selector: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}
assert_layout!(ib_user_path_rec, size 64, align 4, {
    dgid @ 0, sgid @ 16, dlid @ 32, slid @ 34, raw_traffic @ 36, flow_label @ 40,
    reversible @ 44, mtu @ 48, pkey @ 52, hop_limit @ 54, traffic_class @ 55, numb_path @ 56,
    sl @ 57, mtu_selector @ 58, rate_selector @ 59, rate @ 60, packet_life_time_selector @ 61,
    packet_life_time @ 62, preference @ 63,
});

/// A service record.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ib_user_service_rec {
    pub id: __be64,
    pub gid: [u8; 16],
    pub pkey: __be16,
    pub reserved: [u8; 2],
    pub lease: __be32,
    pub key: [u8; 16],
    pub name: [u8; 64],
    pub data_8: [u8; 16],
    pub data_16: [__be16; 8],
    pub data_32: [__be32; 4],
    pub data_64: [__be64; 2],
}
assert_layout!(ib_user_service_rec, size 176, align 8, {
    id @ 0, gid @ 8, pkey @ 24, reserved @ 26, lease @ 28, key @ 32, name @ 48, data_8 @ 112,
    data_16 @ 128, data_32 @ 144, data_64 @ 160,
});
default_zeroed!(ib_user_service_rec);

kernel_header! {
    "rdma/ib_user_sa.h",
    structs: [ib_path_rec_data, ib_user_path_rec, ib_user_service_rec],
    enums: [ib_path_flags],
    constants: [],
}

//! Everything this crate mirrors, as data: what the checker compares with the kernel headers.

use crate::{
    ib_user_ioctl_cmds, ib_user_ioctl_verbs, ib_user_sa, ib_user_verbs, linux_socket, mlx5_abi,
    mlx5_user_ioctl_cmds, mlx5_user_ioctl_verbs, rdma_netlink, rdma_user_cm, rdma_user_ioctl,
    rdma_user_ioctl_cmds, rdma_user_rxe,
};

/// One field, or one further name of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The C name. `implicit_padding` is a hole that C leaves unnamed.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes; 0 for a flexible array.
    pub size: usize,
}

/// One struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The name in this crate.
    pub rust: &'static str,
    /// The C tag, or for types that have none the path to each use: `rxe_send_wr.wr.rdma`.
    pub names: &'static [&'static str],
    /// Bytes.
    pub size: usize,
    /// Bytes.
    pub align: usize,
    /// In the header's order.
    pub fields: &'static [Field],
}

/// One enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enum {
    /// The C tag, or our name for an enum that has none.
    pub name: &'static str,
    /// Whether the header gives it no tag.
    pub anonymous: bool,
    /// Every member and its value.
    pub members: &'static [(&'static str, i64)],
}

/// One header file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The path below the include folder: `rdma/ib_user_verbs.h`.
    pub path: &'static str,
    /// Its structs and unions.
    pub structs: &'static [Struct],
    /// Its enums.
    pub enums: &'static [Enum],
    /// Its `#define`d values.
    pub constants: &'static [(&'static str, i64)],
}

/// Every mirrored header.
pub const HEADERS: &[Header] = &[
    rdma_user_ioctl_cmds::HEADER,
    rdma_user_ioctl::HEADER,
    ib_user_ioctl_cmds::HEADER,
    ib_user_ioctl_verbs::HEADER,
    ib_user_verbs::HEADER,
    rdma_netlink::HEADER,
    rdma_user_rxe::HEADER,
    mlx5_abi::HEADER,
    mlx5_user_ioctl_cmds::HEADER,
    mlx5_user_ioctl_verbs::HEADER,
    ib_user_sa::HEADER,
    rdma_user_cm::HEADER,
    linux_socket::HEADER,
];

/// Lists what a module mirrors, for [`HEADERS`].
macro_rules! kernel_header {
    (
        $path:literal,
        structs: [$($struct:ident),* $(,)?],
        enums: [$($enum:ident),* $(,)?],
        constants: [$($constant:ident),* $(,)?] $(,)?
    ) => {
        /// What this module mirrors, for [`crate::tables`].
        #[allow(
            clippy::cast_lossless, clippy::cast_possible_wrap,
            reason = "`From` is not const; no constant comes near 2^63"
        )]
        pub const HEADER: $crate::tables::Header = $crate::tables::Header {
            path: $path,
            structs: &[$(<$struct as $crate::layout::Layout>::LAYOUT),*],
            enums: &[$($enum::ENUM),*],
            constants: &[$((stringify!($constant), $constant as i64)),*],
        };
    };
}

//! The socket addresses of `linux/in.h`, `linux/in6.h` and `linux/socket.h`, as far as the RDMA
//! headers embed them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::byte_order::{__be16, __be32};

/// `AF_INET`, the `sin_family` of a [`sockaddr_in`].
pub const AF_INET: u16 = 2;
/// `AF_INET6`, the `sin6_family` of a [`sockaddr_in6`].
pub const AF_INET6: u16 = 10;

/// An IPv4 address and port.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct sockaddr_in {
    pub sin_family: u16,
    pub sin_port: __be16,
    pub sin_addr: __be32,
    pub __pad: [u8; 8],
}
assert_layout!(sockaddr_in, size 16, align 4, {
    sin_family @ 0, sin_port @ 2, sin_addr @ 4, __pad @ 8,
});

/// An IPv6 address, port, flow label and scope.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct sockaddr_in6 {
    pub sin6_family: u16,
    pub sin6_port: __be16,
    pub sin6_flowinfo: __be32,
    pub sin6_addr: [u8; 16],
    pub sin6_scope_id: u32,
}
assert_layout!(sockaddr_in6, size 28, align 4, {
    sin6_family @ 0, sin6_port @ 2, sin6_flowinfo @ 4, sin6_addr @ 8, sin6_scope_id @ 24,
});

/// Storage for an address of any family.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct __kernel_sockaddr_storage {
    pub ss_family: u16,
    pub __data: [u8; 126],
}
assert_layout!(__kernel_sockaddr_storage, size 128, align 8, {
    ss_family @ 0, __data @ 2,
}, also { __align @ 0 + 8 });
default_zeroed!(__kernel_sockaddr_storage);

kernel_header! {
    "linux/socket.h",
    structs: [sockaddr_in, sockaddr_in6, __kernel_sockaddr_storage],
    enums: [],
    constants: [],
}

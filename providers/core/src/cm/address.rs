//! Addresses of ids, in the kernel's structs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use uverbs_uapi::linux_socket::{__kernel_sockaddr_storage, AF_INET, AF_INET6, sockaddr_in6};
use zerocopy::IntoBytes;

use super::PortSpace;
use crate::error::{Error, ErrorKind, Op, Result};
use crate::types::Gid;

/// `IB_DEFAULT_PKEY_FULL`.
const DEFAULT_PKEY: u16 = 0xffff;

/// `AF_IB` of `linux/socket.h`.
const AF_IB: u16 = 27;

const IPV4_LEN: u16 = 16;
const IPV6_LEN: u16 = 28;
const IB_LEN: u16 = 48;

/// Room for any of the structs that C programs have addresses in: `sockaddr_storage`.
const SOCKADDR_ROOM: usize = size_of::<__kernel_sockaddr_storage>();

/// An address that an id can have.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CmAddress {
    /// An IP address of a network interface, and a port of the id's port space.
    Ip(SocketAddr),
    /// `AF_IB`: a GID and a service id, without IP.
    Ib(IbAddress),
}

/// `sockaddr_ib`—an address without IP.
#[doc(alias = "sockaddr_ib")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct IbAddress {
    /// Partition key; 0 for any.
    pub pkey: u16,
    /// Traffic class, and flow label in the low 20 bits.
    pub flow_info: u32,
    /// The GID; zero for any.
    pub gid: Gid,
    /// The service.
    pub service_id: u64,
    /// Which bits of the service id count.
    pub service_mask: u64,
    /// Scope of a link-local GID.
    pub scope_id: u64,
}

impl IbAddress {
    /// A port at a GID, in the default partition. The service is the port's number alone until the
    /// space of the port is known ([`in_space`](Self::in_space)).
    pub const fn new(gid: Gid, port: u16) -> Self {
        Self {
            pkey: DEFAULT_PKEY,
            flow_info: 0,
            gid,
            service_id: port as u64,
            service_mask: u64::MAX,
            scope_id: 0,
        }
    }

    /// The same with the service that a port has in a space; a service that is more than a port
    /// stays as it is.
    #[must_use]
    pub const fn in_space(mut self, space: PortSpace) -> Self {
        if self.service_id <= u16::MAX as u64 {
            self.service_id |= (space.raw() as u64) << 16;
        }
        self
    }

    /// The port: the low 16 bits of the service.
    pub const fn port(&self) -> u16 {
        let [.., high, low] = self.service_id.to_be_bytes();
        u16::from_be_bytes([high, low])
    }
}

impl From<SocketAddr> for CmAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<IbAddress> for CmAddress {
    fn from(address: IbAddress) -> Self {
        Self::Ib(address)
    }
}

impl fmt::Display for CmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Ib(address) => write!(f, "{} service {:#x}", address.gid, address.service_id),
        }
    }
}

impl CmAddress {
    /// The address and port as those of a socket: of `AF_IB` the bytes of the GID, which has the
    /// form of an IPv6 address, and the port of the service.
    pub fn to_socket_addr(self) -> SocketAddr {
        match self {
            Self::Ip(address) => address,
            Self::Ib(address) => {
                let gid = Ipv6Addr::from(*address.gid.as_bytes());
                SocketAddr::new(gid.into(), address.port())
            }
        }
    }

    /// The kernel's struct, and how many bytes of it count.
    pub(super) fn to_storage(self) -> (__kernel_sockaddr_storage, u16) {
        let mut storage = __kernel_sockaddr_storage::default();
        let (family, len) = match self {
            Self::Ip(SocketAddr::V4(_)) => (AF_INET, IPV4_LEN),
            Self::Ip(SocketAddr::V6(_)) => (AF_INET6, IPV6_LEN),
            Self::Ib(_) => (AF_IB, IB_LEN),
        };
        storage.ss_family = family;
        let mut fields = Fields(&mut storage.__data);
        match self {
            Self::Ip(SocketAddr::V4(address)) => {
                fields.put(&address.port().to_be_bytes());
                fields.put(&address.ip().octets());
            }
            Self::Ip(SocketAddr::V6(address)) => {
                fields.put(&address.port().to_be_bytes());
                fields.put(&address.flowinfo().to_be_bytes());
                fields.put(&address.ip().octets());
                fields.put(&address.scope_id().to_ne_bytes());
            }
            Self::Ib(address) => {
                fields.put(&address.pkey.to_be_bytes());
                fields.put(&address.flow_info.to_be_bytes());
                fields.put(&address.gid.to_bytes());
                fields.put(&address.service_id.to_be_bytes());
                fields.put(&address.service_mask.to_be_bytes());
                fields.put(&address.scope_id.to_ne_bytes());
            }
        }
        (storage, len)
    }

    /// From the kernel's struct; `None` for a family that this version does not know, also for 0,
    /// no address.
    pub(super) fn from_storage(storage: &__kernel_sockaddr_storage) -> Option<Self> {
        let mut rest = storage.__data.as_slice();
        let address = match storage.ss_family {
            AF_INET => {
                let port = u16::from_be_bytes(take(&mut rest)?);
                let ip: [u8; 4] = take(&mut rest)?;
                SocketAddrV4::new(ip.into(), port).into()
            }
            AF_INET6 => {
                let port = u16::from_be_bytes(take(&mut rest)?);
                let flow = u32::from_be_bytes(take(&mut rest)?);
                let ip: [u8; 16] = take(&mut rest)?;
                let scope = u32::from_ne_bytes(take(&mut rest)?);
                SocketAddrV6::new(ip.into(), port, flow, scope).into()
            }
            AF_IB => {
                return Some(Self::Ib(IbAddress {
                    pkey: u16::from_be_bytes(take(&mut rest)?),
                    flow_info: u32::from_be_bytes(take(&mut rest)?),
                    gid: Gid::from_bytes(take(&mut rest)?),
                    service_id: u64::from_be_bytes(take(&mut rest)?),
                    service_mask: u64::from_be_bytes(take(&mut rest)?),
                    scope_id: u64::from_ne_bytes(take(&mut rest)?),
                }));
            }
            _ => return None,
        };
        Some(Self::Ip(address))
    }

    /// The bytes of the C struct for its family (`sockaddr_in`, `sockaddr_in6`, `sockaddr_ib`),
    /// zeros behind it, and how many of them count.
    pub fn to_sockaddr(self) -> ([u8; SOCKADDR_ROOM], usize) {
        let (storage, len) = self.to_storage();
        let mut bytes = [0; SOCKADDR_ROOM];
        for (to, from) in bytes.iter_mut().zip(storage.as_bytes()) {
            *to = *from;
        }
        (bytes, len.into())
    }

    /// How many bytes such a struct has, by its first two bytes; `None` for a family that this
    /// version does not know.
    pub fn sockaddr_len(family: [u8; 2]) -> Option<usize> {
        match u16::from_ne_bytes(family) {
            AF_INET => Some(IPV4_LEN.into()),
            AF_INET6 => Some(IPV6_LEN.into()),
            AF_IB => Some(IB_LEN.into()),
            _ => None,
        }
    }

    /// From the bytes of such a struct; `None` if they are too few.
    pub fn from_sockaddr(bytes: &[u8]) -> Option<Self> {
        let len = Self::sockaddr_len(*bytes.first_chunk()?)?;
        let bytes = bytes.get(..len)?;
        let mut storage = __kernel_sockaddr_storage::default();
        for (to, from) in storage.as_mut_bytes().iter_mut().zip(bytes) {
            *to = *from;
        }
        Self::from_storage(&storage)
    }

    /// In the struct of the older commands, which has room for an IP address.
    pub(super) fn to_in6(self, op: Op) -> Result<sockaddr_in6> {
        if matches!(self, Self::Ib(_)) {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .hint("this form of the command has room for IP addresses only"));
        }
        let (storage, _) = self.to_storage();
        let mut short = sockaddr_in6::default();
        for (to, from) in short.as_mut_bytes().iter_mut().zip(storage.as_bytes()) {
            *to = *from;
        }
        Ok(short)
    }

    /// From that struct, if it is an IP address: of others the kernel writes as much as fits.
    pub(super) fn from_in6(short: &sockaddr_in6) -> Option<Self> {
        let mut storage = __kernel_sockaddr_storage::default();
        for (to, from) in storage.as_mut_bytes().iter_mut().zip(short.as_bytes()) {
            *to = *from;
        }
        Self::from_storage(&storage).filter(|address| matches!(address, Self::Ip(_)))
    }

    /// Whether it stands for any address of its family.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        match self {
            Self::Ip(address) => match address.ip() {
                IpAddr::V4(ip) => ip == Ipv4Addr::UNSPECIFIED,
                IpAddr::V6(ip) => ip.is_unspecified(),
            },
            Self::Ib(address) => address.gid == Gid::ZERO,
        }
    }
}

/// Fills the fields of a struct one after another.
struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    fn put(&mut self, field: &[u8]) {
        let (now, rest) = std::mem::take(&mut self.0).split_at_mut(field.len());
        now.copy_from_slice(field);
        self.0 = rest;
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (now, later) = rest.split_first_chunk()?;
    *rest = later;
    Some(*now)
}

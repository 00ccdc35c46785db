//! Changes to devices. They need `CAP_NET_ADMIN`.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use uverbs_uapi::rdma_netlink::{
    RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME, RDMA_NLDEV_ATTR_LINK_TYPE,
    RDMA_NLDEV_ATTR_NDEV_NAME, RDMA_NLDEV_CMD_DELLINK, RDMA_NLDEV_CMD_NEWLINK, RDMA_NLDEV_CMD_SET,
    RDMA_NLDEV_CMD_SYS_SET, RDMA_NLDEV_NET_NS_FD, RDMA_NLDEV_SYS_ATTR_NETNS_MODE,
};

use super::{Attribute, Client, NetlinkTransport, NetnsMode, Request};
use crate::error::{Errno, Error, Op, Result};
use crate::types::checked;

impl<T: NetlinkTransport> Client<T> {
    /// `rdma link add NAME type KIND netdev NETDEV`—creates a software device on a network device.
    ///
    /// `kind` is `rxe` (RoCE) or `siw` (iWARP). The kernel loads the module if modules are loaded
    /// on demand.
    ///
    /// # Errors
    /// EPERM without `CAP_NET_ADMIN`; ENODEV if there is no such network device in this namespace;
    /// EEXIST if it, or the name, is already in use; EINVAL for a kind that the kernel does not
    /// have; ENOENT from rxe if its checksum module is missing.
    pub fn add_link(&mut self, name: &str, kind: &str, netdev: &str) -> Result<()> {
        let op = Op::AddLink;
        let attributes = [
            Attribute::text(op, RDMA_NLDEV_ATTR_DEV_NAME, name)?,
            Attribute::text(op, RDMA_NLDEV_ATTR_LINK_TYPE, kind)?,
            Attribute::text(op, RDMA_NLDEV_ATTR_NDEV_NAME, netdev)?,
        ];
        self.order(op, &Request::order(RDMA_NLDEV_CMD_NEWLINK, &attributes))
            .map_err(|error| {
                let error = error
                    .fact("name", name)
                    .fact("type", kind)
                    .fact("netdev", netdev);
                match error.errno() {
                    Some(Errno::PERM) => error.hint("this needs CAP_NET_ADMIN: run it as root"),
                    Some(Errno::NODEV) => {
                        error.hint("there is no such network device here (ip link)")
                    }
                    Some(Errno::INVAL) => error.hint(
                        "the kernel does not have this type: load its module (modprobe rdma_rxe)",
                    ),
                    Some(Errno::NOENT) => error.hint(
                        "rxe needs a checksum module: load it first (modprobe crc32_generic)",
                    ),
                    _ => error,
                }
            })
    }

    /// `rdma link delete`—removes a software device. It waits until every process has closed the
    /// device.
    ///
    /// # Errors
    /// EPERM without `CAP_NET_ADMIN`; EINVAL if there is no such device, or it is not a software
    /// device.
    pub fn delete_link(&mut self, index: u32) -> Result<()> {
        let attributes = [Attribute::u32(RDMA_NLDEV_ATTR_DEV_INDEX, index)];
        self.order(
            Op::DeleteLink,
            &Request::order(RDMA_NLDEV_CMD_DELLINK, &attributes),
        )
    }

    /// `rdma dev set NAME netns`—moves a device to the network namespace `netns`, an open
    /// `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// EPERM without `CAP_NET_ADMIN` in both; EINVAL if there is no such device; EOPNOTSUPP if
    /// devices are shared between namespaces, or the driver cannot disassociate its users (rxe).
    pub fn move_to_netns(&mut self, index: u32, netns: BorrowedFd<'_>) -> Result<()> {
        let op = Op::SetSystem;
        let fd =
            u32::try_from(netns.as_raw_fd()).map_err(|_| Error::invalid(op, "the namespace"))?;
        let attributes = [
            Attribute::u32(RDMA_NLDEV_ATTR_DEV_INDEX, index),
            Attribute::u32(RDMA_NLDEV_NET_NS_FD, fd),
        ];
        self.order(op, &Request::order(RDMA_NLDEV_CMD_SET, &attributes))
    }

    /// `rdma system set netns`—sets whether devices belong to network namespaces.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a mode without a name; EPERM without
    /// `CAP_NET_ADMIN`; EBUSY while there are other network namespaces.
    pub fn set_netns_mode(&mut self, mode: NetnsMode) -> Result<()> {
        let op = Op::SetSystem;
        if let NetnsMode::Unknown(mode) = mode {
            return Err(checked::unnamed(op, "mode", mode.raw().into()));
        }
        let attributes = [Attribute::u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, mode.raw())];
        self.order(op, &Request::order(RDMA_NLDEV_CMD_SYS_SET, &attributes))
    }

    fn order(&mut self, op: Op, request: &Request<'_>) -> Result<()> {
        self.conversation.query(op, request, |(), _| Ok(()))
    }
}

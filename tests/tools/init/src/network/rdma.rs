//! rxe devices, by RDMA netlink.

use crate::error::{Doing as _, Error};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Message types and attributes of `rdma_netlink.h`.
const RDMA_NL_NLDEV: u16 = 5;
const RDMA_NLDEV_CMD_NEWLINK: u16 = 3;
const RDMA_NLDEV_ATTR_DEV_NAME: u16 = 2;
const RDMA_NLDEV_ATTR_NDEV_NAME: u16 = 51;
const RDMA_NLDEV_ATTR_LINK_TYPE: u16 = 65;

/// Message type and flags of `netlink.h`.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

/// Adds an rxe device on an interface of the calling thread's network namespace.
pub(crate) fn add_rxe(name: &str, link: &str) -> Result<(), Error> {
    let doing = || format!("adding the rxe device {name} on {link}");
    let message = new_link(name, link);
    let socket = open().doing(doing)?;
    sendto(
        socket.as_raw_fd(),
        &message,
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )
    .doing(doing)?;
    let mut answer = [0; 4096];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).doing(doing)?;
    match acknowledged(answer.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(error) => Err(Error::new(
            doing(),
            std::io::Error::from_raw_os_error(error.saturating_neg()),
        )),
        None => Err(Error::new(doing(), "the kernel's answer is none")),
    }
}

fn open() -> nix::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRDMA,
    )?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(socket)
}

fn new_link(name: &str, link: &str) -> Vec<u8> {
    let mut message = vec![0; 4];
    let kind = (RDMA_NL_NLDEV << 10) + RDMA_NLDEV_CMD_NEWLINK;
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    // Sequence number and port: one request, one answer.
    message.extend([0; 8]);
    attribute(&mut message, RDMA_NLDEV_ATTR_DEV_NAME, name);
    attribute(&mut message, RDMA_NLDEV_ATTR_NDEV_NAME, link);
    attribute(&mut message, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
    let length = u32::try_from(message.len())
        .unwrap_or_default()
        .to_ne_bytes();
    message.splice(..4, length);
    message
}

/// Appends a string with its terminating zero, padded to four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, text: &str) {
    let length = u16::try_from(4 + text.len() + 1).unwrap_or_default();
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(text.as_bytes());
    message.push(0);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// The error number of an acknowledgement (0: done; else negative).
fn acknowledged(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == NLMSG_ERROR).then_some(error)
}

#[cfg(test)]
mod tests {
    use super::{acknowledged, new_link};

    #[test]
    fn the_request_is_whole() {
        let message = new_link("rxe0", "v0");
        assert_eq!(message.len(), 16 + 12 + 8 + 8);
        assert_eq!(message[..8], [44, 0, 0, 0, 3, 20, 5, 0]);
        assert_eq!(message[16..28], *b"\x09\0\x02\0rxe0\0\0\0\0");
        assert_eq!(message[28..36], *b"\x07\0\x33\0v0\0\0");
        assert_eq!(message[36..], *b"\x08\0\x41\0rxe\0");
    }

    #[test]
    fn a_short_answer_is_no_answer() {
        assert_eq!(acknowledged(&[0; 19]), None);
        let mut answer = [0; 36];
        answer[4] = 2;
        answer[16..20].copy_from_slice(&(-17_i32).to_ne_bytes());
        assert_eq!(acknowledged(&answer), Some(-17));
    }
}

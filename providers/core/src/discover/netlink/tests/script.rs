//! A scripted kernel.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use netlink_packet_core::{NLM_F_MULTIPART, NLMSG_DONE, NLMSG_ERROR};
use uverbs_uapi::rdma_netlink::*;

use crate::discover::netlink::{Client, NetlinkTransport};
use crate::error::Errno;

/// Answers with the given datagrams in order, then not at all; records requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) sent: Rc<RefCell<Vec<Vec<u8>>>>,
    pub(crate) left: Rc<RefCell<VecDeque<Vec<u8>>>>,
    /// How often `receive` was called.
    pub(crate) receives: Rc<Cell<usize>>,
}

impl Script {
    pub(crate) fn new(datagrams: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let script = Self::default();
        script.left.borrow_mut().extend(datagrams);
        script
    }

    pub(crate) fn client(&self) -> Client<Self> {
        Client::over(self.clone())
    }

    /// The requests, one datagram per item.
    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        self.sent.borrow().clone()
    }

    /// How many datagrams are unread.
    pub(crate) fn unread(&self) -> usize {
        self.left.borrow().len()
    }
}

impl NetlinkTransport for Script {
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno> {
        self.sent.borrow_mut().push(datagram.to_vec());
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], lengths: &mut [usize]) -> Result<usize, Errno> {
        let mut left = self.left.borrow_mut();
        let room = buffer.len() / lengths.len();
        let mut count = 0;
        for (part, length) in buffer.chunks_exact_mut(room).zip(lengths) {
            let Some(datagram) = left.pop_front() else {
                break;
            };
            let fits = datagram.len().min(part.len());
            part[..fits].copy_from_slice(&datagram[..fits]);
            *length = datagram.len();
            count += 1;
        }
        self.receives.set(self.receives.get() + 1);
        if count == 0 {
            return Err(Errno::TIMEDOUT);
        }
        Ok(count)
    }
}

/// The bytes of hexadecimal digits.
#[cfg(target_endian = "little")]
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// An attribute with its padding.
pub(crate) fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(value.len() + 4)
        .unwrap()
        .to_ne_bytes()
        .to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub(crate) fn text(kind: u16, value: &str) -> Vec<u8> {
    attr(kind, &[value.as_bytes(), &[0]].concat())
}

pub(crate) fn word(kind: u16, value: u32) -> Vec<u8> {
    attr(kind, &value.to_ne_bytes())
}

pub(crate) fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(16 + payload.len())
        .unwrap()
        .to_ne_bytes()
        .to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0x95_u32.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

/// A whole answer, or (`part`) one of several.
pub(crate) fn answer(command: u16, part: bool, sequence: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let flags = if part { NLM_F_MULTIPART } else { 0 };
    message(
        RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
        flags,
        sequence,
        &attributes.concat(),
    )
}

pub(crate) fn done(sequence: u32) -> Vec<u8> {
    message(NLMSG_DONE, NLM_F_MULTIPART, sequence, &0_u32.to_ne_bytes())
}

pub(crate) fn error(sequence: u32, errno: Errno) -> Vec<u8> {
    let code = (-errno.raw_os_error()).to_ne_bytes();
    message(
        NLMSG_ERROR,
        0,
        sequence,
        &[code.as_slice(), &[0; 16]].concat(),
    )
}

pub(crate) fn device(part: bool, sequence: u32, index: u32, name: &str) -> Vec<u8> {
    let attributes = [
        word(RDMA_NLDEV_ATTR_DEV_INDEX, index),
        text(RDMA_NLDEV_ATTR_DEV_NAME, name),
    ];
    answer(RDMA_NLDEV_CMD_GET, part, sequence, &attributes)
}

/// An rxe's character device of this minor number, 192 for `uverbs0`.
pub(crate) fn char_device(sequence: u32, major: u32, minor: u32, name: &str) -> Vec<u8> {
    let number = u64::from((major << 8) | (minor & 0xff));
    let attributes = [
        word(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 14),
        attr(RDMA_NLDEV_ATTR_CHARDEV, &number.to_ne_bytes()),
        attr(RDMA_NLDEV_ATTR_CHARDEV_ABI, &2_u64.to_ne_bytes()),
        text(RDMA_NLDEV_ATTR_CHARDEV_NAME, name),
    ];
    answer(RDMA_NLDEV_CMD_GET_CHARDEV, false, sequence, &attributes)
}

//! Commands of the connection manager over `write(2)`.
//!
//! There is no other encoding. The kernel accepts them only from the process that opened the file,
//! and only while that process has the credentials that it had then.
//!
//! # Safety
//!
//! The kernel writes the reply through an address that is part of the written bytes, and reads the
//! value of an option through another. This file upholds that they are the addresses of the cells
//! of the reply, with their length announced, and of the bytes of the value, which both live until
//! the system call returns.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_SET_OPTION, rdma_ucm_cmd_hdr,
};
use zerocopy::IntoBytes;

use super::ioctl::address;
use super::write::{with_buffer, write_whole};
use crate::error::Errno;

const HEADER: usize = size_of::<rdma_ucm_cmd_hdr>();

/// A command of the connection manager as a value.
#[derive(Clone, Copy, Debug)]
pub struct CmCommand<'a> {
    /// `RDMA_USER_CM_CMD_*`.
    pub command: u32,
    /// The whole struct of the request, without a header: most commands copy all of it, whatever
    /// the header says. Its `response` (or `optval`) address is zero here and is filled in when the
    /// command is sent.
    pub request: &'a [u8],
    /// The reply; empty for commands without one.
    pub reply: &'a [Cell<u8>],
    /// The value of the option, for `SET_OPTION`.
    pub value: &'a [u8],
}

impl CmCommand<'_> {
    /// Where in the request the kernel expects an address, in bytes.
    fn address_at(&self) -> usize {
        match self.command {
            RDMA_USER_CM_CMD_CREATE_ID => 8,
            _ => 0,
        }
    }

    /// The address in the request, if the command has one.
    fn address(&self) -> Option<u64> {
        match self.command {
            RDMA_USER_CM_CMD_SET_OPTION => Some(self.value.as_ptr().expose_provenance() as u64),
            _ if self.reply.is_empty() => None,
            _ => Some(address(self.reply)),
        }
    }
}

/// Writes `command` to `fd`. Cells of the reply that the kernel does not write keep their values.
pub(super) fn write_cm(fd: BorrowedFd<'_>, command: &CmCommand<'_>) -> Result<(), Errno> {
    let total = HEADER + command.request.len();
    let header = rdma_ucm_cmd_hdr {
        cmd: command.command,
        r#in: len16(command.request.len())?,
        out: len16(command.reply.len())?,
    };
    with_buffer(total, |bytes| {
        let (head, request) = bytes.split_at_mut(HEADER);
        head.copy_from_slice(header.as_bytes());
        request.copy_from_slice(command.request);
        if let Some(address) = command.address() {
            request
                .get_mut(command.address_at()..)
                .and_then(|rest| rest.first_chunk_mut::<8>())
                .ok_or(Errno::INVAL)?
                .copy_from_slice(&address.to_ne_bytes());
        }
        write_whole(fd, bytes)
    })
}

fn len16(len: usize) -> Result<u16, Errno> {
    u16::try_from(len).map_err(|_| Errno::TOOBIG)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use uverbs_uapi::rdma_user_cm::{
        RDMA_USER_CM_CMD_DESTROY_ID, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_create_id,
        rdma_ucm_destroy_id, rdma_ucm_listen, rdma_ucm_set_option,
    };

    use super::*;

    /// The bytes that the kernel would get.
    fn written(command: &CmCommand<'_>) -> Vec<u8> {
        let (mut reader, writer) = std::io::pipe().unwrap();
        write_cm(writer.as_fd(), command).unwrap();
        drop(writer);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_command_is_its_header_and_its_struct() {
        let request = rdma_ucm_listen { id: 7, backlog: 9 };
        let bytes = written(&CmCommand {
            command: RDMA_USER_CM_CMD_LISTEN,
            request: request.as_bytes(),
            reply: &[],
            value: &[],
        });
        let words: Vec<u8> = [7_u32.to_ne_bytes(), 0x0000_0008_u32.to_ne_bytes()].concat();
        assert_eq!(bytes[..4], words[..4]);
        assert_eq!(bytes[4..6], 8_u16.to_ne_bytes());
        assert_eq!(bytes[6..8], 0_u16.to_ne_bytes());
        assert_eq!(bytes[8..12], 7_u32.to_ne_bytes());
        assert_eq!(bytes.len(), 16);
    }

    #[test]
    fn the_reply_is_named_where_the_kernel_looks_for_it() {
        let reply = [const { Cell::new(0) }; 4];
        let create = rdma_ucm_create_id {
            uid: 0x1122,
            ..rdma_ucm_create_id::default()
        };
        let bytes = written(&CmCommand {
            command: RDMA_USER_CM_CMD_CREATE_ID,
            request: create.as_bytes(),
            reply: &reply,
            value: &[],
        });
        assert_eq!(bytes[6..8], 4_u16.to_ne_bytes());
        assert_eq!(
            (word(&bytes, 8), word(&bytes, 16)),
            (0x1122, address(&reply))
        );
        let bytes = written(&CmCommand {
            command: RDMA_USER_CM_CMD_DESTROY_ID,
            request: rdma_ucm_destroy_id::default().as_bytes(),
            reply: &reply,
            value: &[],
        });
        assert_eq!(word(&bytes, 8), address(&reply));
    }

    #[test]
    fn a_command_that_is_taken_in_part_is_an_error() {
        // Longer than a pipe takes whole, which has room for a page.
        let (_reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        let request = [0; 8192];
        let command = CmCommand {
            command: RDMA_USER_CM_CMD_LISTEN,
            request: &request,
            reply: &[],
            value: &[],
        };
        assert_eq!(write_cm(writer.as_fd(), &command), Err(Errno::IO));
    }

    #[test]
    fn the_value_of_an_option_is_named() {
        let value = [3_u8];
        let request = rdma_ucm_set_option {
            optlen: 1,
            ..rdma_ucm_set_option::default()
        };
        let bytes = written(&CmCommand {
            command: RDMA_USER_CM_CMD_SET_OPTION,
            request: request.as_bytes(),
            reply: &[],
            value: &value,
        });
        assert_eq!(word(&bytes, 8), value.as_ptr().expose_provenance() as u64);
        assert_eq!(bytes[6..8], 0_u16.to_ne_bytes());
    }
}

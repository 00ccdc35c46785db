//! A command of the connection manager.

use nix::unistd::Pid;
use uverbs_uapi::rdma_user_cm::{RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_SET_OPTION};

use super::memory::{read, word};
use crate::raw::{Hex, What};

/// Length of `rdma_ucm_cmd_hdr`.
const HEADER: usize = 8;

fn number(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(word(bytes, 0))
}

/// The bytes that `SET_OPTION` names by their address and length.
pub(super) fn option(pid: Pid, bytes: &[u8]) -> Vec<u8> {
    if number(bytes) != RDMA_USER_CM_CMD_SET_OPTION {
        return Vec::new();
    }
    let address = u64::from_ne_bytes(word(bytes, HEADER));
    let len = u32::from_ne_bytes(word(bytes, HEADER + 20));
    read(pid, address, usize::try_from(len).unwrap_or(0))
}

/// The address of the reply is first in the request, or second where `uid` is first.
pub(super) fn answered(pid: Pid, bytes: &[u8], option: Vec<u8>) -> What {
    let command = number(bytes);
    let at = if command == RDMA_USER_CM_CMD_CREATE_ID {
        HEADER + 8
    } else {
        HEADER
    };
    let response = u64::from_ne_bytes(word(bytes, at));
    let out = u16::from_ne_bytes(word(bytes, 6));
    What::Cm {
        command,
        request: Hex(bytes.get(HEADER..).unwrap_or_default().to_vec()),
        option: Hex(option),
        reply: Hex(read(pid, response, usize::from(out))),
    }
}

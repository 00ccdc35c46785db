//! Legacy commands over `write(2)`.
//!
//! The kernel binds `write(2)` to the credentials of the opener: after `setuid` or `fork` it answers
//! EACCES. So this path is used only where the kernel has no `INVOKE_WRITE` method, or by force.
//!
//! # Safety
//!
//! The kernel writes the reply through an address that is part of the written bytes. This file
//! upholds that the address is that of a scratch buffer of at least the announced length, which
//! lives until the system call returns.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use uverbs_uapi::ib_user_verbs::{ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr};
use zerocopy::IntoBytes;

use super::attr::Uhw;
use super::ioctl::{address, patch, patch_buffer};
use crate::error::Errno;

/// Set in a command number whose encoding is the extended one.
const EXTENDED: u32 = 0x8000_0000;

/// A legacy command as a value.
#[derive(Clone, Copy, Debug)]
pub struct WriteCommand<'a> {
    /// `IB_USER_VERBS_CMD_*` or `IB_USER_VERBS_EX_CMD_*`, without flags.
    pub command: u32,
    /// The command is one of the extended ones.
    pub extended: bool,
    /// The core request, without a header. Where the plain encoding has a `response` address as
    /// its first field, that field is zero here and filled in when it is sent.
    pub request: &'a [u8],
    /// The core reply.
    pub reply: &'a [Cell<u8>],
    /// What the provider adds.
    pub uhw: Uhw<'a>,
}

impl WriteCommand<'_> {
    /// The command number with its flag, as the kernel numbers it.
    pub fn number(&self) -> u32 {
        self.command | if self.extended { EXTENDED } else { 0 }
    }
}

/// Writes `command` to `fd` and copies the reply into its cells.
pub(super) fn write_command(fd: BorrowedFd<'_>, command: &WriteCommand<'_>) -> Result<(), Errno> {
    let mut scratch = vec![0_u8; command.reply.len() + command.uhw.output.len()];
    let response = Cell::from_mut(scratch.as_mut_slice()).as_slice_of_cells();
    let bytes = if command.extended {
        extended_bytes(command, response)?
    } else {
        plain_bytes(command, response)?
    };
    let count = rustix::io::write(fd, &bytes)?;
    if count != bytes.len() {
        return Err(Errno::IO);
    }
    let (reply, driver) = response.split_at(command.reply.len());
    copy(reply, command.reply);
    copy(driver, command.uhw.output);
    Ok(())
}

fn copy(from: &[Cell<u8>], to: &[Cell<u8>]) {
    for (from, to) in from.iter().zip(to) {
        to.set(from.get());
    }
}

/// Header, core request with the response address, driver request; words of 4 bytes that count all of it.
fn plain_bytes(command: &WriteCommand<'_>, response: &[Cell<u8>]) -> Result<Vec<u8>, Errno> {
    let header_len = size_of::<ib_uverbs_cmd_hdr>();
    let total = header_len + command.request.len() + command.uhw.input.len();
    let header = ib_uverbs_cmd_hdr {
        command: command.command,
        in_words: words(total, 4)?,
        out_words: words(response.len(), 4)?,
    };
    let mut bytes = Vec::with_capacity(total);
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(command.request);
    if !command.reply.is_empty() {
        bytes
            .get_mut(header_len..)
            .and_then(|request| request.first_chunk_mut::<8>())
            .ok_or(Errno::INVAL)?
            .copy_from_slice(&address(response).to_ne_bytes());
    }
    extend_driver(&mut bytes, &command.uhw)?;
    Ok(bytes)
}

/// Header, extended header with the response address, core and driver request; words of 8 bytes, core and driver apart.
fn extended_bytes(command: &WriteCommand<'_>, response: &[Cell<u8>]) -> Result<Vec<u8>, Errno> {
    let header = ib_uverbs_cmd_hdr {
        command: command.number(),
        in_words: words(command.request.len(), 8)?,
        out_words: words(command.reply.len(), 8)?,
    };
    let extended = ib_uverbs_ex_cmd_hdr {
        response: if response.is_empty() {
            0
        } else {
            address(response)
        },
        provider_in_words: words(command.uhw.input.len(), 8)?,
        provider_out_words: words(command.uhw.output.len(), 8)?,
        cmd_hdr_reserved: 0,
    };
    let mut bytes = Vec::with_capacity(24 + command.request.len() + command.uhw.input.len());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(extended.as_bytes());
    bytes.extend_from_slice(command.request);
    extend_driver(&mut bytes, &command.uhw)?;
    Ok(bytes)
}

fn extend_driver(bytes: &mut Vec<u8>, uhw: &Uhw<'_>) -> Result<(), Errno> {
    match &uhw.pointer {
        Some(pointer) => bytes.extend_from_slice(patch(uhw.input, pointer, &mut patch_buffer())?),
        None => bytes.extend_from_slice(uhw.input),
    }
    Ok(())
}

fn words(bytes: usize, size: usize) -> Result<u16, Errno> {
    if !bytes.is_multiple_of(size) {
        return Err(Errno::INVAL);
    }
    u16::try_from(bytes / size).map_err(|_| Errno::TOOBIG)
}

//! Legacy commands over `write(2)`.
//!
//! The kernel binds `write(2)` to the credentials of the process that opened the file: after
//! `setuid` or `fork` it answers EACCES. So commands use it only if the kernel has no
//! `INVOKE_WRITE` method, or if the user asks for it. Doorbells use it until the kernel refuses
//! one.
//!
//! # Safety
//!
//! The kernel writes the reply through an address that is part of the written bytes. This file
//! upholds that it is the address of cells of at least the announced length, those of the reply or
//! of a scratch buffer, which live until the system call returns.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use uverbs_uapi::ib_user_verbs::{ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr, ib_uverbs_post_send};
use zerocopy::{Immutable, IntoBytes};

use super::attr::Uhw;
use super::ioctl::{address, patch, patch_buffer};
use crate::error::Errno;

/// The bit in a command number that selects the extended encoding.
const EXTENDED: u32 = 0x8000_0000;

/// A legacy command as a value.
#[derive(Clone, Copy, Debug)]
pub struct WriteCommand<'a> {
    /// `IB_USER_VERBS_CMD_*` or `IB_USER_VERBS_EX_CMD_*`, without flags.
    pub command: u32,
    /// Whether it is an extended command.
    pub extended: bool,
    /// The core request, without a header. If the plain encoding has a `response` address as its
    /// first field, that field is zero here and is filled in when the command is sent.
    pub request: &'a [u8],
    /// The core reply.
    pub reply: &'a [Cell<u8>],
    /// The driver data.
    pub uhw: Uhw<'a>,
}

impl WriteCommand<'_> {
    /// The command number with the extended flag, as the kernel numbers it.
    pub fn number(&self) -> u32 {
        self.command | if self.extended { EXTENDED } else { 0 }
    }

    /// Whether the request is the whole command, and the reply is all that is answered.
    fn is_short(&self) -> bool {
        !self.extended && !self.reply.is_empty() && self.uhw.is_empty()
    }
}

/// What is written for a doorbell, and for other commands with a request as short.
#[derive(Immutable, IntoBytes)]
#[repr(C)]
struct Short {
    header: ib_uverbs_cmd_hdr,
    response: u64,
    rest: [[u8; 8]; 2],
}

/// The length of such a request.
const SHORT: usize = size_of::<Short>() - HEADER;
const _: () = assert!(SHORT == size_of::<ib_uverbs_post_send>());

/// Writes `command` to `fd`. Cells of the reply that the kernel does not write keep their values,
/// in particular the markers for "not written".
pub(super) fn write_command(fd: BorrowedFd<'_>, command: &WriteCommand<'_>) -> Result<(), Errno> {
    if let Ok(request) = command.request.try_into()
        && command.is_short()
    {
        return write_short(fd, command, request);
    }
    write_any(fd, command)
}

#[inline(never)]
fn write_any(fd: BorrowedFd<'_>, command: &WriteCommand<'_>) -> Result<(), Errno> {
    if command.uhw.output.is_empty() {
        return send(fd, command, command.reply);
    }
    // The driver's part of a reply follows the core's without a gap.
    let reply_len = command.reply.len() + command.uhw.output.len();
    with_buffer(reply_len, |scratch| {
        let response = Cell::from_mut(scratch).as_slice_of_cells();
        let (reply, driver) = response.split_at(command.reply.len());
        copy(command.reply, reply);
        copy(command.uhw.output, driver);
        send(fd, command, response)?;
        copy(reply, command.reply);
        copy(driver, command.uhw.output);
        Ok(())
    })
}

/// The same as [`send`] in few instructions: each batch of requests needs a doorbell on rxe.
#[inline]
fn write_short(
    fd: BorrowedFd<'_>,
    command: &WriteCommand<'_>,
    request: &[u8; SHORT],
) -> Result<(), Errno> {
    let [_, first, second] = zerocopy::transmute!(*request);
    let short = Short {
        header: plain_header(command, command.reply, size_of::<Short>())?,
        response: address(command.reply),
        rest: [first, second],
    };
    write_whole(fd, short.as_bytes())
}

/// Writes a command, which the kernel takes as a whole.
// Not inlined, for programs that are to be small.
#[inline(never)]
pub(super) fn write_whole(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    match rustix::io::write(fd, bytes)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(Errno::IO),
    }
}

fn send(
    fd: BorrowedFd<'_>,
    command: &WriteCommand<'_>,
    response: &[Cell<u8>],
) -> Result<(), Errno> {
    let headers = if command.extended { EX_HEADERS } else { HEADER };
    let total = headers + command.request.len() + command.uhw.input.len();
    with_buffer(total, |bytes| {
        let (head, body) = bytes.split_at_mut(headers);
        let (request, driver) = body.split_at_mut(command.request.len());
        request.copy_from_slice(command.request);
        match &command.uhw.pointer {
            Some(pointer) => {
                driver.copy_from_slice(patch(command.uhw.input, pointer, &mut patch_buffer())?);
            }
            None => driver.copy_from_slice(command.uhw.input),
        }
        if command.extended {
            write_extended_headers(head, command, response)?;
        } else {
            let header = plain_header(command, response, total)?;
            head.copy_from_slice(header.as_bytes());
            point_at_response(request, command, response)?;
        }
        write_whole(fd, bytes)
    })
}

const HEADER: usize = size_of::<ib_uverbs_cmd_hdr>();
const EX_HEADERS: usize = HEADER + size_of::<ib_uverbs_ex_cmd_hdr>();

/// Calls `fill` with `len` zeroed bytes, on the stack for all but the longest commands.
pub(super) fn with_buffer<R>(len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
    match [0; 256].get_mut(..len) {
        Some(buffer) => fill(buffer),
        None => fill(&mut vec![0; len]),
    }
}

fn copy(from: &[Cell<u8>], to: &[Cell<u8>]) {
    for (from, to) in from.iter().zip(to) {
        to.set(from.get());
    }
}

/// The header of a plain command: lengths in words of 4 bytes, driver data included.
#[inline]
fn plain_header(
    command: &WriteCommand<'_>,
    response: &[Cell<u8>],
    total: usize,
) -> Result<ib_uverbs_cmd_hdr, Errno> {
    Ok(ib_uverbs_cmd_hdr {
        command: command.command,
        in_words: words(total, 4)?,
        out_words: words(response.len(), 4)?,
    })
}

/// If there is a reply, the plain request starts with its address.
fn point_at_response(
    request: &mut [u8],
    command: &WriteCommand<'_>,
    response: &[Cell<u8>],
) -> Result<(), Errno> {
    if command.reply.is_empty() {
        return Ok(());
    }
    request
        .first_chunk_mut::<8>()
        .ok_or(Errno::INVAL)?
        .copy_from_slice(&address(response).to_ne_bytes());
    Ok(())
}

/// The headers of an extended command: lengths in words of 8 bytes, core and driver data
/// separately, and the address of the reply.
fn write_extended_headers(
    head: &mut [u8],
    command: &WriteCommand<'_>,
    response: &[Cell<u8>],
) -> Result<(), Errno> {
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
    let (first, second) = head.split_at_mut(HEADER);
    first.copy_from_slice(header.as_bytes());
    second.copy_from_slice(extended.as_bytes());
    Ok(())
}

fn words(bytes: usize, size: usize) -> Result<u16, Errno> {
    if !bytes.is_multiple_of(size) {
        return Err(Errno::INVAL);
    }
    u16::try_from(bytes / size).map_err(|_| Errno::TOOBIG)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, pipe};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_command_is_a_header_the_request_and_the_drivers_data() {
        let (mut from, to) = pipe().unwrap();
        for extended in [false, true] {
            let command = WriteCommand {
                command: 7,
                extended,
                request: &[1; 16],
                reply: &[],
                uhw: Uhw::new(&[2; 8], &[]),
            };
            write_command(to.as_fd(), &command).unwrap();
            let headers = if extended { EX_HEADERS } else { HEADER };
            let mut bytes = vec![0; headers + 24];
            from.read_exact(&mut bytes).unwrap();
            let (head, body) = bytes.split_at(headers);
            assert_eq!(body[..16], [1; 16]);
            assert_eq!(body[16..], [2; 8]);
            assert_eq!(head[..4], command.number().to_ne_bytes());
            // In words of 8 bytes, the core's part; in words of 4, all of it.
            let words: u16 = if extended { 2 } else { 8 };
            assert_eq!(head[4..6], words.to_ne_bytes());
        }
    }

    /// The bytes that the kernel would get.
    fn written(command: &WriteCommand<'_>) -> Result<Vec<u8>, Errno> {
        let (mut from, to) = pipe().unwrap();
        write_command(to.as_fd(), command)?;
        drop(to);
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    }

    fn half(bytes: &[u8], at: usize) -> u16 {
        u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap())
    }

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_plain_request_begins_with_the_address_of_its_reply() {
        let reply = [const { Cell::new(5) }; 8];
        let driver = [const { Cell::new(6) }; 4];
        let plain = WriteCommand {
            command: 7,
            extended: false,
            request: &[0; 16],
            reply: &reply,
            uhw: Uhw::NONE,
        };
        let bytes = written(&plain).unwrap();
        assert_eq!(word(&bytes, HEADER), address(&reply));
        assert_eq!((half(&bytes, 4), half(&bytes, 6)), (6, 2));
        assert_eq!(bytes[HEADER + 8..], [0; 8]);

        // With the driver's part, both are answered together.
        let both = WriteCommand {
            uhw: Uhw::new(&[2; 8], &driver),
            ..plain
        };
        let bytes = written(&both).unwrap();
        assert_ne!(word(&bytes, HEADER), 0);
        assert_ne!(word(&bytes, HEADER), address(&reply));
        assert_eq!((half(&bytes, 4), half(&bytes, 6)), (8, 3));
        // What nobody wrote stays.
        assert!(reply.iter().all(|cell| cell.get() == 5));
        assert!(driver.iter().all(|cell| cell.get() == 6));

        let without = WriteCommand {
            reply: &[],
            ..plain
        };
        assert_eq!(word(&written(&without).unwrap(), HEADER), 0);
        let short = WriteCommand {
            request: &[0; 4],
            ..plain
        };
        assert_eq!(written(&short), Err(Errno::INVAL), "no room for an address");
    }

    #[test]
    fn short_requests_are_written_as_all_others_are() {
        let reply = [const { Cell::new(0) }; 4];
        let request: Vec<u8> = (0..24).collect();
        let command = |reply| WriteCommand {
            command: 7,
            extended: false,
            request: &request,
            reply,
            uhw: Uhw::NONE,
        };
        let bytes = written(&command(&reply)).unwrap();
        assert_eq!(bytes[..4], 7_u32.to_ne_bytes());
        assert_eq!((half(&bytes, 4), half(&bytes, 6)), (8, 1));
        assert_eq!(word(&bytes, HEADER), address(&reply));
        assert_eq!(bytes[HEADER + 8..], request[8..]);
        assert_eq!(bytes.len(), size_of::<Short>());
        assert_eq!(written(&command(&reply[..2])), Err(Errno::INVAL));
        let without = written(&command(&[])).unwrap();
        assert_eq!(without[HEADER..], request, "no address without a reply");
        // With driver data it is none of the short ones.
        let driver = WriteCommand {
            uhw: Uhw::new(&[2; 8], &[]),
            ..command(&reply)
        };
        let bytes = written(&driver).unwrap();
        assert_eq!(half(&bytes, 4), 10);
        assert_eq!(bytes[HEADER + 24..], [2; 8]);
        let (from, to) = pipe().unwrap();
        drop(from);
        let closed = write_command(to.as_fd(), &command(&reply));
        assert_eq!(closed, Err(Errno::PIPE));
    }

    #[test]
    fn an_extended_header_counts_both_parts_in_words_of_eight_bytes() {
        let reply = [const { Cell::new(0) }; 24];
        let driver = [const { Cell::new(0) }; 32];
        let command = WriteCommand {
            command: 7,
            extended: true,
            request: &[1; 16],
            reply: &reply,
            uhw: Uhw::new(&[2; 8], &driver),
        };
        let bytes = written(&command).unwrap();
        assert_eq!((half(&bytes, 4), half(&bytes, 6)), (2, 3));
        assert_eq!(
            (half(&bytes, HEADER + 8), half(&bytes, HEADER + 10)),
            (1, 4)
        );
        assert_ne!(word(&bytes, HEADER), 0);
        assert_eq!(bytes[EX_HEADERS..][..16], [1; 16], "without an address");
        let core = WriteCommand {
            uhw: Uhw::NONE,
            ..command
        };
        let bytes = written(&core).unwrap();
        assert_eq!(word(&bytes, HEADER), address(&reply));
        assert_eq!(
            (half(&bytes, HEADER + 8), half(&bytes, HEADER + 10)),
            (0, 0)
        );
        let silent = WriteCommand { reply: &[], ..core };
        assert_eq!(word(&written(&silent).unwrap(), HEADER), 0);
    }

    #[test]
    fn lengths_that_are_no_whole_words_or_do_not_fit_are_refused() {
        for (extended, request, errno) in [
            (false, vec![0; 6], Errno::INVAL),
            (true, vec![0; 12], Errno::INVAL),
            (false, vec![0; 4 << 16], Errno::TOOBIG),
            (true, vec![0; 8 << 16], Errno::TOOBIG),
        ] {
            let command = WriteCommand {
                command: 7,
                extended,
                request: &request,
                reply: &[],
                uhw: Uhw::NONE,
            };
            assert_eq!(written(&command), Err(errno), "{}", request.len());
        }
    }

    #[test]
    fn buffers_of_any_length_are_zeroed() {
        for len in [0, 1, 64, 65, 256, 257, 5000] {
            with_buffer(len, |bytes| assert_eq!(bytes, vec![0; len]));
        }
    }
}

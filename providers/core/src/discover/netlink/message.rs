//! Splits a datagram into messages.

use netlink_packet_core::{
    DoneBuffer, ErrorBuffer, NLM_F_DUMP_INTR, NLM_F_MULTIPART, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP,
    NLMSG_OVERRUN, NetlinkBuffer,
};
use uverbs_uapi::rdma_netlink::{RDMA_NL_GET_CLIENT, RDMA_NL_NLDEV};

use super::{Attributes, Malformed};
use crate::error::Errno;

/// One message from the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// Part of the answer to the request with this sequence number.
    Answer {
        /// The request's sequence number.
        sequence: u32,
        /// Its attributes.
        attributes: Attributes<'a>,
        /// This is the last message that answers the request.
        last: bool,
        /// The listed objects changed meanwhile, so the list may omit or repeat some.
        interrupted: bool,
    },
    /// The request with this sequence number has ended.
    End {
        /// The request's sequence number.
        sequence: u32,
        /// Why it failed, if it did.
        errno: Option<Errno>,
        /// As in `Answer`.
        interrupted: bool,
    },
}

/// The messages of a datagram, without no-ops. Ends after the first error.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let message = NetlinkBuffer::new_checked(rest)
                .map_err(|_| Malformed("a length that does not fit"))
                .and_then(|message| {
                    let length = usize::try_from(message.length()).unwrap_or(usize::MAX);
                    rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                    read(&message)
                });
            match message {
                Ok(None) => {}
                Ok(Some(message)) => return Some(Ok(message)),
                Err(error) => {
                    rest = &[];
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

fn read<'a>(message: &NetlinkBuffer<&'a [u8]>) -> Result<Option<Message<'a>>, Malformed> {
    let sequence = message.sequence_number();
    let interrupted = message.flags() & NLM_F_DUMP_INTR != 0;
    let end = |errno| Message::End {
        sequence,
        errno,
        interrupted,
    };
    let payload = message.payload();
    Ok(Some(match message.message_type() {
        NLMSG_ERROR => {
            let error =
                ErrorBuffer::new_checked(payload).map_err(|_| Malformed("no error number"))?;
            end(errno(error.code().map_or(0, i32::from))?)
        }
        // Older kernels end a dump without an errno.
        NLMSG_DONE if payload.is_empty() => end(None),
        NLMSG_DONE => {
            let done =
                DoneBuffer::new_checked(payload).map_err(|_| Malformed("no error number"))?;
            end(errno(done.code())?)
        }
        NLMSG_OVERRUN => return Err(Malformed("data was lost")),
        NLMSG_NOOP => return Ok(None),
        kind if RDMA_NL_GET_CLIENT(kind) == RDMA_NL_NLDEV => Message::Answer {
            sequence,
            attributes: Attributes::new(payload),
            last: message.flags() & NLM_F_MULTIPART == 0,
            interrupted,
        },
        _ => return Ok(None),
    }))
}

/// The errno in a negative number; a dump may also end with a non-negative count.
fn errno(code: i32) -> Result<Option<Errno>, Malformed> {
    match code {
        0.. => Ok(None),
        -4095..0 => Ok(Some(Errno::from_raw_os_error(-code))),
        _ => Err(Malformed("a number out of range")),
    }
}

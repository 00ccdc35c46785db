//! Events: reading, and decoding whatever the kernel wrote.

use uverbs_uapi::rdma_user_cm::{
    RDMA_USER_CM_CMD_GET_EVENT, RDMA_USER_CM_CMD_WRITE_CM_EVENT, rdma_ucm_conn_param,
    rdma_ucm_event_resp, rdma_ucm_get_event, rdma_ucm_ud_param, rdma_ucm_write_cm_event,
    rdma_ucm_write_cm_event_param,
};
use zerocopy::{FromBytes, IntoBytes};

use super::issue::{Cm, UNWRITTEN};
use super::{ConnectionParams, DatagramParams, EventKind, RejectReason};
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::file::CmFile;
use crate::types::Ece;

/// `rdma_cm_event`—one event.
#[doc(alias = "rdma_cm_event")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The caller's number: of the id; of the listener, for a
    /// [`ConnectRequest`](EventKind::ConnectRequest); of the join, for multicast.
    pub uid: u64,
    /// The id; the new id, for a [`ConnectRequest`](EventKind::ConnectRequest); that of the join,
    /// for multicast.
    pub id: u32,
    /// What it says.
    pub kind: EventKind,
    /// How it ended, as the kernel's number.
    pub status: i32,
    /// The peer's vendor options, of requests and responses.
    pub ece: Ece,
    param: [u32; PARAM_WORDS],
}

const PARAM_WORDS: usize = size_of::<rdma_ucm_ud_param>() / 4;

/// The status of an event.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum EventStatus {
    /// 0.
    Success,
    /// An error of this or the peer's kernel.
    Failed(Errno),
    /// Of [`Rejected`](EventKind::Rejected): why.
    Rejected(RejectReason),
    /// Of [`Unreachable`](EventKind::Unreachable): a datagram service refused, with this code of
    /// the specification's service id resolution.
    Refused(u32),
    /// Any other number.
    Other(i32),
}

impl Event {
    /// What its status means.
    pub fn outcome(&self) -> EventStatus {
        match (u32::try_from(self.status), self.kind) {
            (Ok(0), _) => EventStatus::Success,
            (Ok(code), EventKind::Rejected) => u16::try_from(code)
                .map_or(EventStatus::Other(self.status), |code| {
                    EventStatus::Rejected(RejectReason::from_raw(code))
                }),
            (Ok(code), EventKind::Unreachable) => EventStatus::Refused(code),
            // The range that Linux reserves for errnos.
            (Err(_), _) if (-4095..0).contains(&self.status) => {
                EventStatus::Failed(Errno::from_raw_os_error(-self.status))
            }
            _ => EventStatus::Other(self.status),
        }
    }

    /// What the peer said about its connection. Only events of ids for connections have it.
    pub fn connection(&self) -> ConnectionParams {
        let raw = rdma_ucm_conn_param::read_from_prefix(self.param.as_bytes());
        raw.map_or_else(
            |_| ConnectionParams::default(),
            |(raw, _)| ConnectionParams::from_raw(&raw),
        )
    }

    /// What is known about a datagram peer, or a multicast group. Only events of ids for datagrams
    /// have it.
    pub fn datagram(&self) -> DatagramParams {
        let raw = rdma_ucm_ud_param::read_from_prefix(self.param.as_bytes());
        raw.map_or_else(
            |_| DatagramParams::default(),
            |(raw, _)| DatagramParams::from_raw(&raw),
        )
    }

    /// The argument of an event that the program wrote itself.
    pub fn argument(&self) -> u64 {
        u64::read_from_prefix(self.param.as_bytes()).map_or(0, |(argument, _)| argument)
    }
}

/// `rdma_get_cm_event`—takes the next event of any id of the file.
///
/// There is nothing to acknowledge. One system call; blocks while there is none, unless the file is
/// [non-blocking](CmFile::set_nonblocking). It is repeated after a signal. Any number of threads
/// may wait.
///
/// # Errors
/// [`WouldBlock`](ErrorKind::WouldBlock): there is none, and the file is non-blocking.
/// [`BadReply`](ErrorKind::BadReply): the kernel wrote none.
#[doc(alias = "rdma_get_cm_event")]
#[doc(alias = "rdma_ack_cm_event")]
pub fn get_event(file: &CmFile) -> Result<Event> {
    let cm = Cm::new(Op::CmGetEvent, RDMA_USER_CM_CMD_GET_EVENT);
    loop {
        let reply = rdma_ucm_event_resp {
            id: UNWRITTEN,
            event: UNWRITTEN,
            ..rdma_ucm_event_resp::default()
        };
        match cm.call(file, &rdma_ucm_get_event::default(), reply) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            reply => return decode_event(&reply?),
        }
    }
}

/// Decodes an event. Any bytes are accepted, except those that the kernel did not write.
///
/// # Errors
/// [`BadReply`](ErrorKind::BadReply) if id or kind are not written.
pub fn decode_event(raw: &rdma_ucm_event_resp) -> Result<Event> {
    if raw.id == UNWRITTEN || raw.event == UNWRITTEN {
        return Err(Error::bad_reply(
            Op::CmGetEvent,
            "an event without id or kind",
        ));
    }
    let mut param = [0; PARAM_WORDS];
    for (to, from) in param.as_mut_bytes().iter_mut().zip(raw.param.as_bytes()) {
        *to = *from;
    }
    Ok(Event {
        uid: raw.uid,
        id: raw.id,
        kind: EventKind::from_raw(raw.event),
        status: raw.status.cast_signed(),
        ece: Ece {
            vendor_id: raw.ece.vendor_id,
            options: raw.ece.attr_mod,
            comp_mask: 0,
        },
        param,
    })
}

/// `rdma_write_cm_event`—puts an event of kind [`User`](EventKind::User) or
/// [`Internal`](EventKind::Internal) into the queue, which wakes whoever waits for one.
///
/// One system call, which does not wait. Newer than Linux 6.12. EINVAL may mean that the kernel is
/// older, which a second system call finds out.
///
/// # Errors
/// [`Unsupported`](ErrorKind::Unsupported): an older kernel. EINVAL: another kind, or the id
/// belongs to another file. ENOENT: there is no such id.
#[doc(alias = "rdma_write_cm_event")]
pub fn write_event(
    file: &CmFile,
    id: u32,
    kind: EventKind,
    status: i32,
    argument: u64,
) -> Result<()> {
    let op = Op::CmWriteEvent;
    if !matches!(kind, EventKind::User | EventKind::Internal) {
        return Err(Error::invalid(op, "kind"));
    }
    let cm = Cm::new(op, RDMA_USER_CM_CMD_WRITE_CM_EVENT);
    let request = |id, kind: EventKind| {
        let mut param = rdma_ucm_write_cm_event_param::default();
        for (to, from) in param.as_mut_bytes().iter_mut().zip(argument.as_bytes()) {
            *to = *from;
        }
        rdma_ucm_write_cm_event {
            id,
            reserved: 0,
            event: kind.raw(),
            status: status.cast_unsigned(),
            param,
        }
    };
    cm.call_without_reply(file, &request(id, kind))
        .map_err(|error| {
            newer(error, id, || {
                cm.call_without_reply(file, &request(UNWRITTEN, kind))
            })
        })
}

/// Explains a failure of a command that older kernels do not know: they answer EINVAL, whereas
/// those that know it look for the id first. `of_no_id` issues it for an id that does not exist.
pub(super) fn newer(error: Error, id: u32, of_no_id: impl FnOnce() -> Result<()>) -> Error {
    let unknown = error.errno() == Some(Errno::INVAL)
        && of_no_id().is_err_and(|error| error.errno() == Some(Errno::INVAL));
    if unknown {
        return error
            .with_kind(ErrorKind::Unsupported)
            .hint("this kernel does not have the command");
    }
    error.fact("id", id)
}

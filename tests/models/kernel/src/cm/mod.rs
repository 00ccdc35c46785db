//! The connection manager: both ends of every connection are in this process, on the one device.
//!
//! It follows the kernel's `ucma.c`, `cma.c` and `cm.c`, with messages that arrive at once and are
//! never lost. Hosts of the device's IPv4 network other than the device itself do not answer; there
//! is no route to others.
//!
//! | file | what |
//! |---|---|
//! | `command` | the table of commands: sizes, then dispatch |
//! | `id` | ids and their end |
//! | `address`, `ports` | binding, resolving, listening |
//! | `request`, `handshake` | from a request to a connection, and its end |
//! | `event` | queues of events |
//! | `iwarp` | what differs where the device speaks iWARP |
//! | `query`, `qp`, `option`, `multicast` | the rest |

mod address;
mod command;
mod event;
mod handshake;
mod id;
mod iwarp;
mod multicast;
mod option;
mod ports;
mod qp;
mod query;
mod request;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use uverbs_uapi::rdma_user_cm::rdma_ucm_conn_param;

pub(super) use command::{check, run};
pub(super) use event::{deliver, remove_device};
pub(super) use id::close_file;

use crate::files::FileId;

/// The connection manager of a kernel.
#[derive(Debug, Default)]
pub(super) struct Manager {
    ids: BTreeMap<u32, Id>,
    joins: BTreeMap<u32, Join>,
    /// Requests that found a full backlog: their senders try again.
    late: VecDeque<u32>,
    /// Whether the device speaks iWARP.
    pub(super) is_iwarp: bool,
    next_port: u16,
    next_psn: u32,
}

impl Manager {
    /// Number of ids.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// How far an id has come (`enum rdma_cm_state`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Idle,
    Bound,
    AddressResolved,
    RouteResolved,
    Connect,
    Listen,
}

/// How far its handshake has come (`enum ib_cm_state`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Link {
    /// There is none.
    None,
    RequestSent,
    RequestReceived,
    ReplySent,
    ReplyReceived,
    Established,
    DisconnectSent,
    DisconnectReceived,
    /// Over: refused, given up or disconnected.
    Over,
}

/// An id.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "as many facts, independent of each other"
)]
struct Id {
    file: FileId,
    uid: u64,
    space: u16,
    datagram: bool,
    phase: Phase,
    link: Link,
    /// The other end of the handshake.
    peer: Option<u32>,
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
    has_device: bool,
    /// The device was removed: the kernel's half is gone.
    is_gone: bool,
    backlog: u32,
    reuse: bool,
    family_only: bool,
    tos: u8,
    ack_timeout: Option<u8>,
    params: rdma_ucm_conn_param,
    ece: (u32, u32),
    psn: u32,
    reported: u32,
}

/// A multicast group that an id joined.
#[derive(Debug)]
struct Join {
    id: u32,
    reported: u32,
}

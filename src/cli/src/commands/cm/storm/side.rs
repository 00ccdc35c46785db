//! What client and server have in common.

use std::thread::sleep;
use std::time::{Duration, Instant};

use uverbs::attr::{Ece, QpAttr};
use uverbs::cm::{ConnectionParams, Event, EventChannel, EventKind, EventStatus, Id, RejectReason};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, ProtectionDomain, QpState, QueuePair};

use super::table::{Step, Timing};
use crate::failure::{Failure, Result};

/// What the command line says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) connections: usize,
    pub(super) in_flight: usize,
    pub(super) wait: Duration,
    pub(super) first: Duration,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) id: Id,
    pub(super) queue: Option<QueuePair<Rc>>,
    /// When its step began.
    pub(super) since: Instant,
}

/// What the queue pairs of a device share. Nothing is posted to them.
#[derive(Debug)]
struct Queues {
    index: u32,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

/// The devices that the connections go by, opened by `open`.
#[derive(Debug)]
pub(super) struct Devices<O> {
    open: O,
    opened: Vec<Queues>,
}

/// What to do when nothing happened for too long.
pub(super) const LONGER: &str =
    "--wait SECONDS waits longer, --in-flight COUNT of the client asks for less at a time";

/// How often a wait without events looks.
const PAUSE: Duration = Duration::from_millis(1);

impl<O: FnMut(u32) -> Result<Context>> Devices<O> {
    pub(super) fn new(open: O) -> Self {
        Self {
            open,
            opened: Vec::new(),
        }
    }

    /// Their names.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self
            .opened
            .iter()
            .map(|queues| queues.pd.context().name())
            .collect();
        names.join(", ")
    }

    /// Opens the device of a connection, unless it is open; returns its place and the port.
    pub(super) fn find(&mut self, id: &Id) -> Result<(usize, u8)> {
        let device = id.route()?.device;
        let device = device.ok_or_else(|| Failure::new("the id has no device any more"))?;
        let known = self
            .opened
            .iter()
            .position(|queues| queues.index == device.index);
        if let Some(place) = known {
            return Ok((place, device.port));
        }
        let context = (self.open)(device.index)?;
        self.opened.push(Queues {
            index: device.index,
            pd: context.alloc_pd()?,
            cq: context.create_cq(16)?,
        });
        Ok((self.opened.len() - 1, device.port))
    }

    /// A queue pair in INIT.
    pub(super) fn queue_pair(&self, (place, port): (usize, u8), id: &Id) -> Result<QueuePair<Rc>> {
        let Some(Queues { pd, cq, .. }) = self.opened.get(place) else {
            return Err(Failure::new("a device that was not opened"));
        };
        let builder = pd.queue_pair(Rc, cq, cq).port(port);
        let mut queue = builder.max_send_wr(1).max_recv_wr(1).build()?.into_raw();
        queue.modify(&id.init_qp_attr(QpState::Init)?)?;
        Ok(queue)
    }
}

impl Conn {
    pub(super) fn new(id: Id, queue: Option<QueuePair<Rc>>) -> Self {
        Self {
            id,
            queue,
            since: Instant::now(),
        }
    }

    fn queue(&mut self) -> Result<&mut QueuePair<Rc>> {
        let queue = self.queue.as_mut();
        queue.ok_or_else(|| Failure::new("a connection without a queue pair"))
    }

    /// What this side says of itself.
    fn params(&self) -> ConnectionParams {
        ConnectionParams {
            qp_num: self.queue.as_ref().map_or(0, QueuePair::qp_num),
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry_count: 7,
            ..ConnectionParams::default()
        }
    }

    pub(super) fn connect(&mut self) -> Result<()> {
        Ok(self.id.connect(&self.params(), Ece::default())?)
    }

    pub(super) fn accept(&mut self) -> Result<()> {
        self.make_ready()?;
        Ok(self.id.accept(&self.params(), Ece::default())?)
    }

    /// The peer has accepted.
    pub(super) fn confirm(&mut self) -> Result<()> {
        self.make_ready()?;
        Ok(self.id.establish()?)
    }

    /// Takes the queue pair to RTR and RTS.
    fn make_ready(&mut self) -> Result<()> {
        for state in [QpState::ReadyToReceive, QpState::ReadyToSend] {
            let attr = self.id.init_qp_attr(state)?;
            self.queue()?.modify(&attr)?;
        }
        Ok(())
    }

    /// Ends the connection, or answers the peer's end of it.
    pub(super) fn disconnect(&mut self) -> Result<()> {
        self.queue()?.modify(&QpAttr::to(QpState::Error))?;
        Ok(self.id.disconnect()?)
    }
}

/// Destroys the queue pairs, then the ids.
pub(super) fn destroy(
    mut conns: Vec<Conn>,
    channel: &EventChannel,
    wait: Duration,
) -> Result<[Timing; 2]> {
    let mut queues = Timing::new(Step::DestroyQp);
    for conn in &mut conns {
        let since = Instant::now();
        if let Some(queue) = conn.queue.take() {
            queue.destroy()?;
        }
        queues.record(since);
    }
    let mut ids = Timing::new(Step::DestroyId);
    for conn in conns {
        let since = Instant::now();
        drop(conn);
        ids.record(since);
    }
    let (mut left, mut since) = (channel.destroying(), Instant::now());
    while left > 0 {
        if since.elapsed() > wait {
            let done = ids.count().saturating_sub(to_usize(left));
            return Err(late(Step::DestroyId, done, ids.count()).hint(LONGER));
        }
        sleep(PAUSE);
        let now = channel.destroying();
        if now < left {
            since = Instant::now();
        }
        left = now;
    }
    ids.end();
    Ok([queues, ids])
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Nothing happened for too long.
pub(super) fn late(step: Step, done: usize, of: usize) -> Failure {
    Failure::new(format_args!(
        "timed out: {step}, {done} of {of} connections done"
    ))
}

/// What an event says that ends a connection, if it does.
pub(super) fn over(event: &Event) -> Option<Failure> {
    let failure = match (event.kind, event.outcome()) {
        (EventKind::Rejected, EventStatus::Rejected(RejectReason::InvalidServiceId)) => {
            Failure::new("rejected: nobody listens at this address and port")
                .hint("start the server first: the same command without a host")
        }
        (EventKind::Rejected, EventStatus::Rejected(RejectReason::StaleConnection)) => {
            Failure::new("rejected: a connection of queue pairs with these numbers is not over yet")
                .hint("try again in a minute")
        }
        (EventKind::Rejected, EventStatus::Rejected(reason)) => {
            Failure::new(format_args!("rejected: {reason}"))
                .hint("do both sides have the same -n, and is the server still there?")
        }
        (EventKind::DeviceRemoval, _) => Failure::new("the device was removed"),
        (EventKind::Disconnected, _) => Failure::new("the peer disconnected"),
        (
            kind @ (EventKind::AddressError
            | EventKind::RouteError
            | EventKind::ConnectError
            | EventKind::Unreachable
            | EventKind::Rejected),
            EventStatus::Failed(errno),
        ) => Failure::new(format_args!("{kind}: {}", std::io::Error::from(errno)))
            .hint("uverbs doctor lists the addresses that can be used"),
        (
            kind @ (EventKind::AddressError
            | EventKind::RouteError
            | EventKind::ConnectError
            | EventKind::Unreachable
            | EventKind::Rejected),
            _,
        ) => Failure::new(format_args!("{kind} (status {})", event.status)),
        _ => return None,
    };
    Some(failure)
}

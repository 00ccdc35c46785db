//! The handshake: a queue pair through its states, and the messages between.

use std::future::Future;
use std::ops::Deref;
use std::time::Instant;

use uverbs_core::cm::{self, ConnectionParams, Event, EventKind};
use uverbs_core::types::{Ece, QpState};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::connection::{Connection, Link};
use super::connector::Resolved;
use super::error::{CmError, ConnectError, Step};
use super::handle::Handle;
use super::listener::{Request, gave_up};
use super::pair::{HasId, Pair};
use super::route::PeerRoute;
use super::table::Takes;
use super::wait::{Blocking, Waits, deadline, now};
use crate::transport::Rc;
use crate::{PreparedQueuePair, owned};

/// A queue pair in INIT, for a peer that is [`Resolved`], or a [`Request`].
///
/// Receives can be posted. Dropping it destroys the queue pair, and rejects the request.
#[derive(Debug)]
#[must_use = "dropping it gives the connection up"]
#[expect(private_bounds, reason = "there are two, both public")]
pub struct Attached<S: Side> {
    pair: Pair<S>,
}

/// One side of a handshake.
pub(crate) trait Side: HasId + Deref<Target = PeerRoute> + Sized {
    /// The id.
    fn into_handle(self) -> Handle;

    /// The connection, once the handshake is over. `said` is what the peer sent.
    fn into_link(self, said: &ConnectionParams) -> Link {
        let (local, peer) = (self.local_addr(), self.peer_addr());
        Link::new(self.into_handle(), local, peer, said)
    }
}

impl Side for Resolved {
    fn into_handle(self) -> Handle {
        self.handle
    }
}

impl Side for Request {
    fn into_handle(self) -> Handle {
        self.handle
    }
}

/// Where the queue pair of a handshake is.
pub(crate) trait Holds {
    /// Calls `act` with it, unless it has ended meanwhile.
    fn with<R>(&mut self, act: impl FnOnce(&mut owned::QueuePair<Rc>) -> R) -> Result<R>;
}

impl Holds for owned::QueuePair<Rc> {
    fn with<R>(&mut self, act: impl FnOnce(&mut owned::QueuePair<Rc>) -> R) -> Result<R> {
        Ok(act(self))
    }
}

impl HasId for Resolved {
    fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl HasId for Request {
    fn handle(&self) -> &Handle {
        &self.handle
    }
}

#[expect(private_bounds, reason = "there are two, both public")]
impl<S: Side> Attached<S> {
    /// Its queue pair, for posting receives.
    pub fn queue_pair(&mut self) -> &mut owned::QueuePair<Rc> {
        self.pair.queue()
    }

    pub(super) fn new(side: S, prepared: PreparedQueuePair<Rc>) -> Result<Self, ConnectError> {
        if let Err(error) = check(&side, &prepared) {
            return Err(ConnectError::new(error, prepared));
        }
        let mut queue = owned::QueuePair::new(prepared.into_raw());
        match initialize(&side, &mut queue) {
            Ok(()) => Ok(Self {
                pair: Pair::new(queue, side),
            }),
            Err(error) => Err(failed(queue, side, error)),
        }
    }

    fn made(self, said: Result<ConnectionParams, CmError>) -> Result<Connection, ConnectError> {
        let (queue, side) = self.pair.into_parts();
        match said {
            Ok(said) => Ok(Connection::new(queue, side.into_link(&said))),
            Err(cause) => Err(failed(queue, side, cause)),
        }
    }
}

/// Moves a queue pair to INIT, for this peer.
pub(crate) fn initialize(
    side: &impl Side,
    queue: &mut owned::QueuePair<Rc>,
) -> Result<(), CmError> {
    let handle = side.handle();
    // On Ethernet there is one partition key, and there are no LIDs.
    let [path, _] = side.route().paths;
    let pkey_index = if path.slid == 0 && path.dlid == 0 {
        0
    } else {
        let attr = cm::init_qp_attr(handle.file(), handle.id(), QpState::Init);
        let attr = attr.map_err(|error| over(handle, error))?;
        attr.pkey_index.unwrap_or(0)
    };
    let port = side.device().port;
    Ok(queue.raw_mut().initialize_at(port, pkey_index)?)
}

/// Takes the queue pair back. The id is destroyed, and the peer is told.
pub(crate) fn failed(
    mut queue: owned::QueuePair<Rc>,
    side: impl Side,
    cause: impl Into<CmError>,
) -> ConnectError {
    let memory = match queue.state() {
        QpState::Reset => Ok(Vec::new()),
        _ => queue.reset(),
    };
    drop(side);
    // A queue pair that cannot be reset is destroyed, and its memory goes with it.
    let (memory, raw) = match memory {
        Ok(memory) => (memory, queue.into_raw().ok()),
        Err(_) => (Vec::new(), None),
    };
    ConnectError {
        cause: cause.into(),
        prepared: raw.map(|raw| Box::new(PreparedQueuePair::new(raw))),
        memory,
    }
}

/// Whether the queue pair is of the device that leads to the peer.
pub(crate) fn check(side: &impl Side, prepared: &PreparedQueuePair<Rc>) -> Result<()> {
    let op = Op::Handshake;
    let context = prepared.raw().pd().context();
    if !side.is_on(context) {
        return Err(Error::invalid(op, "queue_pair")
            .fact("device", context.name().to_owned())
            .fact("device_index", side.device().index)
            .hint("the peer is reached by another device: see `device`, `is_on`, `open`"));
    }
    Ok(())
}

impl Attached<Resolved> {
    /// `rdma_connect`—connects it, as [`Resolved::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(self) -> Result<Connection, ConnectError> {
        now_or_failed(self.connect_by(&Blocking))
    }

    pub(crate) async fn connect_by<W: Waits>(mut self, by: &W) -> Result<Connection, ConnectError> {
        let (queue, side) = self.pair.both();
        let said = side.connect_queue(queue, by).await;
        self.made(said)
    }
}

impl Attached<Request> {
    /// `rdma_accept`—accepts it, as [`Request::accept`].
    ///
    /// # Errors
    /// As there.
    pub fn accept(self) -> Result<Connection, ConnectError> {
        now_or_failed(self.accept_by(&Blocking))
    }

    pub(crate) async fn accept_by<W: Waits>(mut self, by: &W) -> Result<Connection, ConnectError> {
        let (queue, side) = self.pair.both();
        let said = side.accept_queue(queue, by).await;
        self.made(said)
    }
}

/// A blocking wait never leaves the work half done.
fn now_or_failed(
    work: impl Future<Output = Result<Connection, ConnectError>>,
) -> Result<Connection, ConnectError> {
    now(async { Ok::<_, Error>(work.await) })
        .unwrap_or_else(|error| Err(ConnectError::without_queue(error)))
}

impl Resolved {
    /// Connects a queue pair in INIT; returns what the peer said.
    pub(crate) async fn connect_queue<W: Waits>(
        &mut self,
        queue: &mut impl Holds,
        by: &W,
    ) -> Result<ConnectionParams, CmError> {
        let (handle, until) = (&self.handle, deadline(self.limit));
        let (file, id) = (handle.file(), handle.id());
        let ece = if self.offers_ece {
            queue.with(|queue| queue.ece())?.unwrap_or_default()
        } else {
            Ece::default()
        };
        let params = ConnectionParams {
            private_data: self.data.data(),
            ..queue.with(|queue| queue.raw_mut().cm_params())?
        };
        handle.may_block();
        cm::connect(file, id, &params, ece)?;
        let Some(response) = answer(handle, by, until, EventKind::ConnectResponse).await? else {
            return Err(CmError::TimedOut(Step::Connect));
        };
        if self.offers_ece && response.ece.vendor_id != 0 {
            queue.with(|queue| queue.set_ece(&response.ece))??;
        }
        if response.kind == EventKind::ConnectResponse {
            move_queue(queue, handle, (u8::MAX, u8::MAX))?;
            cm::establish(file, id).map_err(|error| over(handle, error))?;
        } else {
            see_moved(queue)?;
        }
        Ok(response.connection())
    }
}

impl Request {
    /// Accepts with a queue pair in INIT; returns what the peer asked for.
    pub(crate) async fn accept_queue<W: Waits>(
        &mut self,
        queue: &mut impl Holds,
        by: &W,
    ) -> Result<ConnectionParams, CmError> {
        let (handle, until) = (&self.handle, deadline(self.limit));
        let (file, id) = (handle.file(), handle.id());
        let number = handle.numbered(Takes::Itself { requests: 0 })?;
        let own = queue.with(|queue| queue.raw_mut().cm_params())?;
        let params = ConnectionParams {
            private_data: self.data.data(),
            responder_resources: own.responder_resources.min(self.asked.responder_resources),
            initiator_depth: own.initiator_depth.min(self.asked.initiator_depth),
            ..own
        };
        // Options of another vendor's device are none.
        let agrees = self.agrees_ece
            && self.ece.vendor_id != 0
            && queue.with(|queue| queue.set_ece(&self.ece))?.is_ok();
        let most = (params.responder_resources, params.initiator_depth);
        let is_moved = move_queue(queue, handle, most)?;
        let ece = if agrees {
            Ece {
                vendor_id: self.ece.vendor_id,
                ..queue.with(|queue| queue.ece())?.unwrap_or_default()
            }
        } else {
            Ece::default()
        };
        cm::accept(file, id, number, &params, ece).map_err(|error| over(handle, error))?;
        if (answer(handle, by, until, EventKind::Established).await?).is_none() {
            return Err(CmError::TimedOut(Step::Accept));
        }
        if !is_moved {
            see_moved(queue)?;
        }
        Ok(self.asked)
    }
}

/// Moves a queue pair that is in INIT to RTS, to serve and to make at most so many reads and
/// atomics at a time. False on iWARP, where the driver moves it later: the kernel has no path for
/// it there.
fn move_queue(
    queue: &mut impl Holds,
    handle: &Handle,
    (serves, makes): (u8, u8),
) -> Result<bool, CmError> {
    let attr = |state| {
        let attr = cm::init_qp_attr(handle.file(), handle.id(), state);
        attr.map_err(|error| over(handle, error))
    };
    let receive = attr(QpState::ReadyToReceive)?;
    if receive.av.is_none() {
        return Ok(false);
    }
    queue.with(|queue| queue.raw_mut().ready_to_receive(receive, serves))??;
    let send = attr(QpState::ReadyToSend)?;
    queue.with(|queue| queue.raw_mut().ready_to_send(send, makes))??;
    Ok(true)
}

/// The driver has moved the queue pair, as that of iWARP does.
fn see_moved(queue: &mut impl Holds) -> Result<(), CmError> {
    let state = queue.with(|queue| queue.raw_mut().query().map(|_| queue.state()))??;
    if matches!(state, QpState::Reset | QpState::Init) {
        let error = Error::new(Op::Handshake, ErrorKind::InvalidState)
            .fact("state", state.to_string())
            .hint("the connection is there, but its queue pair was not moved");
        return Err(error.into());
    }
    Ok(())
}

/// Why a command of the handshake was refused: EINVAL says that the other side ended it, and an
/// event may say how.
fn over(handle: &Handle, error: Error) -> CmError {
    let cause = gave_up(error);
    if matches!(cause, CmError::GaveUp) {
        while let Ok(Some(event)) = handle.look() {
            if let Some(over) = CmError::of(&event) {
                return over;
            }
        }
    }
    cause
}

/// Waits for the event that the handshake goes on with, or for the one that ends it.
async fn answer<W: Waits>(
    handle: &Handle,
    by: &W,
    until: Option<Instant>,
    wanted: EventKind,
) -> Result<Option<Event>, CmError> {
    loop {
        let Some(event) = by.event(handle, until).await? else {
            return Ok(None);
        };
        // The active side of iWARP is established at once: its driver moves the queue pair.
        if event.kind == wanted || event.kind == EventKind::Established {
            return Ok(Some(event));
        }
        if let Some(over) = CmError::of(&event) {
            return Err(over);
        }
    }
}

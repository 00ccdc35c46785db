//! The active side: from an address to a device and a path.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::Duration;

use uverbs_core::cm::{self, CmAddress, Event, EventKind, IbAddress, PortSpace};
use uverbs_core::error::Errno;
use uverbs_core::types::AckTimeout;
use uverbs_core::{Op, Result};

use super::Connection;
use super::channel::EventChannel;
use super::data::ConnectData;
use super::error::{CmError, ConnectError, Step, failure};
use super::handle::Handle;
use super::handshake::Attached;
use super::route::PeerRoute;
use super::table::Takes;
use super::wait::{Blocking, Waits, deadline, now};
use crate::PreparedQueuePair;
use crate::transport::Rc;

/// How long a step may take by default.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// A connection to be made ([`connect`]).
///
/// | setting | default |
/// |---|---|
/// | [`source`](Self::source) | the address that routes to the peer |
/// | [`timeout`](Self::timeout) | 10 s for each step |
/// | [`type_of_service`](Self::type_of_service), [`ack_timeout`](Self::ack_timeout) | the system's |
/// | [`channel`](Self::channel) | one of its own |
#[derive(Clone, Debug)]
#[must_use = "nothing is resolved before `resolve`"]
pub struct Connector {
    to: CmAddress,
    from: Option<CmAddress>,
    limit: Duration,
    tos: Option<u8>,
    ack_timeout: Option<AckTimeout>,
    channel: Option<EventChannel>,
}

/// A peer whose device and path are known: create a queue pair there, and
/// [`connect`](Self::connect) it. Dropping it sends nothing.
#[derive(Debug)]
#[must_use = "nothing is sent before `connect`"]
pub struct Resolved {
    pub(super) handle: Handle,
    pub(super) way: PeerRoute,
    pub(super) limit: Duration,
    pub(super) data: ConnectData,
    pub(super) offers_ece: bool,
}

/// `rdma_resolve_addr`, `rdma_connect`—a connection to `address`, an IP address that the peer has
/// on a network interface with RDMA.
///
/// ```no_run
/// # fn f(pd: &uverbs::ProtectionDomain, cq: &uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::cm::{self, ConnectData};
///
/// let resolved = cm::connect("192.0.2.7:7471".parse()?).resolve()?;
/// let prepared = resolved.queue_pair(pd, cq, cq).build()?;
/// let mut connection = resolved
///     .private_data(ConnectData::new(b"hello")?)
///     .connect(prepared)?;
/// println!("{} said {:?}", connection.peer_addr(), connection.private_data());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rdma_connect")]
#[doc(alias = "rdma_create_ep")]
pub fn connect(address: SocketAddr) -> Connector {
    connector(address.into())
}

/// The same without IP (`AF_IB`): to a port at the GID of an InfiniBand port, in a subnet with an
/// administrator. The peer [listens](super::listen_ib) without IP, too.
#[doc(alias = "AF_IB")]
pub fn connect_ib(address: IbAddress) -> Connector {
    connector(address.into())
}

fn connector(to: CmAddress) -> Connector {
    Connector {
        to,
        from: None,
        limit: LIMIT,
        tos: None,
        ack_timeout: None,
        channel: None,
    }
}

impl Connector {
    /// The local address; its port may be 0, for any.
    pub fn source(mut self, address: SocketAddr) -> Self {
        self.from = Some(address.into());
        self
    }

    /// The local GID, for [`connect_ib`]; its port may be 0, for any.
    pub fn source_ib(mut self, address: IbAddress) -> Self {
        self.from = Some(address.into());
        self
    }

    /// How long each step may take: the address, the route, and the answer of the peer. The kernel
    /// alone would wait for an answer for about 74 seconds.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// `RDMA_OPTION_ID_TOS`—the type of service, or traffic class, of the connection's packets.
    #[doc(alias = "RDMA_OPTION_ID_TOS")]
    pub fn type_of_service(mut self, tos: u8) -> Self {
        self.tos = Some(tos);
        self
    }

    /// `RDMA_OPTION_ID_ACK_TIMEOUT`—how long the queue pair waits for an acknowledgement. The one
    /// that it was built with is ignored.
    #[doc(alias = "RDMA_OPTION_ID_ACK_TIMEOUT")]
    pub fn ack_timeout(mut self, timeout: AckTimeout) -> Self {
        self.ack_timeout = Some(timeout);
        self
    }

    /// The channel to use.
    pub fn channel(mut self, channel: &EventChannel) -> Self {
        self.channel = Some(channel.clone());
        self
    }

    /// Finds the device and the path. Six commands on an opened channel, two of which wait; the id
    /// belongs to the network namespace of the calling thread.
    ///
    /// # Errors
    /// | error | cause |
    /// |---|---|
    /// | [`Failed`](CmError::Failed) (ENETUNREACH, EHOSTUNREACH) | no route |
    /// | [`Failed`](CmError::Failed) (ENODEV) | no RDMA device has the address that routes to the peer, or [`source`](Self::source) |
    /// | [`Failed`](CmError::Failed) (EINVAL) | families that do not match; a link-local address without scope |
    /// | [`TimedOut`](CmError::TimedOut) | the peer's link address, or the path, was not found in time |
    /// | [`Failed`](CmError::Failed) | those of [`EventChannel::open`] |
    #[doc(alias = "rdma_resolve_addr")]
    #[doc(alias = "rdma_resolve_route")]
    #[doc(alias = "rdma_getaddrinfo")]
    pub fn resolve(self) -> Result<Resolved, CmError> {
        let channel = EventChannel::given_or_opened(self.channel.as_ref())?;
        now(self.resolve_by(&channel, &Blocking))
    }

    pub(crate) async fn resolve_by<W: Waits>(
        self,
        channel: &EventChannel,
        by: &W,
    ) -> Result<Resolved, CmError> {
        let (handle, way) = self.resolved(channel, PortSpace::Tcp, by).await?;
        Ok(Resolved {
            handle,
            way,
            limit: self.limit,
            data: ConnectData::EMPTY,
            offers_ece: false,
        })
    }

    pub(super) fn given_channel(&self) -> Option<&EventChannel> {
        self.channel.as_ref()
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// A new id whose address and route are resolved.
    pub(super) async fn resolved<W: Waits>(
        &self,
        channel: &EventChannel,
        space: PortSpace,
        by: &W,
    ) -> Result<(Handle, PeerRoute), CmError> {
        let takes = Takes::Itself { requests: 0 };
        let handle = Handle::create(&channel.shared, space, takes)?;
        let (file, id) = (handle.file(), handle.id());
        if let Some(tos) = self.tos {
            cm::set_type_of_service(file, id, tos)?;
        }
        if let Some(timeout) = self.ack_timeout {
            cm::set_ack_timeout(file, id, timeout)?;
        }
        self.find_address(&handle, space, by).await?;
        let (file, id) = (handle.file(), handle.id());
        let until = deadline(self.limit);
        cm::resolve_route(file, id, self.limit.max(Duration::from_millis(1)))?;
        let wanted = (EventKind::RouteResolved, EventKind::RouteError);
        let outcome = step(&handle, by, wanted, until, Step::Route).await?;
        self.check(&outcome, Op::CmResolveRoute, Step::Route)?;
        let way = PeerRoute::of(&handle, Some((self.from.unwrap_or(self.to), self.to)))?;
        Ok((handle, way))
    }

    /// Resolves the address.
    pub(super) async fn find_address<W: Waits>(
        &self,
        handle: &Handle,
        space: PortSpace,
        by: &W,
    ) -> Result<(), CmError> {
        let (file, id) = (handle.file(), handle.id());
        let from = self.from.map(|from| in_space(from, space));
        let to = in_space(self.to, space);
        let until = deadline(self.limit);
        cm::resolve_address(file, id, from, to, self.limit)?;
        let wanted = (EventKind::AddressResolved, EventKind::AddressError);
        let outcome = step(handle, by, wanted, until, Step::Address).await?;
        self.check(&outcome, Op::CmResolveAddress, Step::Address)
    }

    /// What the event says that ends a step.
    fn check(&self, event: &Event, op: Op, step: Step) -> Result<(), CmError> {
        if matches!(
            event.kind,
            EventKind::AddressResolved | EventKind::RouteResolved
        ) {
            return Ok(());
        }
        let error = failure(event, op).fact("destination", self.to.to_string());
        let error = match self.from {
            Some(from) => error.fact("source", from.to_string()),
            None => error,
        };
        Err(match error.errno() {
            Some(Errno::TIMEDOUT) => CmError::TimedOut(step),
            Some(Errno::NODEV) => CmError::Failed(error.hint(
                "no RDMA device has the local address of this route in its GID table: see \
                 `rdma link`, `ip route get`",
            )),
            _ => CmError::Failed(error),
        })
    }
}

/// An address with the service that its port has in a space, if it is one without IP.
pub(super) fn in_space(address: CmAddress, space: PortSpace) -> CmAddress {
    match address {
        CmAddress::Ib(address) => address.in_space(space).into(),
        other => other,
    }
}

/// Waits for one of two events.
async fn step<W: Waits>(
    handle: &Handle,
    by: &W,
    wanted: (EventKind, EventKind),
    until: Option<std::time::Instant>,
    step: Step,
) -> Result<Event, CmError> {
    loop {
        let Some(event) = by.event(handle, until).await? else {
            return Err(CmError::TimedOut(step));
        };
        if event.kind == wanted.0 || event.kind == wanted.1 {
            return Ok(event);
        }
        if event.kind == EventKind::DeviceRemoval {
            return Err(CmError::DeviceRemoved);
        }
    }
}

impl Resolved {
    /// Bytes for the peer. Default: none.
    pub fn private_data(mut self, data: ConnectData) -> Self {
        self.data = data;
        self
    }

    /// `rdma_set_local_ece`—offers the peer the options of this device beyond the standard, if it
    /// has any, and takes over what the peer agrees to. Since Linux 5.8.
    #[doc(alias = "rdma_set_local_ece")]
    pub fn offer_ece(mut self) -> Self {
        self.offers_ece = true;
        self
    }

    /// Moves a queue pair to INIT: receives can be posted then, so that none of the peer's messages
    /// has to be sent again.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): a queue pair of another device; those of
    /// [`QueuePair::modify`](crate::QueuePair::modify).
    pub fn attach(self, prepared: PreparedQueuePair<Rc>) -> Result<Attached<Self>, ConnectError> {
        Attached::new(self, prepared)
    }

    /// `rdma_connect`—connects a queue pair, and waits for the peer. Eight commands; the peer's
    /// program decides how long it takes.
    ///
    /// The queue pair is moved with the attributes that both sides agreed on. Of its own settings,
    /// these take effect: access rights, minimum RNR timer, retries, and how many reads and atomics
    /// it serves and sends at most.
    ///
    /// # Errors
    /// | error | cause |
    /// |---|---|
    /// | [`Rejected`](CmError::Rejected) | the peer's program refused, went away, or does not listen |
    /// | [`TimedOut`](CmError::TimedOut) | no answer within the [limit](Connector::timeout); the peer is told |
    /// | [`GaveUp`](CmError::GaveUp) | the peer accepted and then went away |
    /// | [`DeviceRemoved`](CmError::DeviceRemoved) | the device was removed |
    /// | [`Failed`](CmError::Failed) | those of [`attach`](Self::attach); a command was refused |
    #[doc(alias = "rdma_establish")]
    pub fn connect(self, prepared: PreparedQueuePair<Rc>) -> Result<Connection, ConnectError> {
        self.attach(prepared)?.connect()
    }
}

impl Deref for Resolved {
    type Target = PeerRoute;

    fn deref(&self) -> &PeerRoute {
        &self.way
    }
}

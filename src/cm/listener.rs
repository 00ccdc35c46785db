//! The passive side: listening, and answering requests.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uverbs_core::Result;
use uverbs_core::cm::{
    self, CmAddress, ConnectionParams, Event, EventKind, IbAddress, PortSpace, RejectReason,
};
use uverbs_core::types::Ece;

use super::Connection;
use super::channel::EventChannel;
use super::connector::{LIMIT, in_space};
use super::data::{AcceptData, RejectData};
use super::error::{CmError, ConnectError};
use super::handle::Handle;
use super::handshake::Attached;
use super::route::PeerRoute;
use super::table::Takes;
use super::wait::{Blocking, Waits, deadline, now};
use crate::PreparedQueuePair;
use crate::transport::Rc;

/// The most that the kernel keeps by default (`net.rdma_ucm.max_backlog`).
const BACKLOG: u32 = 1024;

/// A listener to be bound ([`listen`]).
///
/// | setting | default |
/// |---|---|
/// | [`backlog`](Self::backlog) | 1024 requests |
/// | [`reuse_address`](Self::reuse_address) | no |
/// | [`ipv6_only`](Self::ipv6_only) | the system's (`net.ipv6.bindv6only`) |
/// | [`channel`](Self::channel) | one of its own |
#[derive(Clone, Debug)]
#[must_use = "nothing listens before `build`"]
pub struct ListenerBuilder {
    at: CmAddress,
    backlog: u32,
    reuse: bool,
    v6_only: Option<bool>,
    channel: Option<EventChannel>,
}

/// `rdma_listen`—takes requests for connections at an address.
///
/// Dropping it rejects the requests that were not taken.
#[doc(alias = "rdma_listen")]
#[derive(Debug)]
pub struct Listener {
    handle: Handle,
    local: CmAddress,
    lost: AtomicU64,
}

/// A peer asks for a connection: create a queue pair at its device, and [`accept`](Self::accept),
/// or [`reject`](Self::reject). Dropping it rejects.
#[derive(Debug)]
#[must_use = "dropping it rejects the request"]
pub struct Request {
    pub(super) handle: Handle,
    pub(super) asked: ConnectionParams,
    pub(super) ece: Ece,
    pub(super) way: PeerRoute,
    pub(super) limit: Duration,
    pub(super) data: AcceptData,
    pub(super) agrees_ece: bool,
}

/// A listener at `address`. With the unspecified address (`0.0.0.0`, `[::]`) it listens on all
/// devices, including those that appear later; `[::]` takes IPv4, too, unless that is [turned
/// off](ListenerBuilder::ipv6_only). Port 0 is any free port. The ports are not those of TCP, and
/// need no privileges.
#[doc(alias = "rdma_bind_addr")]
pub fn listen(address: SocketAddr) -> ListenerBuilder {
    listener(address.into())
}

/// A listener without IP (`AF_IB`): at a port of a GID, for peers that [connect](super::connect_ib)
/// so. With [`Gid::ZERO`](crate::Gid::ZERO) it listens on all devices; port 0 is any free port. The
/// kernel finds such listeners in the initial network namespace only.
#[doc(alias = "AF_IB")]
pub fn listen_ib(address: IbAddress) -> ListenerBuilder {
    listener(address.into())
}

pub(super) fn listener(at: CmAddress) -> ListenerBuilder {
    ListenerBuilder {
        at,
        backlog: BACKLOG,
        reuse: false,
        v6_only: None,
        channel: None,
    }
}

impl ListenerBuilder {
    /// How many requests may wait to be taken. The kernel drops further ones, and their senders try
    /// again after 4.6 s. At most `net.rdma_ucm.max_backlog`.
    pub fn backlog(mut self, requests: u32) -> Self {
        self.backlog = requests;
        self
    }

    /// `RDMA_OPTION_ID_REUSEADDR`—shares the port with ids that are bound to it for other purposes.
    #[doc(alias = "RDMA_OPTION_ID_REUSEADDR")]
    pub fn reuse_address(mut self) -> Self {
        self.reuse = true;
        self
    }

    /// `RDMA_OPTION_ID_AFONLY`—whether `[::]` takes IPv6 only.
    #[doc(alias = "RDMA_OPTION_ID_AFONLY")]
    pub fn ipv6_only(mut self, only: bool) -> Self {
        self.v6_only = Some(only);
        self
    }

    /// The channel to use, also for the connections that are accepted.
    pub fn channel(mut self, channel: &EventChannel) -> Self {
        self.channel = Some(channel.clone());
        self
    }

    /// Binds it, and listens. Four to six commands on an opened channel; none waits.
    ///
    /// # Errors
    /// | kind (errno) | cause |
    /// |---|---|
    /// | [`NotFound`](crate::ErrorKind::NotFound) (ENODEV) | no RDMA device has the address |
    /// | [`Other`](crate::ErrorKind::Other) (EADDRNOTAVAIL, EADDRINUSE) | no such address; the port is in use |
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) (EINVAL) | a link-local address without scope |
    ///
    /// and those of [`EventChannel::open`].
    pub fn build(self) -> Result<Listener> {
        let (handle, local) = self.bound(PortSpace::Tcp)?;
        Ok(Listener {
            handle,
            local,
            lost: AtomicU64::new(0),
        })
    }

    pub(super) fn bound(&self, space: PortSpace) -> Result<(Handle, CmAddress)> {
        let channel = EventChannel::given_or_opened(self.channel.as_ref())?;
        let most = match self.backlog {
            0 => BACKLOG,
            some => some,
        };
        let requests = usize::try_from(most).unwrap_or(usize::MAX);
        let handle = Handle::create(&channel.shared, space, Takes::Itself { requests })?;
        let (file, id) = (handle.file(), handle.id());
        if self.reuse {
            cm::set_reuse_address(file, id, true)?;
        }
        if let Some(only) = self.v6_only {
            cm::set_address_family_only(file, id, only)?;
        }
        let at = in_space(self.at, space);
        cm::bind(file, id, at)?;
        cm::listen(file, id, self.backlog)?;
        handle.may_block();
        let local = match at {
            CmAddress::Ip(_) => cm::query_route(file, id)?.source,
            _ => cm::query_addresses(file, id)?.source,
        };
        Ok((handle, local.unwrap_or(at)))
    }
}

impl Listener {
    /// [`listen`] with the defaults.
    ///
    /// # Errors
    /// As [`ListenerBuilder::build`].
    pub fn bind(address: SocketAddr) -> Result<Self> {
        listen(address).build()
    }

    /// Its address, with the port that the kernel chose.
    #[doc(alias = "rdma_get_src_port")]
    pub fn local_addr(&self) -> SocketAddr {
        self.local.to_socket_addr()
    }

    /// The channel, for connections and further listeners.
    pub fn channel(&self) -> EventChannel {
        EventChannel {
            shared: self.handle.channel().clone(),
        }
    }

    /// `rdma_get_request`—waits for a request. Any number of threads may wait.
    ///
    /// # Errors
    /// [`DeviceRemoved`](CmError::DeviceRemoved): of a listener at the address of one device.
    /// [`Failed`](CmError::Failed): the process has changed its credentials, or is a child.
    #[doc(alias = "rdma_get_request")]
    pub fn accept(&self) -> Result<Request, CmError> {
        loop {
            if let Some(request) = now(self.accept_by(&Blocking, None))? {
                return Ok(request);
            }
        }
    }

    /// The same for at most `limit`; `None` if there was none.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn accept_timeout(&self, limit: Duration) -> Result<Option<Request>, CmError> {
        now(self.accept_by(&Blocking, deadline(limit)))
    }

    /// How many requests ended before they were taken, or came through a device that is gone.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(crate) async fn accept_by<W: Waits>(
        &self,
        by: &W,
        until: Option<Instant>,
    ) -> Result<Option<Request>, CmError> {
        next_request(&self.handle, by, until, &self.lost, Request::of).await
    }
}

/// Waits for a request of a listener, and converts it with `of`. Requests that have ended by then
/// are counted.
pub(super) async fn next_request<W: Waits, R>(
    listener: &Handle,
    by: &W,
    until: Option<Instant>,
    lost: &AtomicU64,
    of: impl Fn(&Handle, &Event) -> Result<R> + Send + Sync,
) -> Result<Option<R>, CmError> {
    loop {
        let Some(event) = by.event(listener, until).await? else {
            return Ok(None);
        };
        match event.kind {
            EventKind::ConnectRequest => {}
            EventKind::DeviceRemoval => return Err(CmError::DeviceRemoved),
            _ => continue,
        }
        match of(listener, &event) {
            Ok(request) => return Ok(Some(request)),
            // Its peer, or its device, went away. The next one may be well.
            Err(_) => lost.fetch_add(1, Ordering::Relaxed),
        };
    }
}

impl Request {
    /// Asks the kernel where it came from. One command.
    fn of(listener: &Handle, event: &Event) -> Result<Self> {
        // From here on its drop rejects.
        let handle = Handle::of_request(listener.channel(), event.id);
        Ok(Self {
            way: PeerRoute::of(&handle, None)?,
            handle,
            asked: event.connection(),
            ece: event.ece,
            limit: LIMIT,
            data: AcceptData::EMPTY,
            agrees_ece: false,
        })
    }

    /// What the peer gave to [`Resolved::private_data`](super::Resolved::private_data): 56 bytes,
    /// padded with zeros; on iWARP as many as it gave.
    pub fn peer_data(&self) -> &[u8] {
        self.asked.private_data.as_bytes()
    }

    /// The number of the peer's queue pair.
    pub fn peer_qp_num(&self) -> u32 {
        self.asked.qp_num
    }

    /// Bytes that the peer gets with the acceptance. Default: none.
    pub fn private_data(mut self, data: AcceptData) -> Self {
        self.data = data;
        self
    }

    /// How long the peer may take to confirm. Default: 10 s.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// `rdma_get_remote_ece`—agrees to the options beyond the standard that the peer offers, as far
    /// as this device has them. Since Linux 5.8.
    #[doc(alias = "rdma_get_remote_ece")]
    pub fn agree_ece(mut self) -> Self {
        self.agrees_ece = true;
        self
    }

    /// Moves a queue pair to INIT: receives can be posted then, so that none of the peer's messages
    /// has to be sent again.
    ///
    /// # Errors
    /// As [`Resolved::attach`](super::Resolved::attach). The request is rejected.
    pub fn attach(self, prepared: PreparedQueuePair<Rc>) -> Result<Attached<Self>, ConnectError> {
        Attached::new(self, prepared)
    }

    /// `rdma_accept`—accepts it with a queue pair, and waits until the peer has confirmed. Seven
    /// commands.
    ///
    /// The queue pair is moved with the attributes that the peer asked for, as far as it has them;
    /// see [`Resolved::connect`](super::Resolved::connect).
    ///
    /// # Errors
    /// | error | cause |
    /// |---|---|
    /// | [`GaveUp`](CmError::GaveUp) | the peer had already given up |
    /// | [`Rejected`](CmError::Rejected) | the peer gave up, or went away, after it was accepted |
    /// | [`TimedOut`](CmError::TimedOut) | no confirmation within the [limit](Self::timeout) |
    /// | [`DeviceRemoved`](CmError::DeviceRemoved) | the device was removed |
    /// | [`Failed`](CmError::Failed) | those of [`attach`](Self::attach); a command was refused |
    ///
    /// The request is rejected then.
    #[doc(alias = "rdma_accept")]
    pub fn accept(self, prepared: PreparedQueuePair<Rc>) -> Result<Connection, ConnectError> {
        self.attach(prepared)?.accept()
    }

    /// `rdma_reject`—refuses it. One command; the id is destroyed on another thread.
    ///
    /// # Errors
    /// [`GaveUp`](CmError::GaveUp): the peer had already given up.
    #[doc(alias = "rdma_reject")]
    pub fn reject(self, data: RejectData) -> Result<(), CmError> {
        self.refuse(RejectReason::Consumer, &data)
    }

    /// `rdma_reject_ece`—refuses it because of the options that the peer offers.
    ///
    /// # Errors
    /// As [`reject`](Self::reject).
    #[doc(alias = "rdma_reject_ece")]
    pub fn reject_ece(self, data: RejectData) -> Result<(), CmError> {
        self.refuse(RejectReason::VendorOption, &data)
    }

    fn refuse(self, reason: RejectReason, data: &RejectData) -> Result<(), CmError> {
        cm::reject(self.handle.file(), self.handle.id(), reason, &data.data()).map_err(gave_up)
    }
}

impl Deref for Request {
    type Target = PeerRoute;

    fn deref(&self) -> &PeerRoute {
        &self.way
    }
}

/// The kernel reports a peer that gave up as EINVAL; its other causes were ruled out before.
pub(super) fn gave_up(error: uverbs_core::Error) -> CmError {
    match error.errno() {
        Some(uverbs_core::error::Errno::INVAL) => CmError::GaveUp,
        _ => error.into(),
    }
}

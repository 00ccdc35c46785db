//! Datagram services: the passive side. Peers ask for a service by address, and learn which queue
//! pair it has; nothing is connected.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uverbs_core::cm::{
    self, CmAddress, ConnectionParams, Event, IbAddress, PortSpace, PrivateData, RejectReason,
};
use uverbs_core::types::Ece;
use uverbs_core::{Error, Op, Result};

use super::channel::EventChannel;
use super::data::AnswerData;
use super::error::CmError;
use super::handle::Handle;
use super::listener::{ListenerBuilder, gave_up, listen, listener, next_request};
use super::route::{self, PeerRoute};
use super::table::Takes;
use super::wait::{Blocking, Waits, deadline, now};
use crate::transport::Ud;
use crate::{CompletionQueue, ProtectionDomain, QueuePairBuilder, owned};

/// The queue key of datagram services and multicast groups at IP addresses. The kernel gives peers
/// this key whatever key the queue pair has, so it must have this one.
#[doc(alias = "RDMA_UDP_QKEY")]
pub const DATAGRAM_QKEY: u32 = 0x0123_4567;

/// A datagram service to be bound ([`listen_datagrams`]). Its settings are those of a
/// [`ListenerBuilder`].
#[derive(Clone, Debug)]
#[must_use = "nothing listens before `build`"]
pub struct DatagramListenerBuilder {
    listener: ListenerBuilder,
}

/// A datagram service at an address ([`listen_datagrams`]): takes requests of peers that want to
/// know its queue pair. Its ports are separate from those of connections.
///
/// Dropping it rejects the requests that were not taken.
///
/// ```no_run
/// # fn f(context: &uverbs::Context, pd: &uverbs::ProtectionDomain, cq: &uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::cm::{self, AnswerData};
/// use uverbs::{owned, transport::Ud};
///
/// let builder = pd.queue_pair(Ud, cq, cq).qkey(cm::DATAGRAM_QKEY);
/// let queue = owned::QueuePair::new(builder.build()?.activate()?);
/// let service = cm::listen_datagrams("192.0.2.1:7471".parse()?).build()?;
/// loop {
///     let request = service.accept()?;
///     println!("{} asks: {:?}", request.peer_addr(), request.peer_data());
///     request.accept(&queue, AnswerData::EMPTY)?;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct DatagramListener {
    handle: Handle,
    local: CmAddress,
    lost: AtomicU64,
}

/// A peer asks for a datagram service: [`accept`](Self::accept), or [`reject`](Self::reject).
/// Dropping it rejects.
#[derive(Debug)]
#[must_use = "dropping it rejects"]
pub struct DatagramRequest {
    handle: Handle,
    way: PeerRoute,
    data: PrivateData,
}

/// A datagram service at `address`, as [`listen`] for connections; their ports are separate. Queue
/// pairs for it have [`DATAGRAM_QKEY`].
#[doc(alias = "RDMA_PS_UDP")]
pub fn listen_datagrams(address: SocketAddr) -> DatagramListenerBuilder {
    DatagramListenerBuilder {
        listener: listen(address),
    }
}

/// A datagram service without IP (`AF_IB`), as [`listen_ib`](super::listen_ib) for connections.
#[doc(alias = "AF_IB")]
pub fn listen_datagrams_ib(address: IbAddress) -> DatagramListenerBuilder {
    DatagramListenerBuilder {
        listener: listener(address.into()),
    }
}

impl DatagramListenerBuilder {
    /// How many requests may wait to be taken, as [`ListenerBuilder::backlog`].
    pub fn backlog(mut self, requests: u32) -> Self {
        self.listener = self.listener.backlog(requests);
        self
    }

    /// `RDMA_OPTION_ID_REUSEADDR`—shares the port, as [`ListenerBuilder::reuse_address`].
    #[doc(alias = "RDMA_OPTION_ID_REUSEADDR")]
    pub fn reuse_address(mut self) -> Self {
        self.listener = self.listener.reuse_address();
        self
    }

    /// `RDMA_OPTION_ID_AFONLY`—whether `[::]` takes IPv6 only.
    #[doc(alias = "RDMA_OPTION_ID_AFONLY")]
    pub fn ipv6_only(mut self, only: bool) -> Self {
        self.listener = self.listener.ipv6_only(only);
        self
    }

    /// The channel to use.
    pub fn channel(mut self, channel: &EventChannel) -> Self {
        self.listener = self.listener.channel(channel);
        self
    }

    /// Binds it, and listens. Four to six commands on an opened channel; none waits.
    ///
    /// # Errors
    /// As [`ListenerBuilder::build`].
    pub fn build(self) -> Result<DatagramListener> {
        let (handle, local) = self.listener.bound(PortSpace::Udp)?;
        Ok(DatagramListener {
            handle,
            local,
            lost: AtomicU64::new(0),
        })
    }
}

impl DatagramListener {
    /// Its address, with the port that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.to_socket_addr()
    }

    /// The channel, for further listeners.
    pub fn channel(&self) -> EventChannel {
        EventChannel {
            shared: self.handle.channel().clone(),
        }
    }

    /// Waits for a request. Any number of threads may wait.
    ///
    /// # Errors
    /// As [`Listener::accept`](super::Listener::accept).
    pub fn accept(&self) -> Result<DatagramRequest, CmError> {
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
    pub fn accept_timeout(&self, limit: Duration) -> Result<Option<DatagramRequest>, CmError> {
        now(self.accept_by(&Blocking, deadline(limit)))
    }

    /// How many requests came through a device that is gone.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) async fn accept_by<W: Waits>(
        &self,
        by: &W,
        until: Option<Instant>,
    ) -> Result<Option<DatagramRequest>, CmError> {
        next_request(&self.handle, by, until, &self.lost, DatagramRequest::of).await
    }
}

impl DatagramRequest {
    /// Asks the kernel where it came from. One command.
    fn of(listener: &Handle, event: &Event) -> Result<Self> {
        // From here on its drop rejects.
        let handle = Handle::of_request(listener.channel(), event.id);
        Ok(Self {
            way: PeerRoute::of(&handle, None)?,
            handle,
            data: event.datagram().private_data,
        })
    }

    /// What the peer gave to
    /// [`ResolvedService::private_data`](super::ResolvedService::private_data):
    /// 180 bytes, padded with zeros.
    pub fn peer_data(&self) -> &[u8] {
        self.data.as_bytes()
    }

    /// A builder for a queue pair that can [answer](Self::accept) this peer: at the port that leads
    /// to it, with [`DATAGRAM_QKEY`]. It has to belong to [that device](PeerRoute::is_on).
    pub fn datagram_queue_pair<'a>(
        &self,
        pd: &'a ProtectionDomain,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, Ud> {
        route::datagram_queue_pair(self.way.device(), DATAGRAM_QKEY, pd, send_cq, recv_cq)
    }

    /// `rdma_accept`—tells the peer the number of a queue pair, its queue key, and `data`. One
    /// command; the id is destroyed on another thread. Does not wait; the peer's kernel asks again
    /// if the answer is lost.
    ///
    /// One queue pair may serve any number of peers. Their ends are not reported.
    ///
    /// # Errors
    /// [`GaveUp`](CmError::GaveUp): the peer gave up before. [`Failed`](CmError::Failed)
    /// ([`InvalidInput`](crate::ErrorKind::InvalidInput)): a queue pair of another device, or one
    /// that was not built with [`DATAGRAM_QKEY`]; the request is rejected.
    #[doc(alias = "rdma_accept")]
    pub fn accept(self, queue: &owned::QueuePair<Ud>, data: AnswerData) -> Result<(), CmError> {
        let is_on = |context: &_| self.way.is_on(context);
        check(Op::CmAccept, queue, is_on, DATAGRAM_QKEY)?;
        let params = ConnectionParams {
            qp_num: queue.qp_num(),
            private_data: data.data(),
            ..ConnectionParams::default()
        };
        let (file, id) = (self.handle.file(), self.handle.id());
        // It gets no further events, but the kernel wants a number.
        let number = self.handle.numbered(Takes::Itself { requests: 0 })?;
        cm::accept(file, id, number, &params, Ece::default()).map_err(gave_up)
    }

    /// `rdma_reject`—refuses it. One command; the id is destroyed on another thread.
    ///
    /// # Errors
    /// [`GaveUp`](CmError::GaveUp): the peer gave up before.
    #[doc(alias = "rdma_reject")]
    pub fn reject(self, data: AnswerData) -> Result<(), CmError> {
        let (file, id) = (self.handle.file(), self.handle.id());
        cm::reject(file, id, RejectReason::Consumer, &data.data()).map_err(gave_up)
    }
}

/// Whether peers can reach a queue pair with what they are told.
pub(super) fn check(
    op: Op,
    queue: &owned::QueuePair<Ud>,
    is_on: impl FnOnce(&crate::Context) -> bool,
    qkey: u32,
) -> Result<()> {
    let context = queue.pd().context();
    if !is_on(context) {
        return Err(Error::invalid(op, "queue_pair")
            .fact("device", context.name().to_owned())
            .hint("the peer is reached by another device: see `device`, `is_on`, `open`"));
    }
    let own = queue.built_with_qkey();
    if own != qkey {
        return Err(Error::invalid(op, "qkey")
            .fact("qkey", own)
            .fact("needed", qkey)
            .hint("peers are told the key of the address: build the queue pair with it"));
    }
    Ok(())
}

impl Deref for DatagramRequest {
    type Target = PeerRoute;

    fn deref(&self) -> &PeerRoute {
        &self.way
    }
}

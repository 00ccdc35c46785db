//! Datagram services: the active side, from an address to a queue pair.

use std::ops::Deref;
use std::time::Duration;

use uverbs_core::cm::{self, ConnectionParams, DatagramParams, EventKind, PortSpace, PrivateData};
use uverbs_core::types::{AddressVector, Ece};
use uverbs_core::{Error, Op};

use super::channel::EventChannel;
use super::connector::Connector;
use super::data::ResolveData;
use super::error::{CmError, Step};
use super::handle::Handle;
use super::route::{self, PeerRoute};
use super::service::DATAGRAM_QKEY;
use super::wait::{Blocking, Waits, deadline, now};
use crate::transport::Ud;
use crate::{CompletionQueue, ProtectionDomain, QueuePairBuilder};

/// A datagram service whose device and path are known ([`Connector::resolve_datagrams`]):
/// [`ask`](Self::ask) it for its queue pair. Dropping it sends nothing.
///
/// ```no_run
/// # fn f(pd: &uverbs::ProtectionDomain, cq: &uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::cm;
/// use uverbs::owned::{self, Work};
///
/// let resolved = cm::connect("192.0.2.7:7471".parse()?).resolve_datagrams()?;
/// let builder = resolved.datagram_queue_pair(pd, cq, cq);
/// let mut queue = owned::QueuePair::new(builder.build()?.activate()?);
/// let peer = resolved.ask()?;
/// let way = pd.create_ah(&peer.address)?;
/// let [message] = pd.buffers(64)?;
/// queue.post(Work::send().memory((message, 5)).to(&way, peer.qp_num, peer.qkey))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is sent before `ask`"]
pub struct ResolvedService {
    handle: Handle,
    way: PeerRoute,
    limit: Duration,
    data: ResolveData,
}

/// The queue pair of a datagram service, as the service reported it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct DatagramPeer {
    /// The number of its queue pair, 24 bits.
    pub qp_num: u32,
    /// The queue key to send with.
    pub qkey: u32,
    /// The path to it, for [`create_ah`](ProtectionDomain::create_ah).
    pub address: AddressVector,
    data: PrivateData,
}

impl Connector {
    /// Finds the device and the path to a datagram service, as [`resolve`](Self::resolve).
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve); [`Failed`](CmError::Failed) (EINVAL):
    /// [`ack_timeout`](Self::ack_timeout), which datagrams do not have.
    #[doc(alias = "RDMA_PS_UDP")]
    pub fn resolve_datagrams(self) -> Result<ResolvedService, CmError> {
        let channel = EventChannel::given_or_opened(self.given_channel())?;
        now(self.resolve_datagrams_by(&channel, &Blocking))
    }

    pub(super) async fn resolve_datagrams_by<W: Waits>(
        self,
        channel: &EventChannel,
        by: &W,
    ) -> Result<ResolvedService, CmError> {
        let (handle, way) = self.resolved(channel, PortSpace::Udp, by).await?;
        Ok(ResolvedService {
            handle,
            way,
            limit: self.limit(),
            data: ResolveData::EMPTY,
        })
    }
}

impl ResolvedService {
    /// Bytes for the service. Default: none.
    pub fn private_data(mut self, data: ResolveData) -> Self {
        self.data = data;
        self
    }

    /// A builder for a queue pair that can send to the service: at the port that leads to it, with
    /// [`DATAGRAM_QKEY`], so that it can be a service, too. It has to belong to [that
    /// device](PeerRoute::is_on).
    pub fn datagram_queue_pair<'a>(
        &self,
        pd: &'a ProtectionDomain,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, Ud> {
        route::datagram_queue_pair(self.way.device(), DATAGRAM_QKEY, pd, send_cq, recv_cq)
    }

    /// `rdma_connect`—asks the service for its queue pair, and waits for the answer. Two commands;
    /// the id is destroyed on another thread.
    ///
    /// # Errors
    /// | error | cause |
    /// |---|---|
    /// | [`Rejected`](CmError::Rejected) | the service refused, or there is none, with the code that [`status`](super::Rejection::status) has |
    /// | [`TimedOut`](CmError::TimedOut) | no answer within the [limit](Connector::timeout) |
    /// | [`Unreachable`](CmError::Unreachable) | the kernel gave up before that |
    /// | [`DeviceRemoved`](CmError::DeviceRemoved) | the device was removed |
    /// | [`Failed`](CmError::Failed) | a command was refused |
    #[doc(alias = "rdma_connect")]
    pub fn ask(self) -> Result<DatagramPeer, CmError> {
        now(self.ask_by(&Blocking))
    }

    pub(super) async fn ask_by<W: Waits>(self, by: &W) -> Result<DatagramPeer, CmError> {
        let until = deadline(self.limit);
        let params = ConnectionParams {
            private_data: self.data.data(),
            ..ConnectionParams::default()
        };
        self.handle.may_block();
        let (file, id) = (self.handle.file(), self.handle.id());
        cm::connect(file, id, &params, Ece::default())?;
        loop {
            let Some(event) = by.event(&self.handle, until).await? else {
                return Err(CmError::TimedOut(Step::Connect));
            };
            if event.kind == EventKind::Established {
                return DatagramPeer::of(&event.datagram());
            }
            if let Some(over) = CmError::of_datagrams(&event) {
                return Err(over);
            }
        }
    }
}

impl DatagramPeer {
    fn of(params: &DatagramParams) -> Result<Self, CmError> {
        // Beyond 24 bits there is no queue pair.
        if params.qp_num >> 24 != 0 {
            return Err(Error::bad_reply(Op::CmConnect, "no number of a queue pair").into());
        }
        Ok(Self {
            qp_num: params.qp_num,
            qkey: params.qkey,
            address: params.address,
            data: params.private_data,
        })
    }

    /// What the service gave to [`DatagramRequest::accept`](super::DatagramRequest::accept): 136
    /// bytes, padded with zeros.
    pub fn private_data(&self) -> &[u8] {
        self.data.as_bytes()
    }
}

impl Deref for ResolvedService {
    type Target = PeerRoute;

    fn deref(&self) -> &PeerRoute {
        &self.way
    }
}

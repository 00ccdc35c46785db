//! Multicast groups by IP address.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use uverbs_core::cm::{
    self, BoundDevice, DatagramParams, Event, EventKind, MulticastJoin, PortSpace,
};
use uverbs_core::error::Errno;
use uverbs_core::types::{AddressVector, Gid};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::channel::EventChannel;
use super::connector::{Connector, LIMIT, connect};
use super::error::{CmError, Step, failure};
use super::handle::Handle;
use super::route;
use super::service::check;
use super::table::Takes;
use super::wait::{Blocking, Waits, deadline, now};
use crate::transport::Ud;
use crate::{CompletionQueue, Context, ProtectionDomain, QueuePairBuilder, owned};

/// `IB_DEFAULT_PKEY_FULL`.
const DEFAULT_PKEY: u16 = 0xffff;

/// A multicast group to be joined ([`join`]).
///
/// | setting | default |
/// |---|---|
/// | [`source`](Self::source) | the address that routes to the group |
/// | [`send_only`](Self::send_only) | no |
/// | [`timeout`](Self::timeout) | 10 s for each step |
/// | [`channel`](Self::channel) | one of its own |
#[derive(Clone, Debug)]
#[must_use = "nothing is joined before `build`"]
pub struct GroupBuilder {
    group: IpAddr,
    from: Option<IpAddr>,
    membership: MulticastJoin,
    limit: Duration,
    channel: Option<EventChannel>,
}

/// A multicast group that was joined. Dropping it leaves the group, on another thread if that may
/// take long.
///
/// A queue pair receives what is sent to the group while it is [attached](Self::attach); messages
/// are sent to [`address`](Self::address), [`MULTICAST_QPN`](crate::address::MULTICAST_QPN) and
/// [`qkey`](Self::qkey).
#[doc(alias = "rdma_join_multicast")]
#[derive(Debug)]
pub struct Group {
    handle: Handle,
    /// The kernel's number of the membership.
    join: u32,
    membership: MulticastJoin,
    device: BoundDevice,
    pkey: u16,
    way: DatagramParams,
}

/// What happens to a group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GroupEvent {
    /// It was joined again, after the subnet administrator had changed: [`address`](Group::address)
    /// and [`qkey`](Group::qkey) are new. On InfiniBand.
    #[doc(alias = "RDMA_CM_EVENT_MULTICAST_JOIN")]
    Rejoined,
    /// It no longer exists.
    #[doc(alias = "RDMA_CM_EVENT_MULTICAST_ERROR")]
    Lost(Error),
    /// The device was removed.
    #[doc(alias = "RDMA_CM_EVENT_DEVICE_REMOVAL")]
    DeviceRemoved,
    /// A bond failed over to another network interface.
    #[doc(alias = "RDMA_CM_EVENT_ADDR_CHANGE")]
    AddressChanged,
    /// An event that this version does not know.
    Other(EventKind),
}

/// `rdma_join_multicast`—the multicast group of an IP address. On RoCE v2 it has to be an IPv4
/// group, and the kernel tells routers by IGMP.
///
/// ```no_run
/// # fn f(pd: &uverbs::ProtectionDomain, cq: &uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::address::MULTICAST_QPN;
/// use uverbs::cm;
/// use uverbs::owned::{self, Work};
///
/// let group = cm::join("239.1.2.3".parse()?).source("192.0.2.1".parse()?).build()?;
/// let builder = group.queue_pair(pd, cq, cq);
/// let mut queue = owned::QueuePair::new(builder.build()?.activate()?);
/// group.attach(&mut queue)?;
/// let way = pd.create_ah(&group.address())?;
/// let [message] = pd.buffers(64)?;
/// queue.post(Work::send().memory((message, 5)).to(&way, MULTICAST_QPN, group.qkey()))?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rdma_join_multicast_ex")]
pub fn join(group: IpAddr) -> GroupBuilder {
    GroupBuilder {
        group,
        from: None,
        membership: MulticastJoin::Full,
        limit: LIMIT,
        channel: None,
    }
}

impl GroupBuilder {
    /// The local address, which determines the device and port. Without one, the system's routes
    /// do.
    pub fn source(mut self, address: IpAddr) -> Self {
        self.from = Some(address);
        self
    }

    /// Joins to send only: no queue pair can be attached.
    #[doc(alias = "RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER")]
    pub fn send_only(mut self) -> Self {
        self.membership = MulticastJoin::SendOnly;
        self
    }

    /// How long each step may take: finding the device, and joining.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The channel to use.
    pub fn channel(mut self, channel: &EventChannel) -> Self {
        self.channel = Some(channel.clone());
        self
    }

    /// Joins it, and waits for the network. Four commands on an opened channel, and two more
    /// without a [source](Self::source).
    ///
    /// # Errors
    /// | error | cause |
    /// |---|---|
    /// | [`Failed`](CmError::Failed) (ENODEV) | no RDMA device has the local address |
    /// | [`Failed`](CmError::Failed) (EADDRNOTAVAIL, ENETUNREACH) | no such local address; no route to the group |
    /// | [`Failed`](CmError::Failed) (errno 524) | an IPv6 group on RoCE v2 |
    /// | [`Failed`](CmError::Failed) (EINVAL) | not a multicast address; a source of another family |
    /// | [`TimedOut`](CmError::TimedOut) | not within the [limit](Self::timeout) |
    /// | [`DeviceRemoved`](CmError::DeviceRemoved) | the device was removed |
    pub fn build(self) -> Result<Group, CmError> {
        let channel = EventChannel::given_or_opened(self.channel.as_ref())?;
        now(self.join_by(&channel, &Blocking))
    }

    pub(super) async fn join_by<W: Waits>(
        self,
        channel: &EventChannel,
        by: &W,
    ) -> Result<Group, CmError> {
        if !self.group.is_multicast() {
            let error = Error::invalid(Op::CmJoinMulticast, "group");
            return Err(error.fact("address", self.group.to_string()).into());
        }
        let takes = Takes::Itself { requests: 0 };
        let handle = Handle::create(&channel.shared, PortSpace::Udp, takes)?;
        let (file, id) = (handle.file(), handle.id());
        let group = SocketAddr::new(self.group, 0);
        if let Some(from) = self.from {
            cm::bind(file, id, SocketAddr::new(from, 0).into())?;
        } else {
            let connector = self.connector(group);
            connector.find_address(&handle, PortSpace::Udp, by).await?;
        }
        let found = cm::query_addresses(file, id)?;
        let device = found.device.ok_or_else(|| {
            Error::new(Op::CmJoinMulticast, ErrorKind::NotFound)
                .hint("the local address has to be one of a network interface with RDMA")
        })?;
        handle.may_block();
        // The number of the id serves the membership, too: both wait for the same events.
        let number = handle.number();
        let join = cm::join_multicast(file, id, number, group.into(), self.membership)?;
        let way = joined(&handle, join, by, deadline(self.limit)).await?;
        Ok(Group {
            handle,
            join,
            membership: self.membership,
            device,
            pkey: match found.pkey {
                // Of Ethernet, which has no partitions but the default one.
                0 => DEFAULT_PKEY,
                pkey => pkey,
            },
            way,
        })
    }

    fn connector(&self, group: SocketAddr) -> Connector {
        connect(group).timeout(self.limit)
    }
}

/// Waits until the network has joined; returns the path to the group.
async fn joined<W: Waits>(
    handle: &Handle,
    join: u32,
    by: &W,
    until: Option<Instant>,
) -> Result<DatagramParams, CmError> {
    loop {
        let Some(event) = by.event(handle, until).await? else {
            return Err(CmError::TimedOut(Step::Join));
        };
        match event.kind {
            EventKind::MulticastJoin if event.id == join => return Ok(event.datagram()),
            EventKind::MulticastError if event.id == join => {
                let error = failure(&event, Op::CmJoinMulticast);
                return Err(match error.errno() {
                    // On InfiniBand: the subnet administrator does not answer.
                    Some(Errno::TIMEDOUT) => CmError::TimedOut(Step::Join),
                    _ => error.into(),
                });
            }
            EventKind::DeviceRemoval => return Err(CmError::DeviceRemoved),
            _ => {}
        }
    }
}

impl Group {
    /// The path to the group, for [`create_ah`](ProtectionDomain::create_ah).
    pub fn address(&self) -> AddressVector {
        self.way.address
    }

    /// The queue key to send with, which queue pairs must have to receive.
    pub fn qkey(&self) -> u32 {
        self.way.qkey
    }

    /// The partition key of the group; 0xffff on Ethernet.
    pub fn pkey(&self) -> u16 {
        self.pkey
    }

    /// Its GID.
    pub fn gid(&self) -> Gid {
        self.way.address.grh.map_or(Gid::ZERO, |route| route.dgid)
    }

    /// The device and port.
    pub fn device(&self) -> BoundDevice {
        self.device
    }

    /// Whether `context` is that device, opened.
    pub fn is_on(&self, context: &Context) -> bool {
        route::is_on(self.device, context)
    }

    /// Opens that device, as [`PeerRoute::open`](super::PeerRoute::open).
    ///
    /// # Errors
    /// As there.
    pub fn open(&self) -> Result<Context> {
        route::open(self.device)
    }

    /// A builder for a queue pair at that port, with the group's queue key. It has to belong to
    /// [that device](Self::is_on).
    pub fn queue_pair<'a>(
        &self,
        pd: &'a ProtectionDomain,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, Ud> {
        route::datagram_queue_pair(self.device, self.way.qkey, pd, send_cq, recv_cq)
    }

    /// `ibv_attach_mcast`—has a queue pair receive what is sent to the group. One system call.
    /// [Detach](Self::detach) it before the group is dropped; otherwise the queue pair continues to
    /// receive what arrives.
    ///
    /// # Errors
    /// [`InvalidState`](ErrorKind::InvalidState): the group was joined to send only.
    /// [`InvalidInput`](ErrorKind::InvalidInput): a queue pair of another device, or one that was
    /// not built with the [queue key](Self::qkey); those of
    /// [`attach_multicast`](crate::QueuePair::attach_multicast).
    #[doc(alias = "ibv_attach_mcast")]
    pub fn attach(&self, queue: &mut owned::QueuePair<Ud>) -> Result<()> {
        if self.membership == MulticastJoin::SendOnly {
            return Err(Error::new(Op::AttachMulticast, ErrorKind::InvalidState)
                .hint("the group was joined to send only"));
        }
        let is_on = |context: &_| self.is_on(context);
        check(Op::AttachMulticast, queue, is_on, self.way.qkey)?;
        queue.attach_multicast(&self.gid(), self.way.address.dlid)
    }

    /// `ibv_detach_mcast`—undoes [`attach`](Self::attach). One system call.
    ///
    /// # Errors
    /// Those of [`detach_multicast`](crate::QueuePair::detach_multicast).
    #[doc(alias = "ibv_detach_mcast")]
    pub fn detach(&self, queue: &mut owned::QueuePair<Ud>) -> Result<()> {
        queue.detach_multicast(&self.gid(), self.way.address.dlid)
    }

    /// `rdma_leave_multicast`—leaves the group, and waits for the kernel. One command.
    ///
    /// # Errors
    /// Those of every command. The membership ends with the id then, as in a drop.
    #[doc(alias = "rdma_leave_multicast")]
    pub fn leave(self) -> Result<()> {
        cm::leave_multicast(self.handle.file(), self.join).map(drop)
    }

    /// `rdma_get_cm_event`—waits for the next event of the group, for at most `timeout` (`None`:
    /// forever). `None` when the time is up.
    ///
    /// # Errors
    /// As [`Link::event`](super::Link::event).
    #[doc(alias = "rdma_get_cm_event")]
    pub fn event(&mut self, timeout: Option<Duration>) -> Result<Option<GroupEvent>> {
        let event = self.handle.wait(timeout.and_then(deadline))?;
        Ok(event.map(|event| self.seen(&event)))
    }

    #[cfg(feature = "tokio")]
    pub(super) async fn event_by<W: Waits>(&mut self, by: &W) -> Result<Option<GroupEvent>> {
        let event = by.event(&self.handle, None).await?;
        Ok(event.map(|event| self.seen(&event)))
    }

    fn seen(&mut self, event: &Event) -> GroupEvent {
        match event.kind {
            EventKind::MulticastJoin => {
                self.way = event.datagram();
                GroupEvent::Rejoined
            }
            EventKind::MulticastError => GroupEvent::Lost(failure(event, Op::CmJoinMulticast)),
            EventKind::DeviceRemoval => GroupEvent::DeviceRemoved,
            EventKind::AddressChange => GroupEvent::AddressChanged,
            other => GroupEvent::Other(other),
        }
    }
}

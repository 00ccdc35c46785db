//! Ids and their events as the kernel has them: for programs with an event loop of their own, and
//! for what has no type of its own here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use uverbs_core::cm::{
    self, Addresses, CmAddress, ConnectionParams, Event, EventKind, MulticastJoin, PortSpace,
    PrivateData, RejectReason, Route, Service,
};
use uverbs_core::types::{AckTimeout, AsyncEventType, Ece, QpAttr, QpState};
use uverbs_core::{Op, Result};

use super::channel::{Channel, EventChannel};
use super::handle::Handle;
use super::table::Takes;
use super::wait::deadline;

/// `rdma_cm_id`—the kernel's end of a connection, a listener or a datagram service, with every step
/// in the program's hands; [`connect`](super::connect) and [`Listener`](super::Listener) take them
/// in order.
///
/// Its events are read from its [channel](EventChannel::event). Each command is one system call,
/// and does not wait. Dropping it destroys the id, as with everything in this module: on another
/// thread if that may take long.
#[doc(alias = "rdma_cm_id")]
#[derive(Debug)]
pub struct Id {
    handle: Arc<Handle>,
}

/// Names an id, or a [`Join`]. No two of a process are equal.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IdKey(u64);

/// What happened to an id.
#[derive(Debug)]
#[non_exhaustive]
pub struct IdEvent {
    /// Which one, or which join.
    pub of: IdKey,
    /// What happened. Its `uid` and `id` are the kernel's numbers.
    pub event: Event,
    /// The new id of a [`ConnectRequest`](EventKind::ConnectRequest). Dropping it rejects. It has
    /// no key before it is accepted.
    pub request: Option<Id>,
}

/// A multicast group that an id joined. Dropping it leaves the group; until then the id lives.
///
/// The queue pair has to be attached once the [event](EventKind::MulticastJoin) has said how the
/// group is reached, and detached before this is dropped.
#[doc(alias = "rdma_join_multicast")]
#[derive(Debug)]
pub struct Join {
    id: Arc<Handle>,
    number: u64,
    kernel_id: u32,
}

impl EventChannel {
    /// `rdma_create_id`—creates an id, in the network namespace of this thread.
    ///
    /// # Errors
    /// ENOMEM; those of every command: EACCES
    /// ([`PermissionDenied`](crate::ErrorKind::PermissionDenied)) if the credentials are not those
    /// with which the channel was opened, [`Forked`](crate::ErrorKind::Forked) in a child.
    #[doc(alias = "rdma_create_id")]
    pub fn create_id(&self, space: PortSpace) -> Result<Id> {
        let handle = Handle::create(&self.shared, space, Takes::Channel)?;
        Ok(Id {
            handle: Arc::new(handle),
        })
    }

    /// `rdma_get_cm_event`—waits for the next event of any [`Id`] of the channel, for at most
    /// `timeout` (`None`: forever). `None` when the time is up. There is nothing to acknowledge.
    ///
    /// # Errors
    /// As [`create_id`](Self::create_id).
    #[doc(alias = "rdma_get_cm_event")]
    #[doc(alias = "rdma_ack_cm_event")]
    pub fn event(&self, timeout: Option<Duration>) -> Result<Option<IdEvent>> {
        let until = timeout.and_then(deadline);
        let event = self.shared.wait_for(until, |table| table.loose.pop_front());
        Ok(event?.map(|event| self.found(&event)))
    }

    /// The next event, if there is one. Never waits.
    ///
    /// # Errors
    /// As [`create_id`](Self::create_id).
    pub fn try_event(&self) -> Result<Option<IdEvent>> {
        let event = self.shared.look(|table| table.loose.pop_front())?;
        Ok(event.map(|event| self.found(&event)))
    }

    fn found(&self, event: &Event) -> IdEvent {
        let request = (event.kind == EventKind::ConnectRequest).then(|| Id {
            handle: Arc::new(Handle::of_request(&self.shared, event.id)),
        });
        IdEvent {
            of: IdKey(event.uid),
            event: *event,
            request,
        }
    }
}

impl Id {
    /// What identifies its events. `None` for a request that was not accepted.
    pub fn key(&self) -> Option<IdKey> {
        let number = self.handle.number();
        (number != 0).then_some(IdKey(number))
    }

    /// `rdma_bind_addr`—gives it its local address.
    ///
    /// # Errors
    /// EINVAL: it has one. ENODEV: no RDMA device has the address. EADDRNOTAVAIL, EADDRINUSE.
    #[doc(alias = "rdma_bind_addr")]
    pub fn bind(&self, address: impl Into<CmAddress>) -> Result<()> {
        cm::bind(self.handle.file(), self.handle.id(), address.into())
    }

    /// `rdma_listen`—reports requests as events, of which `backlog` may be unread.
    ///
    /// # Errors
    /// EINVAL: it listens, or is an active side. EADDRINUSE, EADDRNOTAVAIL.
    #[doc(alias = "rdma_listen")]
    pub fn listen(&self, backlog: u32) -> Result<()> {
        self.handle.may_block();
        cm::listen(self.handle.file(), self.handle.id(), backlog)
    }

    /// `rdma_resolve_addr`—finds the device, and the peer's link address.
    ///
    /// # Errors
    /// ENETUNREACH, EHOSTUNREACH: no route. EINVAL: its state, families that do not match. ENODEV.
    #[doc(alias = "rdma_resolve_addr")]
    pub fn resolve_address(
        &self,
        source: Option<CmAddress>,
        destination: impl Into<CmAddress>,
        timeout: Duration,
    ) -> Result<()> {
        let (file, id) = (self.handle.file(), self.handle.id());
        cm::resolve_address(file, id, source, destination.into(), timeout)
    }

    /// `rdma_resolve_route`—finds the path.
    ///
    /// # Errors
    /// EINVAL: the address is not resolved, or `timeout` is 0. ENODEV.
    #[doc(alias = "rdma_resolve_route")]
    pub fn resolve_route(&self, timeout: Duration) -> Result<()> {
        cm::resolve_route(self.handle.file(), self.handle.id(), timeout)
    }

    /// `rdma_resolve_addrinfo`—asks the subnet administrator of an InfiniBand device where a
    /// service is, by its number, its name, or both. The id has to be bound to the device. After
    /// the event [`ServiceResolved`](EventKind::ServiceResolved) (else
    /// [`ServiceError`](EventKind::ServiceError)) [`services`](Self::services) has the answer.
    /// Newer than Linux 6.12.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): an older kernel, or another kind of device.
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): neither number nor name.
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded): a name of more than 63 bytes. EINVAL: it
    /// is not bound, or is resolved already.
    #[doc(alias = "rdma_resolve_addrinfo")]
    pub fn resolve_service(&self, number: Option<u64>, name: Option<&str>) -> Result<()> {
        cm::resolve_service(self.handle.file(), self.handle.id(), number, name)
    }

    /// `rdma_query_addrinfo`—the services that were found, with their addresses
    /// ([`CmAddress::Ib`]). A second system call if there are more than four.
    ///
    /// # Errors
    /// ENODATA: none. [`Unsupported`](crate::ErrorKind::Unsupported): an older kernel.
    #[doc(alias = "rdma_query_addrinfo")]
    pub fn services(&self) -> Result<Vec<Service>> {
        cm::query_services(self.handle.file(), self.handle.id())
    }

    /// Its local address and the peer's, of any family.
    ///
    /// # Errors
    /// [`DeviceRemoved`](crate::ErrorKind::DeviceRemoved).
    pub fn addresses(&self) -> Result<Addresses> {
        cm::query_addresses(self.handle.file(), self.handle.id())
    }

    /// Its device, addresses and paths. Of addresses it has those of IP
    /// ([`addresses`](Self::addresses) has all).
    ///
    /// # Errors
    /// [`DeviceRemoved`](crate::ErrorKind::DeviceRemoved).
    pub fn route(&self) -> Result<Route> {
        cm::query_route(self.handle.file(), self.handle.id())
    }

    /// `rdma_connect`—asks the peer for a connection, or for a datagram service.
    ///
    /// # Errors
    /// EINVAL: the route is not resolved, or there is too much private data.
    #[doc(alias = "rdma_connect")]
    pub fn connect(&self, params: &ConnectionParams, ece: Ece) -> Result<()> {
        self.handle.may_block();
        cm::connect(self.handle.file(), self.handle.id(), params, ece)
    }

    /// `rdma_accept`—accepts a request. It has a [key](Self::key) from now on.
    ///
    /// # Errors
    /// After any error the request has been rejected. EINVAL: too much private data, or the peer
    /// gave up.
    #[doc(alias = "rdma_accept")]
    pub fn accept(&self, params: &ConnectionParams, ece: Ece) -> Result<()> {
        let number = self.handle.numbered(Takes::Channel)?;
        cm::accept(self.handle.file(), self.handle.id(), number, params, ece)
    }

    /// `rdma_establish`—tells the peer that the active side's queue pair is ready.
    ///
    /// # Errors
    /// EINVAL: there was no response, or the peer gave up.
    #[doc(alias = "rdma_establish")]
    pub fn establish(&self) -> Result<()> {
        cm::establish(self.handle.file(), self.handle.id())
    }

    /// `rdma_reject`—refuses a request.
    ///
    /// # Errors
    /// EINVAL: too much private data, or there is nothing to reject.
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): a reason that programs may not give.
    #[doc(alias = "rdma_reject")]
    pub fn reject(&self, reason: RejectReason, data: &PrivateData) -> Result<()> {
        cm::reject(self.handle.file(), self.handle.id(), reason, data)
    }

    /// `rdma_disconnect`—ends a connection, or answers the peer's end of it.
    ///
    /// # Errors
    /// EINVAL: it never connected.
    #[doc(alias = "rdma_disconnect")]
    pub fn disconnect(&self) -> Result<()> {
        cm::disconnect(self.handle.file(), self.handle.id())
    }

    /// `rdma_init_qp_attr`—the attributes for moving its queue pair to `state`.
    ///
    /// # Errors
    /// EINVAL, [`BadReply`](crate::ErrorKind::BadReply): the handshake has not got that far.
    #[doc(alias = "rdma_init_qp_attr")]
    pub fn init_qp_attr(&self, state: QpState) -> Result<QpAttr> {
        cm::init_qp_attr(self.handle.file(), self.handle.id(), state)
    }

    /// `rdma_notify`—reports an event of its queue pair.
    ///
    /// # Errors
    /// EINVAL: its state, or another event. EISCONN: it is established already.
    #[doc(alias = "rdma_notify")]
    pub fn notify(&self, event: AsyncEventType) -> Result<()> {
        cm::notify(self.handle.file(), self.handle.id(), event)
    }

    /// `RDMA_OPTION_ID_TOS`—the type of service of its packets, before the route is resolved.
    ///
    /// # Errors
    /// Those of every command.
    #[doc(alias = "RDMA_OPTION_ID_TOS")]
    pub fn set_type_of_service(&self, tos: u8) -> Result<()> {
        cm::set_type_of_service(self.handle.file(), self.handle.id(), tos)
    }

    /// `RDMA_OPTION_ID_REUSEADDR`—whether it shares its port; one of those that share it may
    /// listen.
    ///
    /// # Errors
    /// EINVAL: it listens.
    #[doc(alias = "RDMA_OPTION_ID_REUSEADDR")]
    pub fn set_reuse_address(&self, reuse: bool) -> Result<()> {
        cm::set_reuse_address(self.handle.file(), self.handle.id(), reuse)
    }

    /// `RDMA_OPTION_ID_AFONLY`—whether `[::]` takes IPv6 only.
    ///
    /// # Errors
    /// EINVAL: it listens, or is resolved.
    #[doc(alias = "RDMA_OPTION_ID_AFONLY")]
    pub fn set_address_family_only(&self, only: bool) -> Result<()> {
        cm::set_address_family_only(self.handle.file(), self.handle.id(), only)
    }

    /// `RDMA_OPTION_ID_ACK_TIMEOUT`—how long its queue pair waits for an acknowledgement.
    ///
    /// # Errors
    /// EINVAL: it is for datagrams.
    #[doc(alias = "RDMA_OPTION_ID_ACK_TIMEOUT")]
    pub fn set_ack_timeout(&self, timeout: AckTimeout) -> Result<()> {
        cm::set_ack_timeout(self.handle.file(), self.handle.id(), timeout)
    }

    /// `rdma_join_multicast`—joins a group; the event
    /// [`MulticastJoin`](EventKind::MulticastJoin) says how it is reached
    /// ([`Event::datagram`]). For ids for datagrams that are bound or resolved.
    ///
    /// # Errors
    /// EINVAL: its state, or it is for connections. EADDRNOTAVAIL: it has joined the group.
    #[doc(alias = "rdma_join_multicast_ex")]
    pub fn join_multicast(&self, group: SocketAddr, join: MulticastJoin) -> Result<Join> {
        let channel = self.handle.channel();
        let number = channel.reserve(Op::CmJoinMulticast, Takes::Channel)?;
        let (file, id) = (self.handle.file(), self.handle.id());
        match cm::join_multicast(file, id, number, group.into(), join) {
            Ok(kernel_id) => Ok(Join {
                id: Arc::clone(&self.handle),
                number,
                kernel_id,
            }),
            Err(error) => {
                channel.release(number);
                Err(error)
            }
        }
    }
}

impl Join {
    /// What identifies its events.
    pub fn key(&self) -> IdKey {
        IdKey(self.number)
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        let channel: &Channel = self.id.channel();
        // In a child it is the parent's, and so may be the lock.
        if channel.file().check_process(Op::CmLeaveMulticast).is_err() {
            return;
        }
        channel.release(self.number);
        // It has gone by itself if the device was removed; otherwise it goes with the id.
        let _ = cm::leave_multicast(channel.file(), self.kernel_id);
    }
}

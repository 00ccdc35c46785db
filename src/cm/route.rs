//! Where a peer is, as both sides of a handshake know it.

use std::net::SocketAddr;
use std::sync::Arc;

use uverbs_core::cm::{self, BoundDevice, CmAddress, Route};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::handle::Handle;
use super::known::Known;
use crate::transport::{Rc, Ud};
use crate::{CompletionQueue, Context, ProtectionDomain, QueuePairBuilder};

/// A peer's address, and the device and path that lead to it: what a
/// [`Resolved`](super::Resolved) and a [`Request`](super::Request) know before there is a queue
/// pair.
#[derive(Debug)]
pub struct PeerRoute {
    route: Route,
    device: BoundDevice,
    local: CmAddress,
    peer: CmAddress,
    known: Arc<Known>,
}

impl PeerRoute {
    /// Asks the kernel. One command, or two where the addresses are none of IP. Those that it does
    /// not know are those of `otherwise`.
    pub(super) fn of(handle: &Handle, otherwise: Option<(CmAddress, CmAddress)>) -> Result<Self> {
        let mut route = cm::query_route(handle.file(), handle.id())?;
        let is_ip = matches!(otherwise, Some((_, CmAddress::Ip(_))));
        if !is_ip && (route.source.is_none() || route.destination.is_none()) {
            let known = cm::query_addresses(handle.file(), handle.id())?;
            route.source = route.source.or(known.source);
            route.destination = route.destination.or(known.destination);
        }
        let device = route.device.ok_or_else(|| {
            Error::new(Op::CmQuery, ErrorKind::NotFound).hint("the id has no device any more")
        })?;
        let (local, peer) = otherwise.unzip();
        let address = |found: Option<CmAddress>, otherwise: Option<CmAddress>| {
            let known = found.or(otherwise);
            known.ok_or_else(|| Error::bad_reply(Op::CmQuery, "no address"))
        };
        Ok(Self {
            local: address(route.source, local)?,
            peer: address(route.destination, peer)?,
            route,
            device,
            known: Arc::clone(handle.channel().known()),
        })
    }

    /// The local address: on the active side with the port that the kernel chose, on the passive
    /// side the one that the peer asked for. Without IP ([`connect_ib`](super::connect_ib),
    /// [`listen_ib`](super::listen_ib)) it is the GID and the port; [`route`](Self::route) has the
    /// whole.
    #[doc(alias = "rdma_get_local_addr")]
    #[doc(alias = "rdma_get_src_port")]
    pub fn local_addr(&self) -> SocketAddr {
        self.local.to_socket_addr()
    }

    /// The peer's address. That of a request is what the peer's kernel claims; it is not verified.
    #[doc(alias = "rdma_get_peer_addr")]
    #[doc(alias = "rdma_get_dst_port")]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer.to_socket_addr()
    }

    /// The device and port that lead to the peer.
    pub fn device(&self) -> BoundDevice {
        self.device
    }

    /// The path, and how many paths there are.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Whether `context` is that device, opened.
    pub fn is_on(&self, context: &Context) -> bool {
        is_on(self.device, context)
    }

    /// Opens that device. About ten system calls, four fewer if it has index 0 and is the first
    /// that is opened, within a second of the event channel; none waits.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound): it is gone, or not in this network namespace; else as
    /// [`Context::open`].
    pub fn open(&self) -> Result<Context> {
        let known = self.known.open(self.device.index);
        known.map_or_else(|| open(self.device), Ok)
    }

    /// A builder for a queue pair at the device's port. It has to belong to [that
    /// device](Self::is_on).
    pub fn queue_pair<'a>(
        &self,
        pd: &'a ProtectionDomain,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> QueuePairBuilder<'a, Rc> {
        let builder = pd.queue_pair(Rc, send_cq, recv_cq).port(self.device.port);
        let [path, _] = &self.route.paths;
        builder.along(path)
    }
}

/// Whether a context is this device, opened.
pub(super) fn is_on(device: BoundDevice, context: &Context) -> bool {
    // Of what was not found by netlink the index is not known.
    let index = context.info().index;
    index.is_none_or(|index| index == device.index)
}

pub(super) fn open(device: BoundDevice) -> Result<Context> {
    let mut options = crate::discover::Options::default();
    options.learn_fork = true;
    let info = uverbs_core::discover::at_index(device.index, &options)?;
    crate::Device { info }.open()
}

/// A builder for a queue pair for datagrams at the device's port, with this queue key.
pub(super) fn datagram_queue_pair<'a>(
    device: BoundDevice,
    qkey: u32,
    pd: &'a ProtectionDomain,
    send_cq: &'a CompletionQueue,
    recv_cq: &'a CompletionQueue,
) -> QueuePairBuilder<'a, Ud> {
    let builder = pd.queue_pair(Ud, send_cq, recv_cq);
    builder.port(device.port).qkey(qkey)
}

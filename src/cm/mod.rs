//! Connections by IP address: the kernel's connection manager (`rdma_cm`), without librdmacm.
//!
//! A [`Listener`] takes requests; [`connect`] asks for a connection. Either side learns which
//! device leads to the other, creates a queue pair there, and gets a [`Connection`]: an
//! [`owned::QueuePair`](crate::owned::QueuePair) that is connected, and a [`Link`] that reports its
//! end.
//!
//! ```no_run
//! # fn f(context: &uverbs::Context, pd: &uverbs::ProtectionDomain, cq: &uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
//! use uverbs::cm::{self, Listener, RejectData};
//!
//! let listener = Listener::bind("0.0.0.0:7471".parse()?)?;
//! let request = listener.accept()?;
//! if !request.is_on(context) {
//!     request.reject(RejectData::new(b"another device, please")?)?;
//! } else {
//!     let prepared = request.queue_pair(pd, cq, cq).build()?;
//!     let mut attached = request.attach(prepared)?;
//!     let [buffer] = pd.buffers(4096)?;
//!     attached.queue_pair().recv(buffer, 0)?;
//!     let connection = attached.accept()?;
//!     println!("{} is connected", connection.peer_addr());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The steps
//!
//! Each is a type of its own, made from the one before, so that none can be taken out of order.
//!
//! | active side | passive side |
//! |---|---|
//! | [`Connector`]: address, limits, options | [`ListenerBuilder`] |
//! | [`Resolved`]: device and path are known | [`Listener`], and a [`Request`] with the peer's address and data |
//! | [`Attached`]: a queue pair in INIT, to which receives can be posted | the same |
//! | [`Connection`] | the same |
//!
//! The library moves the queue pair, with the attributes that both sides agreed on. Nothing happens
//! behind the scenes: no protection domain, queue or device is created or opened unless it is asked
//! for.
//!
//! Programs with an event loop of their own use an [`Id`] and its events
//! ([`EventChannel::event`]), one command at a time.
//!
//! # Datagrams
//!
//! A datagram service has an address, too; a peer that asks for it learns the number and the key of
//! its queue pair, and the path to it. Nothing is connected, so no end is reported.
//!
//! | the side that asks | the service |
//! |---|---|
//! | [`Connector`] | [`DatagramListenerBuilder`] ([`listen_datagrams`]) |
//! | [`ResolvedService`] ([`resolve_datagrams`](Connector::resolve_datagrams)) | [`DatagramListener`], and a [`DatagramRequest`] |
//! | [`DatagramPeer`] ([`ask`](ResolvedService::ask)) | [`accept`](DatagramRequest::accept) with a queue pair, or [`reject`](DatagramRequest::reject) |
//!
//! [`join`] joins a multicast group: a [`Group`], to which queue pairs are attached.
//!
//! # Without IP
//!
//! On InfiniBand [`connect_ib`], [`listen_ib`] and [`listen_datagrams_ib`] take a GID and a port
//! (`AF_IB`) in the place of an IP address. Both sides have to do without: IP addresses travel in
//! the private data of requests.
//!
//! # Ends
//!
//! | what happens | what follows |
//! |---|---|
//! | a step fails | a [`ConnectError`]: why, the queue pair in RESET, the memory that was posted |
//! | a step takes too long | [`TimedOut`](CmError::TimedOut), by this side's own limit; the peer is told |
//! | anything is dropped | the queue pair is destroyed, the peer is told, by another thread |
//! | the peer goes away | [`ConnectionEvent::Disconnected`]; requests on the queue pair may fail earlier |
//! | the device is removed | [`DeviceRemoved`](CmError::DeviceRemoved), [`ConnectionEvent::DeviceRemoved`] |
//!
//! Destroying an id takes the kernel microseconds, or up to a minute; closing the channel takes as
//! long as all of its ids together. Neither happens on the thread that drops: a thread of the
//! channel, started when it is first needed, does it. Nothing has to be acknowledged, and a
//! forgotten handle blocks nothing else.
//!
//! # Processes
//!
//! The kernel takes commands of a channel only from the process that opened it, and only while that
//! has the same credentials ([`EventChannel`]). In a child every call fails with
//! [`Forked`](crate::ErrorKind::Forked), before a system call, and drops do nothing. After
//! `setuid` and the like the kernel refuses every command
//! ([`PermissionDenied`](crate::ErrorKind::PermissionDenied)): drop privileges first. A new id
//! belongs to the network namespace of the thread that creates it.
//!
//! # What peers may be
//!
//! Any program that uses rdma_cm, such as those with librdmacm. Addresses and data of a peer are
//! what it, or its kernel, claims: nothing is encrypted or authenticated.

mod attend;
pub(crate) mod channel;
mod connection;
mod connector;
mod data;
mod datagram;
mod error;
mod group;
mod handle;
pub(crate) mod handshake;
mod id;
mod known;
mod listener;
pub(crate) mod pair;
mod reaper;
mod route;
mod service;
mod table;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;
pub(crate) mod wait;

pub use channel::{ChannelOptions, EventChannel};
pub use connection::{Connection, ConnectionEvent, Link};
pub use connector::{Connector, Resolved, connect, connect_ib};
pub use data::{
    AcceptData, AnswerData, ConnectData, MessageData, RejectData, ResolveData, unframed,
};
pub use datagram::{DatagramPeer, ResolvedService};
pub use error::{CmError, ConnectError, Rejection, Step};
pub use group::{Group, GroupBuilder, GroupEvent, join};
pub use handshake::Attached;
pub use id::{Id, IdEvent, IdKey, Join};
pub use listener::{Listener, ListenerBuilder, Request, listen, listen_ib};
pub use route::PeerRoute;
pub use service::{
    DATAGRAM_QKEY, DatagramListener, DatagramListenerBuilder, DatagramRequest, listen_datagrams,
    listen_datagrams_ib,
};

#[doc(inline)]
pub use uverbs_core::cm::{
    Addresses, BoundDevice, CmAddress, ConnectionParams, DatagramParams, Event, EventKind,
    EventStatus, IbAddress, MulticastJoin, Path, PortSpace, PrivateData, RejectReason, Route,
    Service,
};

//! The connection manager, `rdma_cm`: connections by IP address, without librdmacm.
//!
//! [`open`] opens `/dev/infiniband/rdma_cm`. The other functions are its commands (ABI 4): one
//! function each, a request value in, a reply value out. The file is an event channel; an *id* is
//! the kernel's end of one connection, listener or datagram service, a plain number here.
//!
//! | step of the active side | of the passive side |
//! |---|---|
//! | [`create_id`], [`resolve_address`], event [`AddressResolved`] | [`create_id`], [`bind`], [`listen`] |
//! | [`resolve_route`], event [`RouteResolved`] | event [`ConnectRequest`] with the id of the connection |
//! | [`query_route`]: which device; create a queue pair there, [`init_qp_attr`] to INIT | the same |
//! | [`connect`], event [`ConnectResponse`] | |
//! | [`init_qp_attr`] to RTR and RTS | [`init_qp_attr`] to INIT, RTR and RTS |
//! | [`establish`] | [`accept`], event [`Established`] |
//!
//! What to know:
//!
//! - **`uid`** is the caller's number of an id, which its events carry. With 0 the kernel throws
//!   the events away; the id of a request has 0 until it is accepted.
//! - **The kernel uses a freed id again at once,** for the next id that anyone creates, so an event
//!   that was read before a destroy may name a number that belongs to another id by now.
//! - **Private data is padded** by InfiniBand and RoCE to the length of its message, and the
//!   receiver cannot tell padding from data ([`PrivateData`]).
//! - **A failed accept has rejected** the request.
//! - **Destroying an id, and closing the file, may block** in the kernel until its messages are no
//!   longer repeated: usually microseconds, sometimes a minute.
//! - **`create_id` takes the network namespace of the calling thread.**
//! - One command of the header is left out: no kernel ever carried out `GET_OPTION` (13).
//!
//! [`AddressResolved`]: EventKind::AddressResolved
//! [`RouteResolved`]: EventKind::RouteResolved
//! [`ConnectRequest`]: EventKind::ConnectRequest
//! [`ConnectResponse`]: EventKind::ConnectResponse
//! [`Established`]: EventKind::Established

mod address;
mod bind;
mod connect;
mod event;
mod event_kind;
mod id;
mod issue;
mod multicast;
mod node;
mod option;
mod params;
mod private_data;
mod qp;
mod query;
pub mod raw;
mod reject;
mod resolve;
mod service;
#[cfg(test)]
mod tests;

pub use address::{CmAddress, IbAddress};
pub use bind::{bind, bind_ip, listen};
pub use connect::{accept, connect, disconnect, establish, notify, reject};
pub use event::{Event, EventStatus, decode_event, get_event, write_event};
pub use event_kind::EventKind;
pub use id::{PortSpace, create_id, destroy_id, migrate_id};
pub use multicast::{MulticastJoin, join_multicast, join_multicast_ip, leave_multicast};
pub use node::{ABI_VERSIONS, Node, Opened, find, open, open_nonblocking, over};
pub use option::{
    set_ack_timeout, set_address_family_only, set_paths, set_reuse_address, set_type_of_service,
};
pub use params::{ConnectionParams, DatagramParams};
pub use private_data::PrivateData;
pub use qp::{init_qp_attr, init_qp_attr_raw};
pub use query::{
    Addresses, BoundDevice, Path, PathRecord, Route, Service, query_addresses, query_gids,
    query_paths, query_route, query_services,
};
pub use reject::RejectReason;
pub use resolve::{resolve_address, resolve_ip, resolve_route};
pub use service::resolve_service;

pub use crate::file::CmFile;

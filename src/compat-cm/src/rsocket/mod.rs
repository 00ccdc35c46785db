//! Sockets (`rsocket` and what is called with one) in rsockets' protocol: streams over connections,
//! and datagrams (`datagram`). What follows is about streams.
//!
//! Each side has a ring that the peer writes into, in two halves, and a list of two entries, in
//! which the peer says where its halves are (`endpoint`, `memory`). A number that comes with each
//! write says what it was (`wire`); both sides count messages, of which each may send as many as
//! the other has receives for (`flow`). What a peer says is checked against what it was given, and
//! only ever makes this side end the connection: offsets into this side's memory are never the
//! peer's.
//!
//! `names` has the functions of the header, `calls` what they do, `stream` a socket, `connect`,
//! `accept`, `send`, `receive`, `close` what happens to it in this order. Threads sleep in `sleep`.

mod accept;
mod calls;
mod close;
mod connect;
mod datagram;
mod endpoint;
mod flow;
mod iomap;
mod keepalive;
mod link;
mod memory;
mod names;
mod options;
mod poll;
mod queues;
mod receive;
mod select;
mod send;
mod sets;
mod settings;
mod sleep;
mod stream;
mod table;
mod waiting;
mod wire;

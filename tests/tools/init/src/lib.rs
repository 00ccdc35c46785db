//! The protocol between the host and process 1 of a guest.
//!
//! A frame is one JSON value on one line; bytes travel as base64. The host sends [`Request`]s, the
//! guest answers with [`Event`]s, and the [`Config`] in the guest's initial file system says what
//! to set up when it boots.

mod bytes;
mod config;
mod frame;

pub use bytes::Bytes;
pub use config::{
    CONFIG_PATH, Config, Device, ModuleFile, PORT_FOLDER, PORT_NAME, PROBE, PROBED, Port, Topology,
};
pub use frame::{Ending, Event, Launch, Limit, LogLine, Request, Stream, Terminal, WindowSize};

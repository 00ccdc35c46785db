//! The words that the host and process 1 of a guest speak with each other.
//!
//! One frame is one JSON value on one line; bytes travel as base64. The host sends [`Request`]s,
//! the guest answers with [`Event`]s, and what the guest is to be when it comes up is the
//! [`Config`] in its initial file system.

mod bytes;
mod config;
mod frame;

pub use bytes::Bytes;
pub use config::{
    CONFIG_PATH, Config, Device, ModuleFile, PORT_FOLDER, PORT_NAME, PROBE, PROBED, Port, Topology,
};
pub use frame::{Ending, Event, Launch, Limit, LogLine, Request, Stream, Terminal, WindowSize};

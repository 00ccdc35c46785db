//! How two runs tell each other who they are: over TCP.

pub(crate) mod pingpong;
pub(crate) mod tcp;

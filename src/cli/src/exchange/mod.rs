//! How two runs exchange their endpoints: over TCP.

pub(crate) mod pingpong;
pub(crate) mod tcp;

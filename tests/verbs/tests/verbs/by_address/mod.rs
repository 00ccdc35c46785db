//! What begins with an IP address: both ends in this process, on the one device.

mod connections;
mod datagrams;
mod streams;

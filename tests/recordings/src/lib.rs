//! What rdma-core's programs request of the kernel, call by call, compared with what this library
//! requests.
//!
//! `record-calls` runs any program and records its system calls on RDMA descriptors, with every
//! byte. [`normal`] gives the bytes the names of the kernel's headers, and handles, addresses, keys
//! and cookies the names of the objects they belong to. [`compare`] finds the differences between
//! two recordings, object by object. [`cm`] does the same for commands of the connection manager.

pub mod cm;
pub mod compare;
pub mod decode;
pub mod normal;
pub mod raw;
pub mod shapes;
pub mod tracer;

//! Options: those of UDP are the UDP socket's; sizes, and those of RDMA, this socket's.

use std::ffi::c_int;

use super::super::options::{SOL_RDMA, doubled, of_rdma};
use super::super::settings::Sizes;
use super::super::stream::lock;
use super::local::PLACE;
use super::{Datagram, udp};
use crate::answer::Answer;
use crate::errno::Code;

impl Datagram {
    pub(in super::super) fn set_option(
        &self,
        level: c_int,
        name: c_int,
        value: &[u8],
    ) -> Answer<()> {
        if level == SOL_RDMA {
            if self.service.is_running() {
                return Err(Code::INVALID);
            }
            return lock(&self.options).set_of_rdma(name, value);
        }
        udp::set_option(&self.udp, level, name, value)?;
        let change = |change: fn(Sizes, u32) -> Sizes| {
            let bytes = doubled(value)?;
            if self.state().locals.is_empty() {
                let mut options = lock(&self.options);
                options.sizes = change(options.sizes, bytes);
            }
            Ok(())
        };
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => change(Sizes::with_ring),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => change(Sizes::with_staging),
            _ => Ok(()),
        }
    }

    /// The bytes of an option.
    pub(in super::super) fn option(&self, level: c_int, name: c_int) -> Answer<Vec<u8>> {
        let sizes = lock(&self.options).sizes.of_datagrams(u32::MAX, PLACE);
        let size = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => sizes.ring,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => sizes.staging,
            (SOL_RDMA, _) => return of_rdma(name, sizes),
            _ => return udp::option(&self.udp, level, name),
        };
        Ok(size.to_ne_bytes().to_vec())
    }
}

//! Receiving: the datagrams wait one after the other, wherever they came in.

use std::ffi::c_int;

use super::{Datagram, bytes_of};
use crate::answer::Answer;
use crate::errno::Code;

impl Datagram {
    /// Receives one datagram into the parts, and where it is from; what has no room is lost.
    pub(in super::super) fn receive(
        &self,
        parts: &mut [&mut [u8]],
        flags: c_int,
    ) -> Answer<(usize, Vec<u8>)> {
        if !self.service.is_running() {
            return Err(Code::INVALID);
        }
        let only_looks = flags & libc::MSG_PEEK != 0;
        let (count, source) = self.wait(self.blocks(flags), |state| {
            if state.is_closed {
                return Some(Err(Code::INVALID));
            }
            let taken = state.take(parts, only_looks);
            let is_broken = taken.is_none() && state.is_broken();
            taken
                .map(Ok)
                .or_else(|| is_broken.then_some(Err(Code::new(libc::EIO))))
        })?;
        Ok((count, bytes_of(source)))
    }
}

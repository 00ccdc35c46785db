//! What a queue pair does without giving its memory away: each as on the raw queue pair.

use uverbs_core::types::{Ece, Gid, QpAttr, QpCaps, QpInfo, QpState, QpType};
use uverbs_core::{Error, Op, Result};

use super::QueuePair;
use crate::completion::CqId;
use crate::transport::{Datagrams, Transport};
use crate::{ProtectionDomain, QueuePairEndpoint};

impl<T: Transport> QueuePair<T> {
    /// For what only one vendor's queue pairs have. Nothing is posted through it, and it stays in
    /// its place.
    pub(crate) fn raw_mut(&mut self) -> &mut crate::QueuePair {
        &mut self.owner.qp
    }

    /// The queue key that it was built with.
    pub(crate) fn built_with_qkey(&self) -> u32 {
        self.owner.qp.built_with_qkey()
    }

    /// Its number on the wire, 24 bits.
    #[inline]
    pub fn qp_num(&self) -> u32 {
        self.owner.qp.qp_num()
    }

    /// Its transport.
    pub fn kind(&self) -> QpType {
        self.owner.qp.kind()
    }

    /// Its sizes as granted: at least those requested.
    pub fn caps(&self) -> QpCaps {
        self.owner.qp.caps()
    }

    /// The state it was put into, or last seen in.
    pub fn state(&self) -> QpState {
        self.owner.qp.state()
    }

    /// What a peer needs to know to connect to it.
    pub fn endpoint(&self) -> QueuePairEndpoint {
        self.owner.qp.endpoint()
    }

    /// Where its send completions go.
    pub fn send_cq(&self) -> CqId {
        self.owner.qp.send_cq()
    }

    /// Where its receive completions go.
    pub fn recv_cq(&self) -> CqId {
        self.owner.qp.recv_cq()
    }

    /// The protection domain it belongs to.
    #[inline]
    pub fn pd(&self) -> &ProtectionDomain {
        self.owner.qp.pd()
    }

    /// `ibv_modify_qp`, except for a change to RESET, which is [`reset`](Self::reset).
    ///
    /// # Errors
    /// As [`QueuePair::modify`](crate::QueuePair::modify).
    pub fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        if attr.state == Some(QpState::Reset) {
            return Err(Error::invalid(Op::ModifyQueuePair, "state")
                .hint("use reset, which returns the memory of discarded work"));
        }
        self.owner.qp.modify(attr)
    }

    /// `ibv_query_qp`—what the kernel knows about it.
    ///
    /// # Errors
    /// As [`QueuePair::query`](crate::QueuePair::query).
    pub fn query(&mut self) -> Result<QpInfo> {
        self.owner.qp.query()
    }

    /// `ibv_query_ece`—as [`QueuePair::ece`](crate::QueuePair::ece).
    ///
    /// # Errors
    /// As there.
    pub fn ece(&self) -> Result<Ece> {
        self.owner.qp.ece()
    }

    /// `ibv_set_ece`—as [`QueuePair::set_ece`](crate::QueuePair::set_ece).
    ///
    /// # Errors
    /// As there.
    pub fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        self.owner.qp.set_ece(ece)
    }

    /// Joins a multicast group, like
    /// [`QueuePair::attach_multicast`](crate::QueuePair::attach_multicast).
    ///
    /// # Errors
    /// As there.
    pub fn attach_multicast(&mut self, group: &Gid, lid: u16) -> Result<()>
    where
        T: Datagrams,
    {
        self.owner.qp.attach_multicast(group, lid)
    }

    /// Leaves a multicast group, like
    /// [`QueuePair::detach_multicast`](crate::QueuePair::detach_multicast).
    ///
    /// # Errors
    /// As there.
    pub fn detach_multicast(&mut self, group: &Gid, lid: u16) -> Result<()>
    where
        T: Datagrams,
    {
        self.owner.qp.detach_multicast(group, lid)
    }
}

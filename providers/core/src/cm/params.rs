//! What the two sides of a handshake tell each other.

use uverbs_uapi::rdma_user_cm::{rdma_ucm_conn_param, rdma_ucm_ud_param};

use super::PrivateData;
use crate::cmd::address_of_ah;
use crate::types::AddressVector;

/// `rdma_conn_param`—the parameters of a connection: ours in a command, the peer's in an event.
#[doc(alias = "rdma_conn_param")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ConnectionParams {
    /// Number of the sender's queue pair. On InfiniBand and RoCE the kernel does not look it up;
    /// two connections of a device with the same number are taken for one that is stale.
    pub qp_num: u32,
    /// Queue key of a datagram service; 0 is the default of the port space.
    pub qkey: u32,
    /// Bytes for the peer.
    pub private_data: PrivateData,
    /// Whether the queue pair has a shared receive queue.
    pub srq: bool,
    /// Reads and atomics of the peer that the sender serves at a time. In an event: how many the
    /// receiver is asked to serve.
    pub responder_resources: u8,
    /// Reads and atomics that the sender wants to have outstanding. In an event: how many the
    /// receiver may have.
    pub initiator_depth: u8,
    /// Whether there is flow control from end to end.
    pub flow_control: bool,
    /// How often to retry when no acknowledgement arrives, at most 7.
    pub retry_count: u8,
    /// How often to retry when the peer has no receive posted: at most 7, which is forever.
    pub rnr_retry_count: u8,
}

impl ConnectionParams {
    /// The kernel's struct, which says that it is valid.
    pub(super) fn to_raw(self) -> rdma_ucm_conn_param {
        let (private_data, private_data_len) = self.private_data.parts();
        rdma_ucm_conn_param {
            qp_num: self.qp_num,
            qkey: self.qkey,
            private_data,
            private_data_len,
            srq: self.srq.into(),
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control.into(),
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            valid: 1,
        }
    }

    pub(super) fn from_raw(raw: &rdma_ucm_conn_param) -> Self {
        Self {
            qp_num: raw.qp_num,
            qkey: raw.qkey,
            private_data: PrivateData::from_parts(raw.private_data, raw.private_data_len),
            srq: raw.srq != 0,
            responder_resources: raw.responder_resources,
            initiator_depth: raw.initiator_depth,
            flow_control: raw.flow_control != 0,
            retry_count: raw.retry_count,
            rnr_retry_count: raw.rnr_retry_count,
        }
    }
}

/// `rdma_ud_param`—a datagram peer, or a multicast group, in an event.
#[doc(alias = "rdma_ud_param")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct DatagramParams {
    /// Number of the peer's queue pair; 0xffffff for a group.
    pub qp_num: u32,
    /// Queue key to send with.
    pub qkey: u32,
    /// The path to the peer, for an address handle.
    pub address: AddressVector,
    /// Bytes from the peer.
    pub private_data: PrivateData,
}

impl DatagramParams {
    pub(super) fn from_raw(raw: &rdma_ucm_ud_param) -> Self {
        Self {
            qp_num: raw.qp_num,
            qkey: raw.qkey,
            address: address_of_ah(&raw.ah_attr),
            private_data: PrivateData::from_parts(raw.private_data, raw.private_data_len),
        }
    }
}

//! Where the queues of a queue pair are.

use super::{QueuePair, ReceiveRing, SendRing};
use crate::wqe::Place;

/// Where the queues of a queue pair are; of those that it does not have, nothing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QpPlace {
    /// Its send queue, in blocks of 64 bytes. The second word of the doorbell record is its.
    pub send: Place,
    /// Its receive queue. The first word is its.
    pub recv: Place,
    /// The address of the register that tells the device of sends.
    pub doorbell: u64,
}

impl QueuePair {
    /// `mlx5dv_init_obj` with `MLX5DV_OBJ_QP`—where its queues are.
    #[doc(alias = "mlx5dv_init_obj")]
    pub fn place(&self) -> QpPlace {
        let scattered = self.scattered.as_deref().map(|scattered| &scattered.ring);
        let recv = self.recv.as_ref().or(scattered);
        QpPlace {
            send: self.send.as_ref().map(SendRing::place).unwrap_or_default(),
            recv: recv.map(ReceiveRing::place).unwrap_or_default(),
            doorbell: self.send.as_ref().map_or(0, SendRing::register),
        }
    }
}

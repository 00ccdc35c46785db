//! Where a shared receive queue is.

use super::SharedReceiveQueue;
use crate::wqe::Place;

impl SharedReceiveQueue {
    /// `mlx5dv_init_obj` with `MLX5DV_OBJ_SRQ`—where its requests are. Each names the next one; the
    /// first is 0, and `count` is how many are linked.
    #[doc(alias = "mlx5dv_init_obj")]
    pub fn place(&self) -> Place {
        self.ring.place()
    }
}

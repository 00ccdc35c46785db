//! Where a completion queue is.

use super::CompletionQueue;
use crate::wqe::Place;

/// The offset of the register that arms a queue, in its page.
const ARM: u64 = 0x20;

impl CompletionQueue {
    /// `mlx5dv_init_obj` with `MLX5DV_OBJ_CQ`—where its entries are.
    #[doc(alias = "mlx5dv_init_obj")]
    pub fn place(&self) -> Place {
        let ring = self.consumer.ring();
        Place {
            buffer: ring.units.address(),
            record: self.record.address(),
            count: ring.entries(),
            stride: ring.entry_size(),
        }
    }

    /// The address of the page with the register by which it is armed, at 0x20.
    pub fn arm_page(&self) -> u64 {
        self.arm.address() - ARM
    }
}

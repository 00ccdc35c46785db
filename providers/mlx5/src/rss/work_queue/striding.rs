//! Receive queues whose requests hold several packets, each from a stride on.

use uverbs_core::{Error, Op, Result};
use uverbs_uapi::mlx5_abi::{MLX5_IB_CREATE_WQ_STRIDING_RQ, mlx5_ib_create_wq};

use crate::context::caps::StridingCaps;

/// `mlx5dv_striding_rq_init_attr`—how the memory of a request is divided.
#[doc(alias = "mlx5dv_striding_rq_init_attr")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Striding {
    /// log₂ of the bytes of a stride.
    pub log_bytes: u32,
    /// log₂ of the strides of a request.
    pub log_strides: u32,
    /// Packets begin two bytes after the start of a stride (`two_byte_shift_en`).
    pub shifts_two_bytes: bool,
}

impl Striding {
    /// Refuses what the device does not have.
    pub(super) fn check(self, op: Op, caps: &StridingCaps) -> Result<()> {
        for (what, requested, min, max) in [
            (
                "single_stride_log_num_of_bytes",
                self.log_bytes,
                caps.min_log_bytes,
                caps.max_log_bytes,
            ),
            (
                "single_wqe_log_num_of_strides",
                self.log_strides,
                caps.min_log_strides,
                caps.max_log_strides,
            ),
        ] {
            if !(min..=max).contains(&requested) {
                return Err(Error::invalid(op, what)
                    .fact("requested", requested)
                    .fact("min", min)
                    .fact("max", max));
            }
        }
        Ok(())
    }

    pub(super) fn encode(self, driver_data: &mut mlx5_ib_create_wq) {
        driver_data.comp_mask |= MLX5_IB_CREATE_WQ_STRIDING_RQ;
        driver_data.single_stride_log_num_of_bytes = self.log_bytes;
        driver_data.single_wqe_log_num_of_strides = self.log_strides;
        driver_data.two_byte_shift_en = self.shifts_two_bytes.into();
    }
}

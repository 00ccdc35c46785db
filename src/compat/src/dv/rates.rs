//! Send rates, and the device's clock.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_any::Of;
use uverbs_mlx5::QueuePair;
use uverbs_mlx5::pacing::RateLimit;

use super::abi::mlx5dv_clock_info;
use super::own;
use crate::abi::{ibv_qp_rate_limit_attr, ibv_values_ex};
use crate::answer::number;
use crate::context::Context;
use crate::errno::Code;
use crate::pointer::{Handle, In, Out};
use crate::qp::Qp;

/// The slot.
pub(crate) extern "C" fn modify_qp_rate_limit(
    qp: Handle<Qp>,
    attr: In<ibv_qp_rate_limit_attr>,
) -> c_int {
    number(|| {
        let attr = attr.get()?;
        if attr.comp_mask != 0 {
            return Err(Code::INVALID);
        }
        let pair = qp.get()?;
        let caps = own(pair.context()?)?.caps().pacing;
        let limit = RateLimit::kbps(attr.rate_limit)
            .max_burst(attr.max_burst_sz)
            .typical_packet(attr.typical_pkt_sz);
        pair.queue.with(|queue| {
            let queue: Option<&QueuePair> = queue.of();
            let queue = queue.ok_or(Code::UNSUPPORTED)?;
            Ok(queue.set_rate_limit(&caps, &limit)?)
        })
    })
}

/// `IBV_VALUES_MASK_RAW_CLOCK`.
const RAW_CLOCK: u32 = 1;

/// The slot. The count of the clock is in the field of nanoseconds, as in rdma-core.
pub(crate) extern "C" fn query_rt_values(
    context: Handle<Context>,
    values: Out<ibv_values_ex>,
) -> c_int {
    number(|| {
        let values = values.get()?;
        if values.comp_mask & !RAW_CLOCK != 0 {
            return Err(Code::INVALID);
        }
        if values.comp_mask & RAW_CLOCK != 0 {
            let count = own(context.get()?)?.clock()?.count()?;
            values.raw_clock = [0, count.cast_signed()];
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_get_clock_info(
    context: Handle<Context>,
    into: Out<mlx5dv_clock_info>,
) -> c_int {
    number(|| {
        let now = own(context.get()?)?.clock()?.info()?;
        into.put(mlx5dv_clock_info {
            nsec: now.nanoseconds,
            last_cycles: now.last_cycles,
            frac: now.fraction,
            mult: now.multiplier,
            shift: now.shift,
            mask: now.mask,
        })
    })
}

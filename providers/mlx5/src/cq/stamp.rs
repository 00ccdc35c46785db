//! Timestamps of completions, from what the device writes in their entries.

use uverbs_core::types::{CqCreateFlags, Timestamps};
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_uapi::mlx5_abi::MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;

use crate::context::Context;
use crate::context::clock::{Clock, ClockInfo, of_day};

/// The kind of timestamps of a completion queue.
#[derive(Debug)]
pub(crate) enum Stamps {
    /// Not requested.
    None,
    /// Counts of the clock.
    Raw,
    /// The time of day, converted from counts with the kernel's last parameters.
    Converted(Box<(Clock, ClockInfo)>),
    /// The time of day, kept by the device.
    RealTime,
}

impl Stamps {
    pub(crate) fn new(context: &Context, requested: Timestamps) -> Result<Self> {
        let op = Op::CreateCompletionQueue;
        if requested != Timestamps::None && context.device().completion_timestamp_mask == 0 {
            return Err(Error::new(op, ErrorKind::Unsupported).hint("the device has no clock"));
        }
        Ok(match requested {
            Timestamps::None => Self::None,
            Timestamps::Raw => Self::Raw,
            Timestamps::WallClock if context.config().clock.real_time => Self::RealTime,
            Timestamps::WallClock => {
                let clock = context.clock()?;
                let info = clock.info()?;
                Self::Converted(Box::new((clock, info)))
            }
        })
    }

    /// The flags of the queue's creation, which all drivers have.
    pub(crate) fn flags(&self) -> CqCreateFlags {
        match self {
            Self::None => CqCreateFlags::empty(),
            _ => CqCreateFlags::TIMESTAMP_COMPLETION,
        }
    }

    /// The flags of the queue's creation in the driver data.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a flag of a word of 16 bits"
    )]
    pub(crate) fn driver_flags(&self) -> u16 {
        match self {
            Self::RealTime => MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS as u16,
            _ => 0,
        }
    }

    /// The time of an entry's timestamp.
    pub(crate) fn of(&mut self, stamp: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Raw => Some(stamp),
            Self::RealTime => Some(of_day(stamp)),
            Self::Converted(converted) => {
                let (clock, info) = &mut **converted;
                // The previous conversion is still valid, only without the clock settings since
                // then.
                *info = clock.info().unwrap_or(*info);
                Some(info.to_nanoseconds(stamp))
            }
        }
    }
}

//! What completions are stamped with, made of what the device writes into their entries.

use uverbs_core::types::{CqCreateFlags, Timestamps};
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_uapi::mlx5_abi::MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;

use crate::context::Context;
use crate::context::clock::{Clock, ClockInfo, of_day};

/// What the stamps of a completion queue are.
#[derive(Debug)]
pub(crate) enum Stamps {
    /// Not asked for.
    None,
    /// Counts of the clock.
    Raw,
    /// The time of day, made of counts as the kernel said last.
    Converted(Box<(Clock, ClockInfo)>),
    /// The time of day, which the device keeps itself.
    RealTime,
}

impl Stamps {
    pub(crate) fn new(context: &Context, asked: Timestamps) -> Result<Self> {
        let op = Op::CreateCompletionQueue;
        if asked != Timestamps::None && context.device().completion_timestamp_mask == 0 {
            return Err(Error::new(op, ErrorKind::Unsupported).hint("the device has no clock"));
        }
        Ok(match asked {
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

    /// What the creation of the queue says about it to every driver.
    pub(crate) fn flags(&self) -> CqCreateFlags {
        match self {
            Self::None => CqCreateFlags::empty(),
            _ => CqCreateFlags::TIMESTAMP_COMPLETION,
        }
    }

    /// What it says to this driver.
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

    /// What an entry's stamp means.
    pub(crate) fn of(&mut self, stamp: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Raw => Some(stamp),
            Self::RealTime => Some(of_day(stamp)),
            Self::Converted(converted) => {
                let (clock, info) = &mut **converted;
                // What it said last is right, too, only not as the clock has been set since.
                *info = clock.info().unwrap_or(*info);
                Some(info.to_nanoseconds(stamp))
            }
        }
    }
}

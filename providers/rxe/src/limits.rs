//! Refuses what the device said it cannot do, before the kernel is asked and logs a warning.

use uverbs_driver::{Error, Op, Result};

/// `asked` of `what` is at most `max`.
pub(crate) fn at_most(op: Op, what: &'static str, asked: u32, max: u32) -> Result<()> {
    if asked > max {
        return Err(Error::limit(op, what, asked.into(), max.into()));
    }
    Ok(())
}

/// `asked` of `what` is at least 1 and at most `max`.
pub(crate) fn some_at_most(op: Op, what: &'static str, asked: u32, max: u32) -> Result<()> {
    if asked == 0 {
        return Err(Error::invalid(op, what).fact("min", 1_u32));
    }
    at_most(op, what, asked, max)
}

//! Refuses what exceeds the device's reported limits, before the kernel would refuse it and log a
//! warning.

use uverbs_core::types::{AccessFlags, QpAttr, QpState, QpType, diagnose};
use uverbs_core::{Error, ErrorKind, Op, Result, cmd};

/// Checks that `requested`, the value requested for `what`, is at least 1 and at most `max`.
pub(crate) fn some_at_most(op: Op, what: &'static str, requested: u32, max: u32) -> Result<()> {
    if requested == 0 {
        return Err(Error::invalid(op, what).fact("min", 1_u32));
    }
    Error::at_most(op, what, requested, max)
}

/// Checks the access rights of a memory region: the kernel knows all of them, rxe does not.
pub(crate) fn access(op: Op, access: AccessFlags) -> Result<()> {
    let never = AccessFlags::ZERO_BASED | AccessFlags::HUGETLB;
    if access.intersects(never) {
        return Err(Error::new(op, ErrorKind::Unsupported).fact("access", access.to_string()));
    }
    Ok(())
}

/// `RXE_ACCESS_SUPPORTED_QP`: local and remote access, windows, on-demand paging, flushes, and the
/// optional bits 20 to 29.
const QP_ACCESS: AccessFlags = AccessFlags::from_bits_retain(0x3ff0_035f);

/// Checks a modify of a queue pair of type `kind` whose last known state is `from`.
///
/// The kernel may have moved the queue pair to an error state, in which it accepts no modifies that
/// it would not accept in the state before. So nothing is refused here that the kernel would
/// accept.
pub(crate) fn modify(kind: QpType, from: QpState, attr: &QpAttr, max_rd_atomic: u32) -> Result<()> {
    let op = Op::ModifyQueuePair;
    cmd::qp::check(attr)?;
    let from = attr.cur_state.unwrap_or(from);
    let to = attr.state.unwrap_or(from);
    if let Some(diagnosis) = diagnose(from, to, kind, attr.mask()) {
        return Err(Error::new(op, ErrorKind::InvalidInput)
            .fact("from", from.to_string())
            .fact("to", to.to_string())
            .fact("reason", diagnosis.to_string()));
    }
    if let Some(count) = attr.max_rd_atomic {
        Error::at_most(op, "max_rd_atomic", count, max_rd_atomic)?;
    }
    if let Some(flags) = attr.access {
        access(op, flags)?;
        if !QP_ACCESS.contains(flags) {
            return Err(Error::invalid(op, "access").fact("access", flags.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_rxe_cannot_be_set_to_is_refused() {
        let change = |attr| modify(QpType::Rc, QpState::ReadyToSend, &attr, 4);
        change(QpAttr::to(QpState::Error)).unwrap();
        let skipped = change(QpAttr::to(QpState::Init)).unwrap_err();
        let many = change(QpAttr::new().max_rd_atomic(5)).unwrap_err();
        let rights = QpAttr::new().access(AccessFlags::HUGETLB);
        for error in [skipped, many, change(rights).unwrap_err()] {
            assert_eq!(error.op(), Op::ModifyQueuePair, "{error}");
        }
    }
}

//! Changes and queries of a queue pair's state.

use std::sync::Arc;

use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{QpAttr, QpAttrMask, QpInfo, QpState, QpType, diagnose};
use uverbs_core::{Error, ErrorKind, Op, Result, cmd};
use uverbs_uapi::mlx5_abi::{mlx5_ib_modify_qp, mlx5_ib_modify_qp_resp};
use zerocopy::IntoBytes;

use super::{QueuePair, Role};
use crate::cqe::CqShared;
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::{DeviceNumber, Owner};

/// The end of a target's number in the reply.
const DCTN_END: usize = std::mem::offset_of!(mlx5_ib_modify_qp_resp, dctn) + 4;

impl QueuePair {
    pub(super) fn change(&mut self, attr: &QpAttr) -> Result<()> {
        let op = Op::ModifyQueuePair;
        // A child process has no mapping of the rings.
        self.base.object.file().check_process(op)?;
        self.check(attr)?;
        if attr.state == Some(QpState::Reset) {
            return self.start_over(attr);
        }
        self.issue(attr)?;
        if let Some(state) = attr.state {
            self.entered(state);
            if state == QpState::Init
                && let Some(tell) = self.rare.as_ref().and_then(|rare| rare.tell)
            {
                return tell(self);
            }
        }
        Ok(())
    }

    /// Resets it. The device and the rings start over together; otherwise posting is refused, and
    /// so is any transition out of RESET: the device would carry out the requests in the rings
    /// again.
    fn start_over(&mut self, attr: &QpAttr) -> Result<()> {
        let was = self.base.reset_unconfirmed;
        self.drift();
        if let Err(error) = self.issue(attr) {
            // For a raw packet queue pair the kernel resets one queue after the other.
            if !error.outcome_is_unknown() && self.base.kind != QpType::RawPacket {
                self.base.reset_unconfirmed = was;
                self.set_ready();
            }
            return Err(error);
        }
        self.base.reset_unconfirmed = false;
        self.entered(QpState::Reset);
        Ok(())
    }

    /// Issues the command.
    fn issue(&mut self, attr: &QpAttr) -> Result<()> {
        let op = Op::ModifyQueuePair;
        let file = self.base.object.file();
        let handle = self.base.object.handle();
        // A target is created when it becomes ready to receive: its number is in the reply.
        let target = self.role == Role::Target;
        let ece_options = self.ece.requested();
        if target || ece_options != 0 || attr.mask().needs_extended() {
            let request = mlx5_ib_modify_qp {
                ece_options,
                ..mlx5_ib_modify_qp::default()
            };
            let mut reply = mlx5_ib_modify_qp_resp::default();
            // Messages may arrive before its number is known here.
            let unnumbered = self.rare.as_ref().and_then(|rare| rare.unnumbered.as_ref());
            let since = unnumbered.map(|_| self.reports.produced());
            let uhw = Uhw::new(request.as_bytes(), cells(&mut reply));
            cmd::qp::modify(file, handle, attr, &uhw)?;
            // The kernel stores a target's options until the device creates it.
            if !target || attr.state == Some(QpState::ReadyToReceive) {
                self.ece.answered(&reply);
            }
            if target && attr.state == Some(QpState::ReadyToReceive) {
                if (reply.response_length as usize) < DCTN_END {
                    // It exists nevertheless.
                    self.entered(QpState::ReadyToReceive);
                    return Err(Error::bad_reply(op, "number of the target"));
                }
                self.base.number = reply.dctn;
                self.tracker.set_number(reply.dctn);
                let rare = self.rare.as_mut();
                let unnumbered = rare.and_then(|rare| rare.unnumbered.take());
                if let Some((trackers, since)) = unnumbered.zip(since) {
                    let reports = self.reports.clone();
                    let number = DeviceNumber::QueuePair(reply.dctn);
                    let owner = Owner::QueuePair(Arc::clone(&self.tracker));
                    let registered =
                        Registered::by_device_since(op, &trackers, number, owner, reports, since)?;
                    self.base.object.keep(registered);
                }
            }
        } else {
            cmd::qp::modify(file, handle, attr, &Uhw::NONE)?;
        }
        Ok(())
    }

    /// Refuses what no kernel accepts. The device moves queue pairs to an error state on its own,
    /// which allows no more transitions than the state before; so nothing is refused that the
    /// device would accept.
    fn check(&self, attr: &QpAttr) -> Result<()> {
        let op = Op::ModifyQueuePair;
        cmd::qp::check(attr)?;
        if self.base.reset_unconfirmed && attr.state != Some(QpState::Reset) {
            return Err(Error::new(op, ErrorKind::InvalidState)
                .fact("state", "unknown: a reset failed")
                .hint("reset or destroy the queue pair"));
        }
        let from = attr.cur_state.unwrap_or(self.base.state);
        let to = attr.state.unwrap_or(from);
        if let Some(diagnosis) = diagnose(from, to, self.base.kind, attr.mask()) {
            return Err(Error::new(op, ErrorKind::InvalidInput)
                .fact("from", from.to_string())
                .fact("to", to.to_string())
                .fact("reason", diagnosis.to_string()));
        }
        let requested = attr.max_rd_atomic.unwrap_or(0);
        Error::at_most(op, "max_rd_atomic", requested, self.base.max_rd_atomic)
    }

    /// Records that the kernel moved the queue pair to `state`.
    pub(super) fn entered(&mut self, state: QpState) {
        self.base.state = state;
        if state == QpState::Reset {
            self.ece.restart();
            self.restart();
        }
        self.set_ready();
    }

    /// Records that the device may have started over.
    fn drift(&mut self) {
        self.base.reset_unconfirmed = true;
        self.set_ready();
    }

    /// Accepts requests in the states that allow them.
    fn set_ready(&mut self) {
        let (state, reset_unconfirmed) = (self.base.state, self.base.reset_unconfirmed);
        let sends = matches!(
            state,
            QpState::ReadyToSend
                | QpState::SendQueueDrained
                | QpState::SendQueueError
                | QpState::Error
        );
        if let Some(send) = self.send.as_mut() {
            send.set_ready(sends && !reset_unconfirmed);
        }
        let raw = self.base.kind == QpType::RawPacket;
        if let Some(recv) = self.any_receive_ring() {
            recv.set_ready(state != QpState::Reset && !reset_unconfirmed);
            if raw {
                // Its receive queue runs from INIT on, but nothing may be received before RTR.
                recv.hold(matches!(state, QpState::Reset | QpState::Init));
            }
        }
    }

    /// Forgets the requests that the reset discarded, and their completions.
    fn restart(&mut self) {
        let produced =
            |queue: &Option<Arc<CqShared>>| queue.as_ref().map_or(0, |queue| queue.produced());
        let Reports { sends, receives } = &self.reports;
        self.tracker.restart(produced(sends), produced(receives));
        if let Some(send) = self.send.as_mut() {
            send.reset();
        }
        if let Some(recv) = self.any_receive_ring() {
            recv.reset();
        }
    }

    pub(super) fn query_attr(&mut self, mask: QpAttrMask) -> Result<QpInfo> {
        let mut info = cmd::qp::query(self.base.object.file(), self.base.object.handle(), mask)?;
        info.caps = self.base.caps;
        if info.state != self.base.state {
            if info.state == QpState::Reset {
                // The reset did not happen here.
                self.base.state = info.state;
                self.drift();
            } else {
                self.entered(info.state);
            }
        }
        Ok(info)
    }
}

//! The command that modifies queue pairs.

use connectx::driver::{Attributes, Transition};
use uverbs::attr::QpAttrMask;
use uverbs::{QpState, QpType};
use uverbs_core::Errno;
use uverbs_core::types::is_legal;
use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_ACCESS_REMOTE_ATOMIC, IB_UVERBS_ACCESS_REMOTE_READ, IB_UVERBS_ACCESS_REMOTE_WRITE,
};
use uverbs_uapi::ib_user_verbs::ib_uverbs_modify_qp;

use super::{Card, Kind, Object, State};

const RESET: u8 = 0;
const INIT: u8 = 1;
const RTR: u8 = 2;
const RTS: u8 = 3;
const SQE: u8 = 5;
const ERR: u8 = 6;
/// The device's value for [`SQE`].
const SEND_ERROR: u8 = 4;

impl State {
    /// The state of a queue pair. Failures change it without a command.
    pub(super) fn state_of(&mut self, handle: u32) -> Result<u8, Errno> {
        match self.objects.get(&handle) {
            Some(Object {
                kind: Kind::Qp { .. },
                number,
                ..
            }) => match self.function.state(*number) {
                Ok(SEND_ERROR) => Ok(SQE),
                Ok(state) => Ok(state),
                Err(_) => Err(Errno::INVAL),
            },
            _ => Err(Errno::NOENT),
        }
    }
}

impl Card {
    /// Checks as the core does, then as the driver does: a transition that is in no table never
    /// reaches the device.
    pub(super) fn modify_qp(&self, request: &ib_uverbs_modify_qp) -> Result<(), Errno> {
        let mut locked = self.lock();
        let state = &mut *locked;
        let known = state.state_of(request.qp_handle)?;
        let Some(Object {
            kind: Kind::Qp { service, .. },
            number,
            ..
        }) = state.objects.get(&request.qp_handle)
        else {
            return Err(Errno::NOENT);
        };
        let mask = QpAttrMask::from_bits_retain(request.attr_mask);
        let from = match mask.contains(QpAttrMask::CUR_STATE) {
            true => request.cur_qp_state,
            false => known,
        };
        let to = match mask.contains(QpAttrMask::STATE) {
            true => request.qp_state,
            false => from,
        };
        let kind = [QpType::Rc, QpType::Uc, QpType::Ud][*service as usize % 3];
        if from > ERR || to > ERR || from != known {
            return Err(Errno::INVAL);
        }
        let (from_state, to_state) = (QpState::from_raw(from), QpState::from_raw(to));
        if !is_legal(from_state, to_state, kind, mask) {
            return Err(Errno::INVAL);
        }
        let transition = match (from, to) {
            (_, RESET) => Transition::ToReset,
            (_, ERR) => Transition::ToError,
            (RESET, INIT) => Transition::ToInit,
            (INIT, INIT) => Transition::InInit,
            (INIT, RTR) => Transition::ToReceive,
            (RTR, RTS) => Transition::ToSend,
            (RTS, RTS) => Transition::InSend,
            (SQE, RTS) => Transition::Recover,
            _ => return Err(Errno::INVAL),
        };
        let has = |bit: u32| request.qp_access_flags & bit != 0;
        let attributes = Attributes {
            access: mask.contains(QpAttrMask::ACCESS_FLAGS).then(|| {
                [
                    has(IB_UVERBS_ACCESS_REMOTE_READ),
                    has(IB_UVERBS_ACCESS_REMOTE_WRITE),
                    has(IB_UVERBS_ACCESS_REMOTE_ATOMIC),
                ]
            }),
            qkey: request.qkey,
            lid: request.dest.dlid,
            remote_qpn: request.dest_qp_num,
            recv_psn: request.rq_psn,
            send_psn: request.sq_psn,
            min_rnr_timer: request.min_rnr_timer,
            timeout: request.timeout,
            retry_count: request.retry_cnt,
            rnr_retry: request.rnr_retry,
        };
        let changed = state.function.modify_qp(*number, transition, &attributes);
        changed.map_err(|_| Errno::INVAL)
    }
}

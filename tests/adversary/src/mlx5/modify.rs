//! The command that changes queue pairs.

use connectx::driver::{Attributes, Transition};
use uverbs::{QpAttrMask, QpState, QpType};
use uverbs_driver::Errno;
use uverbs_driver::types::is_legal;
use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_ACCESS_REMOTE_ATOMIC, IB_UVERBS_ACCESS_REMOTE_READ, IB_UVERBS_ACCESS_REMOTE_WRITE,
};
use uverbs_uapi::ib_user_verbs::ib_uverbs_modify_qp;

use super::{Card, Kind, Object};

const RESET: u8 = 0;
const INIT: u8 = 1;
const RTR: u8 = 2;
const RTS: u8 = 3;
const SQE: u8 = 5;
const ERR: u8 = 6;

impl Card {
    /// As the core checks it, then the driver: a change that no table has reaches no device.
    pub(super) fn modify_qp(&self, asked: &ib_uverbs_modify_qp) -> Result<(), Errno> {
        let mut locked = self.lock();
        let state = &mut *locked;
        let Some(Object {
            kind: Kind::Qp {
                service,
                state: known,
            },
            number,
            ..
        }) = state.objects.get_mut(&asked.qp_handle)
        else {
            return Err(Errno::NOENT);
        };
        // Failures change the state without anybody asking.
        if let Ok(now) = state.function.state(*number) {
            *known = match now {
                4 => SQE,
                other => other,
            };
        }
        let mask = QpAttrMask::from_bits_retain(asked.attr_mask);
        let from = match mask.contains(QpAttrMask::CUR_STATE) {
            true => asked.cur_qp_state,
            false => *known,
        };
        let to = match mask.contains(QpAttrMask::STATE) {
            true => asked.qp_state,
            false => from,
        };
        let kind = [QpType::Rc, QpType::Uc, QpType::Ud][*service as usize % 3];
        if from > ERR || to > ERR || from != *known {
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
        let has = |bit: u32| asked.qp_access_flags & bit != 0;
        let attributes = Attributes {
            access: mask.contains(QpAttrMask::ACCESS_FLAGS).then(|| {
                [
                    has(IB_UVERBS_ACCESS_REMOTE_READ),
                    has(IB_UVERBS_ACCESS_REMOTE_WRITE),
                    has(IB_UVERBS_ACCESS_REMOTE_ATOMIC),
                ]
            }),
            qkey: asked.qkey,
            lid: asked.dest.dlid,
            remote_qpn: asked.dest_qp_num,
            recv_psn: asked.rq_psn,
            send_psn: asked.sq_psn,
            min_rnr_timer: asked.min_rnr_timer,
            timeout: asked.timeout,
            retry_count: asked.retry_cnt,
            rnr_retry: asked.rnr_retry,
        };
        let changed = state.function.modify_qp(*number, transition, &attributes);
        changed.map_err(|_| Errno::INVAL)?;
        *known = to;
        Ok(())
    }
}

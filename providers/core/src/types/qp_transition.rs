//! Which modifies of a queue pair are legal, and what is wrong with one that is not.
//!
//! The rules are those of IBTA volume 1 as the kernel checks them in `ib_modify_qp_is_ok`
//! (`drivers/infiniband/core/verbs.c`) and, before it, in the modify command (`uverbs_cmd.c`). They
//! explain an error after the kernel has returned it; the kernel decides. A driver may require more
//! than this table says, and the table does not cover driver queue pairs.

use std::fmt;

use super::{QpAttrMask as M, QpState, QpType};
use QpState::{
    Error, Init, ReadyToReceive as Rtr, ReadyToSend as Rts, Reset, SendQueueDrained as Sqd,
    SendQueueError as Sqe,
};

/// The attributes of a transition besides the state itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Requirement {
    /// Attributes that must be set.
    pub required: M,
    /// Attributes that may be set.
    pub optional: M,
}

/// Why a modify is refused.
///
/// `Display` describes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// State before.
    pub from: QpState,
    /// Requested state.
    pub to: QpState,
    /// Whether there is such a transition at all; if not, both masks are empty.
    pub possible: bool,
    /// Attributes that must be set and are not.
    pub missing: M,
    /// Attributes that are set and must not be.
    pub not_allowed: M,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.possible {
            return write!(f, "no transition leads from {} to {}", self.from, self.to);
        }
        write!(f, "from {} to {}", self.from, self.to)?;
        if !self.missing.is_empty() {
            write!(f, ", missing: {}", self.missing)?;
        }
        if !self.not_allowed.is_empty() {
            write!(f, ", not allowed: {}", self.not_allowed)?;
        }
        Ok(())
    }
}

/// Whether the kernel's table accepts this modify; also true where the table does not apply (see
/// [`diagnose`]).
pub fn is_legal(cur: QpState, next: QpState, qp_type: QpType, mask: M) -> bool {
    diagnose(cur, next, qp_type, mask).is_none()
}

/// What is wrong with a modify from `cur` to `next` that sets `mask`; `None` if it is legal, or if
/// the table does not cover the type or the current state. A move to a state without a name is
/// never legal.
///
/// If the modify sets no state, `next` is `cur`. Attributes that the kernel drops for XRC queue
/// pairs are ignored. An address vector outside a move to RTR also sets the port, since the kernel
/// adds it; where that is not allowed, the address vector is reported.
pub fn diagnose(cur: QpState, next: QpState, qp_type: QpType, mask: M) -> Option<Diagnosis> {
    let impossible = Diagnosis {
        from: cur,
        to: next,
        possible: false,
        missing: M::empty(),
        not_allowed: M::empty(),
    };
    if mask.contains(M::STATE) && !is_named(next) {
        return Some(impossible);
    }
    if !is_covered(cur, qp_type) {
        return None;
    }
    let Some(Requirement { required, optional }) = requirement(cur, next, qp_type) else {
        return Some(impossible);
    };
    let set = mask.difference(ignored(qp_type));
    let mut allowed = required | optional | M::STATE | M::RATE_LIMIT;
    if !matches!(cur, Rtr | Rts | Sqd | Sqe) {
        allowed.remove(M::CUR_STATE);
    }
    if next != Rtr && !allowed.contains(M::PORT) {
        allowed.remove(M::AV);
    }
    let missing = required.difference(set);
    let not_allowed = set.difference(allowed);
    let fine = missing.is_empty() && not_allowed.is_empty();
    (!fine).then_some(Diagnosis {
        from: cur,
        to: next,
        possible: true,
        missing,
        not_allowed,
    })
}

/// The attributes of a transition; `None` if there is no such transition, or if the table does not
/// cover the type or a state.
///
/// Every transition may also set the state, and a rate limit (kernel 6.1 and older: only raw packet
/// queue pairs that move to RTS or stay there).
pub fn requirement(cur: QpState, next: QpState, qp_type: QpType) -> Option<Requirement> {
    if !is_covered(cur, qp_type) || !POSSIBLE.contains(&(cur, next)) {
        return None;
    }
    let row = ROWS
        .iter()
        .find(|row| (row.from, row.to) == (cur, next) && row.types.contains(&qp_type));
    Some(
        row.map(|row| Requirement {
            required: row.required,
            optional: row.optional,
        })
        .unwrap_or_default(),
    )
}

/// Whether the table covers such queue pairs in such a state, which may be one that a newer kernel
/// reported.
fn is_covered(cur: QpState, qp_type: QpType) -> bool {
    is_named(cur) && !matches!(qp_type, QpType::Driver | QpType::Unknown(_))
}

const fn is_named(state: QpState) -> bool {
    !matches!(state, QpState::Unknown(_))
}

/// Attributes that the modify command drops before it checks the rest.
const fn ignored(qp_type: QpType) -> M {
    match qp_type {
        QpType::XrcInitiator => M::MAX_DEST_RD_ATOMIC.union(M::MIN_RNR_TIMER),
        QpType::XrcTarget => M::MAX_QP_RD_ATOMIC.union(M::RETRY_CNT).union(M::RNR_RETRY),
        _ => M::empty(),
    }
}

/// All transitions, for any type.
const POSSIBLE: &[(QpState, QpState)] = &[
    (Reset, Reset),
    (Reset, Init),
    (Init, Reset),
    (Init, Init),
    (Init, Rtr),
    (Init, Error),
    (Rtr, Reset),
    (Rtr, Rts),
    (Rtr, Error),
    (Rts, Reset),
    (Rts, Rts),
    (Rts, Sqd),
    (Rts, Error),
    (Sqd, Reset),
    (Sqd, Rts),
    (Sqd, Sqd),
    (Sqd, Error),
    (Sqe, Reset),
    (Sqe, Rts),
    (Sqe, Error),
    (Error, Reset),
    (Error, Error),
];

struct Row {
    from: QpState,
    to: QpState,
    types: &'static [QpType],
    required: M,
    optional: M,
}

const fn row(
    from: QpState,
    to: QpState,
    types: &'static [QpType],
    required: &[M],
    optional: &[M],
) -> Row {
    Row {
        from,
        to,
        types,
        required: all(required),
        optional: all(optional),
    }
}

const fn all(bits: &[M]) -> M {
    let mut mask = M::empty();
    let mut i = 0;
    while i < bits.len() {
        mask = mask.union(bits[i]);
        i += 1;
    }
    mask
}

const UD: &[QpType] = &[QpType::Ud];
const UC: &[QpType] = &[QpType::Uc];
const RC: &[QpType] = &[QpType::Rc];
const RAW: &[QpType] = &[QpType::RawPacket];
const INI: &[QpType] = &[QpType::XrcInitiator];
const TGT: &[QpType] = &[QpType::XrcTarget];
const UC_INI: &[QpType] = &[QpType::Uc, QpType::XrcInitiator];
const RC_TGT: &[QpType] = &[QpType::Rc, QpType::XrcTarget];
const CONNECTED: &[QpType] = &[
    QpType::Rc,
    QpType::Uc,
    QpType::XrcInitiator,
    QpType::XrcTarget,
];
const NOT_RAW: &[QpType] = &[
    QpType::Rc,
    QpType::Uc,
    QpType::Ud,
    QpType::XrcInitiator,
    QpType::XrcTarget,
];

const ENTER_CONNECTED: &[M] = &[M::PKEY_INDEX, M::PORT, M::ACCESS_FLAGS];
const ENTER_DATAGRAM: &[M] = &[M::PKEY_INDEX, M::PORT, M::QKEY];
const TUNE_CONNECTED: &[M] = &[
    M::CUR_STATE,
    M::ALT_PATH,
    M::ACCESS_FLAGS,
    M::PATH_MIG_STATE,
];
const TUNE_RESPONDER: &[M] = &[
    M::CUR_STATE,
    M::ALT_PATH,
    M::ACCESS_FLAGS,
    M::PATH_MIG_STATE,
    M::MIN_RNR_TIMER,
];
const TUNE_DATAGRAM: &[M] = &[M::CUR_STATE, M::QKEY];
const TO_RTR: &[M] = &[M::ALT_PATH, M::ACCESS_FLAGS, M::PKEY_INDEX];
const PATH: &[M] = &[
    M::AV,
    M::ALT_PATH,
    M::ACCESS_FLAGS,
    M::PKEY_INDEX,
    M::PATH_MIG_STATE,
];
const PATH_RELIABLE: M = all(PATH).union(M::PORT).union(M::TIMEOUT);
const INITIATOR: M = M::RETRY_CNT.union(M::RNR_RETRY).union(M::MAX_QP_RD_ATOMIC);
const RESPONDER: M = M::MAX_DEST_RD_ATOMIC.union(M::MIN_RNR_TIMER);

/// A type without a row for a possible transition neither requires nor allows attributes there.
const ROWS: &[Row] = &[
    row(Reset, Init, CONNECTED, ENTER_CONNECTED, &[]),
    row(Reset, Init, UD, ENTER_DATAGRAM, &[]),
    row(Reset, Init, RAW, &[M::PORT], &[]),
    row(Init, Init, CONNECTED, &[], ENTER_CONNECTED),
    row(Init, Init, UD, &[], ENTER_DATAGRAM),
    row(
        Init,
        Rtr,
        UC_INI,
        &[M::AV, M::PATH_MTU, M::DEST_QPN, M::RQ_PSN],
        TO_RTR,
    ),
    row(
        Init,
        Rtr,
        RC_TGT,
        &[M::AV, M::PATH_MTU, M::DEST_QPN, M::RQ_PSN, RESPONDER],
        TO_RTR,
    ),
    row(Init, Rtr, UD, &[], &[M::PKEY_INDEX, M::QKEY]),
    row(Rtr, Rts, UD, &[M::SQ_PSN], TUNE_DATAGRAM),
    row(Rtr, Rts, UC, &[M::SQ_PSN], TUNE_CONNECTED),
    row(
        Rtr,
        Rts,
        RC,
        &[M::TIMEOUT, M::SQ_PSN, INITIATOR],
        TUNE_RESPONDER,
    ),
    row(
        Rtr,
        Rts,
        INI,
        &[M::TIMEOUT, M::SQ_PSN, INITIATOR],
        TUNE_CONNECTED,
    ),
    row(Rtr, Rts, TGT, &[M::TIMEOUT, M::SQ_PSN], TUNE_RESPONDER),
    row(Rts, Rts, UD, &[], TUNE_DATAGRAM),
    row(Rts, Rts, UC_INI, &[], TUNE_CONNECTED),
    row(Rts, Rts, RC_TGT, &[], TUNE_RESPONDER),
    row(Rts, Sqd, NOT_RAW, &[], &[M::EN_SQD_ASYNC_NOTIFY]),
    row(Sqd, Rts, UD, &[], TUNE_DATAGRAM),
    row(Sqd, Rts, UC_INI, &[], TUNE_CONNECTED),
    row(Sqd, Rts, RC_TGT, &[], TUNE_RESPONDER),
    row(Sqd, Sqd, UD, &[], &[M::PKEY_INDEX, M::QKEY]),
    row(Sqd, Sqd, UC, &[], PATH),
    row(Sqd, Sqd, RC, &[], &[PATH_RELIABLE, INITIATOR, RESPONDER]),
    row(Sqd, Sqd, INI, &[], &[PATH_RELIABLE, INITIATOR]),
    row(Sqd, Sqd, TGT, &[], &[PATH_RELIABLE, RESPONDER]),
    row(Sqe, Rts, UD, &[], TUNE_DATAGRAM),
    row(Sqe, Rts, UC, &[], &[M::CUR_STATE, M::ACCESS_FLAGS]),
];

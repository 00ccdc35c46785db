//! `modify_qp`: the legal transitions, and the attributes that they need (`ib_modify_qp_is_ok`).

use uverbs_uapi::ib_user_verbs::ib_uverbs_modify_qp;

use crate::device::{self, MAX_READS};
use crate::engine;
use crate::files::FileId;
use crate::qp::{Qp, Transport, qps};
use crate::state::{Kind, State};
use uverbs_core::error::Errno;

const STATE: u32 = 1;
const CUR_STATE: u32 = 1 << 1;
const EN_SQD_NOTIFY: u32 = 1 << 2;
const ACCESS: u32 = 1 << 3;
const PKEY: u32 = 1 << 4;
const PORT: u32 = 1 << 5;
const QKEY: u32 = 1 << 6;
const AV: u32 = 1 << 7;
const MTU: u32 = 1 << 8;
const TIMEOUT: u32 = 1 << 9;
const RETRY: u32 = 1 << 10;
const RNR_RETRY: u32 = 1 << 11;
const RQ_PSN: u32 = 1 << 12;
const READS: u32 = 1 << 13;
const ALT_PATH: u32 = 1 << 14;
const MIN_RNR: u32 = 1 << 15;
const SQ_PSN: u32 = 1 << 16;
const DEST_READS: u32 = 1 << 17;
const MIGRATION: u32 = 1 << 18;
const DEST_QPN: u32 = 1 << 20;
/// Bits of the legacy command.
const STANDARD: u32 = (1 << 25) - 1;
/// Queue keys with this bit are reserved for privileged processes.
const PRIVILEGED_QKEY: u32 = 1 << 31;
/// The largest `qp_timeout` and `retry` fields on the wire.
const MAX_TIMEOUT: u8 = 31;
const MAX_MTU: u8 = 5;

/// The attributes that a transition requires, and those that it also allows.
fn masks(transport: Transport, from: u8, to: u8) -> Option<(u32, u32)> {
    use Transport::{Rc, Uc, Ud};
    use qps::{ERR, INIT, RESET, RTR, RTS, SQD, SQE};
    if from > ERR {
        return None;
    }
    let init = if transport == Ud {
        PKEY | PORT | QKEY
    } else {
        PKEY | PORT | ACCESS
    };
    let live = match transport {
        Ud => CUR_STATE | QKEY,
        Uc => CUR_STATE | ALT_PATH | ACCESS | MIGRATION,
        Rc => CUR_STATE | ALT_PATH | ACCESS | MIGRATION | MIN_RNR,
    };
    let connect = AV | MTU | DEST_QPN | RQ_PSN;
    Some(match (from, to, transport) {
        (_, RESET | ERR, _) => (0, 0),
        (RESET, INIT, _) => (init, 0),
        (INIT, INIT, _) => (0, init),
        (INIT, RTR, Ud) | (SQD, SQD, Ud) => (0, PKEY | QKEY),
        (INIT, RTR, Uc) => (connect, ALT_PATH | ACCESS | PKEY),
        (INIT, RTR, Rc) => (connect | DEST_READS | MIN_RNR, ALT_PATH | ACCESS | PKEY),
        (RTR, RTS, Rc) => (TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | READS, live),
        (RTR, RTS, _) => (SQ_PSN, live),
        (RTS | SQD, RTS, _) => (0, live),
        (RTS, SQD, _) => (0, EN_SQD_NOTIFY),
        (SQD, SQD, Uc) => (0, AV | ALT_PATH | ACCESS | PKEY | MIGRATION),
        (SQD, SQD, Rc) => (
            0,
            PORT | AV
                | TIMEOUT
                | RETRY
                | RNR_RETRY
                | READS
                | DEST_READS
                | ALT_PATH
                | ACCESS
                | PKEY
                | MIN_RNR
                | MIGRATION,
        ),
        (SQE, RTS, Ud) => (0, CUR_STATE | QKEY),
        (SQE, RTS, Uc) => (0, CUR_STATE | ACCESS),
        _ => return None,
    })
}

fn is_allowed(transport: Transport, from: u8, to: u8, mask: u32) -> bool {
    if mask & CUR_STATE != 0 && !matches!(from, qps::RTR | qps::RTS | qps::SQD | qps::SQE) {
        return false;
    }
    masks(transport, from, to).is_some_and(|(required, optional)| {
        mask & required == required && mask & !(required | optional | STATE) == 0
    })
}

/// `modify_qp`, plain or extended.
pub(super) fn modify(
    state: &mut State,
    file: FileId,
    request: &ib_uverbs_modify_qp,
) -> Result<(), Errno> {
    let id = state.lookup(file, Kind::Qp, request.qp_handle)?;
    let qp = state.qps.get_mut(&id).ok_or(Errno::NOENT)?;
    check(qp, request)?;
    apply(qp, request);
    if request.attr_mask & STATE == 0 {
        return Ok(());
    }
    match request.qp_state {
        qps::RESET => reset(qp),
        qps::ERR => engine::flush(state, id),
        qps::SQD => engine::drained(state, id),
        qps::RTS => engine::run(state, id),
        _ => {}
    }
    Ok(())
}

fn check(qp: &Qp, request: &ib_uverbs_modify_qp) -> Result<(), Errno> {
    let mask = request.attr_mask;
    let has = |bit: u32| mask & bit != 0;
    if mask & !STANDARD != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let bad_port = has(PORT) && request.port_num != 1;
    let bad_path = has(AV) && (request.dest.port_num != 1 || request.dest.is_global == 0);
    let bad_alternate =
        has(ALT_PATH) && (request.alt_port_num != 1 || request.alt_dest.port_num != 1);
    let bad_state = (has(STATE) && request.qp_state > qps::ERR)
        || (has(CUR_STATE) && request.cur_qp_state > qps::ERR);
    let bad_number = (has(MTU) && !(1..=MAX_MTU).contains(&request.path_mtu))
        || (has(READS) && request.max_rd_atomic > MAX_READS)
        || (has(TIMEOUT) && request.timeout > MAX_TIMEOUT)
        || (has(ALT_PATH) && request.alt_timeout > MAX_TIMEOUT);
    if bad_port || bad_path || bad_alternate || bad_state || bad_number {
        return Err(Errno::INVAL);
    }
    if has(QKEY) && request.qkey & PRIVILEGED_QKEY != 0 {
        return Err(Errno::PERM);
    }
    if has(AV) {
        device::gid(u32::from(request.dest.sgid_index))?;
    }
    let from = if has(CUR_STATE) {
        request.cur_qp_state
    } else {
        qp.state()
    };
    let to = if has(STATE) { request.qp_state } else { from };
    if !is_allowed(qp.transport, from, to, mask) {
        return Err(Errno::INVAL);
    }
    Ok(())
}

fn apply(qp: &mut Qp, request: &ib_uverbs_modify_qp) {
    let (attr, mask) = (&mut qp.attr, request.attr_mask);
    macro_rules! set {
        ($($bit:ident: $($field:ident),+;)*) => {
            $(if mask & $bit != 0 { $(attr.$field = request.$field;)+ })*
        };
    }
    set! {
        STATE: qp_state;
        ACCESS: qp_access_flags;
        PKEY: pkey_index;
        PORT: port_num;
        QKEY: qkey;
        AV: dest;
        MTU: path_mtu;
        TIMEOUT: timeout;
        RETRY: retry_cnt;
        RNR_RETRY: rnr_retry;
        RQ_PSN: rq_psn;
        ALT_PATH: alt_dest, alt_port_num, alt_pkey_index, alt_timeout;
        MIN_RNR: min_rnr_timer;
        SQ_PSN: sq_psn;
        MIGRATION: path_mig_state;
        DEST_QPN: dest_qp_num;
    }
    // The driver rounds these up to powers of two.
    if mask & READS != 0 {
        attr.max_rd_atomic = rounded(request.max_rd_atomic);
    }
    if mask & DEST_READS != 0 {
        attr.max_dest_rd_atomic = rounded(request.max_dest_rd_atomic);
    }
}

fn rounded(count: u8) -> u8 {
    if count == 0 {
        0
    } else {
        count.checked_next_power_of_two().unwrap_or(MAX_READS)
    }
}

/// Empties the queues, without completions.
fn reset(qp: &mut Qp) {
    while qp.sq.head().is_some() {
        qp.sq.pop();
    }
    if let Some(rq) = &mut qp.rq {
        while rq.head().is_some() {
            rq.pop();
        }
    }
    qp.rnr_left = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_rts_needs_its_attributes() {
        let rtr = STATE | AV | MTU | DEST_QPN | RQ_PSN | DEST_READS | MIN_RNR;
        assert!(is_allowed(Transport::Rc, qps::INIT, qps::RTR, rtr));
        assert!(!is_allowed(
            Transport::Rc,
            qps::INIT,
            qps::RTR,
            rtr & !MIN_RNR
        ));
        assert!(!is_allowed(Transport::Rc, qps::INIT, qps::RTR, rtr | QKEY));
        assert!(!is_allowed(Transport::Uc, qps::INIT, qps::RTR, rtr));
        assert!(!is_allowed(Transport::Rc, qps::RESET, qps::RTR, rtr));
    }

    #[test]
    fn every_state_can_be_left_for_reset_and_error() {
        for from in qps::RESET..=qps::ERR {
            for to in [qps::RESET, qps::ERR] {
                assert!(is_allowed(Transport::Ud, from, to, STATE));
                assert!(!is_allowed(Transport::Ud, from, to, STATE | QKEY));
            }
        }
    }
}

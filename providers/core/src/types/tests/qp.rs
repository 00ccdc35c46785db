//! Attributes and their masks.

use crate::types::{
    AccessFlags, AckTimeout, AddressVector, AlternatePath, MigrationState, Mtu, Psn, QpAttr,
    QpAttrMask as M, QpCaps, QpInfo, QpState, QpType, RemoteKey, RetryCount, RnrRetry, RnrTimer,
    SigMode, SrqAttrMask, SrqModify, is_legal,
};

#[test]
fn each_attribute_sets_its_bit() {
    let none = QpAttr::new();
    let cases = [
        (none.state(QpState::Init), 0),
        (none.cur_state(QpState::ReadyToSend), 1),
        (none.sqd_async_notify(false), 2),
        (none.access(AccessFlags::empty()), 3),
        (none.pkey_index(0), 4),
        (none.port(1), 5),
        (none.qkey(0), 6),
        (none.av(AddressVector::default()), 7),
        (none.path_mtu(Mtu::B1024), 8),
        (none.timeout(AckTimeout::default()), 9),
        (none.retry_count(RetryCount::default()), 10),
        (none.rnr_retry(RnrRetry::default()), 11),
        (none.rq_psn(Psn::default()), 12),
        (none.max_rd_atomic(1), 13),
        (none.alt_path(AlternatePath::default()), 14),
        (none.min_rnr_timer(RnrTimer::default()), 15),
        (none.sq_psn(Psn::default()), 16),
        (none.max_dest_rd_atomic(1), 17),
        (none.migration(MigrationState::Armed), 18),
        (none.caps(QpCaps::default()), 19),
        (none.dest_qpn(7), 20),
        (none.rate_limit_kbps(0), 25),
    ];
    assert_eq!(none.mask(), M::empty());
    for (attr, bit) in cases {
        assert_eq!(attr.mask().bits(), 1 << bit);
        assert_eq!(attr.mask().needs_extended(), bit == 25);
    }
    assert_eq!(
        cases.len(),
        M::all().iter_names().count(),
        "every named bit has an attribute"
    );
}

#[test]
fn a_reliable_connection_gets_to_ready_to_send() {
    let init = QpAttr::to(QpState::Init)
        .pkey_index(0)
        .port(1)
        .access(AccessFlags::LOCAL_WRITE);
    let rtr = QpAttr::to(QpState::ReadyToReceive)
        .av(AddressVector::default())
        .path_mtu(Mtu::B1024)
        .dest_qpn(17)
        .rq_psn(Psn::default())
        .max_dest_rd_atomic(1)
        .min_rnr_timer(RnrTimer::default());
    let rts = QpAttr::to(QpState::ReadyToSend)
        .timeout(AckTimeout::default())
        .retry_count(RetryCount::default())
        .rnr_retry(RnrRetry::default())
        .sq_psn(Psn::default())
        .max_rd_atomic(1);
    let mut state = QpState::Reset;
    for step in [init, rtr, rts] {
        let next = step.state.unwrap();
        assert!(
            is_legal(state, next, QpType::Rc, step.mask()),
            "{state} to {next}"
        );
        state = next;
    }
}

#[test]
fn an_empty_query_is_a_queue_pair_in_reset() {
    let info = QpInfo::default();
    assert_eq!(
        (
            info.state,
            info.port,
            info.timeout.raw(),
            info.sig_mode.raw()
        ),
        (QpState::Reset, 0, 0, 0)
    );
    assert_eq!(
        (SigMode::from_raw(1), SigMode::from_raw(0)),
        (SigMode::All, SigMode::Requested)
    );
}

#[test]
fn shared_receive_queue_mask() {
    assert_eq!(SrqModify::new().mask(), SrqAttrMask::empty());
    assert_eq!(SrqModify::new().max_wr(9).mask().bits(), 1);
    assert_eq!(SrqModify::new().limit(0).mask().bits(), 2);
    assert_eq!(
        SrqModify {
            max_wr: Some(9),
            limit: Some(1)
        }
        .mask()
        .bits(),
        3
    );
}

#[test]
fn keys_are_not_shown_and_count_in_their_low_byte() {
    assert_eq!(
        format!("{:?}", RemoteKey::from_raw(0x1234_5678)),
        "RemoteKey(..)"
    );
    assert_eq!(
        RemoteKey::from_raw(0x1234_5678).inc(),
        RemoteKey::from_raw(0x1234_5679)
    );
    assert_eq!(
        RemoteKey::from_raw(0x1234_56ff).inc(),
        RemoteKey::from_raw(0x1234_5600)
    );
    assert_eq!(
        RemoteKey::from_raw(u32::MAX).inc(),
        RemoteKey::from_raw(0xffff_ff00)
    );
}

#[test]
fn remote_writes_need_local_ones() {
    assert!(AccessFlags::REMOTE_READ.is_consistent());
    assert!(!AccessFlags::REMOTE_WRITE.is_consistent());
    assert!(!AccessFlags::REMOTE_ATOMIC.is_consistent());
    assert!((AccessFlags::REMOTE_ATOMIC | AccessFlags::LOCAL_WRITE).is_consistent());
}

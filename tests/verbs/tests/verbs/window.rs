//! Memory windows of both types: bound, used, invalidated, bound again.

use uverbs::completion::WcOpcode;
use uverbs::memory::{MwType, RemoteKey};
use uverbs::{
    AccessFlags, ErrorKind, MemoryWindow, Operation, Payload, QpState, QpType, Remote, SendRequest,
    WcStatus, WorkCompletion,
};
use verbs_tests::{Pair, Registered, failed_here, kernel_may_say, next, raw, requests_fail};

const REMOTE: AccessFlags = AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE);

/// b binds `window` to a part of `region`; returns the status.
fn bind(
    pair: &mut Pair,
    window: &mut MemoryWindow,
    region: &Registered,
    part: (u64, u64),
    access: AccessFlags,
) -> WcStatus {
    try_bind(pair, window, region, part, access).status
}

fn try_bind(
    pair: &mut Pair,
    window: &mut MemoryWindow,
    region: &Registered,
    part: (u64, u64),
    access: AccessFlags,
) -> WorkCompletion {
    let (offset, length) = part;
    let address = region.mr().address() + offset;
    let binding = window.bind(region.mr(), address, length, access);
    let request = SendRequest::new(Operation::BindWindow(&binding), Payload::NONE);
    raw::send(&mut pair.b.qp, &[request.wr_id(1).signaled()]).unwrap();
    let done = next(&mut pair.b.cq);
    if done.is_success() {
        assert_eq!(done.opcode, WcOpcode::BindMw);
    }
    done
}

fn bindable(pair: &Pair) -> Registered {
    let access = REMOTE | AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND;
    Registered::new(&pair.b.pd, 4096, access)
}

/// a writes 4 bytes with `key`; returns the status.
fn write(pair: &mut Pair, region: &Registered, offset: u64, key: RemoteKey) -> WcStatus {
    let source = Registered::local(&pair.a.pd, 4);
    source.put(0, b"mine");
    let sges = [source.sge(0, 4)];
    let request = SendRequest::write(&sges, region.remote_by(offset, key)).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    next(&mut pair.a.cq).status
}

fn window_opens_its_region_while_bound(kind: MwType) {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let region = bindable(&pair);
    let mut window = pair.b.pd.alloc_mw(kind).unwrap();
    assert_eq!(window.kind(), kind);
    let unbound = window.key();
    let status = bind(&mut pair, &mut window, &region, (1000, 100), REMOTE);
    assert_eq!(status, WcStatus::Success);
    assert_ne!(window.key(), unbound, "a new binding has a new key");
    let key = window.key();
    let region_key = region.mr().rkey();
    assert_ne!(key, region_key);
    assert_eq!(write(&mut pair, &region, 1000, key), WcStatus::Success);
    assert_eq!(write(&mut pair, &region, 1096, key), WcStatus::Success);
    assert_eq!(region.get(1000, 4), b"mine");
    assert_eq!(region.get(1096, 4), b"mine");
    // rxe checks the bounds of the region, not those of the window (check_rkey in rxe_resp.c, up to
    // 7.2).
    assert_eq!(write(&mut pair, &region, 4093, key), WcStatus::RemoteAccess);
    assert_eq!(region.get(4093, 3), [0; 3]);
    // Before its queue pair: rxe waits a minute for a queue pair that a type 2 window is bound to.
    window.dealloc().unwrap();
    region.deregister().unwrap();
}

#[test]
fn a_window_of_type_1_opens_its_part() {
    window_opens_its_region_while_bound(MwType::Type1);
}

#[test]
fn a_window_of_type_2_opens_its_part() {
    window_opens_its_region_while_bound(MwType::Type2);
}

#[test]
fn a_window_allows_what_it_was_bound_for() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let region = bindable(&pair);
    region.put(0, b"read me!");
    let mut window = pair.b.pd.alloc_mw(MwType::Type1).unwrap();
    let read_only = AccessFlags::REMOTE_READ;
    let status = bind(&mut pair, &mut window, &region, (0, 64), read_only);
    assert_eq!(status, WcStatus::Success);
    let sink = Registered::local(&pair.a.pd, 8);
    let sges = [sink.sge(0, 8)];
    let request = SendRequest::read(&sges, region.remote_by(0, window.key())).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::Success);
    assert_eq!(sink.all(), b"read me!");
    assert_eq!(
        write(&mut pair, &region, 0, window.key()),
        WcStatus::RemoteAccess
    );
    assert_eq!(region.get(0, 8), b"read me!");
}

#[test]
fn a_window_of_type_1_moves_when_it_is_bound_again() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let region = bindable(&pair);
    let mut window = pair.b.pd.alloc_mw(MwType::Type1).unwrap();
    for offset in [0, 512, 1024] {
        let status = bind(&mut pair, &mut window, &region, (offset, 8), REMOTE);
        assert_eq!(status, WcStatus::Success);
        assert_eq!(
            write(&mut pair, &region, offset, window.key()),
            WcStatus::Success
        );
        assert_eq!(region.get(offset as usize, 4), b"mine");
    }
    let old = window.key();
    let status = bind(&mut pair, &mut window, &region, (0, 0), REMOTE);
    assert_eq!(status, WcStatus::Success, "a length of 0 unbinds");
    assert_eq!(write(&mut pair, &region, 1028, old), WcStatus::RemoteAccess);
    assert_eq!(region.get(1028, 4), [0; 4]);
}

fn invalidate(pair: &mut Pair, key: RemoteKey) -> WcStatus {
    let request = SendRequest::new(Operation::LocalInvalidate(key), Payload::NONE);
    raw::send(&mut pair.b.qp, &[request.wr_id(2).signaled()]).unwrap();
    let done = next(&mut pair.b.cq);
    if done.is_success() {
        assert_eq!(done.opcode, WcOpcode::LocalInvalidate);
    }
    done.status
}

#[test]
fn its_owner_invalidates_a_window_of_type_2_and_binds_it_again() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let region = bindable(&pair);
    let mut window = pair.b.pd.alloc_mw(MwType::Type2).unwrap();
    let status = bind(&mut pair, &mut window, &region, (0, 64), REMOTE);
    assert_eq!(status, WcStatus::Success);
    let first = window.key();
    assert_eq!(write(&mut pair, &region, 0, first), WcStatus::Success);
    assert_eq!(invalidate(&mut pair, first), WcStatus::Success);
    let status = bind(&mut pair, &mut window, &region, (64, 64), REMOTE);
    assert_eq!(status, WcStatus::Success);
    let second = window.key();
    assert_ne!(first, second);
    assert_eq!(write(&mut pair, &region, 64, second), WcStatus::Success);
    assert_eq!(region.get(64, 4), b"mine");
    // The first key is not valid any more.
    assert_eq!(write(&mut pair, &region, 64, first), WcStatus::RemoteAccess);
}

#[test]
fn a_peer_invalidates_a_window_with_its_message() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let region = bindable(&pair);
    let mut window = pair.b.pd.alloc_mw(MwType::Type2).unwrap();
    let status = bind(&mut pair, &mut window, &region, (0, 64), REMOTE);
    assert_eq!(status, WcStatus::Success);
    let key = window.key();
    assert_eq!(write(&mut pair, &region, 0, key), WcStatus::Success);

    let sink = Registered::local(&pair.b.pd, 64);
    raw::recv(&mut pair.b.qp, 7, &[sink.sge(0, 64)]).unwrap();
    let source = Registered::local(&pair.a.pd, 4);
    source.put(0, b"done");
    let sges = [source.sge(0, 4)];
    let request = SendRequest::new(Operation::SendInvalidate(key), Payload::Gather(&sges));
    raw::send(&mut pair.a.qp, &[request.signaled()]).unwrap();
    assert_eq!(next(&mut pair.a.cq).opcode, WcOpcode::Send);
    let received = next(&mut pair.b.cq);
    assert_eq!(received.status, WcStatus::Success);
    assert_eq!(received.wr_id, 7);
    assert_eq!(received.byte_len, 4);
    assert_eq!(received.invalidated, Some(key));
    assert_eq!(received.imm, None);
    assert_eq!(sink.get(0, 4), b"done");

    // It can be bound again, and the old key gives no access.
    let status = bind(&mut pair, &mut window, &region, (0, 64), REMOTE);
    assert_eq!(status, WcStatus::Success);
    assert_eq!(write(&mut pair, &region, 0, key), WcStatus::RemoteAccess);
}

#[test]
fn rxe_impossible_bindings_fail_and_say_so() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let region = bindable(&pair);
    let mut window = pair.b.pd.alloc_mw(MwType::Type2).unwrap();
    // Outside of the region.
    let status = try_bind(&mut pair, &mut window, &region, (4000, 97), REMOTE);
    failed_here(&status, WcStatus::MwBind);
    assert_eq!(pair.b.qp.query().unwrap().state, QpState::Error);

    let mut pair = Pair::new(QpType::Rc);
    let unbindable = Registered::remote_all(&pair.b.pd, 64);
    let mut window = pair.b.pd.alloc_mw(MwType::Type1).unwrap();
    // A region that allows no windows.
    let status = try_bind(&mut pair, &mut window, &unbindable, (0, 64), REMOTE);
    failed_here(&status, WcStatus::MwBind);
}

#[test]
fn rxe_a_region_with_a_bound_window_is_busy() {
    kernel_may_say("bound to MWs");
    kernel_may_say("rxe_dereg_mr");
    let mut pair = Pair::new(QpType::Rc);
    let region = bindable(&pair);
    let mut window = pair.b.pd.alloc_mw(MwType::Type1).unwrap();
    let status = bind(&mut pair, &mut window, &region, (0, 64), REMOTE);
    assert_eq!(status, WcStatus::Success);
    let context = pair.b.context.clone();
    let error = region.deregister().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Busy | ErrorKind::InvalidInput),
        "{error}"
    );
    assert_eq!(context.leaked(), 1);
}

#[test]
fn a_window_type_that_does_not_exist_is_refused() {
    let pair = Pair::new(QpType::Rc);
    let error = pair.b.pd.alloc_mw(MwType::from_raw(7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_key_with_a_window_of_another_queue_pair_opens_nothing() {
    requests_fail();
    let mut pair = Pair::new(QpType::Rc);
    let mut other = Pair::between(&pair.a.context, &pair.b.context, QpType::Rc, |builder| {
        builder
    });
    let region = bindable(&pair);
    let mut window = pair.b.pd.alloc_mw(MwType::Type2).unwrap();
    let status = bind(&mut pair, &mut window, &region, (0, 64), REMOTE);
    assert_eq!(status, WcStatus::Success);
    let remote = Remote {
        address: region.mr().address(),
        key: window.key(),
    };
    let source = Registered::local(&other.a.pd, 4);
    let sges = [source.sge(0, 4)];
    let request = SendRequest::write(&sges, remote).signaled();
    raw::send(&mut other.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut other.a.cq).status, WcStatus::RemoteAccess);
    assert_eq!(
        write(&mut pair, &region, 0, window.key()),
        WcStatus::Success
    );
}

//! Indirect keys, and requests that are composed elsewhere.

use mlx5_tests::raw as mlx5;
use uverbs::completion::WcOpcode;
use uverbs::mlx5::{IndirectKey, Interleaved, KeyChange, KeyLayout, KeyOptions, Unit};
use uverbs::{
    AccessFlags, Operation, Payload, PostError, QpType, Remote, SendFlags, SendRequest, Sge,
    WcStatus,
};
use verbs_tests::{Pair, Registered, next, raw};

/// Maps with this key what `layout` says.
fn map(pair: &mut Pair, key: &IndirectKey, access: AccessFlags, layout: KeyLayout<'_>) {
    let change = KeyChange {
        key: key.remote_key(),
        access: Some(access),
        layout: Some(layout),
    };
    mlx5::change_key(&mut pair.b.qp, 3, &change).unwrap();
    let done = next(&mut pair.b.cq);
    assert_eq!(
        (done.wr_id, done.status, done.opcode),
        (3, WcStatus::Success, WcOpcode::Driver1),
        "{done:?}"
    );
}

/// Has the peer write through the key, from its beginning on.
fn write(pair: &mut Pair, key: &IndirectKey, from: &Sge) -> WcStatus {
    let request = SendRequest {
        wr_id: 4,
        flags: SendFlags::SIGNALED,
        operation: Operation::Write(Remote {
            address: 0,
            key: key.remote_key(),
        }),
        payload: Payload::Gather(std::slice::from_ref(from)),
        destination: None,
    };
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    next(&mut pair.a.cq).status
}

const WRITABLE: AccessFlags = AccessFlags::LOCAL_WRITE.union(AccessFlags::REMOTE_WRITE);

fn byte(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(0)
}

/// With room for long lists.
fn pair() -> Pair {
    Pair::with(QpType::Rc, |builder| builder.max_inline_data(300))
}

#[test]
fn a_list_of_pieces_is_written_as_one() {
    let mut pair = pair();
    let source = Registered::local(&pair.a.pd, 24);
    source.fill(|at| byte(at) + 1);
    let target = Registered::remote_all(&pair.b.pd, 128);
    let key = pair
        .b
        .pd
        .create_indirect_key(3, KeyOptions::default())
        .unwrap();
    assert_eq!(key.max_entries(), 4);
    let list = [target.sge(8, 8), target.sge(96, 15), target.sge(40, 1)];
    map(&mut pair, &key, WRITABLE, KeyLayout::List(&list));
    assert_eq!(
        write(&mut pair, &key, &source.sge(0, 24)),
        WcStatus::Success
    );
    let bytes: Vec<u8> = (1..=24).collect();
    assert_eq!(target.get(8, 8), bytes[..8]);
    assert_eq!(target.get(96, 15), bytes[8..23]);
    assert_eq!(target.get(40, 1), bytes[23..]);
    let written = target.all().iter().filter(|byte| **byte != 0).count();
    assert_eq!(written, 24);
    key.destroy().unwrap();
}

#[test]
fn interleaved_pieces_are_written_in_turn() {
    let mut pair = pair();
    let source = Registered::local(&pair.a.pd, 36);
    source.fill(|at| byte(at) + 1);
    let target = Registered::remote_all(&pair.b.pd, 128);
    let key = pair
        .b
        .pd
        .create_indirect_key(4, KeyOptions::default())
        .unwrap();
    let piece = |offset, bytes| Interleaved {
        address: target.sge(offset, 0).address,
        bytes,
        skip: 16 - bytes,
        key: target.mr().lkey(),
    };
    let pieces = [piece(0, 8), piece(64, 4)];
    let layout = KeyLayout::Interleaved {
        repeats: 3,
        pieces: &pieces,
    };
    map(&mut pair, &key, WRITABLE, layout);
    assert_eq!(
        write(&mut pair, &key, &source.sge(0, 36)),
        WcStatus::Success
    );
    for turn in 0..3_u8 {
        let first = turn * 12 + 1;
        let bytes: Vec<u8> = (first..first + 12).collect();
        assert_eq!(target.get(usize::from(turn) * 16, 8), bytes[..8]);
        assert_eq!(target.get(64 + usize::from(turn) * 16, 4), bytes[8..]);
    }
    let written = target.all().iter().filter(|byte| **byte != 0).count();
    assert_eq!(written, 36);
}

/// Refused: what lies behind the last piece, and rights that the key lacks.
#[test]
fn a_key_reaches_no_further_than_it_was_told() {
    verbs_tests::requests_fail();
    mlx5_tests::model_may_report("memory key");
    for case in 0..2 {
        let mut pair = pair();
        let source = Registered::local(&pair.a.pd, 32);
        let target = Registered::remote_all(&pair.b.pd, 64);
        let key = pair
            .b
            .pd
            .create_indirect_key(4, KeyOptions::default())
            .unwrap();
        let list = [target.sge(0, 16)];
        let access = match case {
            1 => AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ,
            _ => WRITABLE,
        };
        map(&mut pair, &key, access, KeyLayout::List(&list));
        let length = if case == 0 { 17 } else { 16 };
        let status = write(&mut pair, &key, &source.sge(0, length));
        assert_eq!(status, WcStatus::RemoteAccess, "{case}");
    }
}

#[test]
fn requests_of_keys_are_refused_where_they_have_no_place() {
    let mut pair = pair();
    let target = Registered::remote_all(&pair.b.pd, 64);
    let key = pair
        .b
        .pd
        .create_indirect_key(64, KeyOptions::default())
        .unwrap();
    let list = vec![target.sge(0, 1); 64];
    let change = |list| KeyChange {
        key: key.remote_key(),
        access: None,
        layout: Some(KeyLayout::List(list)),
    };
    let refused = mlx5::change_key(&mut pair.b.qp, 0, &change(&list));
    assert!(
        matches!(refused, Err(PostError::TooManySges { requested: 64, .. })),
        "{refused:?}"
    );
    let change_of_access = KeyChange {
        key: key.remote_key(),
        access: Some(AccessFlags::MW_BIND),
        layout: None,
    };
    let refused = mlx5::change_key(&mut pair.b.qp, 0, &change_of_access);
    assert_eq!(refused, Err(PostError::InvalidRequest));
    let mut unreliable = Pair::new(QpType::Uc);
    let refused = mlx5::change_key(&mut unreliable.a.qp, 0, &change(&list[..1]));
    assert_eq!(refused, Err(PostError::UnsupportedOperation));
}

/// A signaled send of one entry.
fn send(qpn: u32, sge: &Sge) -> [Unit; 2] {
    let words = |high: u32, low: u32| (u64::from(high) << 32 | u64::from(low)).to_be();
    [
        [words(0x0a, qpn << 8 | 2), words(8, 0)],
        [words(sge.length, sge.key.raw()), sge.address.to_be()],
    ]
}

#[test]
fn raw_requests_and_others_take_turns() {
    let mut pair = Pair::new(QpType::Rc);
    let source = Registered::local(&pair.a.pd, 64);
    let target = Registered::local(&pair.b.pd, 64);
    let number = pair.a.qp.qp_num();
    for turn in 0..40_u8 {
        source.fill(|at| byte(at) ^ turn);
        raw::recv(&mut pair.b.qp, 1, &[target.sge(0, 64)]).unwrap();
        let sge = source.sge(0, 64);
        let (id, opcode) = (
            turn.into(),
            if turn % 2 == 0 {
                mlx5::post_raw(&mut pair.a.qp, turn.into(), &send(number, &sge)).unwrap();
                WcOpcode::Driver2
            } else {
                let request = SendRequest {
                    wr_id: turn.into(),
                    flags: SendFlags::SIGNALED,
                    operation: Operation::Send,
                    payload: Payload::Gather(&[sge]),
                    destination: None,
                };
                raw::send(&mut pair.a.qp, &[request]).unwrap();
                WcOpcode::Send
            },
        );
        let done = next(&mut pair.a.cq);
        assert_eq!(
            (done.wr_id, done.status, done.opcode),
            (id, WcStatus::Success, opcode)
        );
        assert_eq!(next(&mut pair.b.cq).byte_len, 64);
        assert_eq!(source.all(), target.all());
    }
    let other = send(pair.b.qp.qp_num(), &source.sge(0, 64));
    let refused = mlx5::post_raw(&mut pair.a.qp, 0, &other);
    assert_eq!(refused, Err(PostError::InvalidRequest));
}

/// The peer's next write is refused, and what it wrote before stays.
#[test]
fn a_key_that_a_peer_uses_can_be_destroyed() {
    verbs_tests::requests_fail();
    mlx5_tests::model_may_report("memory key");
    let mut pair = pair();
    let source = Registered::local(&pair.a.pd, 16);
    source.fill(|at| byte(at) + 1);
    let target = Registered::remote_all(&pair.b.pd, 64);
    let domain = pair.b.pd.clone();
    let key = domain.create_indirect_key(4, KeyOptions::default());
    let key = key.unwrap();
    let name = key.remote_key();
    let list = [target.sge(0, 16)];
    map(&mut pair, &key, WRITABLE, KeyLayout::List(&list));
    let status = write(&mut pair, &key, &source.sge(0, 8));
    assert_eq!(status, WcStatus::Success);
    key.destroy().unwrap();
    let request = SendRequest {
        wr_id: 5,
        flags: SendFlags::SIGNALED,
        operation: Operation::Write(Remote {
            address: 8,
            key: name,
        }),
        payload: Payload::Gather(&[source.sge(8, 8)]),
        destination: None,
    };
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert_eq!(next(&mut pair.a.cq).status, WcStatus::RemoteAccess);
    let bytes: Vec<u8> = (1..=8).collect();
    assert_eq!(target.get(0, 8), bytes);
    assert_eq!(target.get(8, 56), [0; 56]);
}

/// It stays, and so does its protection domain: neither is destroyed under the peer's feet.
#[test]
fn a_key_that_is_forgotten_stays_with_its_domain() {
    let mut pair = pair();
    let source = Registered::local(&pair.a.pd, 8);
    source.fill(|at| byte(at) + 1);
    let target = Registered::remote_all(&pair.b.pd, 64);
    let domain = pair.b.pd.clone();
    let key = domain.create_indirect_key(4, KeyOptions::default());
    let key = std::mem::ManuallyDrop::new(key.unwrap());
    let list = [target.sge(8, 8)];
    map(&mut pair, &key, WRITABLE, KeyLayout::List(&list));
    assert_eq!(
        domain.dealloc().unwrap_err().kind(),
        uverbs::ErrorKind::Busy
    );
    let status = write(&mut pair, &key, &source.sge(0, 8));
    assert_eq!(status, WcStatus::Success);
    assert_eq!(target.get(8, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
}

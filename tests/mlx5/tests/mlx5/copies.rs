//! Copies of local memory by the device.

use mlx5_tests::raw as mlx5;
use uverbs::completion::WcOpcode;
use uverbs::{ErrorKind, PostError, QpState, QpType, WcStatus};
use verbs_tests::{Pair, Registered, next, open, requests_fail};

#[test]
fn the_device_copies_between_places_of_local_memory() {
    let mut pair = Pair::with(QpType::Rc, |builder| builder.copies().max_send_wr(16));
    let from = Registered::local(&pair.a.pd, 5000);
    let to = Registered::local(&pair.a.pd, 5000);
    from.fill(|at| u8::try_from(at % 251).unwrap_or(0) + 1);
    for (at, into, len) in [(3_u32, 17_u32, 5_u32), (100, 64, 4900)] {
        let (source, target) = (from.sge(at.into(), len), to.sge(into.into(), len));
        mlx5::copy(&mut pair.a.qp, 5, &source, &target).unwrap();
        let done = next(&mut pair.a.cq);
        assert_eq!(
            (done.wr_id, done.status),
            (5, WcStatus::Success),
            "{done:?}"
        );
        assert_eq!(done.opcode, WcOpcode::Driver3);
        let (at, into, len) = (at as usize, into as usize, len as usize);
        assert_eq!(to.get(into, len), from.get(at, len));
    }
    assert_eq!(to.get(0, 17), [0; 17]);
    let none = mlx5::copy(&mut pair.a.qp, 6, &from.sge(0, 0), &to.sge(0, 0));
    assert_eq!(none, Err(PostError::InvalidRequest));

    // Memory of another domain is not reached, and the queue pair stops.
    let elsewhere = Registered::local(&pair.a.context.alloc_pd().unwrap(), 64);
    requests_fail();
    mlx5::copy(&mut pair.a.qp, 7, &from.sge(0, 64), &elsewhere.sge(0, 64)).unwrap();
    let done = next(&mut pair.a.cq);
    assert_eq!((done.wr_id, done.status), (7, WcStatus::LocalProtection));
    assert_eq!(elsewhere.get(0, 64), [0; 64]);
    assert_eq!(pair.a.qp.query().unwrap().state, QpState::Error);
}

#[test]
fn queue_pairs_that_were_not_built_for_it_make_no_copies() {
    let mut pair = Pair::new(QpType::Rc);
    let memory = Registered::local(&pair.a.pd, 64);
    let refused = mlx5::copy(&mut pair.a.qp, 1, &memory.sge(0, 8), &memory.sge(8, 8));
    assert_eq!(refused, Err(PostError::UnsupportedOperation));
    let context = open();
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(8).unwrap());
    let datagrams = pd.queue_pair(QpType::Ud, &cq, &cq).copies().build();
    assert_eq!(datagrams.unwrap_err().kind(), ErrorKind::Unsupported);
}

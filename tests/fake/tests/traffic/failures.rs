//! Requests that fail, and those that are flushed with them, on the ConnectX: the queue pair is its
//! own peer, and on rxe the responder's error comes first, so that all that is seen is flushed.

use super::bench::{ALL, Bench, Shape};
use super::world::World;
use adversary::device::{Device as _, Fault};
use adversary::mlx5::Cards;
use uverbs::owned::{ExposedMemory, Work};
use uverbs::{AccessFlags, QpState, QpType, WcStatus};

const SHAPE: Shape = Shape {
    sends: 16,
    receives: 16,
    sges: 2,
    inline: 32,
    shared: false,
    kind: QpType::Rc,
};

/// Posts `work` between requests that succeed and one that is flushed. Returns how it ended.
fn ended(bench: &mut Bench, work: Work) -> WcStatus {
    let own = bench.pd.expose(64, ALL).unwrap();
    let good = || Work::write(own.remote());
    bench
        .qp
        .post_inline(good().user_data(1), &[b"one"])
        .unwrap();
    bench.qp.post(work.user_data(2)).unwrap();
    bench
        .qp
        .post_inline(good().user_data(3).unsignaled(), &[b"three"])
        .unwrap();
    bench.world.run();
    let all: Vec<_> = std::iter::from_fn(|| bench.sent()).collect();
    let numbers: Vec<_> = all.iter().map(uverbs::owned::Finished::user_data).collect();
    // An unsignaled request that fails has a completion, too.
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(all[0].status(), WcStatus::Success);
    assert_eq!(all[2].status(), WcStatus::Flushed);
    assert_eq!(all[1].len(), 0);
    let mut found = [0; 5];
    assert!(own.read(0, &mut found));
    assert_eq!(&found, b"one\0\0");
    assert_eq!(bench.qp.query().unwrap().state, QpState::Error);
    all[1].status()
}

fn exposed(bench: &Bench, access: AccessFlags) -> ExposedMemory {
    bench.pd.expose(64, access).unwrap()
}

#[test]
fn what_the_peer_refuses_fails_and_flushes_the_rest() {
    for version in [1, 0] {
        let read_only = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
        let mut bench = Bench::new(World::ConnectX(Cards::new(version)), &SHAPE, 1);
        let target = exposed(&bench, read_only);
        let [buffer] = bench.pd.buffers::<1>(8).unwrap();
        let work = Work::write(target.remote()).memory(buffer);
        assert_eq!(ended(&mut bench, work.untyped()), WcStatus::RemoteAccess);

        // Reset, and connected to itself again, it works as before.
        assert!(bench.qp.reset().unwrap().is_empty());
        let endpoint = bench.qp.endpoint();
        bench.qp.reconnect(endpoint).unwrap();
        for _ in 0..40 {
            bench.one();
        }
        drop(target);
        bench.end();
    }
}

#[test]
fn a_message_that_is_too_long_for_its_receive_fails_on_both_sides() {
    for version in [1, 0] {
        let mut bench = Bench::new(World::ConnectX(Cards::new(version)), &SHAPE, 2);
        let [short, long] = bench.pd.buffers::<2>(8).unwrap();
        bench.qp.recv_into((short, 7), 9).unwrap();
        let status = ended(&mut bench, Work::send().untyped().memory(long));
        assert_eq!(status, WcStatus::RemoteInvalidRequest);
        let received = bench.received().unwrap();
        assert_eq!(received.user_data(), 9);
        assert_eq!(
            (received.status(), received.len()),
            (WcStatus::LocalLength, 0)
        );
    }
}

/// A resize that goes wrong.
fn disturbed(bench: &mut Bench, fault: Fault) {
    let World::ConnectX(cards) = &bench.world else {
        return;
    };
    cards.disturb(0, 0, fault);
    assert!(bench.send_cq.resize(500).is_err());
    cards.mend();
}

#[test]
fn a_resize_that_the_kernel_refuses_changes_nothing() {
    for version in [1, 0] {
        let mut bench = Bench::new(World::ConnectX(Cards::new(version)), &SHAPE, 3);
        disturbed(&mut bench, Fault::Fails);
        for _ in 0..40 {
            bench.one();
        }
        bench.end();
    }
}

/// Which ring the device writes to is unknown then.
#[test]
fn after_a_resize_of_unknown_outcome_polling_is_refused() {
    let mut bench = Bench::new(World::ConnectX(Cards::new(1)), &SHAPE, 4);
    disturbed(&mut bench, Fault::PanicsAfter);
    assert!(bench.send_cq.poll().is_err());
}

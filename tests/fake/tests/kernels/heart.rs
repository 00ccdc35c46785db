//! What every kernel with an rxe device supports.

use std::collections::BTreeMap;

use fake_tests::{Bench, Tree, live_on};
use uverbs::address::GlobalRoute;
use uverbs::attr::SrqModify;
use uverbs::error::Op;
use uverbs::memory::MwType;
use uverbs::owned::kind::Kind;
use uverbs::owned::{self, Buffer, Work};
use uverbs::{AccessFlags, AddressVector, CompletionQueue, Context, ErrorKind, QpType};
use uverbs_core::CommandPath;
use uverbs_fake::{CallKind, Feature, Profile};

/// A kernel of that version, which publishes its GIDs in sysfs, as all do.
pub(crate) fn bench(profile: Profile) -> Bench {
    Bench::new(profile, CommandPath::Auto).with_sysfs(Tree::of_fake().unwrap())
}

/// Connects a queue pair to itself and sends a message, by datagrams if that is its type.
fn talk(context: &Context, kind: QpType) {
    let pd = context.alloc_pd().unwrap();
    let mut cq = context.create_cq(8).unwrap();
    let prepared = pd
        .queue_pair(kind, &cq, &cq)
        .gid_index(1)
        .qkey(0x1234)
        .build()
        .unwrap();
    let number = prepared.qp_num();
    let [mut message, room] = pd.buffers::<2>(64).unwrap();
    message[..5].copy_from_slice(b"heart");
    if kind == QpType::Ud {
        let dgid = context.gid(1, 1).unwrap().unwrap().gid;
        let vector = AddressVector::global(1, GlobalRoute::new(dgid, 1));
        let address = pd.create_ah(&vector).unwrap();
        let mut qp = owned::QueuePair::new(prepared.activate().unwrap());
        let work = Work::send()
            .memory((message, 5))
            .to(&address, number, 0x1234);
        deliver(&mut qp, &mut cq, room, work, 40);
        qp.destroy().unwrap();
        address.destroy().unwrap();
    } else {
        let endpoint = prepared.endpoint();
        let mut qp = owned::QueuePair::new(prepared.handshake(endpoint).unwrap());
        deliver(&mut qp, &mut cq, room, Work::send().memory((message, 5)), 0);
        qp.destroy().unwrap();
    }
    cq.destroy().unwrap();
    pd.dealloc().unwrap();
}

/// Posts both, and finds the message after `header` bytes.
fn deliver<K: Kind>(
    qp: &mut owned::QueuePair,
    cq: &mut CompletionQueue,
    room: Buffer,
    work: Work<K>,
    header: usize,
) {
    const RECEIVED: u64 = 7;
    qp.recv(room, RECEIVED).unwrap();
    qp.post(work).unwrap();
    let mut received = None;
    for _ in 0..100 {
        let Some(completion) = cq.poll().unwrap() else {
            continue;
        };
        let done = qp.complete(completion).unwrap();
        assert!(done.status().is_success(), "{:?}", done.status());
        if done.user_data() == RECEIVED {
            received = Some(done);
        }
    }
    let received = received.expect("the message");
    assert_eq!(&received.bytes().unwrap()[header..header + 5], b"heart");
}

/// What the tables say about windows, shared receive queues and GIDs.
fn rest(context: &Context, profile: Profile) {
    let gids = context.gid_table().unwrap();
    assert_eq!(gids.len(), 2);
    assert_eq!(context.gid(1, 1).unwrap().as_ref(), gids.get(1));
    assert!(context.gid(1, 2).unwrap().is_none());
    let pd = context.alloc_pd().unwrap();
    for kind in [MwType::Type1, MwType::Type2] {
        match pd.alloc_mw(kind) {
            Ok(window) if profile.has(Feature::MemoryWindows) => window.dealloc().unwrap(),
            Err(error) if !profile.has(Feature::MemoryWindows) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    let mut srq = pd.create_srq(8, 1).unwrap();
    srq.modify(&SrqModify {
        max_wr: Some(20),
        limit: Some(2),
    })
    .unwrap();
    let attr = srq.query().unwrap();
    assert_eq!((attr.max_wr, attr.limit), (31, 2));
    srq.destroy().unwrap();
    // Optional access flags are not passed to a kernel that would refuse them.
    let access = AccessFlags::REMOTE_READ | AccessFlags::RELAXED_ORDERING;
    drop(pd.expose(64, access).unwrap());
    pd.dealloc().unwrap();
}

/// The encodings that an operation used, by its index in [`Op::ALL`].
pub(crate) type Ways = BTreeMap<usize, String>;

/// Runs all of it. Returns how each command was encoded.
pub(crate) fn heart(profile: Profile) -> Ways {
    let bench = bench(profile);
    live_on(&bench.fake, bench.context().unwrap()).unwrap();
    let context = bench.context().unwrap();
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        talk(&context, kind);
    }
    rest(&context, profile);
    assert_eq!(context.leaked(), 0);
    drop(context);
    assert_eq!(bench.fake.objects().total(), 0);

    let mut ways: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for seen in bench.fake.seen() {
        let way = match seen.call {
            CallKind::Method(..) => "method",
            CallKind::Invoked(_) => "`INVOKE_WRITE`",
            CallKind::Written(_) => "`write`",
            _ => continue,
        };
        let Some(op) = seen.call.operation().filter(|_| seen.answer.is_ok()) else {
            continue;
        };
        let place = Op::ALL.iter().position(|other| *other == op).unwrap();
        let known = ways.entry(place).or_default();
        if !known.contains(&way) {
            known.push(way);
        }
    }
    ways.into_iter()
        .map(|(place, ways)| (place, ways.join(", ")))
        .collect()
}

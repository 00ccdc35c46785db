//! XRC: one connection, and receives in whichever shared queue the sender names.

use std::os::fd::AsFd as _;

use mlx5_tests::{Model, raw as mlx5};
use uverbs::mlx5::{SharedXrcDomain, XrcDomain};
use uverbs::owned::{self, Work};
use uverbs::time::AckTimeout;
use uverbs::transport::XrcInitiator;
use uverbs::{
    AccessFlags, CompletionQueue, Context, ErrorKind, Operation, Payload, PostError,
    ProtectionDomain, QpState, QpType, QueuePair, SendRequest, SharedReceiveQueue,
};
use verbs_tests::{
    Registered, device_name, next, nothing, open, open_named, options, peer_name, raw, until,
};

/// Number of requests in a shared queue.
const SIZE: u32 = 16;

/// An initiator on one device, and a target with two shared queues on another.
struct Connection {
    initiator: QueuePair,
    pd: ProtectionDomain,
    sent: CompletionQueue,
    target: QueuePair,
    queues: [SharedReceiveQueue; 2],
    got: [CompletionQueue; 2],
    peer_pd: ProtectionDomain,
    domain: XrcDomain,
}

fn connect(one: &Context, other: &Context) -> Connection {
    let (pd, sent) = (one.alloc_pd().unwrap(), one.create_cq(64).unwrap());
    let builder = pd
        .queue_pair(QpType::XrcInitiator, &sent, &sent)
        .max_inline_data(64)
        .timeout(AckTimeout::code(14).unwrap())
        .max_rd_atomic(4);
    let initiator = builder.build().unwrap();

    let peer_pd = other.alloc_pd().unwrap();
    let domain = other.mlx5().unwrap().open_xrc_domain().unwrap();
    let got = [other.create_cq(64).unwrap(), other.create_cq(64).unwrap()];
    let queues = [0, 1].map(|at: usize| {
        domain
            .shared_receive_queue(&peer_pd, &got[at], SIZE)
            .user_data(at as u64)
            .build()
            .unwrap()
    });
    let builder = domain
        .target(&peer_pd, &got[0])
        .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ)
        .max_dest_rd_atomic(4)
        .timeout(AckTimeout::code(14).unwrap());
    let target = builder.build().unwrap();
    let (to, from) = (target.endpoint(), initiator.endpoint());
    Connection {
        initiator: initiator.handshake(to).unwrap(),
        target: target.handshake(from).unwrap().untyped(),
        pd,
        sent,
        queues,
        got,
        peer_pd,
        domain,
    }
}

#[test]
fn messages_go_to_the_shared_queue_that_the_sender_names() {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let mut c = connect(&one, &other);
    assert_ne!(c.queues[0].number(), c.queues[1].number());
    assert_eq!(
        (c.initiator.kind(), c.target.kind()),
        (QpType::XrcInitiator, QpType::XrcTarget)
    );
    let (from, to) = (
        Registered::local(&c.pd, 8192),
        Registered::local(&c.peer_pd, 8192),
    );
    from.fill(|at| u8::try_from(at % 241).unwrap());
    // Two rounds, so that slots of the queues are reused; each queue's requests have ids of their
    // own.
    for round in 0..40_u64 {
        let at = usize::try_from(round % 2).unwrap();
        let offset = round % 32 * 128;
        raw::recv_shared(&mut c.queues[at], 1000 + round, &[to.sge(offset, 128)]).unwrap();
        let sges = [from.sge(offset, 128)];
        let operation = Operation::SendImm(u32::try_from(round).unwrap());
        let request = SendRequest::new(operation, Payload::Gather(&sges))
            .wr_id(round)
            .signaled();
        let number = c.queues[at].number();
        mlx5::send_xrc(&mut c.initiator, &request, number).unwrap();
        let done = next(&mut c.sent);
        assert!(done.is_success() && done.wr_id == round, "{done:?}");
        let done = next(&mut c.got[at]);
        assert!(
            done.is_success() && done.wr_id == 1000 + round && done.byte_len == 128,
            "{done:?}"
        );
        assert_eq!(done.imm, Some(u32::try_from(round).unwrap()), "{done:?}");
        let offset = usize::try_from(offset).unwrap();
        assert_eq!(to.get(offset, 128), from.get(offset, 128));
        nothing(&mut c.got[1 - at]);
    }
    assert_eq!(c.target.query().unwrap().state, QpState::ReadyToSend);
}

#[test]
fn writes_and_reads_need_no_receive_and_an_immediate_takes_one() {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let mut c = connect(&one, &other);
    let from = Registered::local(&c.pd, 4096);
    let to = Registered::remote_all(&c.peer_pd, 4096);
    from.fill(|at| u8::try_from(at % 239).unwrap());
    let number = c.queues[1].number();
    let sges = [from.sge(0, 2048)];
    let write = SendRequest::write(&sges, to.remote(0)).signaled();
    mlx5::send_xrc(&mut c.initiator, &write, number).unwrap();
    assert!(next(&mut c.sent).is_success());
    assert_eq!(to.get(0, 2048), from.get(0, 2048));

    let sges = [from.sge(2048, 2048)];
    let read = SendRequest::read(&sges, to.remote(0)).signaled();
    mlx5::send_xrc(&mut c.initiator, &read, number).unwrap();
    assert!(next(&mut c.sent).is_success());
    assert_eq!(from.get(2048, 2048), from.get(0, 2048));

    raw::recv_shared(&mut c.queues[1], 5, &[]).unwrap();
    let bytes: [&[u8]; 1] = [b"written"];
    let operation = Operation::WriteImm(to.remote(3000), 0xfeed);
    let write = SendRequest::new(operation, Payload::Inline(&bytes)).signaled();
    mlx5::send_xrc(&mut c.initiator, &write, number).unwrap();
    assert!(next(&mut c.sent).is_success());
    let done = next(&mut c.got[1]);
    assert!(
        done.wr_id == 5 && done.byte_len == 7 && done.imm == Some(0xfeed),
        "{done:?}"
    );
    assert_eq!(to.get(3000, 7), b"written");
}

#[test]
fn owned_requests_name_their_shared_queue_one_by_one_and_in_batches() {
    let (one, other) = (open_named(&device_name()), open_named(&peer_name()));
    let c = connect(&one, &other);
    let (numbers, mut got) = (c.queues.each_ref().map(SharedReceiveQueue::number), c.got);
    let mut queues = c.queues.map(owned::SharedReceiveQueue::new);
    let initiator = c.initiator.typed(XrcInitiator).unwrap();
    let (mut initiator, mut sent) = (owned::QueuePair::new(initiator), c.sent);
    for (at, queue) in queues.iter_mut().enumerate() {
        for room in c.peer_pd.buffer_list(3, 64).unwrap() {
            queue.recv(room, 100 + at as u64).unwrap();
        }
    }
    let [mut text, spare] = c.pd.buffers::<2>(64).unwrap();
    text[..6].copy_from_slice(b"second");
    let work = Work::send().memory((text, 6)).user_data(1);
    initiator.post_to_srq(work, numbers[1]).unwrap();
    let inline = [&b"fi"[..], b"rst"];
    let work = Work::send_imm(9).user_data(2);
    initiator
        .post_inline_to_srq(work, &inline, numbers[0])
        .unwrap();
    let mut batch = initiator.batch();
    let work = Work::send().memory((spare, 0)).unsignaled();
    batch.push_to_srq(work, numbers[1]).unwrap();
    let work = Work::send().user_data(3);
    batch.push_to_srq(work, numbers[0]).unwrap();
    batch.submit().unwrap();

    for expected in 1..=3 {
        let done = until("a send", || {
            sent.poll()
                .unwrap()
                .map(|done| initiator.complete(done).expect("a request of this queue"))
        });
        assert!(
            done.status().is_success() && done.user_data() == expected,
            "{done:?}"
        );
    }
    assert!(initiator.released().unwrap().carried_out);
    assert_eq!(initiator.sends_posted(), 0);
    for (at, texts) in [[&b"first"[..], b""], [b"second", b""]].iter().enumerate() {
        for text in texts {
            let done = until("a message", || {
                got[at]
                    .poll()
                    .unwrap()
                    .map(|done| queues[at].complete(done).expect("a receive of this queue"))
            });
            assert_eq!(
                (done.bytes(), done.user_data()),
                (Some(*text), 100 + at as u64)
            );
        }
    }
}

#[test]
fn requests_without_a_shared_queue_and_on_other_queue_pairs_are_refused() {
    let context = open();
    let mut c = connect(&context, &context);
    let bytes: [&[u8]; 1] = [b"where to?"];
    let request = SendRequest::send_inline(&bytes);
    let error = c.initiator.send_batch().push_inline(&request).unwrap_err();
    assert_eq!(error, PostError::InvalidRequest);
    let error = mlx5::send_xrc(&mut c.target, &request, 1).unwrap_err();
    assert_eq!(error, PostError::UnsupportedOperation);
    let mut plain = verbs_tests::Pair::between(&context, &context, QpType::Rc, |builder| builder);
    let error = mlx5::send_xrc(&mut plain.a.qp, &request, 1).unwrap_err();
    assert_eq!(error, PostError::UnsupportedOperation);
    // It has no receive queue.
    let failed = raw::recv(&mut c.initiator, 0, &[]).unwrap_err();
    assert_eq!(failed.error, PostError::UnsupportedOperation);
}

#[test]
fn a_domain_outlives_its_handle() {
    let mut model = Model::open();
    let context = open();
    // The first leaves doorbell pages with the context.
    drop(connect(&context, &context));
    let census = model.ask("census 0");
    let c = connect(&context, &context);
    let error = c.domain.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let [first, second] = c.queues;
    drop((c.target, first));
    second.destroy().unwrap();
    drop((c.initiator, c.pd, c.sent, c.got, c.peer_pd));
    assert_eq!(model.ask("census 0"), census);
    assert_eq!(context.leaked(), 0);
    let domain = context.mlx5().unwrap().open_xrc_domain().unwrap();
    domain.close().unwrap();
}

#[test]
fn what_is_of_another_context_is_refused() {
    let (context, other) = (open(), open());
    let domain = context.mlx5().unwrap().open_xrc_domain().unwrap();
    let (pd, cq) = (other.alloc_pd().unwrap(), other.create_cq(4).unwrap());
    let error = domain.create_srq(&pd, &cq, SIZE, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = domain.target(&pd, &cq).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // A target without a domain, by the command that has no field for one.
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(4).unwrap());
    let error = pd
        .queue_pair(QpType::XrcTarget, &cq, &cq)
        .build()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn a_file_stands_for_a_domain() {
    let path = std::env::temp_dir().join("uverbs-xrc-domain");
    let file = std::fs::File::create(&path).unwrap();
    let shared = |create, exclusive| SharedXrcDomain {
        file: file.as_fd(),
        create,
        exclusive,
    };
    let open = || options().open(&device_name()).unwrap().mlx5().unwrap();
    let (one, two) = (open(), open());
    let error = one
        .open_shared_xrc_domain(&shared(false, false))
        .unwrap_err();
    assert_eq!(error.errno(), Some(uverbs::error::Errno::AGAIN), "{error}");
    let first = one.open_shared_xrc_domain(&shared(true, true)).unwrap();
    let second = two.open_shared_xrc_domain(&shared(false, false)).unwrap();
    let error = two.open_shared_xrc_domain(&shared(true, true)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    first.close().unwrap();
    second.close().unwrap();
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_receiver_is_opened_by_its_number_and_outlives_its_creator() {
    let path = std::env::temp_dir().join("uverbs-xrc-opened");
    let file = std::fs::File::create(&path).unwrap();
    let shared = SharedXrcDomain {
        file: file.as_fd(),
        create: true,
        exclusive: false,
    };
    let (one, two) = (open(), open());
    let domain = |context: &Context| {
        let adapter = context.mlx5().unwrap();
        adapter.open_shared_xrc_domain(&shared).unwrap()
    };
    let (domain_of_one, domain_of_two) = (domain(&one), domain(&two));
    let (pd, cq) = (two.alloc_pd().unwrap(), two.create_cq(16).unwrap());
    let target = domain_of_two.target(&pd, &cq).build().unwrap();
    let number = target.endpoint().qp_num;
    let mut opened = domain_of_one.open_target(number).unwrap();
    assert_eq!((opened.qp_num(), opened.state()), (number, QpState::Reset));

    let (own_pd, mut own_cq) = (one.alloc_pd().unwrap(), one.create_cq(16).unwrap());
    let mut queue = domain_of_one.create_srq(&own_pd, &own_cq, SIZE, 1).unwrap();
    let sender_cq = one.create_cq(16).unwrap();
    let builder = own_pd
        .queue_pair(QpType::XrcInitiator, &sender_cq, &sender_cq)
        .max_inline_data(64)
        .timeout(AckTimeout::code(14).unwrap());
    let initiator = builder.build().unwrap();
    let (to, from) = (target.endpoint(), initiator.endpoint());
    let mut initiator = initiator.handshake(to).unwrap();
    let target = target.handshake(from).unwrap();
    assert_eq!(opened.query().unwrap().state, target.state());
    assert_eq!(opened.state(), target.state());

    // Its creator is closed, with everything that it had.
    drop((target, cq, pd, domain_of_two, two));
    let bytes: [&[u8]; 1] = [b"still there"];
    let memory = Registered::local(&own_pd, 64);
    raw::recv_shared(&mut queue, 3, &[memory.sge(0, 64)]).unwrap();
    let request = SendRequest::send_inline(&bytes);
    mlx5::send_xrc(&mut initiator, &request, queue.number()).unwrap();
    let done = next(&mut own_cq);
    assert!(done.is_success() && done.wr_id == 3, "{done:?}");
    assert_eq!(memory.get(0, 11), b"still there");
    let error = domain_of_one.open_target(0xff_fffe).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    opened.close().unwrap();
    assert_eq!(one.leaked(), 0);
    std::fs::remove_file(path).unwrap();
}

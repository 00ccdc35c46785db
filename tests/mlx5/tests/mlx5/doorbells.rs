//! Doorbells that are allocated one by one, and those that a context has from the beginning, as on
//! kernels before 5.7.

use mlx5_tests::Model;
use uverbs::mlx5::Doorbells;
use uverbs::time::AckTimeout;
use uverbs::{
    CompletionQueue, Context, Notify, Operation, Payload, ProtectionDomain, QpType, QueuePair,
    SendRequest,
};
use verbs_tests::{DEADLINE, Registered, device_name, next, options, raw};

/// More than a context has doorbells for a single queue pair, and more than it has doorbells in
/// total.
const QUEUE_PAIRS: usize = 20;

fn open(doorbells: Doorbells) -> Context {
    let options = options().doorbells_of_mlx5(doorbells);
    options.open(&device_name()).unwrap()
}

/// A queue pair connected to itself.
fn own_peer(pd: &ProtectionDomain, cq: &CompletionQueue) -> QueuePair {
    let builder = pd
        .queue_pair(QpType::Rc, cq, cq)
        .max_send_wr(8)
        .max_recv_wr(8)
        .max_inline_data(128);
    let prepared = builder
        .timeout(AckTimeout::code(14).unwrap())
        .build()
        .unwrap();
    let own = prepared.endpoint();
    prepared.handshake(own).unwrap()
}

/// Sends messages with every kind of doorbell: one alone, short and longer than a block (these are
/// copied if the doorbell is the queue pair's own), and two at once.
fn talk(qp: &mut QueuePair, cq: &mut CompletionQueue, memory: &Registered) {
    memory.fill(|at| u8::try_from((at + 7 * qp.qp_num() as usize) % 251).unwrap());
    for (count, length) in [(1, 8), (1, 100), (2, 8), (1, 8), (2, 100)] {
        let sent = memory.get(0, length);
        let bytes: [&[u8]; 1] = [&sent];
        for at in 0..count {
            let place = 2048 + at * 128;
            let to = memory.sge(place as u64, u32::try_from(length).unwrap());
            raw::recv(qp, 100 + at as u64, &[to]).unwrap();
        }
        let requests: Vec<_> = (0..count)
            .map(|at| {
                SendRequest::new(Operation::Send, Payload::Inline(&bytes))
                    .wr_id(at as u64)
                    .signaled()
            })
            .collect();
        raw::send(qp, &requests).unwrap();
        for _ in 0..2 * count {
            let done = next(cq);
            assert!(done.is_success() && done.qp_num == qp.qp_num(), "{done:?}");
        }
        for at in 0..count {
            assert_eq!(memory.get(2048 + at * 128, length), sent);
        }
    }
}

fn all_talk(doorbells: Doorbells) {
    let context = open(doorbells);
    let (pd, mut cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
    let memory = Registered::local(&pd, 4096);
    let mut pairs: Vec<_> = (0..QUEUE_PAIRS).map(|_| own_peer(&pd, &cq)).collect();
    for _ in 0..2 {
        for qp in &mut pairs {
            talk(qp, &mut cq, &memory);
        }
    }
    // Doorbells that are freed are given to others.
    pairs.drain(..QUEUE_PAIRS / 2);
    pairs.extend((0..QUEUE_PAIRS / 2).map(|_| own_peer(&pd, &cq)));
    for qp in &mut pairs {
        talk(qp, &mut cq, &memory);
    }
    drop((pairs, cq, pd));
    assert_eq!(context.leaked(), 0);
}

#[test]
fn queue_pairs_with_doorbells_as_needed_talk() {
    all_talk(Doorbells::AsNeeded);
}

#[test]
fn queue_pairs_with_fixed_doorbells_talk() {
    all_talk(Doorbells::Fixed);
}

#[test]
fn threads_share_doorbells() {
    let context = open(Doorbells::AsNeeded);
    let pd = context.alloc_pd().unwrap();
    let own: Vec<_> = (0..4)
        .map(|_| own_peer(&pd, &context.create_cq(4).unwrap()))
        .collect();
    // The first six get a shared doorbell each, and the others join them.
    let mut shared: Vec<_> = (0..12)
        .map(|_| {
            let cq = context.create_cq(64).unwrap();
            let memory = Registered::local(&pd, 4096);
            (own_peer(&pd, &cq), cq, memory)
        })
        .collect();
    let (one, other) = shared.split_at_mut(6);
    std::thread::scope(|scope| {
        for half in [one, other] {
            scope.spawn(move || {
                for _ in 0..5 {
                    for (qp, cq, memory) in half.iter_mut() {
                        talk(qp, cq, memory);
                    }
                }
            });
        }
    });
    drop((shared, own));
    assert_eq!(context.leaked(), 0);
}

#[test]
fn completion_queues_are_armed_beside_fixed_doorbells() {
    let context = open(Doorbells::Fixed);
    let pd = context.alloc_pd().unwrap();
    let channel = context.create_completion_channel().unwrap();
    let mut cq = context
        .completion_queue(16)
        .channel(&channel)
        .build()
        .unwrap();
    let mut qp = own_peer(&pd, &cq);
    for round in 0..3 {
        cq.request_notification(Notify::Any).unwrap();
        raw::recv(&mut qp, round, &[]).unwrap();
        let request = SendRequest::send_inline(&[]);
        raw::send(&mut qp, &[request]).unwrap();
        let event = channel.event(Some(DEADLINE)).unwrap();
        assert!(event.is_some(), "no event of an armed queue");
        assert!(next(&mut cq).wr_id == round);
    }
}

#[test]
fn thread_domains_have_pages_beside_fixed_doorbells() {
    let context = open(Doorbells::Fixed);
    let (pd, mut cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
    let memory = Registered::local(&pd, 4096);
    let adapter = context.mlx5().unwrap();
    for _ in 0..2 {
        // The page of the first is also the second's, because the kernel hands it out only once.
        let thread = adapter.alloc_thread_domain().unwrap();
        let own = pd.with_thread_domain(&thread).unwrap();
        let mut pairs = [own_peer(&own, &cq), own_peer(&own, &cq)];
        for qp in &mut pairs {
            talk(qp, &mut cq, &memory);
        }
    }
}

#[test]
fn fixed_doorbells_go_with_the_context() {
    let mut model = Model::open();
    let census = model.ask("census 0");
    let context = open(Doorbells::Fixed);
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(64).unwrap());
    let qp = own_peer(&pd, &cq);
    assert_ne!(model.ask("census 0"), census);
    drop((qp, cq, pd, context));
    assert_eq!(model.ask("census 0"), census);
}

//! Thread domains: a UAR page for the queue pairs of one thread.

use mlx5_tests::Model;
use uverbs::mlx5::{Doorbells, ThreadDomain};
use uverbs::time::AckTimeout;
use uverbs::{Context, ErrorKind, Payload, QpType, QueuePair, SendRequest};
use verbs_tests::{Registered, device_name, next, open, options, raw};

struct Pair {
    ends: [QueuePair; 2],
    cq: uverbs::CompletionQueue,
    pd: uverbs::ProtectionDomain,
}

/// Two connected queue pairs of a parent domain.
fn pair(context: &Context, thread: &ThreadDomain) -> Pair {
    let (pd, cq) = (context.alloc_pd().unwrap(), context.create_cq(256).unwrap());
    let own = pd.with_thread_domain(thread).unwrap();
    assert!(own.is_same(&pd) && pd.is_same(&own));
    let [a, b] = [(), ()].map(|()| {
        let builder = own
            .queue_pair(QpType::Rc, &cq, &cq)
            .max_inline_data(64)
            .timeout(AckTimeout::code(14).unwrap());
        builder.build().unwrap()
    });
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    Pair {
        ends: [a.handshake(to_b).unwrap(), b.handshake(to_a).unwrap()],
        cq,
        pd,
    }
}

/// Sends a message in each direction with every kind of doorbell: a single request, which is
/// copied, and two at once.
fn talk(pair: &mut Pair) {
    let memory = Registered::local(&pair.pd, 4096);
    memory.fill(|at| u8::try_from(at % 251).unwrap());
    for round in 0..6_u64 {
        let from = usize::try_from(round % 2).unwrap();
        let count = 1 + round / 2 % 2;
        for at in 0..count {
            let to = memory.sge(2048 + at * 64, 64);
            raw::recv(&mut pair.ends[1 - from], 100 + at, &[to]).unwrap();
        }
        let sges = [memory.sge(round * 64, 64)];
        let requests: Vec<_> = (0..count)
            .map(|at| {
                SendRequest::new(uverbs::Operation::Send, Payload::Gather(&sges))
                    .wr_id(at)
                    .signaled()
            })
            .collect();
        raw::send(&mut pair.ends[from], &requests).unwrap();
        for _ in 0..2 * count {
            assert!(next(&mut pair.cq).is_success());
        }
        let sent = memory.get(usize::try_from(round).unwrap() * 64, 64);
        assert_eq!(memory.get(2048, 64), sent);
    }
}

#[test]
fn queue_pairs_of_a_thread_domain_are_rung_at_its_page() {
    let context = open();
    let thread = context.mlx5().unwrap().alloc_thread_domain().unwrap();
    let mut pairs = [pair(&context, &thread), pair(&context, &thread)];
    for _ in 0..2 {
        talk(&mut pairs[0]);
        talk(&mut pairs[1]);
    }
}

#[test]
fn threads_may_use_one_thread_domain_at_once() {
    let context = open();
    let thread = context.mlx5().unwrap().alloc_thread_domain().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut pair = pair(&context, &thread);
            scope.spawn(move || (0..20).for_each(|_| talk(&mut pair)));
        }
    });
}

#[test]
fn a_thread_domain_has_one_page_and_gives_it_back() {
    let mut model = Model::open();
    // With fixed doorbells, the kernel keeps such pages until the context is closed.
    let options = options().doorbells_of_mlx5(Doorbells::AsNeeded);
    let context = options.open(&device_name()).unwrap();
    let adapter = context.mlx5().unwrap();
    // The first leaves the page by which completion queues are armed.
    drop(context.create_cq(4).unwrap());
    let census = model.ask("census 0");
    let thread = adapter.alloc_thread_domain().unwrap();
    let with_page = model.ask("census 0");
    assert_ne!(with_page, census);
    let pd = context.alloc_pd().unwrap();
    let own = pd.with_thread_domain(&thread).unwrap();
    let clone = thread.clone();
    let error = thread.dealloc().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let cq = context.create_cq(4).unwrap();
    let qp = own.queue_pair(QpType::Rc, &cq, &cq).build().unwrap();
    // The domain underneath stays as long as what was created from it.
    let error = pd.dealloc().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(own);
    let error = clone.dealloc().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop((qp, cq));
    assert_eq!(model.ask("census 0"), census);
    let thread = adapter.alloc_thread_domain().unwrap();
    assert_eq!(model.ask("census 0"), with_page);
    thread.dealloc().unwrap();
    assert_eq!(model.ask("census 0"), census);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn a_thread_domain_of_another_context_is_refused() {
    let (context, other) = (open(), open());
    let thread = other.mlx5().unwrap().alloc_thread_domain().unwrap();
    let pd = context.alloc_pd().unwrap();
    let error = pd.with_thread_domain(&thread).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

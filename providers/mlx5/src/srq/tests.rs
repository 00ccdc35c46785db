//! Shared receive queues on a kernel that answers by a script.
#![allow(clippy::unwrap_used, reason = "tests")]

use uverbs_core::Errno;
use uverbs_core::contract::Srq as _;
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_IN,
};
use uverbs_uapi::ib_user_verbs::ib_uverbs_query_srq_resp;
use zerocopy::FromBytes as _;

use super::*;
use crate::cqe::CqShared;
use crate::cqe::ring::CqRing;
use crate::qp::XrcDomain;
use crate::tests::lender::Lender;
use crate::tests::native;
use crate::tests::scripted::{Replies, Scripted};
use crate::tracker::table::NO_NUMBER;

/// The device's number of each queue.
const NUMBER: u32 = 0x77;

/// An opened device with a protection domain.
struct Bench {
    kernel: Arc<Scripted>,
    context: Context,
    pd: ProtectionDomain,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Replies)) -> Self {
        let (kernel, context) = Scripted::context_with(|replies| {
            replies.opened.max_srq_recv_wr = 1024;
            change(replies);
        });
        let pd = kernel.pd(&context);
        kernel.answer_by_driver(&NUMBER.to_ne_bytes());
        kernel.take_calls();
        kernel.take_inputs(UVERBS_ATTR_UHW_IN);
        Self {
            kernel,
            context,
            pd,
        }
    }

    fn create(&self, init: &SrqInit) -> Result<SharedReceiveQueue> {
        SharedReceiveQueue::create(&self.context, &self.pd, init)
    }

    /// What the driver was told of the last queue.
    fn told(&self) -> mlx5_ib_create_srq {
        let inputs = self.kernel.take_inputs(UVERBS_ATTR_UHW_IN);
        let last = inputs.iter().rfind(|bytes| !bytes.is_empty()).unwrap();
        mlx5_ib_create_srq::read_from_bytes(last).unwrap()
    }

    /// The request of the last legacy command.
    fn requested(&self) -> Vec<u8> {
        self.kernel.take_inputs(UVERBS_ATTR_CORE_IN).pop().unwrap()
    }
}

fn init(limit: u32) -> SrqInit {
    SrqInit {
        kind: SrqType::Basic,
        attr: SrqAttr {
            max_wr: 10,
            max_sge: 2,
            limit,
        },
        user_handle: 0x1122,
    }
}

/// The numbers of a request for a change: the queue, what is changed, the size and the limit.
fn change(queue: &SharedReceiveQueue, limit: u32) -> Vec<u8> {
    let words = [queue.object.handle(), 2, 0, limit];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn put(queue: &mut SharedReceiveQueue, wr_id: u64) -> Result<(), PostError> {
    let request = RecvRequest {
        wr_id,
        scatter: &[],
    };
    // SAFETY: it names no memory.
    #[expect(unsafe_code, reason = "posts a receive")]
    unsafe {
        queue.put(&request)
    }
}

#[test]
fn the_kernel_is_told_where_the_queue_is() {
    for (faults, most) in [(false, 15_u32), (true, 31)] {
        let bench = Bench::with(|replies| replies.device.odp_caps.general_caps = faults.into());
        let queue = bench.create(&init(0)).unwrap();
        let (told, place) = (bench.told(), queue.place());
        assert_eq!((told.buf_addr, told.db_addr), (place.buffer, place.record));
        assert_eq!((told.uidx, told.flags), (0, 0));
        assert_eq!((place.count, place.stride), (16, 64));
        assert_eq!(queue.number(), NUMBER);
        let size = SrqAttr {
            max_wr: 15,
            max_sge: 3,
            limit: 0,
        };
        assert_eq!(queue.size(), size);
        let [call]: [String; 1] = bench.kernel.take_calls().try_into().unwrap();
        for number in [
            native(&0x1122_u64.to_ne_bytes()),
            native(&most.to_ne_bytes()),
            native(&3_u32.to_ne_bytes()),
        ] {
            assert!(call.contains(&format!("in={number}")), "{number}: {call}");
        }
        let error = Object::destroy_shared(Arc::clone(bench.pd.object())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        drop(queue);
        assert_eq!(bench.kernel.take_calls().len(), 1);
    }
}

#[test]
fn a_queue_with_a_limit_is_armed_once_it_exists() {
    let bench = Bench::new();
    let queue = bench.create(&init(15)).unwrap();
    assert_eq!(bench.kernel.take_calls().len(), 2);
    assert_eq!(bench.requested(), change(&queue, 15));
    let error = bench.create(&init(16)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    for fact in ["limit 16", "max 15"] {
        assert!(error.to_string().contains(fact), "{error}");
    }
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

#[test]
fn what_no_driver_creates_is_refused() {
    let bench = Bench::new();
    let domain = XrcDomain::open(&bench.context, None).unwrap();
    let cq = Arc::new(Object::new(bench.context.file(), &cmd::cq::KIND, 9, []));
    bench.kernel.take_calls();
    for kind in [SrqType::Xrc, SrqType::TagMatching] {
        let error = bench.create(&SrqInit { kind, ..init(0) }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("type "), "{error}");
    }
    for kind in [SrqType::Basic, SrqType::TagMatching] {
        let init = SrqInit { kind, ..init(0) };
        let made = domain.create_srq(&bench.context, &bench.pd, Link::plain(&cq), &init);
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let mut large = init(0);
    large.attr.max_wr = 1024;
    let error = bench.create(&large).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

#[test]
fn a_queue_is_armed_and_not_resized() {
    let bench = Bench::new();
    let mut queue = bench.create(&init(0)).unwrap();
    bench.kernel.take_calls();
    queue.modify(&SrqModify::new().limit(15)).unwrap();
    assert_eq!(bench.requested(), change(&queue, 15));
    queue.modify(&SrqModify::new().limit(0)).unwrap();
    assert_eq!(bench.requested(), change(&queue, 0));
    bench.kernel.take_calls();
    let error = queue.modify(&SrqModify::new().limit(16)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let error = queue.modify(&SrqModify::new().max_wr(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("max_wr 3"), "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    bench.kernel.refuse("", Errno::INVAL);
    let error = queue.modify(&SrqModify::new().limit(1)).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
}

#[test]
fn the_kernel_is_asked_for_the_limit_alone() {
    let bench = Bench::new();
    let queue = bench.create(&init(0)).unwrap();
    let reply = ib_uverbs_query_srq_resp {
        max_wr: 100,
        max_sge: 100,
        srq_limit: 4,
        ..ib_uverbs_query_srq_resp::default()
    };
    bench.kernel.answer(UVERBS_ATTR_CORE_OUT, reply.as_bytes());
    let expected = SrqAttr {
        limit: 4,
        ..queue.size()
    };
    assert_eq!(queue.query().unwrap(), expected);
    bench.kernel.refuse("", Errno::INVAL);
    queue.query().unwrap_err();
}

#[test]
fn receives_are_handed_over_when_they_are_submitted() {
    let bench = Bench::new();
    let mut queue = bench.create(&init(0)).unwrap();
    for wr_id in 0..15 {
        put(&mut queue, wr_id).unwrap();
    }
    assert_eq!(put(&mut queue, 15), Err(PostError::QueueFull));
    queue.abort();
    assert_eq!(queue.ring.tracker().submitted(), 0);
    for wr_id in 20..22 {
        put(&mut queue, wr_id).unwrap();
    }
    queue.submit().unwrap();
    assert_eq!(queue.ring.tracker().submitted(), 2);
    let link = queue.link();
    let tracker = link.shared::<Arc<crate::tracker::SrqTracker>>(Op::CreateQueuePair);
    assert_eq!(tracker.unwrap().completed(1), Some(21));
    assert!(Arc::ptr_eq(link.object, queue.object()));
    let mut numbers = Vec::new();
    queue.take_unreported(&mut |wr_id| numbers.push(wr_id));
    assert_eq!(numbers, [0; 0]);
}

#[test]
fn a_queue_of_a_domain_has_a_number_that_its_completions_carry() {
    for (version, index) in [(1, None), (0, Some(NO_NUMBER))] {
        let bench = Bench::with(|replies| replies.opened.cqe_version = version);
        let domain = XrcDomain::open(&bench.context, None).unwrap();
        let cq = Arc::new(Object::new(bench.context.file(), &cmd::cq::KIND, 0xc9, []));
        let completions = CqShared::new(&Arc::new(CqRing::alone(4, 64, 0).unwrap()));
        bench.kernel.take_calls();
        let kind = SrqType::Xrc;
        let link = Link::new(&cq, &completions);
        let init = SrqInit { kind, ..init(0) };
        let made = domain.create_srq(&bench.context, &bench.pd, link, &init);
        let queue = made.unwrap();
        let told = bench.told();
        match index {
            Some(index) => assert_eq!(told.uidx, index),
            None => assert!(told.uidx < NO_NUMBER, "{:#x}", told.uidx),
        }
        let calls = bench.kernel.take_calls();
        let named = format!("2:obj={} 3:obj=201", domain.object().handle());
        assert!(calls[0].contains(&named), "{calls:?}");
        for parent in [domain.object(), &cq, bench.pd.object()] {
            let error = Object::destroy_shared(Arc::clone(parent)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
        assert_eq!(queue.number(), NUMBER);
    }
}

#[test]
fn the_ring_is_in_memory_of_the_domains_allocator() {
    let mut bench = Bench::new();
    let lender = Lender::new();
    bench.pd = bench.pd.with_memory(Arc::clone(&lender) as _);
    let srq = bench.create(&init(8)).unwrap();
    let place = (bench.told().buf_addr, QueueBuffer::SharedReceiveQueue);
    assert_eq!(lender.lent(), [place]);
    drop(srq);
    assert_eq!(lender.lent(), []);
}

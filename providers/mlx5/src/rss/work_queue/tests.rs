#![allow(clippy::unwrap_used, reason = "tests")]

use uverbs_core::Errno;
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM,
    UVERBS_ATTR_UHW_IN,
};
use uverbs_uapi::ib_user_verbs::ib_uverbs_ex_create_rwq_ind_table_resp;
use zerocopy::FromBytes as _;

use super::*;
use crate::context::caps::StridingCaps;
use crate::cqe::ring::CqRing;
use crate::tests::lender::Lender;
use crate::tests::scripted::Scripted;

/// A context with a completion queue, of which the device uses nothing.
struct Bench {
    kernel: Arc<Scripted>,
    context: Context,
    pd: ProtectionDomain,
    cq: Arc<Object>,
    shared: Arc<CqShared>,
}

impl Bench {
    fn new() -> Self {
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        let cq = Arc::new(Object::new(context.file(), &cmd::cq::KIND, 0xc9, []));
        let shared = CqShared::new(&Arc::new(CqRing::alone(4, 64, 0).unwrap()));
        kernel.take_inputs(UVERBS_ATTR_UHW_IN);
        Self {
            kernel,
            context,
            pd,
            cq,
            shared,
        }
    }

    fn create(&self, max_wr: u32, number: u32) -> Result<WorkQueue> {
        self.create_with(max_wr, number, None)
    }

    fn create_with(
        &self,
        max_wr: u32,
        number: u32,
        striding: Option<Striding>,
    ) -> Result<WorkQueue> {
        self.kernel
            .answer(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &number.to_ne_bytes());
        let init = WorkQueueInit {
            cq: Link::new(&self.cq, &self.shared),
            max_wr,
            max_sge: 2,
            flags: Flags::empty(),
            user_handle: 5,
            striding,
        };
        WorkQueue::create(&self.context, &self.pd, &init)
    }
}

fn put(queue: &mut WorkQueue) -> Result<(), PostError> {
    // SAFETY: it names no memory.
    #[expect(unsafe_code, reason = "posts a receive")]
    unsafe {
        queue.put(&RecvRequest {
            wr_id: 1,
            scatter: &[],
        })
    }
}

#[test]
fn the_kernel_is_told_where_the_queue_is() {
    let bench = Bench::new();
    let queue = bench.create(10, 0x77).unwrap();
    assert_eq!((queue.number(), queue.size().0), (0x77, 16));
    let place = queue.place();
    let inputs = bench.kernel.take_inputs(UVERBS_ATTR_UHW_IN);
    let told = mlx5_ib_create_wq::read_from_bytes(&inputs[0]).unwrap();
    assert_eq!((told.buf_addr, told.db_addr), (place.buffer, place.record));
    assert_eq!(
        (told.rq_wqe_count, 1 << told.rq_wqe_shift),
        (16, place.stride)
    );
    let error = bench.create(0, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = bench.create(1 << 20, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn requests_that_hold_several_packets_have_a_form_of_their_own() {
    let bench = Bench::new();
    // The device here reports 0 for each limit.
    let strides = Striding {
        shifts_two_bytes: true,
        ..Striding::default()
    };
    let mut queue = bench.create_with(10, 0x77, Some(strides)).unwrap();
    let inputs = bench.kernel.take_inputs(UVERBS_ATTR_UHW_IN);
    let told = mlx5_ib_create_wq::read_from_bytes(&inputs[0]).unwrap();
    assert_eq!((told.comp_mask, told.two_byte_shift_en), (1, 1));
    // A unit before the two entries: four units, as a power of two.
    assert_eq!((told.rq_wqe_shift, queue.size()), (6, (16, 3)));
    queue.modify(State::Reset, State::Ready).unwrap();
    assert_eq!(put(&mut queue), Err(PostError::UnsupportedOperation));
    for refused in [
        Striding {
            log_bytes: 6,
            ..strides
        },
        Striding {
            log_strides: 9,
            ..strides
        },
    ] {
        let error = bench.create_with(10, 1, Some(refused)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let caps = StridingCaps {
        min_log_bytes: 6,
        max_log_bytes: 13,
        min_log_strides: 9,
        max_log_strides: 16,
        ..StridingCaps::default()
    };
    let check = |log_bytes, log_strides| {
        let strides = Striding {
            log_bytes,
            log_strides,
            shifts_two_bytes: false,
        };
        strides.check(Op::CreateWorkQueue, &caps).is_ok()
    };
    assert!(check(6, 9) && check(13, 16));
    assert!(!check(5, 9) && !check(14, 9) && !check(6, 8) && !check(6, 17));
    let mut driver_data = mlx5_ib_create_wq::default();
    Striding {
        log_bytes: 7,
        log_strides: 10,
        shifts_two_bytes: false,
    }
    .encode(&mut driver_data);
    assert_eq!(
        (
            driver_data.single_stride_log_num_of_bytes,
            driver_data.single_wqe_log_num_of_strides,
            driver_data.two_byte_shift_en,
        ),
        (7, 10, 0)
    );
}

#[test]
fn receives_are_posted_when_it_is_ready() {
    let bench = Bench::new();
    let mut queue = bench.create(4, 1).unwrap();
    assert!(put(&mut queue).is_err(), "it is reset");
    queue.modify(State::Reset, State::Ready).unwrap();
    for _ in 0..4 {
        put(&mut queue).unwrap();
    }
    assert_eq!(put(&mut queue), Err(PostError::QueueFull));
    queue.abort();
    put(&mut queue).unwrap();
    queue.submit().unwrap();
    for _ in 0..3 {
        put(&mut queue).unwrap();
    }
    assert_eq!(
        put(&mut queue),
        Err(PostError::QueueFull),
        "one is submitted"
    );
    queue.modify(State::Ready, State::Reset).unwrap();
    assert!(put(&mut queue).is_err());
    queue.modify(State::Reset, State::Ready).unwrap();
    for _ in 0..4 {
        put(&mut queue).unwrap();
    }
}

#[test]
fn after_a_reset_of_unknown_outcome_only_a_reset_is_allowed() {
    let bench = Bench::new();
    let mut queue = bench.create(4, 1).unwrap();
    queue.modify(State::Reset, State::Ready).unwrap();
    bench.kernel.refuse("", Errno::INVAL);
    assert!(queue.modify(State::Ready, State::Reset).is_err());
    assert_eq!(put(&mut queue), Ok(()), "it was not reset");
    queue.abort();
    bench.kernel.accept();
    bench.kernel.refuse("", Errno::TIMEDOUT);
    let error = queue.modify(State::Ready, State::Reset).unwrap_err();
    assert!(error.outcome_is_unknown(), "{error}");
    assert!(put(&mut queue).is_err(), "it may be reset");
    bench.kernel.accept();
    bench.kernel.take_calls();
    let error = queue.modify(State::Reset, State::Ready).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
    queue.modify(State::Ready, State::Reset).unwrap();
    queue.modify(State::Reset, State::Ready).unwrap();
    assert_eq!(put(&mut queue), Ok(()));
}

#[test]
fn a_table_has_a_power_of_two_queues() {
    let bench = Bench::new();
    let queues = [1, 2, 3].map(|number| bench.create(4, number).unwrap());
    let reply = ib_uverbs_ex_create_rwq_ind_table_resp {
        ind_tbl_handle: 0x71,
        ind_tbl_num: 0x72,
        ..Default::default()
    };
    bench.kernel.answer(UVERBS_ATTR_CORE_OUT, reply.as_bytes());
    bench.kernel.take_inputs(UVERBS_ATTR_CORE_IN);
    let pair = [&queues[0], &queues[1]];
    let table = IndirectionTable::create(&bench.context, &pair).unwrap();
    assert_eq!((table.number(), table.object().handle()), (0x72, 0x71));
    let request = &bench.kernel.take_inputs(UVERBS_ATTR_CORE_IN)[0];
    let handles = pair.map(|queue| queue.object().handle().to_ne_bytes());
    assert_eq!(request[4..8], 1_u32.to_ne_bytes(), "log2 of their number");
    assert_eq!(request[8..16], *handles.as_flattened());
    let three = [&queues[0], &queues[1], &queues[2]];
    let error = IndirectionTable::create(&bench.context, &three).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = Object::destroy_shared(Arc::clone(queues[0].object())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

#[test]
fn a_change_of_state_names_both_states() {
    let bench = Bench::new();
    let mut queue = bench.create(4, 1).unwrap();
    for (from, to, numbers) in [
        (State::Reset, State::Ready, [1, 0]),
        (State::Ready, State::Error, [2, 1]),
        (State::Error, State::Reset, [0, 2]),
    ] {
        bench.kernel.take_inputs(UVERBS_ATTR_CORE_IN);
        queue.modify(from, to).unwrap();
        let request = &bench.kernel.take_inputs(UVERBS_ATTR_CORE_IN)[0];
        let words = [3, queue.object().handle(), numbers[0], numbers[1], 0, 0];
        let words: [[u8; 4]; 6] = words.map(u32::to_ne_bytes);
        assert_eq!(request[..], *words.as_flattened());
    }
}

#[test]
fn a_queue_that_is_in_use_keeps_what_it_was_created_from() {
    let bench = Bench::new();
    let queue = bench.create(4, 1).unwrap();
    for parent in [bench.pd.object(), &bench.cq] {
        let error = Object::destroy_shared(Arc::clone(parent)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
    assert_eq!(queue.size(), (4, 2));
    let place = queue.place();
    assert_eq!((place.count, place.stride), (4, 32));
    assert_ne!((place.buffer, place.record), (0, 0));
}

#[test]
fn a_kernel_without_numbers_of_our_own_has_no_work_queues() {
    let (kernel, context) = Scripted::context_with(|replies| replies.opened.cqe_version = 0);
    let bench = Bench {
        pd: kernel.pd(&context),
        kernel,
        context,
        ..Bench::new()
    };
    bench.kernel.take_calls();
    let error = bench.create(4, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

#[test]
fn the_ring_is_in_memory_of_the_domains_allocator() {
    let mut bench = Bench::new();
    let lender = Lender::new();
    bench.pd = bench.pd.with_memory(Arc::clone(&lender) as _);
    let queue = bench.create(5, 0x77).unwrap();
    let told = bench.kernel.take_inputs(UVERBS_ATTR_UHW_IN).pop().unwrap();
    let told = mlx5_ib_create_wq::read_from_bytes(&told).unwrap();
    assert_eq!(lender.lent(), [(told.buf_addr, QueueBuffer::WorkQueue)]);
    drop(queue);
    assert_eq!(lender.lent(), []);
}

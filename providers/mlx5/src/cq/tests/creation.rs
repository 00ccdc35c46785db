//! What the kernel is told of a queue.

use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_CORE_IN;
use uverbs_uapi::mlx5_abi::MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS;

use super::*;

/// The flag of driver data that contains a page.
const PAGED: u16 = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX as u16;

#[test]
fn the_kernel_is_told_where_the_queue_is() {
    let bench = Bench::new();
    let cq = bench.create(&init(100)).unwrap();
    let told: mlx5_ib_create_cq = bench.told();
    let place = cq.place();
    assert_eq!((told.buf_addr, told.db_addr), (place.buffer, place.record));
    assert_eq!((place.count, place.stride), (128, 64));
    assert_eq!((cq.entries(), cq.number()), (127, NUMBER));
    assert_eq!((told.cqe_size, told.flags), (64, PAGED));
    assert_eq!((told.uar_page_index, told.cqe_comp_en), (7, 0));
    assert_eq!(cq.arm_page() % 4096, 0);
    assert_eq!(cq.arm_page() + 0x20, cq.arm.address());
    let calls = bench.kernel.take_calls();
    let create = calls.last().unwrap();
    assert!(create.starts_with("3/0 "), "{create}");
    let entries = format!("in={}", crate::tests::native(&127_u32.to_ne_bytes()));
    assert!(create.contains(&entries), "{create}");
    drop(cq);
    assert_eq!(bench.kernel.take_calls().len(), 1);
}

#[test]
fn long_entries_are_twice_as_far_apart() {
    let bench = Bench::new();
    let long = Entries {
        size: EntrySize::Long,
        ..Entries::default()
    };
    let cq = CompletionQueue::create(&bench.context, &init(3), long).unwrap();
    let told: mlx5_ib_create_cq = bench.told();
    assert_eq!(
        (told.cqe_size, cq.place().stride, cq.entries()),
        (128, 128, 3)
    );
    let padded = Entries {
        size: EntrySize::Padded,
        ..long
    };
    bench.kernel.take_calls();
    let error = CompletionQueue::create(&bench.context, &init(3), padded).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

#[test]
fn a_page_with_a_large_number_is_named_by_an_attribute() {
    for (page, index) in [(0xffff, Some(0xffff)), (0x1_0000, None), (u32::MAX, None)] {
        let bench = Bench::new();
        bench.page(page);
        let _cq = bench.create(&init(1)).unwrap();
        let told: mlx5_ib_create_cq = bench.told();
        let flags = index.map_or(0, |_| PAGED);
        assert_eq!(
            (told.flags, told.uar_page_index),
            (flags, index.unwrap_or(0))
        );
        let calls = bench.kernel.take_calls();
        let number = format!("+2:in={}", crate::tests::native(&page.to_ne_bytes()));
        let named = calls.last().unwrap().contains(&number);
        assert_eq!(named, index.is_none(), "{calls:?}");
    }
}

#[test]
fn a_fixed_page_is_not_named() {
    let bench = Bench::with(|opened| opened.tot_bfregs = 16);
    bench.kernel.refuse("+8", Errno::PROTONOSUPPORT);
    let _cq = bench.create(&init(1)).unwrap();
    let told: mlx5_ib_create_cq = bench.told();
    assert_eq!((told.flags, told.uar_page_index), (0, 0));
    let calls = bench.kernel.take_calls();
    assert!(!calls.last().unwrap().contains("+2:in="), "{calls:?}");
}

#[test]
fn a_ring_has_room_for_one_more() {
    let op = Op::CreateCompletionQueue;
    let log = |entries| log_of(op, entries, u32::MAX).unwrap();
    let logs = [1, 2, 3, 4, 7, 8, 0xff_fffe, 0xff_ffff].map(log);
    assert_eq!(logs, [1, 2, 2, 3, 3, 4, 24, 24]);
    let error = log_of(op, 0x100_0000, u32::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    for fact in ["requested 16777216", "max_cqe 16777215"] {
        assert!(error.to_string().contains(fact), "{error}");
    }
    assert_eq!(log_of(op, 1000, 1000).unwrap(), 10);
    let error = log_of(op, 1001, 1000).unwrap_err();
    assert!(error.to_string().contains("max_cqe 1000"), "{error}");
    let error = log_of(op, 0, 1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let bench = Bench::new();
    bench.kernel.take_calls();
    for entries in [0, 1001] {
        bench.create(&init(entries)).unwrap_err();
    }
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

/// The flags of the last creation.
fn flags(bench: &Bench) -> u64 {
    let calls = bench.kernel.take_calls();
    let (_, flags) = calls.last().unwrap().split_once("const=0x").unwrap();
    u64::from_str_radix(flags.split(' ').next().unwrap(), 16).unwrap()
}

#[test]
fn options_are_requested_by_flags() {
    let bench = Bench::new();
    let stamps = CqCreateFlags::TIMESTAMP_COMPLETION;
    for (timestamps, ignores_overrun, expected) in [
        (Timestamps::None, true, CqCreateFlags::IGNORE_OVERRUN),
        (Timestamps::Raw, false, stamps),
        (
            Timestamps::Raw,
            true,
            stamps | CqCreateFlags::IGNORE_OVERRUN,
        ),
    ] {
        let _cq = bench
            .create(&CqInit {
                timestamps,
                ignores_overrun,
                ..init(1)
            })
            .unwrap();
        assert_eq!(flags(&bench), u64::from(expected.bits()));
        assert_eq!(bench.told::<mlx5_ib_create_cq>().flags, PAGED);
    }
}

#[test]
fn the_device_keeps_the_time_of_day_where_it_can() {
    let bench = Bench::with(|opened| {
        opened.comp_mask |= uverbs_uapi::mlx5_abi::MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS;
    });
    let wall = CqInit {
        timestamps: Timestamps::WallClock,
        ..init(3)
    };
    let mut cq = bench.create(&wall).unwrap();
    let flag = MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS as u16;
    assert_eq!(bench.told::<mlx5_ib_create_cq>().flags, PAGED | flag);
    let mut device = Device::new(&bench.context, &cq);
    device.send(&cq, (2 << 32) + 7);
    let (_, stamp) = cq.poll_stamped().unwrap().unwrap();
    assert_eq!(stamp, Some(2_000_000_008));
    // Without that, counts are converted, which needs a clock.
    let error = Bench::new().create(&wall).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn a_device_without_a_clock_has_no_timestamps() {
    let (_, context) = Scripted::context_with(|replies| replies.device.base.max_cqe = 1000);
    let raw = CqInit {
        timestamps: Timestamps::Raw,
        ..init(3)
    };
    let error = CompletionQueue::create(&context, &raw, Entries::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.known_hint(), Some("the device has no clock"));
}

#[test]
fn moderation_is_requested_of_the_queue() {
    let bench = Bench::new();
    let cq = bench.create(&init(3)).unwrap();
    bench.kernel.take_inputs(UVERBS_ATTR_CORE_IN);
    cq.moderate(0x102, 0x304).unwrap();
    let [request]: [Vec<u8>; 1] = bench
        .kernel
        .take_inputs(UVERBS_ATTR_CORE_IN)
        .try_into()
        .unwrap();
    let mut expected = cq.object().handle().to_ne_bytes().to_vec();
    expected.extend(1_u32.to_ne_bytes());
    expected.extend([0x102_u16, 0x304].map(u16::to_ne_bytes).as_flattened());
    expected.extend([0; 4]);
    assert_eq!(request, expected);
    bench.kernel.refuse("", Errno::OPNOTSUPP);
    let error = cq.moderate(1, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn rings_are_in_memory_of_the_allocator_those_of_resizes_too() {
    let bench = Bench::new();
    let lender = Lender::new();
    let memory: Arc<dyn QueueMemory> = Arc::clone(&lender) as _;
    let init = CqInit {
        memory: Some(&memory),
        ..init(100)
    };
    let mut cq = bench.create(&init).unwrap();
    let told: mlx5_ib_create_cq = bench.told();
    assert_eq!(
        lender.lent(),
        [(told.buf_addr, QueueBuffer::CompletionQueue)]
    );
    // The device does not play along.
    cq.resize(500).unwrap_err();
    let told: mlx5_ib_resize_cq = bench.told();
    let last = lender.lent().pop().unwrap();
    assert_eq!(last, (told.buf_addr, QueueBuffer::CompletionQueue));
    drop(cq);
    assert_eq!(lender.lent(), []);
}

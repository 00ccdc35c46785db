//! What is requested for each kind of queue pair, and what is refused.

use uverbs_core::Op;
use uverbs_core::contract::TypedQp as _;
use uverbs_core::hw::QueueBuffer;
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_CORE_OUT;
use uverbs_uapi::ib_user_verbs::ib_uverbs_ex_create_rwq_ind_table_resp;
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE, MLX5_QP_FLAG_DCI_STREAM, MLX5_QP_FLAG_SCATTER_CQE,
    mlx5_ib_create_qp_resp, mlx5_ib_create_qp_rss,
};

use super::*;
use crate::qp::RawNumbers;
use crate::rss::work_queue::{Flags, IndirectionTable, WorkQueue, WorkQueueInit};
use crate::rss::{HASH_KEY, Hash, HashFields};
use crate::tests::lender::Lender;

fn scattering() -> QpExtra {
    let mut extra = QpExtra::default();
    extra.scatters = true;
    extra
}

#[test]
fn the_send_queue_is_behind_the_receive_queue() {
    let bench = Bench::new();
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let qp = bench
            .create(&QpExtra::default(), &bench.init(kind))
            .unwrap();
        let (told, place) = (bench.told(), qp.place());
        assert_eq!((told.buf_addr, told.sq_buf_addr), (place.recv.buffer, 0));
        let bytes = u64::from(place.recv.count * place.recv.stride);
        assert_eq!(place.send.buffer, place.recv.buffer + bytes);
        assert_eq!((place.recv.count, place.recv.stride), (8, 32));
        assert_eq!(
            (place.send.count, place.send.stride),
            (told.sq_wqe_count, 64)
        );
        assert_eq!(1 << told.rq_wqe_shift, place.recv.stride);
        assert_eq!(place.send.record, told.db_addr);
        assert_eq!(place.recv.record, told.db_addr);
        assert_eq!(place.doorbell % 4096, 0x800);
        assert_eq!((told.ece_options, qp.raw_numbers()), (0, None));
        let caps = qp.base().caps;
        assert_eq!((caps.max_recv_wr, caps.max_recv_sge), (8, 2));
        assert_eq!(caps.max_send_sge, 2);
        assert!(caps.max_send_wr >= 16, "{caps:?}");
        assert!(u64::from(told.uidx) < 0xff_ffff);
    }
}

#[test]
fn a_raw_packet_queue_pair_has_two_queues_and_their_numbers() {
    let bench = Bench::new();
    let reply = mlx5_ib_create_qp_resp {
        comp_mask: 0b1001,
        tirn: 1,
        tisn: 2,
        rqn: 3,
        sqn: 4,
        ..mlx5_ib_create_qp_resp::default()
    };
    bench.kernel.answer_by_driver(reply.as_bytes());
    let init = bench.init(QpType::RawPacket);
    let qp = bench.create(&QpExtra::default(), &init).unwrap();
    let (told, place) = (bench.told(), qp.place());
    assert_eq!(told.buf_addr, place.recv.buffer);
    assert_eq!(told.sq_buf_addr, place.send.buffer);
    let numbers = RawNumbers {
        tirn: 1,
        tisn: 0,
        rqn: 0,
        sqn: 4,
    };
    assert_eq!(qp.raw_numbers(), Some(numbers));
    let with_headers = bench
        .create(&QpExtra::default().with_headers(64), &init)
        .unwrap();
    assert!(bench.told().sq_wqe_count > told.sq_wqe_count);
    let old = Bench::with(|replies| replies.opened.cqe_version = 0);
    let error = old.refused(&QpExtra::default(), &old.init(QpType::RawPacket));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    drop(with_headers);
}

#[test]
fn options_of_establishment_are_offered_where_the_kernel_has_them() {
    let bench = Bench::with(|replies| {
        replies.opened.comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE;
    });
    let reply = mlx5_ib_create_qp_resp {
        ece_options: 0x1000_0007,
        ..mlx5_ib_create_qp_resp::default()
    };
    bench.kernel.answer_by_driver(reply.as_bytes());
    let init = bench.init(QpType::Rc);
    let mut qp = bench.create(&QpExtra::default(), &init).unwrap();
    assert_eq!(bench.told().ece_options, 0x1000_0000);
    let offered = qp.ece().unwrap();
    assert_eq!(offered.options, 0x1000_0007);
    qp.check_ece(&offered).unwrap();
    qp.set_ece(&offered).unwrap();
    let agreed = mlx5_ib_modify_qp_resp {
        response_length: 16,
        ece_options: 0x1000_0003,
        ..mlx5_ib_modify_qp_resp::default()
    };
    bench.kernel.answer_by_driver(agreed.as_bytes());
    qp.modify(&initialised()).unwrap();
    assert_eq!(qp.ece().unwrap().options, 0x1000_0003);
    let other = uverbs_core::types::Ece {
        vendor_id: 1,
        ..offered
    };
    assert!(qp.check_ece(&other).is_err() && qp.set_ece(&other).is_err());
}

type Change = fn(&mut QpCaps, u32);

#[test]
fn announced_limits_are_kept() {
    let bench = Bench::with(|replies| {
        replies.device.base.max_qp_wr = 100;
        replies.device.base.max_sge = 4;
    });
    let plain = QpExtra::default();
    let sizes: [(&str, u32, Change); 4] = [
        ("max_send_wr", 100, |caps, value| caps.max_send_wr = value),
        ("max_recv_wr", 100, |caps, value| caps.max_recv_wr = value),
        ("max_send_sge", 4, |caps, value| caps.max_send_sge = value),
        ("max_recv_sge", 4, |caps, value| caps.max_recv_sge = value),
    ];
    for (name, most, change) in sizes {
        let mut init = bench.init(QpType::Rc);
        change(&mut init.caps, most);
        drop(bench.create(&plain, &init).unwrap());
        bench.kernel.take_calls();
        change(&mut init.caps, most + 1);
        let error = bench.refused(&plain, &init);
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        // A queue pair that receives from a shared queue has none of its own.
        init.srq = Some(Link::new(&bench.srq, &bench.receives));
        let made = bench.create(&plain, &init);
        assert_eq!(made.is_ok(), name.contains("recv"), "{name}");
        drop(made);
        bench.kernel.take_calls();
    }
}

#[test]
fn flags_that_the_driver_may_support_are_requested() {
    let bench = Bench::new();
    let known = QpCreateFlags::BLOCK_MULTICAST_LOOPBACK
        | QpCreateFlags::SCATTER_FCS
        | QpCreateFlags::CVLAN_STRIPPING
        | QpCreateFlags::PCI_WRITE_END_PADDING
        | QpCreateFlags::SQ_SIG_ALL;
    for bit in 0..32 {
        let flags = QpCreateFlags::from_bits_retain(1 << bit);
        let init = QpInit {
            flags,
            ..bench.init(QpType::RawPacket)
        };
        bench.kernel.take_calls();
        if known.contains(flags) {
            drop(bench.create(&QpExtra::default(), &init).unwrap());
        } else {
            let error = bench.refused(&QpExtra::default(), &init);
            let kinds = [ErrorKind::Unsupported, ErrorKind::InvalidInput];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    }
}

#[test]
fn messages_in_completions_are_for_connections_with_a_queue_of_their_own() {
    let bench = Bench::new();
    let init = |kind| QpInit {
        signal: SigMode::Requested,
        ..bench.init(kind)
    };
    for kind in [QpType::Rc, QpType::Uc] {
        let mut qp = bench.create(&scattering(), &init(kind)).unwrap();
        let told = bench.told();
        assert_ne!(told.flags & MLX5_QP_FLAG_SCATTER_CQE, 0);
        assert_eq!(qp.place().recv.buffer, told.buf_addr);
        assert_eq!(qp.receiver().unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(qp.sender().is_ok());
    }
    bench.kernel.take_calls();
    let connection = init(QpType::Rc);
    let shared = QpInit {
        srq: Some(Link::new(&bench.srq, &bench.receives)),
        ..connection
    };
    let signaled = QpInit {
        flags: QpCreateFlags::SQ_SIG_ALL,
        ..connection
    };
    for (init, fact) in [
        (init(QpType::Ud), "type UD"),
        (shared, "srq "),
        (bench.init(QpType::Rc), "signal_all "),
        (signaled, "signal_all "),
    ] {
        let error = bench.refused(&scattering(), &init);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(fact), "{error}");
    }
    let mut target = QpExtra::dc_target(1);
    target.scatters = true;
    let error = bench.refused(&target, &init(QpType::Driver));
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("scatter_to_completions"));
}

#[test]
fn typed_ends_are_of_plain_queue_pairs() {
    let bench = Bench::new();
    let shared = Some(Link::new(&bench.srq, &bench.receives));
    for (kind, srq, sends, receives) in [
        (QpType::Rc, None, true, true),
        (QpType::Uc, None, true, true),
        (QpType::Ud, None, true, true),
        (QpType::Rc, shared, true, false),
        (QpType::RawPacket, None, false, true),
        (QpType::XrcInitiator, None, false, false),
    ] {
        let init = QpInit {
            srq,
            ..bench.init(kind)
        };
        let mut qp = bench.create(&QpExtra::default(), &init).unwrap();
        let refusals = [
            (qp.sender().err(), sends, Op::PostSend),
            (qp.receiver().err(), receives, Op::PostReceive),
        ];
        for (refusal, has, op) in refusals {
            assert_eq!(refusal.is_none(), has, "{kind}");
            if let Some(error) = refusal {
                assert_eq!((error.kind(), error.op()), (ErrorKind::Unsupported, op));
                let fact = format!("type {kind}");
                assert!(error.to_string().contains(&fact), "{error}");
            }
        }
    }
}

#[test]
fn streams_are_requested_by_their_logarithms() {
    let bench = Bench::with(|replies| {
        replies.caps.dci_streams_caps.max_log_num_concurent = 3;
        replies.caps.dci_streams_caps.max_log_num_errored = 2;
    });
    let init = bench.init(QpType::Driver);
    let streams = |log_concurrent| Streams {
        log_concurrent,
        log_errored: 2,
    };
    let extra = QpExtra::dc_initiator().with_streams(streams(3));
    let qp = bench.create(&extra, &init).unwrap();
    let told = bench.told();
    assert_eq!(
        told.flags & (MLX5_QP_FLAG_DCI_STREAM | MLX5_QP_FLAG_TYPE_DCI),
        MLX5_QP_FLAG_DCI_STREAM | MLX5_QP_FLAG_TYPE_DCI
    );
    let requested = told.dci_streams;
    assert_eq!(
        (requested.log_num_concurent, requested.log_num_errored),
        (3, 2)
    );
    assert_eq!(qp.streams(), 8);
    bench.kernel.take_calls();
    let extra = QpExtra::dc_initiator().with_streams(streams(4));
    let error = bench.refused(&extra, &init);
    assert!(
        error.to_string().contains("log_streams 4, max 3"),
        "{error}"
    );
    let extra = QpExtra::dc_initiator().with_streams(Streams {
        log_concurrent: 3,
        log_errored: 3,
    });
    let error = bench.refused(&extra, &init);
    assert!(
        error.to_string().contains("log_errored 3, max 2"),
        "{error}"
    );
}

#[test]
fn a_spreading_queue_pair_has_no_queues_of_its_own() {
    let bench = Bench::with(|replies| {
        replies.caps.rss_caps.rx_hash_fields_mask = 3;
        replies.caps.rss_caps.rx_hash_function = 1;
    });
    let queue = WorkQueue::create(
        &bench.context,
        &bench.pd,
        &WorkQueueInit {
            cq: Link::new(&bench.cq, &bench.completions),
            max_wr: 4,
            max_sge: 1,
            flags: Flags::empty(),
            user_handle: 1,
            striding: None,
        },
    )
    .unwrap();
    let reply = ib_uverbs_ex_create_rwq_ind_table_resp {
        ind_tbl_handle: 0x71,
        ind_tbl_num: 0x72,
        ..Default::default()
    };
    bench.kernel.answer(UVERBS_ATTR_CORE_OUT, reply.as_bytes());
    let table = IndirectionTable::create(&bench.context, &[&queue]).unwrap();
    let reply = mlx5_ib_create_qp_resp {
        tirn: 0x88,
        ..mlx5_ib_create_qp_resp::default()
    };
    bench.kernel.answer_by_driver(reply.as_bytes());
    let hash = Hash {
        fields: HashFields::SOURCE_IPV4,
        key: [7; HASH_KEY],
    };
    bench.kernel.take_inputs(UVERBS_ATTR_UHW_IN);
    let made = QueuePair::spreading(&bench.context, &bench.pd, &table, &hash, 5);
    let mut qp = made.unwrap();
    let inputs = bench.kernel.take_inputs(UVERBS_ATTR_UHW_IN);
    let told = mlx5_ib_create_qp_rss::read_from_bytes(inputs.last().unwrap()).unwrap();
    assert_eq!(told.rx_hash_fields_mask, HashFields::SOURCE_IPV4.bits());
    assert_eq!((told.rx_hash_function, told.rx_key_len), (1, 40));
    assert_eq!(qp.raw_numbers().unwrap().tirn, 0x88);
    assert_eq!(qp.base().kind, QpType::RawPacket);
    assert_eq!(put(&mut qp), Err(PostError::UnsupportedOperation));
    assert_eq!(qp.place(), crate::qp::QpPlace::default());
    let error = Object::destroy_shared(Arc::clone(table.object())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    let fields = HashFields::DESTINATION_TCP;
    let refused = QueuePair::spreading(
        &bench.context,
        &bench.pd,
        &table,
        &Hash { fields, ..hash },
        5,
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn the_rings_are_in_memory_of_the_domains_allocator() {
    let mut bench = Bench::new();
    let lender = Lender::new();
    bench.pd = bench.pd.with_memory(Arc::clone(&lender) as _);
    let create = |kind| {
        bench
            .create(&QpExtra::default(), &bench.init(kind))
            .unwrap()
    };
    let qp = create(QpType::Rc);
    let told = bench.told();
    assert_eq!(lender.lent(), [(told.buf_addr, QueueBuffer::QueuePair)]);
    drop(qp);
    assert_eq!(lender.lent(), []);
    let qp = create(QpType::RawPacket);
    let told = bench.told();
    let places = [told.buf_addr, told.sq_buf_addr].map(|at| (at, QueueBuffer::QueuePair));
    assert_eq!(lender.lent(), places);
    drop(qp);
    assert_eq!(lender.lent(), []);
}

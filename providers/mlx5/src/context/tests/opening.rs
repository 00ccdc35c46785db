//! How a context is opened, and what the kernel's reply says about it.

use uverbs_core::UverbsFile;
use uverbs_core::types::LocalKey;
use uverbs_uapi::ib_user_ioctl_cmds::{UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_IN};
use uverbs_uapi::ib_user_verbs::ib_uverbs_ex_query_device_resp;
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET,
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY, MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE,
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS, MLX5_IB_ALLOC_UCTX_DEVX, MLX5_LIB_CAP_4K_UAR,
    MLX5_LIB_CAP_DYN_UAR, mlx5_ib_alloc_ucontext_req_v2, mlx5_ib_alloc_ucontext_resp,
};

use super::*;

/// A kernel that opens contexts with this reply of its driver's.
fn kernel(opened: &mlx5_ib_alloc_ucontext_resp) -> (Arc<Scripted>, Arc<UverbsFile>) {
    let (kernel, file) = Scripted::new();
    kernel.answer_by_driver(opened.as_bytes());
    let device = ib_uverbs_ex_query_device_resp {
        response_length: u32::try_from(size_of::<ib_uverbs_ex_query_device_resp>()).unwrap(),
        ..ib_uverbs_ex_query_device_resp::default()
    };
    kernel.answer(UVERBS_ATTR_CORE_OUT, device.as_bytes());
    (kernel, file)
}

fn open(file: &Arc<UverbsFile>, doorbells: Doorbells) -> Result<Context> {
    Context::with_doorbells(Arc::clone(file), doorbells)
}

/// The requests that were made of the driver.
fn requests(kernel: &Scripted) -> Vec<Vec<u8>> {
    let inputs = kernel.take_inputs(UVERBS_ATTR_UHW_IN).into_iter();
    inputs.filter(|bytes| !bytes.is_empty()).collect()
}

fn request(flags: u32, lib_caps: u64) -> mlx5_ib_alloc_ucontext_req_v2 {
    mlx5_ib_alloc_ucontext_req_v2 {
        total_num_bfregs: 16,
        num_low_latency_bfregs: 4,
        flags,
        max_cqe_version: 1,
        lib_caps,
        ..mlx5_ib_alloc_ucontext_req_v2::default()
    }
}

#[test]
fn a_context_is_opened_for_firmware_commands_with_pages_as_needed() {
    for (doorbells, caps) in [
        (
            Doorbells::AsNeeded,
            MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR,
        ),
        (Doorbells::Fixed, MLX5_LIB_CAP_4K_UAR),
    ] {
        let (kernel, file) = kernel(&mlx5_ib_alloc_ucontext_resp::default());
        assert!(open(&file, doorbells).unwrap().has_devx());
        assert_eq!(
            requests(&kernel),
            [request(MLX5_IB_ALLOC_UCTX_DEVX, caps).as_bytes()]
        );
        assert_eq!(
            kernel.take_calls().len(),
            2,
            "and one that queries the device"
        );
    }
}

#[test]
fn a_request_that_is_not_understood_is_made_in_older_forms() {
    for errno in [Errno::INVAL, Errno::OPNOTSUPP, Errno::PERM, Errno::ACCESS] {
        let (kernel, file) = kernel(&mlx5_ib_alloc_ucontext_resp::default());
        kernel.refuse("", errno);
        let error = open(&file, Doorbells::Fixed).unwrap_err();
        assert_eq!(error.errno(), Some(errno), "{error}");
        let tried = requests(&kernel);
        let lengths: Vec<usize> = tried.iter().map(Vec::len).collect();
        assert_eq!(lengths, [32, 24, 16, 32, 24, 16], "{errno}");
        for (at, bytes) in tried.iter().enumerate() {
            let flags = if at < 3 { MLX5_IB_ALLOC_UCTX_DEVX } else { 0 };
            let whole = request(flags, MLX5_LIB_CAP_4K_UAR);
            assert_eq!(bytes, &whole.as_bytes()[..bytes.len()]);
        }
    }
}

#[test]
fn what_the_device_has_no_room_for_is_tried_once_without_firmware_commands() {
    let (kernel, file) = kernel(&mlx5_ib_alloc_ucontext_resp::default());
    kernel.refuse("", Errno::NOMEM);
    let error = open(&file, Doorbells::Fixed).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOMEM), "{error}");
    let flags: Vec<u8> = requests(&kernel).iter().map(|bytes| bytes[8]).collect();
    let expected = [MLX5_IB_ALLOC_UCTX_DEVX, 0].map(u32::to_ne_bytes);
    assert_eq!(flags, expected.map(|bytes| bytes[0]));
}

#[test]
fn a_reply_with_too_many_doorbells_is_not_asked_for_again() {
    for (fixed, fits) in [(512, true), (513, false)] {
        let (kernel, file) = kernel(&mlx5_ib_alloc_ucontext_resp {
            tot_bfregs: fixed,
            ..mlx5_ib_alloc_ucontext_resp::default()
        });
        let opened = open(&file, Doorbells::Fixed);
        assert_eq!(requests(&kernel).len(), 1);
        match opened {
            Ok(_) => assert!(fits),
            Err(error) => {
                assert!(!fits);
                assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
                assert!(error.to_string().contains("doorbells 513"), "{error}");
            }
        }
    }
}

/// A reply with a different number in each field.
const REPLY: mlx5_ib_alloc_ucontext_resp = mlx5_ib_alloc_ucontext_resp {
    qp_tab_size: 1,
    bf_reg_size: 512,
    tot_bfregs: 32,
    cache_line_size: 128,
    max_sq_desc_sz: 1024,
    max_rq_desc_sz: 768,
    max_send_wqebb: 4096,
    max_recv_wr: 2048,
    max_srq_recv_wr: 8192,
    num_ports: 2,
    flow_action_flags: 3,
    comp_mask: 0,
    response_length: 72,
    cqe_version: 1,
    cmds_supp_uhw: 0xfd,
    eth_min_inline: 1,
    clock_info_versions: 3,
    hca_core_clock_offset: 0x1234,
    log_uar_size: 12,
    num_uars_per_page: 16,
    num_dyn_bfregs: 64,
    dump_fill_mkey: 0x5678,
};

#[test]
fn each_parameter_of_a_context_is_read_from_its_field() {
    let (_, context) = Scripted::context_with(|replies| replies.opened = REPLY);
    let config = context.config();
    assert_eq!(
        [
            config.max_sq_desc,
            config.max_rq_desc,
            config.max_send_blocks,
            config.max_recv_wr,
            config.max_srq_recv_wr,
            config.cache_line,
            config.eth_min_inline,
        ],
        [1024, 768, 4096, 2048, 8192, 128, 0]
    );
    let sizes = config.sizes();
    assert_eq!(
        [
            sizes.max_sq_desc,
            sizes.max_rq_desc,
            sizes.max_send_blocks,
            sizes.max_recv_wr,
        ],
        [1024, 768, 4096, 2048]
    );
    let uar = &config.uar;
    assert_eq!(
        [
            uar.fixed,
            uar.per_page,
            uar.register_size,
            uar.dedicated,
            uar.shared,
            uar.extra,
        ],
        [32, 16, 512, 4, 12, 64]
    );
    assert_eq!(config.clock.versions, 3);
    assert_eq!(
        (context.completion_version(), context.extra_doorbells()),
        (1, 64)
    );
    assert!(context.has_blueflame() && context.has_devx());
    assert!(!config.creates_ah && !config.ece() && !context.has_real_time());
    assert_eq!((config.clock.counter, context.null_key()), (None, None));
}

#[test]
fn each_bit_of_a_reply_announces_one_thing() {
    for bit in 0..8 {
        let (_, context) = Scripted::context_with(|replies| {
            replies.opened = REPLY;
            replies.opened.comp_mask = 1 << bit;
        });
        let (mask, config) = (1_u32 << bit, context.config());
        assert_eq!(config.ece(), mask == MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE);
        let counter =
            (mask == MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET).then_some(0x1234);
        assert_eq!(config.clock.counter, counter);
        let key = mask == MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY;
        assert_eq!(
            context.null_key(),
            key.then_some(LocalKey::from_raw(0x5678))
        );
        let real = mask == MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS;
        assert_eq!(context.has_real_time(), real);
    }
}

#[test]
fn what_a_kernel_does_not_report_has_a_default() {
    let (_, context) = Scripted::context_with(|replies| {
        replies.opened = mlx5_ib_alloc_ucontext_resp {
            cmds_supp_uhw: 2,
            ..mlx5_ib_alloc_ucontext_resp::default()
        };
    });
    let config = context.config();
    assert_eq!((config.uar.per_page, config.eth_min_inline), (1, 18));
    assert!(config.creates_ah && !context.has_blueflame());
    assert_eq!(context.completion_version(), 0);
}

#[test]
fn an_open_context_is_queried_with_two_calls() {
    let (kernel, file) = kernel(&mlx5_ib_alloc_ucontext_resp::default());
    kernel.refuse("", Errno::INVAL);
    let error = Context::import(Arc::clone(&file)).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    assert_eq!(kernel.take_calls().len(), 1);
    kernel.accept();
    let context = Context::import(file).unwrap();
    assert_eq!(kernel.take_calls().len(), 2);
    assert_eq!(context.caps(), &Caps::default());
    assert_eq!(requests(&kernel), [[0_u8; 0]; 0]);
}

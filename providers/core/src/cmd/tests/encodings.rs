//! The encoding of each command on either interface, by the kernel's declarations
//! (`uverbs_std_types_*.c`, `uverbs_cmd.c`).

use std::cell::Cell;

use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_flow_action_esp_keymat_aes_gcm;
use uverbs_uapi::ib_user_verbs::ib_uverbs_sge;

use super::{Bench, Script};
use crate::cmd::{
    ah, comp_channel, comp_cntr, context, counters, cq, device, dm, dmabuf, dmah, event, flow,
    flow_action, gid, ind_table, mcast, mr, mw, pd, qp, srq, wq, xrcd,
};
use crate::error::Result;
use crate::file::{CommandPath, UverbsFile};
use crate::sys::Uhw;
use crate::types::{
    AccessFlags, AddressVector, CqCreateFlags, Gid, GlobalRoute, MrAdvice, MrAdviceFlags, MwType,
    QpAttr, QpAttrMask, QpCaps, QpCreateFlags, QpState, QpType, ReregFlags, SigMode, SrqModify,
};

const CAPS: QpCaps = QpCaps {
    max_send_wr: 16,
    max_recv_wr: 16,
    max_send_sge: 2,
    max_recv_sge: 2,
    max_inline_data: 64,
};

/// The lines of `command` on the default path, and with legacy commands forced.
fn both<T>(command: impl Fn(&UverbsFile) -> Result<T>) -> (String, String) {
    let auto = Bench::new(Script::new().with_zeros());
    command(&auto.file).unwrap();
    let forced = Bench::on_path(Script::new().with_zeros(), CommandPath::Write);
    command(&forced.file).unwrap();
    (auto.line(), forced.line())
}

/// Checks a command that has both encodings.
#[track_caller]
pub(super) fn check<T>(command: impl Fn(&UverbsFile) -> Result<T>, ioctl: &str, write: &str) {
    assert_eq!(both(command), (ioctl.to_owned(), write.to_owned()));
}

/// Checks a command that exists only as a legacy one.
#[track_caller]
fn check_legacy<T>(command: impl Fn(&UverbsFile) -> Result<T>, words: &str) {
    check(
        command,
        &format!("invoke {words}"),
        &format!("write {words}"),
    );
}

/// Checks a command that exists only as a method.
#[track_caller]
fn check_ioctl<T>(command: impl Fn(&UverbsFile) -> Result<T>, line: &str) {
    check(command, line, line);
}

#[test]
fn contexts_and_events() {
    let bench = Bench::new(
        Script::new()
            .replying("0/3:0", 4_u32.to_ne_bytes())
            .replying("0/3:1", 1_u64.to_ne_bytes()),
    );
    let output = [const { Cell::new(0) }; 8];
    let got = context::get(
        &bench.file,
        &context::GetContext::default(),
        &Uhw::new(&[1; 4], &output),
    )
    .unwrap();
    assert_eq!(bench.line(), "ioctl 0/3 0:out4 1?:out8 2:- uhw 4/8");
    assert_eq!(got.num_comp_vectors, 4);
    assert_eq!(got.core_support, context::CoreSupport::OPTIONAL_MR_ACCESS);
    assert!(got.async_fd.is_none());

    let ucaps = [bench.fd()];
    context::get(
        &bench.file,
        &context::GetContext { ucap_fds: &ucaps },
        &Uhw::NONE,
    )
    .unwrap();
    assert!(bench.line().starts_with("ioctl 0/3 0:out4 1?:out8 2:in4="));

    check_ioctl(
        |file| context::query(file, &Uhw::NONE),
        "ioctl 0/4 0:out4 1?:out8",
    );
    check_ioctl(event::alloc_async, "ioctl 16/0 0:newfd");
}

#[test]
fn device_queries() {
    check_ioctl(
        |file| gid::query_table(file, 3),
        "ioctl 0/5 0:const=0x20 1:const=0x0 2:out96 3:out8",
    );
    check_ioctl(
        |file| gid::query_entry(file, 1, 5),
        "ioctl 0/6 0:const=0x1 1:const=0x5 2:const=0x0 3:out32",
    );
    check(
        |file| device::query_port(file, 1),
        "ioctl 0/2 0:const=0x1 1:out48",
        "write 2 in16 out40",
    );
    check_ioctl(
        |file| device::query_port_speed(file, 1),
        "ioctl 0/7 0:const=0x1 1:out8",
    );
    check_ioctl(
        |file| device::info_handles(file, 4, 10),
        "ioctl 0/1 0:const=0x4 1:out4 2:out40",
    );
    check_ioctl(comp_cntr::query_caps, "ioctl 0/8 0:out4 1:out8 2:out4");
}

#[test]
fn domains_and_memory() {
    check_legacy(|file| pd::alloc(file, &Uhw::NONE), "3 in8 out4");
    let memory = mr::Register {
        pd: 3,
        start: 0x1000,
        length: 4096,
        iova: 0x1000,
        access: AccessFlags::LOCAL_WRITE,
    };
    check_legacy(
        |file| mr::register(file, &memory, &Uhw::NONE),
        "9 in40 out12",
    );
    let mut extended = mr::RegisterEx {
        pd: 3,
        source: mr::Source::Address(0x1000),
        length: 4096,
        iova: 0x1000,
        access: AccessFlags::LOCAL_WRITE,
        dma_handle: None,
    };
    check(
        |file| mr::register_ex(file, &extended, &Uhw::NONE),
        "ioctl 7/5 0:new 1:obj=3 2:- 3:in8=4096 4:in8=4096 5:in8=4096 6:const=0x1 7:- 8:- 9:out4 10:out4",
        "write 9 in40 out12",
    );
    extended.dma_handle = Some(2);
    check_ioctl(
        |file| mr::register_ex(file, &extended, &Uhw::NONE),
        "ioctl 7/5 0:new 1:obj=3 2:obj=2 3:in8=4096 4:in8=4096 5:in8=4096 6:const=0x1 7:- 8:- 9:out4 10:out4",
    );
    let change = mr::Reregister {
        mr: 5,
        flags: ReregFlags::CHANGE_ACCESS,
        start: 0,
        length: 0,
        iova: 0,
        pd: 0,
        access: AccessFlags::empty(),
    };
    check_legacy(
        |file| mr::reregister(file, &change, &Uhw::NONE),
        "11 in48 out8",
    );
    check_ioctl(
        |file| mr::query(file, 5),
        "ioctl 7/3 0:obj=5 1:out4 2:out4 3:out8 4?:out8",
    );
    let advice = mr::Advise {
        pd: 3,
        advice: MrAdvice::PrefetchWrite,
        flags: MrAdviceFlags::FLUSH,
        ranges: &[ib_uverbs_sge::default(); 2],
    };
    check_ioctl(
        |file| mr::advise(file, &advice, &Uhw::NONE),
        "ioctl 7/2 0:obj=3 1:const=0x1 2:const=0x1 3:in32",
    );
    check_legacy(
        |file| mw::alloc(file, 3, MwType::Type2, &Uhw::NONE),
        "14 in16 out8",
    );
    check_ioctl(
        |file| dm::alloc(file, 4096, 6, &Uhw::NONE),
        "ioctl 14/0 0:new 1:in8=4096 2:in4=6",
    );
    let region = mr::RegisterDm {
        pd: 3,
        dm: 6,
        offset: 64,
        length: 128,
        access: AccessFlags::ZERO_BASED,
    };
    check_ioctl(
        |file| mr::register_dm(file, &region, &Uhw::NONE),
        "ioctl 7/0 0:new 1:in8=64 2:in8=128 3:obj=3 4:const=0x20 5:obj=6 6:out4 7:out4",
    );
    let hints = dmah::Alloc {
        cpu: Some(1),
        memory: Some(dmah::MemoryType::Persistent),
        hint: Some(2),
    };
    check_ioctl(
        |file| dmah::alloc(file, &hints, &Uhw::NONE),
        "ioctl 17/0 0:new 1:in4=1 2:enum1+0 3:in1=2",
    );
    check_ioctl(
        |file| dmabuf::export(file, 8192, &Uhw::NONE),
        "ioctl 18/0 0:newfd 1:in8=8192",
    );
}

#[test]
fn descriptors_of_dma_bufs() {
    let bench = Bench::new(Script::new());
    let dmabuf = mr::RegisterDmabuf {
        pd: 3,
        fd: bench.fd(),
        offset: 0,
        length: 4096,
        iova: 0,
        access: AccessFlags::LOCAL_WRITE,
    };
    mr::register_dmabuf(&bench.file, &dmabuf, &Uhw::NONE).unwrap();
    let line = bench.line();
    assert!(
        line.starts_with("ioctl 7/4 0:new 1:obj=3 2:in8=0 3:in8=4096 4:in8=0 5:in4="),
        "{line}"
    );
    assert!(line.ends_with(" 6:const=0x1 7:out4 8:out4"), "{line}");

    let source = mr::Source::Fd {
        fd: bench.fd(),
        offset: 64,
    };
    let extended = mr::RegisterEx {
        pd: 3,
        source,
        length: 4096,
        iova: 64,
        access: AccessFlags::empty(),
        dma_handle: None,
    };
    mr::register_ex(&bench.file, &extended, &Uhw::NONE).unwrap();
    assert_eq!(
        bench.line(),
        "ioctl 7/5 0:new 1:obj=3 2:- 3:in8=64 4:- 5:in8=4096 6:const=0x0 7:fd 8:in8=64 9:out4 10:out4"
    );
}

#[test]
fn completion_queues() {
    let mut request = cq::Create::new(16, 0x99);
    check(
        |file| cq::create(file, &request, &Uhw::NONE),
        "ioctl 3/0 0:new 1:in4=16 2:in8=153 3:- 4:in4=0 5:const=0x0 6:out4 7:- 8:- 9:- 10:- 11:-",
        "write 18 in32 out8",
    );
    request.flags = CqCreateFlags::TIMESTAMP_COMPLETION;
    request.vector = 1;
    check(
        |file| cq::create(file, &request, &Uhw::NONE),
        "ioctl 3/0 0:new 1:in4=16 2:in8=153 3:- 4:in4=1 5:const=0x1 6:out4 7:- 8:- 9:- 10:- 11:-",
        "write x18 in32 out16",
    );
    request.buffer = Some(cq::Buffer::Address {
        address: 0x2000,
        length: 4096,
    });
    check_ioctl(
        |file| cq::create(file, &request, &Uhw::NONE),
        "ioctl 3/0 0:new 1:in4=16 2:in8=153 3:- 4:in4=1 5:const=0x1 6:out4 7:- 8:in8=8192 9:in8=4096 10:- 11:-",
    );
    check_legacy(|file| cq::resize(file, 5, 32, &Uhw::NONE), "19 in16 out8");
    check_legacy(|file| cq::modify(file, 5, 8, 100), "x57 in16");
    check_legacy(|file| cq::poll(file, 5, 4), "21 in16 out200");
    // The script's reply is not a descriptor; the request is the same.
    let file = |file: &UverbsFile| -> Result<()> {
        assert!(comp_channel::create(file).is_err());
        Ok(())
    };
    check_legacy(file, "17 in8 out4");

    let bench = Bench::new(Script::new());
    cq::request_notify(&bench.file, 5, true).unwrap();
    assert_eq!(bench.line(), "write 23 in8");
    assert_eq!(
        bench.request(),
        [5_u32.to_ne_bytes(), 1_u32.to_ne_bytes()].concat()
    );
}

#[test]
fn a_completion_channel_is_named_by_its_descriptor() {
    let bench = Bench::new(Script::new());
    let request = cq::Create {
        comp_channel: Some(bench.fd()),
        ..cq::Create::new(1, 0)
    };
    cq::create(&bench.file, &request, &Uhw::NONE).unwrap();
    assert!(bench.line().contains(" 3:fd "));
}

#[test]
fn queue_pairs() {
    let mut request = qp::Create {
        send_cq: Some(1),
        recv_cq: Some(2),
        ..qp::Create::new(QpType::Rc, qp::Parent::Pd(3), 0x42, CAPS)
    };
    check(
        |file| qp::create(file, &request, &Uhw::NONE),
        "ioctl 4/0 0:new 1:- 2:obj=3 3:- 4:obj=1 5:obj=2 6:- 7:in8=66 8:in20 9:const=0x2 10:const=0x0 11:- 12:- 13:out20 14:out4",
        "write 24 in56 out32",
    );
    request.srq = Some(4);
    request.signal = SigMode::All;
    check(
        |file| qp::create(file, &request, &Uhw::NONE),
        "ioctl 4/0 0:new 1:- 2:obj=3 3:obj=4 4:obj=1 5:obj=2 6:- 7:in8=66 8:in20 9:const=0x2 10:const=0x1000 11:- 12:- 13:out20 14:out4",
        "write 24 in56 out32",
    );
    request.source_qpn = Some(9);
    check(
        |file| qp::create(file, &request, &Uhw::NONE),
        "ioctl 4/0 0:new 1:- 2:obj=3 3:obj=4 4:obj=1 5:obj=2 6:- 7:in8=66 8:in20 9:const=0x2 10:const=0x1000 11:in4=9 12:- 13:out20 14:out4",
        "write x24 in64 out40",
    );
    let target = qp::Create::new(QpType::XrcTarget, qp::Parent::Xrcd(8), 0, QpCaps::default());
    check(
        |file| qp::create(file, &target, &Uhw::NONE),
        "ioctl 4/0 0:new 1:obj=8 2:- 3:- 4:- 5:- 6:- 7:in8=0 8:in20 9:const=0xa 10:const=0x0 11:- 12:- 13:out20 14:out4",
        "write 24 in56 out32",
    );
    let open = qp::Open {
        xrcd: 8,
        qp_num: 17,
        qp_type: QpType::XrcTarget,
        user_handle: 0,
    };
    check_legacy(|file| qp::open(file, &open, &Uhw::NONE), "40 in32 out32");
    check_legacy(
        |file| qp::query(file, 5, QpAttrMask::STATE),
        "25 in16 out128",
    );
    let group = Gid::from_bytes([0xff; 16]);
    check_legacy(|file| mcast::attach(file, 5, &group, 0xc000), "30 in24");
    check_legacy(|file| mcast::detach(file, 5, &group, 0xc000), "31 in24");
    let attach = |file: &UverbsFile| comp_cntr::attach(file, 5, 6, comp_cntr::Operations::SEND);
    check_ioctl(attach, "ioctl 4/2 0:obj=5 1:obj=6 2:const=0x1");
}

#[test]
fn options_of_a_queue_pair_in_the_extended_fields() {
    let bench = Bench::on_path(Script::new().with_zeros(), CommandPath::InvokeWrite);
    let request = qp::Create {
        send_cq: Some(1),
        ind_table: Some(6),
        flags: QpCreateFlags::CVLAN_STRIPPING | QpCreateFlags::SQ_SIG_ALL,
        source_qpn: Some(9),
        ..qp::Create::new(
            QpType::RawPacket,
            qp::Parent::Pd(3),
            0x42,
            QpCaps::default(),
        )
    };
    qp::create(&bench.file, &request, &Uhw::NONE).unwrap();
    assert_eq!(bench.line(), "invoke x24 in64 out40");
    let words: Vec<u32> = bench
        .request()
        .chunks_exact(4)
        .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(
        words[2..5],
        [3, 1, 1],
        "protection domain, send queue, and the same for the missing receive queue"
    );
    assert_eq!(
        words[12..16],
        [1, 1 << 9 | 1 << 10, 6, 9],
        "IND_TABLE; options without SQ_SIG_ALL; table; number"
    );
}

#[test]
fn modify_is_extended_only_when_an_attribute_needs_it() {
    let route = GlobalRoute::new(Gid::from_bytes([1; 16]), 2);
    let plain = QpAttr::to(QpState::ReadyToReceive)
        .av(AddressVector::global(1, route))
        .dest_qpn(0x11);
    let limited = QpAttr::new().rate_limit_kbps(1000);
    check_legacy(|file| qp::modify(file, 5, &plain, &Uhw::NONE), "26 in112");
    check_legacy(
        |file| qp::modify(file, 5, &limited, &Uhw::NONE),
        "x26 in120 out8",
    );

    let bench = Bench::new(Script::new());
    qp::modify(&bench.file, 5, &plain, &Uhw::NONE).unwrap();
    let request = bench.request();
    assert_eq!(request[..16], [1; 16]);
    assert_eq!(
        request[24..32],
        [2, 64, 0, 0, 0, 0, 1, 1],
        "sgid, hops, class, sl, path bits, rate, global, port"
    );
    assert_eq!(
        request[64..72],
        [
            5_u32.to_ne_bytes(),
            (1_u32 | 1 << 7 | 1 << 20).to_ne_bytes()
        ]
        .concat()
    );
    assert_eq!(request[84..88], 0x11_u32.to_ne_bytes());
    assert_eq!(request[96], 2, "ready to receive");

    let resize = QpAttr::new().caps(CAPS);
    assert!(
        qp::modify(&bench.file, 5, &resize, &Uhw::NONE)
            .unwrap_err()
            .is_unsupported()
    );
}

#[test]
fn shared_receive_queues() {
    let mut request = srq::Create {
        pd: 3,
        kind: srq::Kind::Basic,
        max_wr: 64,
        max_sge: 1,
        limit: 0,
        user_handle: 1,
        event_fd: None,
    };
    check(
        |file| srq::create(file, &request, &Uhw::NONE),
        "ioctl 5/0 0:new 1:obj=3 2:- 3:- 4:in8=1 5:in4=64 6:in4=1 7:in4=0 8:- 9:const=0x0 10:- 11:out4 12:out4 13:-",
        "write 32 in32 out16",
    );
    request.kind = srq::Kind::Xrc { xrcd: 8, cq: 1 };
    check(
        |file| srq::create(file, &request, &Uhw::NONE),
        "ioctl 5/0 0:new 1:obj=3 2:obj=8 3:obj=1 4:in8=1 5:in4=64 6:in4=1 7:in4=0 8:- 9:const=0x1 10:- 11:out4 12:out4 13:out4",
        "write 39 in48 out16",
    );
    request.kind = srq::Kind::TagMatching {
        cq: 1,
        max_num_tags: 5,
    };
    check(
        |file| srq::create(file, &request, &Uhw::NONE),
        "ioctl 5/0 0:new 1:obj=3 2:- 3:obj=1 4:in8=1 5:in4=64 6:in4=1 7:in4=0 8:in4=5 9:const=0x2 10:- 11:out4 12:out4 13:-",
        "write 39 in48 out16",
    );
    let modify = |file: &UverbsFile| {
        srq::modify(file, 5, &SrqModify::new().limit(8), &Uhw::new(&[0; 8], &[]))
    };
    check_legacy(modify, "33 in16 uhw 8/0");
    check_legacy(|file| srq::query(file, 5), "34 in16 out16");
}

#[test]
fn work_queues_address_handles_flows_and_counters() {
    let wq = wq::Create {
        pd: 3,
        cq: 1,
        max_wr: 16,
        max_sge: 1,
        flags: wq::Flags::SCATTER_FCS,
        user_handle: 1,
        event_fd: None,
    };
    check(
        |file| wq::create(file, &wq, &Uhw::NONE),
        "ioctl 12/0 0:new 1:obj=3 2:obj=1 3:in8=1 4:const=0x0 5:- 6:in4=16 7:in4=1 8:const=0x2 9:out4 10:out4 11:out4",
        "write x52 in40 out24",
    );
    let ready = wq::Modify {
        state: Some(wq::State::Ready),
        ..wq::Modify::default()
    };
    check_legacy(|file| wq::modify(file, 5, &ready, &Uhw::NONE), "x53 in24");
    check_legacy(
        |file| ind_table::create(file, &[1], &Uhw::NONE),
        "x55 in16 out16",
    );
    check_legacy(
        |file| ind_table::create(file, &[1, 2, 3, 4], &Uhw::NONE),
        "x55 in24 out16",
    );
    let av = AddressVector::local(1, 4);
    check_legacy(
        |file| ah::create(file, 3, &av, 0, &Uhw::NONE),
        "5 in56 out4",
    );
    check_legacy(
        |file| xrcd::open(file, &xrcd::Open::default(), &Uhw::NONE),
        "37 in16 out4",
    );
    let mut spec = [0_u8; 40];
    spec[4..6].copy_from_slice(&40_u16.to_ne_bytes());
    let rule = flow::Create {
        qp: 5,
        kind: flow::Kind::Normal,
        priority: 0,
        port: 1,
        flags: flow::Flags::empty(),
        specs: &spec,
    };
    check_legacy(
        |file| flow::create(file, &rule, &Uhw::NONE),
        "x50 in64 out8",
    );
    let esp = flow_action::Esp {
        esn: Some(1),
        keymat: Some(ib_uverbs_flow_action_esp_keymat_aes_gcm::default()),
        replay: Some(flow_action::Replay::Bitmap(64)),
        ..flow_action::Esp::default()
    };
    check_ioctl(
        |file| flow_action::create_esp(file, &esp, &Uhw::NONE),
        "ioctl 13/0 0:new 1:in24 2:in4=1 3:enum0+56 4:enum1+4",
    );
    check_ioctl(
        |file| flow_action::modify_esp(file, 5, &esp, &Uhw::NONE),
        "ioctl 13/2 0:obj=5 1:in24 2:in4=1 3:enum0+56 4:enum1+4",
    );
    check_ioctl(
        |file| counters::create(file, &Uhw::NONE),
        "ioctl 15/0 0:new",
    );
    check_ioctl(
        |file| counters::read(file, 5, &mut [0; 3], true, &Uhw::NONE),
        "ioctl 15/2 0:obj=5 1:out24 2:const=0x1",
    );
    check_ioctl(
        |file| comp_cntr::create(file, &Uhw::NONE),
        "ioctl 19/0 0:new",
    );
    check_ioctl(
        |file| {
            comp_cntr::modify(
                file,
                5,
                comp_cntr::Entry::Errors,
                comp_cntr::Change::Increment,
                3,
            )
        },
        "ioctl 19/2 0:obj=5 1:const=0x1 2:const=0x1 3:in8=3",
    );
    check_ioctl(
        |file| comp_cntr::read(file, 5, comp_cntr::Entry::Completions),
        "ioctl 19/3 0:obj=5 1:const=0x0 2:out8",
    );
}

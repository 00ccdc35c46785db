//! Commands by `write(2)` that are accepted and not answered, on a file that accepts everything.

use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;

use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

use crate::cmd::{ah, comp_channel, context, cq, flow, ind_table, mr, mw, pd, qp, srq, wq, xrcd};
use crate::error::{Error, ErrorKind};
use crate::file::{CommandPath, UverbsFile};
use crate::sys::{Linux, Uhw};
use crate::types::{AccessFlags, AddressVector, MwType, QpCaps, QpCreateFlags, QpType};

/// The running kernel, with `/dev/null` for a device.
#[expect(unsafe_code, reason = "opens a file that is not a device")]
fn file() -> UverbsFile {
    let null = File::options().read(true).write(true).open("/dev/null");
    // SAFETY: (1) it is not a device, but it accepts writes and refuses all other calls; (2, 3) it
    // does nothing with them.
    unsafe {
        UverbsFile::new(
            Arc::new(Linux),
            null.unwrap().into(),
            RDMA_DRIVER_RXE,
            CommandPath::Write,
        )
    }
}

#[track_caller]
fn assert_bad<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply, "{error}");
}

#[test]
fn no_descriptor_is_taken_over() {
    let file = file();
    let stdin = std::fs::read_link("/proc/self/fd/0").unwrap();
    assert_bad(context::get(
        &file,
        &context::GetContext::default(),
        &Uhw::NONE,
    ));
    assert_bad(comp_channel::create(&file));
    assert_eq!(std::fs::read_link("/proc/self/fd/0").unwrap(), stdin);
}

#[test]
fn no_create_succeeds_without_a_handle() {
    let file = file();
    let rule = flow::Create {
        qp: 5,
        kind: flow::Kind::Normal,
        priority: 0,
        port: 1,
        flags: flow::Flags::empty(),
        specs: &[],
    };
    let memory = mr::Register {
        pd: 3,
        start: 0x1000,
        length: 4096,
        iova: 0x1000,
        access: AccessFlags::LOCAL_WRITE,
    };
    let shared = srq::Create {
        pd: 3,
        kind: srq::Kind::Basic,
        max_wr: 64,
        max_sge: 1,
        limit: 0,
        user_handle: 1,
        event_fd: None,
    };
    let queue = wq::Create {
        pd: 3,
        cq: 1,
        max_wr: 16,
        max_sge: 1,
        flags: wq::Flags::empty(),
        user_handle: 1,
        event_fd: None,
    };
    let pair = qp::Create {
        send_cq: Some(1),
        recv_cq: Some(2),
        ..qp::Create::new(QpType::Rc, qp::Parent::Pd(3), 0x42, QpCaps::default())
    };
    // One that only the extended command can make.
    let flagged = qp::Create {
        flags: QpCreateFlags::SCATTER_FCS,
        ..pair
    };
    let open = qp::Open {
        xrcd: 8,
        qp_num: 17,
        qp_type: QpType::XrcTarget,
        user_handle: 0,
    };
    // The driver's reply after it makes no difference.
    for length in [0, 8] {
        let mut driver = vec![0; length];
        let output = Cell::from_mut(driver.as_mut_slice()).as_slice_of_cells();
        let uhw = Uhw::new(&[], output);
        assert_bad(pd::alloc(&file, &uhw));
        assert_bad(mr::register(&file, &memory, &uhw));
        assert_bad(mw::alloc(&file, 3, MwType::Type2, &uhw));
        assert_bad(ah::create(&file, 3, &AddressVector::default(), 0, &uhw));
        assert_bad(cq::create(&file, &cq::Create::new(1, 0), &uhw));
        assert_bad(srq::create(&file, &shared, &uhw));
        assert_bad(qp::create(&file, &pair, &uhw));
        assert_bad(qp::create(&file, &flagged, &uhw));
        assert_bad(qp::open(&file, &open, &uhw));
        assert_bad(wq::create(&file, &queue, &uhw));
        assert_bad(ind_table::create(&file, &[1, 2], &uhw));
        assert_bad(flow::create(&file, &rule, &uhw));
        assert_bad(xrcd::open(&file, &xrcd::Open::default(), &uhw));
    }
    assert_eq!(file.leaked(), 0, "nothing was made");
}

#[test]
fn bytes_of_an_event_file_are_read_as_they_are() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let op = crate::error::Op::GetAsyncEvent;
    let file = file();
    std::io::Write::write_all(&mut writer, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    let fd = std::os::fd::AsFd::as_fd(&reader);
    let event = file.read_event::<[u8; 8]>(op, fd).unwrap();
    assert_eq!(event, [1, 2, 3, 4, 5, 6, 7, 8]);
    // What is shorter than asked for is no event.
    let error = file.read_event::<[u8; 8]>(op, fd).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply);
    assert!(error.to_string().contains("bytes 1"), "{error}");
}

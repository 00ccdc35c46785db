//! Requests that must not get into a ring.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use uverbs_core::hw::RingLayout;
use uverbs_core::sys::{Call, Kernel, Mapping, Reply};
use uverbs_core::types::{
    AccessFlags, Destination, LocalKey, MwType, RecvRequest, RemoteKey, WindowBinding,
};
use uverbs_core::{CommandPath, Errno, UverbsFile};
use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

use zerocopy::IntoBytes as _;

use super::*;

const SLOT: usize = 512;

fn ring() -> SharedRing {
    let layout = RingLayout {
        producer: 128,
        consumer: 256,
        data: 384,
        slot_size: SLOT,
        slots: 4,
    };
    SharedRing::new(Mapping::anonymous(4096).unwrap(), layout).unwrap()
}

fn limits(kind: QpType) -> Limits {
    Limits {
        kind,
        max_sge: 4,
        max_inline: 64,
        max_message: 1 << 31,
        device: DeviceCaps::ATOMIC_WRITE | DeviceCaps::FLUSH_GLOBAL | DeviceCaps::FLUSH_PERSISTENT,
    }
}

/// Puts a request, and returns it as encoded in the ring.
fn put(kind: QpType, request: &SendRequest<'_>) -> Result<rxe_send_wqe, PostError> {
    let ring = ring();
    put_send(&ring, 1, &limits(kind), request)?;
    Ok(ring.read(1).unwrap())
}

const REMOTE: Remote = Remote {
    address: 0x2000,
    key: RemoteKey::from_raw(9),
};

fn binding() -> WindowBinding {
    WindowBinding {
        kind: MwType::Type2,
        window_key: RemoteKey::from_raw(0x100),
        new_key: RemoteKey::from_raw(0x101),
        region_key: LocalKey::from_raw(0x200),
        address: 0x3000,
        length: 64,
        access: AccessFlags::REMOTE_READ,
    }
}

fn address(number: u32, network_type: u8) -> Address {
    let mut vector = [0; 88];
    vector[std::mem::offset_of!(rxe_av, network_type)] = network_type;
    Address::new(&file(), None, number, vector)
}

/// A kernel that is never called.
#[derive(Debug)]
struct Silent;

#[expect(unsafe_code, reason = "promises what it never does")]
// SAFETY: it returns no descriptors.
unsafe impl Kernel for Silent {
    unsafe fn call(&self, _: BorrowedFd<'_>, _: Call<'_>) -> Result<Reply, Errno> {
        Err(Errno::NOSYS)
    }
}

#[expect(unsafe_code, reason = "nothing is asked of it")]
fn file() -> UverbsFile {
    let fd = File::open("/dev/null").unwrap().into();
    // SAFETY: (1) the kernel accepts calls on every descriptor; (2, 3) it carries nothing out.
    unsafe { UverbsFile::new(Arc::new(Silent), fd, RDMA_DRIVER_RXE, CommandPath::Auto) }
}

/// The slot has these entries behind its header.
fn are_at(ring: &SharedRing, header: usize, sges: &[Sge]) {
    let all: [u64; SLOT / WORD] = ring.read(1).unwrap();
    let (entries, _) = all.as_bytes().split_at(header).1.as_chunks();
    for (entry, sge) in entries.iter().zip(sges) {
        let expected = rxe_sge {
            addr: sge.address,
            length: sge.length,
            lkey: sge.key.raw(),
        };
        let entry: &[u8; size_of::<rxe_sge>()] = entry;
        assert_eq!(entry.as_slice(), expected.as_bytes());
    }
}

#[test]
fn a_receive_has_its_entries_however_many() {
    let sges = [3, 5, 7].map(|length| Sge {
        address: 0x1000 + u64::from(length),
        length,
        key: LocalKey::from_raw(9),
    });
    for count in 0..=sges.len() {
        let ring = ring();
        assert!(ring.put(1, 0, &[u64::MAX; SLOT / WORD]));
        let scatter = &sges[..count];
        put_recv(&ring, 1, &RecvRequest { wr_id: 6, scatter }).unwrap();
        let written: rxe_recv_wqe = ring.read(1).unwrap();
        let length = scatter.iter().map(|sge| sge.length).sum();
        assert_eq!(
            written,
            rxe_recv_wqe {
                wr_id: 6,
                dma: dma(length, count),
                ..rxe_recv_wqe::default()
            }
        );
        are_at(&ring, RECV_HEADER, scatter);
    }
}

/// Of a slot in which another request was, and where the kernel has counted.
#[test]
fn a_message_has_none_of_what_was_in_its_slot() {
    let sges = [3, 5].map(|length| Sge {
        address: 0x1000,
        length,
        key: LocalKey::from_raw(7),
    });
    let slices: [&[u8]; 2] = [&[3; 8], &[4; 3]];
    let (gather, inline) = (Payload::Gather(&sges), Payload::Inline(&slices));
    let operations = [
        (Operation::Send, IB_UVERBS_WR_SEND, 0),
        (
            Operation::SendImm(0x0102_0304),
            IB_UVERBS_WR_SEND_WITH_IMM,
            0x0102_0304,
        ),
    ];
    for (operation, opcode, imm) in operations {
        for (payload, flag, length, num_sge) in [
            (gather, 0, 8, 2),
            (Payload::Gather(&sges[..1]), 0, 3, 1),
            (inline, SEND_INLINE, 11, 0),
            (Payload::Gather(&[]), 0, 0, 0),
        ] {
            let ring = ring();
            assert!(ring.put(1, 0, &[u64::MAX; SLOT / WORD]));
            let request = SendRequest {
                wr_id: 0x1122_3344_5566_7788,
                flags: SendFlags::SIGNALED | SendFlags::FENCE,
                operation,
                payload,
                destination: None,
            };
            put_send(&ring, 1, &limits(QpType::Rc), &request).unwrap();
            let written: rxe_send_wqe = ring.read(1).unwrap();
            let mut expected = rxe_send_wqe {
                dma: dma(length, num_sge),
                ..rxe_send_wqe::default()
            };
            expected.wr.wr_id = request.wr_id;
            expected.wr.opcode = opcode;
            expected.wr.send_flags = request.flags.bits() | flag;
            expected.wr.ex = rxe_send_wr_ex::from(__be32::new(imm));
            // No kernel reads these of a message.
            expected.wr.wr = written.wr.wr;
            assert_eq!(written, expected);
            are_at(&ring, SEND_HEADER, &sges[..num_sge]);
        }
    }
}

/// Each flag alone, named or not, on every operation: only the payload determines the inline flag.
#[test]
fn no_flag_without_a_name_gets_into_a_ring() {
    let sge = [Sge {
        address: 0x1000,
        length: 8,
        key: LocalKey::from_raw(7),
    }];
    let slices: [&[u8]; 1] = [&[3; 8]];
    let (gather, inline) = (Payload::Gather(&sge), Payload::Inline(&slices));
    let address = address(5, 0);
    let to = Destination {
        address: &address,
        qp_num: 17,
        qkey: 5,
    };
    let binding = binding();
    let atomic = Operation::CompareSwap {
        remote: REMOTE,
        compare: 1,
        swap: 2,
    };
    let flush = Operation::Flush {
        remote: REMOTE,
        length: 8,
        placement: Placement::GLOBAL,
        whole_region: false,
    };
    let store = Operation::AtomicWrite {
        remote: REMOTE,
        value: [1; 8],
    };
    let key = RemoteKey::from_raw(0x100);
    let of = SendRequest::new;
    for (kind, request) in [
        (QpType::Rc, of(Operation::Send, gather)),
        (QpType::Rc, of(Operation::Send, inline)),
        (QpType::Uc, of(Operation::SendImm(1), gather)),
        (QpType::Rc, of(Operation::SendInvalidate(key), gather)),
        (QpType::Ud, of(Operation::Send, gather).to(to)),
        (QpType::Ud, of(Operation::SendImm(1), inline).to(to)),
        (QpType::Rc, of(Operation::Write(REMOTE), gather)),
        (QpType::Rc, of(Operation::WriteImm(REMOTE, 1), inline)),
        (QpType::Rc, of(Operation::Read(REMOTE), gather)),
        (QpType::Rc, of(atomic, gather)),
        (
            QpType::Rc,
            of(
                Operation::FetchAdd {
                    remote: REMOTE,
                    add: 1,
                },
                gather,
            ),
        ),
        (QpType::Rc, of(store, Payload::NONE)),
        (QpType::Rc, of(flush, Payload::NONE)),
        (
            QpType::Rc,
            of(Operation::BindWindow(&binding), Payload::NONE),
        ),
        (
            QpType::Rc,
            of(Operation::LocalInvalidate(key), Payload::NONE),
        ),
    ] {
        let own = if matches!(request.payload, Payload::Inline(_)) {
            SEND_INLINE
        } else {
            0
        };
        let plain = put(kind, &request).unwrap();
        assert_eq!(plain.wr.send_flags, own, "{request:?}");
        for at in 0..32_u32 {
            let flags = SendFlags::from_bits_retain(1 << at);
            let mut found = put(kind, &request.with(flags)).unwrap();
            let known = if at < 3 { 1 << at } else { 0 };
            assert_eq!(found.wr.send_flags, own | known, "bit {at} of {request:?}");
            found.wr.send_flags = own;
            assert_eq!(
                found.as_bytes(),
                plain.as_bytes(),
                "bit {at} of {request:?}"
            );
        }
        let all = put(kind, &request.with(SendFlags::from_bits_retain(u32::MAX)));
        assert_eq!(all.unwrap().wr.send_flags, own | 7, "{request:?}");
    }
}

#[test]
fn a_flush_with_an_unknown_placement_is_refused() {
    let flush = |placement| {
        let operation = Operation::Flush {
            remote: REMOTE,
            length: 8,
            placement: Placement::from_bits_retain(placement),
            whole_region: true,
        };
        put(QpType::Rc, &SendRequest::new(operation, Payload::NONE)).map(|_| ())
    };
    for at in 0..32 {
        let expected = if at < 2 {
            Ok(())
        } else {
            Err(PostError::InvalidRequest)
        };
        assert_eq!(flush(1 << at), expected, "bit {at}");
        assert_eq!(flush(1 << at | 1), expected, "bit {at}");
    }
    assert_eq!(flush(0), Err(PostError::InvalidRequest));
}

#[test]
fn a_flush_has_its_own_length_and_no_sges() {
    let flush = Operation::Flush {
        remote: REMOTE,
        length: 0x2345,
        placement: Placement::GLOBAL,
        whole_region: false,
    };
    let request = SendRequest::new(flush, Payload::Gather(&[]));
    let dma = put(QpType::Rc, &request).unwrap().dma;
    assert_eq!((dma.length, dma.resid, dma.num_sge), (0x2345, 0x2345, 0));
}

#[test]
fn nothing_without_a_meaning_is_bound() {
    let bind = |kind, access| {
        let binding = WindowBinding {
            kind: MwType::from_raw(kind),
            access: AccessFlags::from_bits_retain(access),
            ..binding()
        };
        put(
            QpType::Rc,
            &SendRequest::new(Operation::BindWindow(&binding), Payload::NONE),
        )
        .map(|wqe| wqe.wr.wr.mw().access)
    };
    for at in 0..32_u32 {
        let expected = match at {
            0..=3 | 5 | 8 | 9 => Ok(1 << at),
            // Optional flags, which the kernel may not know.
            20..=29 => Ok(0),
            _ => Err(PostError::InvalidRequest),
        };
        assert_eq!(bind(2, 1 << at), expected, "bit {at}");
    }
    for kind in 0..=u8::MAX {
        assert_eq!(bind(kind, 2).is_ok(), kind == 1 || kind == 2, "type {kind}");
    }
}

#[test]
fn impossible_destinations_of_datagrams_are_refused() {
    let send = |number, network_type, qp_num| {
        let address = address(number, network_type);
        let to = Destination {
            address: &address,
            qp_num,
            qkey: 5,
        };
        put(QpType::Ud, &SendRequest::send(&[]).to(to)).map(|_| ())
    };
    let refused = Err(PostError::InvalidRequest);
    for (qp_num, expected) in [
        (0, Ok(())),
        (0xff_ffff, Ok(())),
        (1 << 24, refused),
        (u32::MAX, refused),
    ] {
        assert_eq!(send(5, 0, qp_num), expected, "{qp_num:#x}");
    }
    // Without a number the path is in the request, where the provider encoded it from typed values.
    for network_type in 0..=u8::MAX {
        let expected = if network_type == 1 || network_type == 2 {
            Ok(())
        } else {
            refused
        };
        assert_eq!(send(0, network_type, 17), expected, "{network_type}");
        assert_eq!(send(5, network_type, 17), Ok(()), "{network_type}");
    }
}

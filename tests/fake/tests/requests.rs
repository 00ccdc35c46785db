//! Requests carry known values: each field of each command is given every kind of number and bit
//! that has no name, and the kernel is not called.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use fake_tests::{Bench, ways};
use uverbs::attr::{AlternatePath, MigrationState, QpAttr, QpAttrMask, QpCaps, QpCreateFlags};
use uverbs::link::Mtu;
use uverbs::memory::{MrAdvice, MrAdviceFlags, MwType, ReregFlags};
use uverbs::rate::Rate;
use uverbs::{
    AccessFlags, AddressVector, ErrorKind, QpState, QpType, Result, SendFlags, SendRequest,
};
use uverbs_core::cmd::{ah, comp_cntr, cq, flow, flow_action, mr, mw, qp, wq};
use uverbs_core::sys::Uhw;
use uverbs_core::types::CqCreateFlags;
use uverbs_core::{UverbsFile, cmd};
use uverbs_fake::Profile;
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_flow_action_esp;

/// A field of a command, and its valid values.
struct Field {
    name: &'static str,
    may: May,
    send: fn(&UverbsFile, u32) -> Result<()>,
}

/// The valid values.
enum May {
    /// These values of a byte.
    Byte(&'static [u32]),
    /// These values of a word.
    Word(&'static [u32]),
    /// Any of these bits.
    Bits(u32),
    /// Numbers up to this one. A higher one exceeds a limit.
    UpTo(u32),
}

impl May {
    /// Valid and invalid values.
    fn cases(&self) -> (Vec<u32>, Vec<u32>) {
        match self {
            Self::Byte(named) => split(0..=255, |raw| named.contains(raw)),
            Self::Word(named) => {
                let powers = (8..32).flat_map(|at| [1 << at, 1 << at | 1]);
                let all = (0..=300).chain(powers).chain([u32::MAX - 1, u32::MAX]);
                split(all, |raw| named.contains(raw))
            }
            Self::Bits(named) => {
                let lowest = 1 << named.trailing_zeros();
                let beside = (0..32).flat_map(|at| [1 << at, 1 << at | lowest]);
                split(beside.chain([u32::MAX]), |bits| bits & !named == 0)
            }
            Self::UpTo(most) => {
                let edges = [0, 1, *most, most + 1, most * 2 + 1];
                split(edges.into_iter(), |number| number <= most)
            }
        }
    }

    fn refusal(&self) -> ErrorKind {
        match self {
            Self::UpTo(_) => ErrorKind::LimitExceeded,
            _ => ErrorKind::InvalidInput,
        }
    }
}

fn split(all: impl Iterator<Item = u32>, may: impl FnMut(&u32) -> bool) -> (Vec<u32>, Vec<u32>) {
    all.partition(may)
}

#[expect(clippy::cast_possible_truncation, reason = "the field is a byte")]
fn byte(raw: u32) -> u8 {
    raw as u8
}

const STATES: May = May::Byte(&[0, 1, 2, 3, 4, 5, 6]);
const RATES: May = May::Byte(&[
    0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
]);
const KINDS: May = May::Word(&[2, 3, 4, 8, 9, 10, 255]);
/// Including the bits that a kernel ignores if it does not know them.
const ACCESS: May = May::Bits(0x3ff0_03ff);

fn modify(file: &UverbsFile, attr: &QpAttr) -> Result<()> {
    qp::modify(file, 1, attr, &Uhw::NONE)
}

fn path(sl: u8, src_path_bits: u8, rate: u8) -> AddressVector {
    AddressVector {
        sl,
        src_path_bits,
        static_rate: Rate::from_raw(rate),
        ..AddressVector::default()
    }
}

fn alternate(av: AddressVector) -> QpAttr {
    QpAttr::new().alt_path(AlternatePath {
        av,
        ..AlternatePath::default()
    })
}

fn register_ex(file: &UverbsFile, access: u32, fd: bool, dma_handle: Option<u32>) -> Result<()> {
    let backing = File::open("/dev/null").unwrap();
    let request = mr::RegisterEx {
        pd: 1,
        source: if fd {
            mr::Source::Fd {
                fd: backing.as_fd(),
                offset: 0,
            }
        } else {
            mr::Source::Address(4096)
        },
        length: 4096,
        iova: 4096,
        access: AccessFlags::from_bits_retain(access),
        dma_handle,
    };
    mr::register_ex(file, &request, &Uhw::NONE).map(drop)
}

fn reregister(file: &UverbsFile, flags: u32, access: u32) -> Result<()> {
    let request = mr::Reregister {
        mr: 1,
        flags: ReregFlags::from_bits_retain(flags),
        start: 4096,
        length: 4096,
        iova: 4096,
        pd: 1,
        access: AccessFlags::from_bits_retain(access),
    };
    mr::reregister(file, &request, &Uhw::NONE).map(drop)
}

fn advise(file: &UverbsFile, advice: u32, flags: u32) -> Result<()> {
    let request = mr::Advise {
        pd: 1,
        advice: MrAdvice::from_raw(advice),
        flags: MrAdviceFlags::from_bits_retain(flags),
        ranges: &[],
    };
    mr::advise(file, &request, &Uhw::NONE)
}

fn create_qp(file: &UverbsFile, kind: u32, flags: u32, source_qpn: Option<u32>) -> Result<()> {
    let kind = QpType::from_raw(kind);
    let request = qp::Create {
        flags: QpCreateFlags::from_bits_retain(flags),
        source_qpn,
        ..qp::Create::new(kind, qp::Parent::Pd(1), 0, QpCaps::default())
    };
    qp::create(file, &request, &Uhw::NONE).map(drop)
}

fn create_cq(file: &UverbsFile, flags: u32, buffer: Option<cq::Buffer<'_>>) -> Result<()> {
    let request = cq::Create {
        flags: CqCreateFlags::from_bits_retain(flags),
        buffer,
        ..cq::Create::new(8, 0)
    };
    cq::create(file, &request, &Uhw::NONE).map(drop)
}

fn modify_wq(file: &UverbsFile, flags: u32, mask: u32) -> Result<()> {
    let flags = (
        wq::Flags::from_bits_retain(flags),
        wq::Flags::from_bits_retain(mask),
    );
    let request = wq::Modify {
        flags: Some(flags),
        ..wq::Modify::default()
    };
    wq::modify(file, 1, &request, &Uhw::NONE)
}

fn esp(flags: u32) -> flow_action::Esp {
    flow_action::Esp {
        attrs: ib_uverbs_flow_action_esp {
            flags,
            ..ib_uverbs_flow_action_esp::default()
        },
        ..flow_action::Esp::default()
    }
}

/// Every field of every command that has such values.
const FIELDS: &[Field] = &[
    Field {
        name: "create_qp type",
        may: May::Word(&[2, 3, 4, 8, 9, 10, 255]),
        send: |ch, raw| create_qp(ch, raw, 0, None),
    },
    Field {
        name: "create_qp flags",
        may: May::Bits(0x1f02),
        send: |ch, bits| create_qp(ch, 2, bits, None),
    },
    Field {
        name: "create_qp flags beside a source number",
        may: May::Bits(0x1f02),
        send: |ch, bits| create_qp(ch, 2, bits, Some(7)),
    },
    Field {
        name: "open_qp type",
        may: KINDS,
        send: |ch, raw| {
            let request = qp::Open {
                xrcd: 1,
                qp_num: 17,
                qp_type: QpType::from_raw(raw),
                user_handle: 0,
            };
            qp::open(ch, &request, &Uhw::NONE).map(drop)
        },
    },
    Field {
        name: "modify_qp state",
        may: STATES,
        send: |ch, raw| modify(ch, &QpAttr::to(QpState::from_raw(byte(raw)))),
    },
    Field {
        name: "modify_qp cur_state",
        may: STATES,
        send: |ch, raw| modify(ch, &QpAttr::new().cur_state(QpState::from_raw(byte(raw)))),
    },
    Field {
        name: "modify_qp path_mtu",
        may: May::Byte(&[1, 2, 3, 4, 5]),
        send: |ch, raw| modify(ch, &QpAttr::new().path_mtu(Mtu::from_raw(byte(raw)))),
    },
    Field {
        name: "modify_qp migration",
        may: May::Byte(&[0, 1, 2]),
        send: |ch, raw| {
            let migration = MigrationState::from_raw(byte(raw));
            modify(ch, &QpAttr::new().migration(migration))
        },
    },
    Field {
        name: "modify_qp access",
        may: ACCESS,
        send: |ch, bits| {
            modify(
                ch,
                &QpAttr::new().access(AccessFlags::from_bits_retain(bits)),
            )
        },
    },
    Field {
        name: "modify_qp access beside a rate limit",
        may: ACCESS,
        send: |ch, bits| {
            let access = AccessFlags::from_bits_retain(bits);
            modify(ch, &QpAttr::new().access(access).rate_limit_kbps(1))
        },
    },
    Field {
        name: "modify_qp static_rate",
        may: RATES,
        send: |ch, raw| modify(ch, &QpAttr::new().av(path(0, 0, byte(raw)))),
    },
    Field {
        name: "modify_qp static_rate of the alternate path",
        may: RATES,
        send: |ch, raw| modify(ch, &alternate(path(0, 0, byte(raw)))),
    },
    Field {
        name: "modify_qp service level",
        may: May::UpTo(15),
        send: |ch, number| modify(ch, &QpAttr::new().av(path(byte(number), 0, 0))),
    },
    Field {
        name: "modify_qp path bits of the alternate path",
        may: May::UpTo(127),
        send: |ch, number| modify(ch, &alternate(path(0, byte(number), 0))),
    },
    Field {
        name: "modify_qp dest_qpn",
        may: May::UpTo(0xff_ffff),
        send: |ch, number| modify(ch, &QpAttr::new().dest_qpn(number)),
    },
    Field {
        name: "query_qp attributes",
        may: May::Bits(0x021f_ffff),
        send: |ch, bits| qp::query(ch, 1, QpAttrMask::from_bits_retain(bits)).map(drop),
    },
    Field {
        name: "post_send flags",
        may: May::Bits(0x17),
        send: |ch, bits| {
            let request = SendRequest::send(&[]).with(SendFlags::from_bits_retain(bits));
            qp::post_send(ch, 1, &[SendRequest::send(&[]), request])
        },
    },
    Field {
        name: "create_ah static_rate",
        may: RATES,
        send: |ch, raw| ah::create(ch, 1, &path(0, 0, byte(raw)), 0, &Uhw::NONE).map(drop),
    },
    Field {
        name: "create_ah service level",
        may: May::UpTo(15),
        send: |ch, number| ah::create(ch, 1, &path(byte(number), 0, 0), 0, &Uhw::NONE).map(drop),
    },
    Field {
        name: "create_ah path bits",
        may: May::UpTo(127),
        send: |ch, number| ah::create(ch, 1, &path(0, byte(number), 0), 0, &Uhw::NONE).map(drop),
    },
    Field {
        name: "alloc_mw type",
        may: May::Byte(&[1, 2]),
        send: |ch, raw| mw::alloc(ch, 1, MwType::from_raw(byte(raw)), &Uhw::NONE).map(drop),
    },
    Field {
        name: "reg_mr access",
        may: ACCESS,
        send: |ch, bits| {
            let request = mr::Register {
                pd: 1,
                start: 4096,
                length: 4096,
                iova: 4096,
                access: AccessFlags::from_bits_retain(bits),
            };
            mr::register(ch, &request, &Uhw::NONE).map(drop)
        },
    },
    Field {
        name: "reg_mr_ex access",
        may: ACCESS,
        send: |ch, bits| register_ex(ch, bits, false, None),
    },
    Field {
        name: "reg_mr_ex access with hints",
        may: ACCESS,
        send: |ch, bits| register_ex(ch, bits, false, Some(1)),
    },
    Field {
        name: "reg_mr_ex access to a dma-buf",
        may: ACCESS,
        send: |ch, bits| register_ex(ch, bits, true, None),
    },
    Field {
        name: "reg_dmabuf_mr access",
        may: ACCESS,
        send: |ch, bits| {
            let backing = File::open("/dev/null").unwrap();
            let request = mr::RegisterDmabuf {
                pd: 1,
                fd: backing.as_fd(),
                offset: 0,
                length: 4096,
                iova: 0,
                access: AccessFlags::from_bits_retain(bits),
            };
            mr::register_dmabuf(ch, &request, &Uhw::NONE).map(drop)
        },
    },
    Field {
        name: "reg_dm_mr access",
        may: ACCESS,
        send: |ch, bits| {
            let request = mr::RegisterDm {
                pd: 1,
                dm: 1,
                offset: 0,
                length: 4096,
                access: AccessFlags::from_bits_retain(bits),
            };
            mr::register_dm(ch, &request, &Uhw::NONE).map(drop)
        },
    },
    Field {
        name: "rereg_mr flags",
        may: May::Bits(7),
        send: |ch, bits| reregister(ch, bits, 1),
    },
    Field {
        name: "rereg_mr access",
        may: ACCESS,
        send: |ch, bits| reregister(ch, 4, bits),
    },
    Field {
        name: "advise_mr advice",
        may: May::Word(&[0, 1, 2]),
        send: |ch, raw| advise(ch, raw, 0),
    },
    Field {
        name: "advise_mr flags",
        may: May::Bits(1),
        send: |ch, bits| advise(ch, 0, bits),
    },
    Field {
        name: "create_cq flags",
        may: May::Bits(3),
        send: |ch, bits| create_cq(ch, bits, None),
    },
    Field {
        name: "create_cq flags with a buffer",
        may: May::Bits(3),
        send: |ch, bits| {
            let buffer = cq::Buffer::Address {
                address: 4096,
                length: 4096,
            };
            create_cq(ch, bits, Some(buffer))
        },
    },
    Field {
        name: "create_wq flags",
        may: May::Bits(0xf),
        send: |ch, bits| {
            let request = wq::Create {
                pd: 1,
                cq: 1,
                max_wr: 1,
                max_sge: 1,
                flags: wq::Flags::from_bits_retain(bits),
                user_handle: 0,
                event_fd: None,
            };
            wq::create(ch, &request, &Uhw::NONE).map(drop)
        },
    },
    Field {
        name: "modify_wq flags",
        may: May::Bits(0xf),
        send: |ch, bits| modify_wq(ch, bits, 0),
    },
    Field {
        name: "modify_wq flags mask",
        may: May::Bits(0xf),
        send: |ch, bits| modify_wq(ch, 0, bits),
    },
    Field {
        name: "create_flow flags",
        may: May::Bits(6),
        send: |ch, bits| {
            let request = flow::Create {
                qp: 1,
                kind: flow::Kind::Normal,
                priority: 0,
                port: 1,
                flags: flow::Flags::from_bits_retain(bits),
                specs: &[],
            };
            flow::create(ch, &request, &Uhw::NONE).map(drop)
        },
    },
    Field {
        name: "create_flow_action_esp flags",
        may: May::Bits(0xf),
        send: |ch, bits| flow_action::create_esp(ch, &esp(bits), &Uhw::NONE).map(drop),
    },
    Field {
        name: "modify_flow_action_esp flags",
        may: May::Bits(0xf),
        send: |ch, bits| flow_action::modify_esp(ch, 1, &esp(bits), &Uhw::NONE),
    },
    Field {
        name: "attach_comp_cntr operations",
        may: May::Bits(0x3f),
        send: |ch, bits| comp_cntr::attach(ch, 1, 1, comp_cntr::Operations::from_bits_retain(bits)),
    },
];

/// A device with a context, and the kernel behind it.
fn opened(bench: &Bench) -> Arc<UverbsFile> {
    let file = bench.file().unwrap();
    // `write(2)` may be all that is permitted, and all that the kernel lacks.
    let _ = cmd::context::get(&file, &cmd::context::GetContext::default(), &Uhw::NONE);
    file
}

#[test]
fn unnamed_values_are_refused_before_the_kernel_sees_them() {
    for profile in [Profile::v7_2(), Profile::v4_20()] {
        for way in ways() {
            let bench = Bench::new(profile, way);
            let file = opened(&bench);
            for field in FIELDS {
                let name = field.name;
                let (may, may_not) = field.may.cases();
                assert!(!may.is_empty() && !may_not.is_empty(), "{name}");
                for raw in may_not {
                    let before = bench.fake.calls();
                    let error = (field.send)(&file, raw).expect_err(name);
                    assert_eq!(
                        error.kind(),
                        field.may.refusal(),
                        "{name} {raw:#x}: {error}"
                    );
                    assert_eq!(error.errno(), None, "{name} {raw:#x}: {error}");
                    assert_eq!(bench.fake.calls(), before, "{name} {raw:#x}");
                }
            }
        }
    }
}

/// Otherwise the test above would accept a library that refuses everything.
#[test]
fn named_values_are_passed_to_the_kernel() {
    let bench = Bench::newest();
    for field in FIELDS {
        for raw in field.may.cases().0 {
            // The library remembers what a kernel lacks.
            let file = opened(&bench);
            let before = bench.fake.calls();
            let answer = (field.send)(&file, raw);
            let commands = bench.fake.calls() - before;
            assert!(commands > 0, "{} {raw:#x}: {answer:?}", field.name);
        }
    }
}

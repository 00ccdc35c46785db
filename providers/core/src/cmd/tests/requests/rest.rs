//! Memory, addresses, groups, XRC domains and rules.

use uverbs_uapi::ib_user_verbs::*;

use super::{NOTHING, dest, issue, path, same};
use crate::cmd::{ah, flow, mcast, mr, mw, xrcd};
use crate::sys::Uhw;
use crate::types::{AccessFlags, Gid, LocalKey, MwType, RemoteKey, ReregFlags};

#[test]
fn memory() {
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let request = mr::Register {
        pd: 21,
        start: 0x2000,
        length: 0x3000,
        iova: 0x4000,
        access,
    };
    let reply = ib_uverbs_reg_mr_resp {
        mr_handle: 31,
        lkey: 32,
        rkey: 33,
    };
    let (made, sent) = issue("9", &reply, |file| mr::register(file, &request, &Uhw::NONE));
    let keys = (LocalKey::from_raw(32), RemoteKey::from_raw(33));
    assert_eq!((made.handle, (made.lkey, made.rkey)), (31, keys));
    let expected = ib_uverbs_reg_mr {
        response: 0,
        start: 0x2000,
        length: 0x3000,
        hca_va: 0x4000,
        pd_handle: 21,
        access_flags: 3,
    };
    same(&sent, &expected);

    let all = ReregFlags::all();
    let request = mr::Reregister {
        mr: 22,
        flags: all,
        start: 0x5000,
        length: 0x6000,
        iova: 0x7000,
        pd: 23,
        access,
    };
    let reply = ib_uverbs_rereg_mr_resp { lkey: 32, rkey: 33 };
    let (found, sent) = issue("11", &reply, |file| {
        mr::reregister(file, &request, &Uhw::NONE)
    });
    assert_eq!((found.lkey, found.rkey), keys);
    let expected = ib_uverbs_rereg_mr {
        response: 0,
        mr_handle: 22,
        flags: 7,
        start: 0x5000,
        length: 0x6000,
        hca_va: 0x7000,
        pd_handle: 23,
        access_flags: 3,
    };
    same(&sent, &expected);

    for (kind, raw) in [(MwType::Type1, 1), (MwType::Type2, 2)] {
        let reply = ib_uverbs_alloc_mw_resp {
            mw_handle: 31,
            rkey: 33,
        };
        let (made, sent) = issue("14", &reply, |file| mw::alloc(file, 21, kind, &Uhw::NONE));
        assert_eq!((made.handle, made.rkey), (31, RemoteKey::from_raw(33)));
        let expected = ib_uverbs_alloc_mw {
            pd_handle: 21,
            mw_type: raw,
            ..ib_uverbs_alloc_mw::default()
        };
        same(&sent, &expected);
    }
}

#[test]
fn addresses_groups_domains_and_rules() {
    const CREAT: u32 = 0o100;
    const EXCL: u32 = 0o200;
    let reply = ib_uverbs_create_ah_resp { ah_handle: 31 };
    let (handle, sent) = issue("5", &reply, |file| {
        ah::create(file, 21, &path(60), 22, &Uhw::NONE)
    });
    assert_eq!(handle, 31);
    let ib_uverbs_qp_dest {
        dgid, flow_label, ..
    } = dest(60);
    let expected = ib_uverbs_create_ah {
        user_handle: 22,
        pd_handle: 21,
        attr: ib_uverbs_ah_attr {
            grh: ib_uverbs_global_route {
                dgid,
                flow_label,
                sgid_index: 61,
                hop_limit: 62,
                traffic_class: 63,
                reserved: 0,
            },
            dlid: 60 * 257,
            sl: 12,
            src_path_bits: 65,
            static_rate: 7,
            is_global: 1,
            port_num: 66,
            reserved: 0,
        },
        ..ib_uverbs_create_ah::default()
    };
    same(&sent, &expected);

    let group = Gid::from_bytes([0xff; 16]);
    let ((), sent) = issue("30", &NOTHING, |file| {
        mcast::attach(file, 5, &group, 0xc123)
    });
    let expected = ib_uverbs_attach_mcast {
        gid: [0xff; 16],
        qp_handle: 5,
        mlid: 0xc123,
        reserved: 0,
    };
    same(&sent, &expected);
    let ((), sent) = issue("31", &NOTHING, |file| {
        mcast::detach(file, 5, &group, 0xc123)
    });
    let sent: ib_uverbs_detach_mcast = sent;
    assert_eq!(
        (sent.gid, sent.qp_handle, sent.mlid),
        ([0xff; 16], 5, 0xc123)
    );

    let reply = ib_uverbs_open_xrcd_resp { xrcd_handle: 31 };
    for (create, exclusive, oflags) in [
        (false, false, 0),
        (true, false, CREAT),
        (true, true, CREAT | EXCL),
    ] {
        let open = xrcd::Open {
            file: None,
            create,
            exclusive,
        };
        let (handle, sent) = issue("37", &reply, |file| xrcd::open(file, &open, &Uhw::NONE));
        assert_eq!(handle, 31);
        let sent: ib_uverbs_open_xrcd = sent;
        assert_eq!((sent.fd, sent.oflags), (u32::MAX, oflags));
    }

    for (kind, raw) in [
        (flow::Kind::Normal, 0),
        (flow::Kind::AllDefault, 1),
        (flow::Kind::MulticastDefault, 2),
        (flow::Kind::Sniffer, 3),
    ] {
        let rule = flow::Create {
            qp: 5,
            kind,
            priority: 6,
            port: 1,
            flags: flow::Flags::empty(),
            specs: &[],
        };
        let reply = ib_uverbs_create_flow_resp {
            comp_mask: 0,
            flow_handle: 31,
        };
        let (handle, sent) = issue("x50", &reply, |file| flow::create(file, &rule, &Uhw::NONE));
        assert_eq!(handle, 31);
        let sent: ib_uverbs_create_flow = sent;
        assert_eq!(sent.flow_attr.r#type, raw);
    }
}

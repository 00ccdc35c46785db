//! Completions, addresses of the peer's memory and requests: what their accessors say.

use crate::types::{
    AccessFlags, FlowLabel, Gid, Guid, LocalKey, Operation, Payload, PortAttr, PortState, Posting,
    Remote, RemoteKey, RemoteMemory, SendFlags, SendRequest, Sge, Template, WcFlags, WcOpcode,
    WcStatus, WorkCompletion,
};

#[test]
fn a_completion_is_a_success_by_its_status_alone() {
    for status in WcStatus::ALL {
        let completion = WorkCompletion {
            status: *status,
            ..WorkCompletion::default()
        };
        assert_eq!(completion.is_success(), *status == WcStatus::Success);
        assert_eq!(status.is_success(), completion.is_success());
    }
    assert!(!WcStatus::from_raw(0xee).is_success());
}

#[test]
fn a_completion_is_a_receive_by_its_opcode_alone() {
    let receives = [
        WcOpcode::Recv,
        WcOpcode::RecvRdmaWithImm,
        WcOpcode::TagRecv,
        WcOpcode::TagNone,
    ];
    for opcode in WcOpcode::ALL {
        let completion = WorkCompletion {
            opcode: *opcode,
            ..WorkCompletion::default()
        };
        assert_eq!(
            completion.is_receive(),
            receives.contains(opcode),
            "{opcode}"
        );
    }
    // Of unknown numbers the bit decides.
    assert!(WcOpcode::from_raw(128 + 99).is_receive());
    assert!(!WcOpcode::from_raw(99).is_receive());
}

#[test]
fn a_header_is_before_the_message_if_its_flag_is_set() {
    for (flags, has) in [
        (WcFlags::GRH, true),
        (WcFlags::GRH | WcFlags::WITH_IMM, true),
        (WcFlags::WITH_IMM, false),
        (WcFlags::empty(), false),
    ] {
        let completion = WorkCompletion {
            flags,
            ..WorkCompletion::default()
        };
        assert_eq!(completion.has_grh(), has, "{flags}");
    }
}

#[test]
fn flags_of_the_c_library_have_two_bits_the_other_way_round() {
    for (flags, ibv) in [
        (WcFlags::empty(), 0),
        (WcFlags::GRH, 1),
        (WcFlags::WITH_IMM, 2),
        (WcFlags::WITH_INVALIDATE, 8),
        (WcFlags::IP_CSUM_OK, 4),
        (WcFlags::WITH_SMAC | WcFlags::WITH_VLAN, 0),
        (WcFlags::all(), 15),
    ] {
        assert_eq!(flags.to_ibv(), ibv, "{flags}");
    }
}

const REMOTE: Remote = Remote {
    address: 0x0102_0304_0506_0708,
    key: RemoteKey::from_raw(0x1112_1314),
};

#[test]
fn an_address_of_the_peer_is_sent_in_network_order() {
    let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14];
    assert_eq!(REMOTE.to_bytes(), bytes);
    assert_eq!(Remote::from_bytes(bytes), REMOTE);
    let memory = RemoteMemory::new(REMOTE, 0x2122);
    let mut long = [0; 20];
    long[..12].copy_from_slice(&bytes);
    long[18..].copy_from_slice(&[0x21, 0x22]);
    assert_eq!(memory.to_bytes(), long);
    assert_eq!(RemoteMemory::from_bytes(long), memory);
    assert_eq!((memory.start(), Remote::from(memory)), (REMOTE, REMOTE));
}

#[test]
fn a_part_of_the_peer_s_memory_is_inside_it() {
    let memory = RemoteMemory {
        address: 1000,
        length: 100,
        key: RemoteKey::from_raw(7),
    };
    assert_eq!(memory.at(0).unwrap().address, 1000);
    let end = memory.at(100).unwrap();
    assert_eq!((end.address, end.key), (1100, memory.key));
    assert!(memory.at(101).is_err());
    for (start, end) in [(0, 100), (0, 0), (100, 100), (40, 60)] {
        let part = memory.part(start..end).unwrap();
        assert_eq!((part.address, part.length), (1000 + start, end - start));
        assert_eq!(part.key, memory.key);
    }
    #[expect(clippy::reversed_empty_ranges, reason = "is refused")]
    for wrong in [0..101, 101..101, 60..40] {
        assert!(memory.part(wrong.clone()).is_err(), "{wrong:?}");
    }
}

#[test]
fn texts_of_addresses_of_the_peer_are_read_and_others_refused() {
    let text = REMOTE.to_string();
    assert_eq!(text, "0x102030405060708:0x11121314");
    assert_eq!(text.parse(), Ok(REMOTE));
    for wrong in [
        "",
        "0x1",
        "1:0x1",
        "0x1:1",
        "0x1:0x",
        "0x:0x1",
        "0x+1:0x1",
        "0x1:0x+1",
        "0x1:0x100000000",
        "0x10000000000000000:0x1",
    ] {
        assert!(wrong.parse::<Remote>().is_err(), "{wrong}");
    }
    let memory = RemoteMemory::new(REMOTE, 16);
    assert_eq!(memory.to_string().parse(), Ok(memory));
    for wrong in ["0x1:0x1", "0x1+0x2", "0x1+2:0x3", "0x1+0x2:3", "1+0x2:0x3"] {
        assert!(wrong.parse::<RemoteMemory>().is_err(), "{wrong}");
    }
}

#[test]
fn a_request_is_what_its_setters_made_it() {
    let key = LocalKey::from_raw(3);
    let entries = [(1, 8), (2, 9)].map(|(address, length)| Sge {
        address,
        length,
        key,
    });
    let plain = SendRequest::send(&entries);
    assert_eq!((plain.wr_id, plain.flags), (0, SendFlags::empty()));
    assert!(plain.destination.is_none());
    assert!(matches!(plain.operation, Operation::Send));
    assert_eq!(plain.payload.len(), 17);
    let request = plain.wr_id(5).signaled().with(SendFlags::FENCE);
    assert_eq!(request.wr_id, 5);
    assert_eq!(request.flags, SendFlags::SIGNALED | SendFlags::FENCE);
    let write = SendRequest::write(&entries, REMOTE);
    assert!(matches!(write.operation, Operation::Write(to) if to == REMOTE));
    let read = SendRequest::read(&entries, REMOTE);
    assert!(matches!(read.operation, Operation::Read(from) if from == REMOTE));
    let parts: [&[u8]; 2] = [b"abc", b"de"];
    let inline = SendRequest::send_inline(&parts);
    assert!(matches!(inline.payload, Payload::Inline(_)));
    assert_eq!(
        (inline.payload.len(), inline.payload.is_empty()),
        (5, false)
    );
    for empty in [Payload::NONE, Payload::Inline(&[b"", b""])] {
        assert_eq!((empty.len(), empty.is_empty()), (0, true));
    }
}

#[test]
fn a_link_local_gid_begins_with_ten_bits() {
    let begins = |first, second| {
        let mut bytes = [0x11; 16];
        (bytes[0], bytes[1]) = (first, second);
        Gid::from_bytes(bytes).is_link_local()
    };
    assert!(begins(0xfe, 0x80) && begins(0xfe, 0xbf));
    for (first, second) in [
        (0xfe, 0xc0),
        (0xfe, 0x00),
        (0xfe, 0x40),
        (0xff, 0x80),
        (0, 0x80),
    ] {
        assert!(!begins(first, second), "{first:x}{second:02x}");
    }
}

#[test]
fn a_flow_label_folds_all_bits_of_both_numbers() {
    let label = |one, other| FlowLabel::for_qps(one, other).raw();
    assert_eq!(label(0, 77), 0);
    assert_eq!(label(1, 5), 5);
    // Bits 20 to 39 of the product, and those from 40 on, are folded into the lowest.
    assert_eq!(label(1 << 20, 3), 3);
    assert_eq!(label(1 << 23, 1 << 23), 1 << 6);
    assert_eq!(label(0x12_3456, 0xab_cdef), 0xac3e3);
    assert_eq!(FlowLabel::new(0x12345).unwrap().to_string(), "0x12345");
}

#[test]
fn access_rights_are_consistent_if_remote_changes_go_with_local_ones() {
    let local = AccessFlags::LOCAL_WRITE;
    for remote in [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC] {
        assert!(!remote.is_consistent(), "{remote}");
        assert!((remote | local).is_consistent(), "{remote}");
    }
    for rights in [AccessFlags::empty(), AccessFlags::REMOTE_READ, local] {
        assert!(rights.is_consistent(), "{rights}");
    }
    let relaxed = local | AccessFlags::RELAXED_ORDERING;
    assert_eq!(relaxed.without_optional(), local);
    assert_eq!(
        AccessFlags::from_bits_retain(1 << 19 | 1 << 30)
            .without_optional()
            .bits(),
        1 << 19 | 1 << 30
    );
}

#[test]
fn a_key_is_a_number_that_is_not_printed() {
    let key = RemoteKey::from(0x1234_56ff);
    assert_eq!((key.raw(), u32::from(key)), (0x1234_56ff, 0x1234_56ff));
    assert_eq!(key.inc().raw(), 0x1234_5600, "of its low byte alone");
    assert_eq!(RemoteKey::from_raw(7).inc().raw(), 8);
    assert_eq!(
        format!("{key:?} {:?}", LocalKey::from(5)),
        "RemoteKey(..) LocalKey(..)"
    );
    assert_eq!(u32::from(LocalKey::from(5)), 5);
}

#[test]
fn a_template_posts_what_it_describes() {
    let (local, remote) = (LocalKey::from_raw(3), RemoteKey::from_raw(4));
    let posting = Posting {
        wr_id: 5,
        address: 6,
        length: 7,
        remote: 8,
    };
    let there = Remote {
        address: 8,
        key: remote,
    };
    for (template, expected) in [
        (Template::send(local), Operation::Send),
        (Template::send_imm(local, 9), Operation::SendImm(9)),
        (Template::write(local, remote), Operation::Write(there)),
        (
            Template::write_imm(local, remote, 10),
            Operation::WriteImm(there, 10),
        ),
        (Template::read(local, remote), Operation::Read(there)),
    ] {
        template.with(&posting, |request| {
            assert_eq!(format!("{:?}", request.operation), format!("{expected:?}"));
            assert_eq!((request.wr_id, request.flags), (5, SendFlags::empty()));
            let entry = Sge {
                address: 6,
                length: 7,
                key: local,
            };
            assert!(matches!(request.payload, Payload::Gather(&[one]) if one == entry));
            assert!(request.destination.is_none());
        });
        let flags = template.flags(SendFlags::FENCE).signaled();
        let found = flags.with(&posting, |request| request.flags);
        assert_eq!(found, SendFlags::FENCE | SendFlags::SIGNALED);
    }
}

#[test]
fn a_port_is_active_in_two_states() {
    for state in PortState::ALL {
        let port = PortAttr {
            state: *state,
            ..PortAttr::default()
        };
        let active = matches!(state, PortState::Active | PortState::ActiveDefer);
        assert_eq!(port.is_active(), active, "{state}");
    }
}

#[test]
fn a_guid_is_printed_with_its_type() {
    let guid = Guid::from_u64(0x0011_2233_4455_6677);
    assert_eq!(format!("{guid:?}"), "Guid(0011:2233:4455:6677)");
}

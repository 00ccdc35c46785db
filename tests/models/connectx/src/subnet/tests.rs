//! Requests as clients write them, spelled out from the specification's tables.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;
use crate::layout::{be16, be32, be64};

const GET: u8 = 0x01;
const SET: u8 = 0x02;
const TABLE: u8 = 0x12;
const DELETE: u8 = 0x15;

const PATH: u16 = 0x35;
const MEMBER: u16 = 0x38;
const SERVICE: u16 = 0x31;
const INFORM: u16 = 0x03;

/// Group, port, partition key and join state.
const JOIN: u64 = 1 << 0 | 1 << 1 | 1 << 7 | 1 << 16;
/// What a new group needs beyond that: queue key, traffic class, service level, flow label.
const CREATE: u64 = JOIN | 1 << 2 | 1 << 6 | 1 << 12 | 1 << 13;

const GROUP: Gid = [
    0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
];

fn port(lid: u16) -> Port {
    let mut gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0xc0, 0, 0];
    gid[14..].copy_from_slice(&lid.to_be_bytes());
    Port { lid, gid }
}

fn ports() -> [Port; 2] {
    [port(1), port(2)]
}

fn from(lid: u16) -> Address {
    Address {
        lid,
        qpn: 1,
        gid: None,
    }
}

fn request(method: u8, attribute: u16, mask: u64, record: &[u8]) -> Vec<u8> {
    let mut mad = vec![0; 256];
    mad[..4].copy_from_slice(&[1, 3, 2, method]);
    mad[8..16].copy_from_slice(&0x1234_5678_9abc_def0_u64.to_be_bytes());
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[48..56].copy_from_slice(&mask.to_be_bytes());
    mad[56..56 + record.len()].copy_from_slice(record);
    mad
}

/// Sends a request, and returns the one answer: its status, and its bytes.
fn ask(subnet: &mut Subnet, lid: u16, bytes: &[u8]) -> (u16, Vec<u8>) {
    let letters = subnet.hear(0, &ports(), from(lid), bytes);
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!(letter.to, from(lid));
    assert_eq!(letter.mad[..3], bytes[..3], "class and versions");
    assert_eq!(letter.mad[8..16], bytes[8..16], "the transaction");
    (be16(&letter.mad, 4), letter.mad.to_vec())
}

fn member_record(group: Gid, port: Gid, state: u8) -> Vec<u8> {
    let mut record = vec![0; 52];
    record[..16].copy_from_slice(&group);
    record[16..32].copy_from_slice(&port);
    record[32..36].copy_from_slice(&0xb1b_u32.to_be_bytes());
    record[40..42].copy_from_slice(&[0xff, 0xff]);
    record[48] = state;
    record
}

fn path_record(from: Gid, to: Gid) -> Vec<u8> {
    let mut record = vec![0; 64];
    record[8..24].copy_from_slice(&to);
    record[24..40].copy_from_slice(&from);
    record
}

#[test]
fn a_path_between_two_ports() {
    let mut subnet = Subnet::default();
    let mut record = path_record(port(1).gid, port(2).gid);
    // A service of rdma_cm, a traffic class, one path, reversible, the partition key.
    record[..8].copy_from_slice(&0x0106_4e21_u64.to_be_bytes());
    record[48..52].copy_from_slice(&[0x28, 0x81, 0xff, 0xff]);
    let mask = 0b11 | 1 << 2 | 1 << 3 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13;
    let (status, mad) = ask(&mut subnet, 1, &request(GET, PATH, mask, &record));
    assert_eq!((status, mad[3]), (0, 0x81));
    let path = &mad[56..];
    assert_eq!(path[..40], record[..40], "the service and both ends");
    assert_eq!((be16(path, 40), be16(path, 42)), (2, 1), "LIDs");
    assert_eq!(
        be32(path, 44),
        0,
        "no hop: the path needs no network header"
    );
    assert_eq!(path[48..52], [0x28, 0x81, 0xff, 0xff]);
    // MTU 4096, 100 Gb/s and about a second, each exactly.
    assert_eq!(path[54..57], [0x85, 0x90, 0x92]);
}

#[test]
fn paths_by_lid_and_of_every_end() {
    let mut subnet = Subnet::default();
    let mut record = vec![0; 64];
    record[40..44].copy_from_slice(&[0, 2, 0, 1]);
    let (status, mad) = ask(
        &mut subnet,
        1,
        &request(GET, PATH, 1 << 4 | 1 << 5, &record),
    );
    assert_eq!((status, &mad[56 + 8..56 + 24]), (0, &port(2).gid[..]));

    // Two ports and the manager's.
    let source = request(TABLE, PATH, 1 << 5, &record);
    let (status, mad) = ask(&mut subnet, 1, &source);
    assert_eq!((status, mad[3], be16(&mad, 44)), (0, 0x92, 8));
    assert_eq!(mad[24..27], [1, 1, 0b111], "one segment");
    assert_eq!((be32(&mad, 28), be32(&mad, 32)), (1, 20 + 3 * 64));

    let one = request(GET, PATH, 1 << 5, &record);
    assert_eq!(ask(&mut subnet, 1, &one).0, 0x0400, "too many");
    record[40] = 9;
    let unknown = request(GET, PATH, 1 << 4 | 1 << 5, &record);
    assert_eq!(ask(&mut subnet, 1, &unknown).0, 0x0300, "no record");
    let stranger = path_record(port(1).gid, port(7).gid);
    let stranger = request(GET, PATH, 1 << 2 | 1 << 3, &stranger);
    assert_eq!(ask(&mut subnet, 1, &stranger).0, 0x0500, "no such port");
    let (status, mad) = ask(&mut subnet, 1, &request(TABLE, PATH, 0, &[]));
    // Of nine paths the first segment has a part.
    assert_eq!((status, be32(&mad, 32)), (0, 3 * 20 + 9 * 64));
}

#[test]
fn paths_that_are_not_good_enough() {
    let mut subnet = Subnet::default();
    let ends = 1 << 2 | 1 << 3;
    let mut of = |at: usize, byte: u8, mask: u64| {
        let mut record = path_record(port(1).gid, port(2).gid);
        record[at] = byte;
        ask(&mut subnet, 1, &request(GET, PATH, ends | mask, &record)).0
    };
    let mtu = 0b11 << 16;
    assert_eq!(of(54, 0x84, mtu), 0x300, "exactly 2048");
    assert_eq!(of(54, 0x04, mtu), 0, "more than 2048");
    assert_eq!(
        of(54, 0x84, 1 << 17),
        0,
        "without its selector it says nothing"
    );
    let rate = 0b11 << 18;
    // 10 Gb/s have a smaller code than 5 Gb/s.
    assert_eq!(of(55, 0x03, rate), 0, "more than 10 Gb/s");
    assert_eq!(of(55, 0x11, rate), 0x300, "more than 200 Gb/s");
    assert_eq!(of(55, 0x51, rate), 0, "less than 200 Gb/s");
    assert_eq!(of(56, 0x52, 0b11 << 20), 0x300, "sooner than in a second");
    assert_eq!(of(51, 0x12, 1 << 13), 0x300, "another partition");
    assert_eq!(of(53, 0x01, 1 << 15), 0x300, "another service level");
}

#[test]
fn the_group_of_broadcasts_is_there_and_others_are_created() {
    let mut subnet = Subnet::default();
    let broadcast: Gid = [
        0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
    ];
    let record = member_record(broadcast, port(1).gid, 1);
    let (status, mad) = ask(&mut subnet, 1, &request(SET, MEMBER, JOIN, &record));
    assert_eq!((status, mad[3]), (0, 0x81));
    assert_eq!(be32(&mad, 56 + 32), 0xb1b);
    assert_eq!(
        mad[56 + 36..56 + 39],
        [0xc0, 0, 0x84],
        "LID, and an MTU of 2048"
    );
    assert_eq!(mad[56 + 48], 0x21, "a full member in the link's scope");
    assert_eq!(subnet.receivers(0xc000), Some(vec![port(1).gid]));

    // Another group needs to be complete.
    let record = member_record(GROUP, port(2).gid, 1);
    let (status, _) = ask(&mut subnet, 2, &request(SET, MEMBER, JOIN, &record));
    assert_eq!(status, 0x0600);
    let (status, mad) = ask(&mut subnet, 2, &request(SET, MEMBER, CREATE, &record));
    assert_eq!((status, be16(&mad, 56 + 36)), (0, 0xc001));
    assert_eq!(mad[56 + 38], 0x85, "the best MTU");
    // A member that only sends does not receive.
    let sender = member_record(GROUP, port(1).gid, 4);
    assert_eq!(
        ask(&mut subnet, 1, &request(SET, MEMBER, JOIN, &sender)).0,
        0
    );
    assert_eq!(subnet.receivers(0xc001), Some(vec![port(2).gid]));
    // Its key is what it is.
    let mut other = sender.clone();
    other[35] = 0;
    let (status, _) = ask(&mut subnet, 1, &request(SET, MEMBER, CREATE, &other));
    assert_eq!(status, 0x0200);
    assert_eq!(subnet.receivers(0xc002), None);
}

#[test]
fn the_last_full_member_takes_the_group_with_it() {
    let mut subnet = Subnet::default();
    for lid in [1, 2] {
        let record = member_record(GROUP, port(lid).gid, 1);
        ask(&mut subnet, lid, &request(SET, MEMBER, CREATE, &record));
    }
    let leave = |subnet: &mut Subnet, lid: u16, state: u8| {
        let record = member_record(GROUP, port(lid).gid, state);
        let (status, mad) = ask(subnet, lid, &request(DELETE, MEMBER, JOIN, &record));
        (status, mad[3])
    };
    assert_eq!(
        leave(&mut subnet, 1, 2),
        (0x0200, 0x95),
        "was no such member"
    );
    assert_eq!(leave(&mut subnet, 1, 1), (0, 0x95));
    assert_eq!(leave(&mut subnet, 1, 1), (0x0200, 0x95), "has left");
    assert_eq!(subnet.receivers(0xc001), Some(vec![port(2).gid]));
    // A port that goes down leaves everything.
    assert!(subnet.port_down(&ports(), port(2)).is_empty());
    assert_eq!(subnet.receivers(0xc001), None);
    assert_eq!(subnet.receivers(0xc000), Some(vec![]), "broadcasts stay");
}

#[test]
fn a_port_joins_only_for_itself() {
    let mut subnet = Subnet::default();
    let refused = |subnet: &mut Subnet, mask: u64, record: &[u8]| {
        ask(subnet, 1, &request(SET, MEMBER, mask, record)).0
    };
    let other = member_record(GROUP, port(2).gid, 1);
    assert_eq!(refused(&mut subnet, CREATE, &other), 0x0700);
    let unknown = member_record(GROUP, port(9).gid, 1);
    assert_eq!(refused(&mut subnet, CREATE, &unknown), 0x0500);
    let nothing = member_record(GROUP, port(1).gid, 0);
    assert_eq!(refused(&mut subnet, CREATE, &nothing), 0x0200);
    let unicast = member_record(port(2).gid, port(1).gid, 1);
    assert_eq!(refused(&mut subnet, CREATE, &unicast), 0x0200);
    let sender = member_record(GROUP, port(1).gid, 4);
    assert_eq!(refused(&mut subnet, CREATE, &sender), 0x0200);
    // Without a name the administrator gives one.
    let record = member_record([0; 16], port(1).gid, 1);
    let (status, mad) = ask(&mut subnet, 1, &request(SET, MEMBER, CREATE & !1, &record));
    assert_eq!((status, &mad[56..60]), (0, &[0xff, 0x12, 0xa0, 0x1b][..]));
}

#[test]
fn groups_and_members_are_listed() {
    let mut subnet = Subnet::default();
    for lid in [1, 2] {
        let record = member_record(GROUP, port(lid).gid, 1);
        ask(&mut subnet, lid, &request(SET, MEMBER, CREATE, &record));
    }
    let (_, mad) = ask(&mut subnet, 1, &request(TABLE, MEMBER, 0, &[]));
    // Two groups, of 56 bytes each.
    assert_eq!((be16(&mad, 44), be32(&mad, 32)), (7, 20 + 2 * 56));
    let mut trusted = request(TABLE, MEMBER, 0, &[]);
    trusted[43] = 1;
    let (_, mad) = ask(&mut subnet, 1, &trusted);
    assert_eq!(be32(&mad, 32), 20 + 2 * 56, "two memberships");
    assert_eq!(mad[56 + 56 + 16..56 + 56 + 32], port(2).gid);
    let record = member_record(GROUP, port(2).gid, 0);
    let (status, mad) = ask(&mut subnet, 1, &request(GET, MEMBER, 0b11, &record));
    assert_eq!((status, mad[56 + 48]), (0, 0x21));
    let (status, _) = ask(&mut subnet, 1, &request(GET, MEMBER, 0, &[]));
    assert_eq!(status, 0x0400);
}

fn service_record(number: u64, gid: Gid, name: &str, lease: u32) -> Vec<u8> {
    let mut record = vec![0; 176];
    record[..8].copy_from_slice(&number.to_be_bytes());
    record[8..24].copy_from_slice(&gid);
    record[24..26].copy_from_slice(&[0xff, 0xff]);
    record[28..32].copy_from_slice(&lease.to_be_bytes());
    record[48..48 + name.len()].copy_from_slice(name.as_bytes());
    // The last of its values of 64 bits.
    record[175] = number as u8;
    record
}

#[test]
fn services_by_number_and_name_until_their_leases_end() {
    let mut subnet = Subnet::default();
    let named = 1 << 0 | 1 << 1;
    for (number, name, lease) in [(7, "store", u32::MAX), (8, "store", 5), (9, "news", 5)] {
        let record = service_record(number, port(1).gid, name, lease);
        let (status, mad) = ask(&mut subnet, 1, &request(SET, SERVICE, named, &record));
        assert_eq!((status, &mad[56..232]), (0, &record[..]));
    }
    let store = service_record(0, [0; 16], "store", 0);
    let letters = subnet.hear(
        0,
        &ports(),
        from(2),
        &request(TABLE, SERVICE, 1 << 6, &store),
    );
    // 352 bytes are two segments, of which the second waits for an acknowledgement.
    let first = &letters[0].mad;
    assert_eq!(
        (letters.len(), first[26], be32(first, 32)),
        (1, 0b011, 40 + 352)
    );
    let mut acknowledged = first.to_vec();
    acknowledged[3] = TABLE;
    acknowledged[25] = 2;
    acknowledged[32..36].copy_from_slice(&64_u32.to_be_bytes());
    let letters = subnet.hear(0, &ports(), from(2), &acknowledged);
    let second = &letters[0].mad;
    assert_eq!((letters.len(), second[26], be32(second, 28)), (1, 0b101, 2));
    assert_eq!(be32(second, 32), 20 + 152);
    let table = [&first[56..], &second[56..]].concat();
    assert_eq!((table[175], be64(&table, 176), table[351]), (7, 8, 8));
    // The last value that a mask selects.
    let by_value = service_record(9, [0; 16], "", 0);
    let (status, mad) = ask(&mut subnet, 2, &request(GET, SERVICE, 1 << 36, &by_value));
    assert_eq!((status, be64(&mad, 56)), (0, 9));

    let later = 5_000_000_001;
    let letters = subnet.hear(later, &ports(), from(2), &request(GET, SERVICE, 0, &[]));
    assert_eq!(be64(&letters[0].mad, 56), 7, "the one without end");
    let gone = service_record(7, port(1).gid, "", 0);
    let (status, mad) = ask(&mut subnet, 1, &request(DELETE, SERVICE, named, &gone));
    assert_eq!((status, mad[3]), (0, 0x95));
    assert_eq!(
        ask(&mut subnet, 1, &request(GET, SERVICE, 0, &[])).0,
        0x0300
    );
    assert_eq!(
        ask(&mut subnet, 1, &request(SET, SERVICE, 1, &gone)).0,
        0x0600
    );
    let (status, mad) = ask(&mut subnet, 1, &request(TABLE, SERVICE, 0, &[]));
    assert_eq!((status, be32(&mad, 32)), (0, 20), "an empty table");
}

#[test]
fn segments_that_are_lost_are_sent_again() {
    let mut subnet = Subnet::default();
    for number in 0..5 {
        let record = service_record(number, port(1).gid, "", u32::MAX);
        ask(&mut subnet, 1, &request(SET, SERVICE, 0b11, &record));
    }
    let ask_all = request(TABLE, SERVICE, 0, &[]);
    let mut sent = |kind: u8, segment: u32, window: u32| {
        let mut mad = ask_all.clone();
        mad[24..27].copy_from_slice(&[1, kind, 1]);
        mad[28..32].copy_from_slice(&segment.to_be_bytes());
        mad[32..36].copy_from_slice(&window.to_be_bytes());
        if kind == 0 {
            mad[24..36].fill(0);
        }
        let letters = subnet.hear(0, &ports(), from(1), &mad);
        let numbers = letters.iter().map(|letter| be32(&letter.mad, 28));
        numbers.collect::<Vec<_>>()
    };
    // 880 bytes: five segments.
    assert_eq!(sent(0, 0, 0), [1]);
    assert_eq!(sent(2, 1, 3), [2, 3]);
    assert_eq!(sent(2, 2, 3), [3], "the third was lost");
    assert_eq!(sent(2, 3, 99), [4, 5]);
    assert_eq!(sent(2, 5, 99), [0; 0]);
    assert_eq!(sent(2, 4, 99), [0; 0], "it has ended");
    assert_eq!(sent(0, 0, 0), [1]);
    assert_eq!(sent(4, 1, 0), [0; 0], "given up by the receiver");
    assert_eq!(sent(2, 1, 9), [0; 0]);
}

#[test]
fn who_subscribes_hears_of_groups_and_ports() {
    let mut subnet = Subnet::default();
    let mut info = vec![0; 36];
    info[22..28].copy_from_slice(&[1, 1, 0xff, 0xff, 0, 66]);
    let (status, mad) = ask(&mut subnet, 1, &request(SET, INFORM, 0, &info));
    assert_eq!((status, mad[3], &mad[56..92]), (0, 0x81, &info[..]));
    let record = member_record(GROUP, port(2).gid, 1);
    let letters = subnet.hear(0, &ports(), from(2), &request(SET, MEMBER, CREATE, &record));
    let [answer, report] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!((answer.to.lid, report.to.lid), (2, 1));
    assert_eq!(report.mad[..4], [1, 3, 2, 6]);
    assert_eq!((be16(&report.mad, 16), be16(&report.mad, 60)), (2, 66));
    assert_eq!(report.mad[72..88], GROUP);
    // Its answer needs none.
    let mut answer = report.mad;
    answer[3] = 0x86;
    assert!(subnet.hear(0, &ports(), from(1), &answer).is_empty());
    // Not of what it did not ask for, nor after it ended.
    assert!(subnet.port_up(&ports(), port(2)).is_empty());
    info[23] = 0;
    assert_eq!(ask(&mut subnet, 1, &request(SET, INFORM, 0, &info)).0, 0);
    assert_eq!(
        ask(&mut subnet, 1, &request(SET, INFORM, 0, &info)).0,
        0x200
    );
    info[23..28].copy_from_slice(&[1, 0xff, 0xff, 0xff, 0xff]);
    ask(&mut subnet, 1, &request(SET, INFORM, 0, &info));
    let letters = subnet.port_down(&ports()[..1], port(2));
    let numbers: Vec<_> = letters.iter().map(|letter| be16(&letter.mad, 60)).collect();
    assert_eq!(
        numbers,
        [65, 67],
        "the port, and the group that it alone was in"
    );
}

#[test]
fn what_is_not_understood_is_refused_by_its_status() {
    let mut subnet = Subnet::default();
    let (status, mad) = ask(&mut subnet, 1, &request(GET, 1, 0, &[]));
    // Multicast, and members that only send.
    assert_eq!((status, be16(&mad, 58)), (0, 1 << 9));
    assert_eq!((be32(&mad, 60) >> 5, mad[63] & 31), (1 << 12, 18));
    for (method, attribute, expected, answer) in [
        (0x14, 0x3a, 0x0008, 0x94),
        (SET, PATH, 0x000c, 0x81),
        (GET, 0x11, 0x000c, 0x81),
        (TABLE, 1, 0x000c, 0x92),
    ] {
        let (status, mad) = ask(&mut subnet, 1, &request(method, attribute, 0, &[]));
        assert_eq!((status, mad[3]), (expected, answer), "{method:#x}");
    }
    for place in [0, 2] {
        let mut mad = request(GET, 1, 0, &[]);
        mad[place] = 0x80;
        assert_eq!(ask(&mut subnet, 1, &mad).0, 0x0004);
    }
    // Nobody answers other classes, answers, traps, or what is not 256 bytes long.
    let silent = |subnet: &mut Subnet, bytes: &[u8]| {
        assert!(subnet.hear(0, &ports(), from(1), bytes).is_empty());
    };
    let mut other = request(GET, 1, 0, &[]);
    other[1] = 4;
    silent(&mut subnet, &other);
    for method in [0x81, 0x05, 0x06, 0x07] {
        silent(&mut subnet, &request(method, 1, 0, &[]));
    }
    silent(&mut subnet, &request(GET, 1, 0, &[])[..255]);
    silent(&mut subnet, &[0; 257]);
    silent(&mut subnet, &[]);
}

proptest! {
    #[test]
    fn any_bytes_lead_to_few_datagrams(
        requests in prop::collection::vec(
            (
                prop::sample::select(vec![GET, SET, TABLE, DELETE, 0x81, 0x14, 5, 0xff]),
                prop::sample::select(vec![1_u16, 2, 3, 0x11, 0x31, 0x35, 0x38, 0xffff]),
                any::<u64>(),
                prop::collection::vec(any::<u8>(), 200),
                any::<[u8; 12]>(),
                prop::bool::weighted(0.7),
            ),
            1..40,
        ),
    ) {
        let mut subnet = Subnet::default();
        for (at, (method, attribute, mask, mut record, transfer, sensible)) in
            requests.into_iter().enumerate()
        {
            if sensible {
                // A port that exists, where members, services and paths have it.
                record[16..32].copy_from_slice(&port(1).gid);
                record[8..24].copy_from_slice(&port(1).gid);
                record[0] |= 0xf0;
            }
            let mut mad = request(method, attribute, mask, &record);
            if !sensible {
                mad[24..36].copy_from_slice(&transfer);
            }
            let letters = subnet.hear(at as u64, &ports(), from(1), &mad);
            // One answer, reports of groups, or the rest of a table.
            prop_assert!(letters.len() <= 64, "{}", letters.len());
        }
        subnet.port_down(&ports(), port(1));
        subnet.port_up(&ports(), port(1));
    }
}

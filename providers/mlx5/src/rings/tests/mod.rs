//! Known bytes, written by hand, and arbitrary bytes.
#![allow(clippy::unwrap_used, reason = "tests")]

mod fields;
mod hooks;

use proptest::prelude::*;
use uverbs_core::rings::{Collector, Entry, QueueKind, Watch};

use super::completion::{self, ENTRY};
use super::segments::Route;
use super::*;
use uverbs_core::rings::Fields;

/// The line of an entry, keys included, without the queue's name in front.
fn line(fields: Fields) -> String {
    let collector = std::sync::Arc::new(Collector::new());
    let watch = std::sync::Arc::new(Watch::new(collector.clone()));
    watch
        .queue(QueueKind::Send, 0)
        .report(0, Vec::new(), |_| fields);
    let [entry]: [Entry; 1] = collector.take().try_into().unwrap();
    let line = entry.with_keys().to_string();
    line.strip_prefix("sq 0x0[0] ").unwrap().to_owned()
}

/// The bytes of words.
fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn request(route: Route, words: &[u32]) -> String {
    line(send::fields(&bytes(words), route))
}

const REMOTE: [u32; 4] = [0x7f00, 0x1000, 0x1234, 0];
const SGE: [u32; 4] = [64, 0x5678, 0x7f00, 0x2000];
const REMOTE_LINE: &str = "remote_address=0x7f0000001000 rkey=0x1234";
const SGE_LINE: &str = "length=64 lkey=0x5678 address=0x7f0000002000";

#[test]
fn writes_and_reads_name_both_ends() {
    for (opcode, name) in [(0x08, "RDMA_WRITE"), (0x10, "RDMA_READ")] {
        let mut words = vec![0x0000_0300 | opcode, 0x0001_1803, 0x88, 0];
        words.extend(REMOTE.iter().chain(&SGE));
        assert_eq!(
            request(Route::Connected, &words),
            format!(
                "{name} index=3 qpn=0x118 units=3 flags=signaled|fence {REMOTE_LINE} {SGE_LINE}"
            )
        );
    }
}

#[test]
fn inline_data_ends_where_its_length_says() {
    let words = [
        0x0b,
        0x0001_1802,
        2,
        0xabcd,
        0x8000_0005,
        0x6865_6c6c,
        0x6f00_0000,
        0,
    ];
    assert_eq!(
        request(Route::Connected, &words),
        "SEND_IMM index=0 qpn=0x118 units=2 flags=solicited immediate=0xabcd inline=68656c6c6f"
    );
}

#[test]
fn operands_of_atomics() {
    let control = |opcode| [opcode, 0x0001_1804, 8, 0];
    let all = |opcode, operands: &[u32]| {
        let parts = [&control(opcode), &REMOTE, operands, &SGE].concat();
        request(Route::Connected, &parts)
    };
    let head = "index=0 qpn=0x118 units=4 flags=signaled";
    assert_eq!(
        all(0x11, &[0, 1, 0, 2]),
        format!("ATOMIC_CS {head} {REMOTE_LINE} swap=0x1 compare=0x2 {SGE_LINE}")
    );
    assert_eq!(
        all(0x12, &[0, 1, 9, 9]),
        format!("ATOMIC_FA {head} {REMOTE_LINE} add=0x1 {SGE_LINE}")
    );
    let modified = "modifier=0x9 index=0 qpn=0x118 units=4 flags=signaled";
    assert_eq!(
        all(0x0900_0014, &[0, 1, 0, 2, 0, 3, 0, 4]),
        format!(
            "ATOMIC_MASKED_CS {modified} {REMOTE_LINE} swap=0x1 compare=0x2 swap_mask=0x3 compare_mask=0x4 {SGE_LINE}"
        )
    );
    assert_eq!(
        all(0x0900_0015, &[0, 1, 0, 2]),
        format!("ATOMIC_MASKED_FA {modified} {REMOTE_LINE} add=0x1 boundary=0x2 {SGE_LINE}")
    );
}

#[test]
fn routes_stand_before_the_data() {
    let address = [
        0x11,
        0,
        0x8000_0042,
        0x3000_0001,
        0,
        0x0203_0405,
        0x0607_2040,
        0x4010_0000,
        0xfe80_0000,
        0,
        0,
        1,
    ];
    let words = [&[0x0a, 0x0001_1805, 8, 0], address.as_slice(), &SGE].concat();
    let way = "remote_qpn=0x42 extended=0x1 rate_and_sl=0x30 path=0x0 lid_or_port=0x1 mac=020304050607 \
               traffic_class=0x20 hop_limit=64 gid_and_label=0x40100000 gid=fe800000000000000000000000000001";
    let head = "SEND index=0 qpn=0x118 units=5 flags=signaled";
    assert_eq!(
        request(Route::Datagram, &words),
        format!("{head} qkey=0x11 {way} {SGE_LINE}")
    );
    assert_eq!(
        request(Route::Dynamic, &words),
        format!("{head} access_key=0x1100000000 {way} {SGE_LINE}")
    );
    let words = [[0x0a, 0x0001_1803, 8, 0], [0x77, 0, 0, 0], SGE].concat();
    assert_eq!(
        request(Route::Xrc, &words),
        format!("SEND index=0 qpn=0x118 units=3 flags=signaled srqn=0x77 {SGE_LINE}")
    );
}

#[test]
fn a_frame_has_its_header_in_the_request() {
    let frame = [
        0,
        0xc000_05b4,
        0,
        0x0012_0001,
        0x0203_0405,
        0x0607_0809,
        0x0a0b_0c0d,
        0x0e0f_1011,
    ];
    let words = [&[0x0e, 0x0001_1804, 8, 0], frame.as_slice(), &SGE].concat();
    assert_eq!(
        request(Route::Ethernet, &words),
        format!(
            "TSO index=0 qpn=0x118 units=4 flags=signaled checks=l3|l4 mss=1460 \
             header=000102030405060708090a0b0c0d0e0f1011 {SGE_LINE}"
        )
    );
}

#[test]
fn a_change_of_a_key_shows_what_it_changes() {
    let mut words = vec![0x25, 0x0001_180c, 8, 0x1201];
    words.extend([0xb000_0000, 0x0004_0000, 0, 0x203c_6041]);
    words.extend([0; 8]);
    words.extend([0x3000, 0x0001_1801, 0, 0, 0x7f00, 0x1000, 0, 0x2000]);
    words.extend([0; 8]);
    words.extend(SGE);
    words.extend([0; 12]);
    assert_eq!(
        request(Route::Connected, &words),
        format!(
            "UMR index=0 qpn=0x118 units=12 flags=signaled key=0x1201 change=inline|check_free|translation_offset \
             octowords=4 mask=0x203c6041 access=remote_read|remote_write key_qpn=0x118 variant=0x1 \
             start=0x7f0000001000 key_length=8192 {SGE_LINE}"
        )
    );
}

#[test]
fn what_has_no_name_is_shown_as_it_is() {
    assert_eq!(
        request(Route::Connected, &[0x3f, 0x0001_1802, 0, 0, 1, 2, 3, 4]),
        "unknown opcode=0x3f index=0 qpn=0x118 units=2 flags=none rest=00000001000000020000000300000004"
    );
    assert_eq!(request(Route::Connected, &[]), "unknown");
}

#[test]
fn receives_end_with_their_last_sge() {
    let end = [0, 0x100, 9, 9];
    let words = bytes(&[SGE, end, [8; 4]].concat());
    assert_eq!(
        line(receive::fields(&words, false)),
        format!("RECEIVE {SGE_LINE}")
    );
    let words = bytes(&[[7, 0, 0, 0], SGE, SGE].concat());
    assert_eq!(
        line(receive::fields(&words, true)),
        format!("RECEIVE next=7 {SGE_LINE} {SGE_LINE}")
    );
}

/// An entry with these words at these byte offsets.
fn entry(words: &[(usize, u32)]) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    for (at, word) in words {
        entry[*at..*at + 4].copy_from_slice(&word.to_be_bytes());
    }
    entry
}

fn completion(words: &[(usize, u32)]) -> String {
    line(completion::fields(&[], &entry(words), &[]))
}

const TAIL: &str = "qpn=0x118 counter=3 user_index=0x5 signature=0x0";

#[test]
fn completions_of_requests_name_the_request() {
    assert_eq!(
        completion(&[
            (32, 5),
            (44, 64),
            (52, 0x77),
            (56, 0x1000_0118),
            (60, 0x0003_0001)
        ]),
        format!("REQ request=RDMA_READ byte_count=64 timestamp=0x77 {TAIL} owner=1")
    );
}

#[test]
fn completions_of_messages_say_where_they_are_from() {
    let words = [
        (20, 9),
        (24, 0x1200_0042),
        (28, 0x0608_0000),
        (32, 5),
        (36, 0xabcd),
        (44, 5),
        (56, 0x118),
        (60, 0x0003_0032),
    ];
    assert_eq!(
        completion(&words),
        format!(
            "RESP_SEND_IMM byte_count=5 immediate=0xabcd slid=0x9 source_qpn=0x42 sl=0x2 route=0x1 checked=0x6 \
             headers=0x8 timestamp=0x0 {TAIL} solicited=0x1 owner=0"
        )
    );
}

#[test]
fn messages_in_completions_are_shown() {
    let words = [
        (0, 0x6865_6c6c),
        (4, 0x6f00_0000),
        (32, 5),
        (44, 5),
        (56, 0x118),
        (60, 0x0003_0024),
    ];
    assert_eq!(
        completion(&words),
        format!("RESP_SEND byte_count=5 pkey_index=0 timestamp=0x0 data=68656c6c6f {TAIL} owner=0")
    );
    let words = [(32, 5), (44, 34), (56, 0x118), (60, 0x0003_0028)];
    let fields = completion::fields(&[0xab; 64], &entry(&words), &[]);
    let data = "ab".repeat(32);
    assert!(line(fields).contains(&format!(" data={data}…[34] ")));
}

#[test]
fn failures_have_their_syndromes() {
    assert_eq!(
        completion(&[
            (32, 5),
            (52, 0x2130_8813),
            (56, 0x0800_0118),
            (60, 0x0003_00d0)
        ]),
        format!(
            "REQ_ERR syndrome=REMOTE_ACCESS vendor_syndrome=0x88 hardware_syndrome=0x21 hardware_syndrome_type=0x3 \
             request=RDMA_WRITE {TAIL} owner=0"
        )
    );
    assert_eq!(
        completion(&[(32, 5), (52, 0x0000_937f), (56, 0x118), (60, 0x0003_00e1)]),
        format!(
            "RESP_ERR syndrome=0x7f vendor_syndrome=0x93 hardware_syndrome=0x0 hardware_syndrome_type=0x0 {TAIL} owner=1"
        )
    );
}

#[test]
fn compressed_entries_say_what_they_stand_for() {
    let words = [(32, 5), (44, 2), (56, 0x118), (60, 0x0003_002c)];
    let minis = [[1; 8], [2; 8]];
    assert_eq!(
        line(completion::fields(&[], &entry(&words), &minis)),
        format!(
            "RESP_SEND stands_for=2 timestamp=0x0 mini=0101010101010101 mini=0202020202020202 {TAIL} owner=0"
        )
    );
}

#[test]
fn other_entries_are_shown_as_they_are() {
    assert!(completion(&[(60, 0xf0)]).starts_with("INVALID rest=0000"));
    assert!(completion(&[(60, 0x70)]).starts_with("unknown opcode=0x7 rest=0000"));
    assert_eq!(
        completion(&[(60, 0x50)]),
        "RESIZE_CQ qpn=0x0 counter=0 user_index=0x0 signature=0x0 owner=0"
    );
}

const ROUTES: [Route; 5] = [
    Route::Connected,
    Route::Datagram,
    Route::Dynamic,
    Route::Xrc,
    Route::Ethernet,
];

proptest! {
    #[test]
    fn any_bytes_can_be_read(
        words in proptest::collection::vec(any::<u8>(), 0..256),
        opcode in prop_oneof![0_u8..0x30, any::<u8>()],
        listed: bool,
        cqe: [[u8; 32]; 2],
        minis in proptest::collection::vec(any::<[u8; 8]>(), 0..9),
    ) {
        let mut words = words;
        if let Some(byte) = words.get_mut(3) {
            *byte = opcode;
        }
        for route in ROUTES {
            prop_assert!(!line(send::fields(&words, route)).is_empty());
        }
        prop_assert!(!line(receive::fields(&words, listed)).is_empty());
        let entry = cqe.as_flattened().try_into().unwrap();
        prop_assert!(!line(completion::fields(&words, entry, &minis)).is_empty());
    }
}

#[test]
fn every_transport_has_its_route() {
    use uverbs_core::types::QpType;
    for (kind, route) in [
        (QpType::Rc, Route::Connected),
        (QpType::Uc, Route::Connected),
        (QpType::XrcTarget, Route::Connected),
        (QpType::Ud, Route::Datagram),
        (QpType::Driver, Route::Dynamic),
        (QpType::XrcInitiator, Route::Xrc),
        (QpType::RawPacket, Route::Ethernet),
    ] {
        assert_eq!(Route::of(kind), route, "{kind}");
    }
}

/// The names are those of the header, the numbers those by which statuses are known.
#[test]
fn every_syndrome_with_a_status_has_a_name() {
    use uverbs_core::types::WcStatus;
    let known = [
        (0x01, "LOCAL_LENGTH"),
        (0x02, "LOCAL_QP_OP"),
        (0x04, "LOCAL_PROT"),
        (0x05, "WR_FLUSH"),
        (0x06, "MW_BIND"),
        (0x10, "BAD_RESP"),
        (0x11, "LOCAL_ACCESS"),
        (0x12, "REMOTE_INVAL_REQ"),
        (0x13, "REMOTE_ACCESS"),
        (0x14, "REMOTE_OP"),
        (0x15, "TRANSPORT_RETRY_EXC"),
        (0x16, "RNR_RETRY_EXC"),
        (0x22, "REMOTE_ABORTED"),
    ];
    for raw in 0..=u8::MAX {
        let name = known.iter().find(|(number, _)| *number == raw);
        let name = name.map(|(_, name)| *name);
        assert_eq!(completion::syndrome(raw.into()), name, "{raw:#x}");
        let has_status = crate::cqe::status(raw) != WcStatus::General;
        assert_eq!(has_status, name.is_some(), "{raw:#x}");
    }
}

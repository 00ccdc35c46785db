//! Every field of a request and of a completion, in its place.

use super::*;

#[test]
fn every_field_of_a_messages_path_is_shown() {
    let words = [
        (12, 0x0102_0304),
        (16, 0x0506_0000),
        (20, 0x0708_090a),
        (24, 0x3fab_cdef),
        (28, 0x0b0c_0d0e),
        (32, 0x00fe_dcba),
        (36, 0x1122_3344),
        (44, 9),
        (48, 0x0102_0304),
        (52, 0x0506_0708),
        (56, 0xff12_3456),
        (60, 0x1234_5643),
    ];
    assert_eq!(
        completion(&words),
        "RESP_SEND_INV byte_count=9 invalidate=0x11223344 hash=0x1020304 hash_type=0x5 path_bits=0x6 \
         checksum=0x708 slid=0x90a source_qpn=0xabcdef sl=0xf route=0x3 checked=0xb headers=0xc \
         vlan=0xd0e timestamp=0x102030405060708 qpn=0x123456 counter=4660 user_index=0xfedcba \
         signature=0x56 solicited=0x1 owner=1"
    );
}

#[test]
fn immediate_values_are_shown_for_what_has_one() {
    for (kind, name) in [
        (0x10, "RESP_WR_IMM byte_count=0 immediate=0xabcd"),
        (0x20, "RESP_SEND byte_count=0 pkey_index=43981"),
        (0x30, "RESP_SEND_IMM byte_count=0 immediate=0xabcd"),
        (0x40, "RESP_SEND_INV byte_count=0 invalidate=0xabcd"),
    ] {
        let line = completion(&[(36, 0xabcd), (60, kind)]);
        let route = " source_qpn=0x0 timestamp=0x0 ";
        assert!(line.starts_with(&format!("{name}{route}")), "{line}");
    }
    assert!(completion(&[(60, 0xc0)]).starts_with("SIG_ERR rest=0000"));
}

#[test]
fn a_failed_receive_names_no_request() {
    let line = completion(&[(52, 0x1122_3304), (56, 0x0a00_0118), (60, 0xe0)]);
    assert!(
        line.starts_with(
            "RESP_ERR syndrome=LOCAL_PROT vendor_syndrome=0x33 hardware_syndrome=0x11 \
             hardware_syndrome_type=0x2 qpn=0x118"
        ),
        "{line}"
    );
}

#[test]
fn every_field_of_a_control_segment_is_shown() {
    for (opcode, name, value) in [
        (0x01, "SEND_INVAL", "invalidate=0x77"),
        (0x09, "RDMA_WRITE_IMM", "immediate=0x77"),
        (0x0b, "SEND_IMM", "immediate=0x77"),
        (0x0a, "SEND", "immediate=0x77"),
        (0x00, "NOP", "immediate=0x77"),
    ] {
        let words = [0xab12_3400 | opcode, 0x1234_5602, 0xcd98_7622, 0x77];
        let line = request(Route::Connected, &words);
        let head = format!(
            "{name} modifier=0xab index=4660 qpn=0x123456 units=2 signature=0xcd stream=0x9876 \
             flags=solicited|small_fence {value}"
        );
        assert_eq!(line, head, "{opcode:#x}");
    }
}

#[test]
fn data_behind_inline_data_starts_with_the_next_unit() {
    for (length, words) in [(12_u32, 3), (13, 7), (28, 7)] {
        let mut all = vec![0x0a, 0x0001_1803, 0, 0, 0x8000_0000 | length];
        all.extend(std::iter::repeat_n(0x0101_0101, words));
        all.extend(SGE);
        let data = "01".repeat(length as usize);
        let line = request(Route::Connected, &all);
        assert!(
            line.ends_with(&format!("inline={data} {SGE_LINE}")),
            "{line}"
        );
    }
}

#[test]
fn a_frames_header_is_padded_to_a_unit() {
    for (length, words) in [(2_u32, 0_usize), (3, 4), (14, 4), (18, 4), (19, 8)] {
        let mut all = vec![0x0a, 0x0001_1803, 0, 0];
        // Checks of layer 4 alone, and a segment size.
        all.extend([0, 0x8000_0123, 0, length << 16 | 0x0101]);
        all.extend(std::iter::repeat_n(0x0101_0101, words));
        all.extend(SGE);
        let header = "01".repeat(length as usize);
        let line = request(Route::Ethernet, &all);
        let shown = format!(" checks=l4 mss=291 header={header} {SGE_LINE}");
        assert!(line.ends_with(&shown), "{line}");
    }
}

#[test]
fn masked_operands_of_another_length_are_shown_as_they_are() {
    let words = [
        &[0x0800_0014, 0x0001_1804, 8, 0],
        REMOTE.as_slice(),
        &[1, 2],
    ]
    .concat();
    let line = request(Route::Connected, &words);
    let end = format!("{REMOTE_LINE} rest=0000000100000002");
    assert!(line.ends_with(&end), "{line}");
}

#[test]
fn every_field_of_a_changed_key_is_shown() {
    let mut words = vec![0x25, 0x0001_180c, 0, 0x1201];
    words.extend([0x4800_0000, 0x0102_0304, 0x0506_0708, 0x090a_0b0c]);
    words.extend([0; 8]);
    words.extend([0x4000_5400, 0x1234_5678, 0, 0, 0, 1, 0, 2]);
    words.extend([0; 8]);
    words.extend([0, 5, 0, 0]);
    words.extend([0, 0, 0, 6]);
    words.extend([0; 4]);
    words.extend(SGE);
    assert_eq!(
        request(Route::Connected, &words),
        format!(
            "UMR index=0 qpn=0x118 units=12 flags=none key=0x1201 change=check_not_free|check_qpn \
             octowords=258 offset=0x304 mask=0x5060708090a0b0c status=0x40 \
             access=local_read|remote_read|atomic key_qpn=0x123456 variant=0x78 start=0x1 key_length=2 \
             length=0 lkey=0x5 address=0x0 length=0 lkey=0x0 address=0x6 {SGE_LINE}"
        )
    );
}

#[test]
fn a_request_has_at_least_one_unit() {
    let units = [0, 1, 0x3f, 0x40, 0x41, 0x1234_5600].map(send::units);
    assert_eq!(units, [1, 1, 0x3f, 1, 1, 1]);
}

//! On functions of the software ConnectX.

use compat_tests::Library::{Debian, Ours};
use testbed::{Connectx, Function, Guest};

use super::{check_all, said};

#[test]
fn programs_on_infiniband() {
    let model = Connectx::new(&[Function::Ib; 2]).on_demand_paging();
    check_all(
        Some(model),
        &[
            ("forked", a_child_uses_what_its_parent_opened),
            ("masks", unknown_bits_and_sizes_are_refused),
            ("pipelining", no_send_queue_stops_without_signatures),
            ("copies", some_devices_do_not_copy),
        ],
    );
}

#[test]
fn programs_on_roce() {
    let model = Connectx::new(&[Function::Roce; 2]).on_demand_paging();
    check_all(
        Some(model),
        &[
            ("exported", objects_are_exported_and_imported),
            ("newer", what_is_newer_than_the_kernel_is_refused),
            ("vendor", the_vendors_functions_return_the_same),
            (
                "striding",
                what_else_the_vendors_functions_return_is_the_same,
            ),
        ],
    );
}

#[test]
fn programs_with_memory_on_the_device() {
    let model = Connectx::new(&[Function::Roce; 2]).extended_memory();
    check_all(
        Some(model),
        &[
            (
                "misused",
                wrong_arguments_of_the_vendors_functions_are_refused,
            ),
            ("device_memory", memory_on_the_device_is_the_same),
        ],
    );
}

#[test]
fn programs_with_signatures() {
    let model = Connectx::new(&[Function::Ib]).signatures().encryption();
    check_all(
        Some(model),
        &[
            ("signed", keys_with_signatures_and_encryption_are_the_same),
            ("pipelining", a_send_queue_stops_at_a_wrong_signature),
        ],
    );
}

#[test]
fn programs_with_streams() {
    let model = Connectx::new(&[Function::Ib]).streams();
    check_all(
        Some(model),
        &[("streams", streams_fail_alone_and_are_reset)],
    );
}

#[test]
fn programs_with_copies() {
    let model = Connectx::new(&[Function::Ib]).copies();
    check_all(Some(model), &[("copies", the_device_copies_local_memory)]);
}

/// Debian's library ends by a fault where the child rings its parent's doorbell.
fn a_child_uses_what_its_parent_opened(guest: &Guest) {
    let said = said(guest, &[Ours], "forked");
    assert_eq!(said[0].trim(), "child 0, parent 0");
}

/// Debian's library has other answers to some, and faults at others.
fn unknown_bits_and_sizes_are_refused(guest: &Guest) {
    let said = said(guest, &[Ours], "masks");
    assert_eq!(said[0].trim(), "110 refused, 0 not");
}

/// The same, of functions that only devices of the vendor's have.
fn wrong_arguments_of_the_vendors_functions_are_refused(guest: &Guest) {
    let said = said(guest, &[Ours], "misused");
    assert_eq!(said[0].trim(), "30 refused, 0 not");
}

/// Debian's library does not have these functions.
fn objects_are_exported_and_imported(guest: &Guest) {
    let said = said(guest, &[Ours], "exported");
    let expected = [
        "sizes 1, export 0, import 1, query 0, destroy 22, own query 0, own destroy 0, \
         query of none 2",
        "memory: export 0, same 1, dereg 22, own dereg 0",
        "NULL: 22 22 22 1 1 1",
    ];
    assert_eq!(said[0].lines().collect::<Vec<_>>(), expected);
}

/// Nor does it have these, or Linux 6.12 what most of them ask for.
fn what_is_newer_than_the_kernel_is_refused(guest: &Guest) {
    let said = said(guest, &[Ours], "newer");
    let expected = [
        "memory -1 95, page -1 95, NULL -1 22 -1 22",
        "hints 95 95, wrong 95 22 22 22 22, NULL 22 22 22",
        "region 0 0, wrong 22 22 22 9 95 22, hints 22, NULL 22 22",
        "ends 0 0 0",
    ];
    assert_eq!(said[0].lines().collect::<Vec<_>>(), expected);
}

fn the_vendors_functions_return_the_same(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "vendor");
    assert!(said[0].lines().count() > 15, "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

fn what_else_the_vendors_functions_return_is_the_same(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "striding");
    assert_eq!(said[0].lines().count(), 6, "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// CRC32C of 512 bytes that count in steps of 7, bit by bit.
fn crc32c_of_steps() -> u32 {
    !(0..512_u32).fold(u32::MAX, |crc, at| {
        let [step, ..] = (at * 7).to_le_bytes();
        (0..8).fold(crc ^ u32::from(step), |crc, _| {
            crc >> 1 ^ if crc & 1 == 0 { 0 } else { 0x82f6_3b78 }
        })
    })
}

/// The requests that set signatures and encryption up, word by word, and what the device does with
/// them: what it makes, takes away, finds wrong, encrypts and decrypts.
fn keys_with_signatures_and_encryption_are_the_same(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "signed");
    let [ours, debian] = [&said[0], &said[1]];
    assert!(ours.matches(":PSV1").count() > 20, "{ours}");
    let crc = crc32c_of_steps()
        .to_be_bytes()
        .map(|byte| format!("{byte:02x}"));
    assert!(ours.contains(&crc.join(" ")), "{crc:?}: {ours}");
    // The fourth vector of IEEE Std 1619-2007.
    assert!(
        ours.contains("27 a7 47 9b ef a1 d4 76 48 9f 30 8c"),
        "{ours}"
    );
    for part in 1..=3 {
        assert!(ours.contains(&format!("type {part} expected")), "{ours}");
    }
    assert_eq!(ours, debian, "ours (left), Debian's (right)");
}

/// A send queue that drains at a wrong signature.
fn a_send_queue_stops_at_a_wrong_signature(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "pipelining");
    let ours = &said[0];
    for what in [
        "not drained: -22, posted 0, event 0 5 of the queue pair: 1 (2: 0, 1), state 4, check 0 type 1",
        "cancelled 0, 2, 1",
        "wrote 97 0 0 100, added 0",
        "gone: 0 0 0 0 0",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

fn no_send_queue_stops_without_signatures(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "pipelining");
    assert!(!said[0].contains("connected 0"), "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// Memory on the device, for data and for steering, and operations on it.
fn memory_on_the_device_is_the_same(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "device_memory");
    let ours = &said[0];
    for what in [
        "was 106, then 1, other 9",
        "copy 0: 01020305 00000100",
        "kind 2: 0 0 there 0, 5000 bytes, mask 1, at 0 of a page, new 1, region 0, write 0, \
         read 0, same 1, free 16 0 0",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// Streams that fail one by one, are flushed alone, and go on once they were reset.
fn streams_fail_alone_and_are_reset(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "streams");
    let ours = &said[0];
    for what in [
        "000, 1: 10, 1: 5, 2: 0, queried 0, state 3",
        "reset 0, without an error 22",
        "0000, 3: 10, 1: 0, 2: 10, 1: 5, queried 0, state 6",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

/// Copies by the device.
fn the_device_copies_local_memory(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "copies");
    let ours = &said[0];
    for what in [
        "caps 0: mask 1, most 16777216",
        "unreliable: none, 95",
        "short: 1, id 1, status 0, opcode 137",
        "differ: 0, 0, around 0 0 0",
        "none: 22, too long: 22",
        "dynamic: there, ready: 0",
        "failed: 1, id 4, status 4",
        "queried 0, state 6",
        "gone: 0 0 0",
    ] {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

fn some_devices_do_not_copy(guest: &Guest) {
    let said = said(guest, &[Ours, Debian], "copies");
    assert!(said[0].contains("reliable: none, 95"), "{}", said[0]);
    assert_eq!(said[0], said[1], "ours (left), Debian's (right)");
}

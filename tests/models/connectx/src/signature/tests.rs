#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

const T10: Code = Code::T10Dif {
    guard: Guard::Crc,
    ones: false,
    application: 0xabcd,
    application_mask: 0xffff,
    reference: 0x0123_4567,
    increments: true,
    escapes_application: false,
    escapes_both: false,
};

const CODES: [Code; 5] = [
    Code::Crc32 { ones: true },
    Code::Crc32c { ones: false },
    Code::Crc64 { ones: true },
    T10,
    Code::T10Dif {
        guard: Guard::Checksum,
        ones: true,
        application: 1,
        application_mask: 0xffff,
        reference: 7,
        increments: false,
        escapes_application: false,
        escapes_both: false,
    },
];

fn of(code: Code, number: u64, data: &[u8]) -> u64 {
    u64::from_be_bytes(code.of(number, data))
}

#[test]
fn codes_have_their_published_values() {
    const DATA: &[u8] = b"123456789";
    let ones = true;
    assert_eq!(of(Code::Crc32 { ones }, 0, DATA) >> 32, 0xcbf4_3926);
    assert_eq!(of(Code::Crc32c { ones }, 0, DATA) >> 32, 0xe306_9283);
    assert_eq!(of(Code::Crc64 { ones }, 0, DATA), 0xae8b_1486_0a79_9888);
    assert_eq!(of(T10, 0, DATA), 0xd0db_abcd_0123_4567);
    assert_eq!(of(T10, 2, DATA), 0xd0db_abcd_0123_4569);
    // The example of RFC 1071.
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(of(CODES[4], 9, &bytes), 0x220d_0001_0000_0007);
}

fn side(code: Code) -> Side {
    Side {
        block: 512,
        code,
        psv: 1,
    }
}

fn bsf(memory: Option<Code>, wire: Option<Code>) -> Bsf {
    Bsf {
        wire: wire.map(side),
        memory: memory.map(side),
        check: 0xff,
        copy: 0,
    }
}

proptest! {
    /// What leaves memory and comes back through a key of the same kind is the same.
    #[test]
    fn nothing_is_lost(memory in 0..6_usize, wire in 0..6_usize, data: Vec<u8>, blocks in 0..5_u64,
                       first in 0..9_u64, rest in 0..512_u64) {
        let [memory, wire] = [memory, wire].map(|at| CODES.get(at).copied());
        prop_assume!(memory.is_some() || wire.is_some());
        let key = bsf(memory, wire);
        let stride = 512 + wire.map_or(0, |code| code.length() as u64);
        let transfer = Transfer::new(key, first * stride, blocks * stride + rest).unwrap();
        let mut bytes = Vec::new();
        let filled = (0..512).map(|at| data.get(at).copied().unwrap_or(at as u8));
        let filled: Vec<u8> = filled.collect();
        for number in first..first + blocks {
            bytes.extend(&filled);
            if let Some(code) = memory {
                bytes.extend(&code.of(number, &filled)[..code.length()]);
            }
        }
        bytes.extend(&filled[..rest as usize]);
        prop_assert_eq!(transfer.in_memory().1, bytes.len() as u64);
        let (sent, wrong) = transfer.to_wire(&bytes);
        prop_assert_eq!(wrong, None);
        prop_assert_eq!(sent.len() as u64, blocks * stride + rest);
        prop_assert_eq!(transfer.to_memory(&sent), (bytes, None));
    }
}

#[test]
fn the_first_wrong_signature_is_found() {
    for (at, syndrome) in [
        (512, 1 << 13),
        (513, 1 << 13),
        (514, 1 << 12),
        (519, 1 << 11),
    ] {
        let transfer = Transfer::new(bsf(Some(T10), None), 512, 1024).unwrap();
        let mut bytes = [0x5a; 520].to_vec();
        bytes[512..].copy_from_slice(&T10.of(1, &[0x5a; 512]));
        let mut second = [0x5a; 520].to_vec();
        second[512..].copy_from_slice(&T10.of(2, &[0x5a; 512]));
        bytes.extend(second);
        assert_eq!(transfer.to_wire(&bytes).1, None);
        bytes[520 + at] ^= 0x10;
        let fault = transfer.to_wire(&bytes).1.unwrap();
        assert_eq!(
            (fault.syndrome, fault.side, fault.offset),
            (syndrome, 1, 1040)
        );
        assert_eq!(fault.came ^ fault.computed, 0x10 << (8 * (519 - at)));
    }
}

#[test]
fn what_is_not_selected_is_not_checked_and_what_is_copied_is_not_computed() {
    let mut key = bsf(Some(T10), Some(T10));
    key.check = 0xcf;
    key.copy = 0x30;
    let transfer = Transfer::new(key, 0, 520).unwrap();
    let mut bytes = [0; 520].to_vec();
    bytes[512..].copy_from_slice(&T10.of(0, &[0; 512]));
    bytes[514] = 0x77;
    assert_eq!(transfer.to_wire(&bytes), (bytes.clone(), None));
    key.copy = 0;
    let transfer = Transfer::new(key, 0, 520).unwrap();
    assert_eq!(transfer.to_wire(&bytes).0[514], 0xab);
}

#[test]
fn escaped_blocks_are_not_checked() {
    let mut code = T10;
    let transfer = |code| Transfer::new(bsf(Some(code), None), 0, 512).unwrap();
    let mut bytes = [1; 520];
    bytes[514..516].fill(0xff);
    assert!(transfer(code).to_wire(&bytes).1.is_some());
    if let Code::T10Dif { escapes_both, .. } = &mut code {
        *escapes_both = true;
    }
    assert!(transfer(code).to_wire(&bytes).1.is_some());
    bytes[516..].fill(0xff);
    assert_eq!(transfer(code).to_wire(&bytes).1, None);
    bytes[516..].fill(1);
    if let Code::T10Dif {
        escapes_application,
        ..
    } = &mut code
    {
        *escapes_application = true;
    }
    assert_eq!(transfer(code).to_wire(&bytes).1, None);
}

#[test]
fn parts_of_blocks_begin_at_a_block_and_end_before_a_signature() {
    let key = bsf(None, Some(T10));
    assert!(Transfer::new(key, 520, 512).is_some());
    assert!(Transfer::new(key, 512, 520).is_none());
    assert!(Transfer::new(key, 0, 513).is_none());
    assert!(Transfer::new(key, 0, 1032).is_some());
}

/// CRC32C in memory, blocks of 4096 bytes.
fn crc_of_memory() -> [u8; BSF] {
    let mut bytes = [0; BSF];
    SIZE.set(&mut bytes, WITH_INLINE);
    RAW_SIZE.set(&mut bytes, u32::MAX);
    MEMORY.set(&mut bytes, 3);
    FORMATS[1].set(&mut bytes, format::CRC32C | format::REPEAT);
    PSVS[1].set(&mut bytes, 5);
    CHECK.set(&mut bytes, 0xf0);
    bytes
}

#[test]
fn what_is_not_carried_out_is_refused() {
    let bytes = crc_of_memory();
    let parsed = Bsf::parse(&bytes).unwrap();
    let code = Code::Crc32c { ones: true };
    assert_eq!(
        parsed.memory.map(|side| (side.block, side.code, side.psv)),
        Some((4096, code, 5))
    );
    assert_eq!((parsed.wire, parsed.check), (None, 0xf0));
    let refused = |change: &dyn Fn(&mut [u8; BSF])| {
        let mut bytes = bytes;
        change(&mut bytes);
        Bsf::parse(&bytes).unwrap_err()
    };
    let kind = "kind of a byte stream format";
    assert_eq!(refused(&|bytes| SIZE.set(bytes, 0)), kind);
    // Encryption.
    assert_eq!(refused(&|bytes| KIND.set(bytes, 1)), kind);
    assert_eq!(refused(&|bytes| bytes[0x1f] = 1), "signature of a transfer");
    assert_eq!(
        refused(&|bytes| RAW_SIZE.set(bytes, 512)),
        "size of a byte stream"
    );
    assert_eq!(refused(&|bytes| MEMORY.set(bytes, 5)), "block size");
    let format = |format| move |bytes: &mut [u8; BSF]| FORMATS[1].set(bytes, format);
    assert_eq!(refused(&format(0x32)), "format of a signature");
    assert_eq!(refused(&format(0x40)), "signature of the first block only");
    assert_eq!(refused(&format(0)), "no parameters of a T10-DIF");
    let same = |bytes: &mut [u8; BSF]| SAME_STRUCTURE.set(bytes, 1);
    assert_eq!(refused(&same), "one side cannot be the same");
    let nothing = |bytes: &mut [u8; BSF]| bytes[12..16].fill(0);
    assert_eq!(refused(&nothing), "no signature on either side");
    let other = |bytes: &mut [u8; BSF]| {
        FORMATS[0].set(bytes, format::CRC32 | format::REPEAT);
        WIRE.set(bytes, 1);
    };
    assert_eq!(refused(&other), "sides with blocks of different sizes");
}

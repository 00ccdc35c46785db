//! Firmware commands: what the kernel made of the commands it was given.

use super::{Line, unhex, word};

/// A command that creates or modifies a queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FirmwareCommand {
    /// The manual's name for it.
    pub name: String,
    /// Its input without the page list, with numbers and addresses removed.
    pub input: Vec<u8>,
    /// Number of requests in a memory pool, which differs.
    pub places: u32,
}

/// Numbers and addresses differ from run to run: offsets of 32-bit words and their bits.
const NUMBER: u32 = 0x00ff_ffff;
const LOG_PAGE: u32 = 0x1f00_0000;
const UDP_PORT: u32 = 0xffff;
const ALL: u32 = u32::MAX;
const LOG_WQ_PAGE: u32 = 0x1f00;
const PLACES: u32 = 0x1f;
/// Where a queue begins in a page, in 64ths of it.
const OFFSET: u32 = 0xfc0;

/// The page list of a queue follows the context.
const PAGES: usize = 0x110;
/// Contexts of completion queues, targets of dynamic connections, queue pairs and memory pools'
/// work queues.
const CQ: usize = 0x10;
const DCT: usize = 0x10;
const QP: usize = 0x18;
/// The primary path in the context of a queue pair.
const PATH: usize = QP + 0x18;
const WQ: usize = 0x20 + 0x30;

/// Fields in the context of every queue pair, both in creation and in modification.
const QUEUE_PAIR: [(usize, u32); 10] = [
    (QP + 0x04, NUMBER),
    (QP + 0x0c, NUMBER),
    (QP + 0x10, NUMBER),
    (QP + 0x7c, NUMBER),
    (QP + 0x90, OFFSET),
    (QP + 0x98, NUMBER),
    (QP + 0x9c, NUMBER),
    (QP + 0xa0, ALL),
    (QP + 0xa4, ALL),
    (QP + 0xac, NUMBER),
];

fn masks(name: &str) -> Option<Vec<(usize, u32)>> {
    Some(match name {
        // UAR page, event queue, page size, doorbell record. The page size, and therefore where a
        // queue begins in a page, depends on the memory that the system found.
        "CREATE_CQ" => vec![
            (CQ + 0x08, OFFSET),
            (CQ + 0x0c, NUMBER),
            (CQ + 0x14, ALL),
            (CQ + 0x18, LOG_PAGE),
            (CQ + 0x38, ALL),
            (CQ + 0x3c, ALL),
        ],
        // Where in a page it begins, domain, UAR page, doorbell record, page size, and the number
        // of requests: libmlx5 uses more.
        "CREATE_RMP" => vec![
            (WQ + 0x04, 0x001f_0000),
            (WQ + 0x08, NUMBER),
            (WQ + 0x0c, NUMBER),
            (WQ + 0x10, ALL),
            (WQ + 0x14, ALL),
            (WQ + 0x20, LOG_WQ_PAGE | PLACES),
        ],
        // Domain, UAR page, user index, page size, XRC domain, completion queues, doorbell record,
        // shared queue. Also what the kernel derives from a flag for messages in completions
        // (`cs_req`, `cs_res`), which is compared separately.
        "CREATE_QP" => [
            &[(QP + 0x14, LOG_PAGE), (QP + 0xc4, 0xffff)],
            &QUEUE_PAIR[..],
        ]
        .concat(),
        // User index, completion queue, shared queue, domain.
        "CREATE_DCT" => vec![
            (DCT + 0x04, NUMBER),
            (DCT + 0x08, NUMBER),
            (DCT + 0x14, NUMBER),
            (DCT + 0x18, NUMBER),
        ],
        // Number, domain, and the fields that creation has, too; the peer's number, and the UDP
        // port that the kernel derives from both numbers.
        "RST2INIT_QP" | "INIT2RTR_QP" | "RTR2RTS_QP" | "RTS2RTS_QP" => {
            let own = [(0x08, NUMBER), (QP + 0x14, NUMBER), (PATH + 0x20, UDP_PORT)];
            [&own, &QUEUE_PAIR[..]].concat()
        }
        _ => return None,
    })
}

impl FirmwareCommand {
    /// `None` for commands that are not compared, and for failed ones.
    pub(super) fn new(line: &Line) -> Option<Self> {
        let masks = masks(&line.name).filter(|_| line.status == 0)?;
        let mut input = unhex(&line.input);
        input.resize(PAGES, 0);
        let places = (line.name == "CREATE_RMP").then(|| word(&input, WQ + 0x20) & PLACES);
        // The user context, if there is one.
        input[3] = u8::from(input[2] | input[3] != 0);
        input[2] = 0;
        for (at, mask) in masks {
            for (byte, mask) in input[at..at + 4].iter_mut().zip(mask.to_be_bytes()) {
                *byte &= !mask;
            }
        }
        Some(Self {
            name: line.name.clone(),
            input,
            places: places.unwrap_or_default(),
        })
    }

    /// The differing words, for display: offset, this value and the other.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let words = self.input.chunks(4).zip(other.input.chunks(4));
        let differ = words.enumerate().filter(|(_, (one, other))| one != other);
        differ
            .map(|(at, (one, other))| format!("{:#x}: {one:02x?} {other:02x?}", at * 4))
            .collect()
    }
}

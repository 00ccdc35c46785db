//! Commands to the firmware: what the kernel made of the commands that it was given.

use super::{Line, unhex, word};

/// A command that creates or changes a queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// The manual's name of it.
    pub name: String,
    /// Its input without the page list, with numbers and addresses taken out.
    pub input: Vec<u8>,
    /// How many places a memory pool has, which differs.
    pub places: u32,
}

/// Numbers and addresses differ from run to run: offsets of 32-bit words and the bits of them.
const NUMBER: u32 = 0x00ff_ffff;
const LOG_PAGE: u32 = 0x1f00_0000;
const UDP_PORT: u32 = 0xffff;
const ALL: u32 = u32::MAX;
const LOG_WQ_PAGE: u32 = 0x1f00;
const PLACES: u32 = 0x1f;
/// Where in a page a queue begins: so many 64ths of it.
const OFFSET: u32 = 0xfc0;

/// The pages of queues follow the context.
const PAGES: usize = 0x110;
/// Contexts of completion queues, targets of dynamic connections, queue pairs and memory pools'
/// work queues.
const CQ: usize = 0x10;
const DCT: usize = 0x10;
const QP: usize = 0x18;
/// The primary path in the context of a queue pair.
const PATH: usize = QP + 0x18;
const WQ: usize = 0x20 + 0x30;

/// What the context of every queue pair has, in creation and in changes.
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
        // Page of registers, event queue, page size, doorbell record. How large the pages are, and
        // so where in one a queue begins, depends on what memory the system found.
        "CREATE_CQ" => vec![
            (CQ + 0x08, OFFSET),
            (CQ + 0x0c, NUMBER),
            (CQ + 0x14, ALL),
            (CQ + 0x18, LOG_PAGE),
            (CQ + 0x38, ALL),
            (CQ + 0x3c, ALL),
        ],
        // Where in a page it begins, domain, page of registers, doorbell record, page size, and how
        // many places: libmlx5 takes more.
        "CREATE_RMP" => vec![
            (WQ + 0x04, 0x001f_0000),
            (WQ + 0x08, NUMBER),
            (WQ + 0x0c, NUMBER),
            (WQ + 0x10, ALL),
            (WQ + 0x14, ALL),
            (WQ + 0x20, LOG_WQ_PAGE | PLACES),
        ],
        // Domain, page of registers, user index, page size, XRC domain, completion queues, doorbell
        // record, shared queue. And what of messages in completions (`cs_req`, `cs_res`) the kernel
        // makes of a flag, which is compared by itself.
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
        // Number, domain, and what creation has, too; the peer's number, and the UDP port that the
        // kernel makes of both numbers.
        "RST2INIT_QP" | "INIT2RTR_QP" | "RTR2RTS_QP" | "RTS2RTS_QP" => {
            let own = [(0x08, NUMBER), (QP + 0x14, NUMBER), (PATH + 0x20, UDP_PORT)];
            [&own, &QUEUE_PAIR[..]].concat()
        }
        _ => return None,
    })
}

impl Told {
    /// `None` for commands that are not compared, and for those that failed.
    pub(super) fn new(line: &Line) -> Option<Self> {
        let masks = masks(&line.name).filter(|_| line.status == 0)?;
        let mut input = unhex(&line.input);
        input.resize(PAGES, 0);
        let places = (line.name == "CREATE_RMP").then(|| word(&input, WQ + 0x20) & PLACES);
        // The user context, where there is one.
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

    /// Words that differ, for people: offset, this and the other.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let words = self.input.chunks(4).zip(other.input.chunks(4));
        let differ = words.enumerate().filter(|(_, (one, other))| one != other);
        differ
            .map(|(at, (one, other))| format!("{:#x}: {one:02x?} {other:02x?}", at * 4))
            .collect()
    }
}

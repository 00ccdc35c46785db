//! Management datagrams of the subnet administration class.
//!
//! Formats: InfiniBand architecture specification, volume 1, 13.4 (header), 13.6 (reliable
//! transfers) and 15.2 (records); Linux `include/rdma/ib_mad.h` and `include/rdma/ib_sa.h`.

use crate::layout::{Field, Wide, field, part, put, word};

/// Length of every management datagram.
pub(crate) const LEN: usize = 256;
/// Where the record of a request or answer starts, and its room.
pub(super) const DATA: usize = 56;
pub(super) const ROOM: usize = LEN - DATA;

/// The header of the class in each segment of a reliable transfer.
pub(super) const CLASS_HEADER: usize = 20;

pub(super) const BASE_VERSION: Field = field(0x00, 31, 24);
pub(super) const CLASS: Field = field(0x00, 23, 16);
pub(super) const CLASS_VERSION: Field = field(0x00, 15, 8);
pub(super) const METHOD: Field = field(0x00, 7, 0);
pub(super) const STATUS: Field = field(0x04, 31, 16);
pub(super) const TRANSACTION: Wide = Wide(0x08);
pub(super) const ATTRIBUTE: Field = field(0x10, 31, 16);
pub(super) const ATTRIBUTE_MODIFIER: Field = word(0x14);
pub(super) const SM_KEY: Wide = Wide(36);
pub(super) const ATTRIBUTE_OFFSET: Field = field(44, 31, 16);
pub(super) const COMPONENTS: Wide = Wide(48);

/// The header of reliable transfers (RMPP).
pub(super) mod rmpp {
    use super::{Field, field, word};
    pub(crate) const VERSION: Field = field(24, 31, 24);
    pub(crate) const TYPE: Field = field(24, 23, 16);
    pub(crate) const FLAGS: Field = field(24, 10, 8);
    pub(crate) const SEGMENT: Field = word(28);
    /// Length of the payload in a segment, last segment of the window in an acknowledgement.
    pub(crate) const LENGTH: Field = word(32);

    pub(crate) const DATA: u32 = 1;
    pub(crate) const ACK: u32 = 2;

    pub(crate) const ACTIVE: u32 = 1;
    pub(crate) const FIRST: u32 = 2;
    pub(crate) const LAST: u32 = 4;
}

/// The class of subnet administration, and its version.
pub(super) const ADMINISTRATION: u32 = 0x03;
pub(super) const ADMINISTRATION_VERSION: u32 = 2;

pub(super) mod method {
    pub(crate) const GET: u32 = 0x01;
    pub(crate) const SET: u32 = 0x02;
    pub(crate) const TRAP: u32 = 0x05;
    pub(crate) const REPORT: u32 = 0x06;
    pub(crate) const TRAP_REPRESS: u32 = 0x07;
    pub(crate) const GET_TABLE: u32 = 0x12;
    pub(crate) const DELETE: u32 = 0x15;
    /// What distinguishes an answer from its request.
    pub(crate) const ANSWER: u32 = 0x80;
    pub(crate) const GET_ANSWER: u32 = GET | ANSWER;
}

pub(super) mod attribute {
    pub(crate) const CLASS_PORT_INFO: u32 = 0x0001;
    pub(crate) const NOTICE: u32 = 0x0002;
    pub(crate) const INFORM_INFO: u32 = 0x0003;
    pub(crate) const SERVICE_RECORD: u32 = 0x0031;
    pub(crate) const PATH_RECORD: u32 = 0x0035;
    pub(crate) const MEMBER_RECORD: u32 = 0x0038;
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Refused {
    Version = 0x0004,
    Method = 0x0008,
    /// The attribute is unknown, or does not have this method.
    Combination = 0x000c,
    NoResources = 0x0100,
    Invalid = 0x0200,
    NoRecords = 0x0300,
    TooManyRecords = 0x0400,
    InvalidGid = 0x0500,
    Incomplete = 0x0600,
    Denied = 0x0700,
}

/// A request, or an answer under construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mad(pub(super) [u8; LEN]);

impl Mad {
    /// The datagram in these bytes; `None` if they are too few or too many.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(super) fn get(&self, field: Field) -> u32 {
        field.get(&self.0)
    }

    pub(super) fn set(&mut self, field: Field, value: u32) {
        field.set(&mut self.0, value);
    }

    pub(super) fn transaction(&self) -> u64 {
        TRANSACTION.get(&self.0)
    }

    /// Which components of the record are given.
    pub(super) fn components(&self) -> u64 {
        COMPONENTS.get(&self.0)
    }

    /// Whether all these components are given.
    pub(super) fn gives(&self, components: u64) -> bool {
        self.components() & components == components
    }

    /// The record, `length` bytes long.
    pub(super) fn record(&self, length: usize) -> Vec<u8> {
        part(&self.0, DATA, length.min(ROOM))
    }

    /// The answer with this method and record; a reliable transfer is built on it.
    pub(super) fn answer(&self, method: u32, record: &[u8]) -> Self {
        let mut answer = self.clone();
        answer.set(METHOD, method);
        answer.set(STATUS, 0);
        answer.0[24..36].fill(0);
        answer.0[DATA..].fill(0);
        put(&mut answer.0, DATA, record);
        answer
    }

    /// The answer that refuses the request.
    pub(super) fn refuse(&self, reason: Refused) -> Self {
        let mut answer = self.answer(
            match self.get(METHOD) {
                method::SET => method::GET_ANSWER,
                method => method | method::ANSWER,
            },
            &self.record(ROOM),
        );
        answer.set(STATUS, reason as u32);
        answer
    }
}

/// A component of a record that is compared bit by bit: its bit in the mask, and where it is.
pub(super) struct Component {
    pub(super) bit: u32,
    pub(super) from: usize,
    pub(super) bits: usize,
}

/// A component that starts at bit `from` of byte `at`.
pub(super) const fn component(bit: u32, at: usize, from: usize, bits: usize) -> Component {
    let from = at * 8 + from;
    Component { bit, from, bits }
}

/// Whether a record has all the values that the mask selects from a request.
pub(super) fn matches(table: &[Component], mask: u64, asked: &[u8], record: &[u8]) -> bool {
    let bit_of = |bytes: &[u8], at: usize| bytes.get(at / 8).map(|byte| byte >> (7 - at % 8) & 1);
    let mut given = table
        .iter()
        .filter(|component| mask >> component.bit & 1 != 0);
    given.all(|component| {
        (component.from..component.from + component.bits)
            .all(|at| bit_of(asked, at) == bit_of(record, at))
    })
}

/// Whether a value is what a selector asks for: greater than, less than, exactly, or the best
/// there is.
pub(super) fn selects(selector: u32, asked: u64, value: u64) -> bool {
    match selector {
        0 => value > asked,
        1 => value < asked,
        2 => value == asked,
        _ => true,
    }
}

/// The selector in answers: exactly.
pub(super) const EXACTLY: u32 = 2;

/// The speed in Mb/s that a rate's code stands for; 0 if it is none.
pub(super) fn speed(rate: u32) -> u64 {
    const SPEEDS: [u64; 23] = [
        0, 0, 2_500, 10_000, 30_000, 5_000, 20_000, 40_000, 60_000, 80_000, 120_000, 14_000,
        56_000, 112_000, 168_000, 25_000, 100_000, 200_000, 300_000, 28_000, 50_000, 400_000,
        600_000,
    ];
    SPEEDS.get(rate as usize).copied().unwrap_or(0)
}

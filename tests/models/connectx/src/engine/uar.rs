//! The UAR pages: doorbells of queues, and work requests copied through them (BlueFlame).
//!
//! From offset 0x800 on, a page has buffers of 256 bytes, two for each of its registers, used in
//! turn. The first eight bytes written to a buffer are a doorbell; a work request may follow,
//! rounded up to 64 bytes, and the device then need not read it from the ring.

use std::collections::{BTreeMap, BTreeSet};

use crate::device::Device;
use crate::engine::fabric::Fabric;
use crate::engine::wqe::{Control, UNIT, opcode};
use crate::engine::{completion, event};
use crate::layout::queue::{ring, wq};
use crate::layout::{be32, be64, qp};
use crate::misbehaviour::Misbehaviour;
use crate::trace;

const PAGE_SHIFT: u64 = 12;
pub(super) const CQ_ARM: u64 = 0x020;
const EQ_ARM: u64 = 0x040;
const EQ_UPDATE: u64 = 0x048;
/// Where the buffers of send queues begin, and the length of one.
const SEND: u64 = 0x800;
const BUFFER: u64 = 0x100;
/// Copies are made in chunks of this length.
const CHUNK: usize = 64;
const DOORBELL: usize = 8;
/// How long to wait, in nanoseconds, for more to follow eight bytes that may be a doorbell alone,
/// before the ring is read.
const PATIENCE: u64 = 2_000_000;
/// The same where more has followed: that is a copy, and the rest is late only because the host is
/// busy.
const COPY_PATIENCE: u64 = 50_000_000;

/// How work requests arrived, over all functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doorbells {
    /// Doorbells without a copy.
    pub plain: u64,
    /// Complete copies of a work request.
    pub copies: u64,
    /// Copies of which only a part arrived in time.
    pub partial: u64,
}

/// What the last doorbell of a send queue said.
#[derive(Debug)]
pub(crate) struct Rung {
    /// The index after the request it named.
    end: u16,
    /// The request itself, if it was copied and is next in the queue.
    copy: Option<Vec<u8>>,
}

/// An incomplete copy.
#[derive(Debug)]
struct Pending {
    bytes: Vec<u8>,
    length: usize,
    until: u64,
}

/// What is in flight through the pages of all functions.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// First halves of 64-bit doorbells that arrive in two writes.
    halves: BTreeMap<(usize, u64), u32>,
    /// Copies by the offset of their buffer.
    pending: BTreeMap<(usize, u64), Pending>,
    /// Pages that copies came through; on other pages a doorbell is not held back for more to
    /// follow.
    copied: BTreeSet<(usize, u32)>,
    counts: Doorbells,
}

impl Pages {
    pub(super) fn reset(&mut self, function: usize) {
        self.halves.retain(|(owner, _), _| *owner != function);
        self.pending.retain(|(owner, _), _| *owner != function);
        self.copied.retain(|(owner, _)| *owner != function);
    }

    /// When the first incomplete copy is given up.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.pending.values().map(|pending| pending.until).min()
    }
}

fn page_of(offset: u64) -> u32 {
    (offset >> PAGE_SHIFT) as u32
}

fn within(offset: u64) -> u64 {
    offset & ((1 << PAGE_SHIFT) - 1)
}

/// Whether this offset of a page is that of a 64-bit doorbell.
fn is_wide(within: u64) -> bool {
    within == CQ_ARM || within >= SEND && within.is_multiple_of(BUFFER)
}

impl Fabric {
    /// How work requests arrived so far.
    #[must_use]
    pub fn doorbells(&self) -> Doorbells {
        self.pages.counts
    }

    pub(super) fn write_uar(&mut self, function: usize, offset: u64, data: &[u8]) {
        let Some(device) = self.devices.get_mut(function) else {
            return;
        };
        device.now = self.now;
        let place = within(offset);
        match (place, data.len()) {
            (EQ_ARM, 4) => event::doorbell(device, page_of(offset), be32(data, 0), true),
            (EQ_UPDATE, 4) => event::doorbell(device, page_of(offset), be32(data, 0), false),
            (CQ_ARM, DOORBELL..) => completion::doorbell(device, page_of(offset), be64(data, 0)),
            (_, DOORBELL..) if is_wide(place) => self.start_copy(function, offset, data),
            (_, 4) if is_wide(place) => {
                self.pages.halves.insert((function, offset), be32(data, 0));
            }
            (_, 4) if is_wide(place.wrapping_sub(4)) => {
                if let Some(high) = self.pages.halves.remove(&(function, offset - 4)) {
                    let mut whole = [0; DOORBELL];
                    whole[..4].copy_from_slice(&high.to_be_bytes());
                    whole[4..].copy_from_slice(data);
                    self.write_uar(function, offset - 4, &whole);
                }
            }
            (SEND.., _) => self.continue_copy(function, offset, data),
            _ => {}
        }
    }

    /// The first write to a buffer, with the doorbell and perhaps more.
    fn start_copy(&mut self, function: usize, offset: u64, data: &[u8]) {
        // The owner of the register has moved on: what is missing in either of its buffers never
        // comes.
        for buffer in [offset, offset ^ BUFFER] {
            self.give_up(function, buffer);
        }
        let page = page_of(offset);
        let length = (Control::parse(data).units * UNIT).next_multiple_of(CHUNK);
        let blueflame = self
            .devices
            .get(function)
            .is_some_and(|device| device.config.blueflame);
        let expected = data.len() > DOORBELL || self.pages.copied.contains(&(function, page));
        if !blueflame || !expected || length == 0 || length > BUFFER as usize {
            self.pages.counts.plain += 1;
            self.send_doorbell(function, offset, be64(data, 0), None);
            return;
        }
        self.pages.pending.insert(
            (function, offset),
            Pending {
                bytes: Vec::new(),
                length,
                until: 0,
            },
        );
        self.continue_copy(function, offset, data);
    }

    fn continue_copy(&mut self, function: usize, offset: u64, data: &[u8]) {
        let buffer = offset & !(BUFFER - 1);
        let key = (function, buffer);
        self.pages.copied.insert((function, page_of(offset)));
        let Some(pending) = self.pages.pending.get_mut(&key) else {
            return;
        };
        if pending.bytes.len() as u64 != offset - buffer {
            // Out of order, as combined writes may arrive: the ring has the whole request.
            self.give_up(function, buffer);
            return;
        }
        pending.bytes.extend_from_slice(data);
        let patience = if pending.bytes.len() > DOORBELL {
            COPY_PATIENCE
        } else {
            PATIENCE
        };
        pending.until = self.now.saturating_add(patience);
        if pending.bytes.len() >= pending.length
            && let Some(mut whole) = self.pages.pending.remove(&key)
        {
            whole.bytes.truncate(whole.length);
            self.pages.counts.copies += 1;
            self.send_doorbell(function, buffer, be64(&whole.bytes, 0), Some(whole.bytes));
        }
    }

    /// Rings the doorbell for a copy that stays incomplete.
    fn give_up(&mut self, function: usize, buffer: u64) {
        let Some(pending) = self.pages.pending.remove(&(function, buffer)) else {
            return;
        };
        if pending.bytes.len() == DOORBELL {
            self.pages.counts.plain += 1;
        } else {
            self.pages.counts.partial += 1;
        }
        self.send_doorbell(function, buffer, be64(&pending.bytes, 0), None);
    }

    /// Gives up the copies of one function: something arrived that is ordered after them.
    pub(super) fn end_copies_of(&mut self, function: usize) {
        let under_way: Vec<_> = self
            .pages
            .pending
            .keys()
            .filter(|(owner, _)| *owner == function)
            .copied()
            .collect();
        for (function, buffer) in under_way {
            self.give_up(function, buffer);
        }
    }

    /// Gives up the copies that have been waited for long enough.
    pub(super) fn end_copies(&mut self) {
        let due: Vec<_> = self
            .pages
            .pending
            .iter()
            .filter(|(_, pending)| pending.until <= self.now)
            .map(|(key, _)| *key)
            .collect();
        for (function, buffer) in due {
            self.give_up(function, buffer);
        }
    }

    fn send_doorbell(&mut self, function: usize, offset: u64, value: u64, copy: Option<Vec<u8>>) {
        let page = page_of(offset);
        let Some(device) = self.devices.get_mut(function) else {
            return;
        };
        let number = (value as u32) >> 8;
        let index = (value >> 40) as u16;
        let users = device.qps.owner(number).is_some_and(|uid| uid != 0);
        if users && within(offset) != SEND && device.does(Misbehaviour::SecondRegister) {
            return;
        }
        let (owner, record, consumer) = if let Some(pair) = device.qps.get(number) {
            (
                qp::UAR.get(&pair.context),
                pair.doorbell,
                pair.send.consumer,
            )
        } else if let Some(queue) = device.sqs.get(number) {
            (
                wq::UAR.at(ring::WQ).get(&queue.context),
                queue.doorbell,
                queue.consumer,
            )
        } else {
            device.report("send doorbell", &format!("no send queue {number:#x}"));
            return;
        };
        if owner != page {
            device.report(
                "send doorbell through a foreign page",
                &format!("queue {number:#x} of page {owner:#x} rung through page {page:#x}"),
            );
            return;
        }
        let producer = record.checked_add(4).and_then(|at| device.read_be32(at));
        device.trace_send(number, offset, value, copy.is_some());
        match producer {
            // The doorbell names the last request, so the record is beyond it, however much has
            // been processed since.
            Some(producer) if (producer as u16).wrapping_sub(index).wrapping_sub(1) >> 15 != 0 => {
                device.report(
                    "send doorbell before its record",
                    &format!("queue {number:#x}: request {index:#x}, record {producer:#x}"),
                );
            }
            Some(_) => {}
            None => device.report(
                "doorbell record",
                &format!("of queue {number:#x}: outside guest memory"),
            ),
        }
        if device.config.blueflame {
            // A request that is not next is read from the ring when its turn comes.
            let copy = copy.filter(|_| index == consumer);
            let end = index.wrapping_add(Control::parse(&value.to_be_bytes()).blocks());
            device.rung.insert(number, Rung { end, copy });
        }
        device.kicked.push(number);
    }
}

impl Device {
    /// Traces a doorbell with the contents of the records it concerns.
    fn trace_send(&self, number: u32, offset: u64, value: u64, copied: bool) {
        let Some(pair) = self.qps.get(number).filter(|_| self.trace.is_on()) else {
            return;
        };
        let consumed = |cqn| self.read_be32(self.cqs.get(cqn)?.doorbell);
        let records = [
            self.read_be32(pair.doorbell),
            pair.doorbell
                .checked_add(4)
                .and_then(|at| self.read_be32(at)),
            consumed(pair.send_cq()),
            consumed(pair.recv_cq()),
        ];
        let rung = trace::Doorbell {
            kind: "doorbell",
            queue: number,
            place: within(offset),
            value,
            records: &records,
            copied,
        };
        self.trace.doorbell(self.index, &rung);
    }

    /// Number of blocks of a send queue that may be processed. Doorbells are slower than memory:
    /// while copies are in flight, requests that were posted but whose doorbell has not arrived are
    /// left alone.
    pub(super) fn rung_for(&self, number: u32, consumer: u16, producer: u16) -> u16 {
        let posted = producer.wrapping_sub(consumer);
        self.rung
            .get(&number)
            .map_or(posted, |rung| rung.end.wrapping_sub(consumer).min(posted))
    }

    /// The work request at the head of a queue: the copy that software pushed, if there is one, or
    /// what was read from the ring.
    pub(super) fn pushed_or(
        &mut self,
        number: u32,
        control: Control,
        bytes: Vec<u8>,
    ) -> (Control, Vec<u8>) {
        let Some(copy) = self.rung.get(&number).and_then(|rung| rung.copy.as_ref()) else {
            return (control, bytes);
        };
        let pushed = Control::parse(copy);
        if pushed.index != control.index || copy.get(..bytes.len()) == Some(&bytes) {
            return (control, bytes);
        }
        let mut copy = copy.clone();
        copy.truncate(bytes.len());
        // Drivers test whether copies arrive by requesting the completion of a NOP in the copy
        // alone.
        let probe = pushed.opcode == opcode::NOP && control.opcode == opcode::NOP;
        if !probe {
            self.report(
                "BlueFlame copy",
                &format!(
                    "queue {number:#x}: request {:#x} differs from the ring",
                    control.index
                ),
            );
        }
        if copy.len() == bytes.len() && pushed.units == control.units {
            (pushed, copy)
        } else {
            (control, bytes)
        }
    }
}

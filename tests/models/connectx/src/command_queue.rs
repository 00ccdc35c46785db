//! The command queue: slots, mailboxes and completion.

use crate::cmd;
use crate::device::Device;
use crate::engine::event;
use crate::init_segment::LOG_SLOTS;
use crate::layout::{Field, Wide, be32, be64, field, word};

const ENTRY: usize = 64;
const TYPE: Field = field(0x00, 31, 24);
const INPUT_LENGTH: Field = word(0x04);
const INPUT_MAILBOX: Wide = Wide(0x08);
const INPUT: usize = 0x10;
const OUTPUT: usize = 0x20;
const OUTPUT_MAILBOX: Wide = Wide(0x30);
const OUTPUT_LENGTH: Field = word(0x38);
const TOKEN: usize = 0x3c;
const OWNERSHIP: usize = 0x3f;
const INLINE: usize = 16;

const BLOCK: usize = 576;
const BLOCK_DATA: usize = 512;
const BLOCK_NEXT: usize = 0x230;
const BLOCK_NUMBER: usize = 0x238;
const BLOCK_TOKEN: usize = 0x23d;

/// The largest message accepted; the longest real one is a page list for a gigabyte of small pages.
const MAX_MESSAGE: usize = 8 << 20;

/// Transport errors of a command, detected before its opcode is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Delivery {
    Ok = 0,
    Token = 2,
    BlockNumber = 3,
    OutputPointer = 4,
    InputPointer = 5,
    InputLength = 7,
    OutputLength = 8,
    Descriptor = 0x10,
}

impl Device {
    /// Runs the commands of the slots set in `vector`, each to completion.
    pub(crate) fn ring_commands(&mut self, vector: u32) {
        let Some(queue) = self.init.command_queue() else {
            self.report(
                "command doorbell",
                "rung before the queue's address was given",
            );
            return;
        };
        if !self.bus_master() {
            self.report("command doorbell", "rung while bus mastering is off");
            return;
        }
        // The command that creates the completion event queue is itself polled for.
        let listener = event::hears_commands(self);
        let mut done = 0;
        for slot in (0..1u32 << LOG_SLOTS).filter(|slot| vector >> slot & 1 != 0) {
            let address = queue + u64::from(slot) * ENTRY as u64;
            if self.deferred.iter().any(|(_, held)| *held == slot) {
                self.report("command slot", "rung while its command is at work");
            } else if let Some(delay) = self.delay(address) {
                self.deferred.push((self.now.saturating_add(delay), slot));
            } else if self.run_slot(address) {
                done |= 1 << slot;
            }
        }
        if done != 0 && listener {
            event::command_done(self, done);
        }
    }

    /// How long to hold back the command in a slot, if an operator asked for that.
    fn delay(&self, address: u64) -> Option<u64> {
        if !self.faults.delays_any() {
            return None;
        }
        let mut opcode = [0; 2];
        self.memory.read(address + INPUT as u64, &mut opcode).ok()?;
        self.faults.delay(u16::from_be_bytes(opcode))
    }

    /// Completes the slow commands that are due.
    pub(crate) fn end_deferred(&mut self) {
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.deferred)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.deferred = later;
        let Some(queue) = self.init.command_queue() else {
            return;
        };
        let listener = event::hears_commands(self);
        for (_, slot) in due {
            let done = self.run_slot(queue + u64::from(slot) * ENTRY as u64);
            if done && listener {
                event::command_done(self, 1 << slot);
            }
        }
    }

    /// Runs one slot; `false` if it held no command owned by the device.
    fn run_slot(&mut self, address: u64) -> bool {
        let mut entry = [0; ENTRY];
        if self.memory.read(address, &mut entry).is_err() {
            self.report("command slot", "outside guest memory");
            return false;
        }
        if entry[OWNERSHIP] & 1 == 0 {
            self.report("command slot", "rung while software owns it");
            return false;
        }
        let delivery = match self.fetch(&entry) {
            Ok(input) => {
                let length = OUTPUT_LENGTH.get(&entry) as usize;
                if (8..=MAX_MESSAGE).contains(&length) {
                    let output = cmd::execute(self, &input, length);
                    self.store(address, &entry, &output)
                        .err()
                        .unwrap_or(Delivery::Ok)
                } else {
                    Delivery::OutputLength
                }
            }
            Err(delivery) => delivery,
        };
        // If this fails there is nobody to report to: the slot was readable a moment ago, and the
        // driver will time out.
        let _ = self
            .memory
            .publish(address + OWNERSHIP as u64, (delivery as u8) << 1);
        true
    }

    fn fetch(&self, entry: &[u8; ENTRY]) -> Result<Vec<u8>, Delivery> {
        if TYPE.get(entry) != 7 {
            return Err(Delivery::Descriptor);
        }
        let length = INPUT_LENGTH.get(entry) as usize;
        if !(8..=MAX_MESSAGE).contains(&length) {
            return Err(Delivery::InputLength);
        }
        let mut input = entry[INPUT..INPUT + INLINE.min(length)].to_vec();
        let mut next = INPUT_MAILBOX.get(entry);
        for number in 0..(length.saturating_sub(INLINE)).div_ceil(BLOCK_DATA) {
            let block = self.block(next, number, entry[TOKEN], Delivery::InputPointer)?;
            let take = (length - input.len()).min(BLOCK_DATA);
            input.extend_from_slice(&block[..take]);
            next = be64(&block, BLOCK_NEXT);
        }
        Ok(input)
    }

    fn store(&self, address: u64, entry: &[u8; ENTRY], output: &[u8]) -> Result<(), Delivery> {
        let (inline, mut rest) = output.split_at(output.len().min(INLINE));
        let mut next = OUTPUT_MAILBOX.get(entry);
        let mut number = 0;
        while !rest.is_empty() {
            let block = self.block(next, number, entry[TOKEN], Delivery::OutputPointer)?;
            let (data, tail) = rest.split_at(rest.len().min(BLOCK_DATA));
            self.memory
                .write(next, data)
                .map_err(|_| Delivery::OutputPointer)?;
            next = be64(&block, BLOCK_NEXT);
            rest = tail;
            number += 1;
        }
        self.memory
            .write(address + OUTPUT as u64, inline)
            .map_err(|_| Delivery::OutputPointer)
    }

    fn block(
        &self,
        address: u64,
        number: usize,
        token: u8,
        lost: Delivery,
    ) -> Result<Vec<u8>, Delivery> {
        let mut block = vec![0; BLOCK];
        if address == 0 || self.memory.read(address, &mut block).is_err() {
            return Err(lost);
        }
        if be32(&block, BLOCK_NUMBER) as usize != number {
            return Err(Delivery::BlockNumber);
        }
        if block[BLOCK_TOKEN] != token {
            return Err(Delivery::Token);
        }
        Ok(block)
    }
}

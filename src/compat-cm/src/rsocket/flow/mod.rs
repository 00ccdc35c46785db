//! What a socket may send and has received: counts that both sides keep of messages, bytes and
//! requests. What a peer says is checked against what it was given.

mod arrivals;

use std::collections::VecDeque;
use std::time::Instant;

use super::settings::Sizes;
use super::wire::{Control, Entry, Hello, Message};

/// Requests kept back for messages without data.
const CONTROLS: u32 = 4;
/// Bytes of the staging ring that have to be free before anything is sent.
pub(super) const LOW_WATER: u32 = 2048;

/// Whether a socket has a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Not yet.
    New,
    Listening,
    /// The handshake is on.
    Opening,
    Open,
    /// It has ended.
    Closed,
    /// The handshake failed.
    Refused,
    /// It broke.
    Broken,
}

/// A message to be sent, and where its data go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Departure {
    pub(super) address: u64,
    pub(super) key: u32,
    pub(super) length: u32,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) phase: Phase,
    pub(super) is_readable: bool,
    pub(super) is_writable: bool,
    /// Notification of the next completion was asked for.
    pub(super) is_armed: bool,
    sizes: Sizes,
    requests: u32,
    staging: u32,
    controls: u32,
    /// Messages with data that were sent, and up to which the peer takes them.
    sent: u16,
    taken: u16,
    /// What is left of the peer's current buffer.
    target: Entry,
    /// The entry that says where the next one is.
    at: u32,
    /// Lengths of what has arrived and is not read.
    messages: VecDeque<u32>,
    unread: u32,
    /// Bytes that the peer may write and has not reported.
    promised: u32,
    /// Bytes that were read and not given to the peer again.
    free: u32,
    /// Messages that were read, and when the peer is to be told.
    read: u16,
    tell_at: u16,
    /// Which half of the ring is given next, and which of the peer's entries says so.
    half: u32,
    pub(super) remote_at: u32,
    /// Updates that were sent with a half.
    places: u32,
    /// When events of the connection were looked for last.
    pub(super) looked: Option<Instant>,
}

impl Flow {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::New,
            is_readable: false,
            is_writable: false,
            is_armed: false,
            sizes: Sizes::default(),
            requests: 0,
            staging: 0,
            controls: CONTROLS,
            sent: 0,
            taken: 0,
            target: Entry::default(),
            at: 0,
            messages: VecDeque::new(),
            unread: 0,
            promised: 0,
            free: 0,
            read: 0,
            tell_at: 0,
            half: 0,
            remote_at: 0,
            places: 0,
            looked: None,
        }
    }

    /// For queues and rings of these sizes. The peer is given the first half in the handshake.
    pub(super) fn begin(&mut self, sizes: Sizes) {
        self.sizes = sizes;
        self.requests = sizes.sends.saturating_sub(CONTROLS);
        self.staging = sizes.staging;
        self.promised = self.half_of_ring();
        self.free = self.half_of_ring();
        self.half = 1;
        self.tell_at = self.half_of_credits();
    }

    /// What the peer said in the handshake.
    pub(super) fn open(&mut self, hello: &Hello) {
        self.target = hello.buffer;
        self.at = 1;
        self.taken = hello.credits;
        self.remote_at = u32::from(hello.targets.length > 1);
    }

    fn half_of_ring(&self) -> u32 {
        self.sizes.ring / 2
    }

    fn half_of_credits(&self) -> u16 {
        u16::try_from(self.sizes.receives / 2).unwrap_or(u16::MAX)
    }

    /// The entry to be read before anything can be sent, if the peer's buffer is full.
    pub(super) fn wants_target(&self) -> Option<u32> {
        (self.target.length == 0).then_some(self.at)
    }

    /// What that entry said.
    pub(super) fn set_target(&mut self, target: Entry) {
        self.target = target;
        self.at = (self.at + 1) % super::wire::TARGETS;
    }

    /// Whether data may be sent.
    pub(super) fn can_send(&self) -> bool {
        self.can_write() && self.sent != self.taken && self.target.length > 0
    }

    /// Whether there is a request, and room in the staging ring.
    fn can_write(&self) -> bool {
        self.requests > 0 && self.staging >= LOW_WATER.min(self.sizes.staging)
    }

    /// Takes what a message with at most `most` bytes needs.
    pub(super) fn depart(&mut self, most: u32) -> Option<Departure> {
        if !self.can_send() {
            return None;
        }
        let length = most.min(self.staging).min(self.target.length);
        let departure = Departure {
            address: self.target.address,
            key: self.target.key,
            length,
        };
        self.target.address = self.target.address.wrapping_add(length.into());
        self.target.length -= length;
        self.sent = self.sent.wrapping_add(1);
        self.requests -= 1;
        self.staging -= length;
        Some(departure)
    }

    /// Takes what a write of at most `most` bytes into mapped memory needs: its bytes.
    pub(super) fn depart_directly(&mut self, most: u32) -> Option<u32> {
        if !self.can_send() {
            return None;
        }
        let length = most.min(self.staging);
        self.requests -= 1;
        self.staging -= length;
        Some(length)
    }

    /// Takes what the announcement of mapped memory needs, which is `length` bytes.
    pub(super) fn announce(&mut self, length: u32) -> bool {
        if !self.can_send() || self.staging < length {
            return false;
        }
        self.sent = self.sent.wrapping_add(1);
        self.requests -= 1;
        self.staging -= length;
        true
    }

    /// Takes the request of a message without data.
    pub(super) fn control(&mut self) -> bool {
        let is_there = self.controls > 0;
        self.controls = self.controls.saturating_sub(1);
        is_there
    }

    /// Whether everything that was sent has arrived.
    pub(super) fn is_idle(&self) -> bool {
        self.controls + self.requests == self.sizes.sends
    }

    /// A request is complete; `extra` are the bytes that an announcement took.
    pub(super) fn sent(&mut self, message: Message, extra: u32) {
        match message {
            Message::Credits(_) | Message::Control(_) => {
                self.controls = (self.controls + 1).min(CONTROLS);
                if message == Message::Control(Control::Disconnect) {
                    self.close();
                }
            }
            Message::Data(length) | Message::Direct(length) => self.restore(length),
            Message::Map(_) | Message::Unknown => self.restore(extra),
        }
    }

    fn restore(&mut self, length: u32) {
        self.requests += 1;
        self.staging = self.staging.saturating_add(length).min(self.sizes.staging);
    }

    /// Where the next entry for the peer may be put, one after the other.
    pub(super) fn next_place(&mut self) -> u32 {
        let place = self.places;
        self.places = place.wrapping_add(1);
        place
    }

    fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closed;
        }
        self.is_readable = false;
        self.is_writable = false;
    }

    /// Ends a connection, if there is one.
    pub(super) fn end(&mut self, phase: Phase) {
        if self.phase == Phase::Open {
            self.close();
            self.phase = phase;
        }
    }
}

#[cfg(test)]
mod tests;

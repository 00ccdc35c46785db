//! What has arrived, what was read of it, and what the peer may send after that.

use super::{Flow, Phase};
use crate::rsocket::wire::{Control, Message};

impl Flow {
    /// A message has arrived. False: it says what cannot be.
    pub(in super::super) fn arrive(&mut self, message: Message) -> bool {
        match message {
            Message::Data(length) => return self.arrive_data(length),
            Message::Credits(value) => self.taken = (value & 0xffff) as u16,
            Message::Control(Control::Disconnect) => self.close(),
            Message::Control(Control::Shutdown) => {
                self.is_readable = false;
                if !self.is_writable {
                    self.close();
                }
            }
            _ => {}
        }
        true
    }

    fn arrive_data(&mut self, length: u32) -> bool {
        if length > self.promised || self.messages.len() >= self.sizes.receives as usize {
            return false;
        }
        self.promised -= length;
        if length == 0 {
            self.read = self.read.wrapping_add(1);
            return true;
        }
        self.unread += length;
        self.messages.push_back(length);
        true
    }

    /// Bytes that can be read.
    pub(in super::super) fn unread(&self) -> u32 {
        self.unread
    }

    /// Bytes were read.
    pub(in super::super) fn consume(&mut self, length: u32) {
        let mut left = length;
        while let Some(first) = self.messages.front_mut() {
            if left < *first {
                *first -= left;
                break;
            }
            left -= *first;
            self.messages.pop_front();
            self.read = self.read.wrapping_add(1);
            if left == 0 {
                break;
            }
        }
        self.unread -= length;
        self.free += length;
    }

    /// What the peer is to be told, if it is time: how many messages it may send, and the half of
    /// the ring that it gets with that. Takes the request.
    pub(in super::super) fn update(&mut self) -> Option<(Message, Option<u32>)> {
        let has_half = self.free >= self.half_of_ring() && self.half_of_ring() > 0;
        let is_time = self.read.wrapping_sub(self.tell_at).cast_signed() >= 0;
        if self.phase != Phase::Open || !(has_half || is_time) || !self.control() {
            return None;
        }
        self.tell_at = self.read.wrapping_add(self.half_of_credits());
        let credits = u32::from(self.read) + self.sizes.receives;
        let half = has_half.then_some(self.half);
        if has_half {
            self.free -= self.half_of_ring();
            self.promised += self.half_of_ring();
            self.half ^= 1;
        }
        Some((Message::Credits(credits), half))
    }
}

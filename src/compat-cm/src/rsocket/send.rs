//! Sending: bytes are copied into the staging ring, and written from there into the peer's buffer.

use std::ffi::c_int;

use super::connect::IN_PROGRESS;
use super::endpoint::Endpoint;
use super::flow::{Departure, Flow, Phase};
use super::stream::{NOT_CONNECTED, RESET, Stream, WOULD_BLOCK, lock};
use super::wire::Message;
use crate::answer::Answer;
use crate::errno::Code;

/// Bytes of the first message of several, so that it leaves soon; each may have twice as many as
/// the one before, up to the most.
const FIRST: u32 = 2048;
const MOST: u32 = 65536;

/// Sizes of the messages that a call sends.
#[derive(Debug)]
struct Growing(u32);

impl Growing {
    fn new() -> Self {
        Self(FIRST)
    }

    /// Bytes of the next one.
    fn next(&mut self, left: usize) -> u32 {
        match u32::try_from(left) {
            Ok(left) if left <= self.0 => left,
            _ => {
                let length = self.0;
                self.0 = (self.0 * 2).min(MOST);
                length
            }
        }
    }
}

/// Sends parts by messages, each with what is left of a part and at most so many bytes: how many
/// bytes were sent, until one message fails, or sends none. A failure is one if nothing was sent
/// before.
pub(super) fn by_messages(
    parts: &[&[u8]],
    mut message: impl FnMut(&[u8], u32) -> Answer<usize>,
) -> Answer<usize> {
    let mut growing = Growing::new();
    let mut sent = 0;
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            match message(rest, growing.next(rest.len())) {
                Ok(0) => return Ok(sent),
                Ok(length) => {
                    sent += length;
                    rest = rest.get(length..).unwrap_or_default();
                }
                Err(code) if sent == 0 => return Err(code),
                Err(_) => return Ok(sent),
            }
        }
    }
    Ok(sent)
}

/// Why nothing can be sent, if nothing can be sent any more.
fn unwritable(flow: &Flow) -> Option<Code> {
    match flow.phase {
        Phase::New | Phase::Listening | Phase::Opening | Phase::Refused => Some(NOT_CONNECTED),
        _ if !flow.is_writable => Some(RESET),
        _ => None,
    }
}

/// Takes what a message needs, if there is all of it and something can still be sent.
pub(super) fn if_writable<T>(
    endpoint: &Endpoint,
    flow: &mut Flow,
    take: impl FnOnce(&mut Flow) -> Option<T>,
) -> Option<Answer<T>> {
    if let Some(code) = unwritable(flow) {
        return Some(Err(code));
    }
    endpoint.refresh(flow);
    take(flow).map(Ok)
}

impl Stream {
    /// Moves a handshake on before data are sent or received.
    pub(super) fn connected_first(&self, flags: c_int) -> Answer<()> {
        if !self.is_opening() {
            return Ok(());
        }
        self.advance(self.blocks(flags)).map_err(|code| {
            if code == IN_PROGRESS {
                WOULD_BLOCK
            } else {
                code
            }
        })
    }

    /// Sends all bytes; without waiting, or until something fails, some of them.
    pub(super) fn send(&self, parts: &[&[u8]], flags: c_int) -> Answer<usize> {
        self.connected_first(flags)?;
        let blocks = self.blocks(flags);
        let endpoint = self.connected()?;
        let mut position = lock(&self.sends);
        self.announce(endpoint, &mut position, blocks)?;
        by_messages(parts, |rest, most| {
            let departure = self.depart(blocks, most)?;
            self.stage(endpoint, &mut position, rest, departure)
        })
    }

    fn depart(&self, blocks: bool, most: u32) -> Answer<Departure> {
        let take = |endpoint: &Endpoint, flow: &mut Flow| {
            if_writable(endpoint, flow, |flow| flow.depart(most))
        };
        // Completions are not looked for as long as there is room.
        let now = take(self.connected()?, &mut self.flow());
        match now {
            Some(answer) => answer,
            None => self.wait(blocks, take),
        }
    }

    fn stage(
        &self,
        endpoint: &Endpoint,
        position: &mut u32,
        bytes: &[u8],
        departure: Departure,
    ) -> Answer<usize> {
        let Departure {
            address,
            key,
            length,
        } = departure;
        let bytes = bytes.get(..length as usize).unwrap_or_default();
        let message = Message::Data(length);
        self.post_copy(endpoint, position, bytes, (address, key), message)
    }

    /// Copies bytes, for which there is room, into the ring, and posts them.
    pub(super) fn post_copy(
        &self,
        endpoint: &Endpoint,
        position: &mut u32,
        bytes: &[u8],
        to: (u64, u32),
        message: Message,
    ) -> Answer<usize> {
        let at = *position;
        let whole = endpoint.sizes.staging;
        let length = u32::try_from(bytes.len()).map_err(|_| Code::INVALID)?;
        let before = bytes.len().min((whole - at) as usize);
        let (one, other) = bytes.split_at(before);
        endpoint.staging.write(at as usize, one);
        endpoint.staging.write(0, other);
        *position = (at + length) % whole;
        let posted = endpoint.post_staged(at, length, to, message);
        if let Err(code) = posted {
            self.fail(&mut self.flow(), code);
        }
        posted.map(|()| bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_grow() {
        let mut sizes = Growing::new();
        let mut left = 200_000;
        let mut all = Vec::new();
        while left > 0 {
            let next = sizes.next(left);
            left -= next as usize;
            all.push(next);
        }
        assert_eq!(all, [2048, 4096, 8192, 16384, 32768, 65536, 65536, 5440]);
        assert_eq!(Growing::new().next(2048), 2048);
        assert_eq!(Growing::new().next(usize::MAX), 2048);
    }

    #[test]
    fn a_failure_is_one_if_nothing_was_sent() {
        let parts: [&[u8]; 3] = [&[1; 3000], &[], &[2; 10]];
        let run = |most_calls, then| {
            let mut calls = 0;
            let sent = by_messages(&parts, |rest, most| {
                calls += 1;
                if calls > most_calls {
                    return then;
                }
                Ok(rest.len().min(most as usize))
            });
            (sent, calls)
        };
        assert_eq!(run(9, Err(RESET)), (Ok(3010), 3));
        assert_eq!(run(2, Err(RESET)), (Ok(3000), 3));
        assert_eq!(run(0, Err(RESET)), (Err(RESET), 1));
        assert_eq!(run(1, Ok(0)), (Ok(2048), 2));
        assert_eq!(run(0, Ok(0)), (Ok(0), 1));
    }
}

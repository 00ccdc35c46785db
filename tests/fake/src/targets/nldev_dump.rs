//! Netlink datagrams of any content.

use uverbs::discover::netlink::{
    Attributes, Client, NetlinkTransport, ResourceKind, messages, parse_counters,
};
use uverbs::error::Errno;

use super::Input;

/// Offset of the sequence number in a message's header.
const SEQUENCE: usize = 8;
/// Length of a message's header.
const HEADER: usize = 16;

/// Answers every request with the next of the fuzzer's datagrams.
#[derive(Debug)]
struct Script<'a> {
    input: Input<'a>,
    sequence: [u8; 4],
    datagrams: u32,
}

impl NetlinkTransport for Script<'_> {
    fn send(&mut self, datagram: &[u8]) -> Result<(), Errno> {
        if let Some(sequence) = datagram.get(SEQUENCE..).and_then(<[u8]>::first_chunk) {
            self.sequence = *sequence;
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], lengths: &mut [usize]) -> Result<usize, Errno> {
        let room = buffer.len() / lengths.len().max(1);
        let mut count = 0;
        for (part, length) in buffer.chunks_exact_mut(room.max(1)).zip(lengths) {
            self.datagrams += 1;
            if self.input.is_empty() || self.datagrams > 64 {
                break;
            }
            *length = self.next_into(part);
            count += 1;
        }
        if count == 0 {
            return Err(Errno::TIMEDOUT);
        }
        Ok(count)
    }
}

impl Script<'_> {
    /// Copies the next datagram to `part`, as far as it fits, and returns its length.
    fn next_into(&mut self, part: &mut [u8]) -> usize {
        let announced = self.input.small();
        let mut datagram = self.input.take(announced).to_vec();
        answer_to(&mut datagram, self.sequence);
        let len = datagram.len().min(part.len());
        if let (Some(to), Some(from)) = (part.get_mut(..len), datagram.get(..len)) {
            to.copy_from_slice(from);
        }
        datagram.len()
    }
}

/// Sets the sequence number of every message in a datagram to that of the request; otherwise they
/// would be ignored.
fn answer_to(datagram: &mut [u8], sequence: [u8; 4]) {
    let mut at = 0;
    while let Some(header) = datagram.get_mut(at..at + HEADER) {
        let len = header
            .first_chunk()
            .map_or(0, |len| u32::from_ne_bytes(*len));
        if let Some(place) = header.get_mut(SEQUENCE..SEQUENCE + 4) {
            place.copy_from_slice(&sequence);
        }
        let len = usize::try_from(len).unwrap_or(0).next_multiple_of(4);
        if len < HEADER {
            return;
        }
        at = at.saturating_add(len);
    }
}

/// Parses the bytes as messages and as attributes, and makes every query of a client that receives
/// them as answers.
pub fn nldev_dump(bytes: &[u8]) {
    for message in messages(bytes) {
        if message.is_err() {
            break;
        }
    }
    let _ = parse_counters(Attributes::new(bytes));
    let client = || {
        Client::over(Script {
            input: Input::new(bytes),
            sequence: [0; 4],
            datagrams: 0,
        })
    };
    let _ = client().devices();
    let _ = client().device(0);
    let _ = client().char_device(0);
    let _ = client().ports(0);
    let _ = client().port(0, 1);
    let _ = client().system();
    let _ = client().summaries();
    let _ = client().statistics(0, 1);
    for kind in ResourceKind::ALL {
        let _ = client().resources(0, *kind);
    }
}

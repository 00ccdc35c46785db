//! Bytes inside the request itself: lengths from none to all there is room for, whole and in parts,
//! some of them empty.

use std::time::{Duration, Instant};

use uverbs::owned::{self, Buffer};
use uverbs::{
    CompletionQueue, Operation, Payload, ProtectionDomain, QpType, QueuePair, SendRequest,
};

use super::super::check::{Check, Found, Outcome, Trouble, ensure};
use super::super::pair::{
    Exchange as _, REMOTE, buffer_of, compare, connect, ended, fill, prepare, take,
};
use super::super::subject::Subject;

const EXPECTED: &str = "whole and in parts, as sent";

/// A device that is too slow for all of them is reported as slow.
const ENOUGH: Duration = Duration::from_secs(2);

/// The inline sizes to request, until the device grants one.
const ROOM: [u32; 5] = [512, 256, 128, 64, 32];

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("RC inline send", EXPECTED, |subject| {
            let mut rig = Rig::new(subject, QpType::Rc)?;
            rig.sends()
        }),
        Check::new("UC inline send", EXPECTED, |subject| {
            let mut rig = Rig::new(subject, QpType::Uc)?;
            rig.sends()
        }),
        Check::new("RC inline write", EXPECTED, |subject| {
            let mut rig = Rig::new(subject, QpType::Rc)?;
            rig.writes()
        }),
    ]
}

/// Whether a length is short, or near the end of one of the rings' units of 16 bytes, of which 4
/// may be a header.
fn is_boundary(len: usize) -> bool {
    len <= 64 || [0, 1, 12, 13, 15].contains(&(len % 16))
}

/// The longest, then the others, spread out, so that a device that is too slow for all of them gets
/// some of each kind.
fn lengths(room: usize) -> Vec<usize> {
    const SPREAD: usize = 8;
    let boundaries: Vec<usize> = (0..room).filter(|len| is_boundary(*len)).collect();
    let spread = (0..SPREAD).flat_map(|first| boundaries.iter().skip(first).step_by(SPREAD));
    std::iter::once(room).chain(spread.copied()).collect()
}

#[derive(Debug)]
struct Rig {
    pd: ProtectionDomain,
    send_cq: CompletionQueue,
    receive_cq: CompletionQueue,
    sender: QueuePair,
    receiver: owned::QueuePair,
    /// How many bytes a request has room for.
    room: u32,
}

impl Rig {
    fn new(subject: &Subject, kind: QpType) -> Outcome<Self> {
        let mut last = Trouble::failed("no size was tried");
        for room in ROOM {
            match Self::with_room(subject, kind, room) {
                Ok(rig) => return Ok(rig),
                Err(trouble) => last = trouble,
            }
        }
        Err(last)
    }

    fn with_room(subject: &Subject, kind: QpType, room: u32) -> Outcome<Self> {
        let pd = subject.context.alloc_pd()?;
        let send_cq = subject.context.create_cq(64)?;
        let receive_cq = subject.context.create_cq(64)?;
        let prepared = |cq: &CompletionQueue| {
            prepare(subject, &pd, kind, (cq, cq), |builder| {
                builder.max_inline_data(room).max_send_sge(4)
            })
        };
        let (sender, receiver) = connect(prepared(&send_cq)?, prepared(&receive_cq)?)?;
        // Space granted beyond that is used, too, within reason.
        let room = sender.caps().max_inline_data.clamp(room, 1024);
        Ok(Self {
            room,
            sender,
            receiver: owned::QueuePair::new(receiver),
            send_cq,
            receive_cq,
            pd,
        })
    }

    /// Posts a request and waits until it is done.
    fn post(&mut self, operation: Operation<'_>, slices: &[&[u8]]) -> Outcome<()> {
        let request = SendRequest::new(operation, Payload::Inline(slices)).signaled();
        let mut batch = self.sender.send_batch();
        batch.push_inline(&request)?;
        batch.submit()?;
        take(&mut self.send_cq, |done| {
            ensure(done.is_success(), || {
                format!("{}, vendor {:#x}", done.status, done.vendor_err)
            })
        })?
    }

    fn sends(&mut self) -> Outcome {
        let [room] = self.pd.buffers::<1>(self.room as usize)?;
        let mut spare = Some(room);
        self.each(|rig, slices, len, seed| {
            let room: Option<Buffer> = spare.take();
            let room = room.ok_or_else(|| Trouble::failed("a buffer did not come back"))?;
            rig.receiver.recv(room, seed)?;
            rig.post(Operation::Send, slices)?;
            let receiver = &mut rig.receiver;
            let arrived = take(&mut rig.receive_cq, |done| {
                receiver
                    .exchange(done)
                    .map_err(|_| Trouble::failed("a completion of another request"))
            })??;
            ensure(arrived.status().is_success(), || ended(&arrived))?;
            ensure(arrived.len() == len, || {
                format!("{} bytes arrived", arrived.len())
            })?;
            let buffer = buffer_of(arrived)?;
            compare(&buffer[..len], seed)?;
            spare = Some(buffer);
            Ok(())
        })
    }

    fn writes(&mut self) -> Outcome {
        let exposed = self.pd.expose(self.room as usize, REMOTE)?;
        self.each(|rig, slices, len, seed| {
            rig.post(Operation::Write(exposed.remote().start()), slices)?;
            let mut found = vec![0; len];
            ensure(exposed.read(0, &mut found), || {
                "outside of the memory".into()
            })?;
            compare(&found, seed)
        })
    }

    /// Tries lengths up to all there is room for, whole and in parts.
    fn each(
        &mut self,
        mut carry: impl FnMut(&mut Self, &[&[u8]], usize, u64) -> Outcome<()>,
    ) -> Outcome {
        let room = self.room as usize;
        let mut bytes = vec![0; room];
        let (start, all) = (Instant::now(), lengths(room));
        let mut count = 0;
        for &len in &all {
            if start.elapsed() > ENOUGH {
                break;
            }
            count += 1;
            for (cut, seed) in [len, len / 2, 0].into_iter().zip(len as u64..) {
                fill(&mut bytes[..len], seed);
                let (head, tail) = bytes[..len].split_at(cut);
                // Empty parts at both ends take no room.
                let slices: [&[u8]; 4] = [&[], head, tail, &[]];
                let slices = if cut == len {
                    &slices[1..2]
                } else {
                    &slices[..]
                };
                carry(self, slices, len, seed).map_err(|trouble| {
                    trouble.with(format_args!("{len} bytes in {} slices", slices.len()))
                })?;
            }
        }
        let found = if count < all.len() {
            Found::new(format_args!(
                "{count} of {} lengths, 0 to {room} bytes",
                all.len()
            ))
        } else {
            Found::new(format_args!("0 to {room} bytes"))
        };
        Ok(found.slow_if(count < all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_comes_once() {
        let mut all = lengths(100);
        assert_eq!(all[..3], [100, 0, 8]);
        all.sort_unstable();
        let right: Vec<usize> = (0..=100)
            .filter(|len| is_boundary(*len) || *len == 100)
            .collect();
        assert_eq!(all, right);
    }
}

//! The game of rping, which either side may be: `--rping`.
//!
//! The client names memory in a message of 16 bytes, the server reads it and confirms with a
//! message of the same size; the client names other memory, the server writes there what it read,
//! up to and including the zero at its end, and confirms. The peers connect without private data.

use std::collections::VecDeque;
use std::time::Instant;

use uverbs::cm::{CmError, Connection, ConnectionEvent};
use uverbs::memory::RemoteKey;
use uverbs::owned::{self, Buffer, ExposedMemory, Work};
use uverbs::transport::Rc;
use uverbs::{AccessFlags, Remote};

use super::Args;
use super::by_address::{PATIENCE, Queues, connect};
use super::play::Score;
use super::report::Played;
use crate::failure::{Failure, Result};
use crate::idle::Idle;
use crate::output::Output;
use crate::session::Session;

/// rping's port, and its default and largest message sizes in bytes.
pub(super) const PORT: u16 = 7174;
pub(super) const SIZE: u32 = 64;
const MOST: u32 = (64 << 10) - 1;

/// Bytes of a message that names memory.
const LEN: usize = 16;
const RECEIVES: usize = 4;

/// `user_data` of requests; that of reads and writes is 0.
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

pub(super) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    if args.message_size() > MOST {
        return Err(Failure::usage(format_args!(
            "rping sends at most {MOST} bytes"
        )));
    }
    let receive = |queues: &Queues, queue: &mut owned::QueuePair<Rc>| {
        for buffer in queues.pd.buffer_list(RECEIVES, LEN)? {
            let posted = queue.recv(buffer, RECEIVE);
            posted.map_err(|refused| refused.error)?;
        }
        Ok(())
    };
    let (queues, connection) = connect(args, session, out, receive)?;
    let mut player = Player::new(queues, connection)?;
    let start = Instant::now();
    let (rounds, size) = if args.is_client() {
        player.call(args)?
    } else {
        player.serve(args)?
    };
    let mut score = player.score;
    score.elapsed = start.elapsed();
    score.events = player.idle.events;
    match player.connection.disconnect(PATIENCE) {
        // The other side need not wait for this one.
        Ok(()) | Err(CmError::TimedOut(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let whole = Played {
        device: player.queues.device,
        queue_pairs: 1,
        message_bytes: size,
        iterations: rounds,
        score: &score,
    };
    whole.report(args, out)
}

struct Player {
    queues: Queues,
    connection: Connection,
    idle: Idle,
    /// For the message that is sent next.
    free: Vec<Buffer>,
    /// What the peer sent.
    received: VecDeque<[u8; LEN]>,
    /// What was read or written.
    moved: Option<Buffer>,
    is_over: bool,
    score: Score,
}

/// Memory that a client names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Named {
    remote: Remote,
    len: u32,
}

impl Named {
    fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let parts = [&self.remote.to_bytes()[..], &self.len.to_be_bytes()];
        let all = parts.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        bytes
    }

    fn of(bytes: [u8; LEN]) -> Self {
        let [
            a0,
            a1,
            a2,
            a3,
            a4,
            a5,
            a6,
            a7,
            k0,
            k1,
            k2,
            k3,
            l0,
            l1,
            l2,
            l3,
        ] = bytes;
        Self {
            remote: Remote {
                address: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
                key: RemoteKey::from_raw(u32::from_be_bytes([k0, k1, k2, k3])),
            },
            len: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    fn memory(memory: &ExposedMemory, len: u32) -> Self {
        let all = memory.remote();
        Self {
            remote: Remote {
                address: all.address,
                key: all.key,
            },
            len,
        }
    }
}

impl Player {
    fn new(queues: Queues, connection: Connection) -> Result<Self> {
        let free = queues.pd.buffer_list(2, LEN)?;
        Ok(Self {
            queues,
            connection,
            idle: Idle::new(),
            free,
            received: VecDeque::new(),
            moved: None,
            is_over: false,
            score: Score::default(),
        })
    }

    /// Plays as the client; returns how many rounds, and with how many bytes.
    fn call(&mut self, args: &Args) -> Result<(u64, u32)> {
        let size = args.message_size();
        let pd = &self.queues.pd;
        let source = pd.expose(size as usize, AccessFlags::REMOTE_READ)?;
        let sink = pd.expose(size as usize, AccessFlags::REMOTE_WRITE)?;
        for round in 0..args.iters {
            let text = text(round, size as usize);
            if !source.write(0, &text) {
                return Err(Failure::new("the memory is too small"));
            }
            for memory in [&source, &sink] {
                self.send(Named::memory(memory, size).to_bytes())?;
                self.message(args)?.ok_or_else(left)?;
            }
            if args.validate {
                let mut came = vec![0; text.len()];
                if !sink.read(0, &mut came) || came != text {
                    return Err(Failure::new(format_args!(
                        "what came back in round {round} differs from what was sent"
                    )));
                }
                self.score.validated += 1;
            }
        }
        Ok((args.iters, size))
    }

    /// Plays as the server, until the client leaves.
    fn serve(&mut self, args: &Args) -> Result<(u64, u32)> {
        let [mut buffer] = self.queues.pd.buffers(MOST as usize)?;
        let (mut rounds, mut size) = (0, 0);
        while let Some(source) = self.message(args)? {
            let source = Named::of(source);
            if source.len > MOST {
                return Err(Failure::new(format_args!(
                    "the client names {} bytes, more than {MOST}",
                    source.len
                )));
            }
            size = source.len;
            let read = Work::read(source.remote).memory((buffer, size as usize));
            buffer = self.carry_out(read.untyped(), args)?;
            self.send([0; LEN])?;
            let sink = Named::of(self.message(args)?.ok_or_else(left)?);
            let read = buffer.get(..size as usize).unwrap_or_default();
            let len = read.iter().position(|byte| *byte == 0);
            let len = len.map_or(read.len(), |at| at + 1);
            if len > sink.len as usize {
                return Err(Failure::new(format_args!(
                    "the client has room for {} bytes, not for {len}",
                    sink.len
                )));
            }
            let write = Work::write(sink.remote).memory((buffer, len));
            buffer = self.carry_out(write.untyped(), args)?;
            self.send([0; LEN])?;
            rounds += 1;
        }
        Ok((rounds, size))
    }

    fn send(&mut self, bytes: [u8; LEN]) -> Result<()> {
        let mut buffer = if let Some(buffer) = self.free.pop() {
            buffer
        } else {
            let [buffer] = self.queues.pd.buffers(LEN)?;
            buffer
        };
        buffer.copy_from_slice(&bytes);
        let sent = self.connection.queue_pair().send(buffer, LEN, SEND);
        Ok(sent.map_err(|refused| refused.error)?)
    }

    /// The peer's next message; `None` if it left.
    fn message(&mut self, args: &Args) -> Result<Option<[u8; LEN]>> {
        self.wait(args, |player| !player.received.is_empty())?;
        Ok(self.received.pop_front())
    }

    /// Reads or writes, and gives the buffer back.
    fn carry_out(&mut self, work: Work, args: &Args) -> Result<Buffer> {
        let posted = self.connection.queue_pair().post(work);
        posted.map_err(|refused| refused.error)?;
        self.wait(args, |player| player.moved.is_some())?;
        self.moved.take().ok_or_else(left)
    }

    /// Waits until `is_done`, or the peer has left.
    fn wait(&mut self, args: &Args, is_done: impl Fn(&Self) -> bool) -> Result<()> {
        while !is_done(self) && !self.is_over {
            if self.take()? {
                self.idle.busy();
                continue;
            }
            let Queues { cq, channel, .. } = &mut self.queues;
            let nap = args.timeout.min(NAP);
            let Some(silent) = self.idle.wait(cq, channel.as_ref(), nap)? else {
                continue;
            };
            if silent > args.timeout {
                return Err(Failure::new(format_args!(
                    "nothing arrived for {} s",
                    args.timeout.as_secs_f64()
                )));
            }
            let event = self.connection.link().try_event()?;
            let is_over = matches!(
                event,
                Some(ConnectionEvent::Disconnected | ConnectionEvent::DeviceRemoved)
            );
            if is_over {
                // What came before is there by now.
                while self.take()? {}
                self.is_over = true;
            }
        }
        Ok(())
    }

    /// Takes a completion. False if there was none.
    fn take(&mut self) -> Result<bool> {
        let Some(completion) = self.queues.cq.poll()? else {
            return Ok(false);
        };
        let status = completion.status;
        let queue = self.connection.queue_pair();
        let finished = queue
            .complete(completion)
            .map_err(|_| Failure::new("a completion of a request that was not posted"))?;
        if !status.is_success() {
            return Err(Failure::new(format_args!(
                "a request failed: {}",
                status.ibv_str()
            )));
        }
        let (user_data, len) = (finished.user_data(), finished.len());
        if user_data == RECEIVE {
            let bytes = finished.bytes().unwrap_or_default();
            let message = <[u8; LEN]>::try_from(bytes).map_err(|_| {
                Failure::new(format_args!(
                    "a message of {len} bytes, which rping does not send"
                ))
            })?;
            self.received.push_back(message);
        }
        let Some(buffer) = finished.into_buffer() else {
            return Ok(true);
        };
        match user_data {
            RECEIVE => {
                let posted = queue.recv(buffer, RECEIVE);
                posted.map_err(|refused| refused.error)?;
            }
            SEND => self.free.push(buffer),
            _ => self.moved = Some(buffer),
        }
        Ok(true)
    }
}

/// How long it sleeps before it looks whether the peer is there.
const NAP: std::time::Duration = std::time::Duration::from_millis(100);

fn left() -> Failure {
    Failure::new("the peer left in the middle of a round").hint("its own output says why")
}

/// What a client shows: printable, with a zero at the end, and another in each round.
fn text(round: u64, size: usize) -> Vec<u8> {
    let mut text = format!("rdma-ping-{round}: ").into_bytes();
    let letters = (b'A'..=b'z')
        .cycle()
        .skip(usize::try_from(round % 58).unwrap_or(0));
    text.extend(letters.take(size));
    text.truncate(size.saturating_sub(1));
    text.push(0);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_named_in_network_order() {
        let named = Named {
            remote: Remote {
                address: 0x0102_0304_0506_0708,
                key: RemoteKey::from_raw(0x090a_0b0c),
            },
            len: 0x0d0e_0f10,
        };
        let bytes: Vec<u8> = (1..=16).collect();
        assert_eq!(named.to_bytes()[..], bytes[..]);
        assert_eq!(Named::of(named.to_bytes()), named);
    }

    #[test]
    fn the_text_ends_with_its_only_zero() {
        for size in [1, 2, 14, 64, 65535] {
            let text = text(7, size);
            assert_eq!(text.len(), size);
            assert_eq!(text.iter().position(|byte| *byte == 0), Some(size - 1));
        }
        assert_ne!(text(1, 64)[16..], text(2, 64)[16..]);
    }
}

//! The game itself: a player that has both received and sent throws again.

use std::time::{Duration, Instant};

use uverbs::owned::{self, Buffer, Finished, Memory, Work};
use uverbs::{AddressHandle, CompletionChannel, CompletionQueue};

use super::Args;
use super::setup::QKEY;
use crate::failure::{Failure, Result};
use crate::idle::Idle;

/// Two sides that are connected.
pub(super) struct Game {
    cq: CompletionQueue,
    channel: Option<CompletionChannel>,
    players: Vec<Player>,
    /// Where receive requests are posted, if not on each queue pair.
    srq: Option<owned::SharedReceiveQueue>,
}

/// A queue pair in the game.
pub(super) struct Player {
    qp: owned::QueuePair,
    /// The message, while it is not being sent.
    message: Option<Buffer>,
    /// What is sent, when messages are validated: the client's pattern, or what the server received
    /// last.
    payload: Option<Vec<u8>>,
    received_any: bool,
    address: Option<(AddressHandle, u32)>,
    waits_for_send: bool,
    waits_for_receive: bool,
}

/// How the game went.
#[derive(Debug, Default)]
pub(super) struct Score {
    pub(super) elapsed: Duration,
    pub(super) events: u64,
    pub(super) validated: u64,
    sent: u64,
    received: u64,
}

impl Game {
    pub(super) fn new(
        cq: CompletionQueue,
        channel: Option<CompletionChannel>,
        players: Vec<Player>,
        srq: Option<owned::SharedReceiveQueue>,
    ) -> Self {
        Self {
            cq,
            channel,
            players,
            srq,
        }
    }

    pub(super) fn play(&mut self, args: &Args) -> Result<Score> {
        let mut score = Score::default();
        let start = Instant::now();
        if args.is_client() {
            for player in &mut self.players {
                player.throw()?;
            }
        }
        let mut idle = Idle::new();
        while score.received < args.iters || score.sent < args.iters {
            if self.take(args, &mut score)? {
                idle.busy();
                continue;
            }
            let silent = idle.wait(&mut self.cq, self.channel.as_ref(), args.timeout)?;
            if silent.is_some_and(|silent| silent > args.timeout) {
                return Err(silence(args, &score));
            }
        }
        score.elapsed = start.elapsed();
        score.events = idle.events;
        Ok(score)
    }

    /// Takes a completion and handles it. False if there was none.
    fn take(&mut self, args: &Args, score: &mut Score) -> Result<bool> {
        let Some(completion) = self.cq.poll()? else {
            return Ok(false);
        };
        let number = completion.qp_num;
        let player = self
            .players
            .iter_mut()
            .find(|player| player.qp.qp_num() == number)
            .ok_or_else(|| Failure::new(format_args!("a completion of queue pair {number}")))?;
        if !completion.status.is_success() {
            return Err(failed(&completion));
        }
        let received = completion.is_receive();
        let finished = match &mut self.srq {
            Some(srq) if received => srq.complete(completion),
            _ => player.qp.complete(completion),
        };
        let finished =
            finished.map_err(|_| Failure::new("a completion of a request that was not posted"))?;
        if received {
            score.received += 1;
            score.validated += u64::from(player.check(args, &finished)?);
            repost(self.srq.as_mut(), player, finished)?;
            player.waits_for_receive = false;
        } else {
            score.sent += 1;
            player.message = into_buffer(finished);
            player.waits_for_send = false;
        }
        if score.sent < args.iters && !player.waits_for_send && !player.waits_for_receive {
            player.throw()?;
        }
        Ok(true)
    }
}

impl Player {
    pub(super) fn new(
        qp: owned::QueuePair,
        mut message: Buffer,
        address: Option<(AddressHandle, u32)>,
        args: &Args,
    ) -> Self {
        let size = message.len();
        let payload = args.validate.then(|| pattern(size));
        message.fill(0x7b);
        Self {
            qp,
            message: Some(message),
            payload,
            received_any: false,
            address,
            waits_for_send: false,
            // The client throws first; everyone else catches first.
            waits_for_receive: true,
        }
    }

    pub(super) fn receive(&mut self, buffer: Buffer) -> Result<()> {
        self.qp
            .recv(buffer, 0)
            .map_err(|refused| refused.error.into())
    }

    /// Sends the message.
    fn throw(&mut self) -> Result<()> {
        let Some(mut message) = self.message.take() else {
            return Err(Failure::new("the message is still being sent"));
        };
        if let Some(payload) = &self.payload {
            message.copy_from_slice(payload);
        }
        let size = message.len();
        let mut work = Work::send().untyped().memory((message, size));
        if let Some((address, qp_num)) = &self.address {
            work = work.to(address, *qp_num, QKEY);
        }
        self.qp.post(work).map_err(|refused| refused.error)?;
        self.waits_for_send = true;
        self.waits_for_receive = true;
        Ok(())
    }

    /// Compares what was received. True if there was something to compare with.
    fn check(&mut self, args: &Args, finished: &Finished) -> Result<bool> {
        let header = args.transport.header();
        let Some(payload) = &mut self.payload else {
            return Ok(false);
        };
        let bytes = finished
            .bytes()
            .and_then(|bytes| bytes.get(header..))
            .unwrap_or_default();
        let first = !std::mem::replace(&mut self.received_any, true);
        if first && !args.is_client() && bytes.len() == payload.len() {
            // The client may send anything, except that every page of it starts with a zero.
            if bytes.first().is_some_and(|byte| *byte != 0) {
                return Err(Failure::new("invalid data in the first message")
                    .hint("start the client with -c too"));
            }
            payload.copy_from_slice(bytes);
            return Ok(true);
        }
        if let Some(at) = differs(payload, bytes) {
            return Err(Failure::new(format_args!(
                "invalid data at byte {at} of a message of {} bytes",
                bytes.len()
            )));
        }
        Ok(true)
    }
}

/// Returns the buffer of a received message to the queue it came from.
fn repost(
    srq: Option<&mut owned::SharedReceiveQueue>,
    player: &mut Player,
    finished: Finished,
) -> Result<()> {
    let Some(buffer) = into_buffer(finished) else {
        return Err(Failure::new("a receive without a buffer"));
    };
    match srq {
        None => player.receive(buffer),
        Some(srq) => Ok(srq.recv(buffer, 0).map_err(|refused| refused.error)?),
    }
}

fn into_buffer(finished: Finished) -> Option<Buffer> {
    match finished.into_memory() {
        Memory::Buffer(buffer, _) => Some(buffer),
        _ => None,
    }
}

/// Zero at the start of each page, which the C programs check; something else everywhere else.
fn pattern(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| {
            if at % 4096 == 0 {
                0
            } else {
                u8::try_from(at % 251).unwrap_or_default().wrapping_add(1)
            }
        })
        .collect()
}

/// The first byte that differs, or the end of the shorter one.
fn differs(one: &[u8], other: &[u8]) -> Option<usize> {
    let common = one.iter().zip(other).position(|(one, other)| one != other);
    common.or_else(|| (one.len() != other.len()).then(|| one.len().min(other.len())))
}

fn failed(completion: &uverbs::WorkCompletion) -> Failure {
    let failure = Failure::new(format_args!(
        "a request failed: {} (vendor error {:#x}, queue pair {})",
        completion.status.ibv_str(),
        completion.vendor_err,
        completion.qp_num
    ));
    match completion.status {
        uverbs::WcStatus::RetryExceeded | uverbs::WcStatus::RnrRetryExceeded => failure.hint(
            "the peer did not answer: it ended, or packets do not reach it (UDP port 4791, GID, MTU)",
        ),
        _ => failure,
    }
}

fn silence(args: &Args, score: &Score) -> Failure {
    let failure = Failure::new(format_args!(
        "nothing arrived for {} s ({} sent, {} received of {})",
        args.timeout.as_secs_f64(),
        score.sent,
        score.received,
        args.iters
    ));
    match args.transport {
        super::Transport::Rc => failure,
        _ => failure.hint("a packet was lost; this transport does not send it again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_has_zeros_exactly_where_the_c_programs_look() {
        let bytes = pattern(3 * 4096 + 5);
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte == 0, at % 4096 == 0, "byte {at}");
        }
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(differs(b"abc", b"abc"), None);
        assert_eq!(differs(b"abc", b"axc"), Some(1));
        assert_eq!(differs(b"abc", b"ab"), Some(2));
    }
}

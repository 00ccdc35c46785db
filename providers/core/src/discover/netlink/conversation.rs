//! Sends requests and collects what answers them.

use super::{
    Attributes, Malformed, Message, NETLINK_ANSWERS, NETLINK_DATAGRAM_MAX, NetlinkTransport,
    Request, messages,
};
use crate::error::{Errno, Error, ErrorKind, Op, Result};

/// How often a list is asked for again that changed while the kernel told it.
const ATTEMPTS: usize = 4;

/// The most datagrams that may answer one batch: far more than a host has objects for.
const DATAGRAMS_MAX: usize = 1 << 20;

/// What became of one request of a batch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Outcome {
    /// Not answered yet.
    #[default]
    Open,
    /// Answered in part, and the list changed while it was told.
    Torn,
    /// Answered whole.
    Done,
    /// The list changed while it was told.
    Interrupted,
    /// Refused.
    Failed(Errno),
}

impl Outcome {
    fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Torn)
    }
}

/// A transport and the numbers of its requests.
#[derive(Debug)]
pub(super) struct Conversation<T> {
    transport: T,
    sequence: u32,
    /// Datagrams of an earlier exchange may be unread, which can be as large as they get.
    unread: bool,
}

impl<T: NetlinkTransport> Conversation<T> {
    pub(super) fn new(transport: T) -> Self {
        Self {
            transport,
            sequence: 1,
            unread: false,
        }
    }

    /// Asks one thing. `each` gets every message of the answer; what it collected is `reset` when
    /// the list has to be told again.
    pub(super) fn ask<A>(
        &mut self,
        op: Op,
        request: &Request<'_>,
        each: impl Fn(&mut A, Attributes<'_>) -> Result<(), Malformed>,
    ) -> Result<A>
    where
        A: Default,
    {
        for _ in 0..ATTEMPTS {
            let mut answer = A::default();
            let mut outcomes = [Outcome::Open];
            self.exchange(
                op,
                &[request],
                &mut outcomes,
                |_, part| each(&mut answer, part),
                |_| false,
            )?;
            match outcomes[0] {
                Outcome::Failed(errno) => return Err(Error::os(op, errno)),
                Outcome::Interrupted => {}
                Outcome::Open | Outcome::Torn | Outcome::Done => return Ok(answer),
            }
        }
        Err(Error::new(op, ErrorKind::Busy)
            .hint("devices come and go too fast to list them; try again"))
    }

    /// Sends all `requests` at once and gives `each` the messages that answer them, by the
    /// request's place. Ends when all are answered, or `enough` says so; what still comes is
    /// skipped by later conversations.
    #[expect(
        clippy::large_stack_arrays,
        reason = "heap memory would cost system calls in a young process"
    )]
    pub(super) fn exchange(
        &mut self,
        op: Op,
        requests: &[&Request<'_>],
        outcomes: &mut [Outcome],
        mut each: impl FnMut(usize, Attributes<'_>) -> Result<(), Malformed>,
        enough: impl Fn(&[Outcome]) -> bool,
    ) -> Result<()> {
        let first = self.send(op, requests)?;
        let mut buffer = [0; NETLINK_DATAGRAM_MAX];
        let mut lengths = [0; NETLINK_ANSWERS];
        for _ in 0..DATAGRAMS_MAX {
            if !outcomes.iter().any(|outcome| outcome.is_open()) {
                return Ok(());
            }
            if enough(outcomes) {
                self.unread = true;
                return Ok(());
            }
            let lengths = &mut lengths[..self.at_once(requests, outcomes)];
            for datagram in self.receive(op, &mut buffer, lengths)? {
                read(first, outcomes, datagram?, &mut each)
                    .map_err(|malformed| bad_reply(op, malformed))?;
            }
        }
        Err(Error::bad_reply(op, "it never ends"))
    }

    /// How many datagrams are received at once: the answers that come before those to a list, which
    /// may be as large as datagrams get.
    fn at_once(&self, requests: &[&Request<'_>], outcomes: &[Outcome]) -> usize {
        let mut open = requests
            .iter()
            .zip(outcomes)
            .filter(|(_, outcome)| outcome.is_open());
        let single = open.by_ref().take_while(|(request, _)| !request.is_list());
        let single = single.count();
        if self.unread {
            1
        } else {
            single.clamp(1, NETLINK_ANSWERS)
        }
    }

    fn send(&mut self, op: Op, requests: &[&Request<'_>]) -> Result<u32> {
        let first = self.sequence;
        let mut datagram = Vec::new();
        for request in requests {
            request.encode(self.sequence, &mut datagram);
            self.sequence = self.sequence.wrapping_add(1);
        }
        self.transport
            .send(&datagram)
            .map_err(|errno| Error::os(op, errno))?;
        Ok(first)
    }

    /// Receives as many datagrams as `lengths` has places, or fewer.
    fn receive<'b>(
        &mut self,
        op: Op,
        buffer: &'b mut [u8],
        lengths: &'b mut [usize],
    ) -> Result<impl Iterator<Item = Result<&'b [u8]>>> {
        let room = buffer.len() / lengths.len().max(1);
        let count = self
            .transport
            .receive(buffer, lengths)
            .map_err(|errno| Error::os(op, errno))?;
        let parts = buffer.chunks_exact(room.max(1));
        let received = lengths.iter().take(count).zip(parts);
        Ok(received.map(move |(length, part)| {
            part.get(..*length).ok_or_else(|| {
                Error::bad_reply(op, "a datagram larger than the kernel makes them")
                    .fact("bytes", *length)
            })
        }))
    }
}

/// Reads the messages of one datagram for the requests that were numbered from `first`.
fn read(
    first: u32,
    outcomes: &mut [Outcome],
    datagram: &[u8],
    mut each: impl FnMut(usize, Attributes<'_>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    for message in messages(datagram) {
        let message = message?;
        let (Message::Answer {
            sequence,
            interrupted,
            ..
        }
        | Message::End {
            sequence,
            interrupted,
            ..
        }) = message;
        let Some(at) = place(first, outcomes, sequence) else {
            continue;
        };
        let torn = interrupted || outcomes[at] == Outcome::Torn;
        outcomes[at] = match message {
            Message::Answer {
                attributes, last, ..
            } => {
                each(at, attributes)?;
                match (last, torn) {
                    (true, _) => Outcome::Done,
                    (false, true) => Outcome::Torn,
                    (false, false) => Outcome::Open,
                }
            }
            Message::End {
                errno: Some(errno), ..
            } => Outcome::Failed(errno),
            Message::End { .. } if torn => Outcome::Interrupted,
            Message::End { .. } => Outcome::Done,
        };
    }
    Ok(())
}

/// Which of the open requests has this number; none for one that is over or was never ours.
fn place(first: u32, outcomes: &[Outcome], sequence: u32) -> Option<usize> {
    let at = usize::try_from(sequence.wrapping_sub(first)).ok()?;
    outcomes.get(at)?.is_open().then_some(at)
}

pub(super) fn bad_reply(op: Op, malformed: Malformed) -> Error {
    Error::bad_reply(op, malformed.0)
}

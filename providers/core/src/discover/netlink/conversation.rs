//! Sends requests and collects what answers them.

use super::{
    Attributes, Malformed, Message, NETLINK_ANSWERS, NETLINK_DATAGRAM_MAX, NetlinkTransport,
    Request, messages,
};
use crate::error::{Errno, Error, ErrorKind, Op, Result};

/// How often a list is requested if it changes while the kernel sends it.
const ATTEMPTS: usize = 4;

/// The most datagrams that may answer one batch: far more than the objects of any host need.
const DATAGRAMS_MAX: usize = 1 << 20;

/// The state of one request of a batch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Outcome {
    /// Not answered completely yet.
    #[default]
    Open,
    /// Not answered completely yet, and the list has already changed meanwhile.
    OpenInterrupted,
    /// Answered completely.
    Done,
    /// Answered, but the list changed meanwhile.
    Interrupted,
    /// Refused.
    Failed(Errno),
}

impl Outcome {
    fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::OpenInterrupted)
    }
}

/// A transport, and the sequence numbers of its requests.
#[derive(Debug)]
pub(super) struct Conversation<T> {
    transport: T,
    sequence: u32,
    /// There may be unread datagrams of an earlier exchange, which can have the maximal size.
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

    /// Sends one request. `each` is called for every message of the answer; `reset` discards what
    /// it collected if the list has to be requested again.
    pub(super) fn query<A>(
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
                Outcome::Open | Outcome::OpenInterrupted | Outcome::Done => return Ok(answer),
            }
        }
        Err(Error::new(op, ErrorKind::Busy).hint("devices come and go; try again"))
    }

    /// Sends all `requests` at once and calls `each` for the messages that answer them, with the
    /// index of the request. Ends when all are answered, or `enough` returns true; later exchanges
    /// skip the remaining messages.
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

    /// How many datagrams to receive at once: as many as there are answers before those to a list,
    /// which can have the maximal size.
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

    /// Receives at most `lengths.len()` datagrams.
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
            part.get(..*length)
                .ok_or_else(|| Error::bad_reply(op, "a datagram too large").fact("bytes", *length))
        }))
    }
}

/// Parses the messages of one datagram, for the requests whose sequence numbers start at `first`.
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
        let interrupted = interrupted || outcomes[at] == Outcome::OpenInterrupted;
        outcomes[at] = match message {
            Message::Answer {
                attributes, last, ..
            } => {
                each(at, attributes)?;
                match (last, interrupted) {
                    (true, _) => Outcome::Done,
                    (false, true) => Outcome::OpenInterrupted,
                    (false, false) => Outcome::Open,
                }
            }
            Message::End {
                errno: Some(errno), ..
            } => Outcome::Failed(errno),
            Message::End { .. } if interrupted => Outcome::Interrupted,
            Message::End { .. } => Outcome::Done,
        };
    }
    Ok(())
}

/// The index of the open request with this sequence number; `None` if it has ended or belongs to
/// another exchange.
fn place(first: u32, outcomes: &[Outcome], sequence: u32) -> Option<usize> {
    let at = usize::try_from(sequence.wrapping_sub(first)).ok()?;
    outcomes.get(at)?.is_open().then_some(at)
}

pub(super) fn bad_reply(op: Op, malformed: Malformed) -> Error {
    Error::bad_reply(op, malformed.0)
}

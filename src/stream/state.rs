//! What a side of a stream knows, and what it does next. Nothing here waits.

use std::collections::VecDeque;
use std::task::Poll;

use uverbs_core::PostError;

use super::chunk::Chunk;
use super::error::{StreamError, Violation};
use super::wire::{Header, Hello};
use crate::hub::{Connection, ConnectionError, Message, PooledBuffer};

/// What the lock of a stream protects. No foreign code runs while it is held.
#[derive(Debug)]
pub(super) struct State {
    ours: Hello,
    theirs: Hello,
    /// Messages with bytes that have not been read, and how much of the first has.
    arrived: VecDeque<Message>,
    offset: usize,
    /// How many messages with bytes may be sent.
    credits: u16,
    /// How many messages were read since the last grant.
    taken: u16,
    /// How many messages with bytes the peer may send.
    open: u16,
    is_shut_down: bool,
    has_peer_ended: bool,
    over: Option<StreamError>,
    after: After,
}

/// What is to be done after a step, without the lock.
#[derive(Debug, Default)]
pub(super) struct After {
    /// If it could not be done: whether it waits for a request to end.
    pub(super) wants_room: bool,
    /// Whether the connection is to be ended.
    pub(super) is_to_end: bool,
    /// What may run foreign code when it is dropped.
    pub(super) trash: Vec<PooledBuffer>,
}

pub(super) type Step<T> = Poll<Result<T, StreamError>>;

/// What became of an attempt to post.
enum Posted {
    Yes,
    /// There is no room at the moment.
    Full(Option<PooledBuffer>),
}

impl State {
    pub(super) fn new(ours: Hello, theirs: Hello) -> Self {
        Self {
            ours,
            theirs,
            arrived: VecDeque::new(),
            offset: 0,
            credits: theirs.credits,
            taken: 0,
            open: ours.credits,
            is_shut_down: false,
            has_peer_ended: false,
            over: None,
            after: After::default(),
        }
    }

    /// What the last step leaves to be done.
    pub(super) fn after(&mut self) -> After {
        std::mem::take(&mut self.after)
    }

    /// The most bytes in a message to the peer.
    pub(super) fn most(&self, buffer: &[u8]) -> usize {
        let theirs = usize::try_from(self.theirs.message_size).unwrap_or(usize::MAX);
        buffer.len().min(theirs)
    }

    /// Copies what has arrived; nothing at the end.
    pub(super) fn read(&mut self, connection: &Connection, buffer: &mut [u8]) -> Step<usize> {
        self.take_messages(connection);
        let mut rest = buffer;
        let mut copied = 0;
        while !rest.is_empty()
            && let Some(first) = self.arrived.front()
        {
            let bytes = first.get(self.offset..).unwrap_or_default();
            let len = bytes.len().min(rest.len());
            let (filled, after) = rest.split_at_mut(len);
            filled.copy_from_slice(bytes.split_at(len).0);
            let is_read = len == bytes.len();
            rest = after;
            copied += len;
            self.offset += len;
            if is_read && let Some(chunk) = self.next() {
                self.after.trash.push(chunk.into_buffer());
            }
        }
        let is_full = rest.is_empty();
        self.grant(connection);
        if copied > 0 || is_full {
            return Poll::Ready(Ok(copied));
        }
        self.nothing_left().map(|end| end.map(|()| 0))
    }

    /// The bytes of the oldest message that has any; `None` at the end.
    pub(super) fn recv(&mut self, connection: &Connection) -> Step<Option<Chunk>> {
        self.take_messages(connection);
        let next = self.next();
        self.grant(connection);
        match next {
            Some(chunk) => Poll::Ready(Ok(Some(chunk))),
            None => self.nothing_left().map(|end| end.map(|()| None)),
        }
    }

    /// What is left of the oldest message.
    fn next(&mut self) -> Option<Chunk> {
        let message = self.arrived.pop_front()?;
        self.taken = self.taken.saturating_add(1);
        Some(Chunk::new(message, std::mem::take(&mut self.offset)))
    }

    fn nothing_left(&self) -> Step<()> {
        match &self.over {
            _ if self.has_peer_ended => Poll::Ready(Ok(())),
            Some(over) => Poll::Ready(Err(over.clone())),
            None => Poll::Pending,
        }
    }

    /// Copies bytes into a message, and sends it.
    pub(super) fn write(&mut self, connection: &Connection, bytes: &[u8]) -> Step<usize> {
        if !self.may_send(connection)? {
            return Poll::Pending;
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut buffer = connection.buffer()?;
        let len = self.most(&buffer).min(bytes.len());
        buffer
            .iter_mut()
            .zip(bytes)
            .take(len)
            .for_each(|(to, from)| *to = *from);
        match self.post(connection, Some((buffer, len)), false)? {
            Posted::Yes => Poll::Ready(Ok(len)),
            Posted::Full(buffer) => {
                self.after.trash.extend(buffer);
                Poll::Pending
            }
        }
    }

    /// Sends the first bytes of a buffer, which is taken once they are.
    pub(super) fn send(
        &mut self,
        connection: &Connection,
        place: &mut Option<PooledBuffer>,
        len: usize,
    ) -> Step<()> {
        let most = place.as_deref().map_or(0, |buffer| self.most(buffer));
        if len > most {
            return Poll::Ready(Err(StreamError::TooLong { bytes: len, most }));
        }
        if !self.may_send(connection)? {
            return Poll::Pending;
        }
        let Some(buffer) = place.take().filter(|_| len > 0) else {
            return Poll::Ready(Ok(()));
        };
        match self.post(connection, Some((buffer, len)), false)? {
            Posted::Yes => Poll::Ready(Ok(())),
            Posted::Full(buffer) => {
                *place = buffer;
                Poll::Pending
            }
        }
    }

    /// Says that no more bytes will come, and whether all have arrived.
    pub(super) fn shutdown(&mut self, connection: &Connection) -> Step<()> {
        self.take_messages(connection);
        if !self.is_shut_down {
            if let Some(over) = &self.over {
                return Poll::Ready(Err(over.clone()));
            }
            if !self.has_room(connection) {
                return Poll::Pending;
            }
            match self.post(connection, None, true)? {
                Posted::Yes => self.is_shut_down = true,
                Posted::Full(_) => return Poll::Pending,
            }
        }
        self.after.wants_room = true;
        connection
            .has_sent()
            .map(|sent| sent.map_err(StreamError::Lost))
    }

    /// Why nothing can be written any more, if so.
    pub(super) fn writable(&mut self, connection: &Connection) -> Result<(), StreamError> {
        self.take_messages(connection);
        self.over.clone().map_or(Ok(()), Err)
    }

    /// Whether a message with bytes can be sent now.
    fn may_send(&mut self, connection: &Connection) -> Result<bool, StreamError> {
        if self.is_shut_down {
            return Err(StreamError::ShutDown);
        }
        self.writable(connection)?;
        Ok(self.credits > 0 && self.has_room(connection))
    }

    fn has_room(&mut self, connection: &Connection) -> bool {
        let has_room = connection.has_room();
        self.after.wants_room |= !has_room;
        has_room
    }

    /// Lets the peer send as many messages as were read, once they are half of what it may.
    fn grant(&mut self, connection: &Connection) {
        let is_due = self.taken > 0 && self.taken >= self.ours.credits / 2;
        if !is_due || self.has_peer_ended || self.over.is_some() || !self.has_room(connection) {
            return;
        }
        // An error is kept, and returned once everything that arrived has been read.
        let _ = self.post(connection, None, false);
    }

    fn post(
        &mut self,
        connection: &Connection,
        data: Option<(PooledBuffer, usize)>,
        is_last: bool,
    ) -> Result<Posted, StreamError> {
        let header = Header {
            credits: self.taken,
            is_last,
        };
        let has_bytes = data.is_some();
        let Err((error, buffer)) = connection.post_send(data, header.to_imm()) else {
            self.credits -= u16::from(has_bytes);
            self.open = self.open.saturating_add(std::mem::take(&mut self.taken));
            return Ok(Posted::Yes);
        };
        if error == ConnectionError::Refused(PostError::QueueFull) {
            self.after.wants_room = true;
            return Ok(Posted::Full(buffer));
        }
        self.after.trash.extend(buffer);
        let over = StreamError::Lost(error);
        self.over.get_or_insert_with(|| over.clone());
        self.after.is_to_end = true;
        Err(over)
    }

    /// Takes what has arrived. Of bytes it keeps no more than the peer had credits for.
    fn take_messages(&mut self, connection: &Connection) {
        while self.over.is_none() {
            match connection.try_message() {
                Poll::Pending => return,
                Poll::Ready(Err(over)) => self.over = Some(StreamError::Lost(over)),
                Poll::Ready(Ok(message)) => {
                    if let Err(violation) = self.take_message(message) {
                        self.over = Some(StreamError::Violation(violation));
                        self.after.is_to_end = true;
                    }
                }
            }
        }
    }

    fn take_message(&mut self, message: Message) -> Result<(), Violation> {
        let (has_bytes, imm) = (!message.is_empty(), message.imm());
        let checked = self.check(has_bytes, imm);
        if has_bytes && checked.is_ok() {
            self.arrived.push_back(message);
        } else {
            self.after.trash.push(message.into_buffer().0);
        }
        checked
    }

    fn check(&mut self, has_bytes: bool, imm: Option<u32>) -> Result<(), Violation> {
        let header = imm.and_then(Header::parse).ok_or(Violation::Header)?;
        if self.has_peer_ended && (has_bytes || header.is_last) {
            return Err(Violation::AfterEnd);
        }
        if !has_bytes && !header.is_last && header.credits == 0 {
            return Err(Violation::Empty);
        }
        self.credits = match self.credits.checked_add(header.credits) {
            Some(credits) if credits <= self.theirs.credits => credits,
            _ => return Err(Violation::Grant),
        };
        if has_bytes {
            self.open = self.open.checked_sub(1).ok_or(Violation::Credit)?;
        }
        self.has_peer_ended |= header.is_last;
        Ok(())
    }
}

//! What a side of a stream knows, and what it does next. Nothing here waits.

use std::task::Poll;

use uverbs_core::{Error, Op, PostError};

use super::chunk::Chunk;
use super::error::{StreamError, Violation};
use super::wire::{Header, Hello};
use crate::hub::{Arrivals, Connection, ConnectionError, Copies, PooledBuffer};

/// What the lock of a stream protects. No foreign code runs while it is held.
#[derive(Debug)]
pub(super) struct State {
    ours: Hello,
    theirs: Hello,
    /// Messages with bytes that have not been read, and how much of the first has.
    arrived: Arrivals,
    offset: usize,
    /// Messages that are not checked yet; empty between steps.
    fresh: Arrivals,
    flow: Flow,
    /// How many messages were read since the last grant.
    taken: u16,
    is_shut_down: bool,
    over: Option<StreamError>,
    after: After,
    copies: Copies,
}

/// Who may send how much.
#[derive(Debug)]
struct Flow {
    /// How many messages with bytes may be sent, and the most that ever may.
    credits: u16,
    most: u16,
    /// How many messages with bytes the peer may send.
    open: u16,
    has_peer_ended: bool,
}

/// What is to be done after a step, without the lock.
#[derive(Debug, Default)]
pub(super) struct After {
    /// If it could not be done: whether it waits for a request to end.
    pub(super) wants_room: bool,
    /// Whether the connection is to be ended.
    pub(super) is_to_end: bool,
    /// Whether buffers came back that others may wait for.
    pub(super) is_to_tell: bool,
    /// A buffer that was not sent: its drop may run foreign code.
    pub(super) unsent: Option<PooledBuffer>,
}

pub(super) type Step<T> = Poll<Result<T, StreamError>>;

/// The most bytes that are copied into the queue instead of a buffer.
pub(super) const INLINE: u32 = 64;

/// How many bytes of a long write the device gets first. The fewer, the sooner it begins; but where
/// a doorbell is a system call, the driver may take the processor there, and keep it until all that
/// it has is sent.
const FIRST_BYTES: usize = 16 << 10;

/// The most messages that are copied before the device has them.
const MOST_AT_ONCE: usize = 16;

/// What became of an attempt to post.
enum Posted {
    Yes,
    /// There is no room at the moment.
    Full(Option<PooledBuffer>),
}

impl State {
    pub(super) fn new(connection: &Connection, ours: Hello, theirs: Hello) -> Self {
        Self {
            ours,
            theirs,
            arrived: connection.arrivals(),
            offset: 0,
            fresh: connection.arrivals(),
            flow: Flow {
                credits: theirs.credits,
                most: theirs.credits,
                open: ours.credits,
                has_peer_ended: false,
            },
            taken: 0,
            is_shut_down: false,
            over: None,
            after: After::default(),
            copies: Copies::default(),
        }
    }

    /// What the last step leaves to be done, if anything.
    pub(super) fn after(&mut self) -> Option<After> {
        let After {
            wants_room,
            is_to_end,
            is_to_tell,
            unsent,
        } = &self.after;
        let is_any = *wants_room || *is_to_end || *is_to_tell || unsent.is_some();
        is_any.then(|| std::mem::take(&mut self.after))
    }

    /// The most bytes in a message to the peer.
    pub(super) fn most(&self, buffer: &[u8]) -> usize {
        let theirs = usize::try_from(self.theirs.message_size).unwrap_or(usize::MAX);
        buffer.len().min(theirs)
    }

    /// Copies what has arrived; nothing at the end.
    pub(super) fn read(&mut self, connection: &Connection, buffer: &mut [u8]) -> Step<usize> {
        let (mut rest, mut copied) = (buffer, 0);
        loop {
            let len = self.copy(rest);
            copied += len;
            rest = rest.split_at_mut(len).1;
            // The peer goes on meanwhile.
            self.grant(connection);
            if rest.is_empty() {
                break;
            }
            // Not before those that arrived earlier are read: the more come at once, the less
            // each costs.
            if self.arrived.is_empty() {
                self.take_messages(connection);
            }
            if self.arrived.is_empty() {
                break;
            }
        }
        let is_full = rest.is_empty();
        if copied > 0 || is_full {
            return Poll::Ready(Ok(copied));
        }
        self.nothing_left().map(|end| end.map(|()| 0))
    }

    /// Copies bytes of messages that are there, until the peer is to be granted more.
    fn copy(&mut self, buffer: &mut [u8]) -> usize {
        let (mut rest, mut copied) = (buffer, 0);
        while !rest.is_empty()
            && let Some(first) = self.arrived.first()
        {
            let bytes = first.bytes().get(self.offset..).unwrap_or_default();
            let len = bytes.len().min(rest.len());
            let (filled, after) = rest.split_at_mut(len);
            filled.copy_from_slice(bytes.split_at(len).0);
            let is_read = len == bytes.len();
            rest = after;
            copied += len;
            self.offset += len;
            if is_read {
                self.offset = 0;
                self.taken = self.taken.saturating_add(1);
                self.after.is_to_tell |= self.arrived.finish();
                if self.is_grant_due() {
                    break;
                }
            }
        }
        copied
    }

    /// The bytes of the oldest message that has any; `None` at the end.
    pub(super) fn recv(&mut self, connection: &Connection) -> Step<Option<Chunk>> {
        if self.arrived.is_empty() {
            self.take_messages(connection);
        }
        let next = self.next();
        self.grant(connection);
        match next {
            Some(chunk) => Poll::Ready(Ok(Some(chunk))),
            None => self.nothing_left().map(|end| end.map(|()| None)),
        }
    }

    /// What is left of the oldest message.
    fn next(&mut self) -> Option<Chunk> {
        let (message, is_to_tell) = self.arrived.pop();
        self.after.is_to_tell |= is_to_tell;
        let message = message?;
        self.taken = self.taken.saturating_add(1);
        Some(Chunk::new(message, std::mem::take(&mut self.offset)))
    }

    fn nothing_left(&self) -> Step<()> {
        match &self.over {
            _ if self.flow.has_peer_ended => Poll::Ready(Ok(())),
            Some(over) => Poll::Ready(Err(over.clone())),
            None => Poll::Pending,
        }
    }

    /// Copies bytes into messages, as many as there is room for, and sends them.
    pub(super) fn write(&mut self, connection: &Connection, bytes: &[u8]) -> Step<usize> {
        let messages = self.messages_first(bytes);
        let first = if messages > 1 {
            self.write_messages(connection, bytes, messages)
        } else {
            self.write_message(connection, bytes)
        };
        match first {
            Poll::Ready(Ok(len)) if len < bytes.len() => {
                let rest = bytes.get(len..).unwrap_or_default();
                Poll::Ready(Ok(len + self.write_rest(connection, rest, messages)))
            }
            first => first,
        }
    }

    /// How many messages are copied before the device gets the first.
    fn messages_first(&self, bytes: &[u8]) -> usize {
        let ours = usize::try_from(self.ours.message_size).unwrap_or(usize::MAX);
        let most = self.most(bytes);
        let size = most.min(ours).max(1);
        if bytes.len() <= size.max(most.min(INLINE as usize)) {
            return 1;
        }
        let messages = bytes.len().min(FIRST_BYTES).div_ceil(size);
        messages.min(MOST_AT_ONCE)
    }

    /// Sends what the first messages had no room for, or a part of it.
    #[inline(never)]
    fn write_rest(&mut self, connection: &Connection, bytes: &[u8], first: usize) -> usize {
        let (mut rest, mut messages) = (bytes, first);
        while !rest.is_empty() {
            // The device has the first ones while more are copied; fewer doorbells take less time.
            messages = (messages * 4).min(MOST_AT_ONCE);
            match self.write_messages(connection, rest, messages) {
                Poll::Ready(Ok(len)) => rest = rest.get(len..).unwrap_or_default(),
                // What was sent before is reported first: the next write gets the error.
                Poll::Pending | Poll::Ready(Err(_)) => break,
            }
        }
        bytes.len() - rest.len()
    }

    /// Sends up to so many messages at once.
    #[inline(never)]
    fn write_messages(
        &mut self,
        connection: &Connection,
        bytes: &[u8],
        most: usize,
    ) -> Step<usize> {
        if !self.may_send(connection)? {
            return Poll::Pending;
        }
        let most = most.min(self.flow.credits.into()).min(connection.room());
        let first = self.imm(false);
        let imms = (0..most).map(|at| if at == 0 { first } else { 0 });
        match connection.post_copies(bytes, self.most(bytes), imms, &mut self.copies) {
            // Without room or a buffer it may have to wait.
            Ok((0, _)) => self.write_message(connection, bytes),
            Ok((count, len)) => {
                self.posted(u16::try_from(count).unwrap_or(u16::MAX));
                Poll::Ready(Ok(len))
            }
            Err(error) => Poll::Ready(Err(self.lose(connection, error))),
        }
    }

    fn write_message(&mut self, connection: &Connection, bytes: &[u8]) -> Step<usize> {
        let may_send = self.may_send(connection)?;
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if !may_send {
            return Poll::Pending;
        }
        let most = self.most(bytes);
        let imm = self.imm(false);
        let posted = if bytes.len() <= most.min(INLINE as usize) {
            let posted = connection.post_inline(bytes, imm);
            posted.map(|()| bytes.len())
        } else {
            connection.post_copy(bytes, most, imm)?
        };
        match posted {
            Ok(len) => {
                self.posted(1);
                Poll::Ready(Ok(len))
            }
            Err(error) => {
                // A buffer went back that receives may wait for.
                self.after.is_to_tell = true;
                self.not_posted(connection, error, None)?;
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
        let Some(buffer) = place else {
            return Poll::Ready(Ok(()));
        };
        if !connection.is_own(buffer) {
            let error = Error::invalid(Op::PostSend, "buffer");
            let error = error.hint("take it by Stream::buffer from a stream of the same Streams");
            return Poll::Ready(Err(error.into()));
        }
        let most = self.most(buffer);
        if len > most {
            return Poll::Ready(Err(StreamError::TooLong { bytes: len, most }));
        }
        let may_send = self.may_send(connection)?;
        if len == 0 {
            self.after.unsent = place.take();
            return Poll::Ready(Ok(()));
        }
        if !may_send {
            return Poll::Pending;
        }
        let Some(buffer) = place.take() else {
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
        // Whether there is room shows when it is posted.
        Ok(self.flow.credits > 0)
    }

    fn has_room(&mut self, connection: &Connection) -> bool {
        let has_room = connection.has_room();
        self.after.wants_room |= !has_room;
        has_room
    }

    /// Lets the peer send as many messages as were read, once they are half of what it may.
    #[inline]
    fn grant(&mut self, connection: &Connection) {
        if self.is_grant_due() {
            self.grant_now(connection);
        }
    }

    fn is_grant_due(&self) -> bool {
        self.taken > 0 && self.taken >= self.ours.credits / 2
    }

    #[inline(never)]
    fn grant_now(&mut self, connection: &Connection) {
        if self.flow.has_peer_ended || self.over.is_some() || !self.has_room(connection) {
            return;
        }
        // An error is kept, and returned once everything that arrived has been read.
        let _ = self.post(connection, None, false);
    }

    /// What accompanies the next message.
    fn imm(&self, is_last: bool) -> u32 {
        let header = Header {
            credits: self.taken,
            is_last,
        };
        header.to_imm()
    }

    fn post(
        &mut self,
        connection: &Connection,
        data: Option<(PooledBuffer, usize)>,
        is_last: bool,
    ) -> Result<Posted, StreamError> {
        let has_bytes = data.is_some();
        let Err((error, buffer)) = connection.post_send(data, self.imm(is_last), is_last) else {
            self.posted(u16::from(has_bytes));
            return Ok(Posted::Yes);
        };
        self.not_posted(connection, error, buffer).map(Posted::Full)
    }

    /// Returns the buffer if there is no room.
    #[cold]
    fn not_posted(
        &mut self,
        connection: &Connection,
        error: ConnectionError,
        buffer: Option<PooledBuffer>,
    ) -> Result<Option<PooledBuffer>, StreamError> {
        if error == ConnectionError::Refused(PostError::QueueFull) {
            self.after.wants_room = true;
            return Ok(buffer);
        }
        self.after.unsent = buffer;
        Err(self.lose(connection, error))
    }

    /// So many messages with bytes were sent, and what was read is granted again.
    fn posted(&mut self, count: u16) {
        let Flow { credits, open, .. } = &mut self.flow;
        *credits = credits.saturating_sub(count);
        *open = open.saturating_add(std::mem::take(&mut self.taken));
    }

    /// Nothing can be posted any more. What has arrived is kept: the connection, which is to be
    /// ended, takes the rest with it.
    fn lose(&mut self, connection: &Connection, error: ConnectionError) -> StreamError {
        self.take_messages(connection);
        let over = StreamError::Lost(error);
        self.over.get_or_insert_with(|| over.clone());
        self.after.is_to_end = true;
        over
    }

    /// Takes what has arrived. Of bytes it keeps no more than the peer had credits for.
    #[inline]
    fn take_messages(&mut self, connection: &Connection) {
        // Most often nothing has, when something is to be written.
        if connection.has_news() {
            self.take_news(connection);
        }
    }

    #[inline(never)]
    fn take_news(&mut self, connection: &Connection) {
        while self.over.is_none() {
            let (over, is_to_tell) = connection.take_messages(&mut self.fresh);
            self.after.is_to_tell |= is_to_tell;
            if self.fresh.is_empty() {
                self.over = over.map(StreamError::Lost);
                return;
            }
            self.take_fresh();
        }
    }

    /// Checks what has arrived, and keeps messages with bytes.
    fn take_fresh(&mut self) {
        let Self {
            fresh,
            arrived,
            flow,
            ..
        } = self;
        let (mut good, mut with_bytes, mut violation) = (0, 0, None);
        for message in fresh.iter() {
            let has_bytes = !message.is_empty();
            if let Err(found) = flow.check(has_bytes, message.imm()) {
                violation = Some(found);
                break;
            }
            good += 1;
            with_bytes += usize::from(has_bytes);
        }
        if with_bytes == fresh.len() && arrived.is_empty() {
            std::mem::swap(fresh, arrived);
            return;
        }
        // What comes after a violation is not kept.
        let mut at = 0;
        let is_to_tell = fresh.move_to(arrived, |message| {
            at += 1;
            at <= good && !message.is_empty()
        });
        self.after.is_to_tell |= is_to_tell;
        if let Some(violation) = violation {
            self.over = Some(StreamError::Violation(violation));
            self.after.is_to_end = true;
        }
    }
}

impl Flow {
    /// A message of the peer.
    fn check(&mut self, has_bytes: bool, imm: Option<u32>) -> Result<(), Violation> {
        let header = imm.and_then(Header::parse).ok_or(Violation::Header)?;
        if self.has_peer_ended && (has_bytes || header.is_last) {
            return Err(Violation::AfterEnd);
        }
        if !has_bytes && !header.is_last && header.credits == 0 {
            return Err(Violation::Empty);
        }
        self.credits = match self.credits.checked_add(header.credits) {
            Some(credits) if credits <= self.most => credits,
            _ => return Err(Violation::Grant),
        };
        if has_bytes {
            self.open = self.open.checked_sub(1).ok_or(Violation::Credit)?;
        }
        self.has_peer_ended |= header.is_last;
        Ok(())
    }
}

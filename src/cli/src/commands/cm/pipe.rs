//! Bytes in both directions of a connection.
//!
//! A message is a part of the stream; one without bytes and with an immediate value is its end.

use std::io::{Read as _, Write as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uverbs::Notify;
use uverbs::cm::{CmError, Connection, ConnectionEvent};
use uverbs::owned::{self, Buffer, Finished, Work};
use uverbs::transport::Rc;

use super::Queues;
use crate::failure::{Failure, Result};

/// Messages that the peer may send before this side takes them, and that this side may.
pub(super) const RECEIVES: u32 = 32;
pub(super) const SENDS: u32 = 16;
/// Bytes of a message.
const SIZE: usize = 64 * 1024;

/// `user_data` of requests.
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const END: u64 = 3;

/// How long the peer may take to end the connection, when both streams have ended.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Pipe {
    queues: Queues,
    /// For sending.
    free: Vec<Buffer>,
    /// What of standard input, and of the peer's stream, has ended.
    read_all: bool,
    end_arrived: bool,
    is_over: bool,
}

impl Pipe {
    /// Posts the receives.
    pub(super) fn new(queues: Queues, queue: &mut owned::QueuePair<Rc>) -> Result<Self> {
        for buffer in queues.pd.buffer_list(RECEIVES as usize, SIZE)? {
            queue
                .recv(buffer, RECEIVE)
                .map_err(|refused| refused.error)?;
        }
        let free = queues.pd.buffer_list(SENDS as usize, SIZE)?;
        Ok(Self {
            queues,
            free,
            read_all: false,
            end_arrived: false,
            is_over: false,
        })
    }

    pub(super) fn run(mut self, mut connection: Connection) -> Result<()> {
        loop {
            let mut is_busy = false;
            while let Some(completion) = self.queues.cq.poll()? {
                is_busy = true;
                let finished = connection.queue_pair().complete(completion).ok();
                if let Some(finished) = finished {
                    self.take(finished, connection.queue_pair())?;
                }
            }
            let sent_all = self.read_all && connection.queue_pair().sends_posted() == 0;
            if self.is_over || (sent_all && self.end_arrived) {
                break;
            }
            if !is_busy {
                self.wait(&mut connection)?;
            }
        }
        let complete = self.end_arrived && self.read_all;
        match connection.disconnect(PATIENCE) {
            // The other side need not wait for this one.
            Ok(()) | Err(CmError::TimedOut(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if !complete {
            return Err(Failure::new(
                "the peer went away before its stream had ended",
            ));
        }
        Ok(())
    }

    /// A request has ended.
    fn take(&mut self, finished: Finished, queue: &mut owned::QueuePair<Rc>) -> Result<()> {
        if !finished.status().is_success() {
            // Both ends disconnect, or the peer died; the connection's events say so as well.
            self.is_over = true;
            return Ok(());
        }
        if finished.user_data() == RECEIVE {
            if finished.imm().is_some() {
                self.end_arrived = true;
            } else {
                let mut output = stdout().lock();
                let bytes = finished.bytes().unwrap_or_default();
                let written = output.write_all(bytes).and_then(|()| output.flush());
                written.map_err(|error| match error.kind() {
                    std::io::ErrorKind::BrokenPipe => Failure::Closed,
                    _ => Failure::new(format_args!("standard output: {error}")),
                })?;
            }
            if let Some(buffer) = finished.into_buffer() {
                queue
                    .recv(buffer, RECEIVE)
                    .map_err(|refused| refused.error)?;
            }
            return Ok(());
        }
        self.free.extend(finished.into_buffer());
        Ok(())
    }

    /// Waits for standard input, a completion, or the end.
    fn wait(&mut self, connection: &mut Connection) -> Result<()> {
        self.queues.cq.request_notification(Notify::Any)?;
        // What came before the request is not announced.
        if let Some(completion) = self.queues.cq.poll()? {
            let finished = connection.queue_pair().complete(completion).ok();
            if let Some(finished) = finished {
                self.take(finished, connection.queue_pair())?;
            }
            return Ok(());
        }
        let input = stdin().lock();
        let wants_input = !self.read_all && !self.free.is_empty();
        let mut files = vec![PollFd::from_borrowed_fd(
            self.queues.channel.as_fd(),
            PollFlags::IN,
        )];
        if wants_input {
            files.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN));
        }
        // The connection's events are looked at now and then: they come once.
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: 200_000_000,
        };
        match poll(&mut files, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Failure::new(format_args!("poll: {errno}"))),
        }
        let has_event = files.first().is_some_and(|file| !file.revents().is_empty());
        let has_input = files.get(1).is_some_and(|file| !file.revents().is_empty());
        drop(files);
        drop(input);
        if has_event {
            match self.queues.channel.try_event() {
                Err(error) if error.kind() == uverbs::ErrorKind::WouldBlock => {}
                event => drop(event?),
            }
        }
        if has_input {
            self.send(connection.queue_pair())?;
        } else if !has_event {
            let event = connection.link().try_event()?;
            self.is_over |= matches!(
                event,
                Some(ConnectionEvent::Disconnected | ConnectionEvent::DeviceRemoved)
            );
        }
        Ok(())
    }

    /// Reads a part of standard input, and sends it; at the end, the end.
    fn send(&mut self, queue: &mut owned::QueuePair<Rc>) -> Result<()> {
        let Some(mut buffer) = self.free.pop() else {
            return Ok(());
        };
        let len = match stdin().lock().read(&mut buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                self.free.push(buffer);
                return Ok(());
            }
            Err(error) => return Err(Failure::new(format_args!("standard input: {error}"))),
        };
        if len == 0 {
            self.read_all = true;
            let end = Work::send_imm(0).user_data(END);
            queue.post(end).map_err(|refused| refused.error)?;
        } else {
            let part = Work::send().memory((buffer, len)).user_data(SEND);
            queue.post(part).map_err(|refused| refused.error)?;
        }
        Ok(())
    }
}

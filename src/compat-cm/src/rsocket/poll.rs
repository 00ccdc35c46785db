//! Waiting for several sockets and other descriptors at a time.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use libc::pollfd;

use super::connect::IN_PROGRESS;
use super::flow::Phase;
use super::settings::Defaults;
use super::stream::Stream;
use super::table::Socket;
use super::{sleep, table};
use crate::answer::Answer;

impl Stream {
    /// What of `events` there is now, and what is always told.
    fn ready(&self, events: i16) -> i16 {
        let mut phase = self.flow().phase;
        if phase == Phase::Opening {
            if self.advance(false) == Err(IN_PROGRESS) {
                return 0;
            }
            phase = self.flow().phase;
        }
        match phase {
            Phase::Listening if self.has_waiting() => events & libc::POLLIN,
            Phase::New | Phase::Opening | Phase::Listening => 0,
            Phase::Refused => (events & (libc::POLLIN | libc::POLLOUT)) | libc::POLLERR,
            Phase::Open | Phase::Closed | Phase::Broken => self.ready_connected(events),
        }
    }

    fn ready_connected(&self, events: i16) -> i16 {
        let Ok(endpoint) = self.connected() else {
            return libc::POLLERR;
        };
        let mut flow = self.flow();
        self.process(endpoint, &mut flow);
        endpoint.refresh(&mut flow);
        let mut ready = 0;
        if flow.unread() > 0 || !flow.is_readable {
            ready |= events & libc::POLLIN;
        }
        if flow.can_send() {
            ready |= events & libc::POLLOUT;
        }
        // Programs take the end for an error, and would leave unread what came before it.
        let is_unread = flow.unread() > 0 && ready & libc::POLLIN != 0;
        ready
            | match flow.phase {
                Phase::Open => 0,
                _ if is_unread => 0,
                Phase::Closed => libc::POLLHUP,
                _ => libc::POLLERR,
            }
    }

    /// The descriptors to be slept at; asks for an event.
    fn prepare_sleep(&self) -> [c_int; 2] {
        // What a listener's thread has answered is told by the bell.
        if self.flow().phase == Phase::Listening {
            return [-1; 2];
        }
        let queue = match self.connected() {
            Ok(endpoint) if !self.is_opening() => {
                self.arm(endpoint, &mut self.flow());
                endpoint.queues.fd
            }
            _ => -1,
        };
        [self.link.fd, queue]
    }

    /// Takes the events that it was woken for. A handshake goes on when the socket is looked at.
    fn woken(&self, of_link: i16, of_queue: i16) -> Answer<()> {
        let is_open = self.flow().phase == Phase::Open;
        self.awake(if is_open { of_link } else { 0 }, of_queue)
    }
}

impl Socket {
    fn ready(&self, events: i16) -> i16 {
        match self {
            Self::Stream(stream) => stream.ready(events),
            Self::Datagram(datagram) => datagram.ready(events),
        }
    }

    fn prepare_sleep(&self) -> Vec<c_int> {
        match self {
            Self::Stream(stream) => stream.prepare_sleep().to_vec(),
            Self::Datagram(datagram) => datagram.prepare_sleep(),
        }
    }

    fn woken(&self, events: &[i16]) -> Answer<()> {
        match (self, events) {
            (Self::Stream(stream), [of_link, of_queue]) => stream.woken(*of_link, *of_queue),
            (Self::Stream(_), _) => Ok(()),
            (Self::Datagram(datagram), events) => {
                datagram.woken(events);
                Ok(())
            }
        }
    }
}

/// What a call waits for.
struct Watch {
    /// For each descriptor its socket, if it has one.
    sockets: Vec<Option<Socket>>,
}

impl Watch {
    fn of(fds: &[pollfd]) -> Self {
        let sockets = fds.iter().map(|fd| table::find(fd.fd).ok());
        Self {
            sockets: sockets.collect(),
        }
    }

    fn each(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.iter().flatten()
    }

    /// Looks at all of them: how many are ready.
    fn look(&self, fds: &mut [pollfd]) -> Answer<c_int> {
        let mut count = 0;
        let mut others = Vec::new();
        for (fd, socket) in fds.iter_mut().zip(&self.sockets) {
            match socket {
                Some(socket) => {
                    fd.revents = socket.ready(fd.events);
                    count += c_int::from(fd.revents != 0);
                }
                None => others.push(*fd),
            }
        }
        if !others.is_empty() {
            sleep::look(&mut others)?;
        }
        let mut others = others.into_iter();
        for (fd, socket) in fds.iter_mut().zip(&self.sockets) {
            if socket.is_none()
                && let Some(other) = others.next()
            {
                fd.revents = other.revents;
                count += c_int::from(fd.revents != 0);
            }
        }
        Ok(count)
    }

    /// Sleeps until something happens to one of them.
    fn sleep(&self, fds: &[pollfd], bell: c_int, deadline: Option<Instant>) -> Answer<()> {
        let mut all = vec![sleep::reads(bell)];
        let mut counts = Vec::with_capacity(fds.len());
        for (fd, socket) in fds.iter().zip(&self.sockets) {
            let before = all.len();
            match socket {
                Some(socket) => all.extend(socket.prepare_sleep().into_iter().map(sleep::reads)),
                None => all.push(pollfd { revents: 0, ..*fd }),
            }
            counts.push(all.len() - before);
        }
        // What came before an event was asked for has none.
        if self.look(&mut fds.to_vec())? > 0 {
            return Ok(());
        }
        sleep::poll(&mut all, deadline)?;
        let mut woken = all.into_iter().skip(1).map(|fd| fd.revents);
        for (socket, count) in self.sockets.iter().zip(counts) {
            let events: Vec<_> = woken.by_ref().take(count).collect();
            if let Some(socket) = socket {
                socket.woken(&events)?;
            }
        }
        Ok(())
    }
}

/// Waits until one is ready, at most so many milliseconds, forever if below 0: how many are.
pub(super) fn poll(fds: &mut [pollfd], timeout: c_int) -> Answer<c_int> {
    let begun = Instant::now();
    let deadline = u64::try_from(timeout).ok();
    let deadline = deadline.and_then(|time| begun.checked_add(Duration::from_millis(time)));
    let watch = Watch::of(fds);
    loop {
        let count = watch.look(fds)?;
        if count > 0 || timeout == 0 {
            return Ok(count);
        }
        if begun.elapsed() > Defaults::get().polls_for {
            break;
        }
    }
    let bell = sleep::bell()?;
    watch
        .each()
        .for_each(|socket| socket.sleepers().enter(&bell));
    let answer = loop {
        let slept = watch.sleep(fds, sleep::fd_of(&bell), deadline);
        bell.silence();
        if let Err(code) = slept {
            break Err(code);
        }
        match watch.look(fds) {
            Ok(0) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
            answer => break answer,
        }
    };
    watch
        .each()
        .for_each(|socket| socket.sleepers().leave(&bell));
    answer
}

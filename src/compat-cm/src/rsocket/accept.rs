//! Listeners. A thread answers requests as they come, so that a peer is connected before the
//! program takes its connection, and as many of them wait as the program has said.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, JoinHandle};

use uverbs_core::Op;
use uverbs_core::cm::{EventKind, RejectReason};
use uverbs_core::sys::Bell;

use super::connect::Step;
use super::flow::Phase;
use super::link::{Arrived, Link};
use super::sleep;
use super::stream::{Stream, WOULD_BLOCK, lock};
use super::wire::{HELLO, Hello};
use crate::abi::rdma_conn_param;
use crate::answer::Answer;
use crate::errno::Code;
use crate::{connect, listen};

/// The connections that wait to be taken, if the program does not say.
const OTHERWISE: usize = 128;

/// Of a socket, what a listener has.
#[derive(Default)]
pub(super) struct Listening {
    waiting: Mutex<VecDeque<Arc<Stream>>>,
    /// Rung when there is room again, and at the end.
    bell: OnceLock<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Stream {
    pub(super) fn bind(&self, address: *const c_void) -> Answer<()> {
        let _progress = lock(&self.progress);
        listen::bind(self.link.id()?, address)
    }

    pub(super) fn listen(self: &Arc<Self>, backlog: u32) -> Answer<()> {
        let progress = lock(&self.progress);
        if !matches!(*progress, Step::Start) {
            return Err(Code::INVALID);
        }
        if self.flow().phase == Phase::Listening {
            return Ok(());
        }
        listen::start(self.link.id()?, backlog)?;
        let _ = self.listening.bell.set(Bell::new(Op::CmListen)?);
        let most = usize::try_from(backlog).unwrap_or(OTHERWISE);
        let most = if most == 0 { OTHERWISE } else { most };
        self.flow().phase = Phase::Listening;
        let own = Arc::clone(self);
        let thread = Builder::new().name("listener".to_owned());
        let thread = thread.spawn(move || {
            if let Err(code) = own.answer_all(most) {
                own.error.store(code.number(), Ordering::Relaxed);
                own.flow().phase = Phase::Closed;
                own.sleepers.wake();
            }
        });
        *lock(&self.listening.thread) = Some(thread.map_err(|_| Code::NO_ROOM)?);
        Ok(())
    }

    fn is_listening(&self) -> bool {
        self.flow().phase == Phase::Listening
    }

    /// Answers requests until the listener is closed.
    fn answer_all(&self, most: usize) -> Answer<()> {
        let Some(bell) = self.listening.bell.get() else {
            return Ok(());
        };
        while self.is_listening() {
            let has_room = lock(&self.listening.waiting).len() < most;
            if has_room && let Some(new) = self.request()? {
                lock(&self.listening.waiting).push_back(Arc::new(new));
                self.sleepers.wake();
                continue;
            }
            let link = if has_room { self.link.fd } else { -1 };
            let mut fds = [link, sleep::fd_of(bell)].map(sleep::reads);
            match sleep::poll(&mut fds, None) {
                Err(code) if code.number() != libc::EINTR => return Err(code),
                _ => bell.silence(),
            }
        }
        Ok(())
    }

    /// Ends a listener, and with it what nobody has taken.
    pub(super) fn stop_listening(&self) {
        self.flow().phase = Phase::Closed;
        if let Some(bell) = self.listening.bell.get() {
            bell.ring();
        }
        let thread = lock(&self.listening.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        lock(&self.listening.waiting).clear();
    }

    /// Whether a connection waits to be taken.
    pub(super) fn has_waiting(&self) -> bool {
        !lock(&self.listening.waiting).is_empty()
    }

    /// Takes the next connection.
    pub(super) fn accept(&self) -> Answer<Arc<Self>> {
        let bell = sleep::bell()?;
        self.sleepers.enter(&bell);
        let accepted = loop {
            if !self.is_listening() {
                break Err(Code::INVALID);
            }
            let next = lock(&self.listening.waiting).pop_front();
            if let Some(next) = next {
                if let Some(bell) = self.listening.bell.get() {
                    bell.ring();
                }
                break Ok(next);
            }
            if !self.blocks(0) {
                break Err(WOULD_BLOCK);
            }
            if let Err(code) = sleep::poll(&mut [sleep::reads(sleep::fd_of(&bell))], None) {
                break Err(code);
            }
            bell.silence();
        };
        self.sleepers.leave(&bell);
        accepted
    }

    /// Answers the next request, if there is one. Peers that do not speak this version of the
    /// protocol are refused.
    fn request(&self) -> Answer<Option<Self>> {
        loop {
            let event = {
                let _progress = lock(&self.progress);
                self.link.next()?
            };
            let Some(event) = event else {
                return Ok(None);
            };
            if event.kind()? != EventKind::ConnectRequest || event.outcome().is_err() {
                continue;
            }
            if let Ok(new) = event.request().and_then(|link| self.answer(link, &event)) {
                return Ok(Some(new));
            }
        }
    }

    fn answer(&self, link: Link, event: &Arrived) -> Answer<Self> {
        let options = lock(&self.options).inherited();
        let new = Self::new(link, options, self.is_nonblocking.load(Ordering::Relaxed));
        let done = new.accept_request(event);
        if done.is_err()
            && let Ok(id) = new.link.id()
        {
            let _ = connect::reject(id, std::ptr::null(), 0, RejectReason::Consumer);
        }
        done.map(|()| new)
    }

    fn accept_request(&self, event: &Arrived) -> Answer<()> {
        let hello = Hello::from_bytes(event.private_data()?).ok_or(Code::UNSUPPORTED)?;
        let own = self.prepare()?.hello().to_bytes();
        self.begin(hello)?;
        let parameters = rdma_conn_param {
            private_data: own.as_ptr().cast(),
            private_data_len: HELLO,
            ..event.parameters()?
        };
        self.flow().phase = Phase::Opening;
        *lock(&self.progress) = Step::Accepted;
        connect::accept(self.link.id()?, Some(&parameters))
    }
}

//! A stream socket: what its functions lock, and how they wait.
//!
//! One thread at a time sends (`sends`), one receives (`reads`), and one moves the handshake on
//! (`progress`); none of them keeps another one from taking completions and giving credits, for
//! which the counts (`flow`) are locked, for a moment. Locks are taken in this order.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::accept::Listening;
use super::connect::Step;
use super::endpoint::Endpoint;
use super::flow::{Flow, Phase};
use super::iomap::Maps;
use super::link::Link;
use super::options::Options;
use super::queues::Completion;
use super::sleep::Sleepers;
use super::wire::MAP;
use crate::answer::Answer;
use crate::errno::Code;

pub(super) const WOULD_BLOCK: Code = Code::new(libc::EAGAIN);
pub(super) const NOT_CONNECTED: Code = Code::new(libc::ENOTCONN);
pub(super) const RESET: Code = Code::new(libc::ECONNRESET);

pub(super) struct Stream {
    pub(super) maps: Mutex<Maps>,
    pub(super) listening: Listening,
    pub(super) endpoint: OnceLock<Endpoint>,
    pub(super) link: Link,
    pub(super) options: Mutex<Options>,
    pub(super) is_nonblocking: AtomicBool,
    pub(super) progress: Mutex<Step>,
    /// Where the staging ring goes on.
    pub(super) sends: Mutex<u32>,
    /// Where the ring goes on.
    pub(super) reads: Mutex<u32>,
    flow: Mutex<Flow>,
    pub(super) sleepers: Sleepers,
    /// The errno of the last failure.
    pub(super) error: AtomicI32,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    pub(super) fn new(link: Link, options: Options, is_nonblocking: bool) -> Self {
        Self {
            maps: Mutex::default(),
            listening: Listening::default(),
            endpoint: OnceLock::new(),
            link,
            options: Mutex::new(options),
            is_nonblocking: AtomicBool::new(is_nonblocking),
            progress: Mutex::new(Step::Start),
            sends: Mutex::new(0),
            reads: Mutex::new(0),
            flow: Mutex::new(Flow::new()),
            sleepers: Sleepers::default(),
            error: AtomicI32::new(0),
        }
    }

    pub(super) fn flow(&self) -> MutexGuard<'_, Flow> {
        lock(&self.flow)
    }

    /// Whether a call with these flags waits.
    pub(super) fn blocks(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT == 0 && !self.is_nonblocking.load(Ordering::Relaxed)
    }

    pub(super) fn connected(&self) -> Answer<&Endpoint> {
        self.endpoint.get().ok_or(NOT_CONNECTED)
    }

    /// Ends the connection as broken.
    pub(super) fn fail(&self, flow: &mut Flow, code: Code) {
        if flow.phase == Phase::Open {
            self.error.store(code.number(), Ordering::Relaxed);
        }
        flow.end(Phase::Broken);
    }

    /// Takes all completions, and tells the peer what it may send.
    pub(super) fn process(&self, endpoint: &Endpoint, flow: &mut Flow) {
        self.update(endpoint, flow);
        let mut has_changed = false;
        loop {
            let mut arrived = 0;
            let mut error = None;
            let count = endpoint.queues.poll(|completion| match completion {
                Completion::Arrived(message) => {
                    arrived += 1;
                    if !flow.arrive(message) {
                        error = Some(Code::new(libc::EPROTO));
                    }
                }
                Completion::Nothing => {}
                Completion::Sent { message, is_good } => {
                    flow.sent(message, MAP);
                    if !is_good {
                        error = Some(Code::new(libc::EIO));
                    }
                }
            });
            if count.is_none() {
                error = Some(Code::new(libc::EIO));
            }
            if error.is_none() && arrived > 0 && flow.phase != Phase::Closed {
                error = endpoint.queues.post_receives(arrived).err();
            }
            if let Some(code) = error {
                self.fail(flow, code);
            }
            has_changed |= count != Some(0);
            if count.is_none_or(|count| count == 0) {
                break;
            }
        }
        self.update(endpoint, flow);
        if has_changed {
            self.sleepers.wake();
        }
    }

    pub(super) fn update(&self, endpoint: &Endpoint, flow: &mut Flow) {
        if let Err(code) = endpoint.update(flow) {
            self.fail(flow, code);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Before the memory that they use, and that after it the id.
        self.link.destroy_queues();
    }
}

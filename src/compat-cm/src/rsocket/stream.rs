//! A stream socket: what its functions lock, and how they wait.
//!
//! One thread at a time sends (`sends`), one receives (`reads`), and one moves the handshake on
//! (`progress`); none of them keeps another one from taking completions and giving credits, for
//! which the counts (`flow`) are locked, for a moment. Locks are taken in this order.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use uverbs_core::cm::EventKind;

use super::accept::Listening;
use super::connect::Step;
use super::endpoint::Endpoint;
use super::flow::{Flow, Phase};
use super::iomap::Maps;
use super::link::Link;
use super::options::Options;
use super::queues::Completion;
use super::settings::Defaults;
use super::sleep::{self, Sleepers};
use super::wire::MAP;
use crate::answer::Answer;
use crate::errno::Code;

pub(super) const WOULD_BLOCK: Code = Code::new(libc::EAGAIN);
pub(super) const NOT_CONNECTED: Code = Code::new(libc::ENOTCONN);
pub(super) const RESET: Code = Code::new(libc::ECONNRESET);

/// How often a thread that never sleeps looks for the end of the connection.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

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

    /// Waits until `test` has an answer: polls for a moment, then sleeps.
    pub(super) fn wait<R>(
        &self,
        blocks: bool,
        mut test: impl FnMut(&Endpoint, &mut Flow) -> Option<Answer<R>>,
    ) -> Answer<R> {
        let endpoint = self.connected()?;
        let mut begun = None;
        loop {
            let is_due = {
                let mut flow = self.flow();
                self.process(endpoint, &mut flow);
                if let Some(answer) = test(endpoint, &mut flow) {
                    return answer;
                }
                let now = Instant::now();
                let begun = *begun.get_or_insert(now);
                if blocks && now.duration_since(begun) > Defaults::get().polls_for {
                    break;
                }
                let looked = *flow.looked.get_or_insert(now);
                let is_due = now.duration_since(looked) > LOOKS_EVERY;
                if is_due {
                    flow.looked = Some(now);
                }
                is_due
            };
            if is_due && self.hear()? {
                continue;
            }
            if !blocks {
                return Err(WOULD_BLOCK);
            }
        }
        let bell = sleep::bell()?;
        self.sleepers.enter(&bell);
        let answer = loop {
            if let Some(answer) = self.look_armed(endpoint, &mut test) {
                break answer;
            }
            let mut fds = [self.link.fd, endpoint.queues.fd, sleep::fd_of(&bell)].map(sleep::reads);
            if let Err(code) = sleep::poll(&mut fds, None) {
                break Err(code);
            }
            let [link, queue, rung] = fds;
            if let Err(code) = self.awake(link.revents, queue.revents) {
                break Err(code);
            }
            if rung.revents != 0 {
                bell.silence();
            }
        };
        self.sleepers.leave(&bell);
        answer
    }

    /// Asks for an event, and then looks: what comes in between has an event.
    fn look_armed<R>(
        &self,
        endpoint: &Endpoint,
        test: &mut impl FnMut(&Endpoint, &mut Flow) -> Option<Answer<R>>,
    ) -> Option<Answer<R>> {
        let mut flow = self.flow();
        self.arm(endpoint, &mut flow);
        self.process(endpoint, &mut flow);
        test(endpoint, &mut flow)
    }

    pub(super) fn arm(&self, endpoint: &Endpoint, flow: &mut Flow) {
        if !flow.is_armed {
            match endpoint.queues.arm() {
                Ok(()) => flow.is_armed = true,
                Err(code) => self.fail(flow, code),
            }
        }
    }

    /// Takes the events that a sleeping thread was woken for.
    pub(super) fn awake(&self, of_link: i16, of_queue: i16) -> Answer<()> {
        if of_queue != 0
            && let Ok(endpoint) = self.connected()
        {
            let mut flow = self.flow();
            if flow.is_armed && endpoint.queues.take_event() {
                flow.is_armed = false;
            } else if of_queue & !libc::POLLIN != 0 {
                self.fail(&mut flow, Code::new(libc::EIO));
            }
        }
        if of_link != 0 {
            self.hear()?;
        }
        Ok(())
    }

    /// Takes the events of a connection that is there; true if it has ended.
    fn hear(&self) -> Answer<bool> {
        let progress = lock(&self.progress);
        if !progress.is_done() {
            return Ok(false);
        }
        let mut has_ended = false;
        while let Some(event) = self.link.next()? {
            has_ended |= matches!(
                event.kind()?,
                EventKind::Disconnected | EventKind::DeviceRemoval
            );
        }
        if has_ended && let Ok(endpoint) = self.connected() {
            let mut flow = self.flow();
            // What the peer has sent before comes first.
            self.process(endpoint, &mut flow);
            flow.end(Phase::Closed);
            self.sleepers.wake();
        }
        Ok(has_ended)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Before the memory that they use, and that after it the id.
        self.link.destroy_queues();
    }
}

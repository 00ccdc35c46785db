//! How a stream's functions wait, and what they take when they are woken.

use std::time::{Duration, Instant};

use uverbs_core::cm::EventKind;

use super::endpoint::Endpoint;
use super::flow::{Flow, Phase};
use super::settings::Defaults;
use super::sleep;
use super::stream::{RESET, Stream, WOULD_BLOCK, lock};
use crate::answer::Answer;
use crate::errno::Code;

/// How often a thread that never sleeps looks for the end of the connection.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

impl Stream {
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
            if flow.phase == Phase::Open && flow.is_readable {
                // It has not said that this was all.
                self.fail(&mut flow, RESET);
            }
            flow.end(Phase::Closed);
            self.sleepers.wake();
        }
        Ok(has_ended)
    }
}

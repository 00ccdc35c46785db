//! From an address to a connection: one step after the other, each begun here and ended by an
//! event, so that no step has to be waited for.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;

use uverbs_core::cm::EventKind;

use super::endpoint::Endpoint;
use super::flow::Phase;
use super::link::Arrived;
use super::sleep;
use super::stream::{NOT_CONNECTED, RESET, Stream, lock};
use super::wire::{HELLO, Hello};
use crate::abi::{Storage, rdma_conn_param};
use crate::answer::Answer;
use crate::errno::Code;
use crate::{connect, option, resolve};

/// Repetitions of a look-up that takes too long; each may take twice as long as the one before.
const RETRIES: u32 = 6;
const FIRST_TIMEOUT: i32 = 1000;
/// What a queue pair does about packets that are lost, and about a peer that is not ready.
const ALWAYS: u8 = 7;

pub(super) const IN_PROGRESS: Code = Code::new(libc::EINPROGRESS);

/// What a handshake waits for.
#[derive(Debug)]
pub(super) enum Step {
    /// To be begun.
    Start,
    /// The device, for the so many-th time.
    Address(u32),
    /// The path.
    Route(u32),
    /// The peer's answer.
    Answer,
    /// The peer's last message, on the passive side.
    Accepted,
    Done,
    Failed,
}

impl Step {
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}

fn timeout(tries: u32) -> i32 {
    FIRST_TIMEOUT << tries.min(RETRIES)
}

impl Stream {
    /// Connects to an address, which may take several calls.
    pub(super) fn connect(&self, address: Storage) -> Answer<()> {
        {
            let mut step = match self.progress.try_lock() {
                Ok(step) => step,
                Err(TryLockError::Poisoned(step)) => step.into_inner(),
                Err(TryLockError::WouldBlock) => return Err(IN_PROGRESS),
            };
            if matches!(*step, Step::Start) {
                if self.flow().phase == Phase::Listening {
                    return Err(Code::INVALID);
                }
                let id = self.link.id()?;
                id.c.route.addr.dst_storage.set(address);
                let begun = self.look_up(0);
                if begun.is_ok() {
                    self.flow().phase = Phase::Opening;
                    *step = Step::Address(0);
                }
                self.note(&mut step, begun)?;
            }
        }
        self.advance(self.blocks(0))
    }

    fn look_up(&self, tries: u32) -> Answer<()> {
        let id = self.link.id()?;
        let to = id.c.route.addr.dst_storage.get();
        let to = (&raw const to).cast();
        resolve::address(id, std::ptr::null(), to, timeout(tries))
    }

    /// Looks for the path, unless the program has set one.
    fn look_for_route(&self, tries: u32) -> Answer<()> {
        /// `RDMA_OPTION_IB`, `RDMA_OPTION_IB_PATH`.
        const LEVEL: i32 = 1;
        const PATH: i32 = 1;
        let id = self.link.id()?;
        match lock(&self.options).route.take() {
            Some(path) => option::set(id, LEVEL, PATH, path.as_ptr().cast(), path.len()),
            None => resolve::route(id, timeout(tries)),
        }
    }

    /// Whether a handshake is on.
    pub(super) fn is_opening(&self) -> bool {
        self.flow().phase == Phase::Opening
    }

    /// Moves the handshake on as far as possible, or to its end.
    ///
    /// # Errors
    /// EINPROGRESS: it has not ended; what has failed.
    pub(super) fn advance(&self, blocks: bool) -> Answer<()> {
        let mut step = if blocks {
            lock(&self.progress)
        } else {
            match self.progress.try_lock() {
                Ok(step) => step,
                Err(TryLockError::Poisoned(step)) => step.into_inner(),
                Err(TryLockError::WouldBlock) => return Err(IN_PROGRESS),
            }
        };
        let done = loop {
            match *step {
                Step::Done => break Ok(()),
                Step::Failed | Step::Start => return Err(NOT_CONNECTED),
                _ => {}
            }
            match self.link.next() {
                Ok(Some(event)) => {
                    if let Err(code) = self.take_step(&mut step, &event) {
                        break Err(code);
                    }
                }
                Ok(None) if blocks => {
                    sleep::poll(&mut [sleep::reads(self.link.fd)], None)?;
                }
                Ok(None) => return Err(IN_PROGRESS),
                Err(code) => break Err(code),
            }
        };
        self.note(&mut step, done)
    }

    /// Remembers a failure.
    fn note(&self, step: &mut Step, done: Answer<()>) -> Answer<()> {
        if let Err(code) = done {
            *step = Step::Failed;
            self.flow().phase = Phase::Refused;
            self.error.store(code.number(), Ordering::Relaxed);
        }
        self.sleepers.wake();
        done
    }

    fn take_step(&self, step: &mut Step, event: &Arrived) -> Answer<()> {
        let outcome = event.outcome();
        let is_late = outcome.is_err_and(|code| code.number() == libc::ETIMEDOUT);
        match *step {
            Step::Address(tries) if is_late && tries < RETRIES => {
                self.look_up(tries + 1)?;
                *step = Step::Address(tries + 1);
                return Ok(());
            }
            Step::Route(tries) if is_late && tries < RETRIES => {
                self.look_for_route(tries + 1)?;
                *step = Step::Route(tries + 1);
                return Ok(());
            }
            _ => outcome?,
        }
        match (&*step, event.kind()?) {
            (Step::Address(_), EventKind::AddressResolved) => {
                self.look_for_route(0)?;
                *step = Step::Route(0);
            }
            (Step::Route(_), EventKind::RouteResolved) => {
                self.ask()?;
                *step = Step::Answer;
            }
            (Step::Answer, EventKind::Established | EventKind::ConnectResponse) => {
                let hello = Hello::from_bytes(event.private_data()?);
                self.begin(hello.ok_or(Code::UNSUPPORTED)?)?;
                self.open();
                *step = Step::Done;
            }
            (Step::Accepted, EventKind::Established) => {
                self.open();
                *step = Step::Done;
            }
            (_, EventKind::Disconnected | EventKind::DeviceRemoval) => return Err(RESET),
            _ => {}
        }
        Ok(())
    }

    /// Makes the queues and the memory.
    pub(super) fn prepare(&self) -> Answer<&Endpoint> {
        let sizes = lock(&self.options).sizes;
        let endpoint = Endpoint::new(&self.link, sizes)?;
        self.flow().begin(endpoint.sizes);
        Ok(self.endpoint.get_or_init(|| endpoint))
    }

    /// Asks the peer.
    fn ask(&self) -> Answer<()> {
        let hello = self.prepare()?.hello().to_bytes();
        let parameters = rdma_conn_param {
            private_data: hello.as_ptr().cast(),
            private_data_len: HELLO,
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: 1,
            retry_count: ALWAYS,
            rnr_retry_count: ALWAYS,
            srq: 0,
            qp_num: 0,
        };
        connect::connect(self.link.id()?, Some(&parameters))
    }

    /// What the peer said is the beginning.
    pub(super) fn begin(&self, hello: Hello) -> Answer<()> {
        self.connected()?.set_remote(hello);
        self.flow().open(&hello);
        Ok(())
    }

    fn open(&self) {
        let mut flow = self.flow();
        flow.phase = Phase::Open;
        flow.is_readable = true;
        flow.is_writable = true;
    }
}

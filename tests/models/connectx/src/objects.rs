//! The objects that commands create.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::buffer::{Buffer, Umem};
use crate::encryption::Encryption;
use crate::engine::completion::Ready;
use crate::layout::{qp, queue};
use crate::signature::Bsf;

/// An event queue.
#[derive(Debug)]
pub(crate) struct EventQueue {
    pub(crate) context: Vec<u8>,
    pub(crate) mask: [u64; 4],
    pub(crate) buffer: Buffer,
    pub(crate) log_size: u32,
    pub(crate) vector: u32,
    pub(crate) producer: u32,
    pub(crate) consumer: u32,
    pub(crate) armed: bool,
}

/// How a completion queue is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    Any,
    Solicited,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    pub(crate) context: Vec<u8>,
    pub(crate) buffer: Buffer,
    pub(crate) log_size: u32,
    pub(crate) cqe_size: u64,
    pub(crate) doorbell: u64,
    pub(crate) eqn: u32,
    pub(crate) producer: u32,
    /// Producer index just after the last solicited or failed completion.
    pub(crate) solicited: u32,
    pub(crate) arm: Option<Arm>,
    pub(crate) failed: bool,
    /// Completions waiting to be compressed.
    pub(crate) waiting: Vec<Ready>,
}

/// One entry of an indirect memory key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Indirect {
    pub(crate) length: u64,
    pub(crate) key: u32,
    pub(crate) address: u64,
}

/// How a memory key finds guest memory.
#[derive(Clone, Debug)]
pub(crate) enum Translation {
    /// Addresses are bus addresses.
    Physical,
    /// A page list; the lowest bits of an entry are its page's access rights.
    Pages(Vec<u64>),
    /// A list of keys, with their lengths unless all have the size of the key's page.
    Keys(Vec<Indirect>),
    /// A umem and an offset in it.
    Umem(Umem, u64),
    /// Memory on the device, from this bus address on.
    Device(u64),
}

/// A memory key.
#[derive(Debug)]
pub(crate) struct MemoryKey {
    pub(crate) context: Vec<u8>,
    pub(crate) translation: Translation,
    /// The byte stream format, once a request has set it.
    pub(crate) bsf: Option<Stream>,
    /// Signature errors that were reported of it.
    pub(crate) errors: u32,
}

/// What a key does to what passes through it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Signatures(Bsf),
    Encryption(Encryption),
}

/// A protected sequence of values: what a side of a key with signatures begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Psv {
    pub(crate) pd: u32,
    /// Once a request has set it.
    pub(crate) signature: Option<u64>,
}

/// What kind of shared receive queue a number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedKind {
    /// A receive memory pool, the plain SRQ of ISSI 1.
    Rmp,
    /// An XRC SRQ.
    Xrc,
    /// The plain SRQ of ISSI 0.
    Legacy,
}

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct SharedQueue {
    pub(crate) kind: SharedKind,
    pub(crate) context: Vec<u8>,
    pub(crate) buffer: Buffer,
    pub(crate) log_size: u32,
    pub(crate) stride: u32,
    pub(crate) doorbell: u64,
    pub(crate) head: u32,
    pub(crate) consumed: u16,
    pub(crate) cyclic: bool,
    pub(crate) limit: u16,
    pub(crate) pd: u32,
    pub(crate) cqn: u32,
    pub(crate) xrcd: u32,
    pub(crate) user_index: u32,
}

/// States of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpState {
    Reset = 0,
    Init = 1,
    ReadyToReceive = 2,
    ReadyToSend = 3,
    SendError = 4,
    SendDrained = 5,
    Error = 6,
    /// On the way there.
    SendDraining = 7,
}

/// Service types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Rc,
    Uc,
    Ud,
    Xrc,
    DcInitiator,
    Management(u32),
    Raw,
    Umr,
}

impl Service {
    /// Decodes the `st` field.
    pub(crate) fn parse(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Rc,
            1 => Self::Uc,
            2 => Self::Ud,
            3 => Self::Xrc,
            5 => Self::DcInitiator,
            7 | 8 => Self::Management(raw - 7),
            9 => Self::Raw,
            0xc => Self::Umr,
            _ => return None,
        })
    }

    /// Whether lost messages are sent again and errors stop both directions.
    pub(crate) fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc | Self::DcInitiator)
    }

    /// Whether messages carry their address in the work request.
    pub(crate) fn is_datagram(self) -> bool {
        matches!(self, Self::Ud | Self::Management(_))
    }
}

/// A send queue: the sending half of a queue pair or a raw SQ.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendRing {
    /// Byte offset in the buffer.
    pub(crate) offset: u64,
    /// Size in 64-byte blocks; 0 if there is none.
    pub(crate) blocks: u32,
    pub(crate) consumer: u16,
}

/// A receive queue of the queue pair's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecvRing {
    /// Number of entries; 0 if there is none.
    pub(crate) entries: u32,
    pub(crate) stride: u32,
    pub(crate) consumer: u16,
}

/// A queue pair.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(crate) struct QueuePair {
    pub(crate) context: Vec<u8>,
    pub(crate) extension: Vec<u8>,
    pub(crate) service: Service,
    pub(crate) state: QpState,
    pub(crate) buffer: Buffer,
    pub(crate) doorbell: u64,
    pub(crate) send: SendRing,
    pub(crate) recv: RecvRing,
    /// Retries left for the message at the head of the send queue.
    pub(crate) retries: u32,
    pub(crate) rnr_retries: u32,
    /// Time before which the send queue waits.
    pub(crate) blocked_until: u64,
    /// Whether the pair is in the fabric's queue of work.
    pub(crate) queued: bool,
    /// Answers to the latest atomic requests, by sequence number, for repeated requests.
    pub(crate) atomics: VecDeque<(u32, u64)>,
    /// Whether "communication established" was reported.
    pub(crate) established: bool,
    /// Whether "last WQE reached" was reported.
    pub(crate) last_wqe: bool,
    /// The connection establishment options that were agreed to.
    pub(crate) ece: u32,
    /// Streams of a DC initiator that are in error.
    pub(crate) failed_streams: BTreeSet<u16>,
    /// Whether it makes copies.
    pub(crate) copies: bool,
}

impl QueuePair {
    pub(crate) fn pd(&self) -> u32 {
        qp::PD.get(&self.context)
    }

    pub(crate) fn send_cq(&self) -> u32 {
        qp::CQN_SEND.get(&self.context)
    }

    pub(crate) fn recv_cq(&self) -> u32 {
        qp::CQN_RECV.get(&self.context)
    }

    pub(crate) fn user_index(&self) -> u32 {
        qp::USER_INDEX.get(&self.context)
    }

    /// The shared receive queue, if receives come from one.
    pub(crate) fn shared_queue(&self) -> Option<u32> {
        (qp::RQ_TYPE.get(&self.context) == 1).then(|| qp::SRQN.get(&self.context))
    }

    /// Enters a state, keeping the context in step.
    pub(crate) fn enter(&mut self, state: QpState) {
        if state == QpState::ReadyToReceive {
            self.atomics.clear();
        }
        if state == QpState::Reset {
            self.failed_streams.clear();
            qp::DRAINS.set(&mut self.context, 0);
        }
        self.state = state;
        qp::STATE.set(&mut self.context, state as u32);
    }

    /// The stream that a work request is of: a DC initiator has one at least.
    pub(crate) fn stream(&self, named: u16) -> u16 {
        let streams = 1_u32 << qp::LOG_STREAMS.get(&self.context).min(16);
        (u32::from(named) % streams) as u16
    }

    /// A work request of a stream failed: stops it alone, or the whole pair if it was one too many.
    pub(crate) fn fail_stream(&mut self, named: u16) {
        let stream = self.stream(named);
        self.failed_streams.insert(stream);
        let most = 1_usize << qp::LOG_FAILED_STREAMS.get(&self.context);
        if self.failed_streams.len() >= most {
            self.enter(QpState::Error);
        }
    }

    /// Whether requests from the fabric are served.
    pub(crate) fn receives(&self) -> bool {
        !matches!(self.state, QpState::Reset | QpState::Init | QpState::Error)
    }

    /// Starts the retry budgets of the next message.
    pub(crate) fn refill_retries(&mut self) {
        self.retries = qp::RETRY_COUNT.get(&self.context);
        self.rnr_retries = qp::RNR_RETRY.get(&self.context);
    }
}

/// A dynamically connected target.
#[derive(Debug)]
pub(crate) struct DcTarget {
    pub(crate) context: Vec<u8>,
    pub(crate) draining: bool,
}

/// A raw SQ or RQ.
#[derive(Debug)]
pub(crate) struct RawRing {
    pub(crate) context: Vec<u8>,
    pub(crate) buffer: Buffer,
    pub(crate) doorbell: u64,
    pub(crate) entries: u32,
    pub(crate) stride: u32,
    pub(crate) consumer: u16,
    pub(crate) state: RingState,
    pub(crate) queued: bool,
    pub(crate) blocked_until: u64,
}

impl RawRing {
    pub(crate) fn cqn(&self) -> u32 {
        queue::ring::CQN.get(&self.context)
    }
}

/// States of raw SQs, RQs and RMPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum RingState {
    Reset = 0,
    Ready = 1,
    Error = 3,
}

impl RingState {
    /// Decodes the four-bit state.
    pub(crate) fn parse(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Reset,
            1 => Self::Ready,
            3 => Self::Error,
            _ => return None,
        })
    }
}

/// The queue pairs that receive messages to each multicast address.
pub(crate) type Multicast = BTreeMap<[u8; 16], Vec<u32>>;

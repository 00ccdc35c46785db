//! What a driver in this process needs of a function: verbs objects by firmware commands, without
//! registers and mailboxes.
//!
//! The function accesses memory by the addresses that the process itself uses; the [`GuestMemory`]
//! decides which of them exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layout::command::{self, CTX, PAS, RING_CTX, op};
use crate::layout::queue::{cq, eq, mkey, ring, wq};
use crate::layout::{Field, put, qp};
use crate::memory::GuestMemory;
use crate::{Counted, Fabric, FunctionConfig, FunctionKind, Options, Trace, cmd};

const PAGE: u64 = 4096;
/// Offset of the send queue buffers in a doorbell page.
const SEND_DOORBELL: u64 = 0x800;
/// Longest reply of the commands used here.
const REPLY: usize = 0x110;

/// A refused command: its status and its syndrome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("status {status:#x}, syndrome {syndrome:#x}")]
pub struct Refused {
    /// The status byte.
    pub status: u8,
    /// Which rule refused the command.
    pub syndrome: u32,
}

type Result<T = ()> = std::result::Result<T, Refused>;

/// One function whose InfiniBand port is its own neighbour, and what a driver has set up in it.
#[derive(Debug)]
pub struct Function {
    fabric: Fabric,
    uar: u32,
    eqn: u32,
    now: u64,
    /// Doorbell records of send queues, and the producer index of the last doorbell.
    sends: BTreeMap<u32, (u64, u16)>,
    memory: Arc<dyn GuestMemory>,
    variant: u32,
}

/// A completion queue to be created.
#[derive(Clone, Copy, Debug)]
pub struct CqInit {
    /// log₂ of its 64-byte entries.
    pub log_size: u32,
    /// Bus address of the entries.
    pub buffer: u64,
    /// Bus address of its 8-byte doorbell record.
    pub record: u64,
}

/// A queue pair to be created: its receive ring, then its send ring.
#[derive(Clone, Copy, Debug)]
pub struct QpInit {
    /// RC 0, UC 1, UD 2.
    pub service: u32,
    /// The protection domain.
    pub pd: u32,
    /// Completion queue for sends.
    pub send_cq: u32,
    /// Completion queue for receives.
    pub recv_cq: u32,
    /// The shared receive queue, if there is one.
    pub srq: Option<u32>,
    /// Size of the send ring in 64-byte blocks.
    pub send_blocks: u32,
    /// Number of receive requests, and log₂ of the bytes of each; `None` if there is no receive
    /// ring.
    pub recv: Option<(u32, u32)>,
    /// The user index that completions carry.
    pub user_index: u32,
    /// Bus address of the rings.
    pub buffer: u64,
    /// Bus address of its 8-byte doorbell record.
    pub record: u64,
}

/// A shared receive queue to be created.
#[derive(Clone, Copy, Debug)]
pub struct SrqInit {
    /// The protection domain.
    pub pd: u32,
    /// log₂ of the number of requests.
    pub log_size: u32,
    /// log₂ of the bytes of each request.
    pub log_stride: u32,
    /// Bus address of the requests.
    pub buffer: u64,
    /// Bus address of its 8-byte doorbell record.
    pub record: u64,
}

/// Memory to be registered.
#[derive(Clone, Copy, Debug)]
pub struct MkeyInit {
    /// The protection domain.
    pub pd: u32,
    /// Its first byte.
    pub start: u64,
    /// The address that requests use for its first byte.
    pub iova: u64,
    /// Length in bytes.
    pub length: u64,
    /// Access rights: local write, remote read, remote write, remote atomic.
    pub rights: [bool; 4],
}

/// A state transition of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// RESET to INIT.
    ToInit,
    /// INIT to RTR.
    ToReceive,
    /// RTR to RTS.
    ToSend,
    /// INIT to INIT.
    InInit,
    /// RTS to RTS.
    InSend,
    /// SQE to RTS.
    Recover,
    /// Any state to ERR.
    ToError,
    /// Any state to RESET.
    ToReset,
}

/// The attributes that a transition sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// Remote access rights: read, write, atomic.
    pub access: Option<[bool; 3]>,
    /// The queue key.
    pub qkey: u32,
    /// The peer's LID.
    pub lid: u16,
    /// The peer's queue pair number.
    pub remote_qpn: u32,
    /// Sequence number of the first packet expected.
    pub recv_psn: u32,
    /// Sequence number of the first packet to send.
    pub send_psn: u32,
    /// How long the peer is told to wait for a receive.
    pub min_rnr_timer: u8,
    /// How long to wait for an acknowledgement.
    pub timeout: u8,
    /// Number of retries without an acknowledgement.
    pub retry_count: u8,
    /// Number of retries while the peer has no receive.
    pub rnr_retry: u8,
}

fn input(opcode: u16, length: usize) -> Vec<u8> {
    let mut input = vec![0; length];
    command::OPCODE.set(&mut input, u32::from(opcode));
    input
}

fn numbered(opcode: u16, number: u32) -> Vec<u8> {
    let mut input = input(opcode, 16);
    command::NUMBER.set(&mut input, number);
    input
}

/// Appends the pages that these bytes touch.
fn pages(input: &mut Vec<u8>, start: u64, length: u64, flags: u64) -> usize {
    let first = start & !(PAGE - 1);
    let count = (start + length - first).div_ceil(PAGE);
    for page in 0..count {
        input.extend((first + page * PAGE | flags).to_be_bytes());
    }
    count as usize
}

impl Function {
    /// A function that is up, with `memory` behind it. The numbers of destroyed objects are reused
    /// at once.
    ///
    /// # Errors
    /// None that a function without objects returns.
    pub fn new(memory: Arc<dyn GuestMemory>) -> Result<Self> {
        let mut fabric = Fabric::new(Options::default(), Arc::new(Trace::silent(false)));
        let config = FunctionConfig::numbered(FunctionKind::InfiniBand, 0);
        let function = fabric.add_function(config, memory.clone(), Arc::new(Counted::default()));
        // Memory and bus mastering.
        fabric.config_write(function, 4, &[6, 0]);
        for device in &mut fabric.devices {
            device.reuse_numbers_early();
        }
        let mut made = Self {
            fabric,
            uar: 0,
            eqn: 0,
            now: 1,
            sends: BTreeMap::new(),
            memory,
            variant: 0,
        };
        made.run(&input(op::ENABLE_HCA, 16))?;
        made.run(&input(op::INIT_HCA, 16))?;
        made.uar = made.make(&input(op::ALLOC_UAR, 16))?;
        made.eqn = made.create_eq()?;
        Ok(made)
    }

    fn run(&mut self, input: &[u8]) -> Result<Vec<u8>> {
        let Some(device) = self.fabric.devices.first_mut() else {
            return Err(Refused {
                status: 0,
                syndrome: 0,
            });
        };
        let reply = cmd::execute(device, input, REPLY);
        match command::STATUS.get(&reply) {
            0 => Ok(reply),
            status => Err(Refused {
                status: status as u8,
                syndrome: command::SYNDROME.get(&reply),
            }),
        }
    }

    /// Runs a command that creates an object; returns its number.
    fn make(&mut self, input: &[u8]) -> Result<u32> {
        Ok(command::NUMBER.get(&self.run(input)?))
    }

    /// An event queue that nothing is written to, because no completion queue is armed.
    fn create_eq(&mut self) -> Result<u32> {
        let mut input = input(op::CREATE_EQ, PAS);
        eq::LOG_SIZE.at(CTX).set(&mut input, 6);
        eq::UAR.at(CTX).set(&mut input, self.uar);
        pages(&mut input, PAGE, PAGE, 0);
        Ok(self.make(&input)? & 0xff)
    }

    /// Allocates a protection domain.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn create_pd(&mut self) -> Result<u32> {
        self.make(&input(op::ALLOC_PD, 16))
    }

    /// Deallocates a protection domain.
    ///
    /// # Errors
    /// The domain still has objects.
    pub fn destroy_pd(&mut self, number: u32) -> Result {
        self.run(&numbered(op::DEALLOC_PD, number)).map(drop)
    }

    /// Registers memory; returns the key.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn create_mkey(&mut self, init: &MkeyInit) -> Result<u32> {
        let mut input = input(op::CREATE_MKEY, PAS);
        self.variant = self.variant.wrapping_add(1) & 0xff;
        let variant = self.variant;
        let [write, remote_read, remote_write, atomic] = init.rights;
        let mut set = |field: Field, value: u32| field.at(CTX).set(&mut input, value);
        set(mkey::LOCAL_READ, 1);
        set(mkey::LOCAL_WRITE, write.into());
        set(mkey::REMOTE_READ, remote_read.into());
        set(mkey::REMOTE_WRITE, remote_write.into());
        set(mkey::ATOMIC, atomic.into());
        set(mkey::MODE_LOW, 1);
        set(mkey::QPN, 0xff_ffff);
        set(mkey::KEY, variant);
        set(mkey::PD, init.pd);
        set(mkey::LOG_PAGE, 12);
        mkey::START.at(CTX).set(&mut input, init.iova);
        mkey::LENGTH.at(CTX).set(&mut input, init.length);
        let count = pages(&mut input, init.start, init.length, 3);
        if !count.is_multiple_of(2) {
            input.extend([0; 8]);
        }
        command::mkey::ACTUAL_OCTOWORDS.set(&mut input, count.div_ceil(2) as u32);
        Ok(self.make(&input)? << 8 | variant)
    }

    /// Destroys a memory key.
    ///
    /// # Errors
    /// There is no such key.
    pub fn destroy_mkey(&mut self, key: u32) -> Result {
        self.run(&numbered(op::DESTROY_MKEY, key >> 8)).map(drop)
    }

    /// Creates a completion queue.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn create_cq(&mut self, init: &CqInit) -> Result<u32> {
        let input = self.cq_input(op::CREATE_CQ, init);
        self.make(&input)
    }

    fn cq_input(&self, opcode: u16, init: &CqInit) -> Vec<u8> {
        let mut input = input(opcode, PAS);
        cq::LOG_SIZE.at(CTX).set(&mut input, init.log_size);
        cq::UAR.at(CTX).set(&mut input, self.uar);
        cq::EQN.at(CTX).set(&mut input, self.eqn);
        cq::DBR_ADDR.at(CTX).set(&mut input, init.record);
        pages(&mut input, init.buffer, 64 << init.log_size, 0);
        input
    }

    /// Moves a completion queue to another buffer.
    ///
    /// # Errors
    /// The completions in it do not fit.
    pub fn resize_cq(&mut self, number: u32, init: &CqInit) -> Result {
        let mut input = self.cq_input(op::MODIFY_CQ, init);
        command::OP_MOD.set(&mut input, 1);
        command::NUMBER.set(&mut input, number);
        command::PARAM.set(&mut input, 1);
        self.run(&input).map(drop)
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// A queue still completes to it.
    pub fn destroy_cq(&mut self, number: u32) -> Result {
        self.run(&numbered(op::DESTROY_CQ, number)).map(drop)
    }

    /// Creates a queue pair in the RESET state.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<u32> {
        let mut input = input(op::CREATE_QP, PAS);
        let at = command::qp::QPC;
        let mut set = |field: Field, value: u32| field.at(at).set(&mut input, value);
        set(qp::SERVICE, init.service);
        set(qp::PD, init.pd);
        set(qp::UAR, self.uar);
        set(qp::CQN_SEND, init.send_cq);
        set(qp::CQN_RECV, init.recv_cq);
        set(qp::USER_INDEX, init.user_index);
        match init.send_blocks {
            0 => set(qp::NO_SQ, 1),
            blocks => set(qp::LOG_SQ_SIZE, blocks.ilog2()),
        }
        let mut length = u64::from(init.send_blocks) * 64;
        match (init.srq, init.recv) {
            (Some(srq), _) => {
                set(qp::RQ_TYPE, 1);
                set(qp::SRQN, srq);
            }
            (None, Some((count, log_bytes))) => {
                set(qp::LOG_RQ_SIZE, count.ilog2());
                set(qp::LOG_RQ_STRIDE, log_bytes.saturating_sub(4));
                length += u64::from(count) << log_bytes;
            }
            // No receive queue.
            (None, None) => set(qp::RQ_TYPE, 3),
        }
        qp::DBR_ADDR.at(at).set(&mut input, init.record);
        pages(&mut input, init.buffer, length, 0);
        let number = self.make(&input)?;
        self.sends.insert(number, (init.record + 4, 0));
        Ok(number)
    }

    /// Destroys a queue pair.
    ///
    /// # Errors
    /// There is no such queue pair.
    pub fn destroy_qp(&mut self, number: u32) -> Result {
        self.run(&numbered(op::DESTROY_QP, number))?;
        self.sends.remove(&number);
        Ok(())
    }

    /// The state of a queue pair, as the device sees it.
    ///
    /// # Errors
    /// There is no such queue pair.
    pub fn state(&mut self, number: u32) -> Result<u8> {
        let reply = self.run(&numbered(op::QUERY_QP, number))?;
        Ok(qp::STATE.at(command::qp::QPC).get(&reply) as u8)
    }

    /// Modifies a queue pair.
    ///
    /// # Errors
    /// The transition does not exist from its present state.
    pub fn modify_qp(&mut self, number: u32, to: Transition, with: &Attributes) -> Result {
        let opcode = match to {
            Transition::ToInit => op::RST2INIT_QP,
            Transition::ToReceive => op::INIT2RTR_QP,
            Transition::ToSend => op::RTR2RTS_QP,
            Transition::InInit => op::INIT2INIT_QP,
            Transition::InSend => op::RTS2RTS_QP,
            Transition::Recover => op::SQERR2RTS_QP,
            Transition::ToError => op::TO_ERR_QP,
            Transition::ToReset => op::TO_RST_QP,
        };
        let mut input = input(opcode, PAS);
        command::NUMBER.set(&mut input, number);
        let mut set = |field: Field, value: u32| {
            field.at(command::qp::QPC).set(&mut input, value);
        };
        let path = |field: Field| field.at(qp::PRIMARY);
        set(qp::QKEY, with.qkey);
        set(path(qp::path::LID), with.lid.into());
        set(path(qp::path::PORT), 1);
        set(path(qp::path::ACK_TIMEOUT), with.timeout.into());
        set(qp::REMOTE_QPN, with.remote_qpn);
        set(qp::RECV_PSN, with.recv_psn);
        set(qp::SEND_PSN, with.send_psn);
        set(qp::MIN_RNR_NAK, with.min_rnr_timer.into());
        set(qp::RETRY_COUNT, with.retry_count.into());
        set(qp::RNR_RETRY, with.rnr_retry.into());
        set(qp::LOG_RRA_MAX, 4);
        set(qp::LOG_SRA_MAX, 4);
        set(qp::MTU, 3);
        set(qp::LOG_MSG_MAX, 30);
        if let Some([read, write, atomic]) = with.access {
            set(qp::READ_ENABLE, read.into());
            set(qp::WRITE_ENABLE, write.into());
            set(qp::ATOMIC_ENABLE, atomic.into());
            let rights = 0b1110;
            command::qp::OPT_MASK.set(&mut input, rights);
        }
        self.run(&input).map(drop)
    }

    /// Creates a shared receive queue.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn create_srq(&mut self, init: &SrqInit) -> Result<u32> {
        let mut input = input(op::CREATE_RMP, PAS);
        let at = RING_CTX + ring::WQ;
        wq::PD.at(at).set(&mut input, init.pd);
        wq::UAR.at(at).set(&mut input, self.uar);
        wq::DBR_ADDR.at(at).set(&mut input, init.record);
        wq::LOG_STRIDE.at(at).set(&mut input, init.log_stride);
        wq::LOG_SIZE.at(at).set(&mut input, init.log_size);
        pages(
            &mut input,
            init.buffer,
            1 << (init.log_size + init.log_stride),
            0,
        );
        self.make(&input)
    }

    /// Destroys a shared receive queue.
    ///
    /// # Errors
    /// Queue pairs still use it.
    pub fn destroy_srq(&mut self, number: u32) -> Result {
        self.run(&numbered(op::DESTROY_RMP, number)).map(drop)
    }

    /// Rings the doorbells for what was posted, and processes everything there is to do. Each call
    /// advances time by a microsecond, or with `later` by a second.
    pub fn work(&mut self, later: bool) {
        for number in self.sends.keys().copied().collect::<Vec<_>>() {
            self.ring(number);
        }
        self.now += if later { 1_000_000_000 } else { 1_000 };
        self.fabric.advance(self.now);
    }

    /// Rings the doorbell of a send queue if its record has moved.
    fn ring(&mut self, number: u32) {
        let Some((record, rung)) = self.sends.get_mut(&number) else {
            return;
        };
        let mut word = [0; 4];
        if self.memory.read(*record, &mut word).is_err() {
            return;
        }
        let posted = u32::from_be_bytes(word) as u16;
        if std::mem::replace(rung, posted) == posted {
            return;
        }
        // Only the index of the last request is checked; any index below the record is correct.
        let mut bell = [0; 8];
        put(
            &mut bell,
            0,
            &(u32::from(posted.wrapping_sub(1)) << 8).to_be_bytes(),
        );
        put(&mut bell, 4, &(number << 8 | 1).to_be_bytes());
        let page = u64::from(self.uar) << 12;
        self.fabric.mmio_write(0, page + SEND_DOORBELL, &bell);
    }

    /// Writes to all memory that the function may still write: see [`Fabric::scribble`].
    pub fn scribble(&self, byte: u8) -> u64 {
        self.fabric.scribble(0, byte)
    }

    /// Number of receives in a shared queue.
    #[must_use]
    pub fn shared_receives(&self, number: u32) -> Option<u16> {
        self.fabric.shared_receives(0, number)
    }

    /// What hardware would silently ignore or be harmed by.
    #[must_use]
    pub fn reports(&self) -> BTreeMap<&'static str, u64> {
        self.fabric.reports()
    }
}

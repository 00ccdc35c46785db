//! A kernel that observes: which memory the kernel underneath was given, and whether that was
//! returned before it was freed.
//!
//! # Safety
//!
//! It accesses memory that the kernel underneath uses at that time, as the device may, after it
//! made sure that the memory is mapped. Words are read and written by atomics.
#![allow(
    unsafe_code,
    reason = "is a kernel, and touches memory as a device does"
)]

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::os::fd::BorrowedFd;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uverbs_core::Errno;
use uverbs_core::sys::{Call, Command, Kernel, Reply, Uhw, Value};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_CREATE_CQ_CQE, UVERBS_METHOD_CQ_CREATE,
    UVERBS_METHOD_CQ_DESTROY, UVERBS_METHOD_MR_DESTROY, UVERBS_METHOD_QP_CREATE,
    UVERBS_METHOD_QP_DESTROY, UVERBS_METHOD_SRQ_CREATE, UVERBS_METHOD_SRQ_DESTROY,
    UVERBS_METHOD_WQ_CREATE, UVERBS_METHOD_WQ_DESTROY, UVERBS_OBJECT_CQ, UVERBS_OBJECT_MR,
    UVERBS_OBJECT_QP, UVERBS_OBJECT_SRQ, UVERBS_OBJECT_WQ,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_FLAG_EXTENDED, IB_USER_VERBS_CMD_MODIFY_QP, IB_USER_VERBS_CMD_REG_MR,
    IB_USER_VERBS_CMD_REREG_MR, IB_USER_VERBS_CMD_RESIZE_CQ, IB_USER_VERBS_EX_CMD_MODIFY_QP,
    ib_uverbs_modify_qp, ib_uverbs_reg_mr, ib_uverbs_rereg_mr, ib_uverbs_resize_cq,
};
use uverbs_uapi::mlx5_abi::{
    mlx5_ib_create_cq, mlx5_ib_create_qp, mlx5_ib_create_srq, mlx5_ib_create_wq, mlx5_ib_resize_cq,
};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN,
    MLX5_IB_METHOD_DEVX_UMEM_DEREG, MLX5_IB_METHOD_DEVX_UMEM_REG, MLX5_IB_OBJECT_DEVX_UMEM,
};
use zerocopy::FromBytes;

use crate::liar::invoked;

/// Memory that the kernel holds, and the object that it holds it for: its kind and its handle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lent {
    /// `UVERBS_OBJECT_*`.
    pub object: u16,
    /// Its handle.
    pub handle: u32,
    start: u64,
    len: u64,
}

/// What is known about a queue pair.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// `IB_QPS_*`.
    state: u8,
    /// The address of its doorbell record; 0 if it has none.
    record: u64,
}

#[derive(Debug, Default)]
struct Seen {
    lent: Vec<Lent>,
    pairs: HashMap<u32, Pair>,
    stale: Vec<u32>,
}

/// The kernel. Clones share the same one.
#[derive(Clone, Debug)]
pub struct Watched {
    kernel: Arc<dyn Kernel>,
    seen: Arc<Mutex<Seen>>,
    /// The device is mlx5: queues are memory of the process.
    mlx5: bool,
}

const PAGE: u64 = 4096;
const RESET: u8 = 0;
const INIT: u8 = 1;
/// The bit of an attribute mask that says that a state is given.
const STATE: u32 = 1;
/// The bit that says that a region gets other memory.
const TRANSLATION: u32 = 1;

impl Watched {
    /// Observes `kernel`.
    pub fn new(kernel: Arc<dyn Kernel>, mlx5: bool) -> Self {
        Self {
            kernel,
            seen: Arc::default(),
            mlx5,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that the kernel holds at present.
    pub fn lent(&self) -> Vec<Lent> {
        self.lock().lent.clone()
    }

    /// Queue pairs that left RESET while their doorbell record announced work: the device carried
    /// out what was in their rings.
    pub fn stale(&self) -> Vec<u32> {
        self.lock().stale.clone()
    }

    /// Number of queue pairs in a state other than RESET.
    pub fn working(&self) -> usize {
        let seen = self.lock();
        let working = seen.pairs.values().filter(|pair| pair.state != RESET);
        working.count()
    }

    /// Memory that the kernel holds and the process does not any more. The memory is accessed, as a
    /// device does.
    pub fn freed(&self) -> Vec<Lent> {
        let lent = self.lent();
        let mapped = mappings();
        let freed: Vec<_> = lent
            .iter()
            .filter(|lent| !covers(&mapped, lent.start, lent.start + lent.len))
            .copied()
            .collect();
        if freed.is_empty() {
            for lent in &lent {
                touch(lent);
            }
        }
        freed
    }

    fn lend(&self, object: u16, handle: u32, start: u64, len: u64) {
        if start != 0 && len != 0 {
            self.lock().lent.push(Lent {
                object,
                handle,
                start,
                len,
            });
        }
    }

    fn give_back(&self, object: u16, handle: u32) {
        let mut seen = self.lock();
        seen.lent
            .retain(|lent| (lent.object, lent.handle) != (object, handle));
        if object == UVERBS_OBJECT_QP {
            seen.pairs.remove(&handle);
        }
    }

    /// A method was carried out.
    fn method(&self, command: &Command<'_>) {
        let object = command.object;
        let made = command.attrs.iter().find_map(|attr| match &attr.value {
            Value::NewObject(slot) => Some(slot.get()),
            _ => None,
        });
        if let Some(handle) = made {
            self.created(command, handle);
        }
        let named = command.attrs.iter().find_map(|attr| match &attr.value {
            Value::Object(handle) => Some(*handle),
            _ => None,
        });
        let ends = matches!(
            (object, command.method),
            (UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY)
                | (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY)
                | (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY)
                | (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY)
                | (UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY)
                | (MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG)
        );
        if let Some(handle) = named.filter(|_| ends) {
            self.give_back(object, handle);
        }
        if let Some(number) = invoked(command) {
            let part = |id| command.attrs.iter().find(move |attr| attr.id == id);
            let request = match part(UVERBS_ATTR_CORE_IN).map(|attr| &attr.value) {
                Some(Value::In(bytes, _)) => *bytes,
                _ => &[],
            };
            let reply = match part(UVERBS_ATTR_CORE_OUT).map(|attr| &attr.value) {
                Some(Value::Out(cells, _)) => *cells,
                _ => &[],
            };
            self.legacy(number, request, reply, &command.uhw);
        }
    }

    fn created(&self, command: &Command<'_>, handle: u32) {
        let words = command.uhw.input;
        match (command.object, command.method) {
            (MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG) => {
                let (start, len) = (
                    number(command, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR),
                    number(command, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN),
                );
                self.lend(command.object, handle, start, len);
            }
            (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) => {
                let mut pair = Pair::default();
                if let Some(words) = self.words::<mlx5_ib_create_qp>(words) {
                    let len = u64::from(words.sq_wqe_count) * 64
                        + (u64::from(words.rq_wqe_count) << words.rq_wqe_shift);
                    self.lend(UVERBS_OBJECT_QP, handle, words.buf_addr, len);
                    self.lend(UVERBS_OBJECT_QP, handle, words.db_addr, 8);
                    pair.record = words.db_addr;
                }
                self.lock().pairs.insert(handle, pair);
            }
            (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) => {
                if let Some(words) = self.words::<mlx5_ib_create_cq>(words) {
                    let entries = number(command, UVERBS_ATTR_CREATE_CQ_CQE) + 1;
                    let len = entries * u64::from(words.cqe_size);
                    self.lend(UVERBS_OBJECT_CQ, handle, words.buf_addr, len);
                    self.lend(UVERBS_OBJECT_CQ, handle, words.db_addr, 8);
                }
            }
            (UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE) => {
                if let Some(words) = self.words::<mlx5_ib_create_srq>(words) {
                    self.lend(UVERBS_OBJECT_SRQ, handle, words.buf_addr, 64);
                    self.lend(UVERBS_OBJECT_SRQ, handle, words.db_addr, 8);
                }
            }
            (UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE) => {
                if let Some(words) = self.words::<mlx5_ib_create_wq>(words) {
                    let len = u64::from(words.rq_wqe_count) << words.rq_wqe_shift;
                    self.lend(UVERBS_OBJECT_WQ, handle, words.buf_addr, len);
                    self.lend(UVERBS_OBJECT_WQ, handle, words.db_addr, 8);
                }
            }
            _ => {}
        }
    }

    /// The driver data, if there is any.
    fn words<T: FromBytes>(&self, bytes: &[u8]) -> Option<T> {
        let words = T::read_from_prefix(bytes).ok().filter(|_| self.mlx5);
        words.map(|(words, _)| words)
    }

    /// A legacy command was carried out.
    fn legacy(&self, number: u32, request: &[u8], reply: &[Cell<u8>], uhw: &Uhw<'_>) {
        const EX_MODIFY_QP: u32 = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP;
        match number {
            IB_USER_VERBS_CMD_REG_MR => {
                let Ok((core, _)) = ib_uverbs_reg_mr::read_from_prefix(request) else {
                    return;
                };
                let mut handle = [0; 4];
                for (byte, cell) in handle.iter_mut().zip(reply) {
                    *byte = cell.get();
                }
                let handle = u32::from_ne_bytes(handle);
                self.lend(UVERBS_OBJECT_MR, handle, core.start, core.length);
            }
            IB_USER_VERBS_CMD_REREG_MR => {
                if let Ok((core, _)) = ib_uverbs_rereg_mr::read_from_prefix(request)
                    && core.flags & TRANSLATION != 0
                {
                    self.give_back(UVERBS_OBJECT_MR, core.mr_handle);
                    self.lend(UVERBS_OBJECT_MR, core.mr_handle, core.start, core.length);
                }
            }
            IB_USER_VERBS_CMD_RESIZE_CQ => {
                if let Ok((core, _)) = ib_uverbs_resize_cq::read_from_prefix(request)
                    && let Some(words) = self.words::<mlx5_ib_resize_cq>(uhw.input)
                {
                    let len = (u64::from(core.cqe) + 1) * u64::from(words.cqe_size);
                    self.leave_ring(core.cq_handle);
                    self.lend(UVERBS_OBJECT_CQ, core.cq_handle, words.buf_addr, len);
                }
            }
            IB_USER_VERBS_CMD_MODIFY_QP | EX_MODIFY_QP => {
                if let Ok((core, _)) = ib_uverbs_modify_qp::read_from_prefix(request)
                    && core.attr_mask & STATE != 0
                {
                    self.moved(core.qp_handle, core.qp_state);
                }
            }
            _ => {}
        }
    }

    /// The device continues in another ring, and says so in the first entry of this one: it has
    /// completed nothing.
    fn leave_ring(&self, cq: u32) {
        const RESIZED: u64 = 5 << 4;
        let mut seen = self.lock();
        let ring = seen
            .lent
            .iter()
            .position(|lent| (lent.object, lent.handle) == (UVERBS_OBJECT_CQ, cq) && lent.len > 8);
        if let Some(ring) = ring.map(|at| seen.lent.swap_remove(at)) {
            word(ring.start + 56).store(RESIZED.to_be(), Ordering::Release);
        }
    }

    fn moved(&self, handle: u32, state: u8) {
        let mut seen = self.lock();
        let Some(pair) = seen.pairs.get_mut(&handle) else {
            return;
        };
        let leaves = pair.state == RESET && state == INIT;
        pair.state = state;
        let record = pair.record;
        if leaves && record != 0 && word(record).load(Ordering::Acquire) != 0 {
            seen.stale.push(handle);
        }
    }
}

/// An input of four or eight bytes.
fn number(command: &Command<'_>, id: u16) -> u64 {
    let found = command.attrs.iter().find(|attr| attr.id == id);
    match found.map(|attr| &attr.value) {
        Some(Value::In(bytes, _)) => {
            let long = bytes.first_chunk().copied().map(u64::from_ne_bytes);
            let short = || bytes.first_chunk().copied().map(u32::from_ne_bytes);
            long.or_else(|| short().map(u64::from)).unwrap_or(0)
        }
        Some(Value::Constant(value)) => *value,
        _ => 0,
    }
}

/// The aligned word at an address that the kernel holds.
fn word(address: u64) -> &'static AtomicU64 {
    let address = usize::try_from(address).unwrap_or(0) & !7;
    let place = with_exposed_provenance_mut::<u64>(address);
    // SAFETY: inside memory that the kernel has, which is mapped, as the callers made sure, and
    // aligned. The reference is used at once and not kept.
    unsafe { AtomicU64::from_ptr(place) }
}

/// Reads and writes a word of each page.
fn touch(lent: &Lent) {
    let last = lent.start + lent.len.saturating_sub(8);
    let pages = (lent.start..=last).step_by(usize::try_from(PAGE).unwrap_or(1));
    for address in pages.chain([last]) {
        let _ = word(address).fetch_or(0, Ordering::AcqRel);
    }
}

/// The mappings of this process, in order. Under Miri, which detects use after free itself:
/// everything.
fn mappings() -> Vec<(u64, u64)> {
    if cfg!(miri) {
        return vec![(0, u64::MAX)];
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let range = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split_whitespace().next()?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some((hex(start)?, hex(end)?))
    };
    maps.lines().filter_map(range).collect()
}

fn covers(mapped: &[(u64, u64)], start: u64, end: u64) -> bool {
    let mut at = start;
    for (from, to) in mapped {
        if (*from..*to).contains(&at) {
            at = *to;
        }
    }
    at >= end
}

// SAFETY: descriptors come from the kernel underneath, which guarantees them.
unsafe impl Kernel for Watched {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: the caller fulfils the obligations that the kernel underneath requires.
        let answer = unsafe { self.kernel.call(fd, call) };
        if answer.is_ok() {
            match call {
                Call::Ioctl(command) => self.method(command),
                Call::Write(command) => self.legacy(
                    command.number(),
                    command.request,
                    command.reply,
                    &command.uhw,
                ),
                _ => {}
            }
        }
        answer
    }
}

/// The payload of the tests' panics.
#[derive(Clone, Copy, Debug)]
pub struct OnPurpose;

/// When a [`Bomb`] stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// It panics before the kernel underneath is called.
    Before,
    /// It panics after the kernel underneath has carried out the call.
    After,
    /// It reports success, and returns nothing of the reply.
    Mute,
    /// It panics before each call from then on.
    Dead,
}

/// A kernel that stops at one call.
#[derive(Debug)]
pub struct Bomb {
    kernel: Arc<dyn Kernel>,
    stop: Stop,
    left: AtomicU64,
}

impl Bomb {
    /// Stops `kernel` at its call number `at`, counted from 0.
    pub fn new(kernel: Arc<dyn Kernel>, stop: Stop, at: u64) -> Self {
        Self {
            kernel,
            stop,
            left: AtomicU64::new(at),
        }
    }

    /// Stops at the next call.
    pub fn arm(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    /// Number of calls that were still to come: after a complete life, the initial number less the
    /// calls of that life.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}

// SAFETY: as above; a descriptor that is not handed over is closed, or stays open without an owner.
unsafe impl Kernel for Bomb {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        let now = left == 0;
        let dead = self.stop == Stop::Dead && left.cast_signed() <= 0;
        if dead || now && self.stop == Stop::Before {
            std::panic::panic_any(OnPurpose);
        }
        // SAFETY: the caller fulfils the obligations that the kernel underneath requires.
        let answer = unsafe { self.kernel.call(fd, call) };
        if now && self.stop == Stop::After {
            std::panic::panic_any(OnPurpose);
        }
        if now && self.stop == Stop::Mute && answer.is_ok() {
            mute(call);
        }
        answer
    }
}

/// Undoes the reply: handles and outputs are as if they had not been written.
fn mute(call: Call<'_>) {
    let clear = |cells: &[Cell<u8>]| cells.iter().for_each(|cell| cell.set(0xff));
    match call {
        Call::Ioctl(command) => {
            for attr in command.attrs {
                match &attr.value {
                    Value::Out(cells, written) => {
                        clear(cells);
                        written.set(false);
                    }
                    Value::NewObject(slot) => slot.set(u32::MAX),
                    Value::NewFd(slot) => drop(slot.take()),
                    _ => {}
                }
            }
        }
        Call::Write(command) => clear(command.reply),
        _ => {}
    }
}

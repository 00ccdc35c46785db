//! `ibv_wr_start` to `ibv_wr_complete`: requests composed call by call.
//!
//! `start` takes the lock of senders, and `complete` or `abort` releases it. A request is put into
//! the ring once it is whole: when the next one begins, at the end, or, on connections, with its
//! data. All of them are submitted together at the end.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Range;

use uverbs_any::AnyQp;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::{
    Destination, LocalKey, Operation, Payload, Placement, Remote, RemoteKey, SendFlags,
    SendRequest, Sge, WindowBinding,
};

use crate::abi::{Slot, ibv_ah, ibv_data_buf, ibv_mw_bind_info, ibv_qp, ibv_qp_ex, ibv_sge};
use crate::ah::Ah;
use crate::answer::Answer;
use crate::dv::{self, To};
use crate::errno::{Code, set};
use crate::pointer::{Handle, In, items};
use crate::qp::Qp;
use crate::sends::INLINE;
use crate::window::Mw;

/// What is composed since `start`.
#[derive(Default)]
pub(crate) struct Batch {
    /// The request that was begun last, unless it is in the ring.
    current: Option<Composed>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    /// Why nothing will be posted.
    failed: Option<Code>,
}

struct Composed {
    wr_id: u64,
    flags: SendFlags,
    operation: What,
    payload: Data,
    destination: Option<(Handle<Ah>, u32, u32)>,
    to: To<'static>,
}

/// An operation that refers to nothing elsewhere.
enum What {
    Plain(Operation<'static>),
    Bind(WindowBinding),
    /// A frame whose header is these of the batch's bytes, cut into payloads of this size.
    Segments(Range<usize>, u16),
}

/// Ranges of the batch's entries or bytes.
enum Data {
    Gather(Range<usize>),
    Inline(Range<usize>),
}

/// Fills in the functions that headers call.
pub(crate) fn slots(plain: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base: plain,
        comp_mask: 0,
        wr_id: Cell::new(0),
        wr_flags: Cell::new(0),
        wr_atomic_cmp_swp: compare_swap as Slot,
        wr_atomic_fetch_add: fetch_add as Slot,
        wr_bind_mw: bind as Slot,
        wr_local_inv: local_invalidate as Slot,
        wr_rdma_read: read as Slot,
        wr_rdma_write: write as Slot,
        wr_rdma_write_imm: write_imm as Slot,
        wr_send: send as Slot,
        wr_send_imm: send_imm as Slot,
        wr_send_inv: send_invalidate as Slot,
        wr_send_tso: send_segments as Slot,
        wr_set_ud_addr: set_ud_addr as Slot,
        wr_set_xrc_srqn: set_xrc_srqn as Slot,
        wr_set_inline_data: set_inline_data as Slot,
        wr_set_inline_data_list: set_inline_data_list as Slot,
        wr_set_sge: set_sge as Slot,
        wr_set_sge_list: set_sge_list as Slot,
        wr_start: start as Slot,
        wr_complete: complete as Slot,
        wr_abort: abort as Slot,
        wr_atomic_write: atomic_write as Slot,
        wr_flush: flush as Slot,
    }
}

impl Batch {
    /// Nothing will be posted.
    pub(crate) fn fail(&mut self, code: Code) {
        self.failed.get_or_insert(code);
    }

    /// Changes the request that was begun last.
    fn last(&mut self, change: impl FnOnce(&mut Composed)) {
        match &mut self.current {
            Some(request) => change(request),
            None => self.fail(Code::INVALID),
        }
    }

    /// Says where the request that was begun last goes.
    pub(crate) fn send_to(&mut self, to: To<'static>) {
        self.last(|request| request.to = to);
    }

    /// Puts the request that was begun last into the ring, if there is one.
    fn flush(&mut self, own: &Qp) {
        if let Some(composed) = self.current.take() {
            if self.failed.is_none()
                && let Err(code) = self.put(own, &composed)
            {
                self.failed = Some(code);
            }
            self.sges.clear();
            self.bytes.clear();
        }
    }

    #[inline(never)]
    fn put(&self, own: &Qp, composed: &Composed) -> Answer<()> {
        let operation = match &composed.operation {
            What::Plain(operation) => *operation,
            What::Bind(binding) => Operation::BindWindow(binding),
            What::Segments(..) => Operation::Send,
        };
        let to = match &composed.operation {
            What::Segments(header, size) => {
                let header = self.bytes.get(header.clone()).unwrap_or_default();
                To::Segments(header, *size)
            }
            _ => composed.to,
        };
        let destination = match composed.destination {
            Some((ah, qp_num, qkey)) => Some(Destination {
                address: &ah.get()?.address,
                qp_num,
                qkey,
            }),
            None => None,
        };
        let pieces;
        let payload = match &composed.payload {
            Data::Gather(range) => {
                Payload::Gather(self.sges.get(range.clone()).unwrap_or_default())
            }
            Data::Inline(range) => {
                pieces = [self.bytes.get(range.clone()).unwrap_or_default()];
                Payload::Inline(&pieces)
            }
        };
        let request = SendRequest {
            wr_id: composed.wr_id,
            flags: composed.flags,
            operation,
            payload,
            destination,
        };
        own.queue.with(|queue| dv::put(queue, &request, to))
    }

    /// Puts the request of a connection that was begun last into the ring, with this data.
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    fn put_with(&mut self, own: &Qp, payload: Payload<'_>) {
        let Some(composed) = &self.current else {
            return self.fail(Code::INVALID);
        };
        let request = |operation| SendRequest {
            wr_id: composed.wr_id,
            flags: composed.flags,
            operation,
            payload,
            destination: None,
        };
        let What::Plain(operation) = composed.operation else {
            return self.fail(Code::INVALID);
        };
        let done = own.queue.with(|queue| match operation {
            Operation::Write(remote) => {
                dv::put_known(queue, &request(Operation::Write(remote))).map_err(Code::from)
            }
            Operation::Send => dv::put_known(queue, &request(Operation::Send)).map_err(Code::from),
            Operation::Read(remote) => {
                dv::put_known(queue, &request(Operation::Read(remote))).map_err(Code::from)
            }
            operation => dv::put(queue, &request(operation), To::Usual),
        });
        self.current = None;
        if let Err(code) = done {
            self.fail(code);
        }
    }
}

/// Runs `change` on what is composed, whose lock the caller has.
#[inline]
fn composing(qp: Handle<Qp>, change: impl FnOnce(&Qp, &mut Batch)) {
    if let Ok(own) = qp.get() {
        own.batch.inside(|batch| change(own, batch));
    }
}

#[inline]
fn begin(qp: Handle<Qp>, what: What) {
    composing(qp, |own, batch| {
        if batch.current.is_some() {
            batch.flush(own);
        }
        batch.current = Some(Composed {
            wr_id: own.c.wr_id.get(),
            flags: SendFlags::from_bits_retain(own.c.wr_flags.get() & !INLINE),
            operation: what,
            payload: Data::Gather(0..0),
            destination: None,
            to: own.route(),
        });
    });
}

#[inline]
fn plain(qp: Handle<Qp>, operation: Operation<'static>) {
    begin(qp, What::Plain(operation));
}

fn remote(key: u32, address: u64) -> Remote {
    Remote {
        address,
        key: RemoteKey::from_raw(key),
    }
}

extern "C" fn start(qp: Handle<Qp>) {
    if let Ok(own) = qp.get() {
        own.batch.open();
    }
}

extern "C" fn abort(qp: Handle<Qp>) {
    if let Ok(own) = qp.get() {
        own.batch.inside(|batch| give_up(own, batch));
        own.batch.close();
    }
}

/// Takes back what was put into the ring, and forgets the rest.
#[cold]
fn give_up(own: &Qp, batch: &mut Batch) {
    own.queue.with(AnyQp::abort_send);
    *batch = Batch::default();
}

extern "C" fn complete(qp: Handle<Qp>) -> c_int {
    let Ok(own) = qp.get() else {
        return Code::INVALID.number();
    };
    let done = own.batch.inside(|batch| {
        if batch.current.is_some() {
            batch.flush(own);
        }
        match batch.failed {
            None => own.queue.with(AnyQp::submit_send).map_err(Code::from),
            Some(code) => {
                give_up(own, batch);
                Err(code)
            }
        }
    });
    own.batch.close();
    match done {
        Ok(()) => 0,
        Err(code) => {
            set(code);
            code.number()
        }
    }
}

extern "C" fn send(qp: Handle<Qp>) {
    plain(qp, Operation::Send);
}

extern "C" fn send_imm(qp: Handle<Qp>, imm: u32) {
    plain(qp, Operation::SendImm(u32::from_be(imm)));
}

extern "C" fn send_invalidate(qp: Handle<Qp>, key: u32) {
    plain(qp, Operation::SendInvalidate(RemoteKey::from_raw(key)));
}

extern "C" fn write(qp: Handle<Qp>, key: u32, address: u64) {
    plain(qp, Operation::Write(remote(key, address)));
}

extern "C" fn write_imm(qp: Handle<Qp>, key: u32, address: u64, imm: u32) {
    plain(
        qp,
        Operation::WriteImm(remote(key, address), u32::from_be(imm)),
    );
}

extern "C" fn read(qp: Handle<Qp>, key: u32, address: u64) {
    plain(qp, Operation::Read(remote(key, address)));
}

extern "C" fn compare_swap(qp: Handle<Qp>, key: u32, address: u64, compare: u64, swap: u64) {
    plain(
        qp,
        Operation::CompareSwap {
            remote: remote(key, address),
            compare,
            swap,
        },
    );
}

extern "C" fn fetch_add(qp: Handle<Qp>, key: u32, address: u64, add: u64) {
    plain(
        qp,
        Operation::FetchAdd {
            remote: remote(key, address),
            add,
        },
    );
}

extern "C" fn atomic_write(qp: Handle<Qp>, key: u32, address: u64, value: In<[u8; 8]>) {
    match value.get() {
        Ok(value) => plain(
            qp,
            Operation::AtomicWrite {
                remote: remote(key, address),
                value: *value,
            },
        ),
        Err(code) => composing(qp, |_, batch| batch.fail(code)),
    }
}

/// `IBV_FLUSH_MR`.
const WHOLE_REGION: u8 = 1;

extern "C" fn flush(qp: Handle<Qp>, key: u32, address: u64, length: usize, kind: u8, level: u8) {
    let Ok(length) = u32::try_from(length) else {
        return composing(qp, |_, batch| batch.fail(Code::INVALID));
    };
    plain(
        qp,
        Operation::Flush {
            remote: remote(key, address),
            length,
            placement: Placement::from_bits_retain(kind.into()),
            whole_region: level == WHOLE_REGION,
        },
    );
}

extern "C" fn local_invalidate(qp: Handle<Qp>, key: u32) {
    plain(qp, Operation::LocalInvalidate(RemoteKey::from_raw(key)));
}

extern "C" fn bind(qp: Handle<Qp>, mw: Handle<Mw>, key: u32, info: In<ibv_mw_bind_info>) {
    let binding = mw.get().and_then(|window| window.binding(info.get()?, key));
    match binding {
        Ok(binding) => begin(qp, What::Bind(binding)),
        Err(code) => composing(qp, |_, batch| batch.fail(code)),
    }
}

extern "C" fn send_segments(qp: Handle<Qp>, header: *mut c_void, length: u16, size: u16) {
    match items(header.cast::<u8>().cast_const(), length.into()) {
        Ok(header) => {
            begin(qp, What::Segments(0..header.len(), size));
            composing(qp, |_, batch| batch.bytes.extend_from_slice(header));
        }
        Err(code) => composing(qp, |_, batch| batch.fail(code)),
    }
}

extern "C" fn set_ud_addr(qp: Handle<Qp>, ah: *mut ibv_ah, qp_num: u32, qkey: u32) {
    composing(qp, |_, batch| {
        batch.last(|request| request.destination = Some((Handle::of(ah), qp_num, qkey)));
    });
}

extern "C" fn set_xrc_srqn(qp: Handle<Qp>, number: u32) {
    composing(qp, |_, batch| {
        batch.send_to(To::Shared(number));
    });
}

extern "C" fn set_sge(qp: Handle<Qp>, lkey: u32, address: u64, length: u32) {
    composing(qp, |own, batch| {
        let sge = Sge {
            address,
            length,
            key: LocalKey::from_raw(lkey),
        };
        if own.is_connection() {
            batch.put_with(own, Payload::Gather(&[sge]));
        } else {
            hold(batch, &[sge]);
        }
    });
}

/// Keeps the data of a request until it is put into the ring.
fn hold(batch: &mut Batch, list: &[Sge]) {
    let begin = batch.sges.len();
    batch.sges.extend_from_slice(list);
    let end = batch.sges.len();
    batch.last(|request| request.payload = Data::Gather(begin..end));
}

extern "C" fn set_sge_list(qp: Handle<Qp>, count: usize, first: *const ibv_sge) {
    composing(qp, |_, batch| match items(first.cast::<Sge>(), count) {
        Ok(list) => hold(batch, list),
        Err(code) => batch.fail(code),
    });
}

/// Copies inline data; the program may change it after the call.
fn hold_inline(batch: &mut Batch, pieces: &[ibv_data_buf]) {
    let begin = batch.bytes.len();
    for piece in pieces {
        match items(piece.addr.cast::<u8>().cast_const(), piece.length) {
            Ok(bytes) => batch.bytes.extend_from_slice(bytes),
            Err(code) => batch.fail(code),
        }
    }
    let end = batch.bytes.len();
    batch.last(|request| request.payload = Data::Inline(begin..end));
}

extern "C" fn set_inline_data(qp: Handle<Qp>, addr: *mut c_void, length: usize) {
    composing(qp, |own, batch| {
        if !own.is_connection() {
            return hold_inline(batch, &[ibv_data_buf { addr, length }]);
        }
        match items(addr.cast::<u8>().cast_const(), length) {
            Ok(bytes) => batch.put_with(own, Payload::Inline(&[bytes])),
            Err(code) => batch.fail(code),
        }
    });
}

extern "C" fn set_inline_data_list(qp: Handle<Qp>, count: usize, first: *const ibv_data_buf) {
    composing(qp, |_, batch| match items(first, count) {
        Ok(pieces) => hold_inline(batch, pieces),
        Err(code) => batch.fail(code),
    });
}

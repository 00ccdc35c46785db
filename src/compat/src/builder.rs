//! `ibv_wr_start` to `ibv_wr_complete`: requests composed call by call.
//!
//! `start` takes the lock of senders, and `complete` or `abort` releases it. A request is put into
//! the ring once it is whole: when the next one begins, at the end, or, on connections, with its
//! data. All of them are submitted together at the end.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use uverbs_any::AnyQp;
use uverbs_core::contract::Qp as _;
use uverbs_core::types::{Operation, Placement, Remote, RemoteKey, Sge};

use crate::abi::{Slot, ibv_ah, ibv_data_buf, ibv_mw_bind_info, ibv_qp, ibv_qp_ex, ibv_sge};
use crate::batch::{Batch, What};
use crate::dv::To;
use crate::errno::{Code, set};
use crate::pointer::{Handle, In, items};
use crate::qp::Qp;
use crate::steps::{self, begin};
use crate::window::Mw;

/// Fills in the functions that headers call, for a queue pair that needs its locks, or one that
/// does not.
pub(crate) fn slots(plain: ibv_qp, needs_locks: bool) -> ibv_qp_ex {
    if needs_locks {
        slots_as::<true>(plain)
    } else {
        slots_as::<false>(plain)
    }
}

fn slots_as<const LOCKS: bool>(plain: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base: plain,
        comp_mask: 0,
        wr_id: Cell::new(0),
        wr_flags: Cell::new(0),
        wr_atomic_cmp_swp: compare_swap::<LOCKS> as Slot,
        wr_atomic_fetch_add: fetch_add::<LOCKS> as Slot,
        wr_bind_mw: bind as Slot,
        wr_local_inv: local_invalidate as Slot,
        wr_rdma_read: read::<LOCKS> as Slot,
        wr_rdma_write: write::<LOCKS> as Slot,
        wr_rdma_write_imm: write_imm::<LOCKS> as Slot,
        wr_send: send::<LOCKS> as Slot,
        wr_send_imm: send_imm::<LOCKS> as Slot,
        wr_send_inv: send_invalidate as Slot,
        wr_send_tso: send_segments as Slot,
        wr_set_ud_addr: set_ud_addr as Slot,
        wr_set_xrc_srqn: set_xrc_srqn as Slot,
        wr_set_inline_data: set_inline_data as Slot,
        wr_set_inline_data_list: set_inline_data_list as Slot,
        wr_set_sge: set_sge as Slot,
        wr_set_sge_list: set_sge_list as Slot,
        wr_start: start::<LOCKS> as Slot,
        wr_complete: complete::<LOCKS> as Slot,
        wr_abort: abort as Slot,
        wr_atomic_write: atomic_write as Slot,
        wr_flush: flush as Slot,
    }
}

/// Runs `change` on what is composed, whose lock the caller has.
fn composing(qp: Handle<Qp>, change: impl FnOnce(&Qp, &mut Batch)) {
    if let Ok(own) = qp.get() {
        own.batch.inside(|batch| change(own, batch));
    }
}

/// Begins a request that is kept.
fn keep(qp: Handle<Qp>, operation: Operation<'static>) {
    composing(qp, |own, batch| batch.keep(own, What::Plain(operation)));
}

fn remote(key: u32, address: u64) -> Remote {
    Remote {
        address,
        key: RemoteKey::from_raw(key),
    }
}

extern "C" fn start<const LOCKS: bool>(qp: Handle<Qp>) {
    let Ok(own) = qp.get() else { return };
    if !own.batch.try_open_if(LOCKS) {
        start_slowly(own);
    }
}

/// Waits for the lock.
#[cold]
extern "C" fn start_slowly(own: &Qp) {
    own.batch.open();
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

/// Most calls find each request in the ring.
extern "C" fn complete<const LOCKS: bool>(qp: Handle<Qp>) -> c_int {
    let Ok(own) = qp.get() else {
        return Code::INVALID.number();
    };
    let is_whole = (own.batch).inside(|batch| batch.steps.is_none() && batch.failed.is_none());
    if !is_whole {
        return complete_slowly(own);
    }
    own.queue.quickly_if(
        LOCKS,
        |queue| {
            queue.submit_composed().then(|| {
                own.batch.close_if(LOCKS);
                0
            })
        },
        || complete_slowly(own),
    )
}

#[inline(never)]
extern "C" fn complete_slowly(own: &Qp) -> c_int {
    let done = own.batch.inside(|batch| {
        batch.flush(own);
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

extern "C" fn send<const LOCKS: bool>(qp: Handle<Qp>) {
    begin::<steps::Send, LOCKS>(qp, 0, 0, [0; 2]);
}

extern "C" fn send_imm<const LOCKS: bool>(qp: Handle<Qp>, imm: u32) {
    begin::<steps::SendImm, LOCKS>(qp, 0, 0, [u32::from_be(imm).into(), 0]);
}

extern "C" fn send_invalidate(qp: Handle<Qp>, key: u32) {
    keep(qp, Operation::SendInvalidate(RemoteKey::from_raw(key)));
}

extern "C" fn write<const LOCKS: bool>(qp: Handle<Qp>, key: u32, address: u64) {
    begin::<steps::Write, LOCKS>(qp, key, address, [0; 2]);
}

extern "C" fn write_imm<const LOCKS: bool>(qp: Handle<Qp>, key: u32, address: u64, imm: u32) {
    begin::<steps::WriteImm, LOCKS>(qp, key, address, [u32::from_be(imm).into(), 0]);
}

extern "C" fn read<const LOCKS: bool>(qp: Handle<Qp>, key: u32, address: u64) {
    begin::<steps::Read, LOCKS>(qp, key, address, [0; 2]);
}

extern "C" fn compare_swap<const LOCKS: bool>(
    qp: Handle<Qp>,
    key: u32,
    address: u64,
    compare: u64,
    swap: u64,
) {
    begin::<steps::CompareSwap, LOCKS>(qp, key, address, [compare, swap]);
}

extern "C" fn fetch_add<const LOCKS: bool>(qp: Handle<Qp>, key: u32, address: u64, add: u64) {
    begin::<steps::FetchAdd, LOCKS>(qp, key, address, [add, 0]);
}

extern "C" fn atomic_write(qp: Handle<Qp>, key: u32, address: u64, value: In<[u8; 8]>) {
    match value.get() {
        Ok(value) => keep(
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
    keep(
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
    keep(qp, Operation::LocalInvalidate(RemoteKey::from_raw(key)));
}

extern "C" fn bind(qp: Handle<Qp>, mw: Handle<Mw>, key: u32, info: In<ibv_mw_bind_info>) {
    let binding = mw.get().and_then(|window| window.binding(info.get()?, key));
    match binding {
        Ok(binding) => composing(qp, |own, batch| batch.keep(own, What::Bind(binding))),
        Err(code) => composing(qp, |_, batch| batch.fail(code)),
    }
}

extern "C" fn send_segments(qp: Handle<Qp>, header: *mut c_void, length: u16, size: u16) {
    composing(qp, |own, batch| {
        match items(header.cast::<u8>().cast_const(), length.into()) {
            Ok(header) => batch.keep_segments(own, header, size),
            Err(code) => batch.fail(code),
        }
    });
}

extern "C" fn set_ud_addr(qp: Handle<Qp>, ah: *mut ibv_ah, qp_num: u32, qkey: u32) {
    composing(qp, |own, batch| {
        batch.send_datagram(own, Handle::of(ah), qp_num, qkey);
    });
}

extern "C" fn set_xrc_srqn(qp: Handle<Qp>, number: u32) {
    composing(qp, |own, batch| batch.send_to(own, To::Shared(number)));
}

extern "C" fn set_sge(qp: Handle<Qp>, lkey: u32, address: u64, length: u32) {
    let Ok(own) = qp.get() else { return };
    match own.batch.inside(|batch| batch.steps) {
        Some(steps) => (steps.gather)(own, lkey, address, length),
        None => no_request(own),
    }
}

/// Data without an operation before them.
#[cold]
extern "C" fn no_request(own: &Qp) {
    own.batch.inside(|batch| batch.fail(Code::INVALID));
}

extern "C" fn set_sge_list(qp: Handle<Qp>, count: usize, first: *const ibv_sge) {
    composing(qp, |own, batch| match items(first.cast::<Sge>(), count) {
        Ok(list) => batch.gather(own, list),
        Err(code) => batch.fail(code),
    });
}

extern "C" fn set_inline_data(qp: Handle<Qp>, addr: *mut c_void, length: usize) {
    let Ok(own) = qp.get() else { return };
    match own.batch.inside(|batch| batch.steps) {
        Some(steps) => (steps.inline)(own, addr, length),
        None => no_request(own),
    }
}

extern "C" fn set_inline_data_list(qp: Handle<Qp>, count: usize, first: *const ibv_data_buf) {
    composing(qp, |own, batch| match items(first, count) {
        Ok(pieces) => batch.inline(own, pieces),
        Err(code) => batch.fail(code),
    });
}

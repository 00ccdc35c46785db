//! Posting receive requests.
//!
//! # Safety
//!
//! The memory that requests name is the program's to keep registered and untouched until they have
//! completed, as the C interface says.
#![allow(unsafe_code, reason = "posts requests that name memory")]

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;

use uverbs_any::{AnyQp, AnySrq};
use uverbs_core::PostError;
use uverbs_core::contract::{Qp as _, Srq as _};
use uverbs_core::types::{LocalKey, RecvRequest, Sge};

use crate::abi::{ibv_recv_wr, ibv_sge};
use crate::answer::Answer;
use crate::errno::{Code, set};
use crate::pointer::{Handle, In, Out, items};
use crate::qp::Qp;
use crate::srq::Srq;

// A list of C's entries is read as one of the library's: field by field, they are the same.
const _: () = {
    assert!(size_of::<ibv_sge>() == size_of::<Sge>());
    assert!(align_of::<ibv_sge>() == align_of::<Sge>());
    assert!(std::mem::offset_of!(ibv_sge, addr) == std::mem::offset_of!(Sge, address));
    assert!(std::mem::offset_of!(ibv_sge, length) == std::mem::offset_of!(Sge, length));
    assert!(std::mem::offset_of!(ibv_sge, lkey) == std::mem::offset_of!(Sge, key));
    assert!(size_of::<LocalKey>() == size_of::<u32>());
};

/// The scatter/gather entries of a request.
#[inline]
pub(crate) fn entries<'a>(first: *const ibv_sge, count: c_int) -> Answer<&'a [Sge]> {
    let count = usize::try_from(count).map_err(|_| Code::INVALID)?;
    // A key is a number in host order, transparently.
    items(first.cast::<Sge>(), count)
}

/// Puts the requests of a list, from `at` on, until one is refused, submits them, and says which
/// was refused.
///
/// Nothing is left behind that was put and not submitted: a refused request was not put.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub(crate) fn post<Q>(
    queue: &mut Q,
    first: *mut ibv_recv_wr,
    mut at: *mut ibv_recv_wr,
    bad: Out<*mut ibv_recv_wr>,
    mut put: impl FnMut(&mut Q, &RecvRequest<'_>) -> Result<(), PostError>,
    submit: impl FnOnce(&mut Q) -> Result<(), PostError>,
) -> c_int {
    let mut refused = None;
    while let Ok(wr) = In::<ibv_recv_wr>::of(at).get() {
        let done = entries(wr.sg_list, wr.num_sge).and_then(|scatter| {
            let request = RecvRequest {
                wr_id: wr.wr_id,
                scatter,
            };
            put(queue, &request).map_err(Code::from)
        });
        if let Err(code) = done {
            refused = Some(code);
            break;
        }
        at = wr.next;
    }
    if let Err(error) = submit(queue) {
        at = first;
        refused = Some(error.into());
    }
    let Some(code) = refused else { return 0 };
    bad.put_if_any(at);
    set(code);
    code.number()
}

/// A request with one entry; `None` for others, and at the end of a list.
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
fn usual<'a>(at: *mut ibv_recv_wr) -> Option<RecvRequest<'a>> {
    let wr = In::<ibv_recv_wr>::of(at).get().ok()?;
    if wr.num_sge != 1 {
        return None;
    }
    let sge = In::<Sge>::of(wr.sg_list.cast_const().cast()).get().ok()?;
    Some(RecvRequest {
        wr_id: wr.wr_id,
        scatter: std::slice::from_ref(sge),
    })
}

/// The slot.
///
/// Most calls are for one request with one entry, which calls no other function; what is not like
/// that is left to another one at the end.
pub(crate) extern "C" fn post_recv(
    qp: Handle<Qp>,
    first: *mut ibv_recv_wr,
    bad: Out<*mut ibv_recv_wr>,
) -> c_int {
    let (Ok(own), Some(request)) = (qp.get(), usual(first)) else {
        return post_recvs(qp, first, bad);
    };
    if In::of(first).get().is_ok_and(|wr| !wr.next.is_null()) {
        return post_recvs(qp, first, bad);
    }
    own.queue.quickly(
        |queue| {
            // SAFETY: as `ibv_post_recv` asks, the program keeps the memory, registered and to
            // itself, until the request has completed.
            unsafe { queue.post_usual_recv(&request) }.then_some(0)
        },
        || post_recvs(qp, first, bad),
    )
}

/// Posts any requests. No panic leaves it, so that the slot need not return once more.
#[inline(never)]
extern "C" fn post_recvs(
    qp: Handle<Qp>,
    first: *mut ibv_recv_wr,
    bad: Out<*mut ibv_recv_wr>,
) -> c_int {
    let Ok(own) = qp.get() else {
        set(Code::INVALID);
        return Code::INVALID.number();
    };
    own.queue.with(|queue| {
        let at = Cell::new(first);
        let next = || {
            let wr = In::of(at.get()).get();
            at.set(wr.map_or(null_mut(), |wr: &ibv_recv_wr| wr.next));
        };
        // SAFETY: as above.
        unsafe { queue.put_recv_list(|| usual(at.get()), next) };
        post(
            queue,
            first,
            at.get(),
            bad,
            |queue, request| {
                // SAFETY: as above.
                unsafe { queue.put_recv(request) }
            },
            AnyQp::submit_recv,
        )
    })
}

/// The slot.
pub(crate) extern "C" fn post_srq_recv(
    srq: Handle<Srq>,
    first: *mut ibv_recv_wr,
    bad: Out<*mut ibv_recv_wr>,
) -> c_int {
    let Ok(own) = srq.get() else {
        set(Code::INVALID);
        return Code::INVALID.number();
    };
    own.queue.with(|queue| {
        post(
            queue,
            first,
            first,
            bad,
            |queue, request| {
                // SAFETY: as `ibv_post_recv` asks, the program keeps the memory, registered and
                // to itself, until the request has completed.
                unsafe { queue.put(request) }
            },
            AnySrq::submit,
        )
    })
}

//! Posting lists of requests one by one, with one doorbell.

use super::Qp;
use crate::error::PostError;
use crate::types::{RecvRequest, SendRequest};

/// What [`Qp::post_send`] does unless a provider has a shorter way.
///
/// # Errors
/// As there.
///
/// # Safety
/// As there.
#[allow(unsafe_code, reason = "names memory that a device will access")]
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub unsafe fn each_send<Q: Qp + ?Sized>(
    qp: &mut Q,
    requests: &[SendRequest<'_>],
) -> Result<(), (usize, PostError)> {
    // A batch that was forgotten instead of dropped must not be submitted with this one.
    qp.abort_send();
    for (posted, request) in requests.iter().enumerate() {
        // A copy, whose fields the compiler can keep in registers, unlike those of a request in
        // memory. SAFETY: the caller's promise, for each request.
        if let Err(error) = unsafe { qp.put_send(&{ *request }) } {
            qp.submit_send().map_err(|error| (0, error))?;
            return Err((posted, error));
        }
    }
    qp.submit_send().map_err(|error| (0, error))
}

/// What [`Qp::post_recv`] does unless a provider has a shorter way.
///
/// # Errors
/// As there.
///
/// # Safety
/// As there.
#[allow(unsafe_code, reason = "names memory that a device will write to")]
#[expect(clippy::inline_always, reason = "a part of posting")]
#[inline(always)]
pub unsafe fn each_recv<Q: Qp + ?Sized>(
    qp: &mut Q,
    requests: &[RecvRequest<'_>],
) -> Result<(), (usize, PostError)> {
    qp.abort_recv();
    for (posted, request) in requests.iter().enumerate() {
        // SAFETY: the caller's promise, for each request.
        if let Err(error) = unsafe { qp.put_recv(&{ *request }) } {
            qp.submit_recv().map_err(|error| (0, error))?;
            return Err((posted, error));
        }
    }
    qp.submit_recv().map_err(|error| (0, error))
}

//! Waiting for several sockets.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use super::super::sleep::uncancelled;
use super::super::{poll, select, sets};
use super::{many, number};
use crate::answer::{self, Answer};
use crate::pointer::{In, items_mut};

functions! {
    number rpoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
        poll::poll(items_mut(fds, many(count)?)?, timeout)
    }

    number rselect(
        count: c_int,
        reads: *mut u64,
        writes: *mut u64,
        excepts: *mut u64,
        timeout: In<libc::timeval>,
    ) -> c_int {
        let count = many(count)?;
        let set = |set: *mut u64| {
            let is_there = !set.is_null();
            is_there.then(|| items_mut(set, select::words(count))).transpose()
        };
        let sets = [set(reads)?, set(writes)?, set(excepts)?];
        let timeout = timeout.get().map_or(-1, |time| {
            let whole = time.tv_sec.saturating_mul(1000);
            let all = whole.saturating_add((time.tv_usec + 999) / 1000);
            c_int::try_from(all).unwrap_or(c_int::MAX)
        });
        select::select(count, sets, timeout)
    }

    number repoll_create(_flags: c_int) -> c_int {
        sets::create()
    }

    number repoll_wait(
        set: c_int,
        events: *mut libc::epoll_event,
        count: c_int,
        timeout: c_int,
    ) -> c_int {
        sets::wait(set, items_mut(events, many(count)?)?, timeout)
    }

    errno repoll_ctl(
        set: c_int,
        how: c_int,
        fd: c_int,
        event: In<libc::epoll_event>,
    ) -> c_int {
        sets::change(set, how, fd, event.get())
    }
}

/// 0, or a positive errno.
fn errno(body: impl FnOnce() -> Answer<()>) -> c_int {
    uncancelled(|| answer::number(body))
}

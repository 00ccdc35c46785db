//! `select`, by way of `poll`.

use std::ffi::c_int;

use libc::pollfd;

use super::poll;
use crate::answer::Answer;

/// Bits of a word of a set.
const BITS: usize = u64::BITS as usize;

/// A set of descriptors, of which the first so many count: C's `fd_set`, word by word.
pub(super) type Set<'a> = Option<&'a mut [u64]>;

/// Words of a set with this many descriptors.
pub(super) fn words(count: usize) -> usize {
    count.div_ceil(BITS)
}

fn has(set: &Set<'_>, at: usize) -> bool {
    let word = set.as_ref().and_then(|set| set.get(at / BITS));
    word.is_some_and(|word| word >> (at % BITS) & 1 != 0)
}

fn insert(set: &mut Set<'_>, at: usize) -> c_int {
    match set.as_mut().and_then(|set| set.get_mut(at / BITS)) {
        Some(word) => {
            *word |= 1 << (at % BITS);
            1
        }
        None => 0,
    }
}

/// What is asked for of each descriptor that is in a set.
fn asked(count: usize, sets: &[Set<'_>; 3]) -> Vec<pollfd> {
    let [reads, writes, excepts] = sets;
    let one = |at| {
        let mut events = 0;
        if has(reads, at) {
            events |= libc::POLLIN;
        }
        if has(writes, at) {
            events |= libc::POLLOUT;
        }
        let is_in = events != 0 || has(excepts, at);
        let fd = c_int::try_from(at).ok()?;
        is_in.then_some(pollfd {
            fd,
            events,
            revents: 0,
        })
    };
    (0..count).filter_map(one).collect()
}

/// Leaves in the sets what is ready: how many that are.
fn answered(fds: &[pollfd], sets: &mut [Set<'_>; 3]) -> c_int {
    for set in sets.iter_mut().flatten() {
        set.fill(0);
    }
    let [reads, writes, excepts] = sets;
    let mut count = 0;
    for fd in fds {
        let Ok(at) = usize::try_from(fd.fd) else {
            continue;
        };
        if fd.revents & (libc::POLLIN | libc::POLLHUP) != 0 {
            count += insert(reads, at);
        }
        if fd.revents & libc::POLLOUT != 0 {
            count += insert(writes, at);
        }
        if fd.revents & !(libc::POLLIN | libc::POLLOUT) != 0 {
            count += insert(excepts, at);
        }
    }
    count
}

/// Waits until one of the first `count` descriptors is ready, as `poll`.
pub(super) fn select(count: usize, mut sets: [Set<'_>; 3], timeout: c_int) -> Answer<c_int> {
    let mut fds = asked(count, &sets);
    poll::poll(&mut fds, timeout)?;
    Ok(answered(&fds, &mut sets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_become_events_and_back() {
        let (mut reads, mut writes) = ([1_u64 << 3, 1 << 6], [1_u64 << 3, 0]);
        let sets = [Some(&mut reads[..]), Some(&mut writes[..]), None];
        let mut fds = asked(128, &sets);
        let seen: Vec<_> = fds.iter().map(|fd| (fd.fd, fd.events)).collect();
        assert_eq!(
            seen,
            [(3, libc::POLLIN | libc::POLLOUT), (70, libc::POLLIN)]
        );
        assert_eq!(asked(70, &sets).len(), 1);
        fds[1].revents = libc::POLLHUP;
        fds[0].revents = libc::POLLOUT;
        let mut sets = sets;
        assert_eq!(answered(&fds, &mut sets), 2);
        assert_eq!((reads, writes), ([0, 1 << 6], [1 << 3, 0]));
        assert_eq!((words(0), words(1), words(64), words(65)), (0, 1, 1, 2));
    }
}

//! Locks that are taken in one call and released in another, and what they protect.
//!
//! # Safety
//!
//! The value of a [`Locked`] is accessed only while its lock is held, so by one thread at a time. A
//! lock that is not needed is one for which the program promised that no two threads use the object
//! at the same time (a completion queue created single-threaded, a thread domain,
//! `MLX5_SINGLE_THREADED`); its promise takes the lock's place.
#![allow(unsafe_code, reason = "lends a value to the holder of a lock")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a waiting thread looks before it lets others run.
const PATIENCE: u32 = 64;

/// A lock without an owner.
#[derive(Debug)]
pub(crate) struct RawLock {
    taken: AtomicBool,
    needed: bool,
}

impl RawLock {
    pub(crate) const fn new(needed: bool) -> Self {
        Self {
            taken: AtomicBool::new(false),
            needed,
        }
    }

    #[inline]
    pub(crate) fn lock(&self) {
        if !self.needed {
            return;
        }
        let free = || {
            self.taken
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        if !free() {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        while self.taken.swap(true, Ordering::Acquire) {
            while self.taken.load(Ordering::Relaxed) {
                looks += 1;
                if looks % PATIENCE == 0 {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
            }
        }
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        if self.needed {
            self.taken.store(false, Ordering::Release);
        }
    }
}

/// A value behind a lock.
#[derive(Debug)]
pub(crate) struct Locked<T> {
    lock: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Sync for Locked<T> {}

/// Releases the lock, also when a panic passes.
struct Held<'a>(&'a RawLock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl<T> Locked<T> {
    pub(crate) const fn new(value: T, needed: bool) -> Self {
        Self {
            lock: RawLock::new(needed),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `body` with the value.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.lock.lock();
        let _held = Held(&self.lock);
        // SAFETY: the lock is held.
        body(unsafe { &mut *self.value.get() })
    }

    /// Takes the lock for several calls.
    #[inline]
    pub(crate) fn open(&self) {
        self.lock.lock();
    }

    /// Releases the lock that [`open`](Self::open) took.
    #[inline]
    pub(crate) fn close(&self) {
        self.lock.unlock();
    }

    /// Runs `body` with the value, between [`open`](Self::open) and [`close`](Self::close): the
    /// functions of C that do so are for the holder of the lock alone.
    #[inline]
    pub(crate) fn inside<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: C calls this only from the thread that opened it, and not from within itself.
        body(unsafe { &mut *self.value.get() })
    }

    /// Runs `body` with two values, which may be the same one.
    pub(crate) fn with_both<R>(&self, other: &Self, body: impl FnOnce(&T, &T) -> R) -> R {
        let (one, two) = (std::ptr::from_ref(self), std::ptr::from_ref(other));
        if std::ptr::eq(one, two) {
            return self.with(|value| body(value, value));
        }
        // The order is the same for everyone who takes both.
        if one < two {
            self.with(|first| other.with(|second| body(first, second)))
        } else {
            other.with(|second| self.with(|first| body(first, second)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        let count = Locked::new(0_u32, true);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        count.with(|count| *count += 1);
                    }
                });
            }
        });
        assert_eq!(count.with(|count| *count), 4000);
    }

    #[test]
    fn a_panic_releases_the_lock() {
        let value = Locked::new((), true);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            value.with(|()| panic!("a fault"));
        }));
        assert!(caught.is_err());
        value.with(|()| ());
    }

    #[test]
    fn one_value_twice_is_locked_once() {
        let value = Locked::new(5, true);
        assert_eq!(value.with_both(&value, |one, two| one + two), 10);
    }
}

//! Locks that are taken in one call and released in another, and what they protect.
//!
//! # Safety
//!
//! The value of a [`Locked`] is accessed only while its lock is held, so by one thread at a time. A
//! lock that is not needed is one for which the program promised that no two threads use the object
//! at the same time (a completion queue created single-threaded, a thread domain,
//! `MLX5_SINGLE_THREADED`); its promise takes the lock's place. Functions that do not ask whether a
//! lock is needed are given to C in objects that have such locks only, and C calls an object's
//! functions with that object.
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
        if !self.try_lock() {
            self.wait();
        }
    }

    /// Takes it if it is free.
    #[inline]
    fn try_lock(&self) -> bool {
        !self.needed || self.try_take()
    }

    /// The same for one that is needed.
    #[inline]
    fn try_take(&self) -> bool {
        self.taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
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
        self.unlock_if(self.needed);
    }

    #[inline]
    fn unlock_if(&self, needed: bool) {
        if needed {
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
struct Held<'a, N: Fn(&RawLock) -> bool>(&'a RawLock, N);

impl<N: Fn(&RawLock) -> bool> Drop for Held<'_, N> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock_if((self.1)(self.0));
    }
}

/// Whether a lock is needed, as it says itself.
#[inline]
const fn asked(lock: &RawLock) -> bool {
    lock.needed
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
        let _held = Held(&self.lock, asked);
        // SAFETY: the lock is held.
        body(unsafe { &mut *self.value.get() })
    }

    /// Runs `body` with the value if nobody else has it, and `otherwise`, without the lock, if
    /// somebody has it or `body` comes to nothing.
    ///
    /// Each way has an end of its own: the code need not remember which one it took.
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    pub(crate) fn quickly<R>(
        &self,
        body: impl FnOnce(&mut T) -> Option<R>,
        otherwise: impl FnOnce() -> R,
    ) -> R {
        self.quickly_by(asked, body, otherwise)
    }

    /// The same by functions of C that are given out only with locks that are `needed`, or only
    /// with those that are not, which therefore do not ask.
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    pub(crate) fn quickly_if<R>(
        &self,
        needed: bool,
        body: impl FnOnce(&mut T) -> Option<R>,
        otherwise: impl FnOnce() -> R,
    ) -> R {
        debug_assert_eq!(needed, self.lock.needed);
        self.quickly_by(move |_| needed, body, otherwise)
    }

    /// The same with whatever says whether the lock is needed: it is asked again instead of kept.
    #[expect(clippy::inline_always, reason = "a part of posting and polling")]
    #[inline(always)]
    fn quickly_by<R>(
        &self,
        needed: impl Fn(&RawLock) -> bool,
        body: impl FnOnce(&mut T) -> Option<R>,
        otherwise: impl FnOnce() -> R,
    ) -> R {
        if needed(&self.lock) && !self.lock.try_take() {
            return otherwise();
        }
        let held = Held(&self.lock, needed);
        // SAFETY: the lock is held, or not needed.
        if let Some(done) = body(unsafe { &mut *self.value.get() }) {
            drop(held);
            done
        } else {
            drop(held);
            otherwise()
        }
    }

    /// Takes the lock for several calls.
    #[inline]
    pub(crate) fn open(&self) {
        self.lock.lock();
    }

    /// Takes the lock for several calls if it is free, or not `needed`, which is known as in
    /// [`quickly_if`](Self::quickly_if). Whether it was.
    #[inline]
    pub(crate) fn try_open_if(&self, needed: bool) -> bool {
        debug_assert_eq!(needed, self.lock.needed);
        !needed || self.lock.try_take()
    }

    /// Releases what [`try_open_if`](Self::try_open_if) took.
    #[inline]
    pub(crate) fn close_if(&self, needed: bool) {
        self.lock.unlock_if(needed);
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
    fn a_lock_that_is_taken_is_not_waited_for() {
        let value = Locked::new(5, true);
        let got = |value: &Locked<i32>| value.quickly(|value| Some(*value), || 0);
        assert_eq!(got(&value), 5);
        assert!(value.try_open_if(true));
        assert!(!value.try_open_if(true));
        assert_eq!(got(&value), 0);
        value.close();
        assert_eq!(got(&value), 5);
        let again = value.quickly(|_| None, || value.with(|value| *value + 1));
        assert_eq!(again, 6, "the lock was released first");
        let unlocked = Locked::new(7, false);
        assert!(unlocked.try_open_if(false));
        assert_eq!(got(&unlocked), 7);
    }

    #[test]
    fn one_value_twice_is_locked_once() {
        let value = Locked::new(5, true);
        assert_eq!(value.with_both(&value, |one, two| one + two), 10);
    }
}

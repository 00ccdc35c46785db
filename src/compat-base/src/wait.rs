//! Counting the events that a program has acknowledged, and waiting for it.
//!
//! # Safety
//!
//! Mutexes and conditions are the C library's, in structs whose size programs know. They are
//! initialised where they stay (in the object's box) before the program gets the object, and are
//! never moved.
#![allow(unsafe_code, reason = "calls pthread functions")]

use std::cell::{Cell, UnsafeCell};

/// `pthread_mutex_t`, at its place.
#[repr(transparent)]
pub struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

/// `pthread_cond_t`, at its place.
#[repr(transparent)]
pub struct Condition(UnsafeCell<libc::pthread_cond_t>);

impl Default for Mutex {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Condition {
    fn default() -> Self {
        Self::new()
    }
}

impl Mutex {
    /// An unlocked one.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    fn lock(&self) {
        // SAFETY: initialised by its constant, and at its place.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    fn unlock(&self) {
        // SAFETY: this thread has locked it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

impl Condition {
    /// One that nobody waits for.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER))
    }
}

/// Adds acknowledged events to a count.
pub fn acknowledge(mutex: &Mutex, condition: &Condition, count: &Cell<u32>, events: u32) {
    mutex.lock();
    count.set(count.get().wrapping_add(events));
    // SAFETY: initialised by its constant, and at its place.
    unsafe { libc::pthread_cond_signal(condition.0.get()) };
    mutex.unlock();
}

/// Waits until as many events were acknowledged as the kernel delivered, for each count.
pub fn until_acknowledged(mutex: &Mutex, condition: &Condition, counts: &[(&Cell<u32>, u32)]) {
    mutex.lock();
    while counts
        .iter()
        .any(|(count, delivered)| count.get() != *delivered)
    {
        // SAFETY: both are initialised, and this thread has locked the mutex.
        unsafe { libc::pthread_cond_wait(condition.0.get(), mutex.0.get()) };
    }
    mutex.unlock();
}

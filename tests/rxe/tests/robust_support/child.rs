//! Forked children that run part of a test.
//!
//! # Safety
//!
//! A test process has one thread when it forks, or threads that hold no lock a child takes.
#![allow(unsafe_code, reason = "forks")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// The exit code of a child that succeeded.
const DONE: i32 = 0;

/// A running child.
#[derive(Debug)]
pub(crate) struct Forked(Pid);

/// Runs `part` in a child and waits for its end. A panic there is a panic here.
pub(crate) fn in_child(part: impl FnOnce()) {
    start(part).join();
}

/// Runs `part` in a child, which is killed when this thread ends.
pub(crate) fn start(part: impl FnOnce()) -> Forked {
    // SAFETY: see the module.
    match unsafe { fork() }.expect("a process can be forked") {
        ForkResult::Parent { child } => Forked(child),
        ForkResult::Child => {
            // A test that fails leaves none behind.
            set_pdeathsig(Signal::SIGKILL).expect("a signal");
            let done = catch_unwind(AssertUnwindSafe(part));
            // SAFETY: ends the child at once, without what the harness would do at exit.
            unsafe { nix::libc::_exit(if done.is_ok() { DONE } else { 1 }) }
        }
    }
}

impl Forked {
    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        self.0
    }

    /// Lets it go on after it has stopped itself.
    pub(crate) fn go_on(&self) {
        let status = waitpid(self.0, Some(WaitPidFlag::WUNTRACED));
        assert_eq!(status, Ok(WaitStatus::Stopped(self.0, Signal::SIGSTOP)));
        kill(self.0, Signal::SIGCONT).expect("the child is there");
    }

    /// Kills it.
    pub(crate) fn kill(self) {
        kill(self.0, Signal::SIGKILL).expect("the child is there");
        assert!(matches!(
            self.wait(),
            WaitStatus::Signaled(_, Signal::SIGKILL, _)
        ));
    }

    /// Waits until it has succeeded.
    pub(crate) fn join(self) {
        let status = self.wait();
        assert_eq!(
            status,
            WaitStatus::Exited(self.0, DONE),
            "the child failed (its words are above)"
        );
    }

    /// Waits until it has succeeded, or aborted because it could not allocate memory.
    pub(crate) fn joined_or_aborted(self) -> bool {
        match self.wait() {
            WaitStatus::Signaled(_, Signal::SIGABRT, _) => false,
            status => {
                assert_eq!(status, WaitStatus::Exited(self.0, DONE), "the child failed");
                true
            }
        }
    }

    /// Waits until it died of accessing unmapped memory.
    pub(crate) fn died_of_fault(self) {
        let status = self.wait();
        assert!(
            matches!(status, WaitStatus::Signaled(_, Signal::SIGSEGV, _)),
            "{status:?}"
        );
    }

    fn wait(&self) -> WaitStatus {
        let since = Instant::now();
        loop {
            match waitpid(self.0, Some(WaitPidFlag::WNOHANG)).expect("the child is there") {
                WaitStatus::StillAlive => {
                    assert!(since.elapsed() < Duration::from_secs(60), "the child hangs");
                    std::thread::sleep(Duration::from_millis(1));
                }
                status => return status,
            }
        }
    }
}

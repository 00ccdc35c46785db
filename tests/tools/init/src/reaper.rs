//! Waits for every process of the guest: those of commands, and the orphans that process 1
//! inherits.

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The only code that waits for processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaper(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The receivers of exit statuses by process. Held while a process is started, so that none is
    /// reaped before it is entered here.
    waiting: Mutex<HashMap<i32, Sender<WaitStatus>>>,
    started: Condvar,
}

impl Reaper {
    /// Starts waiting, in a thread of its own.
    pub(crate) fn start() -> Self {
        let reaper = Self::default();
        let shared = Arc::clone(&reaper.0);
        std::thread::spawn(move || shared.reap());
        reaper
    }

    /// Starts a process; the receiver gets its status when it ends.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<(Child, Receiver<WaitStatus>)> {
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let (sender, receiver) = channel();
        waiting.insert(child.id().cast_signed(), sender);
        self.0.started.notify_one();
        Ok((child, receiver))
    }
}

impl Shared {
    fn reap(&self) {
        loop {
            // The process stays a zombie (WNOWAIT), so as not to interfere with a `spawn` that
            // failed and waits for its own child.
            let ended = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match ended.map(|status| status.pid()) {
                Ok(Some(pid)) => Self::take(waiting, pid),
                Err(Errno::ECHILD) => {
                    // There is no child: the next one is started under the lock that is released
                    // here.
                    drop(
                        self.started
                            .wait(waiting)
                            .unwrap_or_else(PoisonError::into_inner),
                    );
                }
                Ok(None) | Err(_) => {}
            }
        }
    }

    fn take(mut waiting: std::sync::MutexGuard<'_, HashMap<i32, Sender<WaitStatus>>>, pid: Pid) {
        if let Ok(status) = waitpid(pid, Some(WaitPidFlag::WNOHANG))
            && let Some(sender) = waiting.remove(&pid.as_raw())
        {
            let _ = sender.send(status);
        }
    }
}

//! The host's commands: starting, feeding, watching and ending them.

mod input;
mod start;

use crate::channel::Outgoing;
use crate::exec;
use crate::kernel_log::KernelLog;
use crate::reaper::Reaper;
use guest_init::{Ending, Event, Launch, WindowSize};
use input::Input;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The commands of this boot.
#[derive(Debug)]
pub(crate) struct Commands {
    outgoing: Outgoing,
    log: Arc<KernelLog>,
    reaper: Reaper,
    running: Arc<Mutex<HashMap<u32, Running>>>,
}

/// What the host can still do with a running command.
#[derive(Debug)]
struct Running {
    pid: Pid,
    input: Option<Input>,
}

impl Commands {
    pub(crate) fn new(outgoing: Outgoing, log: Arc<KernelLog>) -> Self {
        Self {
            outgoing,
            log,
            reaper: Reaper::start(),
            running: Arc::default(),
        }
    }

    /// Starts a command; an event reports its end.
    pub(crate) fn launch(&self, launch: &Launch) {
        let since = Instant::now();
        let id = launch.id;
        let started = match start::start(launch, &self.reaper, &self.outgoing) {
            Ok(started) => started,
            Err(error) => {
                let ending = Ending::NotStarted(error.to_string());
                self.outgoing.send(&Event::Ended {
                    id,
                    ending,
                    elapsed_us: 0,
                });
                return;
            }
        };
        let pid = Pid::from_raw(started.child.id().cast_signed());
        self.running().insert(
            id,
            Running {
                pid,
                input: started.input,
            },
        );
        let (log, outgoing, running) = (
            Arc::clone(&self.log),
            self.outgoing.clone(),
            Arc::clone(&self.running),
        );
        let timeout = launch.timeout_ms.map(Duration::from_millis);
        thread::spawn(move || {
            let ending = watch(id, &started.ended, timeout);
            let elapsed_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
            running
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&id);
            for carrier in started.carriers {
                let _ = carrier.join();
            }
            log.drain_whole();
            outgoing.send(&Event::Ended {
                id,
                ending,
                elapsed_us,
            });
        });
    }

    /// Writes to a command's input.
    pub(crate) fn input(&self, id: u32, data: Vec<u8>) {
        if let Some(input) = self
            .running()
            .get(&id)
            .and_then(|running| running.input.as_ref())
        {
            input.write(data);
        }
    }

    pub(crate) fn close_input(&self, id: u32) {
        if let Some(running) = self.running().get_mut(&id) {
            running.input = None;
        }
    }

    pub(crate) fn signal(&self, id: u32, signal: i32) {
        if let (Some(running), Ok(signal)) = (self.running().get(&id), Signal::try_from(signal)) {
            let _ = kill(running.pid, signal);
        }
    }

    pub(crate) fn resize(&self, id: u32, size: WindowSize) {
        if let Some(input) = self
            .running()
            .get(&id)
            .and_then(|running| running.input.as_ref())
        {
            input.resize(size);
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u32, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a command ends, or ends it; afterwards nothing that it started is left.
fn watch(id: u32, ended: &Receiver<WaitStatus>, timeout: Option<Duration>) -> Ending {
    let group = exec::cgroup(id);
    let status = match timeout {
        Some(timeout) => ended.recv_timeout(timeout),
        None => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    let _ = fs::write(format!("{group}/cgroup.kill"), "1");
    let ending = match status {
        Ok(WaitStatus::Exited(_, code)) => not_started(id).unwrap_or(Ending::Code(code)),
        Ok(WaitStatus::Signaled(_, signal, _)) => Ending::Signal(signal as i32),
        Ok(other) => Ending::NotStarted(format!("an ending that is none: {other:?}")),
        Err(_) => {
            let _ = ended.recv();
            Ending::TimedOut
        }
    };
    let _ = fs::remove_file(exec::complaint(id));
    // Busy until the last of its processes is reaped; an empty group left behind does no harm.
    let _ = fs::remove_dir(group);
    ending
}

/// Why the command could not be started, if that is why its process ended.
fn not_started(id: u32) -> Option<Ending> {
    let text = fs::read_to_string(exec::complaint(id)).ok()?;
    (!text.is_empty()).then_some(Ending::NotStarted(text))
}

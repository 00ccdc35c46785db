//! Runs a program and stops it at each of its system calls, to record those on RDMA descriptors
//! with all of their bytes.
//!
//! # Safety
//!
//! Between fork and exec only one `ptrace(2)` call is made.
#![allow(unsafe_code, reason = "asks to be traced between fork and exec")]

mod cm;
mod memory;
mod stop;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::raw::Call;
use stop::Entry;

/// Runs `command` to its end and writes one line per call to `out`; returns the exit code.
///
/// # Errors
/// A program that cannot be started, a kernel that does not permit tracing it, an `out` that fails.
pub fn record(command: &mut Command, out: &mut dyn Write) -> anyhow::Result<i32> {
    // SAFETY: see the module.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().context("starting the program")?;
    let first = Pid::from_raw(i32::try_from(child.id())?);
    match waitpid(first, None)? {
        WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
        other => bail!("the program began with {other:?}"),
    }
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_EXITKILL
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC;
    ptrace::setoptions(first, options).context("tracing the program")?;
    ptrace::syscall(first, None)?;
    follow(first, out)
}

/// Goes from stop to stop until every thread has ended.
fn follow(first: Pid, out: &mut dyn Write) -> anyhow::Result<i32> {
    let mut inside: BTreeMap<Pid, Option<Entry>> = BTreeMap::new();
    let mut code = 0;
    loop {
        let status = match waitpid(None, Some(WaitPidFlag::__WALL)) {
            Ok(status) => status,
            Err(Errno::ECHILD) => return Ok(code),
            Err(error) => return Err(error.into()),
        };
        let (pid, signal) = match status {
            WaitStatus::Exited(pid, ended) => {
                inside.remove(&pid);
                if pid == first {
                    code = ended;
                }
                continue;
            }
            WaitStatus::Signaled(pid, signal, _) => {
                inside.remove(&pid);
                if pid == first {
                    code = 128 + signal as i32;
                }
                continue;
            }
            WaitStatus::PtraceSyscall(pid) => {
                if let Some(entry) = inside.remove(&pid) {
                    if let Some(call) = entry.and_then(|entry| entry.leave(pid)) {
                        write(&call, out)?;
                    }
                } else {
                    inside.insert(pid, Entry::new(pid));
                }
                (pid, None)
            }
            // A new thread's first stop is this signal, which must not be delivered.
            WaitStatus::PtraceEvent(pid, ..)
            | WaitStatus::Stopped(pid, Signal::SIGSTOP | Signal::SIGTRAP) => (pid, None),
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            _ => continue,
        };
        match ptrace::syscall(pid, signal) {
            // It was killed meanwhile.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn write(call: &Call, out: &mut dyn Write) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, call)?;
    writeln!(out)?;
    Ok(())
}

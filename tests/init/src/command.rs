//! The host's commands: started, fed, watched, ended.

use crate::channel::Outgoing;
use crate::exec;
use crate::kernel_log::KernelLog;
use crate::reaper::Reaper;
use crate::terminal;
use guest_init::{Bytes, Ending, Event, Launch, Stream, Terminal, WindowSize};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The commands of this boot.
#[derive(Debug)]
pub(crate) struct Commands {
    outgoing: Outgoing,
    log: Arc<KernelLog>,
    reaper: Reaper,
    running: Arc<Mutex<HashMap<u32, Running>>>,
}

/// What the host can still do to a running command.
#[derive(Debug)]
struct Running {
    pid: Pid,
    input: Option<File>,
}

/// A command that was started, and the threads that carry its words.
#[derive(Debug)]
struct Started {
    child: Child,
    ended: Receiver<WaitStatus>,
    input: Option<File>,
    readers: Vec<JoinHandle<()>>,
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

    /// Starts a command; its end is told by an event.
    pub(crate) fn launch(&self, launch: Launch) {
        let since = Instant::now();
        let id = launch.id;
        let started = match start(&launch, &self.reaper, &self.outgoing) {
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
        thread::spawn(move || {
            let ending = watch(
                id,
                &started.ended,
                launch.timeout_ms.map(Duration::from_millis),
            );
            running
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&id);
            let elapsed_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
            for reader in started.readers {
                let _ = reader.join();
            }
            log.drain();
            outgoing.send(&Event::Ended {
                id,
                ending,
                elapsed_us,
            });
        });
    }

    /// Writes to the standard input of a command. One that does not read holds the host's requests up no longer than it runs.
    pub(crate) fn input(&self, id: u32, data: Vec<u8>) {
        let input = self
            .running()
            .get(&id)
            .and_then(|running| running.input.as_ref()?.try_clone().ok());
        if let Some(mut input) = input {
            let _ = input.write_all(&data);
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
            let _ = terminal::resize(input, size);
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u32, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(launch: &Launch, reaper: &Reaper, outgoing: &Outgoing) -> io::Result<Started> {
    fs::create_dir_all(exec::cgroup(launch.id))?;
    let text = serde_json::to_string(launch)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("exec").arg(text);
    let id = launch.id;
    if let Terminal::Pty(size) = launch.terminal {
        let pair = terminal::open(size)?;
        command
            .stdin(pair.slave.try_clone()?)
            .stdout(pair.slave.try_clone()?)
            .stderr(pair.slave);
        let (child, ended) = reaper.spawn(&mut command)?;
        // Our copies of the other end go with the command, so that reading ends when the last process lets go of it.
        drop(command);
        let reader = forward(
            File::from(pair.master.try_clone()?),
            id,
            Stream::Stdout,
            outgoing,
        );
        return Ok(Started {
            child,
            ended,
            input: Some(File::from(pair.master)),
            readers: vec![reader],
        });
    }
    let piped = matches!(launch.terminal, Terminal::Pipe);
    command
        .stdin(if piped { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (mut child, ended) = reaper.spawn(&mut command)?;
    let mut readers = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        readers.push(forward(stdout, id, Stream::Stdout, outgoing));
    }
    if let Some(stderr) = child.stderr.take() {
        readers.push(forward(stderr, id, Stream::Stderr, outgoing));
    }
    let input = child
        .stdin
        .take()
        .map(|stdin| File::from(OwnedFd::from(stdin)));
    Ok(Started {
        child,
        ended,
        input,
        readers,
    })
}

fn forward(
    mut from: impl Read + Send + 'static,
    id: u32,
    stream: Stream,
    outgoing: &Outgoing,
) -> JoinHandle<()> {
    let outgoing = outgoing.clone();
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(length) if length > 0 => {
                    let data = Bytes(buffer.get(..length).unwrap_or_default().to_vec());
                    outgoing.send(&Event::Output { id, stream, data });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal that everyone let go of answers EIO.
                Ok(_) | Err(_) => return,
            }
        }
    })
}

/// Waits for the end of a command, or makes it end; then nothing that it started is left.
fn watch(id: u32, ended: &Receiver<WaitStatus>, timeout: Option<Duration>) -> Ending {
    let group = exec::cgroup(id);
    let end_all = || fs::write(format!("{group}/cgroup.kill"), "1");
    let status = match timeout {
        Some(timeout) => ended.recv_timeout(timeout),
        None => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    let _ = end_all();
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

/// Why the command could not be started, when that is how the helper ended.
fn not_started(id: u32) -> Option<Ending> {
    fs::read_to_string(exec::complaint(id))
        .ok()
        .filter(|text| !text.is_empty())
        .map(Ending::NotStarted)
}

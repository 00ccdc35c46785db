//! How a command gets its process and its streams.

use super::input::Input;
use crate::channel::Outgoing;
use crate::reaper::Reaper;
use crate::{exec, terminal};
use guest_init::{Bytes, Event, Launch, Stream, Terminal, WindowSize};
use nix::sys::wait::WaitStatus;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

/// A command that was started, and the threads that carry its output.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) ended: Receiver<WaitStatus>,
    pub(super) input: Option<Input>,
    pub(super) carriers: Vec<JoinHandle<()>>,
}

/// Starts a command.
pub(super) fn start(launch: &Launch, reaper: &Reaper, outgoing: &Outgoing) -> io::Result<Started> {
    fs::create_dir_all(exec::cgroup(launch.id))?;
    let text = serde_json::to_string(launch)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("exec").arg(text);
    match launch.terminal {
        Terminal::None => with_pipes(command.stdin(Stdio::null()), launch.id, reaper, outgoing),
        Terminal::Pipe => with_pipes(command.stdin(Stdio::piped()), launch.id, reaper, outgoing),
        Terminal::Pty(size) => with_terminal(command, size, launch.id, reaper, outgoing),
    }
}

fn with_pipes(
    command: &mut Command,
    id: u32,
    reaper: &Reaper,
    outgoing: &Outgoing,
) -> io::Result<Started> {
    let (mut child, ended) = reaper.spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let mut carriers = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        carriers.push(forward(stdout, id, Stream::Stdout, outgoing));
    }
    if let Some(stderr) = child.stderr.take() {
        carriers.push(forward(stderr, id, Stream::Stderr, outgoing));
    }
    let input = child
        .stdin
        .take()
        .map(|stdin| Input::pipe(File::from(OwnedFd::from(stdin))));
    Ok(Started {
        child,
        ended,
        input,
        carriers,
    })
}

fn with_terminal(
    mut command: Command,
    size: WindowSize,
    id: u32,
    reaper: &Reaper,
    outgoing: &Outgoing,
) -> io::Result<Started> {
    let pair = terminal::open(size)?;
    command
        .stdin(pair.slave.try_clone()?)
        .stdout(pair.slave.try_clone()?)
        .stderr(pair.slave);
    let (child, ended) = reaper.spawn(&mut command)?;
    // Close our copies of the command's ends, so that reading ends when its last process closes
    // them.
    drop(command);
    let master = File::from(pair.master);
    let carrier = forward(master.try_clone()?, id, Stream::Stdout, outgoing);
    Ok(Started {
        child,
        ended,
        input: Some(Input::terminal(master)?),
        carriers: vec![carrier],
    })
}

/// Sends a command's output to the host until every writer has closed it.
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
                // A terminal that every process has closed answers EIO.
                Ok(_) | Err(_) => return,
            }
        }
    })
}

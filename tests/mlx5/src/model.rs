//! The software ConnectX's control socket, from inside the guest.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the model may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The variable that names the port.
const VARIABLE: &str = "UVERBS_TEST_CONNECTX";

/// The model behind the functions of this machine.
#[derive(Debug)]
pub struct Model {
    port: File,
    /// Received bytes of answers that have not been consumed yet.
    rest: Vec<u8>,
}

impl Model {
    /// Connects to it.
    pub fn open() -> Self {
        let path = std::env::var(VARIABLE).unwrap_or_else(|_| {
            panic!("{VARIABLE} is not set (these tests run in a machine: cargo xtask test --level mlx5)")
        });
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits();
        let port = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(i32::try_from(nonblocking).expect("a small flag"))
            .open(&path)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut model = Self {
            port,
            rest: Vec::new(),
        };
        // Discards what was left by a process that did not wait for its answer.
        while model.read_some() > 0 {}
        model.rest.clear();
        model
    }

    /// Sends one query (`help` of the control socket lists them) and returns the first line of the
    /// answer.
    pub fn ask(&mut self, question: &str) -> String {
        let line = format!("{question}\n");
        self.port
            .write_all(line.as_bytes())
            .expect("the model listens");
        let since = Instant::now();
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return String::from_utf8_lossy(&line).trim().to_owned();
            }
            assert!(since.elapsed() < PATIENCE, "{question}: no answer");
            self.wait();
            self.read_some();
        }
    }

    /// Sends a command that must be answered with `ok`.
    pub fn make(&mut self, command: &str) {
        assert_eq!(self.ask(command), "ok", "{command}");
    }

    fn wait(&self) {
        let mut ports = [PollFd::new(&self.port, PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        // It does not matter whether there is data: the caller checks the clock.
        let _ = poll(&mut ports, Some(&moment));
    }

    fn read_some(&mut self) -> usize {
        let mut bytes = [0; 4096];
        match self.port.read(&mut bytes) {
            Ok(length) => {
                self.rest.extend_from_slice(&bytes[..length]);
                length
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("the model cannot be heard: {error}"),
        }
    }
}

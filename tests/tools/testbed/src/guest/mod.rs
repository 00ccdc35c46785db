//! A running machine.

mod child;
mod command;
pub mod complaints;
mod link;
mod output;

pub use child::Child;
pub use command::Command;
pub use output::Output;

use crate::Error;
use crate::connectx::Server;
use crate::qemu::Paths;
use guest_init::{LogLine, Request};
use link::Link;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a machine may take to power itself off.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(20);

/// A running machine; it is killed when dropped.
#[derive(Debug)]
pub struct Guest {
    link: Arc<Link>,
    next: AtomicU32,
    boot_time: Duration,
    machine: std::process::Child,
    // Dropped after the machine, which must not see its functions disappear.
    connectx: Option<Server>,
    _folder: TempDir,
}

impl Guest {
    /// Waits until a started machine is ready.
    pub(crate) fn meet(
        machine: std::process::Child,
        connectx: Option<Server>,
        folder: TempDir,
        paths: &Paths,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let since = Instant::now();
        // Constructed before anything can fail, so that a machine is never left running.
        let mut guest = Self {
            link: Arc::new(Link::new(paths)),
            next: AtomicU32::new(1),
            boot_time: Duration::ZERO,
            machine,
            connectx,
            _folder: folder,
        };
        guest.link.connect(&mut guest.machine, since + timeout)?;
        guest.link.wait_until_ready(since + timeout)?;
        guest.boot_time = since.elapsed();
        Ok(guest)
    }

    /// Time from the start of QEMU until commands could be run.
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// `uname -r` of the guest.
    pub fn release(&self) -> String {
        self.link.ready(|ready| ready.release.clone())
    }

    /// Whether the two hosts of [`Topology::TwoHosts`](crate::Topology::TwoHosts) are separate
    /// network namespaces; otherwise they share the initial one.
    pub fn has_separate_namespaces(&self) -> bool {
        self.link.ready(|ready| ready.separate_namespaces)
    }

    /// The server of the machine's software ConnectX functions.
    ///
    /// # Errors
    /// The machine was booted without any.
    pub fn connectx(&self) -> Result<&Server, Error> {
        self.connectx.as_ref().ok_or_else(|| Error::Connectx {
            what: "is not part of this machine".into(),
            said: String::new(),
        })
    }

    /// Starts a command. Several may run at the same time.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn spawn(&self, command: impl Into<Command>) -> Result<Child, Error> {
        Child::start(
            &self.link,
            self.next.fetch_add(1, Ordering::Relaxed),
            command.into(),
        )
    }

    /// Runs a command to its end, whether it succeeds or not; [`Output::check`] tells which.
    ///
    /// # Errors
    /// The machine is gone or hangs.
    pub fn run(&self, command: impl Into<Command>) -> Result<Output, Error> {
        let output = self.spawn(command).and_then(Child::wait);
        output.map_err(|error| self.connectx_is_gone().unwrap_or(error))
    }

    /// The last output of a server that ended, and with it the machine's functions.
    fn connectx_is_gone(&self) -> Option<Error> {
        self.connectx.as_ref()?.ask("help").err()
    }

    /// The kernel log so far.
    pub fn kernel_log(&self) -> Vec<LogLine> {
        self.link.log_since(0)
    }

    /// The end of the machine's console: what the kernel printed last, even if it died.
    pub fn console_tail(&self) -> String {
        self.link.console_tail()
    }

    /// Powers the machine off.
    ///
    /// # Errors
    /// It does not power off within 20 s; it is then killed.
    pub fn power_off(mut self) -> Result<(), Error> {
        self.link.send(&Request::PowerOff)?;
        let deadline = Instant::now() + POWER_OFF_TIMEOUT;
        while Instant::now() < deadline {
            if matches!(self.machine.try_wait(), Ok(Some(_))) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(self.link.broken("did not power itself off"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !matches!(self.machine.try_wait(), Ok(Some(_))) {
            let _ = self.machine.kill();
            let _ = self.machine.wait();
        }
    }
}

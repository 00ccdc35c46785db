//! The result of a command.

use crate::Error;
use guest_init::{Ending, LogLine};
use std::time::Duration;

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its command line.
    pub command: String,
    /// How it ended.
    pub ending: Ending,
    /// What it wrote to its standard output, or its terminal.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// From its start to its end, by the guest's clock.
    pub elapsed: Duration,
    /// What the kernel logged meanwhile.
    pub kernel: Vec<LogLine>,
}

impl Output {
    /// Whether it exited with code 0.
    pub fn success(&self) -> bool {
        self.ending == Ending::Code(0)
    }

    /// Its exit code, if it exited with one.
    pub fn code(&self) -> Option<i32> {
        match self.ending {
            Ending::Code(code) => Some(code),
            _ => None,
        }
    }

    /// Its standard output as text.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard error as text.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// How it ended, in words.
    pub fn ending_text(&self) -> String {
        match &self.ending {
            Ending::Code(code) => format!("exit code {code}"),
            Ending::Signal(signal) => format!("killed by signal {signal}"),
            Ending::NotStarted(why) => why.clone(),
            Ending::TimedOut => format!(
                "killed after {:.1} s, its time limit",
                self.elapsed.as_secs_f64()
            ),
        }
    }

    /// Returns itself if it exited with code 0.
    ///
    /// # Errors
    /// [`Error::Command`] with its output if it ended in any other way.
    pub fn check(self) -> Result<Self, Error> {
        if self.success() {
            return Ok(self);
        }
        let output = self.stdout_text() + &self.stderr_text();
        Err(Error::Command {
            ending: self.ending_text(),
            command: self.command,
            output,
        })
    }
}

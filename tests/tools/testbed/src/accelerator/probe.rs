//! Boots a kernel up to its first program, and reports the result.

use super::{Accelerator, Answer};
use crate::qemu::{self, Parts, Paths};
use crate::{Error, Kernel, cargo, image};
use guest_init::{PROBE, PROBED};
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Whether this QEMU boots the kernel with this accelerator within this time.
///
/// # Errors
/// It cannot be tried: the kernel, or the program for it to start, is missing.
pub fn probe(
    qemu: &[String],
    kernel: Kernel,
    accelerator: Accelerator,
    patience: Duration,
) -> Result<Answer, Error> {
    Trial::prepare(qemu, kernel)?.run(accelerator, patience)
}

/// A machine like all others, whose process 1 prints that it runs and does nothing else.
#[derive(Debug)]
pub(super) struct Trial {
    parts: Parts,
    image: PathBuf,
    release: String,
    paths: Paths,
    _folder: TempDir,
}

impl Trial {
    pub(super) fn prepare(qemu: &[String], kernel: Kernel) -> Result<Self, Error> {
        let init = cargo::guest_init(kernel.processor())?;
        let files = kernel.files()?;
        let folder = tempfile::Builder::new().prefix("testbed-").tempdir();
        let folder = folder.map_err(Error::file("making a folder in", std::env::temp_dir()))?;
        let paths = Paths::in_folder(folder.path());
        let mut tree = image::base(None)?;
        tree.program("/init", &init);
        tree.write(&paths.image)?;
        let mut parts = Parts::new(kernel.processor());
        parts.qemu = Some(qemu.to_vec());
        // Problems that the kernel finds before it has a console are worth showing.
        let arguments = ["earlyprintk=serial", "--", PROBE];
        parts.kernel_arguments = arguments.map(str::to_owned).to_vec();
        Ok(Self {
            parts,
            image: files.image,
            release: files.release,
            paths,
            _folder: folder,
        })
    }

    /// `uname -r` of the kernel.
    pub(super) fn release(&self) -> &str {
        &self.release
    }

    pub(super) fn run(
        &self,
        accelerator: Accelerator,
        patience: Duration,
    ) -> Result<Answer, Error> {
        let mut command = qemu::command(&self.parts, accelerator, &self.image, &self.paths)?;
        let started = qemu::spawn(&mut command, &self.paths);
        let outcome = match started {
            Ok(machine) => self.watch(machine, patience),
            Err(error) => Err(format!("QEMU did not start: {error}")),
        };
        Ok(match outcome {
            Ok(()) => Answer::Boots(self.release.clone()),
            Err(why) => Answer::DoesNot(one_line(&why)),
        })
    }

    /// Waits for the message of process 1, the end of the machine, or the timeout.
    fn watch(&self, mut machine: Child, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        let ended = loop {
            // In this order, so that output written before the end is seen.
            let ended = machine.try_wait().map_err(|error| error.to_string())?;
            if self.console().contains(PROBED) || ended.is_some() || Instant::now() > until {
                break ended;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let _ = machine.kill();
        let _ = machine.wait();
        let console = self.console();
        if console.contains(PROBED) {
            return Ok(());
        }
        let last = console.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map_or("its console is empty".into(), |line| {
            format!("the last line of its console is: {line}")
        });
        Err(match ended {
            Some(status) => {
                let said = fs::read_to_string(&self.paths.errors).unwrap_or_default();
                let said = said.lines().next().unwrap_or(&last).to_owned();
                format!("QEMU ends early ({status}): {said}")
            }
            None => format!(
                "Linux {} has not come up within {} s; {last}",
                self.release,
                patience.as_secs()
            ),
        })
    }

    fn console(&self) -> String {
        let bytes = fs::read(&self.paths.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

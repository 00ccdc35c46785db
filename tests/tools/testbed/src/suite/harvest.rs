//! Files that tests wrote in the guest, copied to the host.

use crate::{Command, Error, Guest};
use std::fs;
use std::path::PathBuf;

/// What to copy, with which program, and where to.
#[derive(Clone, Debug)]
pub(super) struct Harvest {
    program: String,
    guest: String,
    here: PathBuf,
}

impl Harvest {
    pub(super) fn new(program: &str, guest: &str, here: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            guest: guest.into(),
            here: here.into(),
        }
    }

    /// Copies all files of the folder; it is an error if there are none.
    pub(super) fn bring(&self, guest: &Guest) -> Result<(), Error> {
        let print = |path: &str| guest.run(Command::new(&self.program).arg(path))?.check();
        let names = print(&self.guest)?.stdout_text();
        for name in names.lines() {
            let bytes = print(&format!("{}/{name}", self.guest))?.stdout;
            let path = self.free_name(name)?;
            fs::write(&path, bytes).map_err(Error::file("writing", &path))?;
        }
        Ok(())
    }

    /// Machines run one after another and use the same file names. No file on the host is ever
    /// replaced.
    fn free_name(&self, name: &str) -> Result<PathBuf, Error> {
        let entries = fs::read_dir(&self.here).map_err(Error::file("reading", &self.here))?;
        Ok(self.here.join(format!("{}-{name}", entries.count())))
    }
}

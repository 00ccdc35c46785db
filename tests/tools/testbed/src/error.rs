//! Errors on the host's side.

use std::fmt::Display;
use std::path::PathBuf;

/// Something that the testbed could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program is missing on the host and could not be installed.
    #[error("{what} is missing; type: {install}")]
    Missing {
        /// A description of what is missing.
        what: String,
        /// The command that installs it.
        install: String,
    },
    /// A program of the host failed.
    #[error("{program} failed ({status}):\n{output}")]
    Program {
        /// Its command line.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of its output.
        output: String,
    },
    /// A file or folder could not be read or written.
    #[error("{doing} {}: {cause}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// There is no kernel of this name.
    #[error("there is no kernel named {name:?}; there are: {known}")]
    UnknownKernel {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// There is no accelerator of this name.
    #[error("there is no accelerator named {name:?}; there are: auto, kvm, tcg")]
    Accelerator {
        /// The name.
        name: String,
    },
    /// Debian's packages are not as expected.
    #[error("{what}: {why}")]
    Packages {
        /// What was looked for.
        what: String,
        /// What was found instead.
        why: String,
    },
    /// The machine did not boot, hung, or died.
    #[error("the machine {what}\n--- the end of its console ---\n{console}")]
    Machine {
        /// What happened.
        what: String,
        /// The end of its console.
        console: String,
    },
    /// The software ConnectX of the machine has ended, or the machine has none.
    #[error("the software ConnectX {what}\n{said}")]
    Connectx {
        /// What happened.
        what: String,
        /// The server's output.
        said: String,
    },
    /// A command in the guest did not succeed.
    #[error("{command}: {ending}\n--- output ---\n{output}")]
    Command {
        /// Its command line.
        command: String,
        /// How it ended.
        ending: String,
        /// Its output.
        output: String,
    },
    /// Something that was waited for did not happen.
    #[error("{what} did not come within {seconds} s\n--- output ---\n{output}")]
    Silence {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: f32,
        /// The output until then.
        output: String,
    },
}

impl Error {
    /// For `map_err`: an error of a file operation.
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |cause| Self::File { doing, path, cause }
    }

    pub(crate) fn packages(what: impl Into<String>, why: impl Display) -> Self {
        Self::Packages {
            what: what.into(),
            why: why.to_string(),
        }
    }
}

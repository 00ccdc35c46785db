//! What can go wrong on the host's side.

use std::fmt::Display;
use std::path::PathBuf;

/// What the testbed could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program of the host is missing and could not be installed.
    #[error("{what} is missing; type: {install}")]
    Missing {
        /// What is missing, in words.
        what: String,
        /// The command that installs it.
        install: String,
    },
    /// A program of the host failed.
    #[error("{program} failed ({status}):\n{output}")]
    Program {
        /// Its command line.
        program: String,
        /// How it ended.
        status: String,
        /// The end of what it wrote.
        output: String,
    },
    /// A file or folder could not be read or written.
    #[error("{doing} {}: {cause}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// No kernel goes by that name.
    #[error("there is no kernel named {name:?}; there are: {known}")]
    UnknownKernel {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Nothing that runs machines goes by that name.
    #[error("nothing that runs machines is named {name:?}; there are: auto, kvm, tcg")]
    Accelerator {
        /// The name.
        name: String,
    },
    /// Debian's packages are not what they are expected to be.
    #[error("{what}: {why}")]
    Packages {
        /// What was looked for.
        what: String,
        /// What was found instead.
        why: String,
    },
    /// The machine did not come up, hung, or died.
    #[error("the machine {what}\n--- the end of its console ---\n{console}")]
    Machine {
        /// What happened.
        what: String,
        /// The end of its console.
        console: String,
    },
    /// The software ConnectX of the machine is gone, or the machine has none.
    #[error("the software ConnectX {what}\n{said}")]
    Connectx {
        /// What happened.
        what: String,
        /// What its server wrote.
        said: String,
    },
    /// A command in the guest did not end well.
    #[error("{command}: {ending}\n--- output ---\n{output}")]
    Command {
        /// Its command line.
        command: String,
        /// How it ended.
        ending: String,
        /// What it wrote.
        output: String,
    },
    /// Something that was waited for did not come.
    #[error("{what} did not come within {seconds} s\n--- output ---\n{output}")]
    Silence {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: f32,
        /// What came instead.
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

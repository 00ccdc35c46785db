//! Programs that are stopped at each of their system calls.
//!
//! # Safety
//!
//! Between fork and exec only one `ptrace(2)` call is made.
#![allow(unsafe_code, reason = "asks to be traced between fork and exec")]

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::libc::user_regs_struct;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use syscalls::Sysno;

/// `RDMA_VERBS_IOCTL`.
const RDMA_VERBS_IOCTL: u64 = 0xc018_1b01;

/// A program's file in the machine.
#[derive(Debug)]
pub(crate) struct Program(PathBuf);

/// A stopped program.
#[derive(Debug)]
pub(crate) struct Traced {
    child: Child,
    pid: Pid,
    inside: bool,
    /// The first argument of the system call that it is in: some processors afterwards have the
    /// result in its place.
    first: u64,
}

/// What the registers say about a system call: its number, its arguments and, once it was made, its
/// result.
struct Registers {
    number: u64,
    args: [u64; 3],
    result: u64,
}

/// A system call that a program is about to make, or has just made.
#[derive(Clone, Debug)]
pub(crate) struct SystemCall {
    /// Its number.
    pub(crate) number: Sysno,
    /// Its arguments.
    pub(crate) args: [u64; 3],
    /// The object and the method of a verbs command.
    pub(crate) command: Option<(u16, u16)>,
    /// The result; `None` if it has not been made yet.
    pub(crate) result: Option<i64>,
}

impl Program {
    /// A helper of this package, which the test runner copied into the machine.
    pub(crate) fn named(name: &str) -> Self {
        let path = Path::new("/usr/local/bin").join(name);
        assert!(
            path.exists(),
            "{} is missing: the test runner lays it down",
            path.display()
        );
        Self(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The command that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.0);
        command.stdout(Stdio::null()).env("RUST_BACKTRACE", "0");
        command
    }

    /// Starts it, stopped before its first instruction.
    pub(crate) fn trace(&self) -> Traced {
        self.trace_with(&[])
    }

    /// The same with arguments.
    pub(crate) fn trace_with(&self, args: &[&str]) -> Traced {
        let mut command = self.command();
        command.args(args);
        // SAFETY: see the module.
        unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
        let child = command.spawn().expect("the helper starts");
        let pid = Pid::from_raw(child.id().try_into().expect("a process number"));
        let status = waitpid(pid, None).expect("the helper is there");
        assert_eq!(
            status,
            WaitStatus::Stopped(pid, Signal::SIGTRAP),
            "stopped by exec"
        );
        let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(pid, options).expect("it can be traced");
        Traced {
            child,
            pid,
            inside: false,
            first: 0,
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl From<user_regs_struct> for Registers {
    fn from(regs: user_regs_struct) -> Self {
        Self {
            number: regs.orig_rax,
            args: [regs.rdi, regs.rsi, regs.rdx],
            result: regs.rax,
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl From<user_regs_struct> for Registers {
    fn from(regs: user_regs_struct) -> Self {
        let [first, second, third, ..] = regs.regs;
        Self {
            number: regs.regs[8],
            args: [first, second, third],
            result: first,
        }
    }
}

impl Traced {
    /// Continues to the next entry into, or return from, a system call. `None` if the program has
    /// ended.
    pub(crate) fn step(&mut self) -> Option<SystemCall> {
        ptrace::syscall(self.pid, None).expect("the helper is stopped");
        match waitpid(self.pid, None).expect("the helper is there") {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Exited(_, code) => {
                assert_eq!(code, 0, "the helper failed");
                return None;
            }
            other => panic!("the helper was stopped by {other:?}"),
        }
        self.inside = !self.inside;
        let regs = ptrace::getregs(self.pid).expect("its registers can be read");
        let mut regs = Registers::from(regs);
        if self.inside {
            self.first = regs.args[0];
        }
        regs.args[0] = self.first;
        let number = usize::try_from(regs.number).ok().and_then(Sysno::new);
        let number = number.unwrap_or_else(|| panic!("system call {}", regs.number));
        let [_, request, header] = regs.args;
        let command = (number == Sysno::ioctl && request == RDMA_VERBS_IOCTL)
            .then(|| self.command_at(header));
        Some(SystemCall {
            number,
            args: regs.args,
            command,
            result: (!self.inside).then_some(regs.result.cast_signed()),
        })
    }

    /// Length, object and method are the first three 16-bit words of the header.
    fn command_at(&self, address: u64) -> (u16, u16) {
        let address =
            std::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("an address"));
        let word = ptrace::read(self.pid, address).expect("the header can be read");
        let [_, _, o0, o1, m0, m1, ..] = word.to_ne_bytes();
        (u16::from_ne_bytes([o0, o1]), u16::from_ne_bytes([m0, m1]))
    }

    /// Kills it where it stopped.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the helper is there");
        self.child.wait().expect("the helper ends");
    }

    /// Lets it continue untraced.
    pub(crate) fn detach(self) -> Child {
        ptrace::detach(self.pid, None).expect("the helper is stopped");
        self.child
    }
}

impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        if let Some((object, method)) = self.command {
            write!(f, " object {object:#x} method {method:#x}")?;
        } else {
            let [a, b, c] = self.args;
            write!(f, "({a:#x}, {b:#x}, {c:#x})")?;
        }
        match self.result {
            Some(result) => write!(f, " = {result}"),
            None => Ok(()),
        }
    }
}

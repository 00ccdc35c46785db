//! The exact encoding of the commands, on a kernel that records calls.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that panics has failed"
)]

mod contracts;
mod destroys;
mod encodings;
mod fields;
mod files;
mod gids;
mod paths;
mod pending;
mod posting;
mod refusals;
mod removal;
mod replies;
mod requests;
#[cfg(not(miri))]
mod unanswered;

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;

use crate::error::Errno;
use crate::file::{CommandPath, UverbsFile};
use crate::sys::recorder::{Record, Recorder, Sink};
use crate::sys::{Attr, Call, Command, Kernel, Mapping, Reply, Uhw, Value, WriteCommand};

/// Records every call as a line and answers from a table.
///
/// `ioctl 3/0 0:new 1:in4=16 5:const=0 6:out4 3:-` is a method with its attributes (`-` is not
/// sent), `invoke 18 in32 out8` and `write 18 in32 out8` are legacy commands (`x` before the
/// number: extended), ` uhw 4/16` is driver data.
#[derive(Debug, Default)]
struct Script {
    lines: Mutex<Vec<String>>,
    /// The request of the last legacy command.
    request: Mutex<Vec<u8>>,
    /// The errno of calls whose line starts with this text.
    refuse: Vec<(&'static str, Errno)>,
    /// What is written to outputs: by `object/method:attribute` or by the number of a legacy
    /// command.
    replies: HashMap<&'static str, Vec<u8>>,
    /// Create methods do not return a handle.
    no_handles: bool,
    /// Legacy commands without a reply here return zeros.
    zeros: bool,
    /// No output is written.
    silent: bool,
    /// The results of reads, the last one first; without any, a read fills the buffer.
    reads: Mutex<Vec<Result<usize, Errno>>>,
    /// The bytes of a mapping, whatever was asked for.
    mapped: Option<usize>,
}

const NEW_HANDLE: u32 = 7;

impl Script {
    fn new() -> Self {
        Self::default()
    }

    fn refusing(mut self, line: &'static str, errno: Errno) -> Self {
        self.refuse.push((line, errno));
        self
    }

    fn replying(mut self, to: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        self.replies.insert(to, bytes.into());
        self
    }

    fn with_zeros(mut self) -> Self {
        self.zeros = true;
        self
    }

    fn reading(self, results: &[Result<usize, Errno>]) -> Self {
        let reads = results.iter().rev().copied().collect();
        Self {
            reads: Mutex::new(reads),
            ..self
        }
    }

    fn mapping(mut self, len: usize) -> Self {
        self.mapped = Some(len);
        self
    }

    fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    fn without_handles(mut self) -> Self {
        self.no_handles = true;
        self
    }

    fn fill(&self, key: &str, cells: &[Cell<u8>]) {
        for (cell, byte) in cells
            .iter()
            .zip(self.replies.get(key).into_iter().flatten())
        {
            cell.set(*byte);
        }
    }

    fn note(&self, line: String) -> Result<(), Errno> {
        let refusal = self
            .refuse
            .iter()
            .find(|(start, _)| line.starts_with(start));
        let result = refusal.map_or(Ok(()), |(_, errno)| Err(*errno));
        self.lines.lock().unwrap().push(line);
        result
    }

    fn method(&self, command: &Command<'_>) -> Result<(), Errno> {
        if (command.object, command.method) == (0, 0) {
            return self.invoke(command);
        }
        let mut line = format!("ioctl {}/{}", command.object, command.method);
        for attr in command.attrs {
            write!(line, " {}", describe(attr)).unwrap();
        }
        line += &describe_uhw(&command.uhw);
        self.note(line)?;
        for attr in command.attrs {
            match &attr.value {
                Value::Out(cells, written) => {
                    written.set(!self.silent);
                    self.fill(
                        &format!("{}/{}:{}", command.object, command.method, attr.id),
                        cells,
                    );
                }
                Value::NewObject(handle) if !self.no_handles => handle.set(NEW_HANDLE),
                Value::NewFd(fd) if !self.no_handles => fd.set(Some(null())),
                _ => {}
            }
        }
        Ok(())
    }

    fn invoke(&self, command: &Command<'_>) -> Result<(), Errno> {
        let (mut number, mut input, mut output) = (0, [].as_slice(), [].as_slice());
        for attr in command.attrs {
            match (attr.id, &attr.value) {
                (2, Value::Constant(value)) => number = u32::try_from(*value).unwrap(),
                (0, Value::In(bytes, _)) => input = bytes,
                (1, Value::Out(cells, written)) => {
                    written.set(!self.silent);
                    output = cells;
                }
                (0 | 1, Value::Absent) => {}
                other => panic!("no attribute of INVOKE_WRITE: {other:?}"),
            }
        }
        self.legacy("invoke", number, input, output, &command.uhw)
    }

    fn legacy(
        &self,
        how: &str,
        number: u32,
        input: &[u8],
        output: &[Cell<u8>],
        uhw: &Uhw<'_>,
    ) -> Result<(), Errno> {
        let extended = if number & 0x8000_0000 == 0 { "" } else { "x" };
        let key = format!("{extended}{}", number & 0xff);
        let mut line = format!("{how} {key} in{}", input.len());
        if !output.is_empty() {
            write!(line, " out{}", output.len()).unwrap();
        }
        line += &describe_uhw(uhw);
        *self.request.lock().unwrap() = input.to_vec();
        self.note(line)?;
        // Zero is a valid handle, but also standard input: not for commands that return
        // descriptors.
        if self.zeros && !matches!(number, 0 | 17) {
            for cell in output {
                cell.set(0);
            }
        }
        self.fill(&key, output);
        Ok(())
    }
}

#[expect(unsafe_code, reason = "promises fresh descriptors")]
// SAFETY: the descriptors in its replies are created for the calling test, which owns them.
unsafe impl Kernel for Script {
    unsafe fn call(&self, _: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        match call {
            Call::Ioctl(command) => self.method(command)?,
            Call::Write(command) => {
                let WriteCommand {
                    request,
                    reply,
                    uhw,
                    ..
                } = command;
                self.legacy("write", command.number(), request, reply, uhw)?;
            }
            Call::Read(buffer) => {
                let read = self.reads.lock().unwrap().pop();
                self.fill("read", buffer);
                return read.unwrap_or(Ok(buffer.len())).map(Reply::Read);
            }
            Call::Map { .. } => {
                let len = self.mapped.ok_or(Errno::NOSYS)?;
                return Mapping::anonymous(len).map(Reply::Mapped);
            }
            Call::Cm(_) => return Err(Errno::NOSYS),
        }
        Ok(Reply::Done)
    }
}

fn describe(attr: &Attr<'_>) -> String {
    let optional = if attr.mandatory { "" } else { "?" };
    let value = match &attr.value {
        Value::Absent => "-".to_owned(),
        Value::In(bytes, _) if bytes.len() <= 8 => {
            let number = crate::sys::number(bytes).unwrap();
            format!("in{}={number}", bytes.len())
        }
        Value::In(bytes, _) => format!("in{}", bytes.len()),
        Value::Out(cells, _) => format!("out{}", cells.len()),
        Value::Constant(value) => format!("const={value:#x}"),
        Value::Enum(element, payload) => format!("enum{element}+{}", payload.len()),
        Value::Object(handle) => format!("obj={handle}"),
        Value::NewObject(_) => "new".to_owned(),
        Value::Fd(_) => "fd".to_owned(),
        Value::NewFd(_) => "newfd".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{}{optional}:{value}", attr.id)
}

fn describe_uhw(uhw: &Uhw<'_>) -> String {
    if uhw.input.is_empty() && uhw.output.is_empty() {
        return String::new();
    }
    format!(" uhw {}/{}", uhw.input.len(), uhw.output.len())
}

fn null() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

/// Prints the commands for the runner, bypassing the harness, which would capture them.
#[derive(Debug)]
struct Outlines;

impl Sink for Outlines {
    fn record(&self, record: &Record) {
        if let Some(outline) = record.outline() {
            let line = format!("seen: {outline}\n");
            std::io::stdout().write_all(line.as_bytes()).unwrap();
        }
    }
}

/// A file on a script.
struct Bench {
    script: Arc<Script>,
    file: UverbsFile,
}

impl Bench {
    fn new(script: Script) -> Self {
        Self::on_path(script, CommandPath::Auto)
    }

    #[expect(unsafe_code, reason = "relies on a script having no effects")]
    fn on_path(script: Script, path: CommandPath) -> Self {
        let script = Arc::new(script);
        let kernel: Arc<dyn Kernel> = Arc::<Script>::clone(&script);
        let kernel = if std::env::var_os("UVERBS_TEST_SEEN").is_some() {
            Arc::new(Recorder::new(kernel, Arc::new(Outlines)))
        } else {
            kernel
        };
        // SAFETY: (1) the script accepts calls on every descriptor; (2, 3) it carries nothing out.
        let file = unsafe { UverbsFile::new(kernel, null(), RDMA_DRIVER_RXE, path) };
        Self { script, file }
    }

    /// The lines since the last look.
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.script.lines.lock().unwrap())
    }

    /// The one line since the last look.
    fn line(&self) -> String {
        let lines = self.lines();
        assert_eq!(lines.len(), 1, "one system call: {lines:?}");
        lines.into_iter().next().unwrap()
    }

    fn request(&self) -> Vec<u8> {
        self.script.request.lock().unwrap().clone()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

//! A kernel that records calls, and answers by a script: for tests of single methods.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use uverbs_core::file::CommandPath;
use uverbs_core::hw::Register;
use uverbs_core::sys::recorder::{Record, Recorder, Sink};
use uverbs_core::sys::{Attr, Call, Command, Kernel, Mapping, Reply, Value};
use uverbs_core::{Errno, UverbsFile};
use uverbs_uapi::ib_user_ioctl_cmds::{UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_UHW_IN};
use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_MLX5;
use uverbs_uapi::ib_user_verbs::{ib_uverbs_ex_query_device_resp, ib_uverbs_query_device_resp};
use uverbs_uapi::mlx5_abi::{mlx5_ib_alloc_ucontext_resp, mlx5_ib_query_device_resp};
use uverbs_uapi::mlx5_user_ioctl_cmds::MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX;
use zerocopy::IntoBytes as _;

use crate::context::{Context, ProtectionDomain};

/// The kernel. Handles count from 1.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    lines: Mutex<Vec<String>>,
    handles: Mutex<u32>,
    refusals: Mutex<Vec<(String, Errno)>>,
    inputs: Mutex<Vec<(u16, Vec<u8>)>>,
    driver_reply: Mutex<Vec<u8>>,
    outputs: Mutex<Vec<(u16, Vec<u8>)>>,
    reads: Mutex<VecDeque<Result<Vec<u8>, Errno>>>,
    descriptors: Mutex<VecDeque<OwnedFd>>,
    pages: Mutex<Vec<u64>>,
    deaf: Mutex<bool>,
}

/// The kernel's replies about a context and its device, and the driver's about the latter.
pub(crate) struct Replies {
    pub(crate) opened: mlx5_ib_alloc_ucontext_resp,
    pub(crate) device: ib_uverbs_ex_query_device_resp,
    pub(crate) caps: mlx5_ib_query_device_resp,
}

impl Scripted {
    #[expect(unsafe_code, reason = "promises that a script does no harm")]
    pub(crate) fn new() -> (Arc<Self>, Arc<UverbsFile>) {
        let script = Arc::new(Self::default());
        let kernel: Arc<dyn Kernel> = Arc::<Self>::clone(&script);
        let kernel = if std::env::var_os("UVERBS_TEST_SEEN").is_some() {
            Arc::new(Recorder::new(kernel, Arc::new(Outlines)))
        } else {
            kernel
        };
        let fd = File::open("/dev/null").unwrap().into();
        // SAFETY: (1) the script accepts calls on every descriptor; (2, 3) it carries nothing out.
        let file = unsafe { UverbsFile::new(kernel, fd, RDMA_DRIVER_MLX5, CommandPath::Auto) };
        (script, Arc::new(file))
    }

    /// A context of a device with so much memory of its own, which has no doorbells of its own.
    pub(crate) fn context(max_dm_size: u64) -> (Arc<Self>, Context) {
        Self::context_with(|replies| replies.device.max_dm_size = max_dm_size)
    }

    /// A context of such a device without memory, for which the kernel's replies were changed.
    pub(crate) fn context_with(change: impl FnOnce(&mut Replies)) -> (Arc<Self>, Context) {
        let (script, file) = Self::new();
        let opened = mlx5_ib_alloc_ucontext_resp {
            cache_line_size: 64,
            max_sq_desc_sz: 1024,
            max_rq_desc_sz: 512,
            max_send_wqebb: 32768,
            max_recv_wr: 32768,
            num_ports: 1,
            cqe_version: 1,
            ..mlx5_ib_alloc_ucontext_resp::default()
        };
        let device = ib_uverbs_ex_query_device_resp {
            response_length: u32::try_from(size_of::<ib_uverbs_ex_query_device_resp>()).unwrap(),
            base: ib_uverbs_query_device_resp {
                max_qp_wr: 32768,
                max_sge: 30,
                max_srq_wr: 32767,
                max_srq_sge: 30,
                ..ib_uverbs_query_device_resp::default()
            },
            ..ib_uverbs_ex_query_device_resp::default()
        };
        let mut replies = Replies {
            opened,
            device,
            caps: mlx5_ib_query_device_resp::default(),
        };
        change(&mut replies);
        let opened = replies.opened.as_bytes();
        script.answer(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, opened);
        script.answer(UVERBS_ATTR_CORE_OUT, replies.device.as_bytes());
        script.answer_by_driver(replies.caps.as_bytes());
        let context = Context::import(file).unwrap();
        script.outputs.lock().unwrap().clear();
        script.answer_by_driver(&[]);
        script.take_calls();
        (script, context)
    }

    /// A protection domain with a handle of its own.
    pub(crate) fn pd(&self, context: &Context) -> ProtectionDomain {
        self.answer(UVERBS_ATTR_CORE_OUT, &0x9d_u32.to_ne_bytes());
        ProtectionDomain::alloc(&context.base.file).unwrap()
    }

    /// Refuses calls that begin with this text, from now on.
    pub(crate) fn refuse(&self, start: &str, errno: Errno) {
        self.refusals
            .lock()
            .unwrap()
            .push((start.to_owned(), errno));
    }

    /// Writes `bytes` to the driver's replies, from now on.
    pub(crate) fn answer_by_driver(&self, bytes: &[u8]) {
        *self.driver_reply.lock().unwrap() = bytes.to_vec();
    }

    /// Stops refusing calls.
    pub(crate) fn accept(&self) {
        self.refusals.lock().unwrap().clear();
    }

    /// Writes `bytes` to outputs with this id, from now on.
    pub(crate) fn answer(&self, id: u16, bytes: &[u8]) {
        let mut outputs = self.outputs.lock().unwrap();
        outputs.retain(|(known, _)| *known != id);
        outputs.push((id, bytes.to_vec()));
    }

    /// Answers the next read from a descriptor; without one, reads would block.
    pub(crate) fn answer_read(&self, answer: Result<&[u8], Errno>) {
        let answer = answer.map(<[u8]>::to_vec);
        self.reads.lock().unwrap().push_back(answer);
    }

    /// Hands out this descriptor next; without one, descriptors are of `/dev/null`.
    pub(crate) fn hand_out(&self, fd: impl Into<OwnedFd>) {
        self.descriptors.lock().unwrap().push_back(fd.into());
    }

    /// Fills pages that are mapped from now on with these words.
    pub(crate) fn fill_pages(&self, words: &[u64]) {
        *self.pages.lock().unwrap() = words.to_vec();
    }

    /// Returns no handles, and no descriptors.
    pub(crate) fn without_handles(&self) {
        *self.deaf.lock().unwrap() = true;
    }

    /// The calls since the last time: `object/method id:value …`, with ids counted from the
    /// driver's first.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    /// The inputs with this id since the last time; those of the driver have `UVERBS_ATTR_UHW_IN`.
    pub(crate) fn take_inputs(&self, id: u16) -> Vec<Vec<u8>> {
        let mut inputs = self.inputs.lock().unwrap();
        let (taken, left) = std::mem::take(&mut *inputs)
            .into_iter()
            .partition(|(of, _)| *of == id);
        *inputs = left;
        let taken: Vec<(u16, Vec<u8>)> = taken;
        taken.into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn method(&self, command: &Command<'_>) -> Result<(), Errno> {
        let mut line = format!("{}/{}", short(command.object), short(command.method));
        let for_driver = (UVERBS_ATTR_UHW_IN, command.uhw.input.to_vec());
        self.inputs.lock().unwrap().push(for_driver);
        for attr in command.attrs.iter().chain(command.uhw.attrs) {
            if let Value::In(bytes, _) = &attr.value {
                let input = (attr.id, bytes.to_vec());
                self.inputs.lock().unwrap().push(input);
            }
            if !matches!(attr.value, Value::Absent) {
                write!(line, " {}", describe(attr)).unwrap();
            }
        }
        self.record(line)?;
        let driver_reply = self.driver_reply.lock().unwrap();
        for (cell, byte) in command.uhw.output.iter().zip(&*driver_reply) {
            cell.set(*byte);
        }
        for attr in command.attrs.iter().chain(command.uhw.attrs) {
            match &attr.value {
                Value::NewObject(slot) if !*self.deaf.lock().unwrap() => {
                    let mut handles = self.handles.lock().unwrap();
                    *handles += 1;
                    slot.set(*handles);
                }
                Value::NewFd(slot) if !*self.deaf.lock().unwrap() => {
                    let next = self.descriptors.lock().unwrap().pop_front();
                    let null = || File::open("/dev/null").unwrap().into();
                    slot.set(Some(next.unwrap_or_else(null)));
                }
                Value::Out(cells, written) => {
                    let outputs = self.outputs.lock().unwrap();
                    let bytes = outputs.iter().find(|(id, _)| *id == attr.id);
                    for (cell, byte) in cells.iter().zip(bytes.iter().flat_map(|(_, b)| b)) {
                        cell.set(*byte);
                    }
                    written.set(true);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Scripted {
    /// Records a call, and refuses it if it is one of those.
    fn record(&self, line: String) -> Result<(), Errno> {
        let refusals = self.refusals.lock().unwrap();
        let refusal = refusals.iter().find(|(start, _)| line.starts_with(start));
        let result = refusal.map_or(Ok(()), |(_, errno)| Err(*errno));
        self.lines.lock().unwrap().push(line);
        result
    }

    fn read(&self, cells: &[Cell<u8>]) -> Result<usize, Errno> {
        let next = self.reads.lock().unwrap().pop_front();
        let bytes = next.unwrap_or(Err(Errno::AGAIN))?;
        for (cell, byte) in cells.iter().zip(&bytes) {
            cell.set(*byte);
        }
        Ok(bytes.len())
    }
}

// SAFETY: the descriptors that it returns are new ones.
#[allow(unsafe_code, reason = "is a kernel")]
unsafe impl Kernel for Scripted {
    unsafe fn call(&self, _: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        match call {
            Call::Ioctl(command) => self.method(command).map(|()| Reply::Done),
            Call::Map { offset, len, .. } => {
                self.record(format!("map {offset:#x} {len}"))?;
                let page = Arc::new(Mapping::anonymous(len)?);
                for (at, word) in self.pages.lock().unwrap().iter().enumerate() {
                    let place = Register::new(Arc::clone(&page), at * 8, 8);
                    place.unwrap().store(*word);
                }
                Ok(Reply::Mapped(Arc::into_inner(page).unwrap()))
            }
            Call::Read(cells) => self.read(cells).map(Reply::Read),
            _ => Err(Errno::NOSYS),
        }
    }
}

/// Ids of the driver as `+0`, `+1`, …
fn short(id: u16) -> String {
    match id.checked_sub(0x1000) {
        Some(own) => format!("+{own}"),
        None => id.to_string(),
    }
}

fn describe(attr: &Attr<'_>) -> String {
    let value = match &attr.value {
        Value::In(bytes, _) if bytes.len() <= 16 => {
            let digits = bytes.iter().fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            });
            format!("in={digits}")
        }
        Value::In(bytes, _) => format!("in{}", bytes.len()),
        Value::Out(cells, _) => format!("out{}", cells.len()),
        Value::Constant(value) => format!("const={value:#x}"),
        Value::Enum(element, payload) => format!("enum{element}={payload:?}"),
        Value::Object(handle) => format!("obj={handle}"),
        Value::Objects(handles) => format!("objs={handles:?}"),
        Value::NewObject(_) => "new".to_owned(),
        Value::Fd(_) => "fd".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{}:{value}", short(attr.id))
}

/// Prints the calls for the runner, bypassing the harness, which would capture them.
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

//! What happened, as JSON lines: commands, work requests, doorbells, completions, events and
//! reports.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::layout::command::op;

/// Where trace lines go.
pub struct Trace {
    sink: Option<Mutex<Box<dyn Write + Send>>>,
    counts: Mutex<BTreeMap<u16, u64>>,
    echo: bool,
}

impl Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("writes", &self.sink.is_some())
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// A trace that writes nothing; reports still go to standard error if `echo` is set.
    #[must_use]
    pub fn silent(echo: bool) -> Self {
        Self {
            sink: None,
            counts: Mutex::default(),
            echo,
        }
    }

    /// A trace that writes JSON lines to `sink`.
    #[must_use]
    pub fn to(sink: Box<dyn Write + Send>, echo: bool) -> Self {
        Self {
            sink: Some(Mutex::new(sink)),
            ..Self::silent(echo)
        }
    }

    fn line(&self, value: &Value) {
        if let Some(sink) = &self.sink {
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            // A trace that cannot be written must not disturb the device.
            let _ = writeln!(sink, "{value}");
            let _ = sink.flush();
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// One command with its whole input and reply.
    pub(crate) fn command(&self, function: usize, opcode: u16, input: &[u8], output: &[u8]) {
        *self
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(opcode)
            .or_insert(0) += 1;
        let status = output.first().copied().unwrap_or(0);
        if self.echo && status != 0 {
            eprintln!(
                "connectx: function {function}: {} ({opcode:#x}) refused, status {status:#x}, syndrome {:#x}",
                op::name(opcode),
                crate::layout::be32(output, 4)
            );
        }
        if self.is_on() {
            self.line(&json!({
                "kind": "command", "function": function, "opcode": format!("{opcode:#x}"), "name": op::name(opcode),
                "uid": crate::layout::be16(input, 2), "op_mod": crate::layout::be16(input, 6),
                "status": status, "in": hex(input), "out": hex(output),
            }));
        }
    }

    /// One work request as fetched.
    pub(crate) fn wqe(&self, function: usize, qpn: u32, index: u16, wqe: &[u8]) {
        if self.is_on() {
            self.line(&json!({
                "kind": "wqe", "function": function, "qpn": qpn, "index": index, "bytes": hex(wqe),
            }));
        }
    }

    /// One receive request with its whole room, and the producer's record as the device saw them.
    pub(crate) fn receive(&self, function: usize, posted: &Receive<'_>) {
        if self.is_on() {
            self.line(&json!({
                "kind": "receive", "function": function, "pool": posted.pool, "queue": posted.queue,
                "index": posted.index, "record": posted.record, "bytes": hex(posted.bytes),
            }));
        }
    }

    /// One doorbell of a queue: where in its page it was written, its value, and the records that
    /// the device found.
    pub(crate) fn doorbell(&self, function: usize, rung: &Doorbell<'_>) {
        if self.is_on() {
            self.line(&json!({
                "kind": rung.kind, "function": function, "queue": rung.queue, "place": rung.place,
                "value": hex_all(&rung.value.to_be_bytes()), "records": rung.records, "copied": rung.copied,
            }));
        }
    }

    /// One completion or event as written.
    pub(crate) fn entry(&self, kind: &str, function: usize, queue: u32, index: u32, entry: &[u8]) {
        if self.is_on() {
            self.line(&json!({
                "kind": kind, "function": function, "queue": queue, "index": index, "bytes": hex(entry),
            }));
        }
    }

    /// Something that hardware would ignore or punish.
    pub(crate) fn report(&self, function: usize, kind: &str, detail: &str) {
        if self.echo {
            eprintln!("connectx: function {function}: {kind}: {detail}");
        }
        self.line(
            &json!({"kind": "report", "function": function, "report": kind, "detail": detail}),
        );
    }

    /// How often each command ran, as readable lines.
    #[must_use]
    pub fn summary(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().fold(String::new(), |text, (opcode, count)| {
            text + &format!("{opcode:#06x} {count:>7} {}\n", op::name(*opcode))
        })
    }
}

/// A receive request in the trace.
pub(crate) struct Receive<'a> {
    /// What kind of queue: `qp`, `rq` or `srq`.
    pub(crate) pool: &'a str,
    pub(crate) queue: u32,
    /// Place in the queue.
    pub(crate) index: u32,
    pub(crate) record: u32,
    pub(crate) bytes: &'a [u8],
}

/// A doorbell in the trace.
pub(crate) struct Doorbell<'a> {
    /// `doorbell` of a send queue, `arm` of a completion queue.
    pub(crate) kind: &'a str,
    pub(crate) queue: u32,
    /// Offset in the page.
    pub(crate) place: u64,
    pub(crate) value: u64,
    /// For a send queue: receive and send record of the queue pair, then the consumer indexes of
    /// its send and its receive completion queue. For a completion queue: consumer index and arm
    /// record.
    pub(crate) records: &'a [Option<u32>],
    /// Whether the request itself came with it.
    pub(crate) copied: bool,
}

/// Lower-case hexadecimal, truncated where only zeros follow.
fn hex(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    hex_all(&bytes[..end])
}

fn hex_all(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |text, byte| {
            text + &format!("{byte:02x}")
        })
}

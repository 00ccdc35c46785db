//! `uverbs rings`: the requests that `tests/bytes/oracle/rings.c` also posts through libmlx5.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uverbs::memory::RemoteKey;
use uverbs::owned::{self, ExposedMemory, Work};
use uverbs::rings::{Collector, Entry, Observer, Value};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, CompletionQueue, Context, Operation, ProtectionDomain, QpType, QueuePairBuilder,
    Remote, SendFlags,
};

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  uverbs rings -d mlx5_0 > ours
  cc -o rings rings.c -libverbs -lmlx5 && ./rings mlx5_0 > theirs
  diff ours theirs

What differs from run to run is left out: numbers of queues, keys, addresses, times.";

/// Post a fixed table of requests and show the queue entries, to compare them with libmlx5's
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Device to use [default: the first that can be opened]
    #[arg(short, long, value_name = "NAME")]
    device: Option<String>,

    /// Port
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 1)]
    ib_port: u8,

    /// Index of the port's GID to send from
    #[arg(short, long, value_name = "INDEX")]
    gid_idx: Option<u8>,
}

/// Bytes of memory at each end.
const ROOM: usize = 64;
/// How many inline bytes requests have room for.
const INLINE: u32 = 60;
/// The depth of queues, which determines where they wrap.
const DEPTH: u32 = 64;
const IMMEDIATE: u32 = 0x0102_0304;
/// A key that no memory has.
const NO_KEY: RemoteKey = RemoteKey::from_raw(0);
/// How long a completion may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Fields that differ from run to run; a signature is over the others.
const MASKED: [&str; 8] = [
    "signature",
    "wr_id",
    "qpn",
    "user_index",
    "timestamp",
    "address",
    "remote_address",
    "source_qpn",
];

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let collector = Arc::new(Collector::new());
    let session = Session {
        observer: Some(Arc::clone(&collector) as Arc<dyn Observer>),
        ..session.clone()
    };
    let context = session.open(args.device.as_deref())?;
    let mut bench = Bench::new(args, &context)?;
    for step in table() {
        bench.carry_out(&step)?;
        for entry in collector.take() {
            out.line(masked(entry))?;
        }
    }
    Ok(())
}

/// The entry without the fields that differ from run to run.
fn masked(mut entry: Entry) -> Entry {
    entry.number = 0;
    for (name, value) in &mut entry.fields {
        if MASKED.contains(name) {
            *value = Value::Name("…");
        }
    }
    entry
}

/// A request of the table.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: Kind,
    /// Bytes.
    length: usize,
    flags: SendFlags,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Send,
    SendImm,
    Inline,
    Write,
    WriteImm,
    Read,
    CompareSwap,
    FetchAdd,
    /// A write with a wrong key, which moves both queue pairs to the error state.
    WrongKey,
}

impl Kind {
    /// Whether it consumes a receive of the peer.
    const fn is_received(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImm | Self::Inline | Self::WriteImm
        )
    }
}

/// The table, row by row as in `rings.c`.
fn table() -> Vec<Step> {
    let step = |kind, length, flags| Step {
        kind,
        length,
        flags,
    };
    let none = SendFlags::empty();
    let mut steps = vec![
        step(Kind::Send, 16, none),
        step(Kind::SendImm, 1, none),
        step(Kind::Send, 0, none),
        step(Kind::Send, 64, SendFlags::SOLICITED),
    ];
    // Up to the ends of 16-byte units and of the first block, and beyond.
    for length in [0, 1, 11, 12, 13, 28, 43, 44, 45, 60] {
        steps.push(step(Kind::Inline, length, none));
    }
    steps.extend([
        step(Kind::Write, 64, none),
        step(Kind::WriteImm, 32, none),
        step(Kind::Read, 64, none),
        step(Kind::Send, 8, SendFlags::FENCE),
        step(Kind::CompareSwap, 8, none),
        step(Kind::FetchAdd, 8, none),
        step(Kind::WrongKey, 8, none),
    ]);
    steps
}

/// Two connected queue pairs, of which one sends and the other receives.
struct Bench {
    pd: ProtectionDomain,
    target: ExposedMemory,
    sender: owned::QueuePair,
    sent: CompletionQueue,
    receiver: owned::QueuePair,
    received: CompletionQueue,
}

impl Bench {
    fn new(args: &Args, context: &Context) -> Result<Self> {
        let pd = context.alloc_pd()?;
        let (sent, received) = (context.create_cq(DEPTH)?, context.create_cq(DEPTH)?);
        let access = AccessFlags::LOCAL_WRITE
            | AccessFlags::REMOTE_READ
            | AccessFlags::REMOTE_WRITE
            | AccessFlags::REMOTE_ATOMIC;
        let prepare = |cq| -> Result<_> {
            let builder = pd.queue_pair(QpType::Rc, cq, cq).access(access);
            Ok(describe(builder, args)?.build()?)
        };
        let (a, b) = (prepare(&sent)?, prepare(&received)?);
        let (to_a, to_b) = (a.endpoint(), b.endpoint());
        Ok(Self {
            target: pd.expose(ROOM, access)?,
            sender: owned::QueuePair::new(a.handshake(to_b)?),
            receiver: owned::QueuePair::new(b.handshake(to_a)?),
            pd,
            sent,
            received,
        })
    }

    /// Posts a request and the receive that it consumes, and waits for their completions.
    fn carry_out(&mut self, step: &Step) -> Result<()> {
        let ends = matches!(step.kind, Kind::WrongKey);
        if step.kind.is_received() || ends {
            let [room] = self.pd.buffers(ROOM)?;
            self.receiver.recv(room, 0).map_err(Failure::new)?;
        }
        self.post(step)?;
        end(&mut self.sent, &mut self.sender)?;
        if step.kind.is_received() || ends {
            end(&mut self.received, &mut self.receiver)?;
        }
        Ok(())
    }

    fn post(&mut self, step: &Step) -> Result<()> {
        let remote = self.target.remote().start();
        let operation = match step.kind {
            Kind::Inline => {
                let bytes: Vec<u8> = (1..).take(step.length).collect();
                return Ok(self.sender.send_inline(&bytes, 0)?);
            }
            Kind::Send => Operation::Send,
            Kind::SendImm => Operation::SendImm(IMMEDIATE),
            Kind::Write => Operation::Write(remote),
            Kind::WriteImm => Operation::WriteImm(remote, IMMEDIATE),
            Kind::Read => Operation::Read(remote),
            Kind::CompareSwap => Operation::CompareSwap {
                remote,
                compare: 1,
                swap: 2,
            },
            Kind::FetchAdd => Operation::FetchAdd { remote, add: 3 },
            Kind::WrongKey => Operation::Write(Remote {
                key: NO_KEY,
                ..remote
            }),
        };
        let [buffer] = self.pd.buffers(ROOM)?;
        let work = Work::new(operation)
            .memory((buffer, step.length))
            .flags(step.flags);
        self.sender
            .post(work)
            .map_err(|refused| Failure::new(refused.error))
    }
}

fn describe<'a>(builder: QueuePairBuilder<'a>, args: &Args) -> Result<QueuePairBuilder<'a>> {
    let builder = builder
        .port(args.ib_port)
        .max_send_wr(DEPTH)
        .max_recv_wr(DEPTH)
        .max_send_sge(1)
        .max_recv_sge(1)
        .max_inline_data(INLINE)
        .max_rd_atomic(1)
        .max_dest_rd_atomic(1)
        .timeout(AckTimeout::code(16)?)
        .retry_count(RetryCount::new(7)?)
        .rnr_retry(RnrRetry::new(7)?)
        .min_rnr_timer(RnrTimer::code(12)?);
    Ok(match args.gid_idx {
        Some(index) => builder.gid_index(index),
        None => builder,
    })
}

/// Takes a completion, successful or not.
fn end(cq: &mut CompletionQueue, qp: &mut owned::QueuePair) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(completion) = cq.poll()? {
            return match qp.complete(completion) {
                Ok(_) => Ok(()),
                Err(_) => Err(Failure::new("a completion of nothing that was posted")),
            };
        }
        if Instant::now() > until {
            return Err(Failure::new(format_args!("no completion in {PATIENCE:?}")));
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uverbs::rings::QueueKind;

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        let entry = Entry {
            queue: QueueKind::Send,
            number: 0x118,
            index: 3,
            kind: "SEND",
            fields: vec![
                ("index", Value::Number(3)),
                ("qpn", Value::Hex(0x118)),
                ("length", Value::Number(64)),
                ("lkey", Value::Key(7)),
                ("address", Value::Hex(0x7f00)),
            ],
            bytes: Vec::new(),
        };
        assert_eq!(
            masked(entry).to_string(),
            "sq 0x0[3] SEND index=3 qpn=… length=64 lkey=… address=…"
        );
    }

    #[test]
    fn the_table_fits_queues_and_room() {
        let table = table();
        // Requests may take several blocks.
        assert!(table.len() * 2 < DEPTH as usize);
        for step in table {
            let most = match step.kind {
                Kind::Inline => INLINE as usize,
                _ => ROOM,
            };
            assert!(step.length <= most, "{step:?}");
        }
    }
}

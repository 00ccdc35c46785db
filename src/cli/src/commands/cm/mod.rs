//! `uverbs cm`.

mod pipe;

use std::fmt::Debug;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::Subcommand;
use uverbs::cm::{self, ChannelOptions, CmError, ConnectError, EventChannel};
use uverbs::time::RnrRetry;
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, ProtectionDomain, QueuePairBuilder};

use crate::failure::{Failure, Result};
use crate::session::Session;
use crate::units;
use pipe::Pipe;

const EXAMPLES: &str = "\
Standard input goes to the peer, and what the peer sends to standard output, until both have ended.

Examples:
  uverbs cm listen 0.0.0.0:7471 > received
  uverbs cm connect 192.0.2.7:7471 < file";

/// Connect by IP address (rdma_cm), and pipe bytes, as nc does
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Wait for one connection
    Listen {
        /// An address of a network interface with RDMA, or 0.0.0.0 or [::], and a port
        #[arg(value_name = "ADDRESS:PORT")]
        address: String,
    },
    /// Connect to who listens
    Connect {
        /// The peer's name or address, and its port
        #[arg(value_name = "HOST:PORT")]
        address: String,

        /// How long each step of connecting may take, in seconds
        #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = units::parse_seconds)]
        wait: Duration,
    },
}

pub(crate) fn run(args: &Args, session: &Session) -> Result<()> {
    match &args.command {
        Command::Listen { address } => listen(resolve(address)?, session),
        Command::Connect { address, wait } => connect(resolve(address)?, *wait, session),
    }
}

fn listen(address: SocketAddr, session: &Session) -> Result<()> {
    let listener = cm::listen(address)
        .backlog(1)
        .channel(&open(session)?)
        .build()?;
    eprintln!("listening at {}", listener.local_addr());
    let request = listener.accept()?;
    // One is enough: others hear so at once.
    drop(listener);
    let queues = Queues::new(&session.open_index(request.device().index)?)?;
    let builder = request.queue_pair(&queues.pd, &queues.cq, &queues.cq);
    let prepared = settings(builder).build()?;
    let mut attached = request.attach(prepared)?;
    let pipe = Pipe::new(queues, attached.queue_pair())?;
    pipe.run(attached.accept()?)
}

fn connect(address: SocketAddr, wait: Duration, session: &Session) -> Result<()> {
    let connector = cm::connect(address).timeout(wait).channel(&open(session)?);
    let resolved = connector.resolve()?;
    let queues = Queues::new(&session.open_index(resolved.device().index)?)?;
    let builder = resolved.queue_pair(&queues.pd, &queues.cq, &queues.cq);
    let prepared = settings(builder).build()?;
    let mut attached = resolved.attach(prepared)?;
    let pipe = Pipe::new(queues, attached.queue_pair())?;
    pipe.run(attached.connect()?)
}

/// The channel of this run, recorded if the others are.
pub(crate) fn open(session: &Session) -> Result<EventChannel> {
    let options = ChannelOptions::new();
    Ok(match &session.recorder {
        Some(sink) => options.record(sink.clone()).open()?,
        None => options.open()?,
    })
}

/// The first address of a host and port.
pub(crate) fn resolve(address: impl ToSocketAddrs + Debug) -> Result<SocketAddr> {
    let mut found = address.to_socket_addrs().map_err(|error| {
        Failure::new(format_args!("{address:?}: {error}"))
            .hint("it is HOST:PORT, such as 192.0.2.7:7471 or [2001:db8::7]:7471")
    })?;
    found
        .next()
        .ok_or_else(|| Failure::new(format_args!("{address:?} has no address")))
}

/// What a pipe works with.
struct Queues {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    channel: uverbs::CompletionChannel,
}

impl Queues {
    fn new(context: &Context) -> Result<Self> {
        let channel = context.create_completion_channel()?;
        let entries = pipe::RECEIVES + pipe::SENDS + 1;
        let cq = context
            .completion_queue(entries)
            .channel(&channel)
            .build()?;
        Ok(Self {
            pd: context.alloc_pd()?,
            cq,
            channel,
        })
    }
}

/// A receiver that is slow makes its peer wait, however long.
fn settings(builder: QueuePairBuilder<'_, Rc>) -> QueuePairBuilder<'_, Rc> {
    builder
        .max_send_wr(pipe::SENDS + 1)
        .max_recv_wr(pipe::RECEIVES)
        .rnr_retry(RnrRetry::INFINITE)
}

impl From<CmError> for Failure {
    fn from(error: CmError) -> Self {
        match error {
            CmError::Failed(error) => error.into(),
            other => Self::new(other),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(failed: ConnectError) -> Self {
        failed.cause.into()
    }
}

//! `uverbs cm`.

mod pipe;
mod storm;
mod stream;

use std::fmt::Debug;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::Subcommand;
use uverbs::cm::{self, ChannelOptions, CmError, ConnectError, EventChannel, PortSpace};
use uverbs::stream::StreamError;
use uverbs::time::RnrRetry;
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, ProtectionDomain, QueuePairBuilder};

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;
use crate::units;
use pipe::Pipe;

const EXAMPLES: &str = "\
listen and connect pipe: standard input goes to the peer, and what the peer sends to standard
output, until both have ended. The peer is this command, or any program that speaks the protocol of
`uverbs::stream`; with --bare one that sends messages as they are, such as rdma_client.

Examples:
  uverbs cm listen 0.0.0.0:7471 > received
  uverbs cm connect 192.0.2.7:7471 < file
  uverbs cm storm 192.0.2.7";

/// Connect by IP address (rdma_cm): pipe bytes, as nc does, or measure connecting
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

        /// The device. Default: the one that has the address; for 0.0.0.0 and [::] the first that
        /// can be opened
        #[arg(short = 'd', long, value_name = "DEVICE", conflicts_with = "bare")]
        device: Option<String>,

        /// Messages without a protocol
        #[arg(long)]
        bare: bool,
    },
    /// Connect to a listener
    Connect {
        /// The peer's name or address, and its port
        #[arg(value_name = "HOST:PORT")]
        address: String,

        /// How long each step of connecting may take, in seconds
        #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = units::parse_seconds)]
        wait: Duration,

        /// Messages without a protocol
        #[arg(long)]
        bare: bool,
    },
    Storm(storm::Args),
}

pub(crate) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    match &args.command {
        Command::Listen {
            address,
            bare: true,
            ..
        } => listen_bare(resolve(address)?, session),
        Command::Listen {
            address, device, ..
        } => listen(resolve(address)?, device.as_deref(), session),
        Command::Connect {
            address,
            wait,
            bare,
        } => {
            let address = resolve(address)?;
            if *bare {
                connect_bare(address, *wait, session)
            } else {
                connect(address, *wait, session)
            }
        }
        Command::Storm(args) => storm::run(args, session, out),
    }
}

fn listen(address: SocketAddr, device: Option<&str>, session: &Session) -> Result<()> {
    let channel = open(session)?;
    let context = match (device, device_of(address, &channel)?) {
        (None, Some(index)) => session.open_index(index)?,
        (name, _) => session.open(name)?,
    };
    let listener = stream::streams(&context, &channel)?.listen(address)?;
    eprintln!("listening at {}", listener.local_addr());
    let stream = listener.accept()?;
    // One is enough: others are refused at once.
    drop(listener);
    stream::run(stream)
}

/// The index of the device that has an address; none has `0.0.0.0` and `[::]`.
fn device_of(address: SocketAddr, channel: &EventChannel) -> Result<Option<u32>> {
    let id = channel.create_id(PortSpace::Tcp)?;
    id.bind(SocketAddr::new(address.ip(), 0))?;
    Ok(id.route()?.device.map(|device| device.index))
}

fn connect(address: SocketAddr, wait: Duration, session: &Session) -> Result<()> {
    let channel = open(session)?;
    let connector = cm::connect(address).timeout(wait);
    let resolved = connector.clone().channel(&channel).resolve()?;
    let context = session.open_index(resolved.device().index)?;
    drop(resolved);
    let streams = stream::streams(&context, &channel)?;
    stream::run(streams.connect(connector)?)
}

fn listen_bare(address: SocketAddr, session: &Session) -> Result<()> {
    let listener = cm::listen(address)
        .backlog(1)
        .channel(&open(session)?)
        .build()?;
    eprintln!("listening at {}", listener.local_addr());
    let request = listener.accept()?;
    // One is enough: others are refused at once.
    drop(listener);
    let queues = Queues::new(&session.open_index(request.device().index)?)?;
    let builder = request.queue_pair(&queues.pd, &queues.cq, &queues.cq);
    let prepared = settings(builder).build()?;
    let mut attached = request.attach(prepared)?;
    let pipe = Pipe::new(queues, attached.queue_pair())?;
    pipe.run(attached.accept()?)
}

fn connect_bare(address: SocketAddr, wait: Duration, session: &Session) -> Result<()> {
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

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Connect(error) => error.into(),
            StreamError::Failed(error) => error.into(),
            other => Self::new(other),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(failed: ConnectError) -> Self {
        failed.cause.into()
    }
}

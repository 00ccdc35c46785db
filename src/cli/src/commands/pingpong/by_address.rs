//! Two players that are connected by IP address (rdma_cm): `--cm`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread::sleep;
use std::time::Duration;

use uverbs::cm::{self, Connection, ConnectionEvent, EventChannel, Listener, RejectReason};
use uverbs::time::RnrRetry;
use uverbs::transport::Rc;
use uverbs::{
    AccessFlags, CompletionChannel, CompletionQueue, ProtectionDomain, QueuePairBuilder, owned,
};

use super::Args;
use super::play::{Game, Player};
use super::report::Played;
use crate::commands::cm::open;
use crate::dial::{self, Deadline, LEAST, PAUSE};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;

/// How long the peer may take to end the connection, when the game is over.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What a player has on the device that leads to the peer.
pub(super) struct Queues {
    pub(super) device: String,
    pub(super) pd: ProtectionDomain,
    pub(super) cq: CompletionQueue,
    pub(super) channel: Option<CompletionChannel>,
}

impl Queues {
    fn new(args: &Args, session: &Session, index: u32) -> Result<Self> {
        let context = session.open_index(index)?;
        let channel = if args.events {
            Some(context.create_completion_channel()?)
        } else {
            None
        };
        let mut builder = context.completion_queue(args.depth() + SENDS);
        if let Some(channel) = &channel {
            builder = builder.channel(channel);
        }
        Ok(Self {
            device: context.name().to_owned(),
            cq: builder.build()?,
            pd: context.alloc_pd()?,
            channel,
        })
    }
}

/// Requests that a player has posted at a time.
const SENDS: u32 = 4;

fn settings<'b>(builder: QueuePairBuilder<'b, Rc>, args: &Args) -> QueuePairBuilder<'b, Rc> {
    builder
        .max_send_wr(SENDS)
        .max_recv_wr(args.depth())
        .access(AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE)
        .rnr_retry(RnrRetry::INFINITE)
}

/// Plays the game of the other transports.
pub(super) fn run(args: &Args, session: &Session, out: &mut Output) -> Result<()> {
    let size = args.message_size() as usize;
    let receive = |queues: &Queues, queue: &mut owned::QueuePair<Rc>| {
        for buffer in queues.pd.buffer_list(args.depth() as usize, size)? {
            let posted = queue.recv(buffer, 0);
            posted.map_err(|refused| refused.error)?;
        }
        Ok(())
    };
    let (queues, connection) = connect(args, session, out, receive)?;
    let [message] = queues.pd.buffers(size)?;
    let device = queues.device;
    let (queue, link) = connection.into_parts();
    let player = Player::new(queue.untyped(), message, None, args);
    let mut game = Game::new(queues.cq, queues.channel, vec![player], None);
    let score = game.play(args)?;
    // The server has heard that everything arrived; the client's device may still have to tell it
    // of the last message.
    if args.is_client() {
        while !matches!(
            link.event(Some(PATIENCE))?,
            None | Some(ConnectionEvent::Disconnected | ConnectionEvent::DeviceRemoved)
        ) {}
    }
    link.disconnect()?;
    drop(link);
    Played::game(args, device, 1, &score).report(args, out)
}

/// Connects, or waits for a client. `receive` posts what the peer may send to at once.
pub(super) fn connect(
    args: &Args,
    session: &Session,
    out: &mut Output,
    receive: impl Fn(&Queues, &mut owned::QueuePair<Rc>) -> Result<()>,
) -> Result<(Queues, Connection)> {
    let channel = open(session)?;
    let (queues, connection) = if let Some(host) = &args.host {
        call(host, args, session, &channel, receive)?
    } else {
        answer(args, session, &channel, out, receive)?
    };
    if !args.json {
        let (ours, theirs) = (connection.local_addr(), connection.peer_addr());
        out.line(format_args!("{ours} is connected to {theirs}"))?;
        out.flush()?;
    }
    Ok((queues, connection))
}

/// Waits for a client.
fn answer(
    args: &Args,
    session: &Session,
    channel: &EventChannel,
    out: &mut Output,
    receive: impl Fn(&Queues, &mut owned::QueuePair<Rc>) -> Result<()>,
) -> Result<(Queues, Connection)> {
    let listener = listen(args.port(), channel)?;
    if !args.json {
        out.line(format_args!("listening at {}", listener.local_addr()))?;
        out.flush()?;
    }
    let request = listener.accept()?;
    // One is enough: others are refused at once.
    drop(listener);
    let queues = Queues::new(args, session, request.device().index)?;
    let builder = request.queue_pair(&queues.pd, &queues.cq, &queues.cq);
    let prepared = settings(builder, args).build()?;
    let mut attached = request.attach(prepared)?;
    receive(&queues, attached.queue_pair())?;
    Ok((queues, attached.accept()?))
}

/// At all addresses: both IPv6 and IPv4, where available.
fn listen(port: u16, channel: &EventChannel) -> Result<Listener> {
    let at = |address: SocketAddr| cm::listen(address).backlog(1).channel(channel).build();
    at((Ipv6Addr::UNSPECIFIED, port).into())
        .or_else(|_| at((Ipv4Addr::UNSPECIFIED, port).into()))
        .map_err(|error| {
            Failure::from(error).hint("does another server listen there? -p chooses another port")
        })
}

/// Connects to a server; while nobody listens there, tries again until the deadline.
fn call(
    host: &str,
    args: &Args,
    session: &Session,
    channel: &EventChannel,
    receive: impl Fn(&Queues, &mut owned::QueuePair<Rc>) -> Result<()>,
) -> Result<(Queues, Connection)> {
    let deadline = Deadline::after(args.wait);
    let found = dial::resolve(host, args.port(), deadline)
        .map_err(|error| Failure::new(format_args!("{host}: {error}")))?;
    let address = found.first().copied();
    let address = address.ok_or_else(|| Failure::new(format_args!("{host} has no address")))?;
    let mut seat = None;
    loop {
        let connector = cm::connect(address).timeout(deadline.left().max(LEAST));
        let resolved = connector.channel(channel).resolve()?;
        let (queues, prepared) = if let Some(seat) = seat.take() {
            seat
        } else {
            let queues = Queues::new(args, session, resolved.device().index)?;
            let builder = resolved.queue_pair(&queues.pd, &queues.cq, &queues.cq);
            let prepared = settings(builder, args).build()?;
            (queues, prepared)
        };
        let mut attached = resolved.attach(prepared)?;
        receive(&queues, attached.queue_pair())?;
        let failed = match attached.connect() {
            Ok(connection) => return Ok((queues, connection)),
            Err(failed) => failed,
        };
        let is_deaf = failed.cause.reason() == Some(RejectReason::InvalidServiceId);
        match failed.prepared {
            Some(prepared) if is_deaf && !deadline.is_over() => seat = Some((queues, *prepared)),
            _ if is_deaf => {
                return Err(Failure::from(failed.cause)
                    .hint("start the server first: the same command without a host"));
            }
            _ => return Err(failed.cause.into()),
        }
        sleep(PAUSE.min(deadline.left()));
    }
}

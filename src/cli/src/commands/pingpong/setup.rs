//! Creates the queues of a game and connects them.

use uverbs::address::ServiceLevel;
use uverbs::owned::{self, Buffer};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AddressHandle, CompletionChannel, CompletionQueue, Context, PreparedQueuePair,
    ProtectionDomain, QueuePairEndpoint,
};

use super::play::{Game, Player};
use super::{Args, Transport};
use crate::failure::{Failure, Result};
use crate::session::Session;

/// The queue key of `ibv_ud_pingpong`.
pub(super) const QKEY: u32 = 0x1111_1111;

/// Everything that exists before the peer is known.
pub(super) struct Table {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    channel: Option<CompletionChannel>,
    srq: Option<owned::SharedReceiveQueue>,
    prepared: Vec<PreparedQueuePair>,
    messages: Vec<Buffer>,
}

impl Table {
    pub(super) fn lay(args: &Args, session: &Session) -> Result<Self> {
        let context = session.open(args.device.as_deref())?;
        let (count, depth) = (args.queue_pairs(), args.depth());
        if depth < count {
            return Err(Failure::usage(format_args!(
                "{depth} receive requests are too few for {count} queue pairs"
            ))
            .hint("raise -r"));
        }
        check_datagram(args, &context)?;
        let pd = context.alloc_pd()?;
        let channel = if args.events {
            Some(context.create_completion_channel()?)
        } else {
            None
        };
        let entries = depth.saturating_add(count);
        let mut builder = context.completion_queue(entries);
        if let Some(channel) = &channel {
            builder = builder.channel(channel);
        }
        let cq = builder.build()?;
        let srq = if args.srq {
            Some(owned::SharedReceiveQueue::new(pd.create_srq(depth, 1)?))
        } else {
            None
        };
        let prepared = {
            let mut builder = pd
                .queue_pair(args.transport.qp_type(), &cq, &cq)
                .port(args.ib_port)
                .path_mtu(args.mtu)
                .service_level(ServiceLevel::new(args.sl)?)
                .max_send_wr(1)
                .max_recv_wr(depth)
                .qkey(QKEY)
                .min_rnr_timer(RnrTimer::code(12)?)
                .timeout(AckTimeout::code(14)?)
                .retry_count(RetryCount::new(7)?)
                .rnr_retry(RnrRetry::new(7)?);
            if let Some(index) = args.gid_idx {
                builder = builder.gid_index(index);
            }
            if let Some(srq) = &srq {
                builder = builder.srq(srq.queue());
            }
            (0..count)
                .map(|_| builder.build())
                .collect::<uverbs::Result<Vec<_>>>()?
        };
        let size = args.message_size() as usize;
        let messages = pd.buffer_list(count as usize, size)?;
        let mut table = Self {
            context,
            pd,
            cq,
            channel,
            srq,
            prepared,
            messages,
        };
        table.fill_shared(args)?;
        Ok(table)
    }

    pub(super) fn device_name(&self) -> String {
        self.context.name().to_owned()
    }

    pub(super) fn endpoints(&self) -> Vec<QueuePairEndpoint> {
        self.prepared
            .iter()
            .map(PreparedQueuePair::endpoint)
            .collect()
    }

    /// Connects each queue pair to its peer and posts receive requests.
    pub(super) fn connect(self, args: &Args, peers: &[QueuePairEndpoint]) -> Result<Game> {
        if peers.len() != self.prepared.len() {
            return Err(Failure::new(format_args!(
                "the peer has {} queue pairs, this side {}",
                peers.len(),
                self.prepared.len()
            ))
            .hint("give both sides the same -q"));
        }
        let mut players = Vec::new();
        let ends = self.prepared.into_iter().zip(peers).zip(self.messages);
        for ((prepared, peer), message) in ends {
            let without_gid = prepared.endpoint().gid.is_some() && peer.gid.is_none();
            let connected = connect_one(args.transport, &self.pd, prepared, peer);
            let (qp, address) = connected.map_err(|failure| {
                if without_gid {
                    failure.hint("start the peer with -g and the index of its GID")
                } else {
                    failure
                }
            })?;
            players.push(Player::new(qp, message, address, args));
        }
        if self.srq.is_none() {
            let size = args.message_size() as usize + args.transport.header();
            for player in &mut players {
                for buffer in self.pd.buffer_list(args.depth() as usize, size)? {
                    player.receive(buffer)?;
                }
            }
        }
        Ok(Game::new(self.cq, self.channel, players, self.srq))
    }

    fn fill_shared(&mut self, args: &Args) -> Result<()> {
        let Some(srq) = &mut self.srq else {
            return Ok(());
        };
        let size = args.message_size() as usize;
        for buffer in self.pd.buffer_list(args.depth() as usize, size)? {
            srq.recv(buffer, 0).map_err(|refused| refused.error)?;
        }
        Ok(())
    }
}

/// A datagram is one packet.
fn check_datagram(args: &Args, context: &Context) -> Result<()> {
    if args.transport != Transport::Ud {
        return Ok(());
    }
    let mtu = context.query_port(args.ib_port)?.active_mtu.bytes();
    match mtu {
        Some(mtu) if args.message_size() > mtu => Err(Failure::usage(format_args!(
            "a datagram has at most {mtu} bytes on this port, not {}",
            args.message_size()
        ))
        .hint("lower -s")),
        _ => Ok(()),
    }
}

type Connected = (owned::QueuePair, Option<(AddressHandle, u32)>);

fn connect_one(
    transport: Transport,
    pd: &ProtectionDomain,
    prepared: PreparedQueuePair,
    peer: &QueuePairEndpoint,
) -> Result<Connected> {
    if transport != Transport::Ud {
        return Ok((owned::QueuePair::new(prepared.handshake(*peer)?), None));
    }
    let address = pd.create_ah(&prepared.path_to(peer)?)?;
    let qp = owned::QueuePair::new(prepared.activate()?);
    Ok((qp, Some((address, peer.qp_num))))
}

impl Transport {
    /// Bytes in front of a received message: the room for a global routing header.
    pub(super) fn header(self) -> usize {
        match self {
            Self::Ud => uverbs::address::Grh::LEN,
            Self::Rc | Self::Uc => 0,
        }
    }
}

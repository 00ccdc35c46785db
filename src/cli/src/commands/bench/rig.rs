//! The queues and the memory of one side of a test.

use uverbs::address::ServiceLevel;
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AddressHandle, CompletionChannel, CompletionQueue, Context, PostError, PreparedQueuePair,
    ProtectionDomain, QueuePair, Remote,
};

use super::memory::Memory;
use super::post::{Lane, Template};
use super::spec::{Measure, Spec, Verb};
use super::wire::End;
use super::{Local, wire};
use crate::failure::{Failure, Result};

/// The queue key of datagrams.
pub(super) const QKEY: u32 = 0x1111_1111;

/// One side before it is connected to the other.
pub(super) struct Parts {
    pd: ProtectionDomain,
    send_cq: CompletionQueue,
    recv_cq: CompletionQueue,
    channel: Option<CompletionChannel>,
    prepared: Vec<PreparedQueuePair>,
    memory: Memory,
    layout: Slots,
}

/// One side, connected. Its queue pairs are dropped before its memory.
pub(super) struct Rig {
    pub(super) lanes: Vec<Lane>,
    pub(super) send_cq: CompletionQueue,
    pub(super) recv_cq: CompletionQueue,
    pub(super) channel: Option<CompletionChannel>,
    pub(super) memory: Memory,
    pub(super) template: Template,
}

/// Where the messages of each queue pair are: one range to send from, one to receive into.
#[derive(Clone, Copy, Debug)]
struct Slots {
    size: usize,
    header: u32,
}

impl Slots {
    fn of(spec: &Spec) -> Self {
        let header = spec.transport.header();
        let size = (spec.largest() as usize + header as usize).next_multiple_of(4096);
        Self {
            size: size.max(4096),
            header,
        }
    }

    fn len(&self, count: u32) -> Result<usize> {
        self.size
            .checked_mul(2 * count as usize)
            .ok_or_else(|| Failure::usage("more memory than there are addresses"))
    }

    fn outgoing(&self, lane: usize) -> usize {
        2 * lane * self.size
    }

    fn incoming(&self, lane: usize) -> usize {
        self.outgoing(lane) + self.size
    }
}

impl Parts {
    pub(super) fn make(
        spec: &Spec,
        local: &Local<'_>,
        context: &Context,
        mtu: u32,
    ) -> Result<Self> {
        let pd = context.alloc_pd()?;
        let channel = if spec.events {
            Some(context.create_completion_channel()?)
        } else {
            None
        };
        let queue = |entries: u32| {
            let builder = context.completion_queue(entries);
            match &channel {
                Some(channel) => builder.channel(channel).build(),
                None => builder.build(),
            }
        };
        let all = |depth: u32| depth.saturating_mul(spec.queue_pairs);
        let send_cq = queue(all(spec.tx_depth))?;
        let receives = if spec.receives() { spec.rx_depth } else { 1 };
        let recv_cq = queue(all(receives))?;
        let layout = Slots::of(spec);
        let memory = Memory::new(&pd, layout.len(spec.queue_pairs)?)?;
        let attr = context.device_attr();
        let few = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
        let prepared = {
            let mut builder = pd
                .queue_pair(spec.transport.qp_type(), &send_cq, &recv_cq)
                .port(local.ib_port)
                .path_mtu(
                    uverbs::link::Mtu::from_bytes(mtu)
                        .ok_or_else(|| Failure::new(format_args!("{mtu} is not an MTU")))?,
                )
                .service_level(ServiceLevel::new(spec.service_level)?)
                .allow_remote_rw()
                .max_send_wr(spec.tx_depth)
                .max_recv_wr(receives)
                .max_inline_data(spec.inline)
                .max_rd_atomic(few(attr.max_qp_init_rd_atom))
                .max_dest_rd_atomic(few(attr.max_qp_rd_atom))
                .qkey(QKEY)
                .min_rnr_timer(RnrTimer::code(12)?)
                .timeout(AckTimeout::code(14)?)
                .retry_count(RetryCount::new(7)?)
                .rnr_retry(RnrRetry::new(7)?);
            if let Some(index) = local.gid_idx {
                builder = builder.gid_index(index);
            }
            (0..spec.queue_pairs)
                .map(|_| builder.build())
                .collect::<uverbs::Result<Vec<_>>>()?
        };
        Ok(Self {
            pd,
            send_cq,
            recv_cq,
            channel,
            prepared,
            memory,
            layout,
        })
    }

    /// What the peer needs to know.
    pub(super) fn ends(&self, spec: &Spec) -> Result<Vec<End>> {
        let region = self.memory.region()?;
        let key = region.rkey();
        let ends = self.prepared.iter().enumerate().map(|(at, prepared)| {
            let offset = match spec.verb {
                Verb::Read => self.layout.outgoing(at),
                Verb::Send | Verb::Write => self.layout.incoming(at),
            };
            let address = region.address() + offset as u64;
            End::new(prepared.endpoint(), Remote { address, key })
        });
        Ok(ends.collect())
    }

    /// Connects each queue pair to its peer, and posts receive requests where messages will arrive.
    pub(super) fn connect(self, spec: &Spec, peers: &[End]) -> Result<Rig> {
        if peers.len() != self.prepared.len() {
            return Err(wire::out_of_turn());
        }
        let mut lanes = Vec::new();
        for (at, (prepared, peer)) in self.prepared.into_iter().zip(peers).enumerate() {
            let (qp, to) = connect_one(spec, &self.pd, prepared, peer)?;
            lanes.push(Lane::new(
                at,
                qp,
                peer.memory(),
                to,
                self.layout.outgoing(at),
                self.layout.incoming(at),
            ));
        }
        let mut rig = Rig {
            lanes,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            channel: self.channel,
            memory: self.memory,
            template: Template::of(spec, self.layout.header),
        };
        if spec.receives() {
            rig.post_receives(spec)?;
        }
        Ok(rig)
    }
}

impl Rig {
    /// Fills every receive queue.
    fn post_receives(&mut self, spec: &Spec) -> Result<(), PostError> {
        for lane in &mut self.lanes {
            lane.receive(&self.memory, &self.template, spec.largest(), spec.rx_depth)?;
        }
        Ok(())
    }

    /// The lane that a completion belongs to.
    pub(super) fn lane(&mut self, number: u64) -> Result<&mut Lane> {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.lanes.get_mut(number))
            .ok_or_else(|| Failure::new("a completion of a request that was not posted"))
    }
}

type Connected = (QueuePair, Option<(AddressHandle, u32)>);

fn connect_one(
    spec: &Spec,
    pd: &ProtectionDomain,
    prepared: PreparedQueuePair,
    peer: &End,
) -> Result<Connected> {
    let endpoint = peer.endpoint()?;
    if spec.transport.qp_type().is_connected() {
        return Ok((prepared.handshake(endpoint)?, None));
    }
    let address = pd.create_ah(&prepared.path_to(&endpoint)?)?;
    Ok((prepared.activate()?, Some((address, endpoint.qp_num))))
}

/// The largest packets that this side can send, in bytes.
pub(super) fn active_mtu(context: &Context, local: &Local<'_>, spec: &Spec) -> Result<u32> {
    let active = context.query_port(local.ib_port)?.active_mtu;
    let bytes = active
        .bytes()
        .ok_or_else(|| Failure::new(format_args!("the port's MTU is {active}")))?;
    if spec.transport == super::spec::Transport::Ud && spec.largest() > bytes {
        return Err(Failure::usage(format_args!(
            "a datagram has at most {bytes} bytes on this port, not {}",
            spec.largest()
        )));
    }
    Ok(local.mtu.map_or(bytes, |mtu| mtu.min(bytes)))
}

/// Whether both sides send messages.
pub(super) fn is_mutual(spec: &Spec) -> bool {
    spec.measure == Measure::Latency && spec.verb != Verb::Read
}

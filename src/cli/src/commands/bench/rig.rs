//! The queues and the memory of one side of a test.

use uverbs::cm::Link;
use uverbs::time::{RetryCount, RnrRetry, RnrTimer};
use uverbs::transport::{Accessible, Connected, Receives, Requests, Responds, Sends};
use uverbs::{
    AddressHandle, CompletionChannel, CompletionQueue, Context, PostError, ProtectionDomain,
    QueuePair, QueuePairBuilder, Remote,
};

use super::memory::Memory;
use super::post::{Lane, Template};
use super::spec::{Measure, Spec, Verb};
use crate::failure::{Failure, Result};

/// What one side has before its queue pairs are connected to the other.
pub(super) struct Parts {
    pub(super) context: Context,
    pub(super) pd: ProtectionDomain,
    pub(super) send_cq: CompletionQueue,
    pub(super) recv_cq: CompletionQueue,
    channel: Option<CompletionChannel>,
    memory: Memory,
    layout: Slots,
}

/// One side, connected. Its queue pairs are dropped before its memory.
pub(super) struct Rig {
    /// Of connections by address, which end with them.
    _links: Vec<Link>,
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
    pub(super) fn make(spec: &Spec, context: &Context) -> Result<Self> {
        let pd = context.alloc_pd()?;
        let channel = if spec.events || spec.measure == Measure::Bandwidth {
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
        let recv_cq = queue(all(receives(spec)))?;
        let layout = Slots::of(spec);
        let memory = Memory::new(&pd, layout.len(spec.queue_pairs)?)?;
        Ok(Self {
            context: context.clone(),
            pd,
            send_cq,
            recv_cq,
            channel,
            memory,
            layout,
        })
    }

    /// What a queue pair of the test is like, however it is connected.
    pub(super) fn settings<'b, T>(
        &self,
        builder: QueuePairBuilder<'b, T>,
        spec: &Spec,
    ) -> Result<QueuePairBuilder<'b, T>>
    where
        T: Accessible + Connected + Receives + Requests + Responds + Sends,
    {
        let attr = self.context.device_attr();
        let few = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
        Ok(builder
            .allow_remote_rw()
            .max_send_wr(spec.tx_depth)
            .max_recv_wr(receives(spec))
            .max_inline_data(spec.inline)
            .max_rd_atomic(few(attr.max_qp_init_rd_atom))
            .max_dest_rd_atomic(few(attr.max_qp_rd_atom))
            .min_rnr_timer(RnrTimer::code(12)?)
            .retry_count(RetryCount::new(7)?)
            .rnr_retry(RnrRetry::new(7)?))
    }

    /// What the peer of a queue pair writes to or reads.
    pub(super) fn remote(&self, spec: &Spec, at: usize) -> Result<Remote> {
        let region = self.memory.region()?;
        let offset = match spec.verb {
            Verb::Read => self.layout.outgoing(at),
            Verb::Send | Verb::Write => self.layout.incoming(at),
        };
        Ok(Remote {
            address: region.address() + offset as u64,
            key: region.rkey(),
        })
    }

    /// A queue pair that is connected, and what it uses on either side.
    pub(super) fn lane(
        &self,
        at: usize,
        qp: QueuePair,
        remote: Remote,
        to: Option<(AddressHandle, u32)>,
    ) -> Lane {
        let (outgoing, incoming) = (self.layout.outgoing(at), self.layout.incoming(at));
        Lane::new(at, qp, remote, to, outgoing, incoming)
    }

    /// The side that these are, with receive requests where messages will arrive.
    pub(super) fn rig(self, spec: &Spec, lanes: Vec<Lane>, links: Vec<Link>) -> Result<Rig> {
        let mut rig = Rig {
            _links: links,
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

/// The receive requests of a queue pair.
fn receives(spec: &Spec) -> u32 {
    if spec.receives() { spec.rx_depth } else { 1 }
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

/// Whether both sides send messages.
pub(super) fn is_mutual(spec: &Spec) -> bool {
    spec.measure == Measure::Latency && spec.verb != Verb::Read
}

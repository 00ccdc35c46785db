//! Connects the queue pairs of a test by what the sides tell each other over TCP.

use uverbs::address::ServiceLevel;
use uverbs::link::Mtu;
use uverbs::time::AckTimeout;
use uverbs::{AddressHandle, Context, PreparedQueuePair, ProtectionDomain, QueuePair};

use super::Local;
use super::rig::{Parts, Rig};
use super::spec::{Spec, Transport};
use super::wire::{End, out_of_turn};
use crate::failure::{Failure, Result};

/// The queue key of datagrams.
pub(super) const QKEY: u32 = 0x1111_1111;

/// One side, and its queue pairs before they are connected.
pub(super) struct Ready {
    parts: Parts,
    prepared: Vec<PreparedQueuePair>,
}

impl Ready {
    pub(super) fn make(
        spec: &Spec,
        local: &Local<'_>,
        context: &Context,
        mtu: u32,
    ) -> Result<Self> {
        let parts = Parts::make(spec, context)?;
        let kind = spec.transport.qp_type();
        let mtu = Mtu::from_bytes(mtu)
            .ok_or_else(|| Failure::new(format_args!("{mtu} is not an MTU")))?;
        let prepared = {
            let builder = parts.pd.queue_pair(kind, &parts.send_cq, &parts.recv_cq);
            let mut builder = parts
                .settings(builder, spec)?
                .port(local.ib_port)
                .path_mtu(mtu)
                .service_level(ServiceLevel::new(spec.service_level)?)
                .qkey(QKEY)
                .timeout(AckTimeout::code(14)?);
            if let Some(index) = local.gid_idx {
                builder = builder.gid_index(index);
            }
            (0..spec.queue_pairs)
                .map(|_| builder.build())
                .collect::<uverbs::Result<Vec<_>>>()?
        };
        Ok(Self { parts, prepared })
    }

    /// What the peer needs to know.
    pub(super) fn ends(&self, spec: &Spec) -> Result<Vec<End>> {
        let prepared = self.prepared.iter().enumerate();
        prepared
            .map(|(at, prepared)| {
                let remote = self.parts.remote(spec, at)?;
                Ok(End::new(prepared.endpoint(), remote))
            })
            .collect()
    }

    /// Connects each queue pair to its peer.
    pub(super) fn connect(self, spec: &Spec, peers: &[End]) -> Result<Rig> {
        if peers.len() != self.prepared.len() {
            return Err(out_of_turn());
        }
        let mut lanes = Vec::new();
        for (at, (prepared, peer)) in self.prepared.into_iter().zip(peers).enumerate() {
            let (qp, to) = connect_one(spec, &self.parts.pd, prepared, peer)?;
            lanes.push(self.parts.lane(at, qp, peer.memory(), to));
        }
        self.parts.rig(spec, lanes, Vec::new())
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
    if spec.transport == Transport::Ud && spec.largest() > bytes {
        return Err(Failure::usage(format_args!(
            "a datagram has at most {bytes} bytes on this port, not {}",
            spec.largest()
        )));
    }
    Ok(local.mtu.map_or(bytes, |mtu| mtu.min(bytes)))
}

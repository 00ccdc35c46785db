//! Queue pairs attached to leaves.

use std::sync::Arc;

use uverbs_core::types::{QpState, QpType};
use uverbs_core::{Error, ErrorKind, Object, Op, Result};

use super::element::{Leaf, Scheduler};
use crate::prm::{Groups, Mailbox, attach_queue, attach_send_queue, opcode};

const REPLY_LEN: usize = 16;

/// The role of the leaf for a queue pair's requests.
struct ForRequests;

/// The role of the leaf for its responses.
struct ForResponses;

/// The queue pair that is attached.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)] // Users have no such handle: the facade calls it.
pub struct Attachable<'a> {
    /// The kernel object.
    pub object: &'a Object,
    /// Its transport.
    pub kind: QpType,
    /// Its state.
    pub state: QpState,
    /// Its number.
    pub number: u32,
    /// The number of the send queue underneath a raw packet queue pair.
    pub send_queue: Option<u32>,
}

/// The leaves that a queue pair is attached to; `None` detaches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leaves<'a> {
    /// For the requests that it sends.
    pub requestor: Option<&'a Leaf>,
    /// For its responses to the peer's reads and atomics. Reliable connections only.
    pub responder: Option<&'a Leaf>,
}

impl Scheduler {
    /// `mlx5dv_modify_qp_sched_elem`—attaches a queue pair to leaves, in place of those that it is
    /// attached to, or to none. It keeps the leaves alive until the next attach, or until it is
    /// destroyed.
    ///
    /// | queue pair | requests | responses | in state |
    /// |---|---|---|---|
    /// | RC | yes | yes | INIT, RTS |
    /// | UC, UD | yes | no | INIT, RTS |
    /// | raw packet | yes | no | RTS |
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): another transport, or the device does not schedule
    /// queues of this kind. [`InvalidState`](ErrorKind::InvalidState): another state.
    /// [`InvalidInput`](ErrorKind::InvalidInput): a leaf for responses where there are none, or a
    /// leaf of another context. Otherwise the errno for the firmware's status. The queue pair is
    /// then attached as before.
    #[doc(alias = "mlx5dv_modify_qp_sched_elem")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn attach(&self, qp: &Attachable<'_>, leaves: Leaves<'_>) -> Result<()> {
        self.check(qp, leaves)?;
        let command = command(qp, leaves)?;
        self.devx()
            .modify_harmless(qp.object, &command, REPLY_LEN)
            .map_err(|error| {
                error
                    .with_op(Op::AttachSchedElement)
                    .fact("type", qp.kind.to_string())
                    .fact("state", qp.state.to_string())
            })?;
        let object = |leaf: Option<&Leaf>| leaf.map(|leaf| Arc::clone(leaf.object()));
        qp.object.set_use::<ForRequests>(object(leaves.requestor));
        qp.object.set_use::<ForResponses>(object(leaves.responder));
        Ok(())
    }

    fn check(&self, qp: &Attachable<'_>, leaves: Leaves<'_>) -> Result<()> {
        let op = Op::AttachSchedElement;
        let lacks = |what: &'static str| {
            Err(Error::new(op, ErrorKind::Unsupported)
                .fact("type", qp.kind.to_string())
                .fact("device_lacks", what))
        };
        let own = |leaf: &Leaf| Arc::ptr_eq(leaf.object().file(), qp.object.file());
        if [leaves.requestor, leaves.responder]
            .into_iter()
            .flatten()
            .any(|leaf| !own(leaf))
        {
            return Err(Error::invalid(op, "leaf of another context"));
        }
        match qp.kind {
            QpType::Rc | QpType::Uc | QpType::Ud => {
                if !self.general().qpc_extension {
                    return lacks("the extended part of modifies");
                }
                if !self.caps().nic_qp_scheduling {
                    return lacks("scheduling of queue pairs");
                }
            }
            QpType::RawPacket => {
                if !self.caps().nic_sq_scheduling {
                    return lacks("scheduling of send queues");
                }
            }
            _ => {
                return Err(
                    Error::new(op, ErrorKind::Unsupported).fact("type", qp.kind.to_string())
                );
            }
        }
        if leaves.responder.is_some() && qp.kind != QpType::Rc {
            return Err(Error::invalid(op, "leaf for responses").fact("type", qp.kind.to_string()));
        }
        let fits = match qp.state {
            QpState::ReadyToSend => true,
            QpState::Init => qp.kind != QpType::RawPacket,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(Error::new(op, ErrorKind::InvalidState)
            .fact("type", qp.kind.to_string())
            .fact("state", qp.state.to_string()))
    }
}

fn command(qp: &Attachable<'_>, leaves: Leaves<'_>) -> Result<Mailbox> {
    let op = Op::AttachSchedElement;
    let groups = Groups {
        requestor: leaves.requestor.map_or(0, Leaf::id),
        responder: leaves.responder.map_or(0, Leaf::id),
    };
    if qp.kind == QpType::RawPacket {
        let number = qp
            .send_queue
            .filter(|number| *number != 0)
            .ok_or_else(|| Error::new(op, ErrorKind::Unsupported).fact("unknown", "send queue"))?;
        return attach_send_queue(number, groups.requestor)
            .ok_or_else(|| Error::limit(op, "leaf", groups.requestor.into(), u16::MAX.into()));
    }
    let opcode = if qp.state == QpState::Init {
        opcode::INIT2INIT_QP
    } else {
        opcode::RTS2RTS_QP
    };
    Ok(attach_queue(opcode, qp.number, groups))
}

//! Creation of queue pairs.

use std::mem;
use std::sync::Arc;

use uverbs_core::contract::{QpBase, QpInit};
use uverbs_core::hw::QueueMemory;
use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{QpCaps, QpCreateFlags, QpState, QpType, SigMode};
use uverbs_core::{Error, ErrorKind, Object, Op, Result, cmd};
use uverbs_uapi::mlx5_abi::{mlx5_ib_create_qp, mlx5_ib_create_qp_resp};
use zerocopy::IntoBytes;

use super::ece::{self, Establishment};
use super::memory::Memory;
use super::number::Numbered;
use super::plan::{Plan, Role, Special, is_xrc};
use super::sends::Sends;
use super::{QueuePair, Rare, raw};
use crate::context::{Context, ProtectionDomain};
use crate::cqe::CqShared;
use crate::doorbell::Doorbell;
use crate::rq::{self, ReceiveRing, ScatteredRing};
use crate::sq::raw::Ethernet;
use crate::sq::{self, SendRing};
use crate::tracker::registration::Reports;
use crate::tracker::{QueuePairTracker, Receives, RecvTracker, ScatterTracker, SrqTracker};

/// The domain that a queue pair belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parent<'a> {
    /// A protection domain.
    Pd(&'a ProtectionDomain),
    /// An XRC domain: the receiving side of XRC.
    Xrcd(&'a Arc<Object>),
}

impl<'a> Parent<'a> {
    fn object(self) -> &'a Arc<Object> {
        match self {
            Self::Pd(pd) => pd.object(),
            Self::Xrcd(domain) => domain,
        }
    }

    /// What allocates their memory, if they have no pages of their own.
    fn memory(self) -> Option<&'a Arc<dyn QueueMemory>> {
        match self {
            Self::Pd(pd) => pd.memory(),
            Self::Xrcd(_) => None,
        }
    }

    /// The doorbell that its queue pairs use.
    fn doorbell(self, context: &Context) -> Result<Doorbell> {
        let thread = match self {
            Self::Pd(pd) => pd.thread(),
            Self::Xrcd(_) => None,
        };
        thread.map_or_else(
            || context.uars().for_queue_pair(),
            |thread| Ok(thread.doorbell()),
        )
    }

    fn handle(self) -> cmd::qp::Parent {
        match self {
            Self::Pd(pd) => cmd::qp::Parent::Pd(pd.object().handle()),
            Self::Xrcd(domain) => cmd::qp::Parent::Xrcd(domain.handle()),
        }
    }
}

/// Creation flags that the kernel's driver may support.
const KNOWN_FLAGS: QpCreateFlags = QpCreateFlags::BLOCK_MULTICAST_LOOPBACK
    .union(QpCreateFlags::SCATTER_FCS)
    .union(QpCreateFlags::CVLAN_STRIPPING)
    .union(QpCreateFlags::PCI_WRITE_END_PADDING)
    .union(QpCreateFlags::SQ_SIG_ALL);

/// A queue pair that is about to be created, with everything allocated for it.
struct Draft<'a> {
    context: &'a Context,
    parent: Parent<'a>,
    init: &'a QpInit<'a>,
    special: &'a Special,
    plan: Plan,
    memory: Memory,
    ethernet: Option<Ethernet>,
    reports: Reports,
    tracker: Arc<QueuePairTracker>,
    numbered: Numbered,
    /// `None` for a queue pair that cannot send.
    doorbell: Option<Doorbell>,
}

/// The result of creating a [`Draft`].
struct Created {
    object: Object,
    number: u32,
    reply: mlx5_ib_create_qp_resp,
}

impl QueuePair {
    /// Creates a queue pair in either kind of domain.
    pub(crate) fn create_in(
        context: &Context,
        parent: Parent<'_>,
        init: &QpInit<'_>,
        special: &Special,
    ) -> Result<Self> {
        let op = Op::CreateQueuePair;
        let mut draft = Draft::new(op, context, parent, init, special)?;
        let made = draft.create()?;
        draft.finish(op, made)
    }
}

impl<'a> Draft<'a> {
    fn new(
        op: Op,
        context: &'a Context,
        parent: Parent<'a>,
        init: &'a QpInit<'a>,
        special: &'a Special,
    ) -> Result<Self> {
        check(op, init)?;
        if init.kind == QpType::RawPacket {
            // Its sends and its receives have two numbers of the device, of two kinds.
            context.config().require_user_index(op)?;
        }
        context.file().check_process(op)?;
        let plan = Plan::new(op, context, init, special)?;
        let record = context
            .records()
            .take()
            .map_err(|errno| Error::os(op, errno))?;
        let memory = Memory::new(op, parent.memory(), context.pool(), record, &plan)?;
        let ethernet = raw::ethernet(context, special, init.kind);
        let checksums = ethernet.as_ref().is_some_and(|ethernet| ethernet.checksums);
        // What an XRC target receives is completed by the queue of the shared receive queue.
        let reports = match init.kind {
            QpType::XrcTarget => Reports::default(),
            _ => Reports {
                sends: Some(CqShared::of(op, init.send_cq)?),
                receives: Some(CqShared::of(op, init.recv_cq)?),
            },
        };
        let tracker = tracker(op, init, &plan, special, checksums)?;
        let numbered = Numbered::new(op, context, init.kind, &tracker)?;
        // The kernel requires a doorbell even for queue pairs without send requests, but not for
        // those that cannot send.
        let doorbell = if plan.only_receives {
            None
        } else {
            Some(parent.doorbell(context)?)
        };
        Ok(Self {
            context,
            parent,
            init,
            special,
            plan,
            memory,
            ethernet,
            reports,
            tracker,
            numbered,
            doorbell,
        })
    }

    /// Has the kernel create it. From then on its object keeps what the device may use.
    fn create(&mut self) -> Result<Created> {
        let data = self.driver_data();
        let mut reply = mlx5_ib_create_qp_resp::default();
        let create = request(&self.plan, self.parent, self.init);
        let file = self.context.file();
        let uhw = Uhw::new(data.as_bytes(), cells(&mut reply));
        let record = Arc::clone(&self.memory.record);
        let (object, created) = Object::create(
            file,
            &cmd::qp::KIND,
            parents(self.parent, self.init, self.doorbell.as_ref()),
            (mem::take(&mut self.memory.kept), record),
            || cmd::qp::create(file, &create, &uhw),
            |created| created.handle,
        )?;
        Ok(Created {
            object,
            number: created.qp_num,
            reply,
        })
    }

    /// After the creation: gives the queue pair its number and its rings.
    fn finish(self, op: Op, made: Created) -> Result<QueuePair> {
        let (context, init, special) = (self.context, self.init, self.special);
        let (object, number, reply) = (made.object, made.number, made.reply);
        self.tracker.set_number(number);
        // A target has no number before it is ready to receive.
        let is_numbered = special.role != Role::Target || self.numbered.registered.is_some();
        if is_numbered {
            let trackers = context.trackers();
            let reports = self.reports.clone();
            object.keep(self.numbered.created(op, trackers, number, reports)?);
        }
        let doorbell = self
            .doorbell
            .map(|doorbell| context.uars().resolve(doorbell, reply.bfreg_index))
            .transpose()?;
        let fork = context.file().fork_token();
        let send = self.memory.send.zip(doorbell).map(|(ring, doorbell)| {
            SendRing::new(sq::Parts {
                ring,
                sizes: self.plan.send,
                operations: self.plan.operations,
                // For a raw packet queue pair, this is the number of its send queue.
                qpn: number,
                kind: init.kind,
                signal_all: init.signal == SigMode::All
                    || init.flags.contains(QpCreateFlags::SQ_SIG_ALL),
                fork,
                tracker: Arc::clone(&self.tracker),
                record: Arc::clone(&self.memory.record),
                doorbell,
            })
        });
        let mut recv = self.memory.recv.map(|ring| {
            ReceiveRing::new(rq::Parts {
                ring,
                sizes: self.plan.recv,
                fork,
                tracker: Arc::clone(&self.tracker),
                record: self.memory.record,
            })
        });
        let scattered = if special.scatters {
            recv.take().map(|ring| Box::new(ScatteredRing::new(ring)))
        } else {
            None
        };
        let caps = self.plan.caps(&init.caps);
        let rare = Rare {
            raw: (init.kind == QpType::RawPacket).then(|| raw::numbers(&reply)),
            streams: Some(special.stream_count()).filter(|&streams| streams != 1),
            ethernet: self.ethernet,
            unnumbered: (!is_numbered).then(|| Arc::clone(context.trackers())),
            ..Rare::default()
        };
        let mut created = QueuePair {
            send: Sends::new(init.kind, send),
            recv,
            scattered,
            base: QpBase::new(object, number, init.kind, caps, context.device()),
            tracker: self.tracker,
            reports: self.reports,
            role: special.role,
            ece: Establishment::new(context.config().ece(), reply.ece_options),
            rare: rare.boxed(),
        };
        // Completions of a former queue pair with the same number may be waiting.
        created.entered(QpState::Reset);
        #[cfg(feature = "rings")]
        created.watch();
        Ok(created)
    }

    /// The driver data of the request.
    fn driver_data(&self) -> mlx5_ib_create_qp {
        let doorbell = self.doorbell.as_ref();
        mlx5_ib_create_qp {
            buf_addr: self.memory.main,
            db_addr: self.memory.record.address(),
            sq_wqe_count: self.plan.send.blocks,
            rq_wqe_count: self.plan.recv.count,
            rq_wqe_shift: self.plan.recv.shift,
            flags: self.special.flags() | doorbell.map_or(0, Doorbell::qp_flags),
            uidx: self.numbered.uidx,
            bfreg_index: doorbell.map_or(0, Doorbell::qp_index),
            // For a target, the same field is its access key.
            sq_buf_addr: match self.special.role {
                Role::Target => self.special.access_key,
                _ => self.memory.apart,
            },
            dci_streams: self.special.streams(),
            ece_options: ece::at_create(self.context.config().ece()),
            ..mlx5_ib_create_qp::default()
        }
    }
}

/// The state that its completion queues need.
fn tracker(
    op: Op,
    init: &QpInit<'_>,
    plan: &Plan,
    special: &Special,
    checksums: bool,
) -> Result<Arc<QueuePairTracker>> {
    let mut tracker = QueuePairTracker::new(plan.send.blocks, receives(op, init, plan)?);
    if special.streams.is_some() {
        tracker = tracker.unordered();
    }
    if checksums {
        tracker = tracker.checksummed();
    }
    if special.scatters {
        tracker = tracker.scattering(ScatterTracker::new(plan.recv.count, plan.recv.max_sge));
    }
    Ok(Arc::new(tracker))
}

/// Refuses what no driver of these devices supports.
fn check(op: Op, init: &QpInit<'_>) -> Result<()> {
    init.check()?;
    let refused = init.flags.difference(KNOWN_FLAGS);
    if refused.is_empty() {
        return Ok(());
    }
    Err(Error::new(op, ErrorKind::Unsupported).fact("flags", refused.to_string()))
}

/// The objects that it is created from.
fn parents(
    parent: Parent<'_>,
    init: &QpInit<'_>,
    doorbell: Option<&Doorbell>,
) -> impl Iterator<Item = Arc<Object>> {
    let all = [
        Some(parent.object()),
        Some(init.send_cq.object),
        Some(init.recv_cq.object),
        init.srq.map(|srq| srq.object),
        doorbell.and_then(Doorbell::object),
    ];
    all.map(Option::<&Arc<Object>>::cloned)
        .into_iter()
        .flatten()
}

/// The queue that it receives from.
fn receives(op: Op, init: &QpInit<'_>, plan: &Plan) -> Result<Receives> {
    Ok(match init.srq {
        Some(srq) => Receives::Shared(SrqTracker::of(op, srq)?),
        None if plan.recv.count != 0 => Receives::Own(RecvTracker::new(plan.recv.count)),
        None => Receives::None,
    })
}

/// The part of the request that all drivers have.
fn request<'a>(plan: &Plan, parent: Parent<'_>, init: &QpInit<'_>) -> cmd::qp::Create<'a> {
    let mut caps = QpCaps {
        max_inline_data: plan.send.max_inline,
        ..init.caps
    };
    if init.kind == QpType::Driver {
        // Neither end of a dynamic connection has a receive queue; if one is requested, the kernel
        // requires memory for it.
        caps.max_recv_wr = 0;
        caps.max_recv_sge = 0;
    }
    cmd::qp::Create {
        send_cq: (init.kind != QpType::XrcTarget).then(|| init.send_cq.object.handle()),
        recv_cq: (!is_xrc(init.kind)).then(|| init.recv_cq.object.handle()),
        srq: init.srq.map(|srq| srq.object.handle()),
        flags: init.flags,
        signal: init.signal,
        ..cmd::qp::Create::new(init.kind, parent.handle(), init.user_handle, caps)
    }
}

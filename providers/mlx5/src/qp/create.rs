//! Creation of queue pairs.

use std::sync::Arc;

use uverbs_core::contract::{QpBase, QpInit};
use uverbs_core::hw::{BlockRing, Kept, Pages, Part, Record, UnitRing};
use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{QpCaps, QpCreateFlags, QpState, QpType, SigMode};
use uverbs_core::{Error, ErrorKind, Object, Op, Result, cmd};
use uverbs_uapi::mlx5_abi::{mlx5_ib_create_qp, mlx5_ib_create_qp_resp};
use zerocopy::IntoBytes;

use super::ece::{self, Establishment};
use super::plan::{Plan, Role, Special, is_xrc};
use super::{QueuePair, raw};
use crate::Context;
use crate::context::ProtectionDomain;
use crate::cqe::CqShared;
use crate::doorbell::Doorbell;
use crate::rq::{self, ReceiveRing, ScatteredRing};
use crate::sq::{self, SendRing};
use crate::tracker::registration::{Registered, Reports};
use crate::tracker::table::{DeviceNumber, NO_NUMBER, Owner, Trackers};
use crate::tracker::{QueuePairTracker, Receives, RecvTracker, ScatterTracker, SrqTracker};
use crate::wqe::{BLOCK_UNITS, UNIT};

/// The memory of a queue pair: its rings and its doorbell record.
struct Memory {
    /// Where it is: receive ring, then send ring.
    main: u64,
    /// Where the send ring of a raw packet queue pair is, which is a queue of its own.
    apart: u64,
    send: Option<BlockRing>,
    recv: Option<UnitRing>,
    /// What the device may use until the queue pair is gone.
    kept: Vec<Kept>,
    record: Arc<Record>,
}

impl Memory {
    fn new(op: Op, record: Record, plan: &Plan) -> Result<Self> {
        let (send, recv) = (plan.send.bytes(), plan.recv.bytes());
        let mut kept = Vec::new();
        let mut allocate = |bytes: u32| {
            if bytes == 0 {
                return Ok(None);
            }
            let pages = Pages::for_device(bytes as usize).map_err(|errno| Error::os(op, errno))?;
            let part = Part::from(pages);
            kept.push(part.kept());
            Ok(Some(part))
        };
        let address = |part: Option<&Part>| part.map_or(0, Part::address);
        let (main, apart, rings) = if plan.apart {
            let (recv, send) = (allocate(recv)?, allocate(send)?);
            (address(recv.as_ref()), address(send.as_ref()), (recv, send))
        } else {
            let total = recv
                .checked_add(send)
                .ok_or_else(|| Error::new(op, ErrorKind::LimitExceeded))?;
            let both = allocate(total)?;
            let main = address(both.as_ref());
            let parts = both.and_then(|both| both.split(recv as usize));
            (main, 0, parts.unzip())
        };
        let blocks = send / (UNIT * BLOCK_UNITS);
        Ok(Self {
            main,
            apart,
            send: rings.1.and_then(|part| BlockRing::new(part, blocks)),
            recv: rings.0.and_then(|part| UnitRing::new(part, recv / UNIT)),
            kept,
            record: Arc::new(record),
        })
    }
}

/// What a queue pair belongs to.
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

    /// Where its queue pairs are rung.
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

/// Options that the kernel's driver may have.
const KNOWN_FLAGS: QpCreateFlags = QpCreateFlags::BLOCK_MULTICAST_LOOPBACK
    .union(QpCreateFlags::SCATTER_FCS)
    .union(QpCreateFlags::CVLAN_STRIPPING)
    .union(QpCreateFlags::PCI_WRITE_END_PADDING)
    .union(QpCreateFlags::SQ_SIG_ALL);

impl QueuePair {
    /// A queue pair of either kind of domain.
    pub(crate) fn create_in(
        context: &Context,
        parent: Parent<'_>,
        init: &QpInit<'_>,
        special: &Special,
    ) -> Result<Self> {
        let op = Op::CreateQueuePair;
        check(op, init)?;
        raw::check_entries(op, context, init.kind)?;
        context.file().check_process(op)?;
        let plan = Plan::new(op, context, init, special)?;
        let record = context
            .records()
            .take()
            .map_err(|errno| Error::os(op, errno))?;
        let memory = Memory::new(op, record, &plan)?;
        let ethernet = raw::ethernet(context, special, init.kind);
        let checksums = ethernet.as_ref().is_some_and(|ethernet| ethernet.checksums);
        let reports = Reports {
            sends: Some(CqShared::of(op, init.send_cq)?),
            receives: Some(CqShared::of(op, init.recv_cq)?),
        };
        let tracker = tracker(op, init, &plan, special, checksums)?;
        let numbered = Numbered::new(op, context, init.kind, &tracker)?;
        // The kernel wants to know of a doorbell even where there is nothing to send; but not of what cannot send.
        let doorbell = if plan.only_receives {
            None
        } else {
            Some(parent.doorbell(context)?)
        };
        let uidx = numbered.uidx;
        let words = words(context, special, &plan, &memory, doorbell.as_ref(), uidx);
        let mut reply = mlx5_ib_create_qp_resp::default();
        let create = request(&plan, parent, init);
        let file = context.file();
        let uhw = Uhw::new(words.as_bytes(), cells(&mut reply));
        let record = Arc::clone(&memory.record);
        let (object, created) = Object::create(
            file,
            &cmd::qp::KIND,
            parents(parent, init, doorbell.as_ref()),
            (memory.kept, record),
            || cmd::qp::create(file, &create, &uhw),
            |created| created.handle,
        )?;
        tracker.set_number(created.qp_num);
        // A target has no number before it is ready to receive.
        let is_numbered = special.role != Role::Target || numbered.registered.is_some();
        if is_numbered {
            let trackers = context.trackers();
            object.keep(numbered.created(op, trackers, created.qp_num, reports.clone())?);
        }
        let doorbell = doorbell
            .map(|doorbell| context.uars().resolve(doorbell, reply.bfreg_index))
            .transpose()?;
        let fork = file.fork_token();
        let send = memory.send.zip(doorbell).map(|(ring, doorbell)| {
            SendRing::new(sq::Parts {
                ring,
                sizes: plan.send,
                operations: plan.operations,
                // Of a raw packet queue pair, this is the number of its send queue.
                qpn: created.qp_num,
                signal_all: init.signal == SigMode::All
                    || init.flags.contains(QpCreateFlags::SQ_SIG_ALL),
                fork,
                tracker: Arc::clone(&tracker),
                record: Arc::clone(&memory.record),
                doorbell,
            })
        });
        let mut recv = memory.recv.map(|ring| {
            ReceiveRing::new(rq::Parts {
                ring,
                sizes: plan.recv,
                fork,
                tracker: Arc::clone(&tracker),
                record: memory.record,
            })
        });
        let scattered = if special.scatters {
            recv.take().map(|ring| Box::new(ScatteredRing::new(ring)))
        } else {
            None
        };
        let mut created = Self {
            send,
            recv,
            scattered,
            base: QpBase::new(
                object,
                created.qp_num,
                init.kind,
                plan.caps(&init.caps),
                context.device(),
            ),
            tracker,
            reports,
            raw: (init.kind == QpType::RawPacket).then(|| raw::numbers(&reply)),
            role: special.role,
            streams: special.stream_count(),
            ethernet,
            ece: Establishment::new(context.config().ece, reply.ece_options),
            unnumbered: (!is_numbered).then(|| Arc::clone(context.trackers())),
        };
        // Completions of a former queue pair may wait under the number that this one got.
        created.entered(QpState::Reset);
        #[cfg(feature = "rings")]
        created.watch();
        Ok(created)
    }
}

/// What its completion queues are to know.
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

/// Refuses what no driver of these devices has.
fn check(op: Op, init: &QpInit<'_>) -> Result<()> {
    init.check()?;
    let refused = init.flags.difference(KNOWN_FLAGS);
    if refused.is_empty() {
        return Ok(());
    }
    Err(Error::new(op, ErrorKind::Unsupported).fact("flags", refused.to_string()))
}

/// What it is made of.
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

/// Where it receives from.
fn receives(op: Op, init: &QpInit<'_>, plan: &Plan) -> Result<Receives> {
    Ok(match init.srq {
        Some(srq) => Receives::Shared(SrqTracker::of(op, srq)?),
        None if plan.recv.count != 0 => Receives::Own(RecvTracker::new(plan.recv.count)),
        None => Receives::None,
    })
}

/// The number that its completions carry, where that is known before it is created.
struct Numbered {
    /// What they are looked up as; `None` for what has none.
    owner: Option<Owner>,
    registered: Option<Registered>,
    /// What the device is told.
    uidx: u32,
}

impl Numbered {
    fn new(
        op: Op,
        context: &Context,
        kind: QpType,
        tracker: &Arc<QueuePairTracker>,
    ) -> Result<Self> {
        let owner = Owner::QueuePair(Arc::clone(tracker));
        if kind == QpType::XrcTarget {
            // Its receives complete by the number of their shared queue.
            let by_device = context.config().cqe_version == 0;
            return Ok(Self {
                owner: None,
                registered: None,
                uidx: if by_device { NO_NUMBER } else { 0 },
            });
        }
        if context.config().cqe_version == 0 {
            return Ok(Self {
                owner: Some(owner),
                registered: None,
                uidx: NO_NUMBER,
            });
        }
        let registered = Registered::new(op, context.trackers(), owner.clone())?;
        Ok(Self {
            owner: Some(owner),
            uidx: registered.user_index(),
            registered: Some(registered),
        })
    }

    /// The queue pair was created, and got this number of the device's.
    fn created(
        self,
        op: Op,
        trackers: &Arc<Trackers>,
        number: u32,
        reports: Reports,
    ) -> Result<Option<Registered>> {
        match (self.registered, self.owner) {
            (Some(registered), _) => Ok(Some(registered.created(reports))),
            (None, Some(owner)) => {
                let number = DeviceNumber::QueuePair(number);
                Registered::by_device(op, trackers, number, owner, reports).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}

/// The driver's words.
fn words(
    context: &Context,
    special: &Special,
    plan: &Plan,
    memory: &Memory,
    doorbell: Option<&Doorbell>,
    uidx: u32,
) -> mlx5_ib_create_qp {
    mlx5_ib_create_qp {
        buf_addr: memory.main,
        db_addr: memory.record.address(),
        sq_wqe_count: plan.send.blocks,
        rq_wqe_count: plan.recv.count,
        rq_wqe_shift: plan.recv.shift,
        flags: special.flags() | doorbell.map_or(0, Doorbell::qp_flags),
        uidx,
        bfreg_index: doorbell.map_or(0, Doorbell::qp_index),
        // Of a target, the same word is its access key.
        sq_buf_addr: match special.role {
            Role::Target => special.access_key,
            _ => memory.apart,
        },
        dci_streams: special.streams(),
        ece_options: ece::at_create(context.config().ece),
        ..mlx5_ib_create_qp::default()
    }
}

/// The words of every driver.
fn request<'a>(plan: &Plan, parent: Parent<'_>, init: &QpInit<'_>) -> cmd::qp::Create<'a> {
    let mut caps = QpCaps {
        max_inline_data: plan.send.max_inline,
        ..init.caps
    };
    if init.kind == QpType::Driver {
        // Neither end of dynamic connections has a receive queue; asked for one, the kernel wants memory for it.
        caps.max_recv_wr = 0;
        caps.max_recv_sge = 0;
    }
    cmd::qp::Create {
        send_cq: (init.kind != QpType::XrcTarget).then(|| init.send_cq.object.handle()),
        recv_cq: (!is_xrc(init.kind)).then(|| init.recv_cq.object.handle()),
        srq: init.srq.map(|srq| srq.object.handle()),
        flags: init.flags,
        signal: init.signal,
        ..cmd::qp::Create::new(init.kind, parent.handle(), init.cookie, caps)
    }
}

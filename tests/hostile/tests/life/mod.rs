//! The whole life of a program's objects on rxe and on mlx5, whose steps are carried out whatever
//! the result of those before them.
#![allow(
    dead_code,
    clippy::panic,
    reason = "shared by tests, which fail by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hostile_tests::watch::{OnPurpose, Watched};
use hostile_tests::{mlx5_kernel, open_mlx5};
use uverbs::address::GlobalRoute;
use uverbs::attr::{Psn, QpAttr, SrqModify};
use uverbs::link::Mtu;
use uverbs::memory::Reregister;
use uverbs::mlx5::{VarKind, WorkQueue, WorkQueueState as State};
use uverbs::owned::{self, Buffer};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, AddressVector, CompletionQueue, Context, Gid, MemoryRegion, OpenOptions,
    ProtectionDomain, QpState, QpType, QueuePair,
};
use uverbs_core::hw::{HAS_REGISTERS, Pages};
use uverbs_core::sys::Kernel;
use uverbs_fake::{FakeKernel, Profile};
use uverbs_mlx5::devx::Umem;

/// Longer than a page, and not a power of two of them: a gap of this size is not filled by chance.
const LENGTH: usize = if cfg!(miri) { 2 } else { 37 } * 4096;
/// Queue sizes, in a few steps.
const fn sized(large: u32) -> u32 {
    if cfg!(miri) { large / 40 } else { large }
}
/// Contents of a buffer while the program owns it.
const MINE: u8 = 0x11;
static UNTOUCHED: [u8; LENGTH] = [MINE; LENGTH];
/// Contents of what is sent.
const SENT: u8 = 0xee;
/// No life has this many calls.
pub(crate) const MANY: u64 = 1 << 40;

/// Which device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Device {
    Rxe,
    Mlx5,
}

impl Device {
    /// Those that a program on this machine can use: mlx5 requires access to registers.
    pub(crate) fn here() -> impl Iterator<Item = Self> {
        let all = [Self::Rxe, Self::Mlx5].into_iter();
        all.filter(|device| HAS_REGISTERS || *device == Self::Rxe)
    }
}

/// Everything that a program holds. Objects are dropped before what they were created from.
pub(crate) struct Life {
    pub(crate) device: Device,
    pub(crate) options: Option<OpenOptions>,
    pub(crate) watched: Watched,
    pub(crate) fake: Option<FakeKernel>,
    pub(crate) hand: Vec<Buffer>,
    pub(crate) qp: Option<owned::QueuePair>,
    pub(crate) raw: Option<QueuePair>,
    pub(crate) srq: Option<owned::SharedReceiveQueue>,
    pub(crate) mr: Option<MemoryRegion>,
    pub(crate) umem: Option<Umem>,
    pub(crate) wq: Option<WorkQueue>,
    pub(crate) cq: Option<CompletionQueue>,
    pub(crate) pds: Vec<ProtectionDomain>,
    pub(crate) context: Option<Context>,
}

pub(crate) type Step = fn(&mut Life) -> Option<()>;

pub(crate) const STEPS: &[(&str, Step)] = &[
    ("open", Life::open),
    ("queries", Life::queries),
    ("domains", Life::make_domains),
    ("queue", Life::make_cq),
    ("shared queue", Life::make_srq),
    ("queue pair", Life::make_qp),
    ("connect", Life::connect),
    ("post", Life::post),
    ("reset", Life::reset),
    ("its state", Life::query),
    ("connect again", Life::connect),
    ("move data", Life::thaw),
    ("post again", Life::post),
    ("reset again", Life::reset),
    ("reset once more", Life::reset),
    ("connect once more", Life::connect),
    ("resize", Life::resize),
    ("resize the shared queue", Life::resize_srq),
    ("poll", Life::poll),
    ("another pair", Life::make_raw),
    ("group", Life::join),
    ("state", Life::query),
    ("region", Life::register),
    ("region again", Life::reregister),
    ("umem", Life::make_umem),
    ("work queue", Life::make_wq),
    ("its states", Life::change_wq),
    ("end of the region", Life::deregister),
    ("end of the umem", Life::end_umem),
    ("leave", Life::leave),
    ("end of the pair", Life::destroy),
    ("end of the shared queue", Life::destroy_srq),
    ("end of the rest", Life::end),
];

impl Life {
    pub(crate) fn new(device: Device, stop: impl FnOnce(Arc<dyn Kernel>) -> OpenOptions) -> Self {
        let fake = (device == Device::Rxe).then(|| FakeKernel::new(Profile::v7_2()));
        let kernel = match &fake {
            Some(fake) => Arc::new(fake.clone()),
            None => mlx5_kernel(),
        };
        let watched = Watched::new(kernel, device == Device::Mlx5);
        Self {
            device,
            options: Some(stop(Arc::new(watched.clone()))),
            watched,
            fake,
            hand: Vec::new(),
            qp: None,
            raw: None,
            srq: None,
            mr: None,
            umem: None,
            wq: None,
            cq: None,
            pds: Vec::new(),
            context: None,
        }
    }

    pub(crate) fn open(&mut self) -> Option<()> {
        let options = self.options.take()?;
        self.context = match &self.fake {
            Some(fake) => {
                let fd = fake.open().ok()?;
                options.over(fake.device_info(), fd).ok()
            }
            None => open_mlx5(options).ok(),
        };
        Some(())
    }

    /// Queries a device and its ports, and allocates what only mlx5 devices have.
    pub(crate) fn queries(&mut self) -> Option<()> {
        let context = self.context.as_ref()?;
        let _ = context.query_port(1);
        let _ = context.gid_table();
        let _ = format!("{:?}", context.device_attr());
        let Ok(adapter) = context.mlx5() else {
            return Some(());
        };
        let _ = format!("{:?}", adapter.caps());
        let _ = adapter.clock();
        let _ = adapter.alloc_device_memory(64, 6);
        let _ = adapter.alloc_var(VarKind::Virtio).and_then(|var| var.map());
        let _ = adapter.alloc_thread_domain();
        Some(())
    }

    pub(crate) fn make_domains(&mut self) -> Option<()> {
        let context = self.context.clone()?;
        for _ in 0..2 {
            self.pds.extend(context.alloc_pd());
        }
        Some(())
    }

    pub(crate) fn make_cq(&mut self) -> Option<()> {
        self.cq = self.context.as_ref()?.create_cq(sized(300)).ok();
        Some(())
    }

    pub(crate) fn make_srq(&mut self) -> Option<()> {
        let srq = self.pds.first()?.create_srq(8, 1).ok()?;
        let srq = self.srq.insert(owned::SharedReceiveQueue::new(srq));
        let [buffer] = self.pds.first()?.buffers::<1>(LENGTH).ok()?;
        if let Err(refused) = srq.recv(buffer, 0) {
            self.take(refused.buffer);
        }
        Some(())
    }

    pub(crate) fn build(&self, kind: QpType) -> Option<QueuePair> {
        let (pd, cq) = (self.pds.first()?, self.cq.as_ref()?);
        let mut builder = pd
            .queue_pair(kind, cq, cq)
            .max_send_wr(sized(300))
            .max_recv_wr(sized(300))
            .max_rd_atomic(0);
        if self.fake.is_some() {
            builder = builder.gid_index(1);
        } else {
            builder = builder.path_mtu(Mtu::B1024);
        }
        Some(builder.build().ok()?.into_raw())
    }

    pub(crate) fn make_qp(&mut self) -> Option<()> {
        self.qp = Some(owned::QueuePair::new(self.build(QpType::Rc)?));
        Some(())
    }

    pub(crate) fn make_raw(&mut self) -> Option<()> {
        self.raw = Some(self.build(QpType::Ud)?);
        Some(())
    }

    /// Connects the queue pair to itself.
    pub(crate) fn connect(&mut self) -> Option<()> {
        let path = match self.device {
            Device::Rxe => {
                let gid = self.context.as_ref()?.gid(1, 1).ok()??.gid;
                AddressVector::global(1, GlobalRoute::new(gid, 1))
            }
            Device::Mlx5 => AddressVector::local(1, 0),
        };
        let qp = self.qp.as_mut()?;
        let psn = Psn::new(7).ok()?;
        let init = QpAttr::to(QpState::Init)
            .pkey_index(0)
            .port(1)
            .access(AccessFlags::LOCAL_WRITE);
        let receive = QpAttr::to(QpState::ReadyToReceive)
            .av(path)
            .path_mtu(Mtu::B1024)
            .dest_qpn(qp.qp_num())
            .rq_psn(psn)
            .max_dest_rd_atomic(0)
            .min_rnr_timer(RnrTimer::default());
        let send = QpAttr::to(QpState::ReadyToSend)
            .sq_psn(psn)
            .timeout(AckTimeout::from_duration(std::time::Duration::from_millis(
                67,
            )))
            .retry_count(RetryCount::default())
            .rnr_retry(RnrRetry::INFINITE)
            .max_rd_atomic(0);
        for attr in [init, receive, send] {
            let _ = qp.modify(&attr);
        }
        Some(())
    }

    /// Posts what the device does not process yet.
    pub(crate) fn post(&mut self) -> Option<()> {
        if let Some(fake) = &self.fake {
            fake.freeze(true);
        }
        let [room, mut message] = self.pds.first()?.buffers::<2>(LENGTH).ok()?;
        message.fill(SENT);
        let qp = self.qp.as_mut()?;
        if let Err(refused) = qp.recv(room, 1) {
            self.hand.push(mine(refused.buffer));
        }
        if let Err(refused) = qp.send(message, LENGTH, 2) {
            let work = refused.work.map(owned::Work::take_memory);
            let buffer = work.and_then(owned::Memory::into_buffer);
            self.hand.extend(buffer.map(mine));
        }
        Some(())
    }

    pub(crate) fn reset(&mut self) -> Option<()> {
        let back = self.qp.as_mut()?.reset().ok()?;
        assert_eq!(
            self.watched.working(),
            0,
            "memory came back of a queue pair that was not reset"
        );
        for buffer in back.into_iter().filter_map(owned::Memory::into_buffer) {
            self.take(buffer);
        }
        Some(())
    }

    /// Takes ownership of a buffer.
    pub(crate) fn take(&mut self, buffer: Buffer) {
        self.hand.push(mine(buffer));
    }

    pub(crate) fn thaw(&mut self) -> Option<()> {
        self.fake.as_ref()?.freeze(false);
        Some(())
    }

    pub(crate) fn resize(&mut self) -> Option<()> {
        self.cq.as_mut()?.resize(sized(1500)).ok()
    }

    pub(crate) fn resize_srq(&mut self) -> Option<()> {
        let change = SrqModify {
            max_wr: Some(sized(500)),
            limit: None,
        };
        self.srq.as_mut()?.modify(&change).ok()
    }

    pub(crate) fn poll(&mut self) -> Option<()> {
        let cq = self.cq.as_mut()?;
        for _ in 0..8 {
            let Ok(Some(completion)) = cq.poll() else {
                return None;
            };
            let done = self.qp.as_mut().and_then(|qp| qp.complete(completion).ok());
            let buffer = done.and_then(owned::Finished::into_buffer);
            self.hand.extend(buffer.map(mine));
        }
        Some(())
    }

    pub(crate) fn join(&mut self) -> Option<()> {
        let _ = self.raw.as_mut()?.attach_multicast(&group(), 0);
        Some(())
    }

    pub(crate) fn leave(&mut self) -> Option<()> {
        self.raw.as_mut()?.detach_multicast(&group(), 0).ok()
    }

    pub(crate) fn query(&mut self) -> Option<()> {
        self.qp.as_mut()?.query().ok().map(drop)
    }

    /// Memory of this process, which stays valid, whatever becomes of its registration.
    fn memory() -> (*mut u8, usize) {
        let own: Box<[AtomicU64]> = (0..LENGTH / 8).map(|_| AtomicU64::new(0)).collect();
        let own: &'static [AtomicU64] = Box::leak(own);
        (own.as_ptr().cast::<u8>().cast_mut(), LENGTH)
    }

    #[allow(unsafe_code, reason = "registers memory of its own")]
    pub(crate) fn register(&mut self) -> Option<()> {
        let (start, length) = Self::memory();
        let pd = self.pds.first()?;
        // SAFETY: the memory is atomics that stay to the end.
        self.mr = unsafe { pd.register(start, length, AccessFlags::LOCAL_WRITE) }.ok();
        Some(())
    }

    #[allow(unsafe_code, reason = "registers memory of its own")]
    pub(crate) fn reregister(&mut self) -> Option<()> {
        let memory = (self.device == Device::Mlx5).then(Self::memory);
        let change = Reregister {
            memory,
            pd: self.pds.get(1),
            access: Some(AccessFlags::LOCAL_WRITE),
        };
        // SAFETY: as above.
        unsafe { self.mr.as_mut()?.reregister(&change) }.ok()
    }

    pub(crate) fn deregister(&mut self) -> Option<()> {
        self.mr.take()?.deregister().ok()
    }

    pub(crate) fn make_umem(&mut self) -> Option<()> {
        let devx = self.context.as_ref()?.mlx5().ok()?.devx().ok()?;
        let pages = Arc::new(Pages::new(LENGTH).ok()?);
        self.umem = devx.register_pages(&pages, AccessFlags::LOCAL_WRITE).ok();
        Some(())
    }

    pub(crate) fn end_umem(&mut self) -> Option<()> {
        drop(self.umem.take()?.deregister());
        Some(())
    }

    pub(crate) fn make_wq(&mut self) -> Option<()> {
        let adapter = self.context.as_ref()?.mlx5().ok()?;
        let (pd, cq) = (self.pds.first()?, self.cq.as_ref()?);
        self.wq = adapter.work_queue(pd, cq).max_wr(sized(4000)).build().ok();
        Some(())
    }

    pub(crate) fn change_wq(&mut self) -> Option<()> {
        let wq = self.wq.as_mut()?;
        for (from, to) in [
            (State::Reset, State::Ready),
            (State::Ready, State::Reset),
            (State::Reset, State::Ready),
        ] {
            let _ = wq.modify(from, to);
        }
        Some(())
    }

    pub(crate) fn destroy(&mut self) -> Option<()> {
        let back = self.qp.take()?.destroy().ok()?;
        for buffer in back.into_iter().filter_map(owned::Memory::into_buffer) {
            self.take(buffer);
        }
        Some(())
    }

    pub(crate) fn destroy_srq(&mut self) -> Option<()> {
        let back = self.srq.take()?.destroy().ok()?;
        for buffer in back.into_iter().filter_map(owned::Memory::into_buffer) {
            self.take(buffer);
        }
        Some(())
    }

    /// Drops everything but the context and the buffers that the program owns.
    pub(crate) fn end(&mut self) -> Option<()> {
        self.raw = None;
        self.wq = None;
        self.cq = None;
        self.pds.clear();
        self.context.is_some().then_some(())
    }

    /// Carries out all steps, each whatever the result of those before it. Returns how many
    /// unwound, and how many succeeded.
    pub(crate) fn run(&mut self, what: &str) -> (usize, usize) {
        let (mut unwound, mut done) = (0, 0);
        for (name, step) in STEPS {
            match catch_unwind(AssertUnwindSafe(|| step(self))) {
                Ok(end) => done += usize::from(end.is_some()),
                Err(payload) => {
                    assert!(payload.is::<OnPurpose>(), "{what}, at {name}");
                    unwound += 1;
                }
            }
            let freed = self.watched.freed();
            assert!(freed.is_empty(), "{what}, after {name}: freed {freed:x?}");
            let stale = self.watched.stale();
            assert!(
                stale.is_empty(),
                "{what}, after {name}: old work was carried out of {stale:?}"
            );
            for buffer in &self.hand {
                assert!(
                    **buffer == UNTOUCHED,
                    "{what}, after {name}: memory in hand was written to"
                );
            }
        }
        self.hand.clear();
        self.thaw();
        // A leaked object keeps what it depends on.
        let lent = self.watched.lent();
        let leaked = self.context.as_ref().map_or(0, Context::leaked);
        assert!(leaked > 0 || lent.is_empty(), "{what}: uncounted {lent:?}");
        (unwound, done)
    }
}

fn group() -> Gid {
    Gid::from_bytes([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
}

/// A buffer filled as one that the program owns.
fn mine(mut buffer: Buffer) -> Buffer {
    buffer.fill(MINE);
    buffer
}

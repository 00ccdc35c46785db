//! Shared by the tests on the fake kernel: kernels to run on, and a device opened on them.

pub mod connections;
pub mod kernels;
mod life;
pub mod targets;
mod tree;
mod world;

use std::sync::Arc;
use std::time::Duration;

pub use life::{live, live_on};
pub use tree::Tree;
use uverbs::owned::{self, Buffer, Finished};
use uverbs::recorder::{Recorder, Sink};
use uverbs::{Completion, Context, OpenOptions, QpType, discover};
use uverbs_core::sys::Kernel;
use uverbs_core::{CommandPath, Result, UverbsFile};
use uverbs_fake::{
    CallKind, DeviceProfile, Effect, FakeKernel, Feature, Profile, RingOf, RingView, When,
};
use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_RXE;
pub use world::World;

/// Something that takes longer than this hangs.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(miri) { 300 } else { 5 });

/// Number of polls after which nothing more is expected. Miri is slow at each of them.
const MANY: usize = if cfg!(miri) { 20 } else { 1000 };

/// Every encoding that can be forced.
pub const PATHS: [CommandPath; 4] = [
    CommandPath::Auto,
    CommandPath::Ioctl,
    CommandPath::InvokeWrite,
    CommandPath::Write,
];

/// Every encoding that can be forced; under Miri, which is some hundred times slower, only the
/// library's choice and the one that requires nothing of a kernel.
pub fn ways() -> impl Iterator<Item = CommandPath> {
    thinned(PATHS, 3)
}

/// The variable that requests fewer of many similar cases, on emulated machines.
const THINNED: &str = "UVERBS_TEST_THINNED";

/// Whether only some of many similar cases are run: under Miri, and where the environment requests
/// it.
pub fn is_thinned() -> bool {
    cfg!(miri) || std::env::var_os(THINNED).is_some()
}

/// All of many similar cases, or every `stride`-th of them.
pub fn thinned<T>(all: impl IntoIterator<Item = T>, stride: usize) -> impl Iterator<Item = T> {
    all.into_iter()
        .step_by(if is_thinned() { stride } else { 1 })
}

/// A fake kernel, and the encoding it is called with.
#[derive(Debug)]
pub struct Bench {
    /// The kernel.
    pub fake: FakeKernel,
    /// The encoding that commands take.
    pub path: CommandPath,
    /// The sink that each call is reported to.
    sink: Option<Arc<dyn Sink>>,
    /// Where sysfs is read, if not in `/sys`.
    tree: Option<Tree>,
}

impl Bench {
    /// A kernel of this `profile`, with commands encoded as `path` says.
    pub fn new(profile: Profile, path: CommandPath) -> Self {
        Self {
            fake: FakeKernel::new(profile),
            path,
            sink: coverage::sink(),
            tree: None,
        }
    }

    /// The kernel of a device that was recorded elsewhere.
    pub fn of_device(device: DeviceProfile, path: CommandPath) -> Self {
        Self {
            fake: FakeKernel::with_device(device),
            path,
            sink: coverage::sink(),
            tree: None,
        }
    }

    /// Reports each call to `sink`, too.
    #[must_use]
    pub fn recorded_by(mut self, sink: Arc<dyn Sink>) -> Self {
        self.sink = Some(coverage::and_to(sink));
        self
    }

    /// Reads sysfs in `tree`.
    #[must_use]
    pub fn with_sysfs(mut self, tree: Tree) -> Self {
        self.tree = Some(tree);
        self
    }

    /// The newest kernel, with the library's own choice of encodings.
    pub fn newest() -> Self {
        Self::new(Profile::v7_2(), CommandPath::Auto)
    }

    /// An opened device without a context.
    ///
    /// # Errors
    /// Those of opening it.
    #[expect(unsafe_code, reason = "issues commands of its own")]
    pub fn file(&self) -> Result<Arc<UverbsFile>> {
        let fake = self.fake.clone();
        let kernel: Arc<dyn Kernel> = match &self.sink {
            Some(sink) => Arc::new(Recorder::new(fake, sink.clone())),
            None => Arc::new(fake),
        };
        let fd = self
            .fake
            .open()
            .map_err(|errno| uverbs::Error::os(uverbs::error::Op::OpenDevice, errno))?;
        // SAFETY: (1) the descriptor is of the fake's device; (2, 3) these tests issue commands on
        // objects of their own, and keep what they register.
        let file = unsafe { UverbsFile::new(kernel, fd, RDMA_DRIVER_RXE, self.path) };
        Ok(Arc::new(file))
    }

    /// Applies `effect` to the calls that `when` selects.
    #[expect(unsafe_code, reason = "plays a kernel that lies")]
    pub fn inject(&self, when: When, effect: Effect) {
        // SAFETY: (1) memory that these tests register is the library's own buffers, which are
        // reached by copies once they are back, and the fake does not reach what was pretended to
        // be gone, because nothing is posted then;
        // (2) no test rewrites the numbers of descriptors.
        unsafe { self.fake.inject(when, effect) }
    }

    /// The memory of a queue.
    #[expect(
        unsafe_code,
        reason = "plays a kernel, or a process, that overwrites queues"
    )]
    pub fn ring(&self, which: RingOf) -> Option<RingView> {
        // SAFETY: (1) these tests overwrite no requests; (2) completions are made up while the
        // fake's device is held back.
        unsafe { self.fake.ring(which) }
    }

    /// An opened device with a context.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn context(&self) -> Result<Context> {
        let fd = self
            .fake
            .open()
            .map_err(|errno| uverbs::Error::os(uverbs::error::Op::OpenDevice, errno))?;
        let options = OpenOptions::new()
            .command_path(self.path)
            .kernel(Arc::new(self.fake.clone()));
        let options = match &self.sink {
            Some(sink) => options.record(sink.clone()),
            None => options,
        };
        let mut found = discover::Options::default();
        if let Some(tree) = &self.tree {
            tree.path().clone_into(&mut found.sysfs_root);
        }
        options.discover(found).over(self.fake.device_info(), fd)
    }
}

/// How a command reaches a kernel: as a method if both path and kernel support that, otherwise as
/// the legacy command. `None` if the path forbids the only possible encoding.
pub fn expected(
    profile: Profile,
    path: CommandPath,
    method: Option<(u16, u16)>,
    command: Option<u32>,
) -> Option<CallKind> {
    let method = method.filter(|(object, method)| profile.has_method(*object, *method));
    let prefers_legacy = matches!(path, CommandPath::InvokeWrite | CommandPath::Write);
    match (method, command) {
        (Some((object, method)), None) => Some(CallKind::Method(object, method)),
        (Some((object, method)), Some(_)) if !prefers_legacy => {
            Some(CallKind::Method(object, method))
        }
        (_, Some(number)) if path != CommandPath::Write && profile.has(Feature::InvokeWrite) => {
            Some(CallKind::Invoked(number))
        }
        (_, Some(number)) if path != CommandPath::Ioctl => Some(CallKind::Written(number)),
        _ => None,
    }
}

/// How a doorbell reaches a kernel that accepts `write(2)`.
pub fn expected_ring(profile: Profile, path: CommandPath, command: u32) -> Option<CallKind> {
    match path {
        CommandPath::Auto => Some(CallKind::Written(command)),
        _ => expected(profile, path, None, Some(command)),
    }
}

/// A queue pair connected to itself, and its completion queue.
#[derive(Debug)]
pub struct Loopback {
    /// The queue pair. Declared first: it is dropped before its completion queue.
    pub qp: owned::QueuePair,
    /// The completion queue of both directions.
    pub cq: uverbs::CompletionQueue,
    /// The protection domain of both.
    pub pd: uverbs::ProtectionDomain,
}

impl Loopback {
    /// Connects a reliable queue pair of `context` to itself.
    ///
    /// # Errors
    /// Those of every step.
    pub fn new(context: &Context) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(32)?;
        let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).gid_index(1).build()?;
        let endpoint = prepared.endpoint();
        let qp = owned::QueuePair::new(prepared.handshake(endpoint)?);
        Ok(Self { qp, cq, pd })
    }

    /// Polls until `count` completions have arrived, and passes each to the queue pair.
    ///
    /// # Errors
    /// Those of polling.
    pub fn finish(&mut self, count: usize) -> Result<Vec<Finished>, uverbs::PollError> {
        let mut finished = Vec::new();
        let mut polls = 0;
        while finished.len() < count && polls < MANY {
            polls += 1;
            let Some(completion) = self.cq.poll()? else {
                continue;
            };
            finished.extend(complete(&mut self.qp, completion));
        }
        Ok(finished)
    }

    /// Registered buffers of `len` bytes.
    ///
    /// # Errors
    /// Those of registering them.
    pub fn buffers<const N: usize>(&self, len: usize) -> Result<[Buffer; N]> {
        self.pd.buffers::<N>(len)
    }
}

fn complete(qp: &mut owned::QueuePair, completion: Completion<'_>) -> Option<Finished> {
    qp.complete(completion).ok()
}

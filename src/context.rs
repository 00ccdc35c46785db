//! An opened device.
//!
//! # Safety
//!
//! This is where the crate takes hold of a kernel, by creating a [`UverbsFile`], through which any
//! command can be issued. All other files of the crate keep the promise that is made here for it:
//! they hand out neither the file, nor the device's descriptor, nor an object that was created
//! through it. `cargo xtask surface` checks this.
#![allow(unsafe_code, reason = "takes hold of a kernel")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use uverbs_any::AnyContext;
use uverbs_core::contract::{self, Extra, Gids, OpenInit};
use uverbs_core::discover::sysfs::Sysfs;
use uverbs_core::discover::{self, CharDevice, DeviceInfo, ForkGuard, Target};
use uverbs_core::file;
use uverbs_core::sys::recorder::{Recorder, Sink};
use uverbs_core::sys::{Kernel, Linux};
use uverbs_core::types::{DeviceAttr, DriverId, GidEntry, PortAttr};
use uverbs_core::{CommandPath, Error, ErrorKind, Op, Result, UverbsFile};

use crate::event::EventFile;
use crate::event_table::EventTable;
use crate::{CompletionChannel, CompletionQueue, CompletionQueueBuilder, Device, ProtectionDomain};

/// `ibv_context`—an opened device.
///
/// Cheap to clone; the device stays open while any clone, or anything made from it, is alive.
#[doc(alias = "ibv_context")]
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) provider: AnyContext,
    pub(crate) file: Arc<UverbsFile>,
    pub(crate) event_table: Arc<EventTable>,
    pub(crate) events: EventFile,
    info: DeviceInfo,
    sysfs: Sysfs,
    fork: OnceLock<ForkGuard>,
    /// Boxed, because few programs have one: one more word would move all of this into a larger
    /// size class of the allocator.
    recorder: Option<Box<Arc<dyn Recording>>>,
}

/// A recorder: a kernel that also knows what it missed.
trait Recording: Kernel {
    fn unrecorded(&self) -> u64;
}

impl Recording for Recorder<Arc<dyn Kernel>> {
    fn unrecorded(&self) -> u64 {
        self.unrecorded()
    }
}

/// Records the calls of a kernel. It is stored as a function, so that only programs that record
/// have a recorder, with its tables of names.
type Record = fn(Arc<dyn Kernel>, Arc<dyn Sink>) -> Arc<dyn Recording>;

fn record(kernel: Arc<dyn Kernel>, sink: Arc<dyn Sink>) -> Arc<dyn Recording> {
    Arc::new(Recorder::new(kernel, sink))
}

/// How a device is opened.
///
/// ```no_run
/// use uverbs::kernel::CommandPath;
/// use uverbs::OpenOptions;
///
/// let context = OpenOptions::new().command_path(CommandPath::Ioctl).open("rxe0")?;
/// # Ok::<(), uverbs::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    path: CommandPath,
    recorder: Option<(Record, Arc<dyn Sink>)>,
    kernel: Option<Arc<dyn Kernel>>,
    discover: discover::Options,
    /// Vendor-specific parts.
    pub(crate) extras: Vec<Arc<dyn Extra>>,
    fork: Option<ForkGuard>,
    #[cfg(feature = "rings")]
    pub(crate) observer: Option<Arc<dyn crate::rings::Observer>>,
}

impl OpenOptions {
    /// The defaults: the kernel's newest command encoding, nothing recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forces a command encoding. Default: [`CommandPath::Auto`].
    #[must_use]
    pub fn command_path(mut self, path: CommandPath) -> Self {
        self.path = path;
        self
    }

    /// Reports every command of the context to `sink`, with its attributes by name.
    ///
    /// A sink that panics receives nothing more; commands continue as if it had not.
    /// [`Context::unrecorded`] counts what it missed.
    #[must_use]
    pub fn record(mut self, sink: Arc<dyn Sink>) -> Self {
        self.recorder = Some((record, sink));
        self
    }

    /// Where to look for devices.
    #[must_use]
    pub fn discover(mut self, options: discover::Options) -> Self {
        self.discover = options;
        self
    }

    /// Has commands carried out by something other than the running kernel, such as a fake in
    /// tests.
    ///
    /// A call in which it panics fails ([`Panicked`](ErrorKind::Panicked)). It is then unknown
    /// whether the call was carried out: memory that it named is leaked, and a queue that it
    /// changed accepts nothing more.
    #[must_use]
    pub fn kernel(mut self, kernel: Arc<dyn Kernel>) -> Self {
        self.kernel = Some(kernel);
        self
    }

    /// How registered memory is kept out of child processes. Default: [`ForkGuard::detect`], when
    /// memory is first registered.
    ///
    /// With a weaker guard than the kernel needs (before 5.12), what a device writes after a fork
    /// may not reach this process.
    #[must_use]
    #[doc(alias = "ibv_fork_init")]
    pub fn fork_guard(mut self, guard: ForkGuard) -> Self {
        self.fork = Some(guard);
        self
    }

    /// Opens the device with that name (`rxe0`, or `uverbs0`).
    ///
    /// # Errors
    /// As [`Context::open`].
    pub fn open(self, name: &str) -> Result<Context> {
        self.open_target(Target::Name(name.to_owned()))
    }

    /// Opens the device node at `path`.
    ///
    /// # Errors
    /// As [`Context::open`].
    pub fn open_path(self, path: impl Into<PathBuf>) -> Result<Context> {
        self.open_target(Target::Path(path.into()))
    }

    /// Opens a context on a descriptor of a device node, such as one that another process passed.
    ///
    /// # Errors
    /// As [`Context::open`]; [`InvalidInput`](ErrorKind::InvalidInput) for a descriptor of
    /// something else, or (EINVAL) one that already has a context.
    pub fn from_fd(self, fd: OwnedFd) -> Result<Context> {
        self.open_target(Target::Fd(fd))
    }

    /// Opens a device that was discovered.
    ///
    /// # Errors
    /// As [`Context::open`].
    pub fn open_device(self, device: &Device) -> Result<Context> {
        let opened = discover::open_device(device.info.clone(), &self.discover)?;
        self.on(opened.info, opened.fd, Some(opened.number))
    }

    fn open_target(self, target: Target) -> Result<Context> {
        let mut options = self.discover.clone();
        // Registering memory needs this; learning it costs one system call here, and five there.
        options.learn_fork = true;
        let opened = discover::open(target, &options)?;
        self.on(opened.info, opened.fd, Some(opened.number))
    }

    /// Opens a context on `fd` for the device that `info` describes, without any discovery.
    ///
    /// # Errors
    /// As [`Context::open`]; [`InvalidInput`](ErrorKind::InvalidInput) for a descriptor of
    /// something other than a verbs device, or of a device with another driver.
    pub fn over(self, info: DeviceInfo, fd: OwnedFd) -> Result<Context> {
        self.on(info, fd, None)
    }

    /// As [`over`](Self::over); `number` is what `fstat(2)` reported for the descriptor, if it was
    /// already called.
    fn on(self, info: DeviceInfo, fd: OwnedFd, number: Option<CharDevice>) -> Result<Context> {
        let mut kernel: Arc<dyn Kernel> = self.kernel.unwrap_or_else(|| Arc::new(Linux));
        let recorder = self
            .recorder
            .map(|(record, sink)| record(Arc::clone(&kernel), sink));
        if let Some(recorder) = &recorder {
            kernel = Arc::<dyn Recording>::clone(recorder);
        }
        let known = uverbs_any::supported(&info)?;
        // Ioctls name the driver whose data they carry, and the kernel checks that. Writes do not.
        let required = known.filter(|_| self.path == CommandPath::Write);
        kernel.check_device(fd.as_fd(), number, required)?;
        let driver = match known {
            Some(driver) => driver,
            // SAFETY: the kernel takes calls on the descriptor, as just checked.
            None => unsafe { driver_of(&*kernel, fd.as_fd(), &info) }?,
        };
        // SAFETY: (1) the kernel takes calls on the descriptor, and knows the driver or compares it
        // with each ioctl's, as said above; (2) this crate and its providers register memory, and
        // post requests that name it, only in functions that are unsafe and ask their caller for
        // the promise, and in `owned`, which keeps it by ownership;
        // (3) nothing of theirs that others can call takes a handle, or gives away a handle or the
        // file.
        let file = unsafe { UverbsFile::new(kernel, fd, driver.raw(), self.path) };
        #[cfg(feature = "rings")]
        let file = crate::rings::watched(file, self.observer);
        let file = Arc::new(file);
        let init = OpenInit {
            extras: &self.extras,
        };
        let mut provider = uverbs_any::open(driver, Arc::clone(&file), &init)?;
        let opened = provider.base_mut().opened.async_fd.take();
        let events = EventFile::new(&file, opened)?;
        Ok(Context {
            inner: Arc::new(Inner {
                provider,
                file,
                event_table: Arc::default(),
                events,
                info,
                sysfs: Sysfs::at(&self.discover.sysfs_root),
                fork: self.fork.map_or_else(OnceLock::new, OnceLock::from),
                recorder: recorder.map(Box::new),
            }),
        })
    }
}

/// The driver of the device behind `fd`, as the kernel knows it.
///
/// # Safety
/// 1. `kernel` takes calls on `fd`.
unsafe fn driver_of(
    kernel: &dyn Kernel,
    fd: BorrowedFd<'_>,
    info: &DeviceInfo,
) -> Result<DriverId> {
    let providers = uverbs_any::PROVIDERS.iter();
    let drivers: Vec<_> = providers.map(|provider| provider.driver).collect();
    // SAFETY: the caller's promise.
    let found = unsafe { file::driver_of(kernel, fd, &drivers) };
    found.ok_or_else(|| {
        Error::new(Op::OpenDevice, ErrorKind::Unsupported)
            .fact("device", info.name.clone())
            .fact("driver", "unknown")
    })
}

impl Context {
    /// `ibv_open_device`—opens the device with that name: `rxe0`, or the node's name `uverbs0`.
    ///
    /// About ten system calls; none waits.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`NotFound`](crate::ErrorKind::NotFound) | no such device, or not in this network namespace |
    /// | [`PermissionDenied`](crate::ErrorKind::PermissionDenied) | EACCES from the node, EPERM from the network namespace |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | no provider for its driver, or for that driver's ABI version |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | EMFILE, ENOMEM, EAGAIN from the rdma cgroup |
    #[doc(alias = "ibv_open_device")]
    pub fn open(name: &str) -> Result<Self> {
        OpenOptions::new().open(name)
    }

    /// What is known about the device: names, numbers, driver.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Its kernel name.
    pub fn name(&self) -> &str {
        &self.inner.info.name
    }

    /// `ibv_query_device_ex`—what the device can do, as it reported when it was opened. No system
    /// call.
    #[doc(alias = "ibv_query_device_ex")]
    #[doc(alias = "ibv_query_device")]
    pub fn device_attr(&self) -> &DeviceAttr {
        &self.inner.provider.base().device
    }

    /// The firmware's version, as the vendor writes it.
    pub fn firmware_version(&self) -> String {
        self.inner.provider.firmware_version()
    }

    /// How many interrupt vectors completion queues can choose from.
    pub fn completion_vectors(&self) -> u32 {
        self.inner.provider.base().opened.num_comp_vectors
    }

    /// `ibv_query_port`—the state of a port, numbered from 1. One system call.
    ///
    /// # Errors
    /// EINVAL for a port the device does not have.
    #[doc(alias = "ibv_query_port")]
    pub fn query_port(&self, port: u8) -> Result<PortAttr> {
        let ports = self.device_attr().phys_port_cnt.max(1);
        contract::query_port(&self.inner.file, port).map_err(|error| match port {
            port if (1..=ports).contains(&port) => error,
            _ => error
                .fact("ports", ports)
                .hint("the device has this many, numbered from 1"),
        })
    }

    /// The speed of a port, in units of 100 Mb/s. One system call, since Linux 7.0.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) on older kernels and with most drivers.
    #[doc(alias = "ibv_query_port_speed")]
    pub fn query_port_speed(&self, port: u8) -> Result<u64> {
        contract::query_port_speed(&self.inner.file, port)
    }

    /// `ibv_query_gid_table`—all used entries of all ports' GID tables.
    ///
    /// One system call, or sysfs where the kernel has no such command (before 5.10).
    ///
    /// # Errors
    /// Those of the command.
    #[doc(alias = "ibv_query_gid_table")]
    pub fn gid_table(&self) -> Result<Vec<GidEntry>> {
        let mut table = Vec::new();
        self.each_gid(|entry| table.push(entry))?;
        Ok(table)
    }

    pub(crate) fn each_gid(&self, each: impl FnMut(GidEntry)) -> Result<()> {
        self.gids().each(each)
    }

    pub(crate) fn gids(&self) -> Gids<'_> {
        let inner = &self.inner;
        Gids::new(&inner.file, &inner.info, &inner.sysfs)
    }

    /// `ibv_query_gid_ex`—one entry of a port's GID table, `None` for an empty one.
    ///
    /// # Errors
    /// EINVAL for a port or an index that the device does not have.
    #[doc(alias = "ibv_query_gid_ex")]
    #[doc(alias = "ibv_query_gid")]
    pub fn gid(&self, port: u8, index: u32) -> Result<Option<GidEntry>> {
        self.gids().entry(port, index)
    }

    /// The name of the network interface that a GID belongs to: `eth0`. `None` on InfiniBand, and
    /// for an entry that has become empty. Three system calls (sysfs), made only here.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for an entry of another device, or without sysfs.
    pub fn netdev_name(&self, entry: &GidEntry) -> Result<Option<String>> {
        let name = &self.inner.info.name;
        self.inner.sysfs.gid_netdev(name, entry.port, entry.index)
    }

    /// `ibv_query_pkey`—one entry of a port's partition key table. Three system calls (sysfs).
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) beyond the table, or without sysfs.
    #[doc(alias = "ibv_query_pkey")]
    pub fn pkey(&self, port: u8, index: u16) -> Result<u16> {
        self.inner
            .sysfs
            .pkey(&self.inner.info.name, port.into(), index.into())
    }

    /// `ibv_get_pkey_index`—the index of a partition key in a port's table.
    ///
    /// # Errors
    /// As [`pkey`](Self::pkey).
    #[doc(alias = "ibv_get_pkey_index")]
    pub fn pkey_index(&self, port: u8, key: u16) -> Result<Option<u16>> {
        let keys = self.inner.sysfs.pkeys(&self.inner.info.name, port.into())?;
        Ok(keys
            .iter()
            .position(|other| *other == key)
            .and_then(|index| index.try_into().ok()))
    }

    /// `ibv_alloc_pd`—allocates a protection domain. One system call.
    ///
    /// # Errors
    /// ENOMEM; EAGAIN from the rdma cgroup.
    #[doc(alias = "ibv_alloc_pd")]
    pub fn alloc_pd(&self) -> Result<ProtectionDomain> {
        ProtectionDomain::alloc(self)
    }

    /// `ibv_create_comp_channel`—creates a channel for the events of completion queues. Two system
    /// calls.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    #[doc(alias = "ibv_create_comp_channel")]
    pub fn create_completion_channel(&self) -> Result<CompletionChannel> {
        CompletionChannel::create(self)
    }

    /// `ibv_create_cq`—creates a completion queue for at least `entries` completions. Three system
    /// calls on rxe.
    ///
    /// # Errors
    /// As [`CompletionQueueBuilder::build`].
    #[doc(alias = "ibv_create_cq")]
    pub fn create_cq(&self, entries: u32) -> Result<CompletionQueue> {
        self.completion_queue(entries).build()
    }

    /// `ibv_create_cq_ex`—returns a builder for a completion queue with a completion channel, a
    /// vector, or `user_data`.
    #[doc(alias = "ibv_create_cq_ex")]
    pub fn completion_queue(&self, entries: u32) -> CompletionQueueBuilder<'_> {
        CompletionQueueBuilder::new(self, entries)
    }

    /// The descriptor of the opened device: for mapping its pages into a guest, or for handing it
    /// to another process.
    ///
    /// # Safety
    /// For everything that is done with the descriptor and its copies, by anyone who gets them:
    /// 1. no command makes the device use memory of this process, or map it, in a way that breaks a
    ///    rule of the language;
    /// 2. no command changes or destroys what was created by this context.
    #[doc(alias = "cmd_fd")]
    pub unsafe fn device_fd(&self) -> BorrowedFd<'_> {
        self.inner.file.as_fd()
    }

    /// The number of objects that may still exist: the kernel refused to destroy them, or the
    /// outcome of their creation is unknown. They, and the memory that a device may reach through
    /// them, are leaked until the process ends.
    pub fn leaked(&self) -> u64 {
        self.inner.file.leaked()
    }

    /// The number of commands that the sink of [`OpenOptions::record`] missed because it panicked;
    /// 0 if it never did.
    pub fn unrecorded(&self) -> u64 {
        let recorder = self.inner.recorder.as_ref();
        recorder.map_or(0, |recorder| recorder.unrecorded())
    }

    /// Keeps registered memory from being shared with child processes in a way that breaks it,
    /// where the kernel needs help with that.
    pub(crate) fn fork_guard(&self) -> Result<&ForkGuard> {
        if let Some(guard) = self.inner.fork.get() {
            return Ok(guard);
        }
        let guard = ForkGuard::detect()?;
        Ok(self.inner.fork.get_or_init(|| guard))
    }
}

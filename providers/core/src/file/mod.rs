//! An opened device: how commands reach it, and what is known about the kernel's support for them.
//!
//! A [`UverbsFile`] allows any command on the device. So creating one is `unsafe`, functions that
//! take one are safe, and no public type exposes the file that it uses. A [`CmFile`] is the same
//! for the connection manager, whose commands let no device access memory.

mod bits;
mod cm;
mod guard;
mod probe;
mod removal;

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE,
    UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, IB_USER_VERBS_CMD_GET_CONTEXT,
};
use zerocopy::{FromBytes, IntoBytes};

use self::bits::OpBits;
pub use self::cm::CmFile;
pub use self::probe::driver_of;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
#[cfg(feature = "rings")]
use crate::rings::{QueueKind, Watch, Watched};
use crate::sys::{
    Attr, Bell, Call, Command, ForkToken, Kernel, Mapping, Protection, Reply, Uhw, Value,
    WriteCommand, cells, wait_readable,
};

/// Which encoding to use for a command that has several.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CommandPath {
    /// The ioctl method where the kernel has it, else `INVOKE_WRITE`, else `write(2)`.
    ///
    /// Doorbells and the arming of completion queues start with `write(2)`, which costs the kernel
    /// less, and change to `INVOKE_WRITE` permanently once the kernel refuses a `write(2)`.
    #[default]
    Auto,
    /// Never `write(2)`: if the kernel lacks `INVOKE_WRITE`, legacy commands are unsupported.
    Ioctl,
    /// The legacy command through `INVOKE_WRITE` wherever there is one, ioctl methods for the rest.
    InvokeWrite,
    /// The legacy command through `write(2)` wherever there is one, ioctl methods for the rest.
    ///
    /// The kernel refuses such writes (EACCES) after `setuid` and in a forked child.
    Write,
}

/// An opened device.
///
/// The functions of [`cmd`](crate::cmd) issue commands through it; it chooses their encoding and
/// turns errnos into errors. It may be used from any thread.
#[derive(Debug)]
pub struct UverbsFile {
    kernel: Arc<dyn Kernel>,
    fd: OwnedFd,
    driver_id: u32,
    path: CommandPath,
    fork: ForkToken,
    no_ioctl: OpBits,
    unsupported: OpBits,
    no_invoke_write: AtomicBool,
    /// The kernel refused a `write(2)` that can go through `INVOKE_WRITE` instead.
    no_write: AtomicBool,
    removed: AtomicBool,
    /// The device reported a fatal error, or its removal.
    fatal: AtomicBool,
    leaked: AtomicU64,
    #[cfg(feature = "rings")]
    watch: Option<Arc<Watch>>,
}

/// Whether the reply of a legacy command contains the number of a new descriptor.
const fn returns_descriptor(number: u32) -> bool {
    matches!(
        number,
        IB_USER_VERBS_CMD_GET_CONTEXT | IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
    )
}

impl UverbsFile {
    /// Creates a file over `fd`, an opened uverbs device of driver `driver_id` (`RDMA_DRIVER_*`).
    ///
    /// # Safety
    /// For everything that anyone does with the file, and with what is created through it (objects,
    /// mappings):
    /// 1. `fd` is a device that `kernel` [takes calls on](Kernel::check_device), and its driver is
    ///    `driver_id`;
    /// 2. no command, and no request in a queue, makes a device or the kernel access memory of this
    ///    process in a way that violates Rust's rules: memory is registered and posted only while
    ///    it stays allocated, and while no reference exists that the access would violate;
    /// 3. an object is destroyed or modified only by its owner, and each handle that the kernel
    ///    returned is owned by exactly one [`Object`](crate::Object).
    #[expect(
        unsafe_code,
        reason = "the owner of one can make the kernel do anything"
    )]
    pub unsafe fn new(
        kernel: Arc<dyn Kernel>,
        fd: OwnedFd,
        driver_id: u32,
        path: CommandPath,
    ) -> Self {
        let fork = ForkToken::current();
        Self {
            kernel,
            fd,
            driver_id,
            path,
            fork,
            no_ioctl: OpBits::default(),
            unsupported: OpBits::default(),
            no_invoke_write: AtomicBool::new(false),
            no_write: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            fatal: AtomicBool::new(false),
            leaked: AtomicU64::new(0),
            #[cfg(feature = "rings")]
            watch: None,
        }
    }

    /// Reports what its queues are given and give back to `watch`.
    #[cfg(feature = "rings")]
    #[must_use]
    pub fn watched_by(mut self, watch: Arc<Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// The observer of its queues, if there is one.
    #[cfg(feature = "rings")]
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_deref()
    }

    /// A handle that reports the entries of a queue; `None` if the file is not watched.
    #[cfg(feature = "rings")]
    pub fn watched(&self, queue: QueueKind, number: u32) -> Option<Watched> {
        self.watch.as_ref().map(|watch| watch.queue(queue, number))
    }

    /// `RDMA_DRIVER_*` of the device.
    pub fn driver_id(&self) -> u32 {
        self.driver_id
    }

    /// The encoding that the user chose.
    pub fn path(&self) -> CommandPath {
        self.path
    }

    /// The process that opened the device.
    pub fn fork_token(&self) -> ForkToken {
        self.fork
    }

    /// Number of leaked objects (and of memory that a device may still write to): their destroy
    /// failed, or the outcome of a creation that named memory is unknown. They live until the
    /// process ends, and so do their parents.
    pub fn leaked(&self) -> u64 {
        self.leaked.load(Ordering::Relaxed)
    }

    pub(crate) fn count_leak(&self) {
        self.leaked.fetch_add(1, Ordering::Relaxed);
    }

    /// True once the device is known to have been removed.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// Records that the device was removed: a confirmed EIO, or a hung-up event file.
    pub fn set_removed(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Records a `DEVICE_FATAL` event: the last event if the device was removed, otherwise one of
    /// many.
    pub(crate) fn set_fatal(&self) {
        self.fatal.store(true, Ordering::Relaxed);
    }

    /// Whether `DEVICE_FATAL` was the last event. The kernel does not hang up asynchronous event
    /// files, so this has to be asked.
    pub(crate) fn has_no_more_events(&self) -> bool {
        self.fatal.load(Ordering::Relaxed) && self.confirm_removed()
    }

    fn raw_ioctl(&self, command: &Command<'_>) -> Result<(), Errno> {
        self.call(Call::Ioctl(command)).map(drop)
    }

    /// Issues an ioctl method.
    ///
    /// # Errors
    /// The kernel's errno; [`ErrorKind::Forked`] in a child; [`ErrorKind::BadReply`] if a mandatory
    /// output was not written.
    pub fn ioctl(
        &self,
        op: Op,
        object: u16,
        method: u16,
        attrs: &[Attr<'_>],
        uhw: &Uhw<'_>,
    ) -> Result<()> {
        self.check_process(op)?;
        self.raw_ioctl(&Command {
            object,
            method,
            driver_id: self.driver_id,
            attrs,
            uhw: *uhw,
        })
        .map_err(|errno| self.failure(op, errno))?;
        match attrs.iter().find(|attr| attr.is_unanswered()) {
            Some(attr) => Err(Error::bad_reply(op, "a mandatory output was not written")
                .fact("attribute", attr.id)),
            None => Ok(()),
        }
    }

    /// Issues a legacy command, through `INVOKE_WRITE` if the kernel has it and the path allows it.
    ///
    /// # Errors
    /// The kernel's errno; [`ErrorKind::Forked`] in a child; [`ErrorKind::Unsupported`] if the
    /// provider's attributes exist only on the ioctl interface.
    pub fn legacy(&self, op: Op, command: &WriteCommand<'_>) -> Result<()> {
        self.check_process(op)?;
        if command.uhw.needs_ioctl() {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .hint("the driver's attributes need the ioctl interface"));
        }
        if self.path != CommandPath::Write && !self.no_invoke_write.load(Ordering::Relaxed) {
            match self.invoke_write(command) {
                Err(Errno::NOTTY | Errno::PROTONOSUPPORT) => {
                    self.no_invoke_write.store(true, Ordering::Relaxed);
                }
                // Callers that expect a new descriptor check the reply themselves, so that it is
                // not leaked.
                Ok(false) if !returns_descriptor(command.number()) => {
                    return Err(Error::bad_reply(op, "the reply was not written"));
                }
                result => return result.map(drop).map_err(|errno| self.failure(op, errno)),
            }
        }
        if self.path == CommandPath::Ioctl {
            return Err(Error::new(op, ErrorKind::Unsupported).fact("kernel_lacks", "INVOKE_WRITE"));
        }
        self.call(Call::Write(command))
            .map_err(|errno| self.failure(op, errno))?;
        Ok(())
    }

    /// Issues a legacy command on the data path: allocates nothing unless it fails.
    ///
    /// On the automatic path it uses `write(2)` as long as the kernel accepts it. The kernel
    /// refuses before it does anything, so the command is then repeated at once as by
    /// [`legacy`](Self::legacy).
    ///
    /// # Errors
    /// The kernel's errno. EACCES in a forked child, as the kernel answers such a child's
    /// `write(2)`. EPROTONOSUPPORT if the path allows no other encoding.
    pub fn issue_fast(&self, op: Op, command: &WriteCommand<'_>) -> Result<(), Errno> {
        if !self.fork.is_current() {
            return Err(Errno::ACCESS);
        }
        if self.path == CommandPath::Auto && !self.no_write.load(Ordering::Relaxed) {
            match self.call(Call::Write(command)) {
                // Other credentials (EACCES), a seccomp filter, or a descriptor opened for reading
                // (EBADF).
                Err(Errno::ACCESS | Errno::PERM | Errno::BADF) => {
                    self.no_write.store(true, Ordering::Relaxed);
                }
                result => return result.map(|_| ()),
            }
        }
        self.issue_slowly(op, command)
    }

    #[cold]
    #[inline(never)]
    fn issue_slowly(&self, op: Op, command: &WriteCommand<'_>) -> Result<(), Errno> {
        self.legacy(op, command)
            .map_err(|error| match (error.errno(), error.kind()) {
                (Some(errno), _) => errno,
                (None, ErrorKind::Forked) => Errno::ACCESS,
                _ => Errno::PROTONOSUPPORT,
            })
    }

    /// Returns whether the kernel wrote the reply, if the command has one.
    fn invoke_write(&self, command: &WriteCommand<'_>) -> Result<bool, Errno> {
        let reply = (!command.reply.is_empty()).then_some(command.reply);
        let request = (!command.request.is_empty()).then_some(command.request);
        let attrs = [
            Attr::constant(UVERBS_ATTR_WRITE_CMD, command.number()),
            Attr::maybe(request, UVERBS_ATTR_CORE_IN, |id, bytes| {
                Attr::new(id, Value::In(bytes, None))
            }),
            Attr::maybe(reply, UVERBS_ATTR_CORE_OUT, Attr::output),
        ];
        self.raw_ioctl(&Command {
            object: UVERBS_OBJECT_DEVICE,
            method: UVERBS_METHOD_INVOKE_WRITE,
            driver_id: self.driver_id,
            attrs: &attrs,
            uhw: command.uhw,
        })?;
        Ok(!attrs.iter().any(Attr::is_unanswered))
    }

    /// Issues a command that has both encodings: `ioctl` first, `legacy` if the kernel lacks the
    /// method or the path asks for it.
    ///
    /// # Errors
    /// Those of the encoding that was used.
    pub fn dispatch<R>(
        &self,
        op: Op,
        ioctl: impl FnOnce() -> Result<R>,
        legacy: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let prefers_legacy = matches!(self.path, CommandPath::InvokeWrite | CommandPath::Write);
        if prefers_legacy || self.no_ioctl.contains(op) {
            return legacy();
        }
        match ioctl() {
            Err(error) if error.errno() == Some(Errno::NOTTY) => {
                self.no_ioctl.insert_all();
                legacy()
            }
            Err(error) if error.errno() == Some(Errno::PROTONOSUPPORT) => {
                self.no_ioctl.insert(op);
                legacy()
            }
            result => result,
        }
    }

    /// Issues a command that exists only as an ioctl method, and remembers whether the kernel lacks
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the kernel lacks the method, otherwise those of the command.
    pub fn ioctl_only<R>(&self, op: Op, ioctl: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.unsupported.contains(op) {
            return Err(
                Error::os(op, Errno::PROTONOSUPPORT).hint("this kernel does not have the command")
            );
        }
        let result = ioctl();
        if let Err(error) = &result
            && matches!(error.errno(), Some(Errno::NOTTY | Errno::PROTONOSUPPORT))
        {
            self.unsupported.insert(op);
        }
        result
    }

    /// Maps queue or device memory that a command announced, and excludes it from forked children.
    /// Two system calls.
    ///
    /// # Errors
    /// The errno of `mmap(2)` or `madvise(2)`; [`ErrorKind::BadReply`] if `len` is 0.
    pub fn map(&self, offset: u64, len: usize, protection: Protection) -> Result<Mapping> {
        let mut mapping = self.map_near(offset, len, protection, 0)?;
        mapping
            .leave_out()
            .map_err(|errno| self.failure(Op::MapDeviceMemory, errno))?;
        Ok(mapping)
    }

    /// Maps two ranges, each with its offset and length. Three system calls if the addresses just
    /// below the first mapping are free, otherwise four.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_both(
        &self,
        first: (u64, usize),
        second: (u64, usize),
        protection: Protection,
    ) -> Result<(Mapping, Mapping)> {
        let mut high = self.map_near(first.0, first.1, protection, 0)?;
        let before = high.as_ptr().addr().saturating_sub(second.1);
        let mut low = self.map_near(second.0, second.1, protection, before)?;
        Mapping::leave_out_both(&mut low, &mut high)
            .map_err(|errno| self.failure(Op::MapDeviceMemory, errno))?;
        Ok((high, low))
    }

    fn map_near(
        &self,
        offset: u64,
        len: usize,
        protection: Protection,
        near: usize,
    ) -> Result<Mapping> {
        let op = Op::MapDeviceMemory;
        self.check_process(op)?;
        if len == 0 {
            return Err(Error::bad_reply(op, "a mapping of no bytes"));
        }
        let call = Call::Map {
            offset,
            len,
            protection,
            near,
        };
        match self.call(call) {
            Ok(Reply::Mapped(mapping)) if mapping.len() >= len => Ok(mapping),
            Ok(_) => Err(Error::bad_reply(op, "no mapping of the announced size")),
            Err(errno) => Err(self.failure(op, errno)),
        }
    }

    /// Reads one event of type `E` from an event descriptor of this device.
    ///
    /// Blocks if the descriptor is blocking. A read that a signal interrupts is repeated.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] from a non-blocking descriptor; [`ErrorKind::DeviceRemoved`] if
    /// the device is gone; otherwise the kernel's errno.
    pub fn read_event<E: FromBytes + IntoBytes>(&self, op: Op, fd: BorrowedFd<'_>) -> Result<E> {
        let mut event = E::new_zeroed();
        let count = self.read_bytes(op, fd, cells(&mut event))?;
        if count == size_of::<E>() {
            return Ok(event);
        }
        Err(Error::bad_reply(op, "an event of another size").fact("bytes", count))
    }

    /// Reads one event whose length only the kernel knows, and returns that length, which is at
    /// most that of `buffer`. Otherwise like [`read_event`](Self::read_event).
    ///
    /// # Errors
    /// As [`read_event`](Self::read_event).
    pub fn read_bytes(&self, op: Op, fd: BorrowedFd<'_>, buffer: &[Cell<u8>]) -> Result<usize> {
        self.check_process(op)?;
        loop {
            match self.call_on(fd, Call::Read(buffer)) {
                Ok(Reply::Read(count)) if count <= buffer.len() => return Ok(count),
                Ok(_) => return Err(Error::bad_reply(op, "more bytes than there was room for")),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    return Err(Error::os(op, Errno::AGAIN).with_kind(ErrorKind::WouldBlock));
                }
                Err(Errno::IO) => {
                    self.set_removed();
                    return Err(self.failure(op, Errno::IO));
                }
                Err(errno) => return Err(self.failure(op, errno)),
            }
        }
    }

    /// Waits until `fd` is readable, for at most `timeout` (`None`: without limit). Returns whether
    /// it is.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceRemoved`] if the descriptor was hung up; otherwise the errno of
    /// `poll(2)`.
    pub fn wait_readable(
        &self,
        op: Op,
        fd: BorrowedFd<'_>,
        timeout: Option<std::time::Duration>,
    ) -> Result<bool> {
        self.wait_readable_or(op, fd, None, timeout)
    }

    /// As [`wait_readable`](Self::wait_readable); also ends, as if the time were up, once `bell`
    /// was rung.
    ///
    /// # Errors
    /// As [`wait_readable`](Self::wait_readable).
    pub fn wait_readable_or(
        &self,
        op: Op,
        fd: BorrowedFd<'_>,
        bell: Option<&Bell>,
        timeout: Option<std::time::Duration>,
    ) -> Result<bool> {
        match wait_readable(fd, bell, timeout) {
            Ok(None) => Ok(false),
            Ok(Some(true)) => Ok(true),
            Ok(Some(false)) => {
                self.set_removed();
                Err(self.failure(op, Errno::IO))
            }
            Err(errno) => Err(Error::os(op, errno)),
        }
    }

    /// Refuses `op` in a child of the process that opened the device.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn check_process(&self, op: Op) -> Result<()> {
        if self.fork.is_current() {
            return Ok(());
        }
        Err(Error::new(op, ErrorKind::Forked).hint("open the device again in the child"))
    }

    fn failure(&self, op: Op, errno: Errno) -> Error {
        let error = Error::os(op, errno);
        if errno == Errno::NOTRECOVERABLE {
            return error
                .hint("the `Kernel` given to the context panicked: whether the command was carried out is unknown");
        }
        let gone = match errno {
            Errno::IO => self.confirm_removed() || self.is_given_up(),
            Errno::NOLINK => self.is_removed() || self.is_given_up(),
            _ => false,
        };
        if gone {
            error.with_kind(ErrorKind::DeviceRemoved)
        } else {
            error
        }
    }

    /// Whether the driver has given up the device after a fatal error, and is about to remove it.
    ///
    /// mlx5 answers ENOLINK from then on (`mlx5_internal_err_ret_value`). It may recover the
    /// hardware, but as a new device. Until the removal the device may still transfer data, so
    /// ENOLINK does not prove that an object is gone.
    fn is_given_up(&self) -> bool {
        matches!(self.port_refusal(), Some(Errno::NOLINK | Errno::IO))
    }
}

impl AsFd for UverbsFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

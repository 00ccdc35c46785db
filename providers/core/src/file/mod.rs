//! One opened device: how commands reach it, and what was learned about it on the way.
//!
//! Who has a [`UverbsFile`] may issue any command on the device. So making one is `unsafe`,
//! everything that takes one is safe, and no type that others are given gives its file away.

mod bits;
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
pub use self::probe::driver_of;
use crate::error::{Errno, Error, ErrorKind, Op, Result};
#[cfg(feature = "rings")]
use crate::rings::{QueueKind, Watch, Watched};
use crate::sys::{
    Attr, Call, Command, ForkToken, Kernel, Mapping, Protection, Reply, Uhw, Value, WriteCommand,
    cells, wait_readable,
};

/// Which encoding a command takes when it has several.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CommandPath {
    /// The ioctl method where the kernel has it, else `INVOKE_WRITE`, else `write(2)`.
    ///
    /// Doorbells and the arming of completion queues start with `write(2)`, which costs the kernel
    /// less, and change to `INVOKE_WRITE` for good when the kernel refuses one.
    #[default]
    Auto,
    /// Never `write(2)`: where the kernel lacks `INVOKE_WRITE`, legacy commands are unsupported.
    Ioctl,
    /// Legacy commands through `INVOKE_WRITE` wherever there is one, ioctl methods for the rest.
    InvokeWrite,
    /// Legacy commands through `write(2)` wherever there is one, ioctl methods for the rest.
    ///
    /// The kernel refuses such writes (EACCES) after `setuid` and in a forked child.
    Write,
}

/// An opened device.
///
/// Commands are issued by the functions of [`cmd`](crate::cmd); this type chooses their encoding
/// and turns errnos into errors. It may be used from any thread.
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
    /// The kernel refused a `write(2)` that `INVOKE_WRITE` may carry.
    no_write: AtomicBool,
    removed: AtomicBool,
    /// The device told of a fatal error, or of its removal.
    fatal: AtomicBool,
    leaked: AtomicU64,
    #[cfg(feature = "rings")]
    watch: Option<Arc<Watch>>,
}

/// Whether the reply of a legacy command has the number of a new descriptor.
const fn hands_out_descriptor(number: u32) -> bool {
    matches!(
        number,
        IB_USER_VERBS_CMD_GET_CONTEXT | IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
    )
}

impl UverbsFile {
    /// A file over `fd`, an opened uverbs device of driver `driver_id` (`RDMA_DRIVER_*`).
    ///
    /// # Safety
    /// For everything that is done with the file, by whoever gets it, and with what is made by it
    /// (objects, mappings):
    /// 1. `fd` is a device that `kernel` [takes calls on](Kernel::check_device), and its driver is
    ///    `driver_id`;
    /// 2. no command, and no request in a queue, makes a device or the kernel use memory of this
    ///    process in a way that breaks a rule of the language: memory is registered and posted only
    ///    while it stays allocated, and while nobody holds a reference that the use of it
    ///    contradicts;
    /// 3. an object is destroyed or changed only by who has it, and each handle that the kernel
    ///    gave is taken over by one [`Object`](crate::Object).
    #[expect(unsafe_code, reason = "who has one may have the kernel do anything")]
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

    /// Tells of what its queues are given and give back.
    #[cfg(feature = "rings")]
    #[must_use]
    pub fn watched_by(mut self, watch: Arc<Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Who is told.
    #[cfg(feature = "rings")]
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_deref()
    }

    /// A queue as it is told of; `None` where nobody watches.
    #[cfg(feature = "rings")]
    pub fn watched(&self, queue: QueueKind, number: u32) -> Option<Watched> {
        self.watch.as_ref().map(|watch| watch.queue(queue, number))
    }

    /// `RDMA_DRIVER_*` of the device.
    pub fn driver_id(&self) -> u32 {
        self.driver_id
    }

    /// The encoding that was asked for.
    pub fn path(&self) -> CommandPath {
        self.path
    }

    /// The process that opened the device.
    pub fn fork_token(&self) -> ForkToken {
        self.fork
    }

    /// Objects (and the memory a device may still write to) that were given up: their destroy
    /// failed, or nobody knows what became of a creation that named memory. They live until the
    /// process ends, with what they stand on.
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

    /// Notes that the device was removed: EIO that was confirmed, or a hung-up event file.
    pub fn set_removed(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    /// Notes a `DEVICE_FATAL` event: the last one when the device was removed, else one of many.
    pub(crate) fn set_fatal(&self) {
        self.fatal.store(true, Ordering::Relaxed);
    }

    /// Whether `DEVICE_FATAL` was the last event. The kernel does not hang up asynchronous event
    /// files.
    pub(crate) fn has_no_more_events(&self) -> bool {
        self.fatal.load(Ordering::Relaxed) && self.confirm_removed()
    }

    fn raw_ioctl(&self, command: &Command<'_>) -> Result<(), Errno> {
        self.call(Call::Ioctl(command)).map(drop)
    }

    /// Issues an ioctl method.
    ///
    /// # Errors
    /// The kernel's errno; [`ErrorKind::Forked`] in a child; [`ErrorKind::BadReply`] when a
    /// mandatory output was not written.
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

    /// Issues a legacy command, through `INVOKE_WRITE` where the kernel has it and the path allows
    /// it.
    ///
    /// # Errors
    /// The kernel's errno; [`ErrorKind::Forked`] in a child; [`ErrorKind::Unsupported`] when the
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
                // Who asks for a descriptor looks by itself, lest one be lost.
                Ok(false) if !hands_out_descriptor(command.number()) => {
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

    /// Issues a legacy command of a data path: nothing is allocated unless it fails.
    ///
    /// On the automatic path by `write(2)`, as long as the kernel takes it. Its refusal comes
    /// before anything is done, so the command is repeated at once as [`legacy`](Self::legacy)
    /// issues it.
    ///
    /// # Errors
    /// The kernel's errno. EACCES in a forked child, as the kernel gives to such a child's
    /// `write(2)`. EPROTONOSUPPORT when no encoding is left that the path allows.
    pub fn ring(&self, op: Op, command: &WriteCommand<'_>) -> Result<(), Errno> {
        if !self.fork.is_current() {
            return Err(Errno::ACCESS);
        }
        if self.path == CommandPath::Auto && !self.no_write.load(Ordering::Relaxed) {
            match self.call(Call::Write(command)) {
                // Of another user (EACCES), a filter's, or of a descriptor opened for reading
                // (EBADF).
                Err(Errno::ACCESS | Errno::PERM | Errno::BADF) => {
                    self.no_write.store(true, Ordering::Relaxed);
                }
                result => return result.map(|_| ()),
            }
        }
        self.legacy(op, command)
            .map_err(|error| match (error.errno(), error.kind()) {
                (Some(errno), _) => errno,
                (None, ErrorKind::Forked) => Errno::ACCESS,
                _ => Errno::PROTONOSUPPORT,
            })
    }

    /// Returns whether the kernel wrote the reply, if there is one.
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

    /// Issues a command that has both encodings: `ioctl` first, `legacy` where the kernel lacks the
    /// method or the path asks for it.
    ///
    /// # Errors
    /// Those of the encoding that was carried out.
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

    /// Issues a command that exists only as an ioctl method, and remembers when the kernel lacks
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the kernel lacks the method, else those of the command.
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

    /// Maps queue or device memory that a command announced, and leaves it out of children. Two
    /// system calls.
    ///
    /// # Errors
    /// The errno of `mmap(2)` or `madvise(2)`; [`ErrorKind::BadReply`] when `len` is 0.
    pub fn map(&self, offset: u64, len: usize, protection: Protection) -> Result<Mapping> {
        let mut mapping = self.map_near(offset, len, protection, 0)?;
        mapping
            .leave_out()
            .map_err(|errno| self.failure(Op::MapDeviceMemory, errno))?;
        Ok(mapping)
    }

    /// Maps two pieces of memory, each with its offset and length. Three system calls, as long as
    /// the addresses before those of the first are free, else four.
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
    /// It blocks as the descriptor does. Signals do not end it: an interrupted read is repeated.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] from a descriptor that does not block;
    /// [`ErrorKind::DeviceRemoved`] when the device is gone; the kernel's errno otherwise.
    pub fn read_event<E: FromBytes + IntoBytes>(&self, op: Op, fd: BorrowedFd<'_>) -> Result<E> {
        let mut event = E::new_zeroed();
        let count = self.read_bytes(op, fd, cells(&mut event))?;
        if count == size_of::<E>() {
            return Ok(event);
        }
        Err(Error::bad_reply(op, "an event of another size").fact("bytes", count))
    }

    /// Reads one event of a length that only the kernel knows, and returns that length, which is
    /// at most that of `buffer`. Else as [`read_event`](Self::read_event).
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

    /// Waits until `fd` is readable, for at most `timeout` (`None`: for ever). Returns whether it
    /// is.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceRemoved`] when the descriptor was hung up; the errno of `poll(2)`
    /// otherwise.
    pub fn wait_readable(
        &self,
        op: Op,
        fd: BorrowedFd<'_>,
        timeout: Option<std::time::Duration>,
    ) -> Result<bool> {
        match wait_readable(fd, timeout) {
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
                .hint("the kernel given to the context panicked: whether it was done is unknown");
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

    /// Whether the driver has given the device up after a fatal error, and is about to take it
    /// away.
    ///
    /// mlx5 answers ENOLINK from then on (`mlx5_internal_err_ret_value`). It may recover the
    /// device, but as another one. The device may still move data until then, so this proves of no
    /// object that it is gone.
    fn is_given_up(&self) -> bool {
        matches!(self.port_refusal(), Some(Errno::NOLINK | Errno::IO))
    }
}

impl AsFd for UverbsFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

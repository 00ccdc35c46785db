//! Opened devices.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for. This is where the crate takes hold of a
//! kernel, by creating a [`UverbsFile`]: memory is registered, and requests that name it are
//! posted, only where a C program asks for it, and the C interface makes that program responsible
//! for the memory.
#![allow(unsafe_code, reason = "exports names; takes hold of a kernel")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::{Arc, OnceLock};

use uverbs_any::AnyContext;
use uverbs_core::contract::{self, Gids, OpenInit};
use uverbs_core::discover::sysfs::Sysfs;
use uverbs_core::discover::{self, DeviceInfo};
use uverbs_core::sys::{CharDevice, Kernel as _, Linux};
use uverbs_core::{CommandPath, UverbsFile, file};

use crate::abi::{ibv_context, verbs_context};
use crate::allocator::Allocator;
use crate::answer::{Answer, number, pointer};
use crate::device::{Device, by_number, options};
use crate::dv;
use crate::errno::Code;
use crate::lock::Locked;
use crate::pointer::{Handle, Object};
use crate::slots;
use crate::users::Users;
use crate::wait::Mutex;

/// An opened device.
#[repr(C)]
pub(crate) struct Context {
    c: verbs_context,
    opened: Opened,
    pub(crate) info: DeviceInfo,
    pub(crate) sysfs: Sysfs,
    pub(crate) users: Users,
    /// Numbers of queue pairs that nobody gets.
    pub(crate) reserved: dv::Reserved,
    /// The login to encryption of everybody who names none.
    pub(crate) login: dv::OwnLogin,
    /// The program's functions for memory of queues, of `mlx5dv.h`.
    memory: Locked<Option<Arc<Allocator>>>,
    device: Handle<Device>,
    events: OwnedFd,
    /// The descriptor of an imported context.
    given: Option<OwnedFd>,
}

impl Object for Context {
    type C = ibv_context;
    const OFFSET: usize = std::mem::offset_of!(verbs_context, context);
}

/// A device, as one process uses it.
struct Opened {
    provider: AnyContext,
    file: Arc<UverbsFile>,
    /// What a child of that process uses: the same context of the kernel's, with memory of its own.
    heir: OnceLock<Box<Self>>,
}

/// `__VERBS_ABI_IS_EXTENDED`.
const EXTENDED: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);

impl Context {
    fn open(device: Handle<Device>) -> Answer<Self> {
        let described = device.get()?;
        let opened = discover::open_device(described.info.clone(), &options())?;
        let known = uverbs_any::supported(&opened.info)?;
        Linux.check_device(opened.fd.as_fd(), Some(opened.number), None)?;
        let drivers: Vec<_> = uverbs_any::PROVIDERS.iter().map(|one| one.driver).collect();
        let driver = known.or_else(|| {
            // SAFETY: the kernel takes calls on the descriptor, as just checked.
            unsafe { file::driver_of(&Linux, opened.fd.as_fd(), &drivers) }
        });
        let driver = driver.ok_or(Code::UNSUPPORTED)?;
        let cmd_fd = opened.fd.as_raw_fd();
        // SAFETY: (1) checked above; the kernel compares the driver with each ioctl's; (2) and (3)
        // as said above: what is registered and posted is what C asks for.
        let file =
            unsafe { UverbsFile::new(Arc::new(Linux), opened.fd, driver.raw(), CommandPath::Auto) };
        let file = Arc::new(file);
        let provider = uverbs_any::open(driver, Arc::clone(&file), &OpenInit::default())?;
        Self::of(device, opened.info, cmd_fd, provider)
    }

    /// A context that the program has a descriptor of, which another process may have opened.
    fn import(given: c_int) -> Answer<Self> {
        if given < 0 {
            return Err(Code::new(libc::EBADF));
        }
        // SAFETY: not -1; the program keeps it open during the call.
        let borrowed = unsafe { BorrowedFd::borrow_raw(given) };
        let number = CharDevice::behind(borrowed)?;
        let device = by_number(number)?;
        let made = Self::over(device, borrowed, number);
        device.get()?.release();
        let mut made = made?;
        // SAFETY: the program gives it up, as it does with rdma-core, unless the call fails.
        made.given = Some(unsafe { OwnedFd::from_raw_fd(given) });
        Ok(made)
    }

    fn over(device: Handle<Device>, fd: BorrowedFd<'_>, number: CharDevice) -> Answer<Self> {
        let info = device.get()?.info.clone();
        let provider = Self::imported(fd, number, &info)?;
        Self::of(device, info, fd.as_raw_fd(), provider)
    }

    /// What a descriptor has that the kernel has a context for.
    fn imported(fd: BorrowedFd<'_>, number: CharDevice, info: &DeviceInfo) -> Answer<AnyContext> {
        Linux.check_device(fd, Some(number), None)?;
        let driver = uverbs_any::supported(info)?.ok_or(Code::UNSUPPORTED)?;
        let own = fd.try_clone_to_owned();
        let own = own.map_err(|error| Code::new(error.raw_os_error().unwrap_or(libc::EIO)))?;
        // SAFETY: as in `open`.
        let file =
            unsafe { UverbsFile::new(Arc::new(Linux), own, driver.raw(), CommandPath::Auto) };
        dv::import(driver, Arc::new(file))
    }

    fn of(
        device: Handle<Device>,
        info: DeviceInfo,
        cmd_fd: c_int,
        mut provider: AnyContext,
    ) -> Answer<Self> {
        let described = device.get()?;
        let file = Arc::clone(&provider.base().file);
        let events = match provider.base_mut().opened.async_fd.take() {
            Some(events) => events,
            None => contract::event_file(&file)?,
        };
        let vectors = provider.base().opened.num_comp_vectors;
        let context = ibv_context {
            device: device.raw(),
            ops: slots::operations(),
            cmd_fd,
            async_fd: events.as_raw_fd(),
            num_comp_vectors: c_int::try_from(vectors).unwrap_or(c_int::MAX),
            mutex: Mutex::new(),
            abi_compat: EXTENDED,
        };
        described.keep();
        Ok(Self {
            c: slots::extended(context),
            opened: Opened {
                provider,
                file,
                heir: OnceLock::new(),
            },
            info,
            sysfs: Sysfs::at(options().sysfs_root),
            users: Users::new(),
            reserved: dv::Reserved::default(),
            login: dv::OwnLogin::default(),
            memory: Locked::new(None, true),
            device,
            events,
            given: None,
        })
    }

    /// What this process uses. A child of the one that opened the device gets what it may use when
    /// it first needs that; where there is none, its calls are refused.
    fn here(&self) -> &Opened {
        let mut opened = &self.opened;
        while !opened.file.fork_token().is_current() {
            let Some(heir) = opened.heir.get() else {
                let Ok(heir) = self.inherit() else {
                    return &self.opened;
                };
                let _ = opened.heir.set(Box::new(heir));
                continue;
            };
            opened = heir;
        }
        opened
    }

    /// The context of the parent's descriptor, for a child.
    fn inherit(&self) -> Answer<Opened> {
        // SAFETY: the file of this context keeps it open.
        let fd = unsafe { BorrowedFd::borrow_raw(self.c.context.cmd_fd) };
        let number = CharDevice::behind(fd)?;
        let provider = Self::imported(fd, number, &self.info)?;
        Ok(Opened {
            file: Arc::clone(&provider.base().file),
            provider,
            heir: OnceLock::new(),
        })
    }

    /// The provider's context.
    pub(crate) fn provider(&self) -> &AnyContext {
        &self.here().provider
    }

    /// The opened file.
    pub(crate) fn file(&self) -> &Arc<UverbsFile> {
        &self.here().file
    }

    /// What allocates memory for its queues.
    pub(crate) fn memory(&self) -> Option<Arc<Allocator>> {
        self.memory.with(|memory| memory.clone())
    }

    /// From now on this does; `None`: this library itself.
    pub(crate) fn set_memory(&self, memory: Option<Arc<Allocator>>) {
        self.memory.with(|own| *own = memory);
    }

    /// Its GID tables.
    pub(crate) fn gids(&self) -> Gids<'_> {
        Gids::new(self.file(), &self.info, &self.sysfs)
    }

    /// The file of its asynchronous events.
    pub(crate) fn events(&self) -> c_int {
        self.events.as_raw_fd()
    }

    /// Something that was made from it is gone.
    pub(crate) fn leave(&self) {
        if self.users.leave() {
            self.finish();
        }
    }

    fn close(&self) -> Answer<()> {
        if self.users.end()? {
            self.finish();
        }
        Ok(())
    }

    fn finish(&self) {
        let device = self.device;
        self.free();
        if let Some(device) = device.optional() {
            device.release();
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_open_device(device: Handle<Device>) -> *mut ibv_context {
    open(device)
}

/// Opens a device.
pub(crate) fn open(device: Handle<Device>) -> *mut ibv_context {
    pointer(|| {
        let opened = Box::new(Context::open(device)?);
        Ok(Context::to_c(Box::into_raw(opened)))
    })
}

/// Opens a device of another kernel than the system's, for programs that count what a call costs.
/// NULL, with the reason in `errno`, if that fails.
///
/// # Safety
/// `kernel` takes calls on `fd`, for a device of the driver that `info` names.
#[cfg(feature = "harness")]
pub unsafe fn open_over(
    kernel: Arc<dyn uverbs_core::sys::Kernel>,
    fd: OwnedFd,
    info: &DeviceInfo,
) -> *mut c_void {
    let opened = pointer(|| {
        let driver = uverbs_any::supported(info)?.ok_or(Code::UNSUPPORTED)?;
        let cmd_fd = fd.as_raw_fd();
        let path = CommandPath::InvokeWrite;
        // SAFETY: the caller's promise; what is registered and posted is what C asks for.
        let file = unsafe { UverbsFile::new(kernel, fd, driver.raw(), path) };
        let provider = uverbs_any::open(driver, Arc::new(file), &OpenInit::default())?;
        let device = Handle::of(Device::alone(info.clone()));
        let opened = Box::new(Context::of(device, info.clone(), cmd_fd, provider)?);
        Ok(Context::to_c(Box::into_raw(opened)))
    });
    opened.cast()
}

/// The descriptor is the library's from then on, unless the call fails.
#[unsafe(no_mangle)]
extern "C" fn ibv_import_device(fd: c_int) -> *mut ibv_context {
    pointer(|| Ok(Context::to_c(Box::into_raw(Box::new(Context::import(fd)?)))))
}

/// While something made from it exists, that can be used and destroyed; the last destroy closes the
/// device. As in rdma-core, this is not an error: programs that leave the order to a garbage
/// collector do it.
#[unsafe(no_mangle)]
extern "C" fn ibv_close_device(context: Handle<Context>) -> c_int {
    number(|| context.get()?.close())
}

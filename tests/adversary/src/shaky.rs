//! A kernel some of whose calls fail or panic.
//!
//! # Safety
//!
//! It returns what the kernel underneath returns, and makes no call that it was not given.
#![allow(unsafe_code, reason = "passes the promises of a kernel on")]

use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use uverbs::attr::DriverId;
use uverbs::error::Errno;
use uverbs_core::Result;
use uverbs_core::discover::CharDevice;
use uverbs_core::sys::{Call, Kernel, Reply};

use crate::device::Fault;

/// A panic on request: it ends where the library was called.
#[derive(Debug)]
pub(crate) struct Sprung;

/// The kernel, and the fault of a call after this many others.
#[derive(Debug)]
pub(crate) struct Shaky<K> {
    kernel: K,
    fault: Mutex<Option<(u8, Fault)>>,
}

impl<K> Shaky<K> {
    pub(crate) fn new(kernel: K) -> Self {
        Self {
            kernel,
            fault: Mutex::new(None),
        }
    }

    pub(crate) fn kernel(&self) -> &K {
        &self.kernel
    }

    /// Sets the next fault; `None` for no fault.
    pub(crate) fn set(&self, fault: Option<(u8, Fault)>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// The fault of this call.
    fn strike(&self) -> Option<Fault> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *fault {
            Some((0, _)) => fault.take().map(|(_, fault)| fault),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        }
    }
}

// SAFETY: what it returns is what the kernel underneath returns.
unsafe impl<K: Kernel> Kernel for Shaky<K> {
    #[expect(clippy::panic, reason = "that is what it is for")]
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> std::result::Result<Reply, Errno> {
        let fault = self.strike();
        match fault {
            Some(Fault::Fails) => return Err(Errno::NOMEM),
            Some(Fault::PanicsBefore) => std::panic::panic_any(Sprung),
            _ => {}
        }
        // SAFETY: the caller fulfils the obligations that the kernel underneath requires.
        let answer = unsafe { self.kernel.call(fd, call) };
        if fault == Some(Fault::PanicsAfter) {
            std::panic::panic_any(Sprung);
        }
        answer
    }

    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> Result<()> {
        self.kernel.check_device(fd, number, driver)
    }

    fn check_connection_manager(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
    ) -> Result<()> {
        self.kernel.check_connection_manager(fd, number)
    }
}

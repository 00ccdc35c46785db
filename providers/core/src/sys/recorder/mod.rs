//! Records every call on an RDMA descriptor, by name.
//!
//! A [`Recorder`] sits between a [`UverbsFile`](crate::UverbsFile) and any [`Kernel`], including
//! the real one. After each call it passes a [`Record`] to a [`Sink`]: the request, with the names
//! of object, method and attributes from the kernel's headers, the result, and the duration. Legacy
//! commands are shown as such, whether they were issued by `write(2)` or inside `INVOKE_WRITE`.
//!
//! ```text
//! ioctl CQ/CREATE handle→1 cqe=255 user_handle=0x1000000 comp_vector=0 flags=0x0 resp_cqe→255 uhw_out→[16] = ok (23 µs)
//! invoke REG_MR start=0x7f0000001000 length=4096 hca_va=0x7f0000001000 access_flags=0x1 mr_handle→2 lkey→… rkey→… = ok (8 µs)
//! mmap offset=4096 len=20480 rw = ok (12 µs)
//! ```
//!
//! Keys are omitted from the printed form, since anyone who knows an rkey may access the memory.
//! [`Record::with_keys`] shows them.
//!
//! A sink cannot affect the call that it is given. If it panics, it is not called again, the call
//! continues, and [`Recorder::unrecorded`] counts what the sink missed.

mod bytes;
mod capture;
pub(super) mod fields;
pub(crate) mod json;
mod names;
mod outline;
mod print;
mod record;
mod sink;
#[cfg(test)]
mod tests;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use bytes::{attribute_fields, command_fields, command_name, struct_fields};
pub use names::Name;
pub use print::WithKeys;
pub use record::{Attribute, Body, CommandPath, Direction, FdClass, Record, Value};
pub use sink::{Collector, Lines, Sink};

use super::open::CharDevice;
use super::{Call, Kernel, Reply, catch_panic};
use crate::error::Errno;
use crate::types::DriverId;

/// A kernel whose calls are recorded.
#[derive(Debug)]
pub struct Recorder<K> {
    kernel: K,
    sink: Arc<dyn Sink>,
    count: AtomicU64,
    unrecorded: AtomicU64,
}

impl<K: Kernel> Recorder<K> {
    /// Records the calls of `kernel` into `sink`.
    pub fn new(kernel: K, sink: Arc<dyn Sink>) -> Self {
        Self {
            kernel,
            sink,
            count: AtomicU64::new(0),
            unrecorded: AtomicU64::new(0),
        }
    }

    /// The underlying kernel.
    pub fn kernel(&self) -> &K {
        &self.kernel
    }
}

#[expect(unsafe_code, reason = "forwards the safety contract")]
// SAFETY: the descriptors that it returns are those that the underlying kernel returns.
unsafe impl<K: Kernel> Kernel for Recorder<K> {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let start = Instant::now();
        // SAFETY: the caller upholds the same contract for the underlying kernel.
        let answer = unsafe { self.kernel.call(fd, call) };
        self.notify_sink(fd, &call, &answer, start.elapsed());
        answer
    }

    fn check_device(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
        driver: Option<DriverId>,
    ) -> crate::Result<()> {
        self.kernel.check_device(fd, number, driver)
    }

    fn check_connection_manager(
        &self,
        fd: BorrowedFd<'_>,
        number: Option<CharDevice>,
    ) -> crate::Result<()> {
        self.kernel.check_connection_manager(fd, number)
    }
}

impl<K> Recorder<K> {
    /// Number of calls that the sink did not record, or not completely, because it panicked. 0 if
    /// it never did.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    /// Passes a call to the sink. The kernel has carried it out, so the caller must get the result,
    /// whatever the sink does.
    fn notify_sink(
        &self,
        fd: BorrowedFd<'_>,
        call: &Call<'_>,
        answer: &Result<Reply, Errno>,
        duration: Duration,
    ) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let recorded = self.unrecorded() == 0
            && catch_panic(|| {
                self.sink.record(&Record {
                    number,
                    fd: capture::class(call),
                    fd_number: fd.as_raw_fd(),
                    duration,
                    body: capture::body(call, answer),
                    errno: answer.as_ref().err().map(|errno| errno.raw_os_error()),
                });
            })
            .is_some();
        if !recorded {
            self.unrecorded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

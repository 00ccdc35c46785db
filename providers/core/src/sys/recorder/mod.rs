//! Writes down every call on an RDMA descriptor, by name.
//!
//! A [`Recorder`] stands between a [`UverbsFile`](crate::UverbsFile) and any [`Kernel`], the real
//! one included. After each call it hands a [`Record`] to a [`Sink`]: what was asked, with the
//! names the kernel's headers have for object, method and attributes, what came back, and how long
//! it took. Legacy commands are shown as themselves, whether they travelled by `write(2)` or inside
//! `INVOKE_WRITE`.
//!
//! ```text
//! ioctl CQ/CREATE handle→1 cqe=255 user_handle=0x1000000 comp_vector=0 flags=0x0 resp_cqe→255 uhw_out→[16] = ok (23 µs)
//! invoke REG_MR start=0x7f0000001000 length=4096 hca_va=0x7f0000001000 access_flags=0x1 mr_handle→2 lkey→… rkey→… = ok (8 µs)
//! mmap offset=4096 len=20480 rw = ok (12 µs)
//! ```
//!
//! Keys are left out of the printed form: who knows an rkey can reach memory. [`Record::with_keys`]
//! shows them.
//!
//! A sink is no part of the call that it is told of. One that panics is told nothing more, the call
//! goes on, and [`Recorder::unrecorded`] counts what it missed.

mod bytes;
mod capture;
mod fields;
pub(crate) mod json;
mod names;
mod outline;
mod print;
mod record;
mod sink;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use bytes::{attribute_fields, command_fields, command_name, struct_fields};
pub use fields::{Place, find as struct_layout, places as struct_places};
pub use names::Name;
pub use print::WithKeys;
pub use record::{Attribute, Body, CommandPath, Direction, FdClass, Record, Value};
pub use sink::{Collector, Lines, Sink};

use super::open::CharDevice;
use super::{Call, Kernel, Reply, contained};
use crate::error::Errno;
use crate::types::DriverId;

/// A kernel whose calls are written down.
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

    /// The kernel underneath.
    pub fn kernel(&self) -> &K {
        &self.kernel
    }
}

#[expect(unsafe_code, reason = "passes promises on")]
// SAFETY: what it hands out is what the kernel underneath hands out.
unsafe impl<K: Kernel> Kernel for Recorder<K> {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        let start = Instant::now();
        // SAFETY: the caller's promise is the one that the kernel underneath asks for.
        let answer = unsafe { self.kernel.call(fd, call) };
        self.tell(fd, &call, &answer, start.elapsed());
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
}

impl<K> Recorder<K> {
    /// Calls that the sink was not told of, or not to the end, because it panicked at one of them.
    /// 0: it never did.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    /// Tells the sink of a call. The kernel has carried it out, so whoever issued it must get the
    /// answer, whatever the sink does.
    fn tell(
        &self,
        fd: BorrowedFd<'_>,
        call: &Call<'_>,
        answer: &Result<Reply, Errno>,
        duration: Duration,
    ) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let told = self.unrecorded() == 0
            && contained(|| {
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
        if !told {
            self.unrecorded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

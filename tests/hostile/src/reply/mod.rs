//! Every command, on a kernel whose every answer comes from the fuzzer.

mod address;
mod completion;
mod device;
mod memory;
mod pair;
mod receive;
mod shared;

pub use address::reply_address;
pub use completion::reply_cq;
pub use device::reply_device;
pub use memory::reply_memory;
pub use pair::reply_qp;
pub use receive::reply_receive;
pub use shared::reply_xrc;

use std::cell::Cell;
use std::fmt::Debug;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use uverbs_core::sys::Uhw;
use uverbs_core::sys::recorder::Collector;
use uverbs_core::{Result, UverbsFile};
use uverbs_uapi::ib_user_ioctl_verbs::{RDMA_DRIVER_MLX5, RDMA_DRIVER_RXE};

use crate::liar::{Liar, descriptor};
use crate::tape::Tape;

/// The largest number of commands in a run.
const MANY: usize = 64;

/// What a run of commands needs.
pub(crate) struct Run {
    pub(crate) tape: Arc<Tape>,
    pub(crate) liar: Liar,
    pub(crate) file: Arc<UverbsFile>,
    records: Arc<Collector>,
    descriptor: OwnedFd,
}

impl Run {
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let tape = Arc::new(Tape::new(bytes));
        let liar = Liar::new(&tape);
        let driver = tape.one_of(&[RDMA_DRIVER_RXE, RDMA_DRIVER_MLX5]);
        let (file, records) = liar.file(driver)?;
        Some(Self {
            tape,
            liar,
            file,
            records,
            descriptor: descriptor().ok()?,
        })
    }

    /// A descriptor for commands that take one.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Carries out commands until the tape ends, and prints what was recorded.
    ///
    /// # Panics
    /// If a command succeeded although the kernel left out a mandatory output.
    pub(crate) fn commands(&self, mut one: impl FnMut(&Self, u8)) {
        for _ in 0..MANY {
            if self.tape.is_empty() {
                break;
            }
            one(self, self.tape.byte());
        }
        for record in self.records.take() {
            let _ = (record.to_string(), record.to_json(true));
        }
    }

    /// Examines a result as users do.
    pub(crate) fn examine<T: Debug>(&self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => {
                let _ = format!("{value:?}");
                assert!(!self.liar.left_unanswered(), "nothing was said: {value:?}");
                Some(value)
            }
            Err(error) => {
                let _ = format!("{error} {error:?} {:?}", error.kind());
                None
            }
        }
    }

    /// Provides a driver's request and room for its reply, of lengths given by the tape.
    pub(crate) fn with_uhw<R>(&self, act: impl FnOnce(&Uhw<'_>) -> R) -> R {
        let request = vec![7_u8; 8 * self.tape.pick(9)];
        let mut reply = vec![0_u8; 8 * self.tape.pick(9)];
        let output = Cell::from_mut(reply.as_mut_slice()).as_slice_of_cells();
        act(&Uhw::new(&request, output))
    }
}

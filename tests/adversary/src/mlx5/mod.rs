//! The software ConnectX in this process, and a miniature kernel driver that sets it up for the
//! library.
//!
//! Queues of the library are queues of the model, at their own addresses. Doorbells are not
//! trapped: the device checks the records instead, which are written before them.

mod commands;
mod kernel;
mod memory;
mod modify;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use connectx::driver::{Function, Refused};
use uverbs::attr::DriverId;
use uverbs::discover::{DeviceInfo, DriverMatch};
use uverbs::kernel::CommandPath;
use uverbs::recorder::Sink;
use uverbs::{Context, OpenOptions, Result};
use uverbs_core::Errno;
use uverbs_core::sys::Kernel;
use uverbs_fake::{FakeKernel, Profile};
use uverbs_uapi::ib_user_ioctl_verbs::RDMA_DRIVER_MLX5;

use self::memory::{Process, Range};
use crate::device::{Device, Fault};
use crate::shaky::Shaky;

/// A device, and the kernel that drives it.
#[derive(Debug)]
struct Card {
    state: Mutex<State>,
    memory: Arc<Process>,
    handles: AtomicU32,
    cqe_version: u8,
    /// The device reports that pages may be absent, so that pollers may post to shared queues, too.
    on_demand: bool,
}

#[derive(Debug)]
struct State {
    function: Function,
    objects: BTreeMap<u32, Object>,
    frozen: bool,
}

/// An object of the kernel: its kind, its number in the device, and the memory that it lets the
/// device access.
#[derive(Clone, Debug)]
struct Object {
    kind: Kind,
    number: u32,
    memory: Vec<Range>,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Pd,
    Mr,
    Cq { record: u64 },
    Qp { service: u32 },
    Srq,
}

impl Card {
    fn new(cqe_version: u8, on_demand: bool) -> std::result::Result<Self, Refused> {
        let memory = Arc::new(Process::default());
        Ok(Self {
            state: Mutex::new(State {
                function: Function::new(memory.clone())?,
                objects: BTreeMap::new(),
                frozen: false,
            }),
            memory,
            handles: AtomicU32::new(1),
            cqe_version,
            on_demand,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self) -> u32 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }
}

/// Two devices, each with a kernel of its own.
#[derive(Debug)]
pub struct Cards([Arc<Shaky<Card>>; 2]);

impl Cards {
    /// Devices whose completions carry what the library chose, or (version 0) only the number of
    /// the queue pair.
    ///
    /// # Panics
    /// Never: a function without objects refuses nothing.
    #[expect(clippy::expect_used, reason = "there is nothing to refuse")]
    pub fn new(cqe_version: u8) -> Self {
        Self([false, true].map(|on_demand| {
            let card = Card::new(cqe_version, on_demand);
            Arc::new(Shaky::new(card.expect("a function")))
        }))
    }

    /// The kernel of a site's device, for programs of another library than this one. It takes calls
    /// on any descriptor.
    pub fn kernel(&self, site: usize) -> Arc<dyn Kernel> {
        self.of(site).clone()
    }

    fn of(&self, site: usize) -> &Arc<Shaky<Card>> {
        &self.0[usize::from(site > 1)]
    }

    /// The kernel of a site, a descriptor that it takes calls on, and the device's description, for
    /// whoever opens it without the facade.
    ///
    /// # Errors
    /// The system's, of making a descriptor.
    pub fn parts(
        &self,
        site: usize,
    ) -> std::result::Result<(Arc<dyn Kernel>, OwnedFd, DeviceInfo), Errno> {
        let kernel: Arc<dyn Kernel> = self.of(site).clone();
        Ok((kernel, kernel::descriptor()?, info()))
    }

    fn cards(&self) -> [&Card; 2] {
        self.0.each_ref().map(|shaky| shaky.kernel())
    }
}

fn info() -> DeviceInfo {
    let mut info = FakeKernel::new(Profile::v7_2()).device_info();
    info.driver = DriverMatch::Kernel(DriverId::from_raw(RDMA_DRIVER_MLX5));
    info.abi_version = Some(1);
    info
}

impl Device for Cards {
    fn open(&self, site: usize, sink: Option<Arc<dyn Sink>>) -> Result<Context> {
        let fd = kernel::descriptor()
            .map_err(|errno| uverbs::Error::os(uverbs::error::Op::OpenDevice, errno))?;
        let mut options = OpenOptions::new()
            .command_path(CommandPath::InvokeWrite)
            .kernel(self.of(site).clone());
        if let Some(sink) = sink {
            options = options.record(sink);
        }
        options.over(info(), fd)
    }

    fn scribble(&self, byte: u8) {
        for card in self.cards() {
            card.lock().function.scribble(byte);
        }
    }

    fn run(&self) {
        for card in self.cards() {
            let mut state = card.lock();
            if !state.frozen {
                state.function.work(false);
            }
        }
    }

    fn freeze(&self, frozen: bool) {
        for card in self.cards() {
            card.lock().frozen = frozen;
        }
    }

    fn disturb(&self, site: usize, after: u8, fault: Fault) {
        self.of(site).set(Some((after, fault)));
    }

    fn mend(&self) {
        for shaky in &self.0 {
            shaky.set(None);
        }
    }

    fn shared(&self, site: usize, number: u32) -> Option<usize> {
        let state = self.of(site).kernel().lock();
        state.function.shared_receives(number).map(usize::from)
    }

    fn left(&self) -> Option<String> {
        let left: Vec<_> = self
            .cards()
            .into_iter()
            .flat_map(|card| card.lock().objects.values().cloned().collect::<Vec<_>>())
            .collect();
        (!left.is_empty()).then(|| format!("{left:?}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use uverbs::QpType;

    use super::*;
    use crate::face;

    /// Otherwise programs would run on a device that does nothing.
    #[test]
    fn a_message_arrives_by_either_kind_of_number() {
        for cqe_version in [0, 1] {
            let cards = Cards::new(cqe_version);
            let context = cards.open(0, None).unwrap();
            let pd = context.alloc_pd().unwrap();
            let mut cq = context.create_cq(16).unwrap();
            let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).build().unwrap();
            let own = prepared.endpoint();
            let mut qp = face::own(prepared.handshake(own).unwrap()).unwrap();
            let [mut message, room] = pd.buffers::<2>(64).unwrap();
            message.fill(7);
            qp.recv(room, 1).unwrap();
            qp.send(message, 64, 2).unwrap();
            cards.scribble(9);
            cards.run();
            for _ in 0..2 {
                let (_, taken) = face::poll(&mut cq, &mut [(0, &mut qp)]).unwrap().unwrap();
                let done = &taken[0].1;
                assert!(done.status().is_success(), "{done:?}");
                if done.opcode().is_receive() {
                    assert_eq!(done.bytes(), Some(&[7; 64][..]));
                }
            }
            assert!(cards.left().is_some());
            drop((qp, cq, pd));
            drop(context);
            assert_eq!(cards.left(), None);
        }
    }
}

//! Two fake kernels with one device each.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uverbs::recorder::Sink;
use uverbs::{Context, OpenOptions, Result};
use uverbs_fake::{FakeKernel, Profile, RingOf, RingView};

use crate::device::{Device, Fault};
use crate::shaky::Shaky;

/// How often the kernels are checked, a millisecond apart, until nothing is left: a descriptor is
/// closed late if another process examined it meanwhile (`/proc/PID/fd`).
const LOOKS: usize = 200;

/// Two devices that allocate identically: numbers, handles and keys are the same on both.
#[derive(Debug)]
pub struct Fakes([Arc<Shaky<FakeKernel>>; 2]);

impl Default for Fakes {
    fn default() -> Self {
        Self([(), ()].map(|()| Arc::new(Shaky::new(FakeKernel::new(Profile::v7_2())))))
    }
}

impl Fakes {
    fn of(&self, site: usize) -> &Arc<Shaky<FakeKernel>> {
        &self.0[usize::from(site > 1)]
    }

    fn kernels(&self) -> [&FakeKernel; 2] {
        self.0.each_ref().map(|shaky| shaky.kernel())
    }
}

impl Device for Fakes {
    fn open(&self, site: usize, sink: Option<Arc<dyn Sink>>) -> Result<Context> {
        let shaky = self.of(site);
        let fake = shaky.kernel();
        let fd = fake
            .open()
            .map_err(|errno| uverbs::Error::os(uverbs::error::Op::OpenDevice, errno))?;
        let mut options = OpenOptions::new().kernel(shaky.clone());
        if let Some(sink) = sink {
            options = options.record(sink);
        }
        options.over(fake.device_info(), fd)
    }

    fn scribble(&self, byte: u8) {
        for fake in self.kernels() {
            fake.scribble(byte);
        }
    }

    fn run(&self) {
        self.freeze(false);
    }

    fn freeze(&self, frozen: bool) {
        for fake in self.kernels() {
            fake.freeze(frozen);
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

    #[expect(unsafe_code, reason = "looks at a queue")]
    fn shared(&self, site: usize, number: u32) -> Option<usize> {
        // SAFETY: nothing is written into it.
        let ring = unsafe { self.of(site).kernel().ring(RingOf::Srq(number)) }?;
        // The mask of the indexes.
        let mask = ring.load(4);
        let count = ring
            .load(RingView::PRODUCER)
            .wrapping_sub(ring.load(RingView::CONSUMER));
        usize::try_from(count & mask).ok()
    }

    fn left(&self) -> Option<String> {
        let mut left = self.kernels().map(FakeKernel::objects);
        for _ in 0..LOOKS {
            if left.iter().all(|objects| objects.total() == 0) {
                return None;
            }
            thread::sleep(Duration::from_millis(1));
            left = self.kernels().map(FakeKernel::objects);
        }
        Some(format!("{left:?}"))
    }
}

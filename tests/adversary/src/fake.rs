//! Two fake kernels: one device each.

use std::sync::Arc;

use uverbs::recorder::Sink;
use uverbs::{Context, Errno, OpenOptions, Result};
use uverbs_driver::sys::fake::{Effect, FakeKernel, Profile, RingOf, RingView, When};

use crate::device::Device;

/// Two devices that make everything alike: numbers, handles and keys are the same on both.
#[derive(Debug)]
pub struct Fakes([FakeKernel; 2]);

impl Default for Fakes {
    fn default() -> Self {
        Self([(), ()].map(|()| FakeKernel::new(Profile::v7_2())))
    }
}

impl Fakes {
    fn of(&self, site: usize) -> &FakeKernel {
        &self.0[usize::from(site > 1)]
    }
}

impl Device for Fakes {
    fn open(&self, site: usize, sink: Option<Arc<dyn Sink>>) -> Result<Context> {
        let fake = self.of(site);
        let fd = fake
            .open()
            .map_err(|errno| uverbs::Error::os(uverbs::Op::OpenDevice, errno))?;
        let mut options = OpenOptions::new().kernel(Arc::new(fake.clone()));
        if let Some(sink) = sink {
            options = options.record(sink);
        }
        options.over(fake.device_info(), fd)
    }

    fn scribble(&self, byte: u8) {
        for fake in &self.0 {
            fake.scribble(byte);
        }
    }

    fn run(&self) {
        self.freeze(false);
    }

    fn freeze(&self, frozen: bool) {
        for fake in &self.0 {
            fake.freeze(frozen);
        }
    }

    #[expect(unsafe_code, reason = "plays a kernel without memory")]
    fn fail(&self, site: usize, after: u8) {
        let fake = self.of(site);
        let call = When::Call(fake.calls() + u64::from(after));
        // SAFETY: (1) a call that fails did nothing, and says nothing of an object's end; (2) nothing is rewritten.
        unsafe { fake.inject(call, Effect::Fail(Errno::NOMEM)) };
    }

    fn mend(&self) {
        for fake in &self.0 {
            fake.clear_faults();
        }
    }

    #[expect(unsafe_code, reason = "looks at a queue")]
    fn shared(&self, site: usize, number: u32) -> Option<usize> {
        // SAFETY: nothing is written into it.
        let ring = unsafe { self.of(site).ring(RingOf::Srq(number)) }?;
        // The mask of the indexes.
        let mask = ring.load(4);
        let count = ring
            .load(RingView::PRODUCER)
            .wrapping_sub(ring.load(RingView::CONSUMER));
        usize::try_from(count & mask).ok()
    }

    fn left(&self) -> Option<String> {
        let left = self.0.each_ref().map(FakeKernel::objects);
        left.iter()
            .any(|objects| objects.total() != 0)
            .then(|| format!("{left:?}"))
    }
}

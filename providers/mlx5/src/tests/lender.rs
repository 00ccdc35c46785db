//! An allocator of queues' memory, which tells what it has lent.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use uverbs_core::Errno;
use uverbs_core::hw::{QueueBuffer, QueueMemory};
use uverbs_core::sys::Mapping;

#[derive(Debug, Default)]
pub(crate) struct Lender {
    lent: Mutex<Vec<(Mapping, QueueBuffer)>>,
}

impl Lender {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The addresses of what has not been given back, and what it is for.
    pub(crate) fn lent(&self) -> Vec<(u64, QueueBuffer)> {
        let lent = self.lent.lock().unwrap();
        let places = lent.iter();
        places
            .map(|(mapping, buffer)| (mapping.address(), *buffer))
            .collect()
    }
}

// SAFETY: mappings of its own, which it keeps until they are given back.
#[expect(unsafe_code, reason = "lends memory")]
unsafe impl QueueMemory for Lender {
    fn allocate(
        &self,
        len: usize,
        _align: usize,
        buffer: QueueBuffer,
    ) -> Result<Option<NonNull<u8>>, Errno> {
        let mapping = Mapping::anonymous(len)?;
        let start = NonNull::new(mapping.as_ptr());
        self.lent.lock().unwrap().push((mapping, buffer));
        Ok(start)
    }

    fn free(&self, start: NonNull<u8>, len: usize, buffer: QueueBuffer) {
        let mut lent = self.lent.lock().unwrap();
        let place = |(mapping, of): &(Mapping, QueueBuffer)| {
            (mapping.as_ptr(), mapping.len(), *of) == (start.as_ptr(), len, buffer)
        };
        let at = lent.iter().position(place).unwrap();
        lent.remove(at);
    }
}

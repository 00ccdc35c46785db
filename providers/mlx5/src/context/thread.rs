//! Thread domains: queue pairs that one thread uses, with a page of registers of their own.
//!
//! C requires by documentation that no two threads use the queue pairs of a thread domain at the
//! same time. Nothing here relies on that: a doorbell of the page is written by single stores,
//! which threads may interleave, and requests are copied through another doorbell (BlueFlame) by a
//! thread that finds it free. A second thread that submits at the same time uses the first doorbell
//! instead.

use std::sync::Arc;

use uverbs_core::hw::Register;
use uverbs_core::{Error, ErrorKind, Object, Op, Result, UverbsFile};

use super::Context;
use crate::doorbell::Doorbell;
use crate::doorbell::pool::{COPIED, Naming, RUNG, Registers};

/// `ibv_td`—a thread domain. Cheap to clone.
#[doc(alias = "ibv_td")]
#[derive(Clone, Debug)]
pub struct ThreadDomain {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    plain: Register,
    registers: Arc<Registers>,
    naming: Naming,
    object: Option<Arc<Object>>,
    file: Arc<UverbsFile>,
}

impl ThreadDomain {
    /// `ibv_alloc_td`—allocates a page of registers. Two system calls.
    ///
    /// # Errors
    /// The device has no page left; [`Unsupported`](ErrorKind::Unsupported) on kernels before 5.7
    /// that map no pages beyond those of the context.
    #[doc(alias = "ibv_alloc_td")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn alloc(context: &Context) -> Result<Self> {
        let (uars, file) = (context.uars(), context.file());
        file.check_process(Op::AllocUar)?;
        let page = uars.for_thread()?;
        let copied = uars.registers_of(&page.page, COPIED)?;
        let [plain, _] = uars.registers_of(&page.page, RUNG)?;
        Ok(Self {
            inner: Arc::new(Inner {
                plain,
                naming: page.naming,
                object: page.page.object.clone(),
                registers: Arc::new(Registers::new(copied, Some(page))),
                file: Arc::clone(file),
            }),
        })
    }

    /// `ibv_dealloc_td`—frees the page. One system call. Dropping the last clone does the same,
    /// once the queue pairs are gone.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while clones, or domains created with it, exist; it stays alive
    /// with them.
    #[doc(alias = "ibv_dealloc_td")]
    pub fn dealloc(self) -> Result<()> {
        let busy = |users| Error::new(Op::FreeUar, ErrorKind::Busy).fact("users", users);
        let inner =
            Arc::try_unwrap(self.inner).map_err(|shared| busy(Arc::strong_count(&shared) - 1))?;
        let Inner {
            registers, object, ..
        } = inner;
        let registers =
            Arc::try_unwrap(registers).map_err(|shared| busy(Arc::strong_count(&shared) - 1))?;
        drop(registers);
        object.map_or(Ok(()), |object| Object::destroy_shared(object).map(|_| ()))
    }

    /// Whether it belongs to that opened device.
    pub(crate) fn is_of(&self, file: &Arc<UverbsFile>) -> bool {
        Arc::ptr_eq(&self.inner.file, file)
    }

    /// A doorbell for another queue pair.
    pub(crate) fn doorbell(&self) -> Doorbell {
        let Inner {
            plain,
            registers,
            naming,
            object,
            ..
        } = &*self.inner;
        Doorbell::of_thread(plain.clone(), registers, *naming, object.clone())
    }
}

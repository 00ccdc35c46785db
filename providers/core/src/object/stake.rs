//! What hangs on a kernel object, and what becomes of it when nobody knows whether the object
//! exists.

use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use super::before::Steps;
use super::{Object, lock};
use crate::file::UverbsFile;

/// Memory of any kind, freed when it is dropped.
pub(super) type Memory = Box<dyn Any + Send + Sync>;

/// What an object holds until the kernel confirmed that it is gone.
pub(super) struct Held {
    pub(super) parents: Vec<Arc<Object>>,
    pub(super) before: Steps,
    pub(super) memory: Mutex<Vec<Memory>>,
    /// Objects it was told to use after its creation, each in a role that is a type.
    pub(super) uses: Mutex<Vec<(TypeId, Arc<Object>)>>,
}

/// How many parents and pieces of memory there were before others came.
pub(super) struct Former {
    parents: Option<usize>,
    memory: Option<usize>,
}

impl Held {
    /// `memory` may be nothing at all, `()`.
    pub(super) fn new<M: Any + Send + Sync>(
        parents: impl IntoIterator<Item = Arc<Object>>,
        memory: M,
    ) -> Self {
        let nothing = TypeId::of::<M>() == TypeId::of::<()>();
        let memory = (!nothing).then(|| boxed(memory));
        Self {
            parents: parents.into_iter().collect(),
            before: Steps::default(),
            memory: Mutex::new(memory.into_iter().collect()),
            uses: Mutex::default(),
        }
    }

    /// Holds `memory`, too. Where there is no room to note it, it is given up rather than freed.
    pub(super) fn keep(&self, memory: Memory) {
        let memory = ManuallyDrop::new(memory);
        let mut held = lock(&self.memory);
        held.reserve(1);
        held.push(ManuallyDrop::into_inner(memory));
    }

    /// Holds these, too, where there are any.
    pub(super) fn take_too(
        &mut self,
        parent: Option<Arc<Object>>,
        memory: Option<Memory>,
    ) -> Former {
        let held = lock(&self.memory).len();
        let former = Former {
            parents: parent.is_some().then_some(self.parents.len()),
            memory: memory.is_some().then_some(held),
        };
        self.parents.extend(parent);
        lock(&self.memory).extend(memory);
        former
    }

    /// Ends what was held before, where something came in its place.
    pub(super) fn release_former(&mut self, former: &Former) {
        self.parents.drain(..former.parents.unwrap_or(0));
        let count = former.memory.unwrap_or(0);
        let released: Vec<_> = lock(&self.memory).drain(..count).collect();
        drop(released);
    }

    /// Ends what came.
    pub(super) fn release_latter(&mut self, former: &Former) {
        self.parents.truncate(former.parents.unwrap_or(usize::MAX));
        let memory = lock(&self.memory).len();
        let released = lock(&self.memory).split_off(former.memory.unwrap_or(memory).min(memory));
        drop(released);
    }
}

/// What is held while a command is under way that the object begins or ends with. Dropped, it is
/// given up, and counted: so it is whenever the command's outcome is not known, and whatever
/// unwinds.
pub(super) struct Stake {
    file: Arc<UverbsFile>,
    held: Option<Held>,
}

impl Stake {
    pub(super) fn new(file: &Arc<UverbsFile>, held: Held) -> Self {
        Self {
            file: Arc::clone(file),
            held: Some(held),
        }
    }

    /// The outcome is known.
    pub(super) fn settled(mut self) -> Option<Held> {
        self.held.take()
    }

    /// Issues what has to go before the destroy of the object `handle`.
    pub(super) fn issue_before(&mut self, handle: u32) {
        if let Some(held) = &mut self.held {
            held.before.issue(&self.file, handle);
        }
    }
}

impl Drop for Stake {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.file.count_leak();
            forget(held);
        }
    }
}

/// Gives up what may be in the device's hands.
#[expect(clippy::mem_forget, reason = "freeing it could free memory under DMA")]
pub(super) fn forget<T>(held: T) {
    std::mem::forget(held);
}

/// `memory` in a box. Where there is no room for one, it is given up rather than freed.
pub(super) fn boxed(memory: impl Any + Send + Sync) -> Memory {
    let memory = ManuallyDrop::new(memory);
    let mut place = Box::new(None);
    *place = Some(ManuallyDrop::into_inner(memory));
    place
}

//! What a kernel object holds, and what happens to it when it is unknown whether the object exists.

use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use super::before::Steps;
use super::{Object, lock};
use crate::file::UverbsFile;

/// Memory of any kind, freed when it is dropped.
pub(super) type Memory = Box<dyn Any + Send + Sync>;

/// What an object holds until the kernel has confirmed that it is gone.
pub(super) struct Held {
    pub(super) parents: Vec<Arc<Object>>,
    pub(super) before: Steps,
    pub(super) memory: Mutex<Vec<Memory>>,
    /// Objects that it was made to use after its creation, each in a role, which is a type.
    pub(super) uses: Mutex<Vec<(TypeId, Arc<Object>)>>,
}

/// How many parents and memory entries there were before others were added.
pub(super) struct Previous {
    parents: Option<usize>,
    memory: Option<usize>,
}

impl Held {
    /// Holds `parents` and `memory`, which may be `()` for none.
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

    /// Holds `memory` as well. If allocating the list entry panics, it is leaked rather than freed.
    pub(super) fn keep(&self, memory: Memory) {
        let memory = ManuallyDrop::new(memory);
        let mut held = lock(&self.memory);
        held.reserve(1);
        held.push(ManuallyDrop::into_inner(memory));
    }

    /// Holds these as well, if present.
    pub(super) fn add(&mut self, parent: Option<Arc<Object>>, memory: Option<Memory>) -> Previous {
        let held = lock(&self.memory).len();
        let previous = Previous {
            parents: parent.is_some().then_some(self.parents.len()),
            memory: memory.is_some().then_some(held),
        };
        self.parents.extend(parent);
        lock(&self.memory).extend(memory);
        previous
    }

    /// Releases the previous parents and memory, where new ones were added.
    pub(super) fn release_previous(&mut self, previous: &Previous) {
        self.parents.drain(..previous.parents.unwrap_or(0));
        let count = previous.memory.unwrap_or(0);
        let released: Vec<_> = lock(&self.memory).drain(..count).collect();
        drop(released);
    }

    /// Releases what was added.
    pub(super) fn release_added(&mut self, previous: &Previous) {
        self.parents
            .truncate(previous.parents.unwrap_or(usize::MAX));
        let memory = lock(&self.memory).len();
        let released = lock(&self.memory).split_off(previous.memory.unwrap_or(memory).min(memory));
        drop(released);
    }
}

/// What is held while the command that creates or destroys the object is under way. If dropped,
/// everything is leaked and counted: that happens whenever the command's outcome is unknown, and on
/// any unwinding.
pub(super) struct PendingCommand {
    file: Arc<UverbsFile>,
    held: Option<Held>,
}

impl PendingCommand {
    pub(super) fn new(file: &Arc<UverbsFile>, held: Held) -> Self {
        Self {
            file: Arc::clone(file),
            held: Some(held),
        }
    }

    /// Returns what is held: the outcome is known.
    pub(super) fn settled(mut self) -> Option<Held> {
        self.held.take()
    }

    /// Issues the commands that must precede the destroy of the object `handle`.
    pub(super) fn issue_before(&mut self, handle: u32) {
        if let Some(held) = &mut self.held {
            held.before.issue(&self.file, handle);
        }
    }
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.file.count_leak();
            forget(held);
        }
    }
}

/// Leaks what the device may still access.
#[expect(clippy::mem_forget, reason = "freeing it could free memory under DMA")]
pub(super) fn forget<T>(held: T) {
    std::mem::forget(held);
}

/// `memory` in a box. If allocating the box panics, it is leaked rather than freed.
pub(super) fn boxed(memory: impl Any + Send + Sync) -> Memory {
    let memory = ManuallyDrop::new(memory);
    let mut place = Box::new(None);
    *place = Some(ManuallyDrop::into_inner(memory));
    place
}

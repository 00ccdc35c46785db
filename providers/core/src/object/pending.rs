//! What a kernel object holds, and what happens to it when it is unknown whether the object exists.

use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use super::before::{Before, Steps};
use super::{Object, lock};
use crate::file::UverbsFile;

/// Memory of any kind, freed when it is dropped.
pub(super) type Memory = Box<dyn Any + Send + Sync>;

/// What an object holds until the kernel has confirmed that it is gone.
pub(super) struct Held {
    parents: Vec<Arc<Object>>,
    later: Mutex<Later>,
}

/// What may be added while the object exists.
struct Later {
    memory: Vec<Memory>,
    /// Few objects have any of it.
    rare: Option<Box<Rare>>,
}

#[derive(Default)]
struct Rare {
    before: Steps,
    /// Objects that it was made to use after its creation, each in a role, which is a type.
    uses: Vec<(TypeId, Arc<Object>)>,
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
            later: Mutex::new(Later {
                memory: memory.into_iter().collect(),
                rare: None,
            }),
        }
    }

    /// Holds `memory` as well. If allocating the list entry panics, it is leaked rather than freed.
    pub(super) fn keep(&self, memory: Memory) {
        let memory = ManuallyDrop::new(memory);
        let mut later = lock(&self.later);
        later.memory.reserve_exact(1);
        later.memory.push(ManuallyDrop::into_inner(memory));
    }

    /// Holds a step, to be issued before the object is destroyed.
    pub(super) fn add_before(&self, step: impl Before) {
        let step = Box::new(step);
        lock(&self.later).rare().before.add(step);
    }

    /// Removes one step that is equal to `step`.
    pub(super) fn remove_before<B: Before + PartialEq>(&self, step: &B) {
        let mut later = lock(&self.later);
        if let Some(rare) = &mut later.rare {
            rare.before.remove(step);
        }
    }

    /// Issues all steps, and keeps those that failed.
    pub(super) fn issue_before(&mut self, file: &UverbsFile, handle: u32) {
        let later = self.later.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(rare) = &mut later.rare {
            rare.before.issue(file, handle);
        }
    }

    /// Holds `other` in a role, and returns what it held in that role before.
    #[must_use]
    pub(super) fn set_use(&self, role: TypeId, other: Option<Arc<Object>>) -> Option<Arc<Object>> {
        let mut later = lock(&self.later);
        if other.is_none() && later.rare.is_none() {
            return None;
        }
        let uses = &mut later.rare().uses;
        let at = uses.iter().position(|(used_as, _)| *used_as == role);
        let previous = at.map(|at| uses.swap_remove(at));
        uses.extend(other.map(|other| (role, other)));
        previous.map(|(_, previous)| previous)
    }

    /// Holds these as well, if present.
    pub(super) fn add(&mut self, parent: Option<Arc<Object>>, memory: Option<Memory>) -> Previous {
        let mut later = lock(&self.later);
        let previous = Previous {
            parents: parent.is_some().then_some(self.parents.len()),
            memory: memory.is_some().then_some(later.memory.len()),
        };
        self.parents.extend(parent);
        later.memory.extend(memory);
        previous
    }

    /// Releases the previous parents and memory, where new ones were added.
    pub(super) fn release_previous(&mut self, previous: &Previous) {
        self.parents.drain(..previous.parents.unwrap_or(0));
        let count = previous.memory.unwrap_or(0);
        let released: Vec<_> = lock(&self.later).memory.drain(..count).collect();
        drop(released);
    }

    /// Releases what was added.
    pub(super) fn release_added(&mut self, previous: &Previous) {
        self.parents
            .truncate(previous.parents.unwrap_or(usize::MAX));
        let mut later = lock(&self.later);
        let kept = later.memory.len();
        let released = later
            .memory
            .split_off(previous.memory.unwrap_or(kept).min(kept));
        drop(later);
        drop(released);
    }
}

impl Later {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
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
            held.issue_before(&self.file, handle);
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

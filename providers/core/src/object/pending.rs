//! What a kernel object holds, and what happens to it when it is unknown whether the object exists.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

use super::before::{Before, Steps};
use super::chain::{Chain, Entry, Node, entry, named};
use super::{Object, lock};
use crate::file::UverbsFile;

/// What an object holds until the kernel has confirmed that it is gone.
#[derive(Default)]
pub(super) struct Held {
    /// Most objects have no more than one.
    parent: Option<Arc<Object>>,
    /// Further parents, memory, and what few objects have; may be added while the object exists.
    more: Mutex<Chain>,
}

/// An entry for a further parent.
struct Parent(#[expect(dead_code, reason = "only kept")] Arc<Object>);

#[derive(Default)]
struct Rare {
    before: Steps,
    /// Objects that it was made to use after its creation, each in a role, which is a type.
    uses: Vec<(TypeId, Arc<Object>)>,
}

/// How many further parents and entries of memory there are since others were added.
pub(super) struct Added {
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
        let memory = (!nothing).then(|| entry(memory));
        Self::of(&mut parents.into_iter(), memory)
    }

    fn of(parents: &mut dyn Iterator<Item = Arc<Object>>, memory: Option<Entry>) -> Self {
        let parent = parents.next();
        let mut more = Chain::default();
        let mut last = None;
        for parent in parents {
            // Most queue pairs send and receive to the same completion queue.
            let this = Some(Arc::as_ptr(&parent));
            if this != last {
                more.add(entry(Parent(parent)));
                last = this;
            }
        }
        if let Some(memory) = memory {
            more.add(memory);
        }
        Self {
            parent,
            more: Mutex::new(more),
        }
    }

    /// Holds `memory` as well.
    pub(super) fn keep(&self, memory: Entry) {
        lock(&self.more).add(memory);
    }

    /// Holds a step, to be issued before the object is destroyed.
    pub(super) fn add_before(&self, step: impl Before) {
        let step = Box::new(step);
        rare(&mut lock(&self.more)).before.add(step);
    }

    /// Removes one step that is equal to `step`.
    pub(super) fn remove_before<B: Before + PartialEq>(&self, step: &B) {
        if let Some(rare) = lock(&self.more).find::<Rare>() {
            rare.before.remove(step);
        }
    }

    /// Issues all steps, and keeps those that failed.
    pub(super) fn issue_before(&mut self, file: &UverbsFile, handle: u32) {
        if let Some(rare) = self.own().find::<Rare>() {
            rare.before.issue(file, handle);
        }
    }

    /// Holds `other` in a role, and returns what it held in that role before.
    #[must_use]
    pub(super) fn set_use(&self, role: TypeId, other: Option<Arc<Object>>) -> Option<Arc<Object>> {
        let mut more = lock(&self.more);
        if other.is_none() && more.find::<Rare>().is_none() {
            return None;
        }
        let uses = &mut rare(&mut more).uses;
        let at = uses.iter().position(|(used_as, _)| *used_as == role);
        let previous = at.map(|at| uses.swap_remove(at));
        uses.extend(other.map(|other| (role, other)));
        previous.map(|(_, previous)| previous)
    }

    /// Holds these as well, if present.
    pub(super) fn add(&mut self, parent: Option<Arc<Object>>, memory: Option<Entry>) -> Added {
        let changes = (parent.is_some(), memory.is_some());
        let parent = parent.map(|parent| entry(Parent(parent)));
        let more = self.own();
        for added in [parent, memory].into_iter().flatten() {
            more.add(added);
        }
        let (mut parents, mut memory) = (0, 0);
        more.each(|node| match role(node) {
            Role::Parent => parents += 1,
            Role::Memory => memory += 1,
            Role::Rare => {}
        });
        Added {
            parents: changes.0.then_some(parents),
            memory: changes.1.then_some(memory),
        }
    }

    /// Releases what was there before, where something was added.
    pub(super) fn release_previous(&mut self, added: Added) {
        let parent = added.parents.and_then(|_| self.parent.take());
        let released = self.take_out(added, |left| left > 0);
        drop((parent, released));
    }

    /// Releases what was added.
    pub(super) fn release_added(&mut self, added: Added) {
        drop(self.take_out(added, |left| left == 0));
    }

    /// Takes out entries of the kinds of which one was added, by how many there are after them.
    fn take_out(&mut self, mut added: Added, which: impl Fn(usize) -> bool) -> Chain {
        self.own().take_out(|node| {
            let left = match role(node) {
                Role::Parent => &mut added.parents,
                Role::Memory => &mut added.memory,
                Role::Rare => return false,
            };
            left.as_mut().is_some_and(|left| {
                *left -= 1;
                which(*left)
            })
        })
    }

    fn own(&mut self) -> &mut Chain {
        self.more.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an entry is.
enum Role {
    Parent,
    Memory,
    Rare,
}

fn role(node: &Node<dyn Any + Send + Sync>) -> Role {
    if node.is::<Option<Parent>>() {
        Role::Parent
    } else if node.is::<Rare>() {
        Role::Rare
    } else {
        Role::Memory
    }
}

/// What few objects have, created at its first use.
fn rare(more: &mut Chain) -> &mut Rare {
    if more.find::<Rare>().is_none() {
        more.add(named::<Rare>());
    }
    more.find().unwrap_or_else(|| unreachable!("it was added"))
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
    pub(super) fn settled(mut self) -> Held {
        self.held.take().unwrap_or_default()
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

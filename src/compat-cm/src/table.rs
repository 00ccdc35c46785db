//! The numbers that events of the kernel carry, and what they stand for: never addresses.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::id::{Id, Shared};
use crate::multicast::Join;
use crate::pointer::Handle;

/// What an event is about.
#[derive(Clone)]
pub(crate) enum Target {
    /// An id.
    Id(Owner),
    /// A multicast group that an id has joined.
    Join(Owner, Arc<Join>),
}

/// The id that an event is delivered for.
#[derive(Clone)]
pub(crate) struct Owner {
    address: usize,
    /// What outlives the id until the last acknowledgement.
    pub(crate) shared: Arc<Shared>,
}

impl Owner {
    pub(crate) fn new(id: Handle<Id>, shared: &Arc<Shared>) -> Self {
        Self {
            address: id.raw().expose_provenance(),
            shared: Arc::clone(shared),
        }
    }

    /// The id. It is there while an event of it is not acknowledged: its destroy waits for that.
    pub(crate) fn id(&self) -> Handle<Id> {
        Handle::of(std::ptr::with_exposed_provenance_mut(self.address))
    }
}

/// A number in use; events with it are dropped once this is.
#[derive(Debug)]
pub(crate) struct Uid(u64);

/// Numbers are never used again.
static NEXT: AtomicU64 = AtomicU64::new(1);
static TABLE: RwLock<BTreeMap<u64, Target>> = RwLock::new(BTreeMap::new());

impl Uid {
    /// A number that stands for nothing yet.
    pub(crate) fn new() -> Self {
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes it stand for `target`.
    pub(crate) fn is(&self, target: Target) {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(self.0, target);
    }

    /// Makes it stand for nothing.
    pub(crate) fn forget(&self) {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        table.remove(&self.0);
    }

    pub(crate) fn number(&self) -> u64 {
        self.0
    }
}

/// What a number stands for now.
pub(crate) fn find(number: u64) -> Option<Target> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.get(&number).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_its_id_until_it_is_forgotten() {
        let shared = Arc::default();
        let number = Uid::new();
        assert!(find(number.number()).is_none());
        let id = Handle::of(std::ptr::without_provenance_mut(64));
        number.is(Target::Id(Owner::new(id, &shared)));
        match find(number.number()) {
            Some(Target::Id(owner)) => assert_eq!(owner.id().raw().addr(), 64),
            _ => panic!("not found"),
        }
        number.forget();
        assert!(find(number.number()).is_none());
        assert!(find(0).is_none());
    }
}

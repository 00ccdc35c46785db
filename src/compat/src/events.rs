//! The numbers that kernel events carry, and the objects that they stand for: never addresses.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The object that an event is about.
pub(crate) struct Found {
    /// The pointer that C knows.
    pub(crate) pointer: *mut c_void,
    read: Arc<AtomicU32>,
}

impl Found {
    /// Counts a completion event that was read.
    pub(crate) fn count(&self) {
        self.read.fetch_add(1, Ordering::Release);
    }
}

/// A number in use; dropping it makes later events with it stale.
#[derive(Debug)]
pub(crate) struct Cookie {
    number: u64,
    read: Arc<AtomicU32>,
}

struct Entry {
    address: usize,
    read: Arc<AtomicU32>,
}

/// Numbers are never used again.
static NEXT: AtomicU64 = AtomicU64::new(1);
static TABLE: RwLock<BTreeMap<u64, Entry>> = RwLock::new(BTreeMap::new());

impl Cookie {
    /// A number for the object that C will know by `pointer`.
    pub(crate) fn of<T>(pointer: *mut T) -> Self {
        let cookie = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            read: Arc::default(),
        };
        let entry = Entry {
            address: pointer.expose_provenance(),
            read: Arc::clone(&cookie.read),
        };
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(cookie.number, entry);
        cookie
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many completion events were read.
    pub(crate) fn read(&self) -> &Arc<AtomicU32> {
        &self.read
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
        table.remove(&self.number);
    }
}

/// What a number stands for now.
pub(crate) fn find(number: u64) -> Option<Found> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let entry = table.get(&number)?;
    Some(Found {
        pointer: std::ptr::with_exposed_provenance_mut(entry.address),
        read: Arc::clone(&entry.read),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_its_object_until_it_is_gone() {
        let mut objects = [0_u8; 2];
        let [one, two] = &mut objects;
        let (first, second) = (Cookie::of(one), Cookie::of(two));
        assert_ne!(first.number(), second.number());
        let found = find(first.number()).unwrap();
        found.count();
        assert_eq!(found.pointer.addr(), std::ptr::from_ref(one).addr());
        assert_eq!(first.read().load(Ordering::Acquire), 1);
        let number = first.number();
        drop(first);
        assert!(find(number).is_none());
        assert!(find(0).is_none());
    }
}

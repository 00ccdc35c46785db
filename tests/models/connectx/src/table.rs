//! Numbered objects, and the user context that each belongs to.

use std::collections::BTreeMap;

use crate::status::{Outcome, Rule};

/// Objects of one kind by number. Numbers are allocated upwards and reused as late as possible, so
/// that a stale number is detected rather than resolved to a newer object.
#[derive(Debug)]
pub(crate) struct Table<T> {
    objects: BTreeMap<u32, Owned<T>>,
    first: u32,
    end: u32,
    next: u32,
    /// The lowest free number is allocated next, as if all others had been used in between.
    eager: bool,
}

#[derive(Debug)]
struct Owned<T> {
    uid: u16,
    object: T,
}

impl<T> Table<T> {
    /// A table with numbers from `first` up to but not including `end`.
    pub(crate) const fn new(first: u32, end: u32) -> Self {
        Self {
            objects: BTreeMap::new(),
            first,
            end,
            next: first,
            eager: false,
        }
    }

    /// Reuses numbers as early as possible from now on.
    #[cfg(any(test, feature = "harness"))]
    pub(crate) fn reuse_early(&mut self) {
        self.eager = true;
    }

    /// Adds an object under a new number.
    pub(crate) fn add(&mut self, uid: u16, object: T) -> Outcome<u32> {
        let number = self.free_number()?;
        self.objects.insert(number, Owned { uid, object });
        Ok(number)
    }

    /// Adds an object under a number that the caller allocated from another table.
    pub(crate) fn put(&mut self, uid: u16, number: u32, object: T) {
        self.objects.insert(number, Owned { uid, object });
    }

    /// The number that [`Table::add`] would use; it counts as allocated.
    pub(crate) fn free_number(&mut self) -> Outcome<u32> {
        let room = self.end.saturating_sub(self.first);
        if self.objects.len() >= room as usize {
            return Err(Rule::TableFull.refuse());
        }
        if self.eager {
            self.next = self.first;
        }
        // At most one step per live object, because a run of used numbers is at most as long as the
        // table.
        for _ in 0..=self.objects.len() {
            let number = self.next;
            self.next = if number + 1 >= self.end {
                self.first
            } else {
                number + 1
            };
            if !self.objects.contains_key(&number) {
                return Ok(number);
            }
        }
        Err(Rule::TableFull.refuse())
    }

    /// The object for a command of `uid`: one of its own, or any object if the command is the
    /// kernel's.
    pub(crate) fn of(&self, number: u32, uid: u16) -> Outcome<&T> {
        let owned = self
            .objects
            .get(&number)
            .ok_or(Rule::NoSuchObject.refuse())?;
        if uid != 0 && owned.uid != uid {
            return Err(Rule::ForeignObject.refuse());
        }
        Ok(&owned.object)
    }

    /// As [`Table::of`], and also objects of the kernel (uid 0), which it shares with user
    /// contexts.
    pub(crate) fn shared(&self, number: u32, uid: u16) -> Outcome<&T> {
        let owned = self
            .objects
            .get(&number)
            .ok_or(Rule::NoSuchObject.refuse())?;
        if uid != 0 && owned.uid != uid && owned.uid != 0 {
            return Err(Rule::ForeignObject.refuse());
        }
        Ok(&owned.object)
    }

    /// As [`Table::of`], mutably.
    pub(crate) fn of_mut(&mut self, number: u32, uid: u16) -> Outcome<&mut T> {
        self.of(number, uid)?;
        self.get_mut(number).ok_or(Rule::NoSuchObject.refuse())
    }

    /// Removes the object for a command of `uid`.
    pub(crate) fn take(&mut self, number: u32, uid: u16) -> Outcome<T> {
        self.of(number, uid)?;
        self.objects
            .remove(&number)
            .map(|owned| owned.object)
            .ok_or(Rule::NoSuchObject.refuse())
    }

    /// The object, regardless of its owner.
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.objects.get(&number).map(|owned| &owned.object)
    }

    /// The object, regardless of its owner.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.objects.get_mut(&number).map(|owned| &mut owned.object)
    }

    /// The owner of the object, if it exists.
    pub(crate) fn owner(&self, number: u32) -> Option<u16> {
        self.objects.get(&number).map(|owned| owned.uid)
    }

    /// All objects with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.objects
            .iter()
            .map(|(number, owned)| (*number, &owned.object))
    }

    /// The numbers that `uid` owns.
    pub(crate) fn owned_by(&self, uid: u16) -> Vec<u32> {
        self.objects
            .iter()
            .filter(|(_, owned)| owned.uid == uid)
            .map(|(number, _)| *number)
            .collect()
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::status::Status;

    #[test]
    fn numbers_are_reused_as_late_as_possible() {
        let mut table = Table::new(4, 7);
        assert_eq!(table.add(1, ()).unwrap(), 4);
        table.take(4, 1).unwrap();
        assert_eq!([5, 6, 4].map(|_| table.add(1, ()).unwrap()), [5, 6, 4]);
        assert_eq!(table.add(1, ()).unwrap_err().status, Status::Limit);
    }

    #[test]
    fn numbers_are_reused_early_on_request() {
        let mut table = Table::new(4, 7);
        table.reuse_early();
        assert_eq!([4, 5].map(|_| table.add(1, ()).unwrap()), [4, 5]);
        table.take(4, 1).unwrap();
        assert_eq!(table.add(1, ()).unwrap(), 4);
    }

    #[test]
    fn a_user_context_reaches_only_its_own_objects() {
        let mut table = Table::new(0, 8);
        let mine = table.add(3, 'm').unwrap();
        let kernels = table.add(0, 'k').unwrap();
        assert_eq!(table.of(mine, 3), Ok(&'m'));
        assert_eq!(table.of(mine, 0), Ok(&'m'));
        assert_eq!(
            table.of(mine, 4).unwrap_err().syndrome,
            Rule::ForeignObject as u32
        );
        assert!(table.of(kernels, 3).is_err());
        assert_eq!(table.shared(kernels, 3), Ok(&'k'));
        assert!(table.take(mine, 4).is_err());
    }
}

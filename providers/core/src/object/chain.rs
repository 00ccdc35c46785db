//! What an object holds beside its first parent: a list that takes two words when it is empty, and
//! one allocation for each entry.

use std::any::Any;
use std::mem::{ManuallyDrop, take};

/// An entry of a [`Chain`], freed when it is dropped.
pub(super) type Entry = Box<Node<dyn Any + Send + Sync>>;

/// An entry, and those after it.
pub(super) struct Node<M: ?Sized> {
    next: Chain,
    memory: M,
}

/// Entries, the oldest first; they are released in that order.
#[derive(Default)]
pub(super) struct Chain(Option<Entry>);

/// `memory` as an entry. If its allocation panics, it is leaked rather than freed.
pub(super) fn entry(memory: impl Any + Send + Sync) -> Entry {
    let memory = ManuallyDrop::new(memory);
    let mut place = Box::new(Node {
        next: Chain(None),
        memory: None,
    });
    place.memory = Some(ManuallyDrop::into_inner(memory));
    place
}

/// An entry that [`Chain::find`] finds by its type.
pub(super) fn named<M: Any + Send + Sync + Default>() -> Entry {
    Box::new(Node {
        next: Chain(None),
        memory: M::default(),
    })
}

impl Node<dyn Any + Send + Sync> {
    pub(super) fn is<M: Any>(&self) -> bool {
        self.memory.is::<M>()
    }
}

impl Chain {
    /// Adds the newest entry. Allocates nothing.
    #[inline(never)]
    pub(super) fn add(&mut self, entry: Entry) {
        let mut end = &mut self.0;
        while let Some(node) = end {
            end = &mut node.next.0;
        }
        *end = Some(entry);
    }

    /// The first [named](named) entry of this type.
    pub(super) fn find<M: Any>(&mut self) -> Option<&mut M> {
        let mut at = self.0.as_deref_mut();
        while let Some(node) = at {
            if node.is::<M>() {
                return node.memory.downcast_mut();
            }
            at = node.next.0.as_deref_mut();
        }
        None
    }

    /// Visits all entries.
    pub(super) fn each(&self, mut visit: impl FnMut(&Node<dyn Any + Send + Sync>)) {
        let mut at = self.0.as_deref();
        while let Some(node) = at {
            visit(node);
            at = node.next.0.as_deref();
        }
    }

    /// Takes out the entries that `which` names. Neither allocates nor frees.
    #[must_use]
    pub(super) fn take_out(
        &mut self,
        mut which: impl FnMut(&Node<dyn Any + Send + Sync>) -> bool,
    ) -> Self {
        let mut rest = take(self);
        let mut out = Self::default();
        while let Some(mut node) = rest.0.take() {
            rest.0 = node.next.0.take();
            let to = if which(&node) { &mut out } else { &mut *self };
            to.add(node);
        }
        out
    }
}

/// One after the other: as many as there may be, the stack stays small.
impl Drop for Chain {
    #[inline(never)]
    fn drop(&mut self) {
        while let Some(mut node) = self.0.take() {
            self.0 = node.next.0.take();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;

    type Order = Arc<Mutex<Vec<usize>>>;

    /// Says when it is released.
    struct Said(usize, Order);

    impl Drop for Said {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    fn of(count: usize) -> (Chain, Order) {
        let order = Order::default();
        let mut chain = Chain::default();
        for number in 0..count {
            chain.add(entry(Said(number, Arc::clone(&order))));
        }
        (chain, order)
    }

    fn number(node: &Node<dyn Any + Send + Sync>) -> usize {
        let said: &Option<Said> = node.memory.downcast_ref().unwrap();
        said.as_ref().unwrap().0
    }

    #[test]
    fn a_long_one_is_released_in_order_on_a_small_stack() {
        let count = if cfg!(miri) { 100 } else { 4000 };
        let (chain, order) = of(count);
        let small = thread::Builder::new().stack_size(64 << 10);
        small.spawn(move || drop(chain)).unwrap().join().unwrap();
        let expected: Vec<_> = (0..count).collect();
        assert_eq!(*order.lock().unwrap(), expected);
    }

    #[test]
    fn what_is_taken_out_and_what_stays_keep_their_order() {
        let (mut chain, order) = of(9);
        let odd = chain.take_out(|node| number(node) % 2 == 1);
        let mut left = Vec::new();
        chain.each(|node| left.push(number(node)));
        assert_eq!(left, [0, 2, 4, 6, 8]);
        assert!(order.lock().unwrap().is_empty());
        drop(odd);
        drop(chain.take_out(|_| false));
        drop(chain);
        assert_eq!(*order.lock().unwrap(), [1, 3, 5, 7, 0, 2, 4, 6, 8]);
    }

    #[test]
    fn named_entries_are_found_among_others_by_their_type() {
        let (mut chain, _) = of(2);
        assert!(chain.find::<u32>().is_none());
        chain.add(named::<u32>());
        chain.add(named::<u64>());
        *chain.find::<u32>().unwrap() = 7;
        *chain.find::<u64>().unwrap() = 8;
        assert_eq!(chain.find::<u32>(), Some(&mut 7));
        // An entry is not found by the type of what it keeps.
        chain.add(entry(5_u8));
        assert!(chain.find::<u8>().is_none());
    }
}

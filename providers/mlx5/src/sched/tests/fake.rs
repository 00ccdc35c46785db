//! A fake device that keeps its elements in a table, and refuses its n-th command.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use uverbs_core::{DestroyError, Errno, Error, Op, Result};

use crate::prm::ElementAttr;
use crate::sched::{Applied, Elements, Limits, Tree};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    parent: Option<u32>,
    leaf: bool,
    share: u32,
    cap: u32,
}

/// The device; clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Device(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    table: RefCell<BTreeMap<u32, Entry>>,
    next: Cell<u32>,
    commands: Cell<u32>,
    /// Commands to refuse, counted from 1.
    refuse: RefCell<Vec<u32>>,
    /// The errno for them.
    errno: Cell<Option<Errno>>,
    used: RefCell<Vec<u32>>,
}

impl Device {
    pub(super) fn refuse(&self, commands: impl IntoIterator<Item = u32>) {
        self.0.commands.set(0);
        *self.0.refuse.borrow_mut() = commands.into_iter().collect();
    }

    /// Times out on these commands, which it may carry out later.
    pub(super) fn time_out(&self, commands: impl IntoIterator<Item = u32>) {
        self.refuse(commands);
        self.0.errno.set(Some(Errno::TIMEDOUT));
    }

    pub(super) fn commands(&self) -> u32 {
        self.0.commands.get()
    }

    pub(super) fn attach(&self, id: u32) {
        self.0.used.borrow_mut().push(id);
    }

    pub(super) fn len(&self) -> usize {
        self.0.table.borrow().len()
    }

    /// The tree below `applied`'s root in the device, by names.
    pub(super) fn shape(
        &self,
        applied: &Applied<Self>,
        tree: &Tree,
    ) -> Vec<(String, Option<String>, bool, u32, u32)> {
        let table = self.0.table.borrow();
        let name_of = |id: u32| {
            tree.walk()
                .map(|(element, _)| &element.name)
                .find(|name| applied.get(name) == Some(&id))
                .cloned()
        };
        tree.walk()
            .map(|(element, _)| {
                let id = *applied.get(&element.name).unwrap();
                let entry = table[&id];
                let parent = entry.parent.unwrap();
                assert!(Some(&parent) == applied.root() || name_of(parent).is_some());
                (
                    element.name.clone(),
                    name_of(parent),
                    entry.leaf,
                    entry.share,
                    entry.cap,
                )
            })
            .collect()
    }

    fn command(&self, op: Op) -> Result<()> {
        let count = self.0.commands.get() + 1;
        self.0.commands.set(count);
        if self.0.refuse.borrow().contains(&count) {
            let errno = self.0.errno.get().unwrap_or(Errno::INVAL);
            return Err(Error::os(op, errno).fact("command", count));
        }
        Ok(())
    }

    fn add(&self, parent: Option<u32>, leaf: bool, attr: &ElementAttr) -> u32 {
        let id = self.0.next.get() + 1;
        self.0.next.set(id);
        let entry = Entry {
            parent,
            leaf,
            share: attr.share.unwrap_or(0),
            cap: attr.max_mbps.unwrap_or(0),
        };
        self.0.table.borrow_mut().insert(id, entry);
        id
    }
}

impl Elements for Device {
    type Element = u32;

    fn create_root(&self) -> Result<u32> {
        self.command(Op::CreateSchedElement)?;
        Ok(self.add(None, false, &ElementAttr::new()))
    }

    fn create(&self, parent: &u32, leaf: bool, attr: &ElementAttr) -> Result<u32> {
        self.command(Op::CreateSchedElement)?;
        assert!(
            !self.0.table.borrow()[parent].leaf,
            "a leaf has no children"
        );
        Ok(self.add(Some(*parent), leaf, attr))
    }

    fn modify(&self, element: &u32, attr: &ElementAttr) -> Result<()> {
        self.command(Op::ModifySchedElement)?;
        let mut table = self.0.table.borrow_mut();
        let entry = table.get_mut(element).unwrap();
        entry.share = attr.share.unwrap_or(entry.share);
        entry.cap = attr.max_mbps.unwrap_or(entry.cap);
        Ok(())
    }

    fn destroy(&self, element: u32) -> Result<(), DestroyError<u32>> {
        self.command(Op::DestroySchedElement)
            .map_err(|error| DestroyError::new(error, element))?;
        let mut table = self.0.table.borrow_mut();
        assert!(
            !table.values().any(|entry| entry.parent == Some(element)),
            "destroyed before what is below it"
        );
        assert!(table.remove(&element).is_some(), "destroyed twice");
        Ok(())
    }

    fn is_used(&self, element: &u32) -> bool {
        self.0.used.borrow().contains(element)
    }
}

/// A new device, without a tree.
pub(super) fn device() -> (Device, Applied<Device>) {
    let device = Device::default();
    (device.clone(), Applied::over(device, Limits::none()))
}

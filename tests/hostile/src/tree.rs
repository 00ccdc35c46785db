//! Schedules: replacing any tree by any other, on a device that refuses some commands.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use uverbs_core::{DestroyError, Errno, Error, Op, Result};
use uverbs_mlx5::sched::{Applied, Element, ElementAttr, Elements, Limits, Plan, Tree};

use crate::tape::Tape;

/// A tree with few levels, whose names recur in other trees, and sometimes in the same one.
pub(crate) fn tree(tape: &Tape) -> Tree {
    Tree::new(level(tape, 4, &mut 0))
}

fn level(tape: &Tape, depth: u32, made: &mut u32) -> Vec<Element> {
    let mut elements = Vec::new();
    for _ in 0..tape.pick(4) {
        if *made > 40 {
            break;
        }
        *made += 1;
        // Usually a unique name; 0 gives one that others may have, too.
        let name = match tape.byte() % 16 {
            0 => String::new(),
            raw @ 1..12 => format!("{raw}.{}", *made % 8),
            raw => raw.to_string(),
        };
        let mut element = match depth > 0 && tape.flag() {
            true => Element::node(name, level(tape, depth - 1, made)),
            false => Element::leaf(name),
        };
        element.attr = ElementAttr {
            share: tape.maybe(|tape| u32::from(tape.byte()) % 120),
            max_mbps: tape.maybe(Tape::word),
        };
        elements.push(element);
    }
    elements
}

/// A device that keeps elements, and refuses commands when the tape says so.
struct Device<'a> {
    tape: &'a Tape,
    refuses: Cell<bool>,
    /// It refused to destroy an element, which is still in the way of others.
    kept: Cell<bool>,
    table: RefCell<BTreeMap<u32, (Option<u32>, ElementAttr)>>,
    next: Cell<u32>,
}

impl Device<'_> {
    fn command(&self, op: Op) -> Result<()> {
        match self.refuses.get() && self.tape.byte() % 8 == 1 {
            true => Err(Error::os(op, Errno::INVAL)),
            false => Ok(()),
        }
    }

    fn add(&self, parent: Option<u32>, attr: &ElementAttr) -> u32 {
        let id = self.next.get() + 1;
        self.next.set(id);
        self.table.borrow_mut().insert(id, (parent, *attr));
        id
    }
}

impl Elements for &Device<'_> {
    type Element = u32;

    fn create_root(&self) -> Result<u32> {
        self.command(Op::CreateSchedElement)?;
        Ok(self.add(None, &ElementAttr::new()))
    }

    fn create(&self, parent: &u32, _: bool, attr: &ElementAttr) -> Result<u32> {
        self.command(Op::CreateSchedElement)?;
        assert!(self.table.borrow().contains_key(parent), "no such parent");
        Ok(self.add(Some(*parent), attr))
    }

    fn modify(&self, element: &u32, attr: &ElementAttr) -> Result<()> {
        self.command(Op::ModifySchedElement)?;
        let mut table = self.table.borrow_mut();
        let (_, kept) = table.get_mut(element).expect("an element that is there");
        kept.share = attr.share.or(kept.share);
        kept.max_mbps = attr.max_mbps.or(kept.max_mbps);
        Ok(())
    }

    fn destroy(&self, element: u32) -> Result<(), DestroyError<u32>> {
        self.command(Op::DestroySchedElement).map_err(|error| {
            self.kept.set(true);
            DestroyError::new(error, element)
        })?;
        let mut table = self.table.borrow_mut();
        let has_children = table.values().any(|(parent, _)| *parent == Some(element));
        if has_children {
            assert!(self.kept.get(), "destroyed before what is below it");
            let error = Error::os(Op::DestroySchedElement, Errno::BUSY);
            return Err(DestroyError::new(error, element));
        }
        assert!(table.remove(&element).is_some(), "destroyed twice");
        Ok(())
    }

    fn is_used(&self, _: &u32) -> bool {
        false
    }
}

/// Plans and applies one tree after another, with commands failing in between.
///
/// # Panics
/// If an applied tree is not the one that the device has, or something remains after everything was
/// cleared.
pub fn sched_tree(bytes: &[u8]) {
    let tape = Tape::new(bytes);
    let device = Device {
        tape: &tape,
        refuses: Cell::new(true),
        kept: Cell::new(false),
        table: RefCell::default(),
        next: Cell::new(0),
    };
    let mut limits = Limits::none();
    limits.max_share = tape.maybe(|tape| tape.byte().into());
    limits.max_leaves = tape.maybe(|tape| tape.byte().into());
    limits.max_depth = tape.maybe(|tape| u32::from(tape.byte()) % 6);
    let mut applied = Applied::over(&device, limits);
    let mut unknown = 0;
    for _ in 0..8 {
        if tape.is_empty() {
            break;
        }
        let tree = tree(&tape);
        let _ = tree.to_string();
        let plan = applied.plan(Some(&tree)).map(|plan| plan.to_string());
        match applied.apply(&tree) {
            Ok(done) => {
                assert_eq!(
                    plan.ok(),
                    Some(done.to_string()),
                    "what is done was planned"
                );
                assert_eq!(applied.tree(), Some(&tree));
                if unknown == 0 {
                    check(&device, &applied, &tree);
                }
            }
            Err(error) => {
                let _ = error.to_string();
                unknown += error.not_undone.len();
            }
        }
        let again = applied.tree().cloned();
        if let Some(tree) = again {
            let none = Plan::between(Some(&tree), Some(&tree), &limits);
            assert!(none.is_ok_and(|plan| plan.is_empty()), "a tree is itself");
        }
    }
    device.refuses.set(false);
    let cleared = applied.clear();
    if unknown == 0 {
        assert!(cleared.is_ok());
        assert!(device.table.borrow().is_empty(), "something is left");
    }
}

/// Checks that the device has the elements of the tree, and no others.
fn check(device: &Device<'_>, applied: &Applied<&Device<'_>>, tree: &Tree) {
    let table = device.table.borrow();
    let mut count = usize::from(applied.root().is_some());
    let mut left: Vec<&Element> = tree.children.iter().collect();
    while let Some(element) = left.pop() {
        count += 1;
        let id = applied.get(&element.name).expect("an element of the tree");
        let (_, attr) = table.get(id).expect("the device has it");
        if element.attr.share.is_some() {
            // 0 is an element's default.
            assert_eq!(attr.share.unwrap_or(0), element.attr.share.unwrap_or(0));
        }
        left.extend(element.children());
    }
    assert_eq!(table.len(), count, "no others");
}

//! The steps from one tree to another.

use std::collections::{HashMap, HashSet};
use std::fmt;

use uverbs_core::Result;

use super::check::{Limits, Note, notes};
use super::tree::{Element, Place, Tree};
use crate::prm::ElementAttr;

/// One command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Creates the root.
    CreateRoot,
    /// Creates an element below another; `None` is the root.
    Create {
        /// Its name.
        name: String,
        /// Its parent.
        parent: Option<String>,
        /// Whether it is a leaf.
        leaf: bool,
        /// Its share and cap.
        attr: ElementAttr,
    },
    /// Changes an element.
    Modify {
        /// Its name.
        name: String,
        /// The changed fields, with their old values.
        from: ElementAttr,
        /// The changed fields, with their new values.
        to: ElementAttr,
    },
    /// Destroys an element.
    Destroy {
        /// Its name.
        name: String,
        /// Its parent.
        parent: Option<String>,
        /// Whether it is a leaf.
        leaf: bool,
        /// Its share and cap.
        attr: ElementAttr,
    },
    /// Destroys the root.
    DestroyRoot,
}

/// The fewest commands that change one tree into another, in an order in which each can be carried
/// out: creates from the root down, modifies, destroys from the leaves up.
///
/// Elements are identified by their names. A device cannot move an element, or turn a leaf into a
/// node: one that changes its parent or its kind is created anew, with everything below it.
///
/// ```
/// use uverbs_mlx5::sched::{Element, Limits, Plan, Tree};
///
/// let one = Tree::new([Element::leaf("g1").share(7), Element::leaf("g2").share(3)]);
/// let other = Tree::new([Element::leaf("g1").share(5), Element::leaf("g3").share(5)]);
/// let plan = Plan::between(Some(&one), Some(&other), &Limits::none())?;
/// assert_eq!(
///     plan.to_string(),
///     "create  g3  leaf, share 5\nmodify  g1  share 7 to 5\ndestroy g2  leaf\n",
/// );
/// # Ok::<(), uverbs_core::Error>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    steps: Vec<Step>,
    notes: Vec<Note>,
}

impl Plan {
    /// The plan from `from` (`None`: nothing at all) to `to`.
    ///
    /// # Errors
    /// As [`Limits::check`]: properties of `to` that the device does not allow.
    pub fn between(from: Option<&Tree>, to: Option<&Tree>, limits: &Limits) -> Result<Self> {
        if let Some(to) = to {
            limits.check(to)?;
        }
        let nothing = Tree::default();
        let (old, new) = (from.unwrap_or(&nothing), to.unwrap_or(&nothing));
        let kept = kept(old, new);
        let mut steps = Vec::new();
        if from.is_none() && to.is_some() {
            steps.push(Step::CreateRoot);
        }
        steps.extend(
            new.walk()
                .filter(|(element, _)| !kept.contains_key(element.name.as_str()))
                .map(|(element, place)| Step::create(element, place)),
        );
        steps.extend(new.walk().filter_map(|(element, _)| {
            let before = kept.get(element.name.as_str())?;
            Step::modify(&element.name, &before.attr, &element.attr)
        }));
        let destroyed: Vec<Step> = old
            .walk()
            .filter(|(element, _)| !kept.contains_key(element.name.as_str()))
            .map(|(element, place)| Step::destroy(element, place))
            .collect();
        steps.extend(destroyed.into_iter().rev());
        if from.is_some() && to.is_none() {
            steps.push(Step::DestroyRoot);
        }
        Ok(Self {
            steps,
            notes: to.map(notes).unwrap_or_default(),
        })
    }

    /// The commands, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The properties of the tree that are allowed, but probably not intended.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The elements of `old` that stay: in `new` they are the same kind below the same kept parent.
fn kept<'a>(old: &'a Tree, new: &Tree) -> HashMap<&'a str, &'a Element> {
    let after: HashMap<&str, (bool, Option<&str>)> = new
        .walk()
        .map(|(element, place)| (element.name.as_str(), (element.is_leaf(), above(place))))
        .collect();
    let mut kept = HashMap::new();
    let mut names = HashSet::new();
    for (element, place) in old.walk() {
        let parent = above(place);
        let parent_stays = parent.is_none_or(|name| names.contains(name));
        if parent_stays && after.get(element.name.as_str()) == Some(&(element.is_leaf(), parent)) {
            names.insert(element.name.as_str());
            kept.insert(element.name.as_str(), element);
        }
    }
    kept
}

fn above(place: Place<'_>) -> Option<&str> {
    place.parent.map(|parent| parent.name.as_str())
}

impl Step {
    fn create(element: &Element, place: Place<'_>) -> Self {
        Self::Create {
            name: element.name.clone(),
            parent: above(place).map(str::to_owned),
            leaf: element.is_leaf(),
            attr: element.attr,
        }
    }

    fn destroy(element: &Element, place: Place<'_>) -> Self {
        Self::Destroy {
            name: element.name.clone(),
            parent: above(place).map(str::to_owned),
            leaf: element.is_leaf(),
            attr: element.attr,
        }
    }

    /// The fields that differ; an absent field and 0 are the same to a device.
    fn modify(name: &str, from: &ElementAttr, to: &ElementAttr) -> Option<Self> {
        let differs = |from: Option<u32>, to: Option<u32>| {
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(0));
            (from != to).then_some((from, to))
        };
        let share = differs(from.share, to.share);
        let cap = differs(from.max_mbps, to.max_mbps);
        if share.is_none() && cap.is_none() {
            return None;
        }
        let attr = |side: fn((u32, u32)) -> u32| ElementAttr {
            share: share.map(side),
            max_mbps: cap.map(side),
        };
        Some(Self::Modify {
            name: name.to_owned(),
            from: attr(|(from, _)| from),
            to: attr(|(_, to)| to),
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |leaf: bool| if leaf { "leaf" } else { "node" };
        match self {
            Self::CreateRoot => f.write_str("create  root"),
            Self::DestroyRoot => f.write_str("destroy root"),
            Self::Create {
                name,
                parent,
                leaf,
                attr,
            } => {
                write!(f, "create  {name}  {}", kind(*leaf))?;
                if let Some(parent) = parent {
                    write!(f, " below {parent}")?;
                }
                if let Some(share) = attr.share {
                    write!(f, ", share {share}")?;
                }
                if let Some(cap) = attr.max_mbps {
                    write!(f, ", at most {cap} Mb/s")?;
                }
                Ok(())
            }
            Self::Modify { name, from, to } => {
                write!(f, "modify  {name} ")?;
                if let (Some(from), Some(to)) = (from.share, to.share) {
                    write!(f, " share {from} to {to}")?;
                }
                if let (Some(from), Some(to)) = (from.max_mbps, to.max_mbps) {
                    write!(f, " cap {from} to {to} Mb/s")?;
                }
                Ok(())
            }
            Self::Destroy { name, leaf, .. } => write!(f, "destroy {name}  {}", kind(*leaf)),
        }
    }
}

impl fmt::Display for Plan {
    /// One line per command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

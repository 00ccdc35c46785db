//! A tree that is applied to a device.

use std::collections::HashMap;
use std::fmt;

use uverbs_core::{Error, ErrorKind, Op, Result};

use super::check::Limits;
use super::element::{Leaf, Scheduler};
use super::live::{Elements, LiveElement};
use super::plan::{Plan, Step};
use super::tree::Tree;
use crate::prm::ElementAttr;

/// A tree that is applied to a device, and is changed to another one step by step, or not at all.
///
/// Dropping it destroys its elements, children before parents, except for those that are still in
/// use: they are destroyed with their last user.
#[derive(Debug)]
pub struct Applied<B: Elements = Scheduler> {
    device: B,
    limits: Limits,
    tree: Option<Tree>,
    /// By name. Elements own their parents, so that any order of dropping them is correct.
    live: HashMap<String, B::Element>,
    root: Option<B::Element>,
    /// A change failed and could not be undone, or is in progress: a panic leaves it set.
    torn: bool,
}

/// Why a tree could not be changed to another.
#[derive(Debug)]
pub struct ApplyError {
    /// The error.
    pub error: Error,
    /// The step that failed; `None`: nothing was sent.
    pub step: Option<Step>,
    /// Steps that could not be undone, and why. Empty: the tree is unchanged.
    pub not_undone: Vec<(Step, Error)>,
}

impl Applied<Scheduler> {
    /// Starts without a tree in the device; nothing is sent yet.
    pub fn new(scheduler: Scheduler) -> Self {
        let limits = *scheduler.limits();
        Self::over(scheduler, limits)
    }

    /// The leaf of that name, to attach queue pairs to.
    pub fn leaf(&self, name: &str) -> Option<&Leaf> {
        match self.get(name)? {
            LiveElement::Leaf(leaf) => Some(leaf),
            LiveElement::Node(_) => None,
        }
    }
}

impl<B: Elements> Applied<B> {
    /// Starts without a tree, on any implementation of elements.
    pub fn over(device: B, limits: Limits) -> Self {
        Self {
            device,
            limits,
            tree: None,
            live: HashMap::new(),
            root: None,
            torn: false,
        }
    }

    /// The current tree, if there is one.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// The element of that name.
    pub fn get(&self, name: &str) -> Option<&B::Element> {
        self.live.get(name)
    }

    /// The root.
    pub fn root(&self) -> Option<&B::Element> {
        self.root.as_ref()
    }

    /// The plan for changing it to `tree` (`None`: nothing at all). Nothing is sent.
    ///
    /// # Errors
    /// As [`Limits::check`].
    pub fn plan(&self, tree: Option<&Tree>) -> Result<Plan> {
        Plan::between(self.tree(), tree, &self.limits)
    }

    /// Changes it to `tree`, by the fewest commands, and returns the plan that was carried out.
    ///
    /// One system call per step of the [`Plan`], which waits for the firmware.
    ///
    /// # Errors
    /// What the device does not allow, and leaves in use that would have to be destroyed, are
    /// detected before anything is sent. If a step fails, the steps before it are undone in reverse
    /// order.
    pub fn apply(&mut self, tree: &Tree) -> Result<Plan, ApplyError> {
        self.change(Some(tree))
    }

    /// Destroys every element.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn clear(&mut self) -> Result<Plan, ApplyError> {
        self.change(None)
    }

    fn change(&mut self, tree: Option<&Tree>) -> Result<Plan, ApplyError> {
        let plan = self
            .plan(tree)
            .and_then(|plan| self.ready(&plan).map(|()| plan))
            .map_err(|error| ApplyError {
                error,
                step: None,
                not_undone: Vec::new(),
            })?;
        let mut fresh = HashMap::new();
        self.torn = true;
        for (at, step) in plan.steps().iter().enumerate() {
            if let Err(error) = self.carry_out(step, &mut fresh) {
                let done = plan.steps().get(..at).unwrap_or_default();
                let not_undone = self.undo(done, &mut fresh);
                // An element whose destruction has an unknown outcome is in no tree.
                let destroys = matches!(step, Step::Destroy { .. } | Step::DestroyRoot);
                let lost = destroys && error.outcome_is_unknown();
                self.torn = lost || !not_undone.is_empty();
                // Elements that could not be destroyed are kept, for the drop to try again.
                for (name, element) in fresh {
                    self.live.insert(format!("{name} (left over)"), element);
                }
                return Err(ApplyError {
                    error,
                    step: Some(step.clone()),
                    not_undone,
                });
            }
        }
        self.live.extend(fresh);
        self.tree = tree.cloned();
        self.torn = false;
        Ok(plan)
    }

    /// Refuses a plan that is bound to fail.
    fn ready(&self, plan: &Plan) -> Result<()> {
        if self.torn {
            return Err(
                Error::new(Op::ModifySchedElement, ErrorKind::InvalidState).fact(
                    "tree",
                    "torn by a change that failed and could not be undone",
                ),
            );
        }
        for step in plan.steps() {
            if let Step::Destroy {
                name, leaf: true, ..
            } = step
                && self.get(name).is_some_and(|leaf| self.device.is_used(leaf))
            {
                return Err(Error::new(Op::DestroySchedElement, ErrorKind::Busy)
                    .fact("leaf", name.clone())
                    .hint("detach its queue pairs first"));
            }
        }
        Ok(())
    }

    /// The element of that name for later steps: `None` is the root.
    fn find<'a>(
        &'a self,
        name: Option<&str>,
        fresh: &'a HashMap<String, B::Element>,
    ) -> Result<&'a B::Element> {
        let found = match name {
            None => self.root.as_ref(),
            Some(name) => fresh.get(name).or_else(|| self.live.get(name)),
        };
        found.ok_or_else(|| {
            Error::new(Op::ModifySchedElement, ErrorKind::NotFound)
                .fact("element", name.unwrap_or("root").to_owned())
        })
    }

    /// Elements that a step creates go to `fresh`, because one of the same name may still exist.
    fn carry_out(&mut self, step: &Step, fresh: &mut HashMap<String, B::Element>) -> Result<()> {
        match step {
            Step::CreateRoot => self.root = Some(self.device.create_root()?),
            Step::Create {
                name,
                parent,
                leaf,
                attr,
            } => {
                let parent = self.find(parent.as_deref(), fresh)?;
                let element = self
                    .device
                    .create(parent, *leaf, attr)
                    .map_err(|error| error.fact("name", name.clone()))?;
                fresh.insert(name.clone(), element);
            }
            Step::Modify { name, to, .. } => self.modify(name, to)?,
            Step::Destroy { name, .. } => self.destroy(name)?,
            Step::DestroyRoot => {
                if let Some(root) = self.root.take()
                    && let Err(refused) = self.device.destroy(root)
                {
                    self.root = refused.handle.map(|root| *root);
                    return Err(refused.error);
                }
            }
        }
        Ok(())
    }

    fn modify(&self, name: &str, attr: &ElementAttr) -> Result<()> {
        let nothing = HashMap::new();
        let element = self.find(Some(name), &nothing)?;
        self.device
            .modify(element, attr)
            .map_err(|error| error.fact("name", name.to_owned()))
    }

    fn destroy(&mut self, name: &str) -> Result<()> {
        let Some(element) = self.live.remove(name) else {
            return Ok(());
        };
        self.device.destroy(element).map_err(|refused| {
            if let Some(element) = refused.handle {
                self.live.insert(name.to_owned(), *element);
            }
            refused.error.fact("name", name.to_owned())
        })
    }

    /// Undoes `done`, last step first. Returns the steps that could not be undone.
    fn undo(
        &mut self,
        done: &[Step],
        fresh: &mut HashMap<String, B::Element>,
    ) -> Vec<(Step, Error)> {
        let mut left = Vec::new();
        for step in done.iter().rev() {
            let undone = match step {
                Step::CreateRoot => self.carry_out(&Step::DestroyRoot, fresh),
                Step::DestroyRoot => self.carry_out(&Step::CreateRoot, fresh),
                Step::Modify { name, from, .. } => self.modify(name, from),
                Step::Create { name, .. } => match fresh.remove(name) {
                    Some(element) => self.device.destroy(element).map_err(|refused| {
                        if let Some(element) = refused.handle {
                            fresh.insert(name.clone(), *element);
                        }
                        refused.error
                    }),
                    None => Ok(()),
                },
                Step::Destroy {
                    name,
                    parent,
                    leaf,
                    attr,
                } => self.restore(name, parent.as_deref(), *leaf, attr),
            };
            if let Err(error) = undone {
                left.push((step.clone(), error));
            }
        }
        left
    }

    /// Creates a destroyed element again, below its former parent.
    fn restore(
        &mut self,
        name: &str,
        parent: Option<&str>,
        leaf: bool,
        attr: &ElementAttr,
    ) -> Result<()> {
        let nothing = HashMap::new();
        let parent = self.find(parent, &nothing)?;
        let element = self.device.create(parent, leaf, attr)?;
        self.live.insert(name.to_owned(), element);
        Ok(())
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match &self.step {
            None => return f.write_str("; nothing was sent"),
            Some(step) => write!(f, "; at: {step}")?,
        }
        if self.not_undone.is_empty() {
            return f.write_str("; the tree is as it was");
        }
        self.not_undone
            .iter()
            .try_for_each(|(step, error)| write!(f, "; not undone: {step} ({error})"))
    }
}

impl std::error::Error for ApplyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

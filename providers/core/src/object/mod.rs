//! A kernel object: destroyed once, after its children, or given up and counted.

mod before;
mod stake;

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::before::Before;
use self::stake::{Held, Stake};
use crate::error::{Errno, Error, ErrorKind, Result};
use crate::file::UverbsFile;
use crate::kind::Kind;
use crate::types::EventCounts;

/// A kernel object of an opened device.
///
/// It holds its parents, so that they are destroyed after it whatever order handles are dropped in,
/// and the memory that a device may touch through it. Both are released only when the kernel
/// confirmed the destroy. After one that failed whoever has the object may [try
/// again](Self::try_destroy). Else it is given up with all that it holds, counted in
/// [`UverbsFile::leaked`]: freeing memory that a device can still write to would be worse.
pub struct Object {
    file: Arc<UverbsFile>,
    kind: &'static Kind,
    handle: u32,
    /// `None` once it was destroyed or given up.
    held: Option<Held>,
}

impl Object {
    /// Issues `command`, which creates an object on `parents` that may use `memory` from then on.
    /// `handle` says which handle is in its reply.
    ///
    /// Where nobody knows whether the object exists ([`Error::outcome_is_unknown`], or a panic),
    /// parents and memory are given up, which counts in [`UverbsFile::leaked`]. After any other
    /// error they are released.
    ///
    /// # Errors
    /// Those of `command`.
    pub fn create<R>(
        file: &Arc<UverbsFile>,
        kind: &'static Kind,
        parents: impl IntoIterator<Item = Arc<Object>>,
        memory: impl Any + Send + Sync,
        command: impl FnOnce() -> Result<R>,
        handle: impl FnOnce(&R) -> u32,
    ) -> Result<(Self, R)> {
        // All that is allocated for it is allocated before the command.
        let stake = Stake::new(file, Held::new(parents, memory));
        match command() {
            Ok(created) => {
                let object = Self {
                    file: Arc::clone(file),
                    kind,
                    handle: handle(&created),
                    held: stake.settled(),
                };
                Ok((object, created))
            }
            Err(error) => {
                if !error.outcome_is_unknown() {
                    drop(stake.settled());
                }
                Err(error)
            }
        }
    }

    /// Takes over the object that a create command returned. It has no memory yet: what is to have
    /// some is made by [`create`](Self::create).
    pub fn new(
        file: &Arc<UverbsFile>,
        kind: &'static Kind,
        handle: u32,
        parents: impl IntoIterator<Item = Arc<Object>>,
    ) -> Self {
        Self {
            file: Arc::clone(file),
            kind,
            handle,
            held: Some(Held::new(parents, ())),
        }
    }

    /// Keeps `memory`, too, until the kernel confirmed that the object is gone.
    pub fn keep(&self, memory: impl Any + Send + Sync) {
        let memory = stake::boxed(memory);
        match &self.held {
            Some(held) => held.keep(memory),
            // It was given up, and so is this.
            None => stake::forget(memory),
        }
    }

    /// Has `step` issued before the object is destroyed.
    pub(crate) fn before_destroy(&self, step: impl Before) {
        if let Some(held) = &self.held {
            held.before.note(step);
        }
    }

    /// Strikes one `step` that was noted.
    pub(crate) fn not_before_destroy<B: Before + PartialEq>(&self, step: &B) {
        if let Some(held) = &self.held {
            held.before.strike(step);
        }
    }

    /// Issues `command`, which moves the object to another `parent`, to other `memory`, or both. It
    /// holds the new ones from before the command on, and the former ones until the command
    /// succeeded: nobody knows which it uses meanwhile.
    ///
    /// # Errors
    /// Those of `command`. If its outcome is unknown both are held until the object is gone.
    pub(crate) fn exchange<R>(
        &mut self,
        parent: Option<Arc<Object>>,
        memory: Option<impl Any + Send + Sync>,
        command: impl FnOnce(&UverbsFile) -> Result<R>,
    ) -> Result<R> {
        let Some(held) = &mut self.held else {
            return command(&self.file);
        };
        let former = held.take_too(parent, memory.map(stake::boxed));
        let done = command(&self.file);
        match &done {
            Ok(_) => held.release_former(&former),
            Err(error) if error.outcome_is_unknown() => {}
            Err(_) => held.release_latter(&former),
        }
        done
    }

    /// Notes that a command made it use `other` in the role `R`, in place of what it used before,
    /// or nothing any more. What it uses is destroyed after it.
    pub fn set_use<R: Any>(&self, other: Option<Arc<Object>>) {
        let Some(held) = &self.held else { return };
        let role = TypeId::of::<R>();
        // What it used is released after the lock, because that may destroy it.
        let _former = {
            let mut uses = lock(&held.uses);
            let at = uses.iter().position(|(used_as, _)| *used_as == role);
            let former = at.map(|at| uses.swap_remove(at));
            uses.extend(other.map(|other| (role, other)));
            former
        };
    }

    /// The kernel's handle.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The device it lives on.
    pub fn file(&self) -> &Arc<UverbsFile> {
        &self.file
    }

    /// What it is.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Destroys the object and releases what it held.
    ///
    /// One system call, which waits until the device no longer uses the object.
    ///
    /// # Errors
    /// The kernel's errno, EBUSY above all (something else still uses the object). It is given up
    /// then.
    pub fn destroy(mut self) -> Result<EventCounts> {
        self.end()
    }

    /// Destroys a shared object.
    ///
    /// # Errors
    /// As [`sole`](Self::sole) and [`destroy`](Self::destroy).
    pub fn destroy_shared(mut shared: Arc<Self>) -> Result<EventCounts> {
        Self::sole(&mut shared)?.end()
    }

    /// A shared object, if nobody else has it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while others share it; it lives on with them.
    pub fn sole(shared: &mut Arc<Self>) -> Result<&mut Self> {
        let (op, users) = (shared.kind.op, Arc::strong_count(shared) - 1);
        Arc::get_mut(shared).ok_or_else(|| Error::new(op, ErrorKind::Busy).fact("users", users))
    }

    /// Destroys the object in its place and releases what it held, or else leaves it as it was, for
    /// another try.
    ///
    /// After success nothing is left of it but a handle that may soon be another object's.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy), but nothing is given up: the object lives on. Only where
    /// nobody knows whether it does ([`Error::outcome_is_unknown`]) its handle may be another
    /// object's by now, so it was given up. What is given up, or gone, is
    /// [`ErrorKind::InvalidState`].
    pub fn try_destroy(&mut self) -> Result<EventCounts> {
        let Some(held) = self.held.take() else {
            return Err(Error::new(self.kind.op, ErrorKind::InvalidState)
                .hint("it was destroyed before, or given up"));
        };
        // Without a confirmation, given up.
        let mut stake = Stake::new(&self.file, held);
        stake.issue_before(self.handle);
        let result = self.destroy_confirmed();
        match &result {
            Err(error) if error.outcome_is_unknown() => {}
            Err(_) => self.held = stake.settled(),
            Ok(_) => drop(stake.settled()),
        }
        result
    }

    /// Destroys the object in its place and releases what it held, or gives it up.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy).
    pub fn end(&mut self) -> Result<EventCounts> {
        let result = self.try_destroy();
        if result.is_err() {
            self.give_up();
        }
        result
    }

    fn give_up(&mut self) {
        if let Some(held) = self.held.take() {
            drop(Stake::new(&self.file, held));
        }
    }

    /// Issues the destroy; a device that was taken away has no object any more.
    fn destroy_confirmed(&self) -> Result<EventCounts> {
        match self.destroy_command() {
            // By any other errno (ENOLINK) the device may still be there, and the object with it.
            Err(error) if error.errno() == Some(Errno::IO) && self.file.confirm_removed() => {
                Ok(EventCounts::default())
            }
            result => result,
        }
    }

    fn destroy_command(&self) -> Result<EventCounts> {
        let mut tries = 0;
        loop {
            match self.kind.destroy(&self.file, self.handle) {
                Err(error) if error.errno() == Some(Errno::INTR) && tries < MAX_INTERRUPTED => {
                    tries += 1;
                }
                result => return result,
            }
        }
    }
}

/// A panic under one of these locks is one of the allocator, before anything was changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A destroy that a signal interrupted did nothing and is issued again, but not for ever.
const MAX_INTERRUPTED: u32 = 16;

impl Drop for Object {
    fn drop(&mut self) {
        if self.held.is_some() {
            // A failure is counted in the file; there is nobody to tell here.
            let _ = self.end();
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.kind, self.handle)
    }
}

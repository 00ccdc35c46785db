//! A kernel object: destroyed once, after its children, or leaked and counted.

mod before;
mod chain;
mod pending;

use std::any::{Any, TypeId};
use std::fmt;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use self::before::Before;
use self::pending::{Held, PendingCommand};
use crate::error::{Errno, Error, ErrorKind, Result};
use crate::file::UverbsFile;
use crate::kind::Kind;
use crate::types::EventCounts;

/// A kernel object of an opened device.
///
/// It holds its parents, so that they are destroyed after it in whatever order handles are dropped,
/// and the memory that a device may access through it. Both are released only once the kernel has
/// confirmed the destroy. If the destroy fails, the owner of the object may [try
/// again](Self::try_destroy). Otherwise the object is leaked with everything that it holds, and
/// counted in [`UverbsFile::leaked`]: freeing memory that a device can still write to would be
/// worse.
pub struct Object {
    file: Arc<UverbsFile>,
    kind: &'static Kind,
    handle: u32,
    /// Not once it was destroyed or leaked, nor if it is somebody else's. Then nothing is held.
    is_ours: bool,
    held: Held,
}

impl Object {
    /// Issues `command`, which creates an object that depends on `parents` and may use `memory`
    /// from then on. `handle` extracts the object's handle from the reply.
    ///
    /// If it is unknown whether the object exists ([`Error::outcome_is_unknown`], or a panic),
    /// parents and memory are leaked, which counts in [`UverbsFile::leaked`]. After any other error
    /// they are released.
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
        // Everything is allocated before the command, so that nothing can fail after it.
        let pending = PendingCommand::new(file, Held::new(parents, memory));
        match command() {
            Ok(created) => {
                let object = Self {
                    file: Arc::clone(file),
                    kind,
                    handle: handle(&created),
                    is_ours: true,
                    held: pending.settled(),
                };
                Ok((object, created))
            }
            Err(error) => {
                if !error.outcome_is_unknown() {
                    drop(pending.settled());
                }
                Err(error)
            }
        }
    }

    /// Takes ownership of the object that a create command returned. The object uses no memory; one
    /// that does is created by [`create`](Self::create).
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
            is_ours: true,
            held: Held::new(parents, ()),
        }
    }

    /// Refers to an object that somebody else owns: another process, or another part of this one.
    /// Dropping it destroys nothing, and a destroy is refused.
    #[must_use]
    pub fn borrowed(file: &Arc<UverbsFile>, kind: &'static Kind, handle: u32) -> Self {
        Self {
            file: Arc::clone(file),
            kind,
            handle,
            is_ours: false,
            held: Held::default(),
        }
    }

    /// Keeps `memory` as well, until the kernel has confirmed that the object is gone.
    pub fn keep(&self, memory: impl Any + Send + Sync) {
        let memory = chain::entry(memory);
        match self.held() {
            Some(held) => held.keep(memory),
            // The object was leaked, so this is leaked as well.
            None => pending::forget(memory),
        }
    }

    /// Registers `step`, to be issued before the object is destroyed.
    pub(crate) fn before_destroy(&self, step: impl Before) {
        if let Some(held) = self.held() {
            held.add_before(step);
        }
    }

    /// Removes one registered `step`.
    pub(crate) fn cancel_before_destroy<B: Before + PartialEq>(&self, step: &B) {
        if let Some(held) = self.held() {
            held.remove_before(step);
        }
    }

    /// Issues `command`, which moves the object to another `parent`, to other `memory`, or both.
    /// The object holds the new ones from before the command, and the previous ones until the
    /// command has succeeded: it may use either meanwhile.
    ///
    /// # Errors
    /// Those of `command`. If its outcome is unknown, both are held until the object is gone.
    pub(crate) fn exchange<R>(
        &mut self,
        parent: Option<Arc<Object>>,
        memory: Option<impl Any + Send + Sync>,
        command: impl FnOnce(&UverbsFile) -> Result<R>,
    ) -> Result<R> {
        if !self.is_ours {
            return command(&self.file);
        }
        let added = self.held.add(parent, memory.map(chain::entry));
        let done = command(&self.file);
        match &done {
            Ok(_) => self.held.release_previous(added),
            Err(error) if error.outcome_is_unknown() => {}
            Err(_) => self.held.release_added(added),
        }
        done
    }

    /// Records that a command made the object use `other` in the role `R` instead of what it used
    /// before, or (`None`) nothing any more. An object that it uses is destroyed after it.
    pub fn set_use<R: Any>(&self, other: Option<Arc<Object>>) {
        if let Some(held) = self.held() {
            // Released after the lock, because that may destroy it.
            drop(held.set_use(TypeId::of::<R>(), other));
        }
    }

    /// The kernel's handle.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The device it lives on.
    pub fn file(&self) -> &Arc<UverbsFile> {
        &self.file
    }

    /// Its kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Destroys the object and releases what it holds.
    ///
    /// One system call, which waits until the device no longer uses the object.
    ///
    /// # Errors
    /// The kernel's errno, in particular EBUSY (something else still uses the object). The object
    /// is leaked then.
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

    /// Exclusive access to a shared object, if there is no other reference to it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while there are other references; they keep it alive.
    pub fn sole(shared: &mut Arc<Self>) -> Result<&mut Self> {
        let (op, users) = (shared.kind.op, Arc::strong_count(shared) - 1);
        Arc::get_mut(shared).ok_or_else(|| Error::new(op, ErrorKind::Busy).fact("users", users))
    }

    /// Destroys the object in place and releases what it holds; on failure leaves the object as it
    /// was, for another try.
    ///
    /// After success only its handle is left, which the kernel may soon assign to another object.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy), but the object is not leaked: it lives on. The exception is
    /// an unknown outcome ([`Error::outcome_is_unknown`]): the handle may already be another
    /// object's, so the object is leaked. [`ErrorKind::InvalidState`] if it was destroyed or leaked
    /// before.
    pub fn try_destroy(&mut self) -> Result<EventCounts> {
        let Some(held) = self.take_held() else {
            return Err(Error::new(self.kind.op, ErrorKind::InvalidState)
                .hint("it was already destroyed or leaked"));
        };
        // Leaked unless the kernel confirms the destroy.
        let mut pending = PendingCommand::new(&self.file, held);
        pending.issue_before(self.handle);
        let result = self.destroy_confirmed();
        match &result {
            Err(error) if error.outcome_is_unknown() => {}
            Err(_) => {
                self.held = pending.settled();
                self.is_ours = true;
            }
            Ok(_) => drop(pending.settled()),
        }
        result
    }

    /// Destroys the object in place and releases what it holds, or leaks it.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy).
    pub fn end(&mut self) -> Result<EventCounts> {
        let result = self.try_destroy();
        if result.is_err() {
            self.leak();
        }
        result
    }

    fn held(&self) -> Option<&Held> {
        self.is_ours.then_some(&self.held)
    }

    fn take_held(&mut self) -> Option<Held> {
        take(&mut self.is_ours).then(|| take(&mut self.held))
    }

    fn leak(&mut self) {
        if let Some(held) = self.take_held() {
            drop(PendingCommand::new(&self.file, held));
        }
    }

    /// Issues the destroy. On a removed device the object no longer exists, which is success.
    fn destroy_confirmed(&self) -> Result<EventCounts> {
        match self.destroy_command() {
            // After any other errno (ENOLINK) the device may still exist, and with it the object.
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

/// Only the allocator can panic while one of these locks is held, before anything was changed, so a
/// poisoned lock is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A destroy that a signal interrupted did nothing and is issued again, at most this often.
const MAX_INTERRUPTED: u32 = 16;

impl Drop for Object {
    fn drop(&mut self) {
        if self.is_ours {
            // A failure is counted in the file; a drop cannot report it.
            let _ = self.end();
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.kind, self.handle)
    }
}

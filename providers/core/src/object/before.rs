//! Commands that must be issued before the kernel destroys an object.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use super::lock;
use crate::error::Result;
use crate::file::UverbsFile;

/// A command that must precede an object's destroy, because the kernel refuses the destroy
/// otherwise.
pub(crate) trait Before: Any + Send + Sync {
    /// Issues it for the object `handle`.
    ///
    /// # Errors
    /// Those of the command. The step is kept for another try. If this step was really needed, the
    /// destroy fails as well and reports the reason.
    fn issue(&self, file: &UverbsFile, handle: u32) -> Result<()>;
}

/// The steps registered for an object.
#[derive(Default)]
pub(super) struct Steps(Mutex<Vec<Box<dyn Before>>>);

impl Steps {
    pub(super) fn add(&self, step: impl Before) {
        lock(&self.0).push(Box::new(step));
    }

    /// Removes one step that is equal to `step`.
    pub(super) fn remove<B: Before + PartialEq>(&self, step: &B) {
        let mut steps = lock(&self.0);
        let found = steps.iter().position(|registered| {
            let registered: &dyn Any = registered.as_ref();
            registered.downcast_ref() == Some(step)
        });
        if let Some(at) = found {
            steps.swap_remove(at);
        }
    }

    /// Issues all steps, and keeps those that failed.
    pub(super) fn issue(&mut self, file: &UverbsFile, handle: u32) {
        let steps = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        steps.retain(|step| step.issue(file, handle).is_err());
    }
}

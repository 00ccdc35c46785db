//! Commands that must be issued before the kernel destroys an object.

use std::any::Any;

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
pub(super) struct Steps(Vec<Box<dyn Before>>);

impl Steps {
    pub(super) fn add(&mut self, step: Box<dyn Before>) {
        self.0.push(step);
    }

    /// Removes one step that is equal to `step`.
    pub(super) fn remove<B: Before + PartialEq>(&mut self, step: &B) {
        let found = self.0.iter().position(|registered| {
            let registered: &dyn Any = registered.as_ref();
            registered.downcast_ref() == Some(step)
        });
        if let Some(at) = found {
            self.0.swap_remove(at);
        }
    }

    /// Issues all steps, and keeps those that failed.
    pub(super) fn issue(&mut self, file: &UverbsFile, handle: u32) {
        self.0.retain(|step| step.issue(file, handle).is_err());
    }
}

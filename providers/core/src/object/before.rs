//! What has to be done before the kernel destroys an object.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use super::lock;
use crate::error::Result;
use crate::file::UverbsFile;

/// A command that goes before an object's destroy, because the kernel destroys none that lacks it.
pub(crate) trait Before: Any + Send + Sync {
    /// Issues it for the object `handle`.
    ///
    /// # Errors
    /// Those of the command. It stays noted, for another try; should the destroy fail too, that
    /// says why.
    fn issue(&self, file: &UverbsFile, handle: u32) -> Result<()>;
}

/// What is noted on an object.
#[derive(Default)]
pub(super) struct Steps(Mutex<Vec<Box<dyn Before>>>);

impl Steps {
    pub(super) fn note(&self, step: impl Before) {
        lock(&self.0).push(Box::new(step));
    }

    /// Strikes one that is equal to `step`.
    pub(super) fn strike<B: Before + PartialEq>(&self, step: &B) {
        let mut steps = lock(&self.0);
        let found = steps.iter().position(|noted| {
            let noted: &dyn Any = noted.as_ref();
            noted.downcast_ref() == Some(step)
        });
        if let Some(at) = found {
            steps.swap_remove(at);
        }
    }

    /// Issues all of them, and keeps those that failed.
    pub(super) fn issue(&mut self, file: &UverbsFile, handle: u32) {
        let steps = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        steps.retain(|step| step.issue(file, handle).is_err());
    }
}

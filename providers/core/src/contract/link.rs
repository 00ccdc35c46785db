//! Queues that others are created with.

use std::any::Any;
use std::sync::Arc;

use super::Extra;
use crate::error::{Error, Op, Result};
use crate::object::Object;

/// A queue that another is created with: the kernel's object, and what its provider shares with the
/// other.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// The kernel object.
    pub object: &'a Arc<Object>,
    shared: Option<&'a dyn Extra>,
}

impl<'a> Link<'a> {
    /// A queue that shares nothing on this side of the kernel.
    pub fn plain(object: &'a Arc<Object>) -> Self {
        Self {
            object,
            shared: None,
        }
    }

    /// A queue that shares `shared`.
    pub fn new(object: &'a Arc<Object>, shared: &'a dyn Extra) -> Self {
        Self {
            object,
            shared: Some(shared),
        }
    }

    /// What it shares, for a provider whose queues share a `T`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): a queue of another provider's.
    pub fn shared<T: Any>(&self, op: Op) -> Result<&'a T> {
        let shared = self.shared.and_then(|shared| shared.get());
        shared.ok_or_else(|| foreign(op, self.object))
    }
}

#[cold]
fn foreign(op: Op, object: &Object) -> Error {
    Error::invalid(op, "queue")
        .fact("object", format!("{object:?}"))
        .hint("it belongs to another device")
}

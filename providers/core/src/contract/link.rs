//! References to queues, for creating other queues with them.

use std::any::Any;
use std::sync::Arc;

use super::Extra;
use crate::error::{Error, Op, Result};
use crate::object::Object;

/// A reference to a queue that another queue is created with: the kernel object, and the state that
/// the provider shares between the two.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// The kernel object.
    pub object: &'a Arc<Object>,
    shared: Option<&'a dyn Extra>,
}

impl<'a> Link<'a> {
    /// A queue without shared state in user space.
    pub fn plain(object: &'a Arc<Object>) -> Self {
        Self {
            object,
            shared: None,
        }
    }

    /// A queue with shared state.
    pub fn new(object: &'a Arc<Object>, shared: &'a dyn Extra) -> Self {
        Self {
            object,
            shared: Some(shared),
        }
    }

    /// The shared state, for a provider whose queues share a `T`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): the queue belongs to another provider.
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

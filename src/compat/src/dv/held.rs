//! Objects of the vendor's that C knows by a struct, or only by a pointer.

use uverbs_core::DestroyError;

use crate::answer::Answer;
use crate::context::Context;
use crate::errno::Code;
use crate::lock::Locked;
use crate::pointer::{Handle, Object};

/// An object `T`, behind C's struct `C`.
#[repr(C)]
pub(super) struct Held<C, T> {
    c: C,
    context: Handle<Context>,
    /// `None` once it was destroyed.
    inner: Locked<Option<T>>,
}

impl<C, T> Object for Held<C, T> {
    type C = C;
}

impl<C, T> Held<C, T> {
    /// Makes an object known to C.
    pub(super) fn give(context: Handle<Context>, c: C, inner: T) -> Answer<*mut C> {
        context.get()?.users.add();
        let held = Self {
            c,
            context,
            inner: Locked::new(Some(inner), true),
        };
        Ok(Self::to_c(Box::into_raw(Box::new(held))))
    }

    /// The opened device it is on.
    pub(super) fn context(&self) -> Handle<Context> {
        self.context
    }

    /// C's struct.
    pub(super) fn c(&self) -> &C {
        &self.c
    }

    /// Runs `body` with the object.
    pub(super) fn with<R>(&self, body: impl FnOnce(&T) -> Answer<R>) -> Answer<R> {
        self.inner
            .with(|inner| body(inner.as_ref().ok_or(Code::INVALID)?))
    }

    /// Destroys it. What cannot be destroyed lives on, if it is known to.
    pub(super) fn end(&self, destroy: impl FnOnce(T) -> Result<(), DestroyError<T>>) -> Answer<()> {
        self.inner.with(|inner| {
            let Err(refused) = destroy(inner.take().ok_or(Code::INVALID)?) else {
                return Ok(());
            };
            *inner = refused.handle.map(|object| *object);
            Err(Code::from(refused.error))
        })?;
        self.context.get()?.leave();
        self.free();
        Ok(())
    }
}

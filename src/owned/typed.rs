//! Buffers of values instead of bytes.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use uverbs_core::{Error, Op, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::buffer::ALIGN;
use super::{Buffer, Memory};
use crate::ProtectionDomain;

/// A buffer that derefs to a slice of `T`; its values start out as zeros.
///
/// `T` is any type that zerocopy knows to consist of bytes without invalid values or padding, such
/// as integers, arrays of them, and structs that derive its traits. Posting takes the
/// [buffer](Self::into_buffer).
///
/// ```no_run
/// # fn f(pd: &uverbs::ProtectionDomain, qp: &mut uverbs::owned::QueuePair)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use uverbs::owned::Work;
///
/// let mut numbers = pd.buffer_of::<u64>(16)?;
/// numbers[1] = 0x42;
/// qp.post(Work::send().memory(numbers))?;
/// # Ok(())
/// # }
/// ```
pub struct TypedBuffer<T> {
    buffer: Buffer,
    values: PhantomData<T>,
}

impl ProtectionDomain {
    /// Allocates and registers a buffer of `count` values. Three system calls.
    ///
    /// # Errors
    /// As [`buffers`](Self::buffers); [`InvalidInput`](crate::ErrorKind::InvalidInput) also for a
    /// type with an alignment above 64.
    pub fn buffer_of<T>(&self, count: usize) -> Result<TypedBuffer<T>>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        let op = Op::RegisterMemory;
        if align_of::<T>() > ALIGN {
            return Err(Error::invalid(op, "alignment").fact("alignment", align_of::<T>()));
        }
        let len = count
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::invalid(op, "count").fact("count", count))?;
        let [buffer] = self.buffers::<1>(len)?;
        Ok(TypedBuffer {
            buffer,
            values: PhantomData,
        })
    }
}

impl Buffer {
    /// The bytes from `offset` as a `T`. `None` if it does not fit, or is not aligned there.
    pub fn view<T: FromBytes + KnownLayout + Immutable>(&self, offset: usize) -> Option<&T> {
        let (value, _) = T::ref_from_prefix(self.get(offset..)?).ok()?;
        Some(value)
    }

    /// As [`view`](Self::view), to change it.
    pub fn view_mut<T>(&mut self, offset: usize) -> Option<&mut T>
    where
        T: FromBytes + IntoBytes + KnownLayout,
    {
        let (value, _) = T::mut_from_prefix(self.get_mut(offset..)?).ok()?;
        Some(value)
    }

    /// All of it as a slice of `T`. `None` if its length is not a multiple of a value's, or its
    /// start is not aligned for one.
    pub fn slice_of<T: FromBytes + Immutable>(&self) -> Option<&[T]> {
        <[T]>::ref_from_bytes(self).ok()
    }

    /// As [`slice_of`](Self::slice_of), to change them.
    pub fn slice_of_mut<T: FromBytes + IntoBytes>(&mut self) -> Option<&mut [T]> {
        <[T]>::mut_from_bytes(self).ok()
    }
}

impl<T: FromBytes + IntoBytes + Immutable> TypedBuffer<T> {
    /// The values in `buffer`, such as one that came back with a completion.
    ///
    /// # Errors
    /// The buffer, if its length is not a multiple of a value's, or its start is not aligned for
    /// one.
    pub fn from_buffer(buffer: Buffer) -> Result<Self, Buffer> {
        if buffer.slice_of::<T>().is_none() {
            return Err(buffer);
        }
        Ok(Self {
            buffer,
            values: PhantomData,
        })
    }

    /// The bytes, for a request.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

impl<T: FromBytes + IntoBytes + Immutable> Deref for TypedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // Length and alignment were checked when it was made.
        self.buffer.slice_of().unwrap_or_default()
    }
}

impl<T: FromBytes + IntoBytes + Immutable> DerefMut for TypedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.buffer.slice_of_mut().unwrap_or_default()
    }
}

impl<T> From<TypedBuffer<T>> for Memory {
    fn from(typed: TypedBuffer<T>) -> Self {
        Self::from(typed.buffer)
    }
}

impl<T> fmt::Debug for TypedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedBuffer").field(&self.buffer).finish()
    }
}

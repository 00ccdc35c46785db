//! Pointers that C passes: to objects of this library, to structs to be read, and to be written.
//!
//! # Safety
//!
//! Values of these types come from C only: they are parameters of exported functions, or fields of
//! structs that such parameters point to. What the headers demand of a caller is therefore what
//! makes them valid: NULL, or an object that this library returned and that was not destroyed
//! since; NULL, or a struct of the type, for the length of the call. NULL is an error here
//! (EINVAL), never an access.
#![allow(unsafe_code, reason = "C's pointers become references")]
#![expect(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the pointers are C's, with the promises above"
)]

use std::ptr::NonNull;

use crate::answer::Answer;
use crate::errno::Code;

/// An object of this library, whose struct for C is at an offset inside it.
pub trait Object: Sized {
    /// C's struct.
    type C;
    /// Where that is in the object.
    const OFFSET: usize = 0;

    /// The pointer that C gets, for an object that begins at `this`.
    fn to_c(this: *mut Self) -> *mut Self::C {
        this.wrapping_byte_add(Self::OFFSET).cast()
    }

    /// Frees an object that was allocated by `Box`.
    fn free(&self) {
        let pointer = std::ptr::from_ref(self).cast_mut();
        // SAFETY: the object was leaked from a box when it was given to C, which gave it back: its
        // destroy was confirmed, and C does not use it again.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// An object that C refers to.
#[repr(transparent)]
pub struct Handle<T: Object>(*mut T::C);

impl<T: Object> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Object> Copy for Handle<T> {}

impl<T: Object> Handle<T> {
    /// The object.
    ///
    /// # Errors
    /// EINVAL for NULL.
    #[inline]
    pub fn get<'a>(self) -> Answer<&'a T> {
        let start = self.0.wrapping_byte_sub(T::OFFSET).cast::<T>();
        if self.0.is_null() {
            return Err(Code::INVALID);
        }
        // SAFETY: not NULL, so it is an object of this library (see above), which begins there.
        Ok(unsafe { &*start })
    }

    /// The object, if there is one.
    pub fn optional<'a>(self) -> Option<&'a T> {
        self.get().ok()
    }

    /// The pointer as C knows it.
    pub fn raw(self) -> *mut T::C {
        self.0
    }

    /// The handle of a pointer that C gave as such an object's.
    pub fn of(raw: *mut T::C) -> Self {
        Self(raw)
    }
}

/// A struct that C passes to be read.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    /// The struct at an address that C gave in another one.
    #[inline]
    pub fn of(raw: *const T) -> Self {
        Self(raw)
    }

    /// Its address.
    pub fn raw(self) -> *const T {
        self.0
    }

    /// The struct.
    ///
    /// # Errors
    /// EINVAL for NULL.
    #[inline]
    pub fn get<'a>(self) -> Answer<&'a T> {
        if self.0.is_null() {
            return Err(Code::INVALID);
        }
        // SAFETY: not NULL, so it is such a struct for the length of the call.
        Ok(unsafe { &*self.0 })
    }
}

/// A struct, or the first of several, that C passes to be written, and possibly read.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// The place at an address that C gave in a struct.
    pub fn of(raw: *mut T) -> Self {
        Self(raw)
    }

    /// Writes the whole struct.
    ///
    /// # Errors
    /// EINVAL for NULL.
    #[inline]
    pub fn put(self, value: T) -> Answer<()> {
        let place = NonNull::new(self.0).ok_or(Code::INVALID)?;
        // SAFETY: not NULL, so it is room for such a struct.
        unsafe { place.write(value) };
        Ok(())
    }

    /// Writes it, unless it is NULL.
    pub fn put_if_any(self, value: T) {
        let _ = self.put(value);
    }

    /// The struct, which C has filled.
    ///
    /// # Errors
    /// EINVAL for NULL.
    #[inline]
    pub fn get<'a>(self) -> Answer<&'a mut T> {
        if self.0.is_null() {
            return Err(Code::INVALID);
        }
        // SAFETY: not NULL, so it is such a struct, which is this call's until it ends.
        Ok(unsafe { &mut *self.0 })
    }

    /// This one and those after it, `count` in all, as [`get`](Self::get).
    ///
    /// # Errors
    /// EINVAL for NULL, if there are to be any.
    #[inline]
    pub fn all<'a>(self, count: usize) -> Answer<&'a mut [T]> {
        items_mut(self.0, count)
    }

    /// The place of the next one.
    #[must_use]
    pub fn after(self, count: usize) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Writes the first `length` bytes of the struct, fewer if it is shorter, and zeros behind it.
    ///
    /// # Errors
    /// EINVAL for NULL.
    pub fn put_bytes(self, value: &T, length: usize) -> Answer<()> {
        let place = NonNull::new(self.0).ok_or(Code::INVALID)?.cast::<u8>();
        let known = length.min(size_of::<T>());
        let bytes = NonNull::from(value).cast::<u8>();
        // SAFETY: C says that there is room for `length` bytes; the value has `known` of them.
        unsafe { place.copy_from_nonoverlapping(bytes, known) };
        // SAFETY: as above.
        let rest = unsafe { place.add(known) };
        // SAFETY: as above.
        unsafe { rest.write_bytes(0, length - known) };
        Ok(())
    }
}

/// The items of an array that C passes.
///
/// # Errors
/// EINVAL for NULL, if there are to be any.
pub fn items<'a, T>(first: *const T, count: usize) -> Answer<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: not NULL, so it is an array of this many items, for the length of the call.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// The items of an array that C passes to be written.
///
/// # Errors
/// EINVAL for NULL, if there are to be any.
pub fn items_mut<'a, T>(first: *mut T, count: usize) -> Answer<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    if first.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: not NULL, so it is an array of this many items, which is this call's until it ends.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
}

/// The text that C passes.
///
/// # Errors
/// EINVAL for NULL, and for bytes that are not UTF-8.
pub fn text<'a>(start: *const std::ffi::c_char) -> Answer<&'a str> {
    if start.is_null() {
        return Err(Code::INVALID);
    }
    // SAFETY: not NULL, so it is a text that ends with a zero.
    let text = unsafe { std::ffi::CStr::from_ptr(start) };
    text.to_str().map_err(|_| Code::INVALID)
}

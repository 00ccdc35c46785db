//! What functions return to C, in each of the ways that the headers describe. No panic leaves them.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::errno::{Code, set};

/// What may fail with an errno.
pub type Answer<T> = Result<T, Code>;

fn caught<T>(body: impl FnOnce() -> Answer<T>) -> Answer<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Code::PANICKED))
}

/// 0, or a positive errno, which is set, too.
pub fn number(body: impl FnOnce() -> Answer<()>) -> c_int {
    match caught(body) {
        Ok(()) => 0,
        Err(code) => {
            set(code);
            code.number()
        }
    }
}

/// 0, or a negative errno.
pub fn negative(body: impl FnOnce() -> Answer<()>) -> c_int {
    match caught(body) {
        Ok(()) => 0,
        Err(code) => {
            set(code);
            -code.number()
        }
    }
}

/// A value, or -1 with errno set.
pub fn minus_one(body: impl FnOnce() -> Answer<c_int>) -> c_int {
    caught(body).unwrap_or_else(|code| {
        set(code);
        -1
    })
}

/// A pointer, or NULL with errno set.
pub fn pointer<T>(body: impl FnOnce() -> Answer<*mut T>) -> *mut T {
    caught(body).unwrap_or_else(|code| {
        set(code);
        std::ptr::null_mut()
    })
}

/// A value, or another one after an error.
pub fn or<T>(otherwise: T, body: impl FnOnce() -> Answer<T>) -> T {
    caught(body).unwrap_or_else(|code| {
        set(code);
        otherwise
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errnos() {
        assert_eq!(number(|| panic!("a fault")), libc::ENOTRECOVERABLE);
        assert_eq!(Code::last(), Code::PANICKED);
        assert!(pointer::<u8>(|| panic!("a fault")).is_null());
    }

    #[test]
    fn all_kinds_of_results_carry_the_errno() {
        assert_eq!(number(|| Err(Code::BUSY)), libc::EBUSY);
        assert_eq!(negative(|| Err(Code::BUSY)), -libc::EBUSY);
        assert_eq!(minus_one(|| Err(Code::BUSY)), -1);
        assert_eq!(Code::last(), Code::BUSY);
    }
}

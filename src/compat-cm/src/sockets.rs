//! The functions of this library that wait for many sockets at a time (`repoll_…`), which are left
//! out. Programs that only mention them have to start nevertheless, and the loader looks for all
//! names that a program mentions: calls answer EOPNOTSUPP.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for; the functions read no arguments.
#![allow(unsafe_code, reason = "exports names")]

use crate::errno::{Code, set};

#[cold]
fn unsupported() -> isize {
    set(Code::UNSUPPORTED);
    -1
}

macro_rules! unsupported {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> isize {
            unsupported()
        }
    )*};
}

unsupported! {
    repoll_create repoll_ctl repoll_wait
}

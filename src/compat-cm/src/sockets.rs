//! The sockets of this library (`rsocket` and what is called with one), which are left out: they
//! are a protocol of their own on top of connections. Programs that only mention them have to start
//! nevertheless, and the loader looks for all names that a program mentions: calls answer
//! EOPNOTSUPP.
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
    raccept rbind rclose rconnect repoll_create repoll_ctl repoll_wait rfcntl rgetpeername
    rgetsockname rgetsockopt riomap riounmap riowrite rlisten rpoll rread rreadv rrecv rrecvfrom
    rrecvmsg rselect rsend rsendmsg rsendto rsetsockopt rshutdown rsocket rwrite rwritev
}

//! Sockets by their numbers. A number is a descriptor that its socket keeps open, so it stands for
//! no other one before the last call with it has ended.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, PoisonError, RwLock};

use super::stream::Stream;
use crate::answer::Answer;
use crate::errno::Code;

static TABLE: RwLock<BTreeMap<c_int, Arc<Stream>>> = RwLock::new(BTreeMap::new());

/// Adds a socket: its number.
pub(super) fn add(socket: Arc<Stream>) -> c_int {
    let number = socket.link.fd;
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.insert(number, socket);
    number
}

/// # Errors
/// EBADF: there is none.
pub(super) fn find(number: c_int) -> Answer<Arc<Stream>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.get(&number).cloned().ok_or(Code::new(libc::EBADF))
}

/// Takes one out.
pub(super) fn remove(number: c_int) -> Answer<Arc<Stream>> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.remove(&number).ok_or(Code::new(libc::EBADF))
}

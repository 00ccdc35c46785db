//! Sockets by their numbers. A number is a descriptor that its socket keeps open, so it stands for
//! no other one before the last call with it has ended.
//!
//! A child after `fork` has the descriptors, but neither the memory nor the threads of its parent's
//! sockets. It finds none of them, and leaves them as they are: they are the parent's.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

use uverbs_core::sys::ForkToken;

use super::datagram::Datagram;
use super::sleep::Sleepers;
use super::stream::Stream;
use crate::answer::Answer;
use crate::errno::Code;

/// A socket of either kind.
#[derive(Clone)]
pub(super) enum Socket {
    Stream(Arc<Stream>),
    Datagram(Arc<Datagram>),
}

impl Socket {
    fn fd(&self) -> c_int {
        match self {
            Self::Stream(stream) => stream.link.fd,
            Self::Datagram(datagram) => datagram.fd(),
        }
    }

    pub(super) fn is_nonblocking(&self) -> &AtomicBool {
        match self {
            Self::Stream(stream) => &stream.is_nonblocking,
            Self::Datagram(datagram) => &datagram.is_nonblocking,
        }
    }

    pub(super) fn sleepers(&self) -> &Sleepers {
        match self {
            Self::Stream(stream) => &stream.sleepers,
            Self::Datagram(datagram) => &datagram.sleepers,
        }
    }
}

/// A socket, and the process that it is of.
struct Entry {
    socket: ManuallyDrop<Socket>,
    process: ForkToken,
}

static TABLE: RwLock<BTreeMap<c_int, Entry>> = RwLock::new(BTreeMap::new());

const NO_SOCKET: Code = Code::new(libc::EBADF);

/// Adds a socket: its number.
pub(super) fn add(socket: Socket) -> c_int {
    let number = socket.fd();
    let entry = Entry {
        socket: ManuallyDrop::new(socket),
        process: ForkToken::current(),
    };
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    // If there is another one, it is the parent's.
    table.insert(number, entry);
    number
}

/// # Errors
/// EBADF: there is none.
pub(super) fn find(number: c_int) -> Answer<Socket> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let entry = table
        .get(&number)
        .filter(|entry| entry.process.is_current());
    entry
        .map(|entry| Socket::clone(&entry.socket))
        .ok_or(NO_SOCKET)
}

/// # Errors
/// As [`find`]; EOPNOTSUPP: it is for datagrams.
pub(super) fn stream(number: c_int) -> Answer<Arc<Stream>> {
    match find(number)? {
        Socket::Stream(stream) => Ok(stream),
        Socket::Datagram(_) => Err(Code::UNSUPPORTED),
    }
}

/// Takes one out.
///
/// # Errors
/// As [`find`].
pub(super) fn remove(number: c_int) -> Answer<Socket> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let entry = table.remove(&number).ok_or(NO_SOCKET)?;
    if !entry.process.is_current() {
        return Err(NO_SOCKET);
    }
    Ok(ManuallyDrop::into_inner(entry.socket))
}

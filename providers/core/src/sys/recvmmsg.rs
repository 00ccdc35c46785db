//! Receives several datagrams by one system call.
//!
//! # Safety
//!
//! Every address passed to the kernel is that of a part of the caller's buffer, or of an array in
//! the function's stack frame, with its real length, and is valid for the duration of the call. The
//! parts do not overlap.
#![allow(unsafe_code, reason = "calls recvmmsg, which rustix does not have")]

use std::ffi::{c_int, c_long};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::{io, mem, ptr};

use linux_raw_sys::general::{__NR_recvmmsg, iovec};
use linux_raw_sys::net::{MSG_DONTWAIT, MSG_TRUNC, mmsghdr};
use linux_raw_sys::netlink::sockaddr_nl;

use super::netlink::NETLINK_ANSWERS;
use crate::error::Errno;

unsafe extern "C" {
    /// The C library's generic system call; `std` links the C library anyway. Used for calls for
    /// which C libraries have no function, or differing ones.
    fn syscall(number: c_long, ...) -> c_long;
}

/// Size of a sender's address, in bytes.
const SENDER_LEN: c_int = 12;
const _: () = assert!(size_of::<sockaddr_nl>() == 12);

/// `recvmmsg(2)`—receives netlink datagrams into equal parts of `buffer`, without waiting. One
/// system call.
///
/// There are `lengths.len()` parts, at most four. Processes can send to a netlink socket, too: a
/// datagram that did not come from the kernel is reported with length 0. Returns the number of
/// datagrams.
///
/// # Errors
/// EAGAIN if there are none; EINTR; ENOBUFS if some were lost; ENOMEM; EINVAL if `lengths` or
/// `buffer` is empty.
pub(super) fn recv_from_kernel(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    lengths: &mut [usize],
) -> Result<usize, Errno> {
    let count = lengths.len().min(NETLINK_ANSWERS);
    let room = buffer.len().checked_div(count).unwrap_or(0);
    if room == 0 {
        return Err(Errno::INVAL);
    }
    let mut senders = [NO_SENDER; NETLINK_ANSWERS];
    let mut parts = [NO_PART; NETLINK_ANSWERS];
    // SAFETY: the struct consists of pointers and numbers, for which 0 is valid.
    let mut headers: [mmsghdr; NETLINK_ANSWERS] = unsafe { mem::zeroed() };
    for (part, room) in parts.iter_mut().zip(buffer.chunks_exact_mut(room)) {
        part.iov_base = room.as_mut_ptr().cast();
        part.iov_len = room.len() as u64;
    }
    for ((header, part), sender) in headers.iter_mut().zip(&mut parts).zip(&mut senders) {
        let header = &mut header.msg_hdr;
        header.msg_iov = ptr::from_mut(part).cast();
        header.msg_iovlen = 1;
        header.msg_name = ptr::from_mut(sender).cast();
        header.msg_namelen = SENDER_LEN;
    }
    // SAFETY: `count` of the headers each describe a part of the buffer and room for a sender's
    // address, and no timeout is given.
    let received = unsafe {
        syscall(
            c_long::from(__NR_recvmmsg),
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            MSG_DONTWAIT | MSG_TRUNC,
            ptr::null_mut::<u8>(),
        )
    };
    let received = usize::try_from(received).map_err(|_| last_error())?;
    for ((length, header), sender) in lengths.iter_mut().zip(&headers).zip(&senders) {
        let is_kernel = header.msg_hdr.msg_namelen == SENDER_LEN && sender.nl_pid == 0;
        *length = if is_kernel {
            header.msg_len as usize
        } else {
            0
        };
    }
    Ok(received)
}

const NO_SENDER: sockaddr_nl = sockaddr_nl {
    nl_family: 0,
    nl_pad: 0,
    // Not the kernel, whose port is 0.
    nl_pid: u32::MAX,
    nl_groups: 0,
};

const NO_PART: iovec = iovec {
    iov_base: ptr::null_mut(),
    iov_len: 0,
};

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::net::{
        AddressFamily, RecvFlags, SocketFlags, SocketType, recv, sendto, socket_with,
    };

    use super::*;

    /// A socket of the network part of the kernel (`NETLINK_ROUTE`), which is always there.
    fn socket() -> rustix::fd::OwnedFd {
        socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap()
    }

    /// `RTM_GETLINK` of no such link: the kernel refuses it, with the request in its answer.
    fn question(sequence: u32) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(32_u32.to_ne_bytes());
        message.extend(18_u16.to_ne_bytes());
        message.extend(1_u16.to_ne_bytes());
        message.extend(sequence.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(i32::MAX.to_ne_bytes());
        message.extend([0; 8]);
        message
    }

    #[test]
    fn answers_come_together_and_in_order() {
        let socket = socket();
        let mut buffer = [0; 4096];
        let nothing = recv_from_kernel(socket.as_fd(), &mut buffer, &mut [0; 2]);
        assert_eq!(nothing, Err(Errno::AGAIN));
        let all: Vec<u8> = (1..=3).flat_map(question).collect();
        rustix::net::send(&socket, &all, rustix::net::SendFlags::empty()).unwrap();
        let mut lengths = [0; 4];
        let count = recv_from_kernel(socket.as_fd(), &mut buffer, &mut lengths).unwrap();
        assert_eq!(count, 3);
        for (at, sequence) in (0..3).zip(1_u32..) {
            let answer = &buffer[at * 1024..][..lengths[at]];
            assert_eq!(answer[8..12], sequence.to_ne_bytes(), "{answer:?}");
        }
        // One that is too long for its part says how long it is.
        rustix::net::send(&socket, &question(4), rustix::net::SendFlags::empty()).unwrap();
        let count = recv_from_kernel(socket.as_fd(), &mut buffer[..16], &mut lengths[..1]);
        assert_eq!(count, Ok(1));
        assert!(lengths[0] > 16);
    }

    #[test]
    fn without_room_nothing_is_received() {
        let fd = io::stdin();
        let mut buffer = [0; 16];
        assert_eq!(
            recv_from_kernel(fd.as_fd(), &mut buffer, &mut []),
            Err(Errno::INVAL)
        );
        assert_eq!(
            recv_from_kernel(fd.as_fd(), &mut [], &mut [0]),
            Err(Errno::INVAL)
        );
    }

    #[test]
    fn messages_from_other_processes_have_length_zero() {
        let (reader, writer) = (socket(), socket());
        // The kernel gives both an address when they first send.
        for socket in [&reader, &writer] {
            rustix::net::send(socket, &question(1), rustix::net::SendFlags::empty()).unwrap();
            recv(socket, &mut [0; 256], RecvFlags::empty()).unwrap();
        }
        let to = rustix::net::getsockname(&reader).unwrap();
        // NETLINK_USERSOCK and root alone may send to others.
        match sendto(&writer, b"forged", rustix::net::SendFlags::empty(), &to) {
            Err(Errno::PERM) => return,
            sent => assert_eq!(sent, Ok(6)),
        }
        let mut lengths = [7];
        let count = recv_from_kernel(reader.as_fd(), &mut [0; 64], &mut lengths);
        assert_eq!((count, lengths), (Ok(1), [0]));
    }
}

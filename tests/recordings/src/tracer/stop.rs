//! One system call, between the stop before it and the stop after it.

use std::path::PathBuf;

use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_FLAG_EXTENDED;

use super::cm;
use super::memory::{read, word};
use crate::raw::{Attr, CONNECTION_MANAGER, Call, Hex, What};

/// `RDMA_VERBS_IOCTL`.
const RDMA_VERBS_IOCTL: u64 = 0xc018_1b01;
/// Length of `ib_uverbs_ioctl_hdr` and of each `ib_uverbs_attr`.
const HEADER: usize = 24;
const ATTRIBUTE: usize = 16;
/// Length of `ib_uverbs_cmd_hdr`, and of `ib_uverbs_ex_cmd_hdr` after it.
const LEGACY: usize = 8;
const EXTENDED: usize = 16;

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Entry {
    fd: i32,
    file: String,
    args: [u64; 6],
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Ioctl { header: Vec<u8>, attrs: Vec<Attr> },
    Write { bytes: Vec<u8> },
    Cm { bytes: Vec<u8>, option: Vec<u8> },
    Map,
    Read,
    Close,
}

impl Entry {
    /// The call that a thread is about to make, if it is one on an RDMA descriptor.
    pub(super) fn new(pid: Pid) -> Option<Self> {
        let regs = ptrace::getregs(pid).ok()?;
        let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
        let number = libc::c_long::try_from(regs.orig_rax).ok()?;
        let at = if number == libc::SYS_mmap { 4 } else { 0 };
        let kinds = [
            libc::SYS_ioctl,
            libc::SYS_write,
            libc::SYS_read,
            libc::SYS_mmap,
            libc::SYS_close,
        ];
        if !kinds.contains(&number) {
            return None;
        }
        // The kernel uses only the lower half.
        let fd = u32::try_from(args[at] & u64::from(u32::MAX))
            .ok()?
            .cast_signed();
        let file = rdma_file(pid, fd)?;
        let kind = match number {
            libc::SYS_ioctl if args[1] == RDMA_VERBS_IOCTL => ioctl(pid, args[2]),
            libc::SYS_write => {
                let bytes = read(pid, args[1], usize::try_from(args[2]).ok()?);
                if file == CONNECTION_MANAGER {
                    let option = cm::option(pid, &bytes);
                    Kind::Cm { bytes, option }
                } else {
                    Kind::Write { bytes }
                }
            }
            libc::SYS_read => Kind::Read,
            libc::SYS_mmap => Kind::Map,
            libc::SYS_close => Kind::Close,
            _ => return None,
        };
        Some(Self {
            fd,
            file,
            args,
            kind,
        })
    }

    /// The record of the call, once it has been made.
    pub(super) fn leave(self, pid: Pid) -> Option<Call> {
        let result = ptrace::getregs(pid).ok()?.rax.cast_signed();
        let errno = if (-4095..0).contains(&result) {
            i32::try_from(-result).ok()?
        } else {
            0
        };
        let [_, address, len, ..] = self.args;
        let what = match self.kind {
            Kind::Ioctl { header, attrs } => answered(pid, len, &header, attrs),
            Kind::Write { bytes } => legacy(pid, &bytes)?,
            Kind::Cm { bytes, option } => cm::answered(pid, &bytes, option),
            Kind::Map => What::Map {
                len: self.args[1],
                protection: self.args[2],
                offset: self.args[5],
            },
            Kind::Read => What::Read {
                bytes: Hex(read(pid, address, usize::try_from(result).unwrap_or(0))),
            },
            Kind::Close => What::Close,
        };
        Some(Call {
            pid: pid.as_raw(),
            fd: self.fd,
            file: self.file,
            errno,
            what,
        })
    }
}

/// The descriptor's file, if it is a verbs device, a source of its events, or the connection
/// manager.
fn rdma_file(pid: Pid, fd: i32) -> Option<String> {
    let link: PathBuf = format!("/proc/{pid}/fd/{fd}").into();
    let file = std::fs::read_link(link).ok()?;
    let file = file.to_str()?;
    let events = ["infinibandevent", "devx_async"];
    let is_device = file.starts_with("/dev/infiniband/uverbs") || file == CONNECTION_MANAGER;
    (is_device || events.iter().any(|name| file.contains(name))).then(|| file.to_owned())
}

fn ioctl(pid: Pid, address: u64) -> Kind {
    let length = usize::from(u16::from_ne_bytes(word(&read(pid, address, 2), 0)));
    let command = read(pid, address, length);
    let split = HEADER.min(command.len());
    let attrs = command[split..]
        .chunks_exact(ATTRIBUTE)
        .map(|attr| {
            let len = u16::from_ne_bytes(word(attr, 2));
            let data = u64::from_ne_bytes(word(attr, 8));
            Attr {
                id: u16::from_ne_bytes(word(attr, 0)),
                len,
                flags: u16::from_ne_bytes(word(attr, 4)),
                flags_after: 0,
                element: attr[6],
                data,
                data_after: data,
                before: Hex(read(pid, data, usize::from(len))),
                after: Hex::default(),
            }
        })
        .collect();
    Kind::Ioctl {
        header: command[..split].to_vec(),
        attrs,
    }
}

/// The kernel also writes to the attributes themselves: new handles, and which outputs it wrote.
fn answered(pid: Pid, address: u64, header: &[u8], mut attrs: Vec<Attr>) -> What {
    let now = read(pid, address, HEADER + attrs.len() * ATTRIBUTE);
    for (attr, now) in attrs.iter_mut().zip(
        now.get(HEADER..)
            .unwrap_or_default()
            .chunks_exact(ATTRIBUTE),
    ) {
        attr.flags_after = u16::from_ne_bytes(word(now, 4));
        attr.data_after = u64::from_ne_bytes(word(now, 8));
        attr.after = Hex(read(pid, attr.data, usize::from(attr.len)));
    }
    What::Ioctl {
        object: u16::from_ne_bytes(word(header, 2)),
        method: u16::from_ne_bytes(word(header, 4)),
        driver: u32::from_ne_bytes(word(header, 16)),
        attrs,
    }
}

/// Requests give in their headers the address of the reply and the lengths of the parts, in units
/// of 4 or 8 bytes.
fn legacy(pid: Pid, bytes: &[u8]) -> Option<What> {
    let command = u32::from_ne_bytes(word(bytes, 0));
    let words = |at| usize::from(u16::from_ne_bytes(word(bytes, at)));
    let (size, begin) = if command & IB_USER_VERBS_CMD_FLAG_EXTENDED == 0 {
        (4, LEGACY)
    } else {
        (8, LEGACY + EXTENDED)
    };
    let request = bytes.get(begin..)?;
    // The address of the reply: in the extended header, or first in the request.
    let response = u64::from_ne_bytes(word(bytes, LEGACY));
    let out = words(6) * size;
    let reply = read(pid, response, out);
    let (mut driver_in, mut driver_out) = (Vec::new(), Vec::new());
    let mut core = request.to_vec();
    if size == 8 {
        let inner = (words(4) * size).min(core.len());
        driver_in = core.split_off(inner);
        let after = response.checked_add(u64::try_from(out).ok()?)?;
        driver_out = read(pid, after, words(LEGACY + 10) * size);
    }
    Some(What::Write {
        command,
        request: Hex(core),
        request_driver: Hex(driver_in),
        reply: Hex(reply),
        reply_driver: Hex(driver_out),
    })
}

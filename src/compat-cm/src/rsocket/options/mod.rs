//! Options of sockets, by the levels and names of `setsockopt`.

mod get;

use std::ffi::c_int;

use super::flow::Phase;
use super::settings::{Defaults, MOST, Sizes};
use super::stream::{Stream, lock};
use super::wire::{from_scale, to_scale};
use crate::answer::Answer;
use crate::errno::Code;
use crate::option;

/// `SOL_RDMA`, and its options.
pub(super) const SOL_RDMA: c_int = 0x10000;
const RDMA_SQSIZE: c_int = 0;
const RDMA_RQSIZE: c_int = 1;
const RDMA_INLINE: c_int = 2;
const RDMA_IOMAPSIZE: c_int = 3;
const RDMA_ROUTE: c_int = 4;

/// `RDMA_OPTION_ID`, and its options.
const OPTION_ID: c_int = 0;
const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;

const UNSUPPORTED: Code = Code::UNSUPPORTED;

/// What a socket was told.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) sizes: Sizes,
    /// Paths to the peer, in the format of the option.
    pub(super) route: Option<Vec<u8>>,
    /// Flags that are on, by level and name.
    on: Vec<(c_int, c_int)>,
    type_of_service: c_int,
    pub(super) keepalive: Option<u32>,
}

impl Options {
    pub(super) fn new() -> Self {
        Self {
            sizes: Defaults::get().sizes,
            route: None,
            on: Vec::new(),
            type_of_service: 0,
            keepalive: None,
        }
    }

    /// For a socket that a listener accepts.
    pub(super) fn inherited(&self) -> Self {
        Self {
            sizes: self.sizes,
            ..Self::new()
        }
    }

    fn flag(&self, level: c_int, name: c_int) -> c_int {
        self.on.contains(&(level, name)).into()
    }

    fn set_flag(&mut self, level: c_int, name: c_int, is_on: bool) {
        self.on.retain(|other| *other != (level, name));
        if is_on {
            self.on.push((level, name));
        }
    }

    /// Sets an option of RDMA, for what is not made yet.
    pub(super) fn set_of_rdma(&mut self, name: c_int, value: &[u8]) -> Answer<()> {
        match name {
            RDMA_SQSIZE => self.sizes.sends = limited(value)?,
            RDMA_RQSIZE => self.sizes.receives = limited(value)?,
            RDMA_INLINE => self.sizes.inline = limited(value)?,
            RDMA_IOMAPSIZE => self.sizes.maps = from_scale(to_scale(limited(value)?)),
            RDMA_ROUTE => self.route = Some(value.to_vec()),
            _ => return Err(UNSUPPORTED),
        }
        Ok(())
    }
}

/// The bytes of an option of RDMA that is a size.
pub(super) fn of_rdma(name: c_int, sizes: Sizes) -> Answer<Vec<u8>> {
    let size = match name {
        RDMA_SQSIZE => sizes.sends,
        RDMA_RQSIZE => sizes.receives,
        RDMA_INLINE => sizes.inline,
        RDMA_IOMAPSIZE => sizes.maps,
        _ => return Err(UNSUPPORTED),
    };
    Ok(size.to_ne_bytes().to_vec())
}

fn number(value: &[u8]) -> Answer<c_int> {
    let bytes = value.first_chunk().ok_or(Code::INVALID)?;
    Ok(c_int::from_ne_bytes(*bytes))
}

/// Twice what a program asks for, as of a socket of TCP.
pub(super) fn doubled(value: &[u8]) -> Answer<u32> {
    Ok(number(value)?.cast_unsigned().saturating_mul(2))
}

fn limited(value: &[u8]) -> Answer<u32> {
    Ok(number(value)?.cast_unsigned().min(MOST))
}

impl Stream {
    pub(super) fn set_option(&self, level: c_int, name: c_int, value: &[u8]) -> Answer<()> {
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => self.set_reuse(value),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                let bytes = doubled(value)?;
                self.resize(|sizes| sizes.with_ring(bytes));
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                let bytes = doubled(value)?;
                self.resize(|sizes| sizes.with_staging(bytes));
                Ok(())
            }
            (libc::SOL_SOCKET, libc::SO_LINGER | libc::SO_OOBINLINE | libc::SO_KEEPALIVE)
            | (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.note_flag(level, name, value),
            (
                libc::IPPROTO_TCP,
                libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL | libc::TCP_MAXSEG | libc::TCP_CONGESTION,
            ) => Ok(()),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                let seconds = number(value)?;
                let seconds = u32::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                lock(&self.options).keepalive = Some(seconds.ok_or(Code::INVALID)?);
                Ok(())
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                let service = number(value)?;
                self.set_of_id(TOS, &[service.to_le_bytes()[0]])?;
                lock(&self.options).type_of_service = service;
                Ok(())
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
                self.set_of_id(AFONLY, value)?;
                self.note_flag(level, name, value)
            }
            (SOL_RDMA, _) => self.set_of_rdma(name, value),
            _ => Err(UNSUPPORTED),
        }
    }

    fn note_flag(&self, level: c_int, name: c_int, value: &[u8]) -> Answer<()> {
        let is_on = number(value)? != 0;
        lock(&self.options).set_flag(level, name, is_on);
        Ok(())
    }

    /// Whether the socket sends messages when nothing else is sent, and after how many seconds.
    pub(super) fn keepalive(&self) -> Option<u32> {
        const OTHERWISE: u32 = 7200;
        let options = lock(&self.options);
        let is_on = options.flag(libc::SOL_SOCKET, libc::SO_KEEPALIVE) != 0;
        is_on.then(|| options.keepalive.unwrap_or(OTHERWISE))
    }

    /// Changes sizes of what is not made yet.
    fn resize(&self, change: impl FnOnce(Sizes) -> Sizes) {
        let mut options = lock(&self.options);
        if self.endpoint.get().is_none() {
            options.sizes = change(options.sizes);
        }
    }

    fn set_of_id(&self, name: c_int, value: &[u8]) -> Answer<()> {
        let _progress = lock(&self.progress);
        let value_at = value.as_ptr().cast();
        option::set(self.link.id()?, OPTION_ID, name, value_at, value.len())
    }

    /// Once the socket has an address it is too late for the kernel; that is no error.
    fn set_reuse(&self, value: &[u8]) -> Answer<()> {
        let word = number(value)?.to_ne_bytes();
        match self.set_of_id(REUSEADDR, &word) {
            Err(code) if self.link.id()?.c.verbs.get().is_null() => Err(code),
            _ => self.note_flag(libc::SOL_SOCKET, libc::SO_REUSEADDR, value),
        }
    }

    fn set_of_rdma(&self, name: c_int, value: &[u8]) -> Answer<()> {
        if !matches!(self.flow().phase, Phase::New | Phase::Listening) {
            return Err(Code::INVALID);
        }
        lock(&self.options).set_of_rdma(name, value)
    }
}

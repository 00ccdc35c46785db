//! What a stream tells of its options.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use uverbs_core::cm;

use super::super::flow::Phase;
use super::super::settings::Sizes;
use super::super::stream::{Stream, lock};
use super::{RDMA_ROUTE, SOL_RDMA, UNSUPPORTED, of_rdma};
use crate::answer::Answer;

impl Stream {
    /// The bytes of an option.
    pub(in super::super) fn option(&self, level: c_int, name: c_int) -> Answer<Vec<u8>> {
        let sizes = match self.endpoint.get() {
            Some(endpoint) => endpoint.sizes,
            None => lock(&self.options).sizes,
        };
        let size = |size: u32| size.cast_signed();
        let number = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_KEEPALIVE | libc::SO_OOBINLINE)
            | (libc::IPPROTO_TCP, libc::TCP_NODELAY)
            | (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => lock(&self.options).flag(level, name),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let is_on = lock(&self.options).flag(level, name);
                return Ok([is_on, 0].map(c_int::to_ne_bytes).concat());
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => size(sizes.ring),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => size(sizes.staging),
            (libc::SOL_SOCKET, libc::SO_ERROR) => self.error.swap(0, Ordering::Relaxed),
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (libc::IPPROTO_IP, libc::IP_TOS) => lock(&self.options).type_of_service,
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION | libc::TCP_KEEPCNT | libc::TCP_KEEPINTVL) => {
                1
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                size(lock(&self.options).keepalive.unwrap_or(0))
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => self.segment(),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => return Ok(self.info(sizes)),
            (SOL_RDMA, RDMA_ROUTE) => return self.route(),
            (SOL_RDMA, _) => return of_rdma(name, sizes),
            _ => return Err(UNSUPPORTED),
        };
        Ok(number.to_ne_bytes().to_vec())
    }

    /// The path's MTU in bytes.
    fn segment(&self) -> c_int {
        /// Without a path.
        const OTHERWISE: c_int = 2048;
        let _progress = lock(&self.progress);
        let Ok(id) = self.link.id() else {
            return OTHERWISE;
        };
        let state = id.state();
        let path = state.paths.last().and_then(|paths| paths.first());
        path.map_or(OTHERWISE, |path| 1 << (7 + path.get().mtu.min(5)))
    }

    /// `struct tcp_info`, of which only the state and the size of a window are known.
    fn info(&self, sizes: Sizes) -> Vec<u8> {
        const LENGTH: usize = 104;
        const WINDOW: usize = 80;
        const ESTABLISHED: u8 = 1;
        const CLOSE: u8 = 7;
        let mut info = vec![0; LENGTH];
        let is_open = self.flow().phase == Phase::Open;
        if let Some(state) = info.first_mut() {
            *state = if is_open { ESTABLISHED } else { CLOSE };
        }
        if let Some(window) = info.get_mut(WINDOW..WINDOW + 4) {
            window.copy_from_slice(&sizes.sends.to_ne_bytes());
        }
        info
    }

    /// The paths that were set, or else found: each with its flags.
    fn route(&self) -> Answer<Vec<u8>> {
        if let Some(set) = &lock(&self.options).route {
            return Ok(set.clone());
        }
        let _progress = lock(&self.progress);
        let id = self.link.id()?;
        let paths = cm::query_paths(&id.channel()?.file, id.number())?;
        let one = |path: &cm::PathRecord| {
            let flags = u64::from(path.flags).to_le_bytes();
            [&flags[..], &path.record].concat()
        };
        Ok(paths.iter().flat_map(one).collect())
    }
}

//! The thread of a socket: hears what comes over UDP, answers it, and looks for ways to peers.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, JoinHandle};

use uverbs_compat_base::abi::ibv_ah_attr;
use uverbs_core::Op;
use uverbs_core::sys::Bell;

use super::super::sleep;
use super::super::stream::lock;
use super::Datagram;
use super::local::PLACE;
use super::queues::Handle;
use super::ways::Search;
use super::wire::Announcement;
use crate::answer::Answer;
use crate::errno::Code;

/// The most ways that are looked for at a time. Who announces itself meanwhile is looked for when
/// it does so again.
const SEARCHES: usize = 32;
/// Datagrams that are read before other things are looked at.
const AT_A_TIME: usize = 64;

#[derive(Default)]
pub(super) struct Service {
    /// Rung at the end.
    bell: OnceLock<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// Starts the thread, unless it has started.
    pub(super) fn start(&self, socket: &Arc<Datagram>) -> Answer<()> {
        if self.is_running() {
            return Ok(());
        }
        let mut thread = lock(&self.thread);
        if self.is_running() {
            return Ok(());
        }
        let bell = Bell::new(Op::CmGetEvent)?;
        let own = Arc::clone(socket);
        let builder = Builder::new().name("datagrams".to_owned());
        let begins = builder.spawn(move || own.serve());
        *thread = Some(begins.map_err(|_| Code::NO_ROOM)?);
        let _ = self.bell.set(bell);
        Ok(())
    }

    pub(super) fn is_running(&self) -> bool {
        self.bell.get().is_some()
    }

    pub(super) fn stop(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Datagram {
    /// Until the bell is rung.
    fn serve(&self) {
        let bell = self.service.bell.wait();
        let mut searches = Vec::<Search>::new();
        loop {
            let fixed = [sleep::fd_of(bell), self.udp.as_raw_fd()];
            let fds = fixed.into_iter().chain(searches.iter().map(Search::fd));
            let mut fds: Vec<_> = fds.map(sleep::reads).collect();
            match sleep::poll(&mut fds, None) {
                Err(code) if code.number() != libc::EINTR => return,
                _ => {}
            }
            let mut events = fds.iter().map(|fd| fd.revents);
            if events.next().is_some_and(|events| events != 0) {
                return;
            }
            let has_udp = events.next().is_some_and(|events| events != 0);
            let mut woken = events.map(|events| events != 0);
            searches.retain(|search| {
                let goes_on = woken.next() != Some(true);
                goes_on || self.goes_on(search)
            });
            if has_udp {
                self.hear(&mut searches);
            }
        }
    }

    /// Moves a search on: false at its end.
    fn goes_on(&self, search: &Search) -> bool {
        match search.advance() {
            Ok(false) => true,
            Ok(true) => {
                // Many system calls, during which the program sends and receives.
                if let Ok(attributes) = search.attributes() {
                    self.learn(search, attributes);
                }
                false
            }
            Err(_) => false,
        }
    }

    /// The way to a peer is known, unless that is forgotten meanwhile.
    fn learn(&self, search: &Search, attributes: ibv_ah_attr) {
        let mut state = self.state();
        let local = state.peers.find(search.peer).map(|peer| peer.local);
        let local = local.and_then(|at| state.locals.get(at));
        if let Some(Ok(handle)) = local.map(|local| Handle::new(local.pd(), attributes)) {
            state.learn(search.peer, handle, search.qp_num);
        }
    }

    /// Reads what has come over UDP.
    fn hear(&self, searches: &mut Vec<Search>) {
        // What fills it was longer, and is dropped.
        let mut bytes = [0; PLACE as usize + 1];
        for _ in 0..AT_A_TIME {
            match self.udp.recv_from(&mut bytes) {
                Ok((count, _)) if count == bytes.len() => {}
                Ok((count, from)) => {
                    let read = bytes.get(..count).unwrap_or_default();
                    if let Some((said, data)) = Announcement::from_bytes(read, from.ip()) {
                        // What cannot be answered is as if it was lost.
                        let _ = self.answer(from, said, data, searches);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // That of a datagram which was sent before.
                Err(_) => {}
            }
        }
    }

    fn answer(
        &self,
        from: SocketAddr,
        said: Announcement,
        data: &[u8],
        searches: &mut Vec<Search>,
    ) -> Answer<()> {
        let mut state = self.state();
        let at = self.meet(&mut state, from)?;
        let way = state.peers.find(from).and_then(|peer| peer.way.as_ref());
        let is_known = way.is_some_and(|way| way.qp_num == said.qp_num);
        let local = state.locals.get(at).ok_or(Code::INVALID)?;
        let address = local.address;
        let answered = if said.has_data {
            self.announce(local, from, None)
        } else {
            Ok(())
        };
        if said.has_data && state.arrive(from, data) {
            self.sleepers.wake();
        }
        drop(state);
        let search = searches.iter_mut().find(|search| search.peer == from);
        if let Some(search) = search {
            search.qp_num = said.qp_num;
        } else if !is_known && searches.len() < SEARCHES {
            searches.push(Search::begin(from, said.qp_num, address)?);
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits until all that came is read: whether the thread lives.
    fn lives_on(socket: &Datagram) -> bool {
        let begun = Instant::now();
        while socket.udp.peek_from(&mut [0]).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody reads");
            std::thread::sleep(Duration::from_millis(1));
        }
        let thread = lock(&socket.service.thread);
        thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    #[test]
    fn what_is_no_announcement_is_dropped() {
        let socket = Arc::new(Datagram::new(libc::AF_INET, true).unwrap());
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = socket.udp.local_addr().unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = peer.local_addr().unwrap();
        let said = Announcement {
            has_data: true,
            qp_num: 9,
        };
        let whole = said.to_bytes(from.ip());
        for short in 0..whole.len() {
            peer.send_to(&whole[..short], at).unwrap();
        }
        // Each with one byte of the protocol changed, to all that it can be.
        for (place, value) in (0..7).flat_map(|place| (0..=u8::MAX).map(move |v| (place, v))) {
            let mut other = whole.clone();
            other[place] = value;
            let is_valid = Announcement::from_bytes(&other, from.ip()).is_some();
            if !is_valid {
                peer.send_to(&other, at).unwrap();
            }
        }
        // Of another family, the longest that is read, and longer ones.
        peer.send_to(&said.to_bytes("::1".parse().unwrap()), at)
            .unwrap();
        for length in [PLACE, PLACE + 1, PLACE + 2, 60_000] {
            peer.send_to(&vec![0x55; length as usize], at).unwrap();
        }
        assert!(lives_on(&socket));
        for _ in 0..10_000 {
            peer.send_to(&[0x55; 15], at).unwrap();
        }
        assert!(lives_on(&socket));
        {
            let mut state = socket.state();
            assert!(state.locals.is_empty() && !state.has_arrived());
            assert!(state.peers.find(from).is_none());
        }
        socket.close();
        assert!(lock(&socket.service.thread).is_none());
    }
}

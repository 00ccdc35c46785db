//! Hubs: connections, their requests as futures, and wakers that do what they like.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use uverbs::hub::{Connection, Events, Hub, Message, PooledBuffer, Prepared};

use super::made::{fill, message};
use super::make::site_of;
use super::{ENOUGH, FULL, Outcome, World, pick};
use crate::finding::Rule;
use crate::shaky::Sprung;

/// Bytes of a hub's buffers.
const SIZE: usize = 64;
/// The largest number of futures that a program holds.
const FUTURES: usize = 16;

/// What came of a future.
enum Ended {
    Nothing,
    Buffer(PooledBuffer),
    Message(Message),
}

type Future = Pin<Box<dyn std::future::Future<Output = Ended> + Send>>;

/// Everything of hubs that a program holds.
#[derive(Default)]
pub(super) struct Hubs {
    all: Vec<(usize, Arc<Hub>)>,
    prepared: Vec<Prepared>,
    connections: Vec<Arc<Connection>>,
    futures: Vec<Future>,
    messages: Vec<(Message, Vec<u8>)>,
    buffers: Vec<(PooledBuffer, Vec<u8>)>,
    /// Something of a hub was forgotten: not all its buffers come back.
    forgotten: bool,
}

impl Hubs {
    /// A description of memory in hand that changed.
    pub(super) fn changed(&self) -> Option<String> {
        let messages = self.messages.iter().map(|(it, copy)| (&it[..], copy));
        let buffers = self.buffers.iter().map(|(it, copy)| (&it[..], copy));
        let (now, copy) = messages.chain(buffers).find(|(now, copy)| now != copy)?;
        Some(format!("memory of a hub in hand: {copy:x?} -> {now:x?}"))
    }

    fn hold(&mut self, buffer: PooledBuffer) {
        let copy = buffer.to_vec();
        self.buffers.push((buffer, copy));
    }

    fn connection(&self, number: u8) -> Option<Arc<Connection>> {
        let at = pick(self.connections.len(), number);
        self.connections.get(at).cloned()
    }

    /// What a future is polled with.
    fn waker(&self, kind: u8, a: u8) -> Waker {
        let hub = self.all.get(pick(self.all.len(), a));
        match kind & 7 {
            0 => Waker::from(Arc::new(Strange::panics())),
            1 => Waker::from(Arc::new(Strange::turns(hub.map(|(_, hub)| hub.clone())))),
            2 => Waker::from(Arc::new(Strange::owns(self.connection(a)))),
            _ => Waker::noop().clone(),
        }
    }
}

impl World<'_> {
    pub(super) fn hub_step(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        match a & 15 {
            0 => self.make_hub(b, c),
            1 | 2 => self.hub_prepare(b, c),
            3 => self.hub_connect_any(b, c),
            4 | 5 => self.hub_send(b, c),
            6 => self.hub_one_sided(b, c),
            7 | 8 => self.hub_receive(b, c),
            9 | 10 => self.hub_turn(b)?,
            11 | 12 => return self.hub_poll(b, c),
            13 => self.hub_touch(b),
            14 => self.hub_drop(b, c),
            _ => self.hub_forget(b, c),
        }
        Ok(())
    }

    fn make_hub(&mut self, b: u8, c: u8) {
        if self.hubs.all.len() >= ENOUGH {
            return;
        }
        let site = site_of(b);
        let Some(pd) = self.pd(site, usize::from(b & 15 == 15)) else {
            return;
        };
        let mut builder = pd
            .hub()
            .connections(1 + pick(4, c))
            .sends(1 + u32::from(c >> 2 & 3))
            .receives(1 + u32::from(c >> 4 & 3))
            .buffer_size(SIZE)
            .spin(Duration::ZERO);
        if c & 0x40 != 0 {
            builder = builder.shared_receive_queue().backlog(1 + pick(3, b));
        }
        if c & 0x80 != 0 {
            builder = builder.keepalive(Duration::from_nanos(1));
        }
        if b & 3 == 3 {
            builder = builder.buffers(usize::from(b >> 2));
        }
        if let Ok(hub) = builder.build() {
            self.hubs.all.push((site, Arc::new(hub)));
        }
    }

    /// Prepares two connections, of two hubs or of one, and connects them to each other or leaves
    /// them.
    fn hub_prepare(&mut self, b: u8, c: u8) {
        if self.hubs.all.is_empty() {
            self.make_hub(b, c);
        }
        let one = self.hubs.all.get(pick(self.hubs.all.len(), b));
        let Some((site, one)) = one.map(|(site, hub)| (*site, hub.clone())) else {
            return;
        };
        let same = self.hubs.all.iter().filter(|(at, _)| *at == site);
        let same: Vec<_> = same.map(|(_, hub)| hub.clone()).collect();
        let Some(other) = same.get(pick(same.len(), c)) else {
            return;
        };
        let (Ok(one), Ok(other)) = (one.prepare(), other.prepare()) else {
            return;
        };
        self.used.insert((site, one.endpoint().qp_num));
        self.used.insert((site, other.endpoint().qp_num));
        if c & 0x70 == 0x70 && self.hubs.prepared.len() < ENOUGH {
            self.hubs.prepared.extend([one, other]);
            return;
        }
        let (here, there) = (one.endpoint(), other.endpoint());
        let made = [one.connect(there), other.connect(here)];
        let made = made.into_iter().flatten().map(Arc::new);
        self.hubs.connections.extend(made);
    }

    /// Connects one that was left, to whatever queue pair.
    fn hub_connect_any(&mut self, b: u8, c: u8) {
        let at = pick(self.hubs.prepared.len(), b);
        let peer = match c & 1 {
            0 => self.hubs.prepared.get(pick(self.hubs.prepared.len(), c)),
            _ => None,
        };
        let peer = peer.map(Prepared::endpoint);
        let pair = self.pairs.get(pick(self.pairs.len(), c));
        let Some(peer) = peer.or(pair.map(|pair| pair.link.own)) else {
            return;
        };
        if at < self.hubs.prepared.len()
            && let Ok(connection) = self.hubs.prepared.remove(at).connect(peer)
        {
            self.hubs.connections.push(Arc::new(connection));
        }
    }

    /// A buffer to send: one in hand, or a free one, which may be another hub's than the
    /// connection's.
    fn hub_buffer(&mut self, c: u8) -> Option<(PooledBuffer, usize)> {
        let number = self.number();
        let len = [16, 8, SIZE, 40][pick(4, c)];
        let mut buffer = match c & 4 {
            0 => {
                let at = pick(self.hubs.all.len(), c >> 4);
                self.hubs.all.get(at)?.1.buffer().ok()?
            }
            _ => self.hubs.buffers.pop()?.0,
        };
        fill(&mut buffer, number, len);
        self.messages.insert(number, len);
        Some((buffer, len))
    }

    fn hub_send(&mut self, b: u8, c: u8) {
        let Some(connection) = self.hubs.connection(b) else {
            return;
        };
        let Some((buffer, len)) = self.hub_buffer(c) else {
            return;
        };
        // Longer than the buffer, now and then.
        let len = if c & 0x78 == 0x78 { len + SIZE } else { len };
        let future = async move {
            let ended = match b & 0x80 {
                0 => connection.send(buffer, len).await,
                _ => connection.send_imm(buffer, len, b.into()).await,
            };
            ended.map_or(Ended::Nothing, Ended::Buffer)
        };
        self.hub_begin(Box::pin(future), b >> 4, c);
    }

    fn hub_one_sided(&mut self, b: u8, c: u8) {
        let Some(connection) = self.hubs.connection(b) else {
            return;
        };
        let at = pick(self.exposed.len(), c);
        let Some(remote) = self
            .exposed
            .get(at)
            .and_then(|(_, memory)| memory.remote().at(u64::from(b & 8)).ok())
        else {
            return;
        };
        let Some((buffer, len)) = self.hub_buffer(c) else {
            return;
        };
        let future = async move {
            let ended = match b >> 4 & 7 {
                0 | 1 => connection.write(buffer, len, remote).await,
                2 => connection.write_imm(buffer, len, remote, 7).await,
                3 | 4 => connection.read(buffer, len, remote).await,
                5 => {
                    let swap = connection.compare_swap(buffer, remote, 1, 2);
                    swap.await.map(|(_, buffer)| buffer)
                }
                _ => {
                    let add = connection.fetch_add(buffer, remote, 1);
                    add.await.map(|(_, buffer)| buffer)
                }
            };
            ended.map_or(Ended::Nothing, Ended::Buffer)
        };
        self.hub_begin(Box::pin(future), b >> 4, c);
    }

    fn hub_receive(&mut self, b: u8, c: u8) {
        let Some(connection) = self.hubs.connection(b) else {
            return;
        };
        let future = async move {
            let ended = match c & 3 {
                // Looks, and drives the hub if nobody else does.
                0 => connection.recv().wait(Duration::ZERO),
                _ => connection.recv().await,
            };
            ended.map_or(Ended::Nothing, Ended::Message)
        };
        self.hub_begin(Box::pin(future), b >> 4, c);
    }

    /// Keeps a future, after polling it or not.
    fn hub_begin(&mut self, mut future: Future, kind: u8, c: u8) {
        if self.hubs.futures.len() >= FUTURES {
            return;
        }
        let waker = self.hubs.waker(kind, c);
        let mut cx = Context::from_waker(&waker);
        // A driver wakes itself: then it is its own waker that panics.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx)));
        match polled {
            Ok(Poll::Ready(ended)) => self.hub_ended(ended),
            Ok(Poll::Pending) => self.hubs.futures.push(future),
            Err(payload) if payload.is::<Sprung>() => {}
            Err(payload) => resume_unwind(payload),
        }
    }

    fn hub_ended(&mut self, ended: Ended) {
        match ended {
            Ended::Nothing => {}
            Ended::Buffer(buffer) => self.hubs.hold(buffer),
            Ended::Message(message) => {
                let copy = message.to_vec();
                self.hubs.messages.push((message, copy));
            }
        }
    }

    fn hub_turn(&mut self, b: u8) -> Outcome {
        if !self.frozen {
            self.device.run();
        }
        let at = pick(self.hubs.all.len(), b);
        let Some((_, hub)) = self.hubs.all.get(at).cloned() else {
            return Ok(());
        };
        match b >> 5 {
            // A driver as a task, which hears of events that there were not.
            7 => {
                let driver = hub.driver();
                let future = async move {
                    let _ = driver.run_async(&Liar(AtomicBool::new(false))).await;
                    Ended::Nothing
                };
                self.hub_begin(Box::pin(future), 3, 0);
            }
            6 => drop(hub.channel().try_event()),
            _ => {
                if let Err(error) = hub.turn()
                    && !self.doubt
                {
                    self.doubt = true;
                    return self.found(Rule::Lost, || format!("turn: {error}"));
                }
            }
        }
        Ok(())
    }

    fn hub_poll(&mut self, b: u8, c: u8) -> Outcome {
        let at = pick(self.hubs.futures.len(), b);
        if let Some(future) = (at < self.hubs.futures.len()).then(|| self.hubs.futures.remove(at)) {
            self.hub_begin(future, c, b);
        }
        let known = &self.messages;
        let strange = self.hubs.messages.iter().find(|(it, _)| {
            let number = message(it);
            let len = number.and_then(|number| known.get(&number));
            !it.is_empty() && len.is_none_or(|len| *len != it.len())
        });
        match strange {
            // What queue pairs that are not hubs' wrote is not known here.
            Some((_, copy)) if self.pairs.is_empty() => {
                self.found(Rule::Garbled, || format!("a hub received {copy:x?}"))
            }
            _ => Ok(()),
        }
    }

    fn hub_touch(&mut self, b: u8) {
        let number = self.number();
        let at = pick(self.hubs.buffers.len(), b);
        if let Some((buffer, copy)) = self.hubs.buffers.get_mut(at) {
            fill(buffer, number, SIZE);
            copy.copy_from_slice(buffer);
        }
        let at = pick(self.hubs.messages.len(), b);
        if b & 0x80 != 0 && at < self.hubs.messages.len() && self.hubs.buffers.len() < FULL {
            let (buffer, _) = self.hubs.messages.remove(at).0.into_buffer();
            self.hubs.hold(buffer);
        }
    }

    fn hub_drop(&mut self, b: u8, c: u8) {
        let hubs = &mut self.hubs;
        match c & 7 {
            0 => drop(take(&mut hubs.all, b)),
            1 => {
                if let Some((_, hub)) = hubs.all.get(pick(hubs.all.len(), b)) {
                    hub.close();
                }
            }
            2 | 3 => drop(take(&mut hubs.connections, b)),
            4 => drop(take(&mut hubs.prepared, b)),
            5 | 6 => drop(take(&mut hubs.futures, b)),
            _ => {
                drop(take(&mut hubs.messages, b));
                drop(take(&mut hubs.buffers, b));
            }
        }
    }

    fn hub_forget(&mut self, b: u8, c: u8) {
        let hubs = &mut self.hubs;
        match c & 7 {
            0 => self.graveyard.extend(take(&mut hubs.all, b).map(boxed)),
            1 | 2 => {
                let connection = take(&mut hubs.connections, b);
                self.graveyard.extend(connection.map(boxed));
            }
            3 => self
                .graveyard
                .extend(take(&mut hubs.prepared, b).map(boxed)),
            4 | 5 => {
                // The future, and all that it borrows.
                let future = take(&mut hubs.futures, b);
                self.graveyard.extend(future.map(boxed));
            }
            6 => self
                .graveyard
                .extend(take(&mut hubs.messages, b).map(boxed)),
            _ => self.graveyard.extend(take(&mut hubs.buffers, b).map(boxed)),
        }
        hubs.forgotten = true;
    }

    /// Ends everything of hubs; all buffers must come back.
    pub(super) fn end_hubs(&mut self) -> Outcome {
        self.device.run();
        let mut hubs = std::mem::take(&mut self.hubs);
        for future in &mut hubs.futures {
            let mut cx = Context::from_waker(Waker::noop());
            drop(future.as_mut().poll(&mut cx));
        }
        let all = hubs.all.clone();
        let forgotten = hubs.forgotten;
        hubs.futures.clear();
        hubs.messages.clear();
        hubs.buffers.clear();
        hubs.prepared.clear();
        hubs.connections.clear();
        drop(hubs);
        for (_, hub) in all {
            // A keepalive may begin another one each time.
            let empty = |_: &usize| hub.turn().map_or(true, |taken| taken == 0);
            let _ = (0..64).find(empty);
            let counts = hub.counts();
            // What a shared receive queue has posted; four is more than any has.
            let out = counts.buffers - counts.free_buffers;
            if !forgotten && !self.doubt && (counts.connections != 0 || out > 4) {
                self.found(Rule::Lost, || format!("a hub has {counts:?} at its end"))?;
            }
        }
        Ok(())
    }
}

fn take<T>(list: &mut Vec<T>, number: u8) -> Option<T> {
    let at = pick(list.len(), number);
    (at < list.len()).then(|| list.remove(at))
}

fn boxed<T: Send + 'static>(what: T) -> Box<dyn std::any::Any + Send> {
    Box::new(what)
}

/// A waker that does something else than waking.
struct Strange {
    panics: bool,
    turns: Option<Arc<Hub>>,
    /// Dropped with the waker, wherever that is.
    _owns: Option<Arc<Connection>>,
}

impl Strange {
    fn panics() -> Self {
        Self {
            panics: true,
            turns: None,
            _owns: None,
        }
    }

    fn turns(hub: Option<Arc<Hub>>) -> Self {
        Self {
            panics: false,
            turns: hub,
            _owns: None,
        }
    }

    fn owns(connection: Option<Arc<Connection>>) -> Self {
        Self {
            panics: false,
            turns: None,
            _owns: connection,
        }
    }
}

impl Wake for Strange {
    #[expect(clippy::panic, reason = "that is what it is for")]
    fn wake(self: Arc<Self>) {
        if let Some(hub) = &self.turns {
            let _ = hub.turn();
        }
        if self.panics {
            std::panic::panic_any(Sprung);
        }
    }
}

/// Tells a driver of events, whether there were any or not.
struct Liar(AtomicBool);

impl Events for Liar {
    async fn event(&self, _: Option<Duration>) -> uverbs::Result<bool> {
        // Pending once, or a driver would never let go.
        let mut yielded = false;
        std::future::poll_fn(|_| match std::mem::replace(&mut yielded, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        Ok(self.0.fetch_xor(true, Ordering::Relaxed))
    }
}

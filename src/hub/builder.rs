//! What a hub is created with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uverbs_core::types::{AccessFlags, AckTimeout, AtomicCap, RnrRetry};
use uverbs_core::{Error, Op, Result};

use super::Hub;
use super::shared::{Shared, lock_srq};
use super::spin::Policy;
use crate::transport::Rc;
use crate::{ProtectionDomain, QueuePairBuilder, owned};

/// A hub to be created ([`ProtectionDomain::hub`]).
///
/// | setting | default |
/// |---|---|
/// | [`connections`](Self::connections) | 64 |
/// | [`sends`](Self::sends), [`receives`](Self::receives) | 16 per connection |
/// | [`buffer_size`](Self::buffer_size) | 4096 bytes |
/// | [`buffers`](Self::buffers) | four times what the receives need |
/// | [`backlog`](Self::backlog) | as many messages as there are receives |
/// | [`spin`](Self::spin) | 20 µs |
/// | [`keepalive`](Self::keepalive) | none |
#[derive(Clone, Debug)]
#[must_use = "nothing is created before `build`"]
pub struct HubBuilder<'a> {
    pd: &'a ProtectionDomain,
    settings: Settings,
    buffers: Option<usize>,
    backlog: Option<usize>,
    is_shared: bool,
}

/// Changes the settings of a queue pair.
type Customize = dyn for<'a> Fn(QueuePairBuilder<'a, Rc>) -> QueuePairBuilder<'a, Rc> + Send + Sync;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) connections: usize,
    pub(super) sends: u32,
    pub(super) receives: u32,
    pub(super) buffer_size: usize,
    pub(super) buffers: usize,
    pub(super) backlog: usize,
    pub(super) spin: Policy,
    pub(super) keepalive: Option<Duration>,
    customize: Option<Arc<Customize>>,
}

impl Settings {
    /// A builder with the hub's settings, then the user's, then those that the hub depends on.
    pub(super) fn customize<'a>(
        &self,
        builder: QueuePairBuilder<'a, Rc>,
        atomics: AtomicCap,
    ) -> QueuePairBuilder<'a, Rc> {
        // Drivers refuse the flag for devices without them.
        let atomics = match atomics {
            AtomicCap::None => AccessFlags::empty(),
            _ => AccessFlags::REMOTE_ATOMIC,
        };
        let builder = builder
            // 67 ms: longer than a busy host takes to answer. A peer that does not answer at all is
            // given up after about two seconds.
            .timeout(AckTimeout::from_raw(14))
            // A peer that has no receive posted is busy, not dead.
            .rnr_retry(RnrRetry::INFINITE)
            // Keepalives are writes of zero bytes.
            .access(
                AccessFlags::LOCAL_WRITE
                    | AccessFlags::REMOTE_WRITE
                    | AccessFlags::REMOTE_READ
                    | atomics,
            );
        let builder = match &self.customize {
            Some(customize) => customize(builder),
            None => builder,
        };
        builder
            .max_send_wr(self.sends + 1)
            .max_recv_wr(self.receives)
    }
}

impl<'a> HubBuilder<'a> {
    pub(super) fn new(pd: &'a ProtectionDomain) -> Self {
        Self {
            pd,
            settings: Settings {
                connections: 64,
                sends: 16,
                receives: 16,
                buffer_size: 4096,
                buffers: 0,
                backlog: 0,
                spin: Policy::Fixed(Duration::from_micros(20)),
                keepalive: None,
                customize: None,
            },
            buffers: None,
            backlog: None,
            is_shared: false,
        }
    }

    /// How many connections there may be at a time. The completion queue is large enough for all.
    pub fn connections(mut self, count: usize) -> Self {
        self.settings.connections = count;
        self
    }

    /// How many requests of one connection may be under way; further ones wait.
    pub fn sends(mut self, count: u32) -> Self {
        self.settings.sends = count;
        self
    }

    /// How many receives each connection has posted, and so how many messages may wait to be taken:
    /// after that its peer waits, and no other connection does. With a
    /// [shared](Self::shared_receive_queue) queue, the number of receives of all of them.
    pub fn receives(mut self, count: u32) -> Self {
        self.settings.receives = count;
        self
    }

    /// How long a message may be, in bytes.
    pub fn buffer_size(mut self, bytes: usize) -> Self {
        self.settings.buffer_size = bytes;
        self
    }

    /// How many buffers there may be, for sending and receiving. They are registered 64 at a time.
    pub fn buffers(mut self, count: usize) -> Self {
        self.buffers = Some(count);
        self
    }

    /// All connections receive from one queue: fewer buffers, which all connections use. How many
    /// one of them may hold is its [`backlog`](Self::backlog).
    pub fn shared_receive_queue(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// With a [shared](Self::shared_receive_queue) queue, how many messages of one connection may
    /// wait to be taken. One more ends it with [`Backlog`](super::ConnectionError::Backlog), so
    /// that a peer whose messages are not taken does not use up the buffers of all. Without a
    /// shared queue the peer waits instead, and this has no effect.
    ///
    /// Leave room for connections that wait for their turn: [`buffers`](Self::buffers) should be
    /// [`receives`](Self::receives) plus `backlog` times how many may be neglected at the same
    /// time.
    pub fn backlog(mut self, messages: usize) -> Self {
        self.backlog = Some(messages);
        self
    }

    /// How long to poll before sleeping until an event. Zero sleeps at once; [`Duration::MAX`]
    /// never does.
    pub fn spin(mut self, time: Duration) -> Self {
        self.settings.spin = Policy::Fixed(time);
        self
    }

    /// Polls for `time` before sleeping, but seldom while that finds nothing; and lets others have
    /// the processor, more than once while that finds something.
    pub(crate) fn spin_if_useful(mut self, time: Duration) -> Self {
        self.settings.spin = Policy::Finds(time);
        self
    }

    /// Polls for up to `longest` before sleeping, for as long as that tends to find something: the
    /// time doubles (from 10 µs) after a sleep that was short enough, and halves after one that was
    /// not. It begins at zero, so an idle hub does not poll at all.
    pub fn adaptive_spin(mut self, longest: Duration) -> Self {
        self.settings.spin = Policy::Sleeps(longest);
        self
    }

    /// How often to ask the peer of a quiet connection for a sign of life, by a write of zero
    /// bytes. A dead peer is noticed after at least that long, plus the retries.
    ///
    /// The peer's queue pair must allow remote writes, as those of hubs do.
    pub fn keepalive(mut self, every: Duration) -> Self {
        self.settings.keepalive = Some(every);
        self
    }

    /// Changes the settings of each queue pair before it is created: its port, GID, timers. Sizes
    /// remain the hub's. What is passed is called while the hub's completion queue is locked: if it
    /// used the hub, it would wait for itself.
    pub fn queue_pairs(
        mut self,
        change: impl for<'q> Fn(QueuePairBuilder<'q, Rc>) -> QueuePairBuilder<'q, Rc>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.customize = Some(Arc::new(change));
        self
    }

    /// Creates its completion channel and queue, and the shared receive queue if there is to be
    /// one.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | a size of 0 |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | more completions than the device's `max_cqe` |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | memory, usually `RLIMIT_MEMLOCK` |
    pub fn build(mut self) -> Result<Hub> {
        let op = Op::CreateCompletionQueue;
        let settings = &mut self.settings;
        let sizes = [
            ("connections", settings.connections),
            ("sends", settings.sends as usize),
            ("receives", settings.receives as usize),
            ("buffer_size", settings.buffer_size),
        ];
        for (name, size) in sizes {
            if size == 0 {
                return Err(Error::invalid(op, name));
            }
        }
        let (sends, receives) = (settings.sends as usize, settings.receives as usize);
        let (each, once) = if self.is_shared {
            (sends + 1, receives)
        } else {
            (sends + 1 + receives, 0)
        };
        let entries = each
            .saturating_mul(settings.connections)
            .saturating_add(once);
        let all = if self.is_shared {
            1
        } else {
            settings.connections
        };
        settings.buffers = self
            .buffers
            .unwrap_or_else(|| receives.saturating_mul(all).saturating_mul(4));
        settings.backlog = self.backlog.unwrap_or(receives);
        let context = self.pd.context();
        let channel = context.create_completion_channel()?;
        let entries = u32::try_from(entries)
            .map_err(|_| Error::limit(op, "entries", entries as u64, u32::MAX.into()))?;
        let cq = context
            .completion_queue(entries)
            .channel(&channel)
            .build()?;
        let srq = if self.is_shared {
            let srq = self.pd.create_srq(settings.receives, 1)?;
            Some(owned::SharedReceiveQueue::new(srq))
        } else {
            None
        };
        let shared = Shared::new(self.pd, self.settings, (cq, channel), srq)?;
        if let Some(srq) = &shared.srq {
            shared.fill(&mut lock_srq(srq));
        }
        Ok(Hub {
            shared: Arc::new(shared),
        })
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("connections", &self.connections)
            .field("sends", &self.sends)
            .field("receives", &self.receives)
            .field("buffer_size", &self.buffer_size)
            .field("buffers", &self.buffers)
            .field("backlog", &self.backlog)
            .field("spin", &self.spin)
            .field("keepalive", &self.keepalive)
            .finish_non_exhaustive()
    }
}

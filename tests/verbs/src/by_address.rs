//! Connections by IP address: both ends in one process, on the device under test.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use uverbs::cm::{self, Connection, EventChannel, Listener, Request, Resolved};
use uverbs::owned::Finished;
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, PreparedQueuePair, ProtectionDomain};

/// Something that takes longer than this hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The IPv4 address of the interface that the device under test belongs to.
pub fn address() -> IpAddr {
    let address = std::env::var("UVERBS_TEST_ADDRESS");
    let address = address.as_deref().unwrap_or("10.1.0.1");
    address.parse().expect("UVERBS_TEST_ADDRESS")
}

/// That address, with a port that the kernel chooses.
pub fn any_port() -> SocketAddr {
    (address(), 0).into()
}

/// A channel for events, reported to the coverage if that is recorded.
pub fn channel() -> EventChannel {
    let channel = cm::ChannelOptions::new();
    let channel = match coverage::sink() {
        Some(sink) => channel.record(sink).open(),
        None => channel.open(),
    };
    channel.expect("the connection manager")
}

/// One end.
#[derive(Debug)]
pub struct Side {
    /// Of its ids.
    pub channel: EventChannel,
    /// On the device under test.
    pub pd: ProtectionDomain,
    /// Of all its queue pairs.
    pub cq: CompletionQueue,
}

impl Side {
    /// An end with a completion queue of so many entries.
    pub fn new(entries: u32) -> Self {
        let context = crate::open();
        Self {
            channel: channel(),
            pd: context.alloc_pd().expect("a protection domain"),
            cq: context.create_cq(entries).expect("a completion queue"),
        }
    }

    /// A listener for connections.
    pub fn listen(&self) -> Listener {
        let listener = cm::listen(any_port()).channel(&self.channel);
        listener.build().expect("a listener")
    }

    /// What connects to an address.
    pub fn connector(&self, to: SocketAddr) -> cm::Connector {
        cm::connect(to).channel(&self.channel).timeout(PATIENCE)
    }

    /// A way to an address.
    pub fn resolve(&self, to: SocketAddr) -> Resolved {
        self.connector(to).resolve().expect("a way")
    }

    /// A queue pair that is not connected.
    pub fn prepare(&self) -> PreparedQueuePair<Rc> {
        let builder = self.pd.queue_pair(Rc, &self.cq, &self.cq);
        builder.build().expect("a queue pair")
    }

    /// The next request of a connection that has ended.
    pub fn finish(&mut self, connection: &mut Connection) -> Finished {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "no completion");
            let Some(completion) = self.cq.poll().expect("a completion") else {
                continue;
            };
            if let Ok(finished) = connection.queue_pair().complete(completion) {
                return finished;
            }
        }
    }
}

/// The next request for a connection, which must come.
pub fn request(listener: &Listener) -> Request {
    let request = listener.accept_timeout(PATIENCE).expect("a listener");
    request.expect("a request").timeout(PATIENCE)
}

/// Both ends of a connection: the active one, and the passive one.
pub fn connected(client: &Side, server: &Side, listener: &Listener) -> (Connection, Connection) {
    std::thread::scope(|scope| {
        let passive = scope.spawn(|| request(listener).accept(server.prepare()));
        let resolved = client.resolve(listener.local_addr());
        let active = resolved.connect(client.prepare());
        let passive = passive.join().expect("no panic");
        (active.expect("connected"), passive.expect("accepted"))
    })
}

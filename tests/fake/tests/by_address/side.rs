//! One end of connections: a channel, and a device with a completion queue.

use std::net::SocketAddr;

use fake_tests::connections::ADDRESS;
use fake_tests::{Bench, PATIENCE};
use uverbs::cm::{self, Connection, Connector, EventChannel, Listener, Request, Resolved};
use uverbs::owned::{Buffer, Finished};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, PreparedQueuePair, ProtectionDomain};

pub(crate) struct Side {
    pub(crate) channel: EventChannel,
    pub(crate) context: Context,
    pub(crate) pd: ProtectionDomain,
    pub(crate) cq: CompletionQueue,
}

impl Side {
    pub(crate) fn new(bench: &Bench) -> Self {
        let context = bench.context().unwrap();
        Self {
            channel: bench.channel().unwrap(),
            pd: context.alloc_pd().unwrap(),
            cq: context.create_cq(64).unwrap(),
            context,
        }
    }

    /// A listener at any free port.
    pub(crate) fn listen(&self) -> Listener {
        cm::listen(SocketAddr::from((ADDRESS, 0)))
            .channel(&self.channel)
            .build()
            .unwrap()
    }

    pub(crate) fn connector(&self, to: SocketAddr) -> Connector {
        cm::connect(to).channel(&self.channel).timeout(PATIENCE)
    }

    pub(crate) fn resolve(&self, to: SocketAddr) -> Resolved {
        self.connector(to).resolve().unwrap()
    }

    /// A queue pair for whoever needs one.
    pub(crate) fn prepare(&self) -> PreparedQueuePair<Rc> {
        let builder = self.pd.queue_pair(Rc, &self.cq, &self.cq);
        builder.gid_index(1).allow_remote_rw().build().unwrap()
    }

    pub(crate) fn buffer(&self) -> Buffer {
        let [buffer] = self.pd.buffers(64).unwrap();
        buffer
    }

    /// The next completion of a connection.
    pub(crate) fn finish(&mut self, connection: &mut Connection) -> Finished {
        for _ in 0..1000 {
            let Some(completion) = self.cq.poll().unwrap() else {
                continue;
            };
            if let Ok(finished) = connection.queue_pair().complete(completion) {
                return finished;
            }
        }
        panic!("no completion");
    }
}

/// The next request, which must come.
pub(crate) fn request(listener: &Listener) -> Request {
    listener
        .accept_timeout(PATIENCE)
        .unwrap()
        .expect("a request")
}

/// Both ends of a connection: the active one, and the passive one.
pub(crate) fn connected(
    client: &Side,
    server: &Side,
    listener: &Listener,
) -> (Connection, Connection) {
    std::thread::scope(|scope| {
        let passive = scope.spawn(|| request(listener).accept(server.prepare()).unwrap());
        let resolved = client.resolve(listener.local_addr());
        let active = resolved.connect(client.prepare()).unwrap();
        (active, passive.join().unwrap())
    })
}

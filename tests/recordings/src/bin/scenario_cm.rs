//! `scenario-cm DEVICE ADDRESS NAME`: the scenarios of `oracle/cm.c` with this library, to be
//! recorded and compared. Both ends are in this process, each with a channel of its own.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use uverbs::cm::{
    self, AcceptData, AnswerData, ConnectData, Connection, ConnectionEvent, Connector,
    EventChannel, Listener, RejectData, Request, ResolveData,
};
use uverbs::discover::netlink::Client;
use uverbs::owned;
use uverbs::time::AckTimeout;
use uverbs::transport::{Rc, Ud};
use uverbs::{CompletionQueue, Context, PreparedQueuePair, ProtectionDomain, QueuePairBuilder};

const PORT: u16 = 7700;
const PATIENCE: Duration = Duration::from_secs(5);

struct Stage {
    address: IpAddr,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    passive: EventChannel,
    active: EventChannel,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, address, name] = arguments.as_slice() else {
        bail!("scenario-cm DEVICE ADDRESS NAME");
    };
    let context = Context::open(device)?;
    let stage = Stage {
        address: address.parse()?,
        pd: context.alloc_pd()?,
        cq: context.create_cq(32)?,
        passive: EventChannel::open()?,
        active: EventChannel::open()?,
    };
    match name.as_str() {
        "connect" => stage.connect_and_disconnect(),
        "reject" => stage.reject(),
        "resolve" => stage.resolve(),
        "datagrams" => stage.datagrams(),
        "multicast" => stage.multicast(),
        _ => bail!("no such scenario"),
    }
    .with_context(|| name.clone())?;
    all_destroyed(device)
}

/// The library destroys ids on a thread of its own, which ends with the process.
fn all_destroyed(device: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut client = Client::connect()?;
    while start.elapsed() < PATIENCE {
        let summaries = client.summaries()?;
        let of_device = summaries.iter().find(|summary| summary.name == device);
        let counts = &of_device.context("the device")?.counts;
        if counts
            .iter()
            .all(|(kind, count)| kind != "cm_id" || *count == 0)
        {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    bail!("ids are left");
}

/// Until an event of a connection.
fn until(connection: &Connection, wanted: ConnectionEvent) -> anyhow::Result<()> {
    loop {
        let event = connection.event(Some(PATIENCE))?;
        let event = event.with_context(|| format!("no {wanted:?}"))?;
        if event == wanted {
            return Ok(());
        }
    }
}

fn request(listener: &Listener) -> anyhow::Result<Request> {
    let request = listener.accept_timeout(PATIENCE)?;
    request.context("no request")
}

impl Stage {
    fn at(&self) -> SocketAddr {
        (self.address, PORT).into()
    }

    fn listener(&self) -> anyhow::Result<Listener> {
        Ok(cm::listen(self.at()).channel(&self.passive).build()?)
    }

    fn connector(&self) -> Connector {
        let connector = cm::connect(self.at()).channel(&self.active);
        connector.timeout(PATIENCE)
    }

    fn queue_pair(&self) -> uverbs::Result<PreparedQueuePair<Rc>> {
        self.pd
            .queue_pair(Rc, &self.cq, &self.cq)
            .max_send_wr(16)
            .max_recv_wr(8)
            .build()
    }

    fn connect_and_disconnect(&self) -> anyhow::Result<()> {
        let listener = self.listener()?;
        let resolved = self.connector().resolve()?;
        let (active, passive) = thread::scope(|scope| {
            let passive = scope.spawn(|| {
                let data = AcceptData::new(b"welcome")?;
                let request = request(&listener)?.private_data(data);
                anyhow::Ok(request.accept(self.queue_pair()?)?)
            });
            let resolved = resolved.private_data(ConnectData::new(b"hello")?);
            let active = resolved.connect(self.queue_pair()?)?;
            let passive = passive.join().ok().context("a panic")?;
            anyhow::Ok((active, passive?))
        })?;
        active.link().disconnect()?;
        until(&passive, ConnectionEvent::Disconnected)?;
        passive.link().disconnect()?;
        until(&active, ConnectionEvent::TimewaitExit)?;
        until(&passive, ConnectionEvent::TimewaitExit)
    }

    fn reject(&self) -> anyhow::Result<()> {
        let listener = self.listener()?;
        let resolved = self.connector().resolve()?;
        thread::scope(|scope| {
            let passive = scope.spawn(|| {
                let request = request(&listener)?;
                anyhow::Ok(request.reject(RejectData::new(b"busy")?)?)
            });
            let resolved = resolved.private_data(ConnectData::new(b"hello")?);
            let refused = resolved.connect(self.queue_pair()?);
            ensure!(refused.is_err(), "it was accepted");
            passive.join().ok().context("a panic")?
        })
    }

    fn resolve(&self) -> anyhow::Result<()> {
        let listener = cm::listen(self.at()).channel(&self.passive);
        let listener = listener.reuse_address().backlog(5).build()?;
        let connector = self.connector().type_of_service(0x20);
        let connector = connector.ack_timeout(AckTimeout::code(15).context("a timeout")?);
        drop(connector.source((self.address, 0).into()).resolve()?);
        drop(listener);
        // An address that no route leads to.
        let nowhere = cm::connect(SocketAddr::from(([192, 0, 2, 1], PORT)));
        let nowhere = nowhere.channel(&self.active).timeout(PATIENCE);
        ensure!(nowhere.resolve().is_err(), "a route");
        Ok(())
    }

    fn datagrams(&self) -> anyhow::Result<()> {
        let queue_pair = |builder: QueuePairBuilder<'_, Ud>| {
            let queue = builder.max_send_wr(16).max_recv_wr(8).build()?;
            anyhow::Ok(owned::QueuePair::new(queue.activate()?))
        };
        let service = cm::listen_datagrams(self.at());
        let service = service.channel(&self.passive).build()?;
        for accepts in [true, false] {
            let resolved = self.connector().resolve_datagrams()?;
            let asks = resolved.private_data(ResolveData::new(b"who?")?);
            thread::scope(|scope| {
                let passive = scope.spawn(|| {
                    let request = service.accept_timeout(PATIENCE)?.context("no request")?;
                    if !accepts {
                        return Ok(request.reject(AnswerData::new(b"busy")?)?);
                    }
                    let theirs = request.datagram_queue_pair(&self.pd, &self.cq, &self.cq);
                    let theirs = queue_pair(theirs)?;
                    anyhow::Ok(request.accept(&theirs, AnswerData::new(b"me")?)?)
                });
                let ours = asks.datagram_queue_pair(&self.pd, &self.cq, &self.cq);
                let _ours = queue_pair(ours)?;
                ensure!(asks.ask().is_ok() == accepts, "another answer");
                passive.join().ok().context("a panic")?
            })?;
        }
        Ok(())
    }

    fn multicast(&self) -> anyhow::Result<()> {
        for send_only in [false, true] {
            let group = cm::join([239, 1, 2, 3].into()).source(self.address);
            let group = group.timeout(PATIENCE).channel(&self.active);
            let group = if send_only { group.send_only() } else { group };
            group.build()?.leave()?;
        }
        Ok(())
    }
}

//! The other end of librdmacm's `ucmatose`, with its default numbers and sizes: the server sends
//! ten messages, the client answers with as many, and the server disconnects.
//!
//! `ucmatose-peer serve ADDRESS`, `ucmatose-peer ask ADDRESS`; without IP `ucmatose-peer serve-gid
//! GID PORT`, `ucmatose-peer ask-gid SOURCE GID PORT`. `ucmatose-peer find NAME SOURCE` asks the
//! subnet administrator for a service.

use std::error::Error;
use std::time::Duration;

use uverbs::cm::{
    self, Connection, ConnectionEvent, Connector, EventChannel, EventKind, IbAddress,
    ListenerBuilder, PortSpace,
};
use uverbs::owned::QueuePair;
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, ProtectionDomain};

/// How many messages each side sends, and their size in bytes.
const MESSAGES: usize = 10;
const SIZE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(20);
/// What a request was posted for.
const SEND: u64 = 1;
const RECEIVE: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(cm::listen(address.parse()?)),
        ["ask", address] => ask(cm::connect(address.parse()?)),
        ["serve-gid", gid, port] => serve(cm::listen_ib(at(gid, port)?)),
        ["ask-gid", source, gid, port] => {
            ask(cm::connect_ib(at(gid, port)?).source_ib(at(source, "0")?))
        }
        ["find", name, source] => find(name, source),
        _ => Err("serve, ask, serve-gid, ask-gid, or find".into()),
    }
}

fn at(gid: &str, port: &str) -> Result<IbAddress, Box<dyn Error>> {
    Ok(IbAddress::new(gid.parse()?, port.parse()?))
}

fn find(name: &str, source: &str) -> Result<(), Box<dyn Error>> {
    let channel = EventChannel::open()?;
    let id = channel.create_id(PortSpace::Tcp)?;
    id.bind(std::net::SocketAddr::new(source.parse()?, 0))?;
    id.resolve_service(None, Some(name))?;
    let answer = channel.event(Some(PATIENCE))?.ok_or("no answer")?;
    if answer.event.kind != EventKind::ServiceResolved {
        return Err(format!("{:?}: {:?}", answer.event.kind, answer.event.outcome()).into());
    }
    for service in id.services()? {
        println!("service {:#x} at {}", service.service_id, service.gid);
    }
    Ok(())
}

fn serve(listener: ListenerBuilder) -> Result<(), Box<dyn Error>> {
    let listener = listener.build()?;
    println!("serving at {}", listener.local_addr());
    let request = listener.accept()?;
    println!("{} asks {}", request.peer_addr(), request.local_addr());
    let pd = request.open()?.alloc_pd()?;
    let cq = pd.context().create_cq(64)?;
    let queue = prepared(&pd, &cq, &request)?;
    let mut attached = request.attach(queue)?;
    expect(&pd, attached.queue_pair())?;
    let mut side = Side::new(pd, cq, attached.accept()?);
    side.tell()?;
    side.until(|side| side.heard)?;
    println!("{MESSAGES} messages sent, {MESSAGES} answers heard");
    Ok(side.connection.disconnect(PATIENCE)?)
}

fn ask(connector: Connector) -> Result<(), Box<dyn Error>> {
    let resolved = connector.resolve()?;
    println!("{} asks {}", resolved.local_addr(), resolved.peer_addr());
    let pd = resolved.open()?.alloc_pd()?;
    let cq = pd.context().create_cq(64)?;
    let queue = prepared(&pd, &cq, &resolved)?;
    let mut attached = resolved.attach(queue)?;
    expect(&pd, attached.queue_pair())?;
    let mut side = Side::new(pd, cq, attached.connect()?);
    side.until(|side| side.heard)?;
    side.tell()?;
    println!("{MESSAGES} messages heard, {MESSAGES} answers sent");
    let event = side.connection.event(Some(PATIENCE))?;
    if event != Some(ConnectionEvent::Disconnected) {
        return Err(format!("no disconnect: {event:?}").into());
    }
    Ok(side.connection.disconnect(PATIENCE)?)
}

fn prepared(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    route: &cm::PeerRoute,
) -> uverbs::Result<uverbs::PreparedQueuePair<Rc>> {
    let builder = route.queue_pair(pd, cq, cq);
    builder.max_send_wr(16).max_recv_wr(16).build()
}

/// Posts room for the peer's messages.
fn expect(pd: &ProtectionDomain, queue: &mut QueuePair<Rc>) -> Result<(), Box<dyn Error>> {
    for _ in 0..MESSAGES {
        let [room] = pd.buffers(SIZE)?;
        queue.recv(room, RECEIVE)?;
    }
    Ok(())
}

struct Side {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    connection: Connection,
    sent: usize,
    heard: usize,
}

impl Side {
    fn new(pd: ProtectionDomain, cq: CompletionQueue, connection: Connection) -> Self {
        Self {
            pd,
            cq,
            connection,
            sent: 0,
            heard: 0,
        }
    }

    /// Sends the messages, and waits until the peer has received them.
    fn tell(&mut self) -> Result<(), Box<dyn Error>> {
        for _ in 0..MESSAGES {
            let [message] = self.pd.buffers(SIZE)?;
            self.connection.queue_pair().send(message, SIZE, SEND)?;
        }
        self.until(|side| side.sent)
    }

    fn until(&mut self, count: impl Fn(&Self) -> usize) -> Result<(), Box<dyn Error>> {
        while count(self) < MESSAGES {
            let Some(completion) = self.cq.poll()? else {
                continue;
            };
            let queue = self.connection.queue_pair();
            let finished = queue
                .complete(completion)
                .map_err(|_| "a completion that belongs to no request")?;
            if !finished.status().is_success() {
                return Err(finished.status().to_string().into());
            }
            match finished.user_data() {
                SEND => self.sent += 1,
                _ => self.heard += 1,
            }
        }
        Ok(())
    }
}

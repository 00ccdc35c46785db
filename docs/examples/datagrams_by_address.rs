//! Datagrams between programs that know each other's IP address: a service that answers, a client
//! that asks it, and the members of a multicast group. The other end may be librdmacm's
//! `udaddy`, with its default size and number of messages.
//!
//! `datagrams_by_address serve ADDRESS`, `datagrams_by_address ask ADDRESS`,
//! `datagrams_by_address hear GROUP SOURCE`, `datagrams_by_address tell GROUP SOURCE`; without
//! arguments it serves and asks at 10.1.0.1.

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use uverbs::address::{Grh, MULTICAST_QPN};
use uverbs::cm::{self, AnswerData, DatagramListener};
use uverbs::owned::{QueuePair, Work};
use uverbs::transport::Ud;
use uverbs::{
    AddressHandle, AddressVector, CompletionQueue, Context, Gid, ProtectionDomain,
    QueuePairBuilder, WorkCompletion,
};

/// The port of that program.
const PORT: u16 = 7174;
/// How many messages are sent, each way.
const MESSAGES: u32 = 10;
/// The size of a message in bytes.
const SIZE: usize = 100;
/// How long the messages may take. Datagrams may be lost.
const LIMIT: Duration = Duration::from_secs(30);
/// What a request was posted for; comes back when it is finished.
const SEND: u64 = 1;
const RECEIVE: u64 = 2;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", address] => bind(address).and_then(|service| serve(&service)),
        ["ask", address] => ask(address),
        ["hear", group, source] => hear(group, source),
        ["tell", group, source] => tell(group, source),
        [] => alone("10.1.0.1"),
        _ => Err("serve ADDRESS, ask ADDRESS, hear GROUP SOURCE, or tell GROUP SOURCE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Done = Result<(), Box<dyn Error + Send + Sync>>;

fn alone(address: &str) -> Done {
    let service = bind(address)?;
    let server = std::thread::spawn(move || serve(&service));
    ask(address)?;
    server.join().map_err(|_| "the server panicked")?
}

fn bind(address: &str) -> Result<DatagramListener, Box<dyn Error + Send + Sync>> {
    let service = cm::listen_datagrams(SocketAddr::new(address.parse()?, PORT)).build()?;
    println!("serving at {}", service.local_addr());
    Ok(service)
}

fn serve(service: &DatagramListener) -> Done {
    let request = service.accept()?;
    let context = request.open()?;
    let mut end = End::new(&context, |pd, cq| request.datagram_queue_pair(pd, cq, cq))?;
    // Before the peer learns of the queue pair.
    end.expect()?;
    let port = request.device().port;
    request.accept(&end.qp, AnswerData::EMPTY)?;
    let heard = end.hear()?;

    // The way back is in the message: its header, or on InfiniBand its completion, and the number
    // of the peer's queue pair.
    let index = match &heard.header {
        Some(header) => own_index(&context, port, header.dgid())?,
        None => 0,
    };
    let way = AddressVector::reply_to(port, &heard.completion, heard.header.as_ref(), index);
    let way = end.pd.create_ah(&way)?;
    end.tell(&way, heard.completion.src_qp, cm::DATAGRAM_QKEY)?;
    println!("{MESSAGES} messages heard, {MESSAGES} answers sent");
    Ok(())
}

/// The index of a port's own GID.
fn own_index(context: &Context, port: u8, gid: Gid) -> Result<u8, Box<dyn Error + Send + Sync>> {
    let table = context.gid_table()?;
    let mut entries = table.iter();
    let entry = entries.find(|entry| entry.port == u32::from(port) && entry.gid == gid);
    Ok(entry.ok_or("the address is gone")?.index.try_into()?)
}

fn ask(address: &str) -> Done {
    let service = SocketAddr::new(address.parse()?, PORT);
    let resolved = cm::connect(service).resolve_datagrams()?;
    let context = resolved.open()?;
    let mut end = End::new(&context, |pd, cq| resolved.datagram_queue_pair(pd, cq, cq))?;
    end.expect()?;
    let peer = resolved.ask()?;
    let way = end.pd.create_ah(&peer.address)?;
    end.tell(&way, peer.qp_num, peer.qkey)?;
    end.hear()?;
    println!("{MESSAGES} messages sent, {MESSAGES} answers heard");
    Ok(())
}

fn hear(group: &str, source: &str) -> Done {
    let group = cm::join(group.parse()?).source(source.parse()?).build()?;
    let context = group.open()?;
    let mut end = End::new(&context, |pd, cq| group.queue_pair(pd, cq, cq))?;
    end.expect()?;
    group.attach(&mut end.qp)?;
    println!("listening to {}", group.gid());
    end.hear()?;
    group.detach(&mut end.qp)?;
    println!("{MESSAGES} messages heard");
    Ok(())
}

fn tell(group: &str, source: &str) -> Done {
    let group = cm::join(group.parse()?).source(source.parse()?);
    let group = group.send_only().build()?;
    let context = group.open()?;
    let mut end = End::new(&context, |pd, cq| group.queue_pair(pd, cq, cq))?;
    let way = end.pd.create_ah(&group.address())?;
    end.tell(&way, MULTICAST_QPN, group.qkey())?;
    println!("{MESSAGES} messages sent");
    Ok(())
}

/// A queue pair, what it needs, and what came of its requests.
struct End {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair<Ud>,
    sent: u32,
    heard: u32,
    last: Option<Heard>,
}

/// A message that arrived.
struct Heard {
    header: Option<Grh>,
    completion: WorkCompletion,
}

impl End {
    fn new(
        context: &Context,
        builder: impl for<'a> FnOnce(
            &'a ProtectionDomain,
            &'a CompletionQueue,
        ) -> QueuePairBuilder<'a, Ud>,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(2 * MESSAGES)?;
        let qp = QueuePair::new(builder(&pd, &cq).build()?.activate()?);
        Ok(Self {
            pd,
            cq,
            qp,
            sent: 0,
            heard: 0,
            last: None,
        })
    }

    /// Posts room for the messages of a peer.
    fn expect(&mut self) -> Done {
        for _ in 0..MESSAGES {
            let [room] = self.pd.buffers(Grh::LEN + SIZE)?;
            self.qp.recv(room, RECEIVE)?;
        }
        Ok(())
    }

    /// Sends messages that carry the number of this queue pair, and polls until they are sent.
    fn tell(&mut self, way: &AddressHandle, qp_num: u32, qkey: u32) -> Done {
        for _ in 0..MESSAGES {
            let [message] = self.pd.buffers(SIZE)?;
            let work = Work::send_imm(self.qp.qp_num()).memory(message);
            self.qp.post(work.to(way, qp_num, qkey).user_data(SEND))?;
        }
        while self.sent < MESSAGES {
            self.progress()?;
        }
        Ok(())
    }

    /// Polls until the peer's messages have arrived. Returns the last one.
    fn hear(&mut self) -> Result<Heard, Box<dyn Error + Send + Sync>> {
        let start = Instant::now();
        while self.heard < MESSAGES {
            if start.elapsed() > LIMIT {
                return Err(format!("{} messages of {MESSAGES} came", self.heard).into());
            }
            self.progress()?;
        }
        self.last.take().ok_or_else(|| "no message".into())
    }

    fn progress(&mut self) -> Done {
        let Some(done) = self.cq.poll()? else {
            return Ok(());
        };
        let completion = *done;
        let finished = (self.qp)
            .complete(done)
            .map_err(|_| "a completion that belongs to no request")?;
        if !finished.status().is_success() {
            return Err(finished.status().to_string().into());
        }
        if finished.user_data() == SEND {
            self.sent += 1;
            return Ok(());
        }
        let bytes = finished.bytes().ok_or("a message without memory")?;
        let header = Grh::parse(bytes).filter(|_| completion.has_grh());
        self.heard += 1;
        self.last = Some(Heard { header, completion });
        Ok(())
    }
}

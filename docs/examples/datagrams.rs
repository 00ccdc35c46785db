//! An unreliable datagram and its reply, and one to a multicast group. The address for the reply
//! comes from the global routing header of the request, in the first 40 bytes of every received
//! datagram.
//!
//! `datagrams [DEVICE]`

use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::ExitCode;

use uverbs::address::{GlobalRoute, Grh, MULTICAST_QPN};
use uverbs::owned::{Buffer, QueuePair, Work};
use uverbs::transport::Ud;
use uverbs::{
    AddressVector, CompletionQueue, Context, Gid, ProtectionDomain, QueuePairEndpoint,
    WorkCompletion,
};

const PORT: u8 = 1;
/// The key that datagrams to either side must carry.
const QKEY: u32 = 0x1111_1111;
/// A multicast group of this network.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
/// The size of a buffer in bytes: the header and a message.
const SIZE: usize = Grh::LEN + 64;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = std::env::args().nth(1).unwrap_or_else(|| "rxe0".to_owned());
    let context = Context::open(&device)?;
    let mut a = Side::new(&context)?;
    let mut b = Side::new(&context)?;

    // The side that asks must know the address of the other side and its queue pair's number.
    let gid = b.endpoint.gid.ok_or("the port has no GID")?;
    let route = GlobalRoute::new(gid, a.sgid_index);
    let path = AddressVector::global(PORT, route);
    a.send(&path, b.endpoint.qp_num, b"how are you?")?;

    // The side that replies need not: the completion and the header contain them.
    let question = b.receive()?;
    println!("b heard {:?} from {}", question.text, question.sender);
    let (header, completion) = (Some(&question.grh), &question.completion);
    let path = AddressVector::reply_to(PORT, completion, header, b.sgid_index);
    b.send(&path, question.completion.src_qp, b"fine, thanks")?;

    let answer = a.receive()?;
    println!("a heard {:?} from {}", answer.text, answer.sender);

    // Every member of a group receives what is sent to it. A socket joins the group in the network.
    let own = gid.ipv4_mapped().ok_or("the port has no IPv4 address")?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.join_multicast_v4(&GROUP, &own)?;
    let group = Gid::from(GROUP);
    b.qp.attach_multicast(&group, 0)?;
    let path = AddressVector::global(PORT, GlobalRoute::new(group, a.sgid_index));
    a.send(&path, MULTICAST_QPN, b"everybody")?;
    println!("b heard {:?} in group {GROUP}", b.receive()?.text);
    Ok(())
}

struct Side {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair<Ud>,
    endpoint: QueuePairEndpoint,
    sgid_index: u8,
}

/// A datagram that arrived.
struct Received {
    text: String,
    sender: Gid,
    grh: Grh,
    completion: WorkCompletion,
}

impl Side {
    fn new(context: &Context) -> Result<Self, Box<dyn Error>> {
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(16)?;
        let prepared = pd.queue_pair(Ud, &cq, &cq).qkey(QKEY).build()?;
        let endpoint = prepared.endpoint();
        // Datagrams need no handshake.
        let mut qp = QueuePair::new(prepared.activate()?);
        let [incoming] = pd.buffers::<1>(SIZE)?;
        qp.recv(incoming, 0)?;
        // The index in the GID table that the builder chose.
        let table = context.gid_table()?;
        let entry = table
            .iter()
            .filter(|entry| entry.port == u32::from(PORT))
            .find(|entry| Some(entry.gid) == endpoint.gid)
            .ok_or("the address is gone")?;
        let sgid_index = entry.index.try_into()?;
        Ok(Self {
            pd,
            cq,
            qp,
            endpoint,
            sgid_index,
        })
    }

    fn send(
        &mut self,
        path: &AddressVector,
        qp_num: u32,
        text: &[u8],
    ) -> Result<(), Box<dyn Error>> {
        // The request holds a clone of the handle, so that it lives until the datagram is sent.
        let address = self.pd.create_ah(path)?;
        let [mut buffer] = self.pd.buffers::<1>(text.len())?;
        buffer.copy_from_slice(text);
        let work = Work::send().memory(buffer).to(&address, qp_num, QKEY);
        self.qp.post(work)?;
        self.next().map(drop)
    }

    fn receive(&mut self) -> Result<Received, Box<dyn Error>> {
        let (buffer, completion) = self.next()?;
        let bytes = buffer
            .get(..completion.byte_len as usize)
            .ok_or("a short buffer")?;
        let grh = Grh::parse(bytes).ok_or("a datagram without a header")?;
        let received = Received {
            text: String::from_utf8_lossy(&bytes[Grh::LEN..]).into_owned(),
            sender: grh.sgid(),
            grh,
            completion,
        };
        self.qp.recv(buffer, 0)?;
        Ok(received)
    }

    /// The next finished request: its buffer and its completion.
    fn next(&mut self) -> Result<(Buffer, WorkCompletion), Box<dyn Error>> {
        loop {
            let Some(completion) = self.cq.poll()? else {
                continue;
            };
            let reported = *completion;
            let Ok(finished) = self.qp.complete(completion) else {
                continue;
            };
            if !finished.status().is_success() {
                return Err(finished.status().to_string().into());
            }
            let buffer = finished.into_buffer().ok_or("no buffer came back")?;
            return Ok((buffer, reported));
        }
    }
}

//! Loops over queues of other shapes: shared receive queues, datagrams, completion queues of many
//! queue pairs. By the handles of any vendor; completions also by those of one.

use cost_downstream::{MANY, Outcome};
use uverbs::transport::Ud;
use uverbs::typed::vendor::Mlx5;
use uverbs::{
    AddressHandle, CompletionQueue, Context, ProtectionDomain, QpType, QueuePair, RecvRequest,
    SendRequest, SharedReceiveQueue,
};

use crate::setup::{ACCESS, Memory, drain};
use adversary::device::Device as _;
use adversary::mlx5::Cards;

const QKEY: u32 = 0x1234;
/// How often a device of thousands of queue pairs is told to run until all of them have had a turn.
const TURNS: usize = 8;

/// A queue pair whose messages go to a shared receive queue.
pub struct Shared {
    pub srq: SharedReceiveQueue,
    qp: QueuePair,
    send_cq: CompletionQueue,
    pub cq: CompletionQueue,
}

impl Shared {
    pub fn new(context: &Context, pd: &ProtectionDomain) -> Outcome<Self> {
        let send_cq = context.create_cq(4 * MANY)?;
        let cq = context.create_cq(4 * MANY)?;
        let srq = pd.create_srq(2 * MANY, 1)?;
        let prepared = pd
            .queue_pair(QpType::Rc, &send_cq, &cq)
            .srq(&srq)
            .max_send_wr(2 * MANY)
            .build()?;
        let endpoint = prepared.endpoint();
        let qp = prepared.handshake(endpoint)?;
        Ok(Self {
            srq,
            qp,
            send_cq,
            cq,
        })
    }

    /// Sends as many messages as one loop receives.
    pub fn send(&mut self, memory: &Memory, cards: &Cards) -> Outcome {
        for _ in 0..MANY {
            let piece = [memory.piece()];
            // SAFETY: see the program's paragraph.
            unsafe { self.qp.post_send(&[SendRequest::send(&piece).signaled()]) }?;
        }
        cards.run();
        drain(&mut self.send_cq)
    }
}

#[inline(never)]
pub fn counted_shared_receive(srq: &mut SharedReceiveQueue, memory: &Memory) -> Outcome {
    for n in 0..MANY {
        let scatter = [memory.room()];
        let (wr_id, scatter) = (n.into(), &scatter);
        // SAFETY: see the program's paragraph.
        unsafe { srq.post_recv(&[RecvRequest { wr_id, scatter }]) }?;
    }
    Ok(())
}

#[inline(never)]
pub fn counted_shared_batch(srq: &mut SharedReceiveQueue, memory: &Memory) -> Outcome {
    let mut batch = srq.recv_batch();
    for n in 0..MANY {
        let scatter = [memory.room()];
        let (wr_id, scatter) = (n.into(), &scatter);
        // SAFETY: see the program's paragraph.
        unsafe { batch.push(&RecvRequest { wr_id, scatter }) }?;
    }
    Ok(batch.submit()?)
}

#[inline(never)]
pub fn counted_shared_poll(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    *std::hint::black_box(&mut *sum) |= 1;
    poll_each(cq, sum)
}

/// A queue pair that sends datagrams to one that has no receives.
pub struct Datagrams {
    qp: QueuePair<Ud>,
    pub cq: CompletionQueue,
    address: AddressHandle,
    peer: u32,
}

impl Datagrams {
    pub fn new(context: &Context, pd: &ProtectionDomain) -> Outcome<Self> {
        let cq = context.create_cq(4 * MANY)?;
        let prepared = pd
            .queue_pair(Ud, &cq, &cq)
            .max_send_wr(2 * MANY)
            .qkey(QKEY)
            .build()?;
        let endpoint = prepared.endpoint();
        let address = pd.create_ah(&prepared.path_to(&endpoint)?)?;
        Ok(Self {
            peer: endpoint.qp_num,
            qp: prepared.activate()?,
            cq,
            address,
        })
    }
}

#[inline(never)]
pub fn counted_datagram(datagrams: &mut Datagrams, memory: &Memory) -> Outcome {
    let there = datagrams.address.to(datagrams.peer, QKEY);
    for n in 0..MANY {
        let piece = [memory.piece()];
        let request = SendRequest::send(&piece).wr_id(n.into()).signaled();
        // SAFETY: see the program's paragraph.
        unsafe { datagrams.qp.post_send(&[request.to(there)]) }?;
    }
    Ok(())
}

/// Completion queues of many queue pairs.
pub struct Crowds {
    pub hundred: Crowd,
    pub thousands: Crowd,
}

impl Crowds {
    pub fn new() -> Outcome<Self> {
        Ok(Self {
            hundred: Crowd::new(100)?,
            thousands: Crowd::new(10_000)?,
        })
    }
}

/// Queue pairs, on a device of their own, that complete in one queue.
pub struct Crowd {
    pairs: Vec<QueuePair>,
    pub cq: CompletionQueue,
    memory: Memory,
    cards: Cards,
}

impl Crowd {
    pub fn new(count: usize) -> Outcome<Self> {
        let cards = Cards::new(1);
        let context = cards.open(0, None)?;
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(4 * MANY)?;
        let pairs = (0..count).map(|_| {
            let prepared = pd
                .queue_pair(QpType::Rc, &cq, &cq)
                .max_send_wr(2)
                .max_recv_wr(1)
                .access(ACCESS)
                .build()?;
            let endpoint = prepared.endpoint();
            Ok(prepared.handshake(endpoint)?)
        });
        let mut crowd = Self {
            pairs: pairs.collect::<Outcome<_>>()?,
            cq,
            memory: Memory::new(&pd)?,
            cards,
        };
        // What is done once for each queue pair is not counted.
        crowd.write()?;
        drain(&mut crowd.cq)?;
        Ok(crowd)
    }

    /// One write on each of as many queue pairs as a loop has turns, far from each other.
    pub fn write(&mut self) -> Outcome {
        let step = self.pairs.len() / MANY as usize;
        for qp in self.pairs.iter_mut().step_by(step).take(MANY as usize) {
            let piece = [self.memory.piece()];
            let request = SendRequest::write(&piece, self.memory.remote()).signaled();
            // SAFETY: see the program's paragraph.
            unsafe { qp.post_send(&[request]) }?;
        }
        for _ in 0..TURNS {
            self.cards.run();
        }
        Ok(())
    }
}

#[inline(always)]
fn poll_each(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    for _ in 0..MANY {
        match cq.poll()? {
            Some(done) if done.status.is_success() => *sum += done.wr_id,
            _ => return Err("no completion".into()),
        }
    }
    Ok(())
}

#[inline(always)]
fn typed_poll_each(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
    let mut poller = cq.poller::<Mlx5>()?;
    for _ in 0..MANY {
        match poller.poll()? {
            Some(done) if done.status().is_success() => *sum += done.wr_id(),
            _ => return Err("no completion".into()),
        }
    }
    Ok(())
}

/// Functions of one body that the compiler does not merge, so that each is counted alone.
macro_rules! polls {
    ($($name:ident is $body:ident, $mark:literal;)*) => {
        $(
            #[inline(never)]
            pub fn $name(cq: &mut CompletionQueue, sum: &mut u64) -> Outcome {
                *std::hint::black_box(&mut *sum) |= $mark;
                $body(cq, sum)
            }
        )*
    };
}

polls! {
    counted_among_100 is poll_each, 2;
    counted_among_10000 is poll_each, 4;
    counted_typed_among_100 is typed_poll_each, 8;
    counted_typed_among_10000 is typed_poll_each, 16;
}

//! A queue pair that is connected to itself, and memory for it.

use adversary::device::Device as _;
use adversary::mlx5::Cards;
use cost_downstream::{MANY, Outcome};
use uverbs::typed::Posting;
use uverbs::{
    AccessFlags, CompletionQueue, MemoryRegion, ProtectionDomain, QpType, QueuePair, Remote, Sge,
    WorkCompletion,
};

use crate::shapes::{Datagrams, Shared};

/// Completions taken at once.
pub const AT_ONCE: usize = 16;
pub const INLINE: usize = 32;
const BUFFER: usize = 8192;
const PIECE: u32 = 64;
pub const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_ATOMIC);

/// The memory of the requests: its start is sent, its second half is written to.
pub struct Memory {
    pub mr: MemoryRegion,
    pub start: u64,
    _buffer: Vec<u64>,
}

impl Memory {
    pub fn new(pd: &ProtectionDomain) -> Outcome<Self> {
        let mut buffer = vec![0_u64; BUFFER / 8];
        let start = buffer.as_mut_ptr().cast::<u8>();
        // SAFETY: `buffer` is dropped after the region, and is not accessed until then.
        let mr = unsafe { pd.register(start, BUFFER, ACCESS) }?;
        Ok(Self {
            mr,
            start: start.expose_provenance() as u64,
            _buffer: buffer,
        })
    }

    #[inline]
    pub fn piece(&self) -> Sge {
        self.at(0, PIECE)
    }

    #[inline]
    pub fn room(&self) -> Sge {
        self.at(BUFFER as u64 / 2, PIECE)
    }

    #[inline]
    pub fn word(&self) -> Sge {
        self.at(0, 8)
    }

    #[inline]
    fn at(&self, at: u64, length: u32) -> Sge {
        Sge {
            address: self.start + at,
            length,
            key: self.mr.lkey(),
        }
    }

    #[inline]
    pub fn remote(&self) -> Remote {
        Remote {
            address: self.start + BUFFER as u64 / 2,
            key: self.mr.rkey(),
        }
    }
}

pub struct Setup {
    pub qp: QueuePair,
    pub shared: Shared,
    pub datagrams: Datagrams,
    pub send_cq: CompletionQueue,
    pub recv_cq: CompletionQueue,
    pub memory: Memory,
    pub data: Vec<Posting>,
    pub inline: [u8; INLINE],
    pub kept: [WorkCompletion; MANY as usize],
    pub sum: u64,
    /// It carries out what was posted when it is told to run.
    pub cards: Cards,
}

impl Setup {
    pub fn new() -> Outcome<Self> {
        let cards = Cards::new(1);
        let context = cards.open(0, None)?;
        let pd = context.alloc_pd()?;
        let memory = Memory::new(&pd)?;
        let send_cq = context.create_cq(4 * MANY)?;
        let recv_cq = context.create_cq(4 * MANY)?;
        let prepared = pd
            .queue_pair(QpType::Rc, &send_cq, &recv_cq)
            .max_send_wr(2 * MANY)
            .max_recv_wr(2 * MANY)
            .max_send_sge(1)
            .max_recv_sge(1)
            .max_inline_data(INLINE as u32)
            .access(ACCESS)
            .build()?;
        let endpoint = prepared.endpoint();
        let qp = prepared.handshake(endpoint)?;
        let data = (0..MANY)
            .map(|n| Posting {
                wr_id: n.into(),
                address: memory.start,
                length: PIECE,
                remote: memory.remote().address,
            })
            .collect();
        Ok(Self {
            qp,
            shared: Shared::new(&context, &pd)?,
            datagrams: Datagrams::new(&context, &pd)?,
            send_cq,
            recv_cq,
            memory,
            data,
            inline: [7; INLINE],
            kept: [WorkCompletion::default(); MANY as usize],
            sum: 0,
            cards,
        })
    }

    /// Takes the completions that are not counted.
    pub fn drain_sends(&mut self) -> Outcome {
        drain(&mut self.send_cq)
    }
}

/// Takes as many completions as one loop has turns.
pub fn drain(cq: &mut CompletionQueue) -> Outcome {
    for _ in 0..MANY {
        let done = cq.poll()?.ok_or("no completion")?;
        if !done.status.is_success() {
            return Err(done.status.to_string().into());
        }
    }
    match cq.poll()? {
        None => Ok(()),
        Some(_) => Err("a completion too many".into()),
    }
}

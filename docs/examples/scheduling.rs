//! Divides a port between two groups of queue pairs, seven to three, the second with a cap, and
//! measures what each group gets while both have something to send, and what the second gets alone.
//!
//! `scheduling [DEVICE [PEER]]`

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use uverbs::mlx5::sched::{Applied, Element, ElementAttr, Leaf, Leaves, Scheduler, Tree};
use uverbs::owned::{Buffer, ExposedMemory, QueuePair, Work};
use uverbs::transport::Rc;
use uverbs::{AccessFlags, CompletionQueue, Context};

/// The size of a message in bytes.
const SIZE: usize = 1024 * 1024;
/// How many messages are outstanding on each queue pair.
const DEPTH: usize = 4;
/// How long both groups send.
const TIME: Duration = Duration::from_secs(2);

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
    let mut names = std::env::args().skip(1);
    let device = names.next().unwrap_or_else(|| "mlx5_0".to_owned());
    let context = Context::open(&device)?;
    let peer = match names.next() {
        Some(name) => Context::open(&name)?,
        None => context.clone(),
    };

    let scheduler = context.mlx5()?.scheduling()?;
    let tree = Tree::new([
        Element::leaf("g1").share(7),
        Element::leaf("g2").share(3).max_mbps(4096),
    ]);
    let mut applied = Applied::new(scheduler.clone());
    applied.apply(&tree)?;
    print!("{tree}");

    let mut groups = Vec::new();
    for name in ["g1", "g2"] {
        let leaf = applied.leaf(name).ok_or("the leaf is there")?;
        groups.push(Group::new(&context, &peer, &scheduler, leaf)?);
    }

    // Both always have something to send.
    let rates = measure(&mut groups)?;
    let total: u64 = rates.iter().sum();
    for (name, rate) in ["g1", "g2"].iter().zip(&rates) {
        let percent = (rate * 100 + total / 2) / total.max(1);
        println!("{name}: {rate} Mb/s, {percent}%");
    }
    // When the first is idle, the second gets more, up to its cap.
    for rate in measure(&mut groups[1..])? {
        println!("g2 alone: {rate} Mb/s");
    }

    // A leaf with queue pairs cannot be removed: nothing is sent to the device, and nothing is
    // changed.
    let smaller = Tree::new([Element::leaf("g1").share(1)]);
    let refused = applied.apply(&smaller).err();
    println!("refused: {}", refused.ok_or("g2 is in use")?);
    drop(groups);
    let plan = applied.apply(&smaller)?;
    print!("{plan}");
    elements(&scheduler)
}

/// Elements one by one, without a tree.
fn elements(scheduler: &Scheduler) -> Result<(), Box<dyn Error>> {
    let root = scheduler.create_root()?;
    let group = root.create_node(&ElementAttr::new().share(5))?;
    let leaf = group.create_leaf(&ElementAttr::new().share(1).max_mbps(1000))?;
    leaf.modify(&ElementAttr::new().max_mbps(2000))?;
    let refused = group.destroy().err().ok_or("a leaf is below it")?;
    println!("refused: {refused}");
    Ok(())
}

/// What each of these groups sends, in Mb/s.
fn measure(groups: &mut [Group]) -> Result<Vec<u64>, Box<dyn Error>> {
    let before: Vec<_> = groups.iter().map(|group| group.bytes).collect();
    let start = Instant::now();
    while start.elapsed() < TIME {
        for group in groups.iter_mut() {
            group.step()?;
        }
    }
    let sent = groups.iter().zip(before);
    Ok(sent
        .map(|(group, before)| (group.bytes - before) * 8 / 1_000_000 / TIME.as_secs())
        .collect())
}

/// A queue pair of a group, which writes to its peer's memory continuously.
struct Group {
    qp: QueuePair<Rc>,
    cq: CompletionQueue,
    memory: ExposedMemory,
    buffers: Vec<Buffer>,
    bytes: u64,
    _peer: (uverbs::QueuePair<Rc>, CompletionQueue),
}

impl Group {
    fn new(
        context: &Context,
        peer: &Context,
        scheduler: &Scheduler,
        leaf: &Leaf,
    ) -> Result<Self, Box<dyn Error>> {
        let (pd, peer_pd) = (context.alloc_pd()?, peer.alloc_pd()?);
        let (cq, peer_cq) = (context.create_cq(16)?, peer.create_cq(1)?);
        let memory = peer_pd.expose(SIZE, AccessFlags::REMOTE_WRITE)?;
        let qp = pd.queue_pair(Rc, &cq, &cq).build()?;
        let other = peer_pd
            .queue_pair(Rc, &peer_cq, &peer_cq)
            .access(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE)
            .build()?;
        let (here, there) = (qp.endpoint(), other.endpoint());
        let other = other.handshake(here)?;
        let mut qp = qp.handshake(there)?;
        let leaves = Leaves {
            requestor: Some(leaf),
            responder: None,
        };
        qp.attach_to(scheduler, leaves)?;
        Ok(Self {
            qp: QueuePair::new(qp),
            cq,
            memory,
            buffers: pd.buffers::<DEPTH>(SIZE)?.into(),
            bytes: 0,
            _peer: (other, peer_cq),
        })
    }

    /// Posts what can be posted, and takes what has completed.
    fn step(&mut self) -> Result<(), Box<dyn Error>> {
        while let Some(buffer) = self.buffers.pop() {
            let work = Work::write(self.memory.remote()).memory((buffer, SIZE));
            self.qp.post(work)?;
        }
        while let Some(completion) = self.cq.poll()? {
            let Ok(finished) = self.qp.complete(completion) else {
                continue;
            };
            if !finished.status().is_success() {
                return Err(finished.status().to_string().into());
            }
            self.bytes += SIZE as u64;
            self.buffers.extend(finished.into_buffer());
        }
        Ok(())
    }
}

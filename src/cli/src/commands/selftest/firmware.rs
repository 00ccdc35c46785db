//! `firmware`: what firmware commands are used for: the device's own list of capabilities, the
//! scheduling tree, rates.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use uverbs::mlx5::pacing::RateLimit;
use uverbs::mlx5::sched::{Applied, Element, Leaves, Scheduler, Tree};
use uverbs::owned::{Buffer, ExposedMemory, Work};
use uverbs::{CompletionQueue, QpType, QueuePair};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::open::nothing_left;
use super::pair::{End, REMOTE, buffer_of, connect, prepare, usual};
use super::subject::Subject;

/// Complete groups of capabilities: general, offloads, quality of service, general again.
const GROUPS: [u16; 4] = [0x0, 0x1, 0xc, 0x20];

/// The cap in Mb/s, and how long it is measured. Even a busy emulated machine sends faster than
/// this, so a cap without effect is noticed.
const CAP: u32 = 200;
const TIME: Duration = Duration::from_secs(1);
/// In percent of the cap: above the maximum, the cap has no effect.
const MOST: u64 = 110;
const LEAST: u64 = 70;

pub(super) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for group in GROUPS {
        let name = format!("capabilities {group:#x}");
        checks.push(Check::optional(name, "", move |subject| {
            capabilities(subject, group)
        }));
    }
    checks.extend([
        Check::optional("scheduling tree", "made, changed, destroyed", tree),
        Check::optional("attach RC", "messages attached and detached", |subject| {
            attach(subject, QpType::Rc)
        }),
        Check::optional("attach UC", "messages attached and detached", |subject| {
            attach(subject, QpType::Uc)
        }),
        Check::optional("leaf with a cap", "200 Mb/s at most", capped),
        Check::optional("table of rates", "two indexes for two rates", rates),
    ]);
    checks
}

fn scheduler(subject: &Subject) -> Outcome<Scheduler> {
    Ok(subject.mlx5()?.scheduling()?)
}

/// The contents of a group, for the file.
fn capabilities(subject: &Subject, group: u16) -> Outcome {
    let reply = subject.mlx5()?.devx()?.capabilities(group);
    // Only the first always exists; older firmware refuses to report the others.
    let reply = match reply {
        Err(error) if group != 0 => Err(Trouble::unsupported(error)),
        reply => reply.map_err(Trouble::from),
    }?;
    let bytes = reply.as_bytes();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").map_err(Trouble::failed)?;
    }
    let set: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    if set == 0 {
        let why = "no bit is set";
        // A device without the feature may refuse the group like this.
        return Err(match group {
            0 => Trouble::failed(why),
            _ => Trouble::unsupported(why),
        });
    }
    Ok(Found::new(format_args!("{} bytes, {set} bits set", bytes.len())).detail(text))
}

fn apply(applied: &mut Applied, tree: &Tree) -> Outcome<usize> {
    let plan = applied
        .apply(tree)
        .map_err(|error| Trouble::from(error.error))?;
    Ok(plan.steps().len())
}

/// A node with a leaf, and a leaf beside it; then other shares; then one leaf less; then nothing.
fn tree(subject: &Subject) -> Outcome {
    let node = |share| Element::node("node", [Element::leaf("one").share(share)]);
    let trees = [
        Tree::new([node(70), Element::leaf("two").share(30)]),
        Tree::new([node(30), Element::leaf("two").share(70)]),
        Tree::new([node(30)]),
    ];
    let mut applied = Applied::new(scheduler(subject)?);
    let mut steps = 0;
    for tree in &trees {
        steps += apply(&mut applied, tree)?;
    }
    let plan = applied
        .clear()
        .map_err(|error| Trouble::from(error.error))?;
    steps += plan.steps().len();
    nothing_left(&subject.context)?;
    Ok(Found::new(format_args!("{steps} firmware commands")))
}

/// A queue pair that writes, not yet wrapped as an owned one: only then can it be attached.
fn writer(subject: &Subject, kind: QpType) -> Outcome<(QueuePair, CompletionQueue, Peer)> {
    let pd = subject.context.alloc_pd()?;
    let (cq, peer_cq) = (
        subject.context.create_cq(64)?,
        subject.context.create_cq(64)?,
    );
    let a = prepare(subject, &pd, kind, (&cq, &cq), usual)?;
    let b = prepare(subject, &pd, kind, (&peer_cq, &peer_cq), usual)?;
    let (a, b) = connect(a, b)?;
    let peer = Peer {
        memory: pd.expose(Peer::LEN, REMOTE)?,
        buffers: pd.buffer_list(4, Peer::LEN)?,
        _qp: b,
    };
    Ok((a, cq, peer))
}

/// The other end, which has only memory, and the buffers to write from.
#[derive(Debug)]
struct Peer {
    memory: ExposedMemory,
    buffers: Vec<Buffer>,
    _qp: QueuePair,
}

impl Peer {
    /// A hundredth of a second at the cap: a device that sends one message before it starts
    /// counting stays below [`MOST`].
    const LEN: usize = 1 << 18;

    /// Writes as much as possible for some time; returns Mb/s.
    fn measure(mut self, end: &mut End, time: Duration) -> Outcome<u64> {
        let start = Instant::now();
        let mut done: u64 = 0;
        let mut under_way: u32 = 0;
        while start.elapsed() < time || under_way > 0 {
            while start.elapsed() < time
                && let Some(buffer) = self.buffers.pop()
            {
                let work = Work::write(self.memory.remote()).memory(buffer);
                end.qp.post(work)?;
                under_way += 1;
            }
            self.buffers.push(buffer_of(end.success()?)?);
            under_way -= 1;
            done += 1;
        }
        let bits = done * Self::LEN as u64 * 8;
        let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Ok(bits / micros.max(1))
    }
}

/// Requests continue when a queue pair is attached, and when it is detached.
fn attach(subject: &Subject, kind: QpType) -> Outcome {
    let scheduler = scheduler(subject)?;
    let mut applied = Applied::new(scheduler.clone());
    let tree = Tree::new([Element::leaf("one").share(7), Element::leaf("two").share(3)]);
    apply(&mut applied, &tree)?;
    let leaf = |name| {
        let leaf = applied.leaf(name);
        leaf.ok_or_else(|| Trouble::failed(format_args!("no leaf {name}")))
    };
    let (mut qp, cq, peer) = writer(subject, kind)?;
    for name in ["one", "two"] {
        let responder = (kind == QpType::Rc).then(|| leaf(name)).transpose()?;
        let leaves = Leaves {
            requestor: Some(leaf(name)?),
            responder,
        };
        qp.attach_to(&scheduler, leaves)
            .map_err(|error| Trouble::from(error).with("attaching"))?;
    }
    qp.attach_to(&scheduler, Leaves::default())
        .map_err(|error| Trouble::from(error).with("detaching"))?;
    let leaves = Leaves {
        requestor: Some(leaf("one")?),
        responder: None,
    };
    qp.attach_to(&scheduler, leaves)
        .map_err(|error| Trouble::from(error).with("attaching again"))?;
    let mut end = End::new(cq, qp);
    peer.measure(&mut end, Duration::from_millis(10))?;
    // Leaves in use cannot be removed; they can once the queue pair is gone.
    ensure(applied.clear().is_err(), || {
        "a leaf in use was destroyed".into()
    })?;
    drop(end);
    applied
        .clear()
        .map_err(|error| Trouble::from(error.error))?;
    nothing_left(&subject.context)?;
    Ok(Found::new("attached, changed, detached, attached again"))
}

/// Whether the measured rate matches the cap.
fn judged(mbps: u64) -> Outcome {
    let cap = u64::from(CAP);
    ensure(mbps <= cap * MOST / 100, || {
        format!("{mbps} Mb/s: it has no effect")
    })?;
    // The machine may be too slow, which is not a fault of the device.
    Ok(Found::new(format_args!("{mbps} Mb/s")).slow_if(mbps < cap * LEAST / 100))
}

fn capped(subject: &Subject) -> Outcome {
    let scheduler = scheduler(subject)?;
    let mut applied = Applied::new(scheduler.clone());
    apply(
        &mut applied,
        &Tree::new([Element::leaf("one").max_mbps(CAP)]),
    )?;
    let leaf = applied.leaf("one");
    let leaf = leaf.ok_or_else(|| Trouble::failed("no leaf"))?;
    let (mut qp, cq, peer) = writer(subject, QpType::Rc)?;
    let leaves = Leaves {
        requestor: Some(leaf),
        responder: None,
    };
    qp.attach_to(&scheduler, leaves)?;
    let mbps = peer.measure(&mut End::new(cq, qp), TIME)?;
    applied
        .clear()
        .map_err(|error| Trouble::from(error.error))?;
    judged(mbps)
}

/// Two entries of the device's table, for queues that are created by firmware commands.
fn rates(subject: &Subject) -> Outcome {
    let devx = subject.mlx5()?.devx()?;
    let rate = |mbps: u32| devx.pace(&RateLimit::kbps(1000 * mbps), false);
    let (one, two) = (rate(100)?, rate(200)?);
    ensure(one.index() != two.index(), || {
        "two rates have the same index".into()
    })?;
    let places = format!("places {} and {}", one.index(), two.index());
    one.free()?;
    two.free()?;
    Ok(Found::new(places))
}

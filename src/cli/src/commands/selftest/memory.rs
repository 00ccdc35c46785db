//! `memory`: memory that peers access: what they may and may not do, how much, how many regions,
//! until when; device memory.

use std::time::Instant;

use uverbs::memory::MwType;
use uverbs::owned::Work;
use uverbs::{AccessFlags, Operation, QpType, Remote, WcStatus};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::open::nothing_left;
use super::pair::{Pair, REMOTE, buffer_of, compare, ended, fill, usual};
use super::subject::Subject;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("rights", "each allows what it says, and no more", rights),
        Check::new("sizes", "64 bytes to 64 MiB, both ends written", sizes),
        Check::new("many regions", "256, each with its own key", many),
        Check::new("deregistered", "remote access error", gone),
        Check::new("relaxed ordering", "bytes as sent", relaxed),
        Check::optional(
            "window, type 1",
            "allocated and freed; binding is not tried",
            |subject| window(subject, MwType::Type1),
        ),
        Check::optional(
            "window, type 2",
            "allocated and freed; binding is not tried",
            |subject| window(subject, MwType::Type2),
        ),
        Check::optional("device memory", "bytes as written", device_memory),
    ]
}

const WRITE: AccessFlags = AccessFlags::REMOTE_WRITE;
const READ: AccessFlags = AccessFlags::REMOTE_READ;
const ATOMIC: AccessFlags = AccessFlags::REMOTE_ATOMIC;

/// Every set of rights, and every operation on each. An operation that fails puts its queue pairs
/// into the error state.
fn rights(subject: &Subject) -> Outcome {
    let has_atomics = super::atomics::has(subject);
    let sets = [
        WRITE,
        READ,
        ATOMIC,
        WRITE.union(READ),
        WRITE.union(READ).union(ATOMIC),
    ];
    let mut tried = 0;
    for access in sets {
        for needed in [WRITE, READ, ATOMIC] {
            if needed == ATOMIC && !has_atomics {
                continue;
            }
            let what = || format!("{needed} of memory with {access}");
            let finished = attempt(subject, access, needed).map_err(|error| error.with(what()))?;
            let right = if access.contains(needed) {
                finished == WcStatus::Success
            } else {
                let refused = [WcStatus::RemoteAccess, WcStatus::RemoteInvalidRequest];
                subject.right(&refused).contains(&finished)
            };
            ensure(right, || format!("{}: {finished}", what()))?;
            tried += 1;
        }
    }
    Ok(Found::new(format_args!("{tried} cases")))
}

fn attempt(subject: &Subject, access: AccessFlags, needed: AccessFlags) -> Outcome<WcStatus> {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let exposed = pair.pd.expose(64, access)?;
    let [buffer] = pair.pd.buffers::<1>(8)?;
    let remote = exposed.remote().start();
    let operation = match needed {
        WRITE => Operation::Write(remote),
        READ => Operation::Read(remote),
        _ => Operation::FetchAdd { remote, add: 1 },
    };
    pair.a.qp.post(Work::new(operation).memory(buffer))?;
    Ok(pair.a.next()?.status())
}

/// Has the peer write to both ends of a region of each size.
fn sizes(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let mut most = None;
    for size in [64, 4096, 1 << 16, 1 << 21, 1 << 26] {
        let exposed = match pair.pd.expose(size, REMOTE) {
            Ok(exposed) => exposed,
            // How much memory may be locked depends on the machine.
            Err(error) if size > 1 << 16 => {
                let most = most.unwrap_or_default();
                return Ok(Found::new(format_args!("up to {most} bytes")).detail(error));
            }
            Err(error) => return Err(error.into()),
        };
        let Remote { address, key } = exposed.remote().start();
        for (at, seed) in [(0, 1), (size - 32, 2)] {
            let [mut text] = pair.pd.buffers::<1>(32)?;
            fill(&mut text, seed);
            let address = address + at as u64;
            let work = Work::write(Remote { address, key }).memory(text);
            pair.a.qp.post(work)?;
            pair.a.success()?;
            let mut found = [0; 32];
            ensure(exposed.read(at, &mut found), || {
                "outside of the memory".into()
            })?;
            compare(&found, seed)
                .map_err(|trouble| trouble.with(format_args!("{size} bytes, at {at}")))?;
        }
        most = Some(size);
    }
    Ok(Found::new(format_args!(
        "up to {} bytes",
        most.unwrap_or_default()
    )))
}

fn many(subject: &Subject) -> Outcome {
    const COUNT: u64 = 256;
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let start = Instant::now();
    let regions = (0..COUNT)
        .map(|_| pair.pd.expose(4096, REMOTE))
        .collect::<uverbs::Result<Vec<_>>>()?;
    let each = start.elapsed().as_micros() / u128::from(COUNT);
    let mut keys: Vec<u32> = regions.iter().map(|one| one.rkey().raw()).collect();
    keys.sort_unstable();
    keys.dedup();
    ensure(keys.len() == regions.len(), || {
        "two of them have the same key".into()
    })?;
    for (region, seed) in regions.iter().zip(0..) {
        let [mut text] = pair.pd.buffers::<1>(16)?;
        fill(&mut text, seed);
        pair.a.qp.post(Work::write(region.remote()).memory(text))?;
        pair.a.success()?;
    }
    for (region, seed) in regions.iter().zip(0..) {
        let mut found = [0; 16];
        ensure(region.read(0, &mut found), || {
            "outside of the memory".into()
        })?;
        compare(&found, seed).map_err(|trouble| trouble.with(format_args!("region {seed}")))?;
    }
    drop((regions, pair));
    nothing_left(&subject.context)?;
    Ok(Found::new(COUNT).detail(format_args!("{each} µs for each registration")))
}

/// A key is worthless once its region is gone.
fn gone(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let exposed = pair.pd.expose(4096, REMOTE)?;
    let remote = exposed.remote().start();
    drop(exposed);
    nothing_left(&subject.context)?;
    let [text] = pair.pd.buffers::<1>(8)?;
    pair.a.qp.post(Work::write(remote).memory(text))?;
    let finished = pair.a.next()?;
    ensure(finished.status() == WcStatus::RemoteAccess, || {
        ended(&finished)
    })?;
    Ok(Found::new(ended(&finished)))
}

/// A device that does not support it ignores it.
fn relaxed(subject: &Subject) -> Outcome {
    const LEN: usize = 1 << 16;
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let exposed = pair
        .pd
        .expose(LEN, REMOTE | AccessFlags::RELAXED_ORDERING)?;
    let [mut text] = pair.pd.buffers::<1>(LEN)?;
    fill(&mut text, 5);
    pair.a.qp.post(Work::write(exposed.remote()).memory(text))?;
    pair.a.success()?;
    let mut found = vec![0; LEN];
    ensure(exposed.read(0, &mut found), || {
        "outside of the memory".into()
    })?;
    compare(&found, 5)?;
    Ok(Found::new(format_args!("{LEN} bytes")))
}

fn window(subject: &Subject, kind: MwType) -> Outcome {
    let pd = subject.context.alloc_pd()?;
    pd.alloc_mw(kind)?.dealloc()?;
    Ok(Found::new("made and freed"))
}

/// Written by this process, read and written by a peer, read by this process.
fn device_memory(subject: &Subject) -> Outcome {
    const LEN: usize = 256;
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let memory = subject.mlx5()?.alloc_device_memory(4096, 6)?;
    let region = pair.pd.register_device_memory(&memory, 0, 4096, REMOTE)?;
    let remote = |offset: u64| Remote {
        address: region.address() + offset,
        key: region.rkey(),
    };
    let mut bytes = [0; LEN];
    fill(&mut bytes, 1);
    memory.write(0, &bytes)?;
    let [room, mut text] = pair.pd.buffers(LEN)?;
    pair.a.qp.post(Work::read(remote(0)).memory(room))?;
    let read = buffer_of(pair.a.success()?)?;
    compare(&read, 1).map_err(|trouble| trouble.with("read by a peer"))?;
    fill(&mut text, 2);
    pair.a.qp.post(Work::write(remote(1024)).memory(text))?;
    pair.a.success()?;
    memory.read(1024, &mut bytes)?;
    compare(&bytes, 2).map_err(|trouble| trouble.with("written by a peer"))?;
    drop((region, pair));
    memory.free().map_err(Trouble::from)?;
    Ok(Found::new(format_args!("{LEN} bytes each way")))
}

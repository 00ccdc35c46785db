//! `errors`: requests that must fail, and how they do: the status on both sides, the vendor error,
//! what is flushed.

use uverbs::attr::{Psn, QpAttr};
use uverbs::link::Mtu;
use uverbs::memory::RemoteKey;
use uverbs::owned::kind::Kind;
use uverbs::owned::{self, Work};
use uverbs::time::{AckTimeout, RetryCount, RnrRetry, RnrTimer};
use uverbs::{
    AccessFlags, AddressVector, CompletionQueue, Operation, QpState, QpType, QueuePairEndpoint,
    Remote, WcStatus,
};

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::failed::with_entries;
use super::pair::{
    End, Ended, Exchange as _, Pair, REMOTE, buffer_of, compare, connect, ended, fill, prepare,
    take, usual,
};
use super::subject::Subject;

/// How many requests are flushed.
const FLUSHED: u64 = 60;

pub(super) fn checks() -> Vec<Check> {
    let checks = [
        Check::new("message too long", TOO_LONG_EXPECTED, too_long),
        Check::new(
            "message too long, shared queue",
            TOO_LONG_EXPECTED,
            too_long_shared,
        ),
        Check::new("wrong key", "remote access error", wrong_key),
        Check::new("beyond the region", "remote access error", beyond),
        Check::new("write to read-only", "remote access error", read_only),
        Check::new(
            "queue pair without the right",
            "remote access error; invalid request on rxe",
            no_right,
        ),
        Check::new(
            "read into what is not writable",
            "local protection error",
            local,
        ),
        Check::optional(
            "atomic without the right",
            "remote access error",
            no_atomics,
        ),
        Check::new("no receive", "rnr retry counter exceeded", not_ready),
        Check::new(
            "nobody answers",
            "transport retry counter exceeded",
            silent_peer,
        ),
        Check::new("flush", "60 sends and 60 receives, in order", flush),
        Check::new(
            "reset and again",
            "a message after each of 10 resets",
            reset,
        ),
    ];
    checks.map(with_entries).into()
}

/// Checks that it failed as it should; returns how.
fn failed(finished: &Ended, right: &[WcStatus]) -> Outcome {
    ensure(right.contains(&finished.status()), || ended(finished))?;
    Ok(Found::new(ended(finished)))
}

/// Makes a request of one end fail; what is posted after it is flushed.
fn provoke<K: Kind>(pair: &mut Pair, work: Work<K>, right: &[WcStatus]) -> Outcome {
    pair.a.qp.post(work)?;
    // It may be refused, because the queue pair is already in the error state.
    let behind = pair.a.qp.post(Work::send()).is_ok();
    let found = failed(&pair.a.next()?, right)?;
    if behind {
        let flushed = pair.a.next()?;
        ensure(flushed.status() == WcStatus::Flushed, || {
            format!("what is behind it: {}", ended(&flushed))
        })?;
    }
    let state = pair.a.qp.query()?.state;
    ensure(state == QpState::Error, || {
        format!("the queue pair is in {state}")
    })?;
    Ok(found)
}

/// What both sides report, one after the other.
fn both(sender: &str, receiver: &Ended) -> Found {
    Found::new(format_args!(
        "{sender}; at the receiver {}",
        ended(receiver)
    ))
}

const TOO_LONG_EXPECTED: &str =
    "remote invalid request, local length; remote and local operation on rxe";
const TOO_LONG: [WcStatus; 2] = [WcStatus::RemoteInvalidRequest, WcStatus::RemoteOperation];
const TOO_LONG_THERE: [WcStatus; 3] = [
    WcStatus::LocalLength,
    WcStatus::RemoteInvalidRequest,
    WcStatus::LocalQpOperation,
];

fn too_long(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let [room] = pair.pd.buffers::<1>(16)?;
    let [text] = pair.pd.buffers::<1>(64)?;
    pair.b.qp.recv(room, 1)?;
    pair.a.qp.post(Work::send().memory(text))?;
    let sender = failed(&pair.a.next()?, subject.right(&TOO_LONG))?;
    let receiver = pair.b.next()?;
    failed(&receiver, subject.right(&TOO_LONG_THERE))?;
    Ok(both(&sender.value, &receiver))
}

fn too_long_shared(subject: &Subject) -> Outcome {
    let pd = subject.context.alloc_pd()?;
    let mut cq = subject.context.create_cq(64)?;
    let sent = subject.context.create_cq(64)?;
    let srq = pd.create_srq(16, 1)?;
    let a = prepare(subject, &pd, QpType::Rc, (&sent, &sent), usual)?;
    let b = super::pair::prepare_shared(subject, &pd, (&cq, &cq), &srq)?;
    let (a, _b) = connect(a, b)?;
    let mut srq = owned::SharedReceiveQueue::new(srq);
    let mut a = End::new(sent, a);
    let [room] = pd.buffers::<1>(16)?;
    let [text] = pd.buffers::<1>(64)?;
    srq.recv(room, 1)?;
    a.qp.post(Work::send().memory(text))?;
    let sender = failed(&a.next()?, subject.right(&TOO_LONG))?;
    let receiver = take(&mut cq, |done| {
        srq.exchange(done)
            .map_err(|_| Trouble::failed("a completion of another request"))
    })??;
    failed(&receiver, subject.right(&TOO_LONG_THERE))?;
    Ok(both(&sender.value, &receiver))
}

/// A write of 8 bytes to memory of 64 bytes.
fn write_to(
    subject: &Subject,
    access: AccessFlags,
    right: &[WcStatus],
    to: impl FnOnce(Remote) -> Remote,
) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let exposed = pair.pd.expose(64, access)?;
    let [text] = pair.pd.buffers::<1>(8)?;
    let work = Work::write(to(exposed.remote().start())).memory(text);
    let found = provoke(&mut pair, work, right)?;
    let mut bytes = [1; 64];
    let inside = exposed.read(0, &mut bytes);
    ensure(inside && bytes == [0; 64], || {
        "the memory was written anyway".into()
    })?;
    Ok(found)
}

fn wrong_key(subject: &Subject) -> Outcome {
    write_to(subject, REMOTE, &[WcStatus::RemoteAccess], |remote| {
        Remote {
            key: RemoteKey::from_raw(remote.key.raw() ^ 0x80),
            ..remote
        }
    })
}

fn beyond(subject: &Subject) -> Outcome {
    write_to(subject, REMOTE, &[WcStatus::RemoteAccess], |remote| {
        Remote {
            address: remote.address + 4096,
            ..remote
        }
    })
}

fn read_only(subject: &Subject) -> Outcome {
    let access = AccessFlags::REMOTE_READ;
    write_to(subject, access, &[WcStatus::RemoteAccess], |remote| remote)
}

fn no_right(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, |builder| {
        builder.access(AccessFlags::LOCAL_WRITE)
    })?;
    let exposed = pair.pd.expose(64, REMOTE)?;
    let [text] = pair.pd.buffers::<1>(8)?;
    let right = [WcStatus::RemoteAccess, WcStatus::RemoteInvalidRequest];
    let work = Work::write(exposed.remote()).memory(text);
    provoke(&mut pair, work, subject.right(&right))
}

fn local(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let far = pair.pd.expose(64, REMOTE)?;
    let near = pair.pd.expose(64, AccessFlags::REMOTE_READ)?;
    let work = Work::read(far.remote()).memory((near, 0..8));
    let right = [
        WcStatus::LocalProtection,
        WcStatus::Flushed,
        WcStatus::LocalQpOperation,
    ];
    provoke(&mut pair, work, subject.right(&right))
}

fn no_atomics(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let exposed = pair
        .pd
        .expose(64, REMOTE.difference(AccessFlags::REMOTE_ATOMIC))?;
    let [old] = pair.pd.buffers::<1>(8)?;
    let remote = exposed.remote().start();
    let work = Work::new(Operation::FetchAdd { remote, add: 1 }).memory(old);
    let right = [WcStatus::RemoteAccess, WcStatus::RemoteInvalidRequest];
    provoke(&mut pair, work, subject.right(&right))
}

fn not_ready(subject: &Subject) -> Outcome {
    let (once, soon) = (RnrRetry::new(1)?, RnrTimer::code(1)?);
    let mut pair = Pair::new(subject, QpType::Rc, |builder| {
        builder.rnr_retry(once).min_rnr_timer(soon)
    })?;
    provoke(&mut pair, Work::send(), &[WcStatus::RnrRetryExceeded])
}

/// Sends to the number of a queue pair that is not connected.
fn silent_peer(subject: &Subject) -> Outcome {
    let pd = subject.context.alloc_pd()?;
    let cq: CompletionQueue = subject.context.create_cq(64)?;
    let (once, soon) = (RetryCount::new(1)?, AckTimeout::code(10)?);
    let prepared = prepare(subject, &pd, QpType::Rc, (&cq, &cq), |builder| {
        builder.retry_count(once).timeout(soon)
    })?;
    let deaf = prepare(subject, &pd, QpType::Rc, (&cq, &cq), usual)?;
    let peer: QueuePairEndpoint = deaf.endpoint();
    let mut end = End::new(cq, prepared.handshake(peer)?);
    end.qp.post(Work::send())?;
    failed(&end.next()?, &[WcStatus::RetryExceeded])
}

/// Moves a queue pair to ERROR with many requests posted: each comes back once, in order.
fn flush(subject: &Subject) -> Outcome {
    let mut pair = Pair::new(subject, QpType::Rc, usual)?;
    let buffers = pair.pd.buffer_list(60, 64)?;
    for (buffer, number) in buffers.into_iter().zip(0..) {
        pair.a.qp.recv(buffer, number)?;
    }
    pair.a.qp.modify(&QpAttr::to(QpState::Error))?;
    for number in 0..FLUSHED {
        pair.a.qp.post(Work::send().user_data(1000 + number))?;
    }
    let (mut receives, mut sends) = (0, 1000);
    let mut vendor = 0;
    for _ in 0..2 * FLUSHED {
        let finished = pair.a.next()?;
        ensure(finished.status() == WcStatus::Flushed, || ended(&finished))?;
        vendor = finished.reported.vendor_err;
        let next = if finished.user_data() < 1000 {
            &mut receives
        } else {
            &mut sends
        };
        ensure(finished.user_data() == *next, || {
            format!("{} instead of {next}", finished.user_data())
        })?;
        *next += 1;
    }
    Ok(Found::new(format_args!(
        "{receives} receives, {} sends, vendor {vendor:#x}",
        sends - 1000
    )))
}

/// Moves a queue pair back to RESET with requests posted and completions unpolled, and connects it
/// again.
fn reset(subject: &Subject) -> Outcome {
    const ROUNDS: u32 = 10;
    let pd = subject.context.alloc_pd()?;
    let mtu = subject.port_attr()?.active_mtu;
    let (cq_a, cq_b) = (
        subject.context.create_cq(256)?,
        subject.context.create_cq(256)?,
    );
    let a = prepare(subject, &pd, QpType::Rc, (&cq_a, &cq_a), usual)?;
    let b = prepare(subject, &pd, QpType::Rc, (&cq_b, &cq_b), usual)?;
    let (paths, numbers) = (
        [a.path_to(&b.endpoint())?, b.path_to(&a.endpoint())?],
        [a.qp_num(), b.qp_num()],
    );
    let mut a = End::new(cq_a, a.into_raw());
    let mut b = End::new(cq_b, b.into_raw());
    for round in 0..ROUNDS {
        // Packets of an earlier incarnation must not match.
        let psn = Psn::from_raw(round * 4096 + 1);
        let up = |end: &mut End, path, peer| up(&mut end.qp, subject.port, (path, peer), mtu, psn);
        up(&mut a, paths[0], numbers[1])?;
        up(&mut b, paths[1], numbers[0])?;
        let seed = u64::from(round);
        for _ in 0..4 {
            let [mut text, room] = pd.buffers(64)?;
            fill(&mut text, seed);
            b.qp.recv(room, seed)?;
            a.qp.post(Work::send().memory(text).user_data(seed))?;
        }
        // One of four is checked; of the others some have completed and some have not.
        ours(&mut a, seed)?;
        compare(&buffer_of(ours(&mut b, seed)?)?, seed)?;
        let returned = a.qp.reset()?.len() + b.qp.reset()?.len();
        ensure(returned == 6, || {
            format!("{returned} buffers of 6 came back")
        })?;
    }
    Ok(Found::new(format_args!("{ROUNDS} times")))
}

/// The next completion of the current incarnation; those of earlier ones may still be in the queue.
fn ours(end: &mut End, seed: u64) -> Outcome<Ended> {
    loop {
        let qp = &mut end.qp;
        let next = take(&mut end.cq, |done| qp.exchange(done).ok())?;
        if let Some(finished) = next {
            ensure(finished.status().is_success(), || ended(&finished))?;
            ensure(finished.user_data() == seed, || {
                "a completion of an earlier incarnation".into()
            })?;
            return Ok(finished);
        }
    }
}

/// Takes a queue pair from RESET to RTS, connected to a peer over this path.
fn up(
    qp: &mut owned::QueuePair,
    port: u8,
    (path, peer): (AddressVector, u32),
    mtu: Mtu,
    psn: Psn,
) -> Outcome<()> {
    qp.modify(
        &QpAttr::to(QpState::Init)
            .pkey_index(0)
            .port(port)
            .access(REMOTE),
    )?;
    let rtr = QpAttr::to(QpState::ReadyToReceive)
        .av(path)
        .path_mtu(mtu)
        .dest_qpn(peer)
        .rq_psn(psn)
        .max_dest_rd_atomic(1)
        .min_rnr_timer(RnrTimer::default());
    qp.modify(&rtr)?;
    let rts = QpAttr::to(QpState::ReadyToSend)
        .sq_psn(psn)
        .timeout(AckTimeout::code(16).map_err(Trouble::failed)?)
        .retry_count(RetryCount::default())
        .rnr_retry(RnrRetry::default())
        .max_rd_atomic(1);
    Ok(qp.modify(&rts)?)
}

//! A server under tokio to which 200 peers a second connect, most of which do not behave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fake_tests::connections::{next, params, resolve};
use fake_tests::{Bench, PATIENCE};
use tokio::runtime::Builder;
use tokio::time::timeout;
use uverbs::asynchronous::AsyncEventChannel;
use uverbs::cm::{CmError, ConnectionEvent, EventKind, RejectReason, Request, Step};
use uverbs_core::cm as raw;
use uverbs_core::cm::{CmFile, PortSpace, PrivateData};
use uverbs_core::types::Ece;

use crate::eventually;
use crate::side::Side;

/// Peers a second that have to be served, how many are sent, and how many in all.
const RATE: u32 = 200;
const SENT: u32 = 250;
const PEERS: u32 = 600;
/// The limit of the handshake, and of a connection that nothing is heard of.
const DEADLINE: Duration = Duration::from_millis(300);
/// What a busy machine may take beyond that.
const SLACK: Duration = Duration::from_millis(500);

/// What a peer does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Peer {
    /// Connects, and disconnects.
    Behaves,
    /// Its process is killed while it is connected.
    IsKilled,
    /// Its process is killed when it has asked.
    GivesUp,
    /// Refuses what it was answered.
    Refuses,
    /// Asks, and is never heard of again.
    Vanishes,
    /// Connects, and is never heard of again.
    FallsSilent,
}

const PEERS_IN_TURN: [Peer; 6] = [
    Peer::Behaves,
    Peer::IsKilled,
    Peer::GivesUp,
    Peer::Refuses,
    Peer::Vanishes,
    Peer::FallsSilent,
];

#[derive(Debug, Default)]
struct Counts {
    established: AtomicU64,
    ended: AtomicU64,
    silent: AtomicU64,
    timed_out: AtomicU64,
    refused: AtomicU64,
    /// Of any task beyond its own limits, in microseconds.
    late: AtomicU64,
}

impl Counts {
    fn late(&self, took: Duration, limit: Duration) {
        let late = took.saturating_sub(limit).as_micros();
        let late = u64::try_from(late).unwrap_or(u64::MAX);
        self.late.fetch_max(late, Ordering::Relaxed);
    }
}

/// Answers one peer; nothing in it may wait longer than the limits say.
async fn answer(
    request: Request,
    server: Arc<Side>,
    channel: Arc<AsyncEventChannel>,
    counts: Arc<Counts>,
) {
    let start = Instant::now();
    let request = request.timeout(DEADLINE);
    let attached = request.attach(server.prepare()).unwrap();
    let mut connection = match channel.accept(attached).await {
        Ok(connection) => connection,
        Err(refused) => {
            let count = match refused.cause {
                CmError::TimedOut(Step::Accept) => &counts.timed_out,
                _ => &counts.refused,
            };
            count.fetch_add(1, Ordering::Relaxed);
            return counts.late(start.elapsed(), DEADLINE);
        }
    };
    counts.late(start.elapsed(), DEADLINE);
    counts.established.fetch_add(1, Ordering::Relaxed);
    let start = Instant::now();
    if let Ok(event) = timeout(DEADLINE, channel.event(connection.link())).await {
        assert_eq!(event.unwrap(), ConnectionEvent::Disconnected);
        counts.ended.fetch_add(1, Ordering::Relaxed);
    } else {
        // The peer may not answer this either.
        let _ = channel.disconnect(&mut connection, DEADLINE).await;
        counts.silent.fetch_add(1, Ordering::Relaxed);
    }
    counts.late(start.elapsed(), DEADLINE * 2);
}

/// What one peer does, with a channel of its own; what it leaves open.
fn play(bench: &Bench, port: u16, peer: Peer, qp_num: u32) -> Option<CmFile> {
    let file = bench.connection_manager().unwrap();
    let id = resolve(&file, 1, PortSpace::Tcp, port).unwrap();
    raw::connect(&file, id, &params(qp_num, &[]).unwrap(), Ece::default()).unwrap();
    if peer == Peer::GivesUp {
        return None;
    }
    assert!(file.wait_event(Some(PATIENCE)).unwrap());
    let answered = next(&file, EventKind::ConnectResponse);
    // The request may have taken longer than the server's limit.
    let Ok(_) = answered else { return None };
    match peer {
        Peer::Refuses => {
            let _ = raw::reject(&file, id, RejectReason::Consumer, &PrivateData::EMPTY);
            return None;
        }
        Peer::Vanishes => return Some(file),
        _ => {}
    }
    let _ = raw::establish(&file, id);
    match peer {
        Peer::Behaves => {
            let _ = raw::disconnect(&file, id);
            Some(file)
        }
        Peer::FallsSilent => Some(file),
        _ => None,
    }
}

#[test]
fn a_server_of_tasks_outlives_200_peers_a_second_that_die_refuse_and_vanish() {
    // The host may be busy with other tests.
    let is_reached = (0..5).any(|_| flood() >= f64::from(RATE));
    assert!(is_reached, "not {RATE} a second");
}

fn flood() -> f64 {
    let bench = Arc::new(Bench::newest());
    let server = Arc::new(Side::new(&bench));
    let listener = server.listen();
    let port = listener.local_addr().port();
    let counts = Arc::new(Counts::default());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let peers = {
        let bench = Arc::clone(&bench);
        thread::spawn(move || {
            let start = Instant::now();
            let left = (0..PEERS).map(|number| {
                thread::sleep((start + number * Duration::from_secs(1) / SENT) - Instant::now());
                let peer = PEERS_IN_TURN[number as usize % PEERS_IN_TURN.len()];
                play(&bench, port, peer, 0x10_0000 + number)
            });
            let left: Vec<_> = left.collect();
            (left, start.elapsed())
        })
    };
    let asked = runtime.block_on(async {
        let channel = Arc::new(AsyncEventChannel::new(server.channel.clone()).unwrap());
        let mut tasks = Vec::new();
        loop {
            match timeout(DEADLINE, channel.request(&listener)).await {
                Ok(request) => {
                    let (server, channel) = (Arc::clone(&server), Arc::clone(&channel));
                    let counts = Arc::clone(&counts);
                    tasks.push(tokio::spawn(answer(
                        request.unwrap(),
                        server,
                        channel,
                        counts,
                    )));
                }
                Err(_) if peers.is_finished() => break,
                Err(_) => {}
            }
        }
        let asked = tasks.len();
        for task in tasks {
            timeout(PATIENCE, task).await.expect("it ends").unwrap();
        }
        asked
    });
    let (left, played) = peers.join().unwrap();
    let rate = f64::from(PEERS) / played.as_secs_f64();
    println!("FIGURE: {PEERS} peers, {rate:.0} a second, {asked} requests: {counts:?}");
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let ends = [&counts.established, &counts.timed_out, &counts.refused];
    assert_eq!(ends.map(count).iter().sum::<u64>(), asked as u64);
    // Some of those that give up do so before their request is read.
    assert!(asked >= (PEERS / 6 * 5) as usize, "{asked}");
    for seen in [
        &counts.ended,
        &counts.silent,
        &counts.timed_out,
        &counts.refused,
    ] {
        assert!(count(seen) > 0, "{counts:?}");
    }
    let late = Duration::from_micros(count(&counts.late));
    assert!(late < SLACK, "a task was {late:?} late");
    drop((left, listener));
    eventually("ids are left", || bench.fake.connection_ids() == 0);
    rate
}

//! A server under tokio to which 200 peers a second connect, most of which do not behave, and
//! whose interface goes down meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::timeout;
use uverbs::asynchronous::AsyncEventChannel;
use uverbs::cm::{self, CmError, ConnectionEvent, EventChannel, Request, Step};
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, PreparedQueuePair, ProtectionDomain};

use crate::crowd::{Crowd, Peer};
use crate::support::child::{self, Forked};
use crate::support::objects::Objects;
use crate::{ADDRESS, Down, make_device_anew, sleep_until};

/// Peers a second that connect, and for how many seconds.
const RATE: u32 = 200;
const SECONDS: u32 = 3;
/// Processes that live on, and those of each second, which are killed: how many of each, and how
/// many peers a second each of them has.
const STAYING: u32 = 4;
const KILLED: u32 = 4;
const EACH: u32 = RATE / (STAYING + KILLED);
/// Peers of the last process, which come when the others have been answered, and how many of them
/// are answered when the interface goes down.
const LAST: u32 = 40;
const LAST_ANSWERED: usize = 10;
/// The limit of the handshake, and of a connection that nothing is heard of.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long the server may take for all of them on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How late a task may be, beside what the busy machine makes all of them late.
const SLACK: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);
/// How long the kernel may repeat messages to peers that are gone.
const KERNEL: Duration = Duration::from_secs(100);
const PORT: u16 = 7601;

const STAY: [Peer; 5] = [
    Peer::Behaves,
    Peer::GivesUp,
    Peer::Refuses,
    Peer::Vanishes,
    Peer::FallsSilent,
];
const DIE: [Peer; 2] = [Peer::Stays, Peer::Behaves];
const LIVE: [Peer; 1] = [Peer::Stays];

#[derive(Debug, Default)]
struct Counts {
    established: AtomicU64,
    ended: AtomicU64,
    silent: AtomicU64,
    timed_out: AtomicU64,
    refused: AtomicU64,
    gone: AtomicU64,
    failed: AtomicU64,
    /// Of any task beyond its own limits, in microseconds.
    late: AtomicU64,
    /// Of a task that does nothing but sleep.
    lag: AtomicU64,
}

impl Counts {
    fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn most(longest: &AtomicU64, took: Duration, limit: Duration) {
        let late = took.saturating_sub(limit).as_micros();
        let late = u64::try_from(late).unwrap_or(u64::MAX);
        longest.fetch_max(late, Ordering::Relaxed);
    }

    fn late(&self, took: Duration, limit: Duration) {
        Self::most(&self.late, took, limit);
    }
}

struct Server {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    channel: AsyncEventChannel,
    counts: Counts,
}

impl Server {
    fn prepare(&self) -> PreparedQueuePair<Rc> {
        let builder = self.pd.queue_pair(Rc, &self.cq, &self.cq);
        builder.build().unwrap()
    }

    /// Finds out how long the runtime takes until it comes back to a task.
    async fn watch(self: Arc<Self>) {
        loop {
            let start = Instant::now();
            tokio::time::sleep(TICK).await;
            Counts::most(&self.counts.lag, start.elapsed(), TICK);
        }
    }

    /// Answers one peer; nothing in it may wait longer than the limits say.
    async fn answer(self: Arc<Self>, request: Request) {
        let (counts, start) = (&self.counts, Instant::now());
        let Ok(attached) = request.timeout(DEADLINE).attach(self.prepare()) else {
            // Its peer has left.
            return Counts::add(&counts.gone);
        };
        let mut connection = match self.channel.accept(attached).await {
            Ok(connection) => connection,
            Err(refused) => {
                Counts::add(match refused.cause {
                    CmError::TimedOut(Step::Accept) => &counts.timed_out,
                    CmError::GaveUp | CmError::Rejected(_) => &counts.refused,
                    // Without its interface the device moves no queue pair.
                    _ => &counts.failed,
                });
                return counts.late(start.elapsed(), DEADLINE);
            }
        };
        counts.late(start.elapsed(), DEADLINE);
        Counts::add(&counts.established);
        let start = Instant::now();
        if let Ok(event) = timeout(DEADLINE, self.channel.event(connection.link())).await {
            assert_eq!(event.unwrap(), ConnectionEvent::Disconnected);
            Counts::add(&counts.ended);
        } else {
            // The peer may not answer this either.
            let _ = self.channel.disconnect(&mut connection, DEADLINE).await;
            Counts::add(&counts.silent);
        }
        counts.late(start.elapsed(), DEADLINE * 2);
    }
}

/// The processes of peers.
struct Crowds {
    stay: Vec<Forked>,
    /// Those that are killed, with when.
    die: Vec<(Instant, Forked)>,
    last: Forked,
}

fn crowds(start: Instant) -> Crowds {
    let crowd = |number: u32, peers, start: Option<Instant>, count| {
        child::start(|| {
            let crowd = Crowd {
                peers,
                count,
                start: start.map(|start| start + number * Duration::from_millis(3)),
                every: Duration::from_secs(1) / EACH,
                port: PORT,
                first_number: 0x10_0000 + (number << 12),
            };
            crowd.play();
        })
    };
    let stay = (0..STAYING).map(|number| crowd(number, &STAY[..], Some(start), EACH * SECONDS));
    let stay = stay.collect();
    let die = (0..SECONDS * KILLED).map(|number| {
        let second = number / KILLED;
        let start = start + Duration::from_secs(u64::from(second));
        let end = start + Duration::from_millis(u64::from(950 + number % KILLED * 100));
        (end, crowd(STAYING + number, &DIE[..], Some(start), EACH))
    });
    let die = die.collect();
    let last = crowd(STAYING + SECONDS * KILLED, &LIVE[..], None, LAST);
    Crowds { stay, die, last }
}

#[test]
fn rxe_by_address_a_server_of_tasks_outlives_a_flood_of_peers_that_die_and_a_dead_interface() {
    // The processes come first: this one has no threads and no device yet.
    let before = Objects::now();
    let start = Instant::now() + Duration::from_secs(4);
    let Crowds { stay, die, last } = crowds(start);
    let context = verbs_tests::open();
    let channel = EventChannel::open().unwrap();
    let at = SocketAddr::from((ADDRESS, PORT));
    let listener = cm::listen(at).channel(&channel).build().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let are_sent = AtomicBool::new(false);
    let (server, asked, down) = thread::scope(|scope| {
        scope.spawn(|| {
            for (end, one) in die {
                sleep_until(end);
                one.kill();
            }
            sleep_until(start + Duration::from_secs(u64::from(SECONDS)));
            are_sent.store(true, Ordering::Relaxed);
        });
        runtime.block_on(async {
            let server = Arc::new(Server {
                pd: context.alloc_pd().unwrap(),
                cq: context.create_cq(1024).unwrap(),
                channel: AsyncEventChannel::new(channel).unwrap(),
                counts: Counts::default(),
            });
            let watching = tokio::spawn(Arc::clone(&server).watch());
            let (mut asked, mut down) = (0, None);
            // Those of the flood, until it is over; then the last ones.
            for is_flood in [true, false] {
                let mut tasks = Vec::new();
                loop {
                    match timeout(DEADLINE, server.channel.request(&listener)).await {
                        Ok(request) => {
                            let answer = Arc::clone(&server).answer(request.unwrap());
                            tasks.push(tokio::spawn(answer));
                            yield_now().await;
                        }
                        Err(_) if is_flood && !are_sent.load(Ordering::Relaxed) => {}
                        Err(_) => break,
                    }
                    if !is_flood && down.is_none() && tasks.len() >= LAST_ANSWERED {
                        down = Some(Down::now());
                    }
                }
                asked += tasks.len();
                for task in tasks {
                    timeout(PATIENCE, task).await.expect("it ends").unwrap();
                }
                if is_flood {
                    last.go_on();
                }
            }
            watching.abort();
            (server, asked, down.expect("the last ones came"))
        })
    });
    let (took, counts) = (start.elapsed(), &server.counts);
    println!("FIGURE: {asked} requests, {RATE} sent a second, all over after {took:?}: {counts:?}");
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let ends = [
        &counts.established,
        &counts.timed_out,
        &counts.refused,
        &counts.gone,
        &counts.failed,
    ];
    assert_eq!(ends.map(count).iter().sum::<u64>(), asked as u64);
    assert!(asked as u64 >= u64::from(RATE * SECONDS / 4), "{asked}");
    let kinds = [
        &counts.ended,
        &counts.silent,
        &counts.timed_out,
        &counts.refused,
    ];
    assert!(
        kinds.iter().all(|kind| count(kind) > 0),
        "not all ends were seen: {counts:?}"
    );
    let failed = count(&counts.failed);
    assert!(failed <= u64::from(LAST), "{failed} failed");
    let [late, lag] = [&counts.late, &counts.lag].map(|time| Duration::from_micros(count(time)));
    assert!(
        late < SLACK + 3 * lag,
        "a task was {late:?} late, all by {lag:?}"
    );

    // What the peers left is gone with them, and the kernel has forgotten all ids.
    let closing = Instant::now();
    stay.into_iter().chain([last]).for_each(Forked::kill);
    println!(
        "FIGURE: the peers that lived on had ended after {:?}",
        closing.elapsed()
    );
    drop((listener, server, runtime));
    assert_eq!(context.leaked(), 0);
    drop((context, down));
    let took = before.return_within(KERNEL);
    println!("FIGURE: no object was left after {took:?}");
    make_device_anew();
}

//! A server of streams under tokio whose peers are killed, read slowly, and lose the network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};
use tokio::time::{sleep, timeout};
use uverbs::asynchronous::AsyncCompletionChannel;
use uverbs::stream::{Stream, StreamListener, Streams};

use crate::support::child::{self, Forked};
use crate::support::kernel_log::{FAILED_REQUEST, excuse};
use crate::support::objects::Objects;
use crate::talk::{Ends, LIMIT, Pace, ROOM, Talker, Text};
use crate::{ADDRESS, Down, make_device_anew};

/// Streams of a process; the numbers of a process's streams.
const EACH: u64 = 8;
/// Bytes in each direction: more than all credits together.
const WHOLE: u64 = 300_000;
/// More than anybody lives to see.
const ENDLESS: u64 = u64::MAX >> 24;
/// What is under way when a peer dies.
const MOMENT: Duration = Duration::from_millis(700);

/// How one direction of a stream ended.
#[derive(Debug)]
struct End {
    bytes: u64,
    result: io::Result<()>,
    at: Instant,
}

/// Both directions of the stream of a number: what this side reads, and what it writes.
struct Talk {
    number: u64,
    read: JoinHandle<End>,
    write: JoinHandle<End>,
}

impl Talk {
    async fn ends(self) -> [End; 2] {
        let end = async |what: &str, task| {
            let end: Result<Result<End, _>, _> = timeout(LIMIT, task).await;
            let does_not = || format!("stream {}: its {what} does not end", self.number);
            end.unwrap_or_else(|_| panic!("{}", does_not())).unwrap()
        };
        [
            end("reader", self.read).await,
            end("writer", self.write).await,
        ]
    }
}

async fn ended(task: impl Future<Output = (u64, io::Result<()>)>) -> End {
    let (bytes, result) = task.await;
    End {
        bytes,
        result,
        at: Instant::now(),
    }
}

async fn read(number: u64, mut from: ReadHalf<Stream>) -> (u64, io::Result<()>) {
    let (text, mut at, mut piece) = (Text::to_passive(number), 0, [0; ROOM]);
    let pace = Pace::of(number);
    loop {
        match from.read(&mut piece[..pace.room]).await {
            Ok(0) => return (at, Ok(())),
            Ok(len) => {
                text.check(at, &piece[..len]);
                at += len as u64;
            }
            Err(error) => return (at, Err(error)),
        }
        if let Some(pause) = pace.pause {
            sleep(pause).await;
        }
    }
}

async fn write(number: u64, len: u64, mut to: WriteHalf<Stream>) -> (u64, io::Result<()>) {
    let (text, mut at) = (Text::to_active(number), 0);
    let pace = Pace::of(number);
    while at < len {
        let piece = text.piece(at, len);
        if let Err(error) = to.write_all(&piece).await {
            return (at, Err(error));
        }
        at += piece.len() as u64;
        match pace.rest {
            Some(rest) => sleep(rest).await,
            // While it has room, a stream is ready at once.
            None => yield_now().await,
        }
    }
    (at, to.shutdown().await)
}

struct Server {
    streams: Streams,
    listener: Arc<StreamListener>,
}

impl Server {
    /// Needs a runtime.
    fn new(port: u16) -> Self {
        let pd = verbs_tests::open().alloc_pd().unwrap();
        let streams = pd.streams().build().unwrap();
        let hub = streams.hub();
        let (events, driver) = (hub.channel().clone(), hub.driver());
        let events = AsyncCompletionChannel::new(events).unwrap();
        tokio::spawn(async move { driver.run_async(&events).await });
        let listener = streams.listen(SocketAddr::from((ADDRESS, port))).unwrap();
        Self {
            listener: Arc::new(listener),
            streams,
        }
    }

    /// Takes the streams of so many processes, and talks on them.
    async fn take(&self, processes: u64, len: impl Fn(u64) -> u64) -> Vec<Talk> {
        let mut talks = Vec::new();
        for _ in 0..processes * EACH {
            let stream = timeout(LIMIT, self.listener.accept_async()).await;
            let (mut from, to) = split(stream.expect("a stream").unwrap());
            let number = timeout(LIMIT, from.read_u64_le()).await;
            let number = number.expect("its name").unwrap();
            talks.push(Talk {
                number,
                read: tokio::spawn(ended(read(number, from))),
                write: tokio::spawn(ended(write(number, len(number), to))),
            });
        }
        talks
    }

    async fn is_clean(&self) {
        let counts = || self.streams.hub().counts();
        let clean = || counts().connections == 0 && counts().free_buffers == counts().buffers;
        let start = Instant::now();
        while !clean() {
            assert!(
                start.elapsed() < LIMIT,
                "buffers are missing: {:?}",
                counts()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn is_lost(end: &End) -> bool {
    matches!(&end.result, Err(error) if error.kind() == io::ErrorKind::ConnectionReset)
}

fn is_whole(end: &End) -> bool {
    end.result.is_ok() && end.bytes == WHOLE
}

/// Every end of these is `right`; says how long after `since` the last one was.
async fn all(what: &str, talks: Vec<Talk>, since: Instant, right: impl Fn(&End) -> bool) {
    let (mut bytes, mut last) = (0, since);
    for talk in talks {
        for end in talk.ends().await {
            assert!(right(&end), "{what}: {end:?}");
            bytes += end.bytes;
            last = last.max(end.at);
        }
    }
    println!(
        "FIGURE: {what}: {bytes} bytes, the last end after {:?}",
        last - since
    );
}

/// The talks of one process.
fn of(talks: &mut Vec<Talk>, process: u64) -> Vec<Talk> {
    talks
        .extract_if(.., |talk| talk.number / EACH == process)
        .collect()
}

/// A process of streams, which is stopped if it is to wait.
fn process(number: u64, len: u64, ends: Ends, port: u16, waits: bool) -> Forked {
    let talker = Talker {
        first: number * EACH,
        count: EACH,
        len,
        ends,
        waits,
        port,
    };
    child::start(|| talker.talk())
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test)
}

#[test]
fn rxe_by_address_streams_of_a_server_end_when_their_peers_are_killed_and_others_go_on() {
    const PORT: u16 = 7602;
    let before = Objects::now();
    let killed = [0, 1].map(|number| process(number, ENDLESS, Ends::Lost, PORT, false));
    let lives = process(2, WHOLE, Ends::Whole, PORT, false);
    let later = process(3, WHOLE, Ends::Whole, PORT, true);
    run(async {
        let server = Server::new(PORT);
        let start = Instant::now();
        let mut talks = server
            .take(3, |number| if number / EACH == 2 { WHOLE } else { ENDLESS })
            .await;
        for (number, one) in (0..).zip(killed) {
            sleep(MOMENT).await;
            let talks = of(&mut talks, number);
            let since = Instant::now();
            let killing = spawn_blocking(move || {
                one.kill();
                println!(
                    "FIGURE: a process was gone {:?} after its kill",
                    since.elapsed()
                );
            });
            all("of the killed", talks, since, is_lost).await;
            killing.await.unwrap();
        }
        all("of those that live", talks, start, is_whole).await;
        let start = Instant::now();
        later.go_on();
        let talks = server.take(1, |_| WHOLE).await;
        all("of those that came later", talks, start, is_whole).await;
        server.is_clean().await;
    });
    lives.join();
    later.join();
    println!(
        "FIGURE: no object was left after {:?}",
        before.return_within(LIMIT)
    );
}

#[test]
fn rxe_by_address_streams_end_when_the_network_is_gone() {
    const PORT: u16 = 7603;
    excuse(FAILED_REQUEST);
    let before = Objects::now();
    let lost = process(0, ENDLESS, Ends::Lost, PORT, false);
    run(async {
        let server = Server::new(PORT);
        let talks = server.take(1, |_| ENDLESS).await;
        sleep(MOMENT).await;
        let (since, down) = (Instant::now(), Down::now());
        all("without a network", talks, since, is_lost).await;
        spawn_blocking(|| lost.join()).await.unwrap();
        println!("FIGURE: the peer had noticed after {:?}", since.elapsed());
        server.is_clean().await;
        drop(down);
    });
    println!(
        "FIGURE: no object was left after {:?}",
        before.return_within(LIMIT)
    );
    make_device_anew();
}

#[test]
fn rxe_by_address_streams_lose_nothing_while_the_network_comes_and_goes() {
    const PORT: u16 = 7604;
    excuse(FAILED_REQUEST);
    let talker = process(0, WHOLE, Ends::Either, PORT, false);
    run(async {
        let server = Server::new(PORT);
        let (start, talks) = (Instant::now(), server.take(1, |_| WHOLE).await);
        for _ in 0..5 {
            sleep(MOMENT / 2).await;
            drop(Down::now());
        }
        all("with gaps", talks, start, |end| {
            is_whole(end) || is_lost(end)
        })
        .await;
        server.is_clean().await;
    });
    talker.join();
    make_device_anew();
}

//! A thousand connections, each with a server task and a client task of one tokio thread. The
//! clients drop the futures of requests and of answers at random, in the middle of them; every
//! answer that is awaited is the right one, and in the end all buffers are back.
//!
//! `many_tasks [DEVICE [CONNECTIONS [ROUNDS]]]`

use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use uverbs::asynchronous::AsyncCompletionChannel;
use uverbs::hub::{Connection, Hub, Message};
use uverbs::{Context, ProtectionDomain};

/// The longest that an answer may take, while a thousand others are under way.
const PATIENCE: Duration = Duration::from_secs(300);

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match play().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn play() -> Result<(), Failure> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let number = |at: usize, default| args.get(at).map_or(Ok(default), |text| text.parse());
    let device = args.first().map_or("rxe0", String::as_str);
    let (count, rounds) = (number(1, 100)?, number(2, 10)? as u64);

    let context = Context::open(device)?;
    let pd = context.alloc_pd()?;
    let (server, client) = (hub(&pd, count)?, hub(&pd, count)?);
    let dropped = Arc::new(AtomicUsize::new(0));
    for wave in 1..=2 {
        let mut tasks = Vec::new();
        for number in 0..count {
            let (here, there) = (client.prepare()?, server.prepare()?);
            let endpoint = here.endpoint();
            let (here, there) = (here.connect(there.endpoint())?, there.connect(endpoint)?);
            tokio::spawn(answer(there));
            let seed = number as u64 + 1;
            let task = ask(client.clone(), here, seed, rounds, dropped.clone());
            tasks.push(tokio::spawn(task));
        }
        let mut answers = 0;
        for task in tasks {
            answers += task.await??;
        }
        let dropped = dropped.swap(0, Ordering::Relaxed);
        for hub in [&client, &server] {
            until_clean(hub).await?;
        }
        let buffers = client.counts().buffers + server.counts().buffers;
        println!("{answers} answers, {dropped} futures dropped, all buffers back");
        println!("wave {wave}: {buffers} buffers, {} kB after", resident()?);
    }
    drop((server, client, pd));
    println!("{count} connections each time, {} leaked", context.leaked());
    Ok(())
}

fn hub(pd: &ProtectionDomain, connections: usize) -> Result<Arc<Hub>, Failure> {
    let hub = pd
        .hub()
        .connections(connections)
        .sends(2)
        .receives(2)
        .buffer_size(64)
        .keepalive(Duration::from_millis(500))
        .build()?;
    let events = AsyncCompletionChannel::new(hub.channel().clone())?;
    let driver = hub.driver();
    tokio::spawn(async move { driver.run_async(&events).await });
    Ok(Arc::new(hub))
}

/// Sends every message back, until the peer is gone.
async fn answer(connection: Connection) {
    while let Ok(message) = connection.recv().await {
        let (buffer, len) = message.into_buffer();
        if connection.send(buffer, len).await.is_err() {
            break;
        }
    }
}

/// Sends numbers and awaits their echoes; returns how many arrived.
async fn ask(
    hub: Arc<Hub>,
    connection: Connection,
    seed: u64,
    rounds: u64,
    dropped: Arc<AtomicUsize>,
) -> Result<usize, Failure> {
    let mut random = seed;
    let mut impatient = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.is_multiple_of(3)
    };
    let mut echoes = Vec::new();
    for round in 0..rounds {
        let mut buffer = hub.buffer()?;
        buffer[..8].copy_from_slice(&round.to_ne_bytes());
        let mut request = pin!(connection.send(buffer, 8));
        if impatient() {
            // It was posted, or not if there was no room; nobody learns which.
            dropped.fetch_add(1, Ordering::Relaxed);
            let later = tokio::task::yield_now();
            tokio::select! { biased; _ = request => {}, () = later => {} }
            continue;
        }
        let mut is_sent = false;
        let limit = tokio::time::Instant::now() + PATIENCE;
        // The echo of the last request that was awaited comes for certain, after all others.
        while !is_sent || echoes.last() != Some(&round) {
            tokio::select! {
                sent = &mut request, if !is_sent => {
                    drop(sent?);
                    is_sent = true;
                }
                message = connection.recv() => echoes.push(number_in(&message?)?),
                () = tokio::time::sleep_until(limit) => return Err("no answer in time".into()),
            }
            // A future of a message that had not come yet was dropped, too.
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
    if !echoes.is_sorted_by(|one, next| one < next) {
        return Err(format!("not in the order in which they were sent: {echoes:?}").into());
    }
    Ok(echoes.len())
}

fn number_in(message: &Message) -> Result<u64, Failure> {
    let number = message.first_chunk().ok_or("a short answer")?;
    Ok(u64::from_ne_bytes(*number))
}

async fn until_clean(hub: &Hub) -> Result<(), Failure> {
    for _ in 0..10_000 {
        let counts = hub.counts();
        if counts.connections == 0 && counts.buffers == counts.free_buffers {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("not everything came back: {:?}", hub.counts()).into())
}

/// How much memory this process has, in kB.
fn resident() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmRSS")?.parse()?)
}

//! A key-value server with many connections on one completion queue. It starts clients as
//! processes of their own, and kills half of them while they work: the others do not notice, and
//! the server gets all of its memory back. The second time it needs no more than the first.
//!
//! `key_value [DEVICE [CLIENTS [CONNECTIONS OF EACH]]]`

use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use uverbs::hub::{Connection, Hub, PooledBuffer};
use uverbs::{Context, QueuePairEndpoint};

/// The longest that an answer may take, on a machine that is busy with all the others.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often a client that is not killed sets and gets a value on each of its connections.
const ROUNDS: usize = 20;
/// A request is its first byte, a key of 8 bytes, and for `SET` a value.
const SET: u8 = 1;
const GET: u8 = 2;
const HEAD: usize = 9;

type Failure = Box<dyn Error + Send + Sync>;
type Store = Mutex<HashMap<[u8; 8], Vec<u8>>>;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let number = |at: usize, default| match args.get(at) {
        Some(text) => text.parse::<usize>().map_err(Failure::from),
        None => Ok(default),
    };
    let device = args.first().map_or("rxe0", String::as_str);
    let done = match args.get(3) {
        Some(server) => {
            number(1, 1).and_then(|rounds| client(device, rounds, number(2, 1)?, server))
        }
        None => number(1, 8).and_then(|clients| play(device, clients, number(2, 4)?)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hub(device: &str, connections: usize) -> Result<Hub, Failure> {
    let pd = Context::open(device)?.alloc_pd()?;
    let hub = pd
        .hub()
        .connections(connections)
        .sends(2)
        .receives(2)
        .buffer_size(256)
        .keepalive(Duration::from_millis(500))
        .build()?;
    let driver = hub.driver();
    thread::spawn(move || driver.run());
    Ok(hub)
}

/// Tells the other side who we are, and learns who it is.
fn exchange(hub: &Hub, stream: &mut TcpStream) -> Result<Connection, Failure> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let prepared = hub.prepare()?;
    stream.write_all(&prepared.endpoint().to_bytes())?;
    let mut theirs = [0; QueuePairEndpoint::BYTES];
    stream.read_exact(&mut theirs)?;
    let theirs = QueuePairEndpoint::from_bytes(&theirs).ok_or("not an endpoint")?;
    let connection = prepared.connect(theirs)?;
    // Neither sends before both can receive.
    stream.write_all(&[1])?;
    stream.read_exact(&mut [0])?;
    Ok(connection)
}

/// The server, and everything that happens to it.
fn play(device: &str, clients: usize, each: usize) -> Result<(), Failure> {
    let hub = Arc::new(hub(device, clients * each)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let store = Arc::new(Store::default());
    let all_here = Arc::new(Barrier::new(clients * each));
    let for_all = (Arc::clone(&hub), Arc::clone(&store));
    thread::spawn(move || accept(&listener, &for_all.0, &for_all.1, &all_here));
    let threads = of_this_process("Threads:")?;

    for wave in 1..=2 {
        let (killed, finished) = (clients / 2, clients - clients / 2);
        let rounds = |number| if number < killed { usize::MAX } else { ROUNDS };
        let mut processes = (0..clients)
            .map(|number| start(device, rounds(number), each, address))
            .collect::<Result<Vec<_>, _>>()?;
        let limit = PATIENCE + Duration::from_millis(400) * u32::try_from(clients * each)?;
        until("all set a value", limit, || {
            lock(&store).len() == clients * each
        })?;
        let with_all = of_this_process("VmRSS:")?;
        for process in processes.iter_mut().take(killed) {
            process.kill()?; // SIGKILL
            process.wait()?;
        }
        for process in processes.iter_mut().skip(killed) {
            if !process.wait()?.success() {
                return Err("a client did not get its answers".into());
            }
        }
        until("all are gone, and their threads and buffers", limit, || {
            let counts = hub.counts();
            let threads_left = of_this_process("Threads:").is_ok_and(|now| now > threads);
            counts.connections == 0 && !threads_left && counts.buffers == counts.free_buffers
        })?;
        lock(&store).clear();
        let (buffers, after) = (hub.counts().buffers, of_this_process("VmRSS:")?);
        println!("{killed} clients were killed, {finished} finished, nothing leaked");
        println!("wave {wave}: {buffers} buffers, {with_all} kB with all, {after} kB after");
    }
    Ok(())
}

/// What the kernel says of this process, such as how much memory it has.
fn of_this_process(what: &'static str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or(what)?.parse()?)
}

fn start(device: &str, rounds: usize, each: usize, to: SocketAddr) -> std::io::Result<Child> {
    let [rounds, each, to] = [rounds.to_string(), each.to_string(), to.to_string()];
    Command::new(std::env::current_exe()?)
        .args([device, &rounds, &each, &to])
        .spawn()
}

fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) -> Result<(), Failure> {
    let since = Instant::now();
    while !is_so() {
        if since.elapsed() > limit {
            return Err(format!("waited for this: {what}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn lock(store: &Store) -> std::sync::MutexGuard<'_, HashMap<[u8; 8], Vec<u8>>> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, hub: &Arc<Hub>, store: &Arc<Store>, all_here: &Arc<Barrier>) {
    for stream in listener.incoming() {
        let (hub, store, all_here) = (hub.clone(), store.clone(), all_here.clone());
        // A client that is lost ends its own thread, and nothing else.
        thread::spawn(move || -> Result<(), Failure> {
            let connection = exchange(&hub, &mut stream?)?;
            all_here.wait();
            loop {
                let request = connection.recv().wait(Duration::MAX)?;
                let (buffer, len) = answer(&store, &request, hub.buffer()?);
                drop(request);
                drop(connection.send(buffer, len).wait(PATIENCE)?);
            }
        });
    }
}

fn answer(store: &Store, request: &[u8], mut reply: PooledBuffer) -> (PooledBuffer, usize) {
    let Some((head, value)) = request.split_first_chunk::<HEAD>() else {
        return (reply, 0);
    };
    let [operation, key @ ..] = *head;
    let mut store = lock(store);
    if operation == SET {
        store.insert(key, value.to_vec());
        return (reply, 0);
    }
    let value = store.get(&key).map(Vec::as_slice).unwrap_or_default();
    reply[..value.len()].copy_from_slice(value);
    (reply, value.len())
}

/// A process of its own.
fn client(device: &str, rounds: usize, connections: usize, server: &str) -> Result<(), Failure> {
    let hub = hub(device, connections)?;
    let all = (0..connections)
        .map(|_| exchange(&hub, &mut TcpStream::connect(server)?))
        .collect::<Result<Vec<_>, _>>()?;
    for round in 0..rounds as u64 {
        for connection in &all {
            let key = u64::from(std::process::id()) << 32 | u64::from(connection.qp_num());
            let value = (key ^ round).to_ne_bytes();
            ask(&hub, connection, SET, key, &value)?;
            if ask(&hub, connection, GET, key, &[])? != value {
                return Err("another value came back".into());
            }
        }
    }
    Ok(())
}

fn ask(hub: &Hub, to: &Connection, what: u8, key: u64, value: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut buffer = hub.buffer()?;
    let request = [&[what][..], &key.to_ne_bytes(), value].concat();
    buffer[..request.len()].copy_from_slice(&request);
    drop(to.send(buffer, request.len()).wait(PATIENCE)?);
    Ok(to.recv().wait(PATIENCE)?.to_vec())
}

//! Connections by address, one after the other: `one-by-one ADDRESS FIRST COUNT`, where both ends
//! are in this process. Each carries a message in both directions, and is ended by both sides.
//!
//! Prints the bytes of memory that the process has and the files that it has open, after the first
//! ones and after all.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use interop::side::{Outcome, RECEIVE, Side};
use uverbs::cm::{Connection, ConnectionEvent, Listener};
use uverbs::owned::Buffer;

/// How long an end may be under way.
const LIMIT: Duration = Duration::from_secs(20);
const TEXT: &[u8] = b"one after the other";

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, first, count] = &args[..] else {
        return Err("ADDRESS FIRST COUNT".into());
    };
    let (first, count): (u32, u32) = (first.parse()?, count.parse()?);
    let at = SocketAddr::new(address.parse()?, 0);
    let (mut client, mut server) = (Side::new(at)?, Side::new(at)?);
    let listener = server.listen(at)?;
    let to = listener.local_addr();
    thread::scope(|scope| {
        let serving = scope.spawn(|| (0..count).try_for_each(|_| serve(&mut server, &listener)));
        let mut asked = (0..count).try_for_each(|number| {
            if number == first {
                report(&client)?;
            }
            ask(&mut client, to)
        });
        let result = serving.join().map_err(|_| "the server failed")?;
        if asked.is_ok() {
            asked = report(&client);
        }
        result.and(asked)
    })
}

fn ask(side: &mut Side, to: SocketAddr) -> Outcome<()> {
    let [mut question, answer] = side.pd.buffers(64)?;
    let mut connection = side.connect(to, Some(answer))?;
    question
        .get_mut(..TEXT.len())
        .ok_or("a short buffer")?
        .copy_from_slice(TEXT);
    let queue = connection.queue_pair();
    queue
        .send(question, TEXT.len(), 2)
        .map_err(|refused| refused.error)?;
    let answer = taken(side, &mut connection)?;
    if answer.get(..TEXT.len()) != Some(TEXT) {
        return Err("another answer".into());
    }
    connection.disconnect(LIMIT)?;
    Ok(())
}

fn serve(side: &mut Side, listener: &Listener) -> Outcome<()> {
    let [buffer] = side.pd.buffers(64)?;
    let mut connection = side.accept(listener, Some(buffer))?;
    let question = taken(side, &mut connection)?;
    let queue = connection.queue_pair();
    queue
        .send(question, TEXT.len(), 2)
        .map_err(|refused| refused.error)?;
    match connection.event(Some(LIMIT))? {
        Some(ConnectionEvent::Disconnected) => Ok(()),
        other => Err(format!("{other:?} instead of the end").into()),
    }
}

/// The memory of the receive, once it has ended, and with it the send before it.
fn taken(side: &mut Side, connection: &mut Connection) -> Outcome<Buffer> {
    let since = Instant::now();
    while since.elapsed() < LIMIT {
        let Some(completion) = side.cq.poll()? else {
            // Two threads that poll would leave no processor to the device, which is the kernel's.
            thread::sleep(Duration::from_micros(50));
            continue;
        };
        // Another's is of a connection that is over.
        let Ok(finished) = connection.queue_pair().complete(completion) else {
            continue;
        };
        if !finished.status().is_success() {
            return Err(finished.status().to_string().into());
        }
        if finished.user_data() == RECEIVE {
            return finished.into_buffer().ok_or_else(|| "no buffer".into());
        }
    }
    Err(format!("no message in time: {connection:?}").into())
}

/// Once everything that was dropped is destroyed.
fn report(side: &Side) -> Outcome<()> {
    let since = Instant::now();
    while side.destroying() > 0 && since.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(5));
    }
    let pages: u64 = fs::read_to_string("/proc/self/statm")?
        .split_whitespace()
        .nth(1)
        .ok_or("statm")?
        .parse()?;
    let files = fs::read_dir("/proc/self/fd")?.count();
    println!("{} {files}", pages * 4096);
    Ok(())
}

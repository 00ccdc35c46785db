//! How long a program waits for dropping its connections: `drop-times ADDRESS COUNT`, where both
//! ends are in this process. Prints the microseconds of all of them and of the longest.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use interop::side::{Outcome, Side};
use uverbs::cm::Connection;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, count] = &args[..] else {
        return Err("ADDRESS COUNT".into());
    };
    let count: u32 = count.parse()?;
    let at = SocketAddr::new(address.parse()?, 0);
    let (client, server) = (Side::new(at)?, Side::new(at)?);
    let listener = server.listen(at)?;
    let to = listener.local_addr();
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| (0..count).map(|_| server.accept(&listener, None)).collect());
        let ours: Outcome<Vec<_>> = (0..count).map(|_| client.connect(to, None)).collect();
        let theirs: Outcome<Vec<_>> = theirs.join().map_err(|_| "the server failed")?;
        Outcome::Ok((ours?, theirs?))
    })?;
    let begin = Instant::now();
    let times: Vec<_> = ours.into_iter().map(drop_timed).collect();
    let all = begin.elapsed();
    let longest = times.into_iter().max().unwrap_or_default();
    println!("{} {}", all.as_micros(), longest.as_micros());
    drop(theirs);
    Ok(())
}

fn drop_timed(connection: Connection) -> Duration {
    let start = Instant::now();
    drop(connection);
    start.elapsed()
}

//! Reaching a server within a time limit: resolving its name, connecting, agreeing on a test.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};

/// What `--wait` says: when all of it has to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    start: Instant,
    limit: Duration,
}

/// How long a new attempt waits after a refused one.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// The least time for one attempt, so that a limit of 0 means one attempt.
pub(crate) const LEAST: Duration = Duration::from_secs(1);

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.start.elapsed() >= self.limit
    }

    /// What is left, and never zero: sockets take that for "no limit".
    pub(crate) fn left(&self) -> Duration {
        self.limit
            .saturating_sub(self.start.elapsed())
            .max(Duration::from_millis(1))
    }
}

/// Connects to `host`. While nothing listens there, tries again until the deadline.
///
/// Resolving the name and each attempt end at the deadline, but have at least a second.
pub(crate) fn connect(host: &str, port: u16, deadline: Deadline) -> Result<TcpStream> {
    let failed =
        |error: &io::Error| Failure::new(format_args!("connecting to {host} port {port}: {error}"));
    let addresses = resolve(host, port, deadline)
        .map_err(|error| failed(&error).hint("is the name right, and does it resolve here?"))?;
    loop {
        let error = match attempt(&addresses, deadline) {
            Ok(stream) => {
                return stream
                    .set_nodelay(true)
                    .map(|()| stream)
                    .map_err(|e| failed(&e));
            }
            Err(error) => error,
        };
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        if refused && !deadline.is_over() {
            sleep(PAUSE.min(deadline.left()));
            continue;
        }
        return Err(if refused {
            failed(&error).hint("start the server first: the same command without a host")
        } else {
            failed(&error).hint(
                "is the host up, and does a firewall let this port through? \
                 --wait SECONDS tries longer",
            )
        });
    }
}

/// One attempt with each address.
fn attempt(addresses: &[SocketAddr], deadline: Deadline) -> io::Result<TcpStream> {
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, deadline.left().max(LEAST)) {
            Ok(stream) => return Ok(stream),
            // One that refuses has a host that is up: the better news of the two.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => last = Some(error),
            Err(error) => last = last.or(Some(error)),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("the name has no address")))
}

/// The addresses of a host. A resolver that does not answer is left behind in its thread.
pub(crate) fn resolve(host: &str, port: u16, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
    let bare = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let found = (bare.as_str(), port).to_socket_addrs();
        // The receiver is gone if this took too long.
        let _ = sender.send(found.map(Iterator::collect));
    });
    answer
        .recv_timeout(deadline.left().max(LEAST))
        .unwrap_or_else(|_| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the name server is silent",
            ))
        })
}

/// A connection whose every read and write ends at the deadline.
pub(crate) struct Bounded<'a> {
    stream: &'a TcpStream,
    deadline: Deadline,
}

impl<'a> Bounded<'a> {
    pub(crate) fn new(stream: &'a TcpStream, deadline: Deadline) -> Self {
        Self { stream, deadline }
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()))?;
        self.stream.read(bytes).map_err(named)
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()))?;
        self.stream.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end of a time limit, which sockets report as `WouldBlock`.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::other("no answer within the time that --wait gives")
        }
        _ => error,
    }
}

/// Lets the kernel notice within half a minute that the peer's host is gone, also while neither
/// side has anything to say.
pub(crate) fn keep_alive(stream: &TcpStream) -> Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, Duration::from_secs(10)))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5)))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, 4))
        .map_err(|error| Failure::new(format_args!("setting up the connection: {error}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::net::TcpListener;

    /// A listener whose queue is full, so that further connections are never answered.
    fn deaf() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let queued = (0..4)
            .map_while(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok())
            .collect();
        (listener, queued, address)
    }

    #[test]
    fn a_host_that_does_not_answer_ends_in_time() {
        let (_listener, _queued, address) = deaf();
        let start = Instant::now();
        let limit = Deadline::after(Duration::from_millis(1200));
        let refused = connect("127.0.0.1", address.port(), limit).unwrap_err();
        assert!(refused.to_string().contains("firewall"), "{refused}");
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn a_server_that_is_not_there_is_retried_until_the_deadline() {
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let start = Instant::now();
        let limit = Duration::from_millis(300);
        let refused = connect("127.0.0.1", free.port(), Deadline::after(limit)).unwrap_err();
        assert!(
            refused.to_string().contains("start the server first"),
            "{refused}"
        );
        assert!(start.elapsed() >= limit);
    }

    #[test]
    fn bytes_that_trickle_do_not_move_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut slow = listener.accept().unwrap().0;
        let writer = thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                sleep(Duration::from_millis(20));
            }
        });
        let start = Instant::now();
        let mut bounded = Bounded::new(&stream, Deadline::after(Duration::from_millis(300)));
        let error = bounded.read_exact(&mut [0; 4096]).unwrap_err();
        assert!(error.to_string().contains("--wait"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5));
        drop(stream);
        writer.join().unwrap();
    }

    #[test]
    fn names_and_bracketed_addresses_resolve() {
        let limit = Deadline::after(Duration::from_secs(5));
        assert_eq!(
            resolve("[::1]", 7, limit).unwrap(),
            ["[::1]:7".parse().unwrap()]
        );
        assert!(resolve("host.invalid", 7, limit).is_err());
    }
}

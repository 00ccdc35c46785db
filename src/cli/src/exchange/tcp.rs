//! TCP connections with time limits and errors that name the peer.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::failure::{Failure, Result};

/// How long a peer may take for one step of an exchange.
pub(crate) const STEP: Duration = Duration::from_secs(30);

/// Listens on all addresses, both IPv6 and IPv4 where available.
pub(crate) fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind(("::", port))
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
        .map_err(|error| {
            let failure = Failure::new(format_args!("listening on TCP port {port}: {error}"));
            if error.kind() == io::ErrorKind::AddrInUse {
                failure.hint("another server runs there; choose another port with -p")
            } else {
                failure
            }
        })
}

/// Waits for a client.
pub(crate) fn accept(listener: &TcpListener) -> Result<TcpStream> {
    listener
        .accept()
        .and_then(|(stream, _)| prepared(stream))
        .map_err(|error| Failure::new(format_args!("waiting for a client: {error}")))
}

/// Gives each step of the exchange a time limit.
pub(crate) fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STEP))?;
    stream.set_write_timeout(Some(STEP))?;
    Ok(stream)
}

/// The failure of reading from or writing to a peer.
pub(crate) fn broken(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => Failure::new("the peer ended the exchange early")
            .hint("its own output says why; both sides must run the same test"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::new(format_args!(
            "the peer said nothing for {} s",
            STEP.as_secs()
        ))
        .hint("both sides must run the same test"),
        _ => Failure::new(format_args!("talking to the peer: {error}")),
    }
}

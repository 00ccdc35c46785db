//! The protocol between client and server of a test: JSON, one message per line, over TCP.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde::{Deserialize, Serialize};
use uverbs::memory::RemoteKey;
use uverbs::{QueuePairEndpoint, Remote};

use super::spec::Spec;
use crate::exchange::tcp::broken;
use crate::failure::{Failure, Result};

/// The version of these messages.
pub(super) const VERSION: u32 = 2;

/// The longest message.
const MAX_LINE: u64 = 1 << 20;

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// Client: the test to run, and the largest packet of this side in bytes.
    Hello {
        version: u32,
        spec: Box<Spec>,
        mtu: u32,
    },
    /// Server: its queue pairs, and the size of packets in bytes.
    Welcome { ends: Vec<End>, mtu: u32 },
    /// Server: where it waits for connections by address; they take the place of `Welcome` and
    /// `Join`.
    Listening { port: u16 },
    /// Client: its queue pairs, which are connected.
    Join { ends: Vec<End> },
    /// Client: messages of this many bytes follow.
    Round { size: u32 },
    /// Server: ready for them.
    Ready,
    /// Client: that was the last message, and how many there were.
    Over { messages: u64 },
    /// Server: how many arrived.
    Tally { messages: u64 },
    /// Client: no more rounds.
    Bye,
    /// Either: it cannot be done.
    Refused { why: String },
}

/// A queue pair and the memory that belongs to it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct End {
    endpoint: String,
    address: u64,
    key: u32,
}

impl End {
    pub(super) fn new(endpoint: QueuePairEndpoint, memory: Remote) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            address: memory.address,
            key: memory.key.raw(),
        }
    }

    pub(super) fn endpoint(&self) -> Result<QueuePairEndpoint> {
        self.endpoint.parse().map_err(Failure::new)
    }

    pub(super) fn memory(&self) -> Remote {
        Remote {
            address: self.address,
            key: RemoteKey::from_raw(self.key),
        }
    }
}

/// A connection to the other side.
pub(super) struct Wire {
    reader: BufReader<TcpStream>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// The address of this side.
    pub(super) fn local_address(&self) -> Result<SocketAddr> {
        let address = self.reader.get_ref().local_addr();
        address.map_err(|error| broken(&error))
    }

    /// The address of the other side.
    pub(super) fn peer_address(&self) -> Result<SocketAddr> {
        let address = self.reader.get_ref().peer_addr();
        address.map_err(|error| broken(&error))
    }

    pub(super) fn say(&mut self, message: &Message) -> Result<()> {
        let mut line = serde_json::to_vec(message).map_err(Failure::new)?;
        line.push(b'\n');
        self.reader
            .get_mut()
            .write_all(&line)
            .map_err(|error| broken(&error))
    }

    /// Waits for the next message. A refusal by the other side ends this side, too.
    pub(super) fn hear(&mut self) -> Result<Message> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(MAX_LINE);
        limited
            .read_until(b'\n', &mut line)
            .map_err(|error| broken(&error))?;
        if line.last() != Some(&b'\n') {
            return Err(broken(&std::io::ErrorKind::UnexpectedEof.into()));
        }
        match serde_json::from_slice(&line) {
            Ok(Message::Refused { why }) => Err(Failure::new(format_args!("the peer: {why}"))),
            Ok(message) => Ok(message),
            Err(_) => Err(out_of_turn()),
        }
    }

    /// Lets the other side take as long as a test takes. It is still noticed if the other side is
    /// gone.
    pub(super) fn patient(&mut self) -> Result<()> {
        self.reader
            .get_ref()
            .set_read_timeout(None)
            .map_err(|error| broken(&error))
    }

    /// Whether [`hear`](Self::hear) would return a message immediately.
    pub(super) fn has_news(&mut self) -> Result<bool> {
        if !self.reader.buffer().is_empty() {
            return Ok(true);
        }
        let stream = self.reader.get_ref();
        let peeked = stream.set_nonblocking(true).and_then(|()| {
            let peeked = stream.peek(&mut [0]);
            stream.set_nonblocking(false)?;
            peeked
        });
        match peeked {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(broken(&error)),
        }
    }
}

/// The peer sent a message out of order.
pub(super) fn out_of_turn() -> Failure {
    Failure::new("the peer does not speak this protocol")
        .hint("both sides must be uverbs bench, of the same version")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Wire::new(listener.accept().unwrap().0), stream)
    }

    #[test]
    fn messages_arrive_as_they_were() {
        let (mut one, stream) = pair();
        let mut other = Wire::new(stream);
        assert!(!one.has_news().unwrap());
        let end = End::new(
            "17/0/9a3/fe80::1".parse().unwrap(),
            Remote {
                address: u64::MAX,
                key: RemoteKey::from_raw(7),
            },
        );
        other.say(&Message::Join { ends: vec![end] }).unwrap();
        let Message::Join { ends } = one.hear().unwrap() else {
            unreachable!("another message");
        };
        assert_eq!(ends[0].endpoint().unwrap().qp_num, 17);
        assert_eq!(ends[0].memory().address, u64::MAX);
    }

    #[test]
    fn refusals_nonsense_and_silence_are_errors() {
        let (mut one, mut stream) = pair();
        stream
            .write_all(b"{\"refused\":{\"why\":\"no\"}}\nGET / HTTP/1.1\n{\"round\"")
            .unwrap();
        drop(stream);
        assert!(one.hear().unwrap_err().to_string().contains("the peer: no"));
        assert!(one.hear().is_err());
        assert!(one.hear().is_err());
        assert!(one.has_news().unwrap(), "the end is news");
    }
}

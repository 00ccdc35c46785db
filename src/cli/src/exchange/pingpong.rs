//! The exchange of the `ibv_*_pingpong` programs.
//!
//! Each side sends one text of 52 bytes per address, terminated by a zero byte:
//! `LID:number:packet number:GID`, all hexadecimal, the GID as 32 digits, which are zero for none.
//! The client sends first; the server replies when it is ready to receive; the client ends with
//! `done` and a zero byte. `ibv_srq_pingpong` always sends 256 addresses, with zeros for queue
//! pairs that it does not have.

use std::io::{Read, Write};

use uverbs::attr::Psn;
use uverbs::{Gid, QueuePairEndpoint};

use super::tcp::broken;
use crate::failure::{Failure, Result};

/// Bytes of one address.
const LEN: usize = 52;

/// How many addresses `ibv_srq_pingpong` sends.
pub(crate) const SHARED: usize = 256;

const DONE: &[u8; 5] = b"done\0";

/// The server's side: `ready` gets the client's addresses and makes this side ready for its
/// messages.
pub(crate) fn serve<T>(
    stream: &mut (impl Read + Write),
    own: &[QueuePairEndpoint],
    sent: usize,
    ready: impl FnOnce(&[QueuePairEndpoint]) -> Result<T>,
) -> Result<T> {
    let peers = receive(stream, sent)?;
    let connected = ready(&peers)?;
    send(stream, own, sent)?;
    let mut done = [0; DONE.len()];
    stream
        .read_exact(&mut done)
        .map_err(|error| broken(&error))?;
    if &done != DONE {
        return Err(confused());
    }
    Ok(connected)
}

/// The client's side: `ready` gets the server's addresses and makes this side ready for its
/// messages.
pub(crate) fn call<T>(
    stream: &mut (impl Read + Write),
    own: &[QueuePairEndpoint],
    sent: usize,
    ready: impl FnOnce(&[QueuePairEndpoint]) -> Result<T>,
) -> Result<T> {
    send(stream, own, sent)?;
    let peers = receive(stream, sent)?;
    let connected = ready(&peers)?;
    stream.write_all(DONE).map_err(|error| broken(&error))?;
    Ok(connected)
}

fn send(stream: &mut impl Write, own: &[QueuePairEndpoint], count: usize) -> Result<()> {
    let mut bytes = Vec::with_capacity(count * LEN);
    for at in 0..count {
        bytes.extend_from_slice(encode(own.get(at)).as_bytes());
        bytes.push(0);
    }
    stream.write_all(&bytes).map_err(|error| broken(&error))
}

/// The peer's addresses, up to the first empty one.
fn receive(stream: &mut impl Read, count: usize) -> Result<Vec<QueuePairEndpoint>> {
    let mut bytes = vec![0; count * LEN];
    stream
        .read_exact(&mut bytes)
        .map_err(|error| broken(&error))?;
    let mut peers = Vec::new();
    for text in bytes.chunks_exact(LEN) {
        let endpoint = decode(text).ok_or_else(confused)?;
        if endpoint.qp_num == 0 {
            break;
        }
        peers.push(endpoint);
    }
    if peers.is_empty() {
        return Err(Failure::new("the peer has no queue pair"));
    }
    Ok(peers)
}

fn encode(endpoint: Option<&QueuePairEndpoint>) -> String {
    let (lid, qp_num, psn, gid) = endpoint.map_or((0, 0, 0, Gid::ZERO), |endpoint| {
        (
            endpoint.lid,
            endpoint.qp_num,
            endpoint.psn.raw(),
            endpoint.gid.unwrap_or(Gid::ZERO),
        )
    });
    let gid = u128::from_be_bytes(gid.to_bytes());
    format!("{lid:04x}:{qp_num:06x}:{psn:06x}:{gid:032x}")
}

fn decode(bytes: &[u8]) -> Option<QueuePairEndpoint> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
    let mut parts = text.split(':');
    let lid = u16::from_str_radix(parts.next()?, 16).ok()?;
    let qp_num = u32::from_str_radix(parts.next()?, 16).ok()?;
    let psn = u32::from_str_radix(parts.next()?, 16).ok()?;
    let gid = parts.next().filter(|gid| gid.len() == 32)?;
    let gid = Gid::from_bytes(u128::from_str_radix(gid, 16).ok()?.to_be_bytes());
    if parts.next().is_some() || qp_num > 0x00ff_ffff {
        return None;
    }
    Some(QueuePairEndpoint {
        qp_num,
        lid,
        psn: Psn::new(psn).ok()?,
        gid: (!gid.is_zero()).then_some(gid),
    })
}

fn confused() -> Failure {
    Failure::new("the peer does not speak this protocol")
        .hint("it must be uverbs pingpong or an ibv_*_pingpong program, of the same transport and with the same --srq")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::io::Cursor;

    fn endpoint() -> QueuePairEndpoint {
        "17/3/9a3/::ffff:10.1.0.2".parse().unwrap()
    }

    #[test]
    fn an_address_is_written_as_the_c_programs_write_it() {
        let text = encode(Some(&endpoint()));
        assert_eq!(text, "0003:000011:0009a3:00000000000000000000ffff0a010002");
        assert_eq!(text.len() + 1, LEN);
        let mut bytes = text.into_bytes();
        bytes.push(0);
        assert_eq!(decode(&bytes), Some(endpoint()));
    }

    #[test]
    fn texts_that_are_no_address_are_refused() {
        for text in [
            "",
            "0003:000011:0009a3",
            "0003:000011:0009a3:00",
            "0003:1000000:0009a3:00000000000000000000ffff0a010002",
            "0003:000011:1000000:00000000000000000000ffff0a010002",
            "10000:000011:0009a3:00000000000000000000ffff0a010002",
            "0003:000011:0009a3:00000000000000000000ffff0a010002:1",
        ] {
            assert_eq!(decode(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(decode(&[0xff; LEN]), None);
    }

    /// What one side reads and writes.
    struct Wire {
        incoming: Cursor<Vec<u8>>,
        outgoing: Vec<u8>,
    }

    impl Wire {
        fn with(incoming: Vec<u8>) -> Self {
            Self {
                incoming: Cursor::new(incoming),
                outgoing: Vec::new(),
            }
        }
    }

    impl Read for Wire {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.incoming.read(buffer)
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.outgoing.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_server_understands_a_client() {
        let own = [endpoint()];
        let mut client = Wire::with([encode(Some(&endpoint())).as_bytes(), b"\0"].concat());
        call(&mut client, &own, 1, |peers| {
            assert_eq!(peers, [endpoint()]);
            Ok(())
        })
        .unwrap();
        let mut server = Wire::with(client.outgoing);
        serve(&mut server, &own, 1, |peers| {
            assert_eq!(peers, [endpoint()]);
            Ok(())
        })
        .unwrap();
        assert_eq!(server.outgoing.len(), LEN);
    }

    #[test]
    fn a_shared_exchange_has_256_addresses_and_ends_at_the_first_empty_one() {
        let mut wire = Wire::with(Vec::new());
        send(&mut wire, &[endpoint(); 3], SHARED).unwrap();
        assert_eq!(wire.outgoing.len(), SHARED * LEN);
        let peers = receive(&mut Cursor::new(wire.outgoing), SHARED).unwrap();
        assert_eq!(peers.len(), 3);
    }

    #[test]
    fn a_client_that_goes_away_before_done_is_an_error() {
        let mut wire = Wire::with([encode(Some(&endpoint())).as_bytes(), b"\0"].concat());
        assert!(serve(&mut wire, &[endpoint()], 1, |_| Ok(())).is_err());
        let mut wire = Wire::with(vec![b'x'; LEN]);
        assert!(serve(&mut wire, &[endpoint()], 1, |_| Ok(())).is_err());
    }
}

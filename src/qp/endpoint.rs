//! What a peer needs to know about a queue pair, and how it is sent to the peer.

use std::fmt;
use std::str::FromStr;

use uverbs_core::types::{Gid, Psn};

/// What a peer must know to connect to a queue pair.
///
/// It can be sent as text (`Display`, `FromStr`) or as [27 bytes](Self::to_bytes):
///
/// ```
/// use uverbs::QueuePairEndpoint;
///
/// let endpoint: QueuePairEndpoint = "17/0/9a3/fe80::5054:ff:fe12:3456".parse()?;
/// assert_eq!(endpoint.qp_num, 17);
/// assert_eq!(endpoint.psn.raw(), 0x9a3);
/// assert_eq!(QueuePairEndpoint::from_bytes(&endpoint.to_bytes()), Some(endpoint));
/// assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
/// # Ok::<(), uverbs::error::ParseEndpointError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct QueuePairEndpoint {
    /// The number on the wire, 24 bits.
    pub qp_num: u32,
    /// The port's LID; 0 on Ethernet.
    pub lid: u16,
    /// The number of the first packet it sends.
    pub psn: Psn,
    /// The port's GID; `None` for a path inside one InfiniBand subnet.
    pub gid: Option<Gid>,
}

/// A text that is not an endpoint.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct ParseEndpointError;

impl QueuePairEndpoint {
    /// How many bytes [`to_bytes`](Self::to_bytes) returns.
    pub const BYTES: usize = 27;

    /// Number (4 bytes), LID (2), packet number (4), all big-endian, 1 if there is a GID, and the
    /// GID.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.qp_num.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.lid.to_be_bytes());
        bytes[6..10].copy_from_slice(&self.psn.raw().to_be_bytes());
        if let Some(gid) = self.gid {
            bytes[10] = 1;
            bytes[11..].copy_from_slice(&gid.to_bytes());
        }
        bytes
    }

    /// The endpoint in `bytes`; `None` if a number is too large for its field or the GID flag is
    /// neither 0 nor 1.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let [q0, q1, q2, q3, l0, l1, p0, p1, p2, p3, has_gid, gid @ ..] = *bytes;
        let gid = match has_gid {
            0 => None,
            1 => Some(Gid::from_bytes(gid)),
            _ => return None,
        };
        let qp_num = u32::from_be_bytes([q0, q1, q2, q3]);
        Some(Self {
            qp_num: (qp_num <= 0x00ff_ffff).then_some(qp_num)?,
            lid: u16::from_be_bytes([l0, l1]),
            psn: Psn::new(u32::from_be_bytes([p0, p1, p2, p3])).ok()?,
            gid,
        })
    }
}

impl fmt::Display for QueuePairEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{:x}", self.qp_num, self.lid, self.psn.raw())?;
        match self.gid {
            Some(gid) => write!(f, "/{gid}"),
            None => Ok(()),
        }
    }
}

impl FromStr for QueuePairEndpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let mut parts = text.trim().splitn(4, '/');
        let mut part = || parts.next().ok_or(ParseEndpointError);
        let qp_num: u32 = part()?.parse().map_err(|_| ParseEndpointError)?;
        let lid = part()?.parse().map_err(|_| ParseEndpointError)?;
        let psn = u32::from_str_radix(part()?, 16).map_err(|_| ParseEndpointError)?;
        let gid = part()
            .ok()
            .map(str::parse)
            .transpose()
            .map_err(|_| ParseEndpointError)?;
        if qp_num > 0x00ff_ffff {
            return Err(ParseEndpointError);
        }
        Ok(Self {
            qp_num,
            lid,
            psn: Psn::new(psn).map_err(|_| ParseEndpointError)?,
            gid,
        })
    }
}

impl fmt::Display for ParseEndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an endpoint (number/lid/packet number in hexadecimal[/gid])")
    }
}

/// An error that `main` returns is printed this way.
impl fmt::Debug for ParseEndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ParseEndpointError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_endpoint_are_refused() {
        let good: QueuePairEndpoint = "16777215/65535/ffffff/::1".parse().unwrap();
        let bytes = good.to_bytes();
        assert_eq!(QueuePairEndpoint::from_bytes(&bytes), Some(good));
        for (at, value) in [(0, 1), (6, 1), (10, 2)] {
            let mut bad = bytes;
            bad[at] = value;
            assert_eq!(QueuePairEndpoint::from_bytes(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn texts_that_are_no_endpoint_are_refused() {
        for text in [
            "",
            "1",
            "1/2",
            "1/2/x",
            "16777216/0/0",
            "1/0/1000000",
            "1/65536/0",
            "1/0/0/nonsense",
            "-1/0/0",
        ] {
            assert_eq!(
                text.parse::<QueuePairEndpoint>(),
                Err(ParseEndpointError),
                "{text:?}"
            );
        }
    }
}

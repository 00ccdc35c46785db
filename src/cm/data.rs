//! Private data: bytes that accompany a message of the handshake.

use std::fmt;

use uverbs_core::cm::PrivateData;
use uverbs_core::{Error, Op, Result};

/// Bytes that accompany a message, of which `MOST` fit.
///
/// InfiniBand and RoCE send no length: the receiver gets `MOST` bytes, padded with zeros, and
/// cannot tell padding from data. [`framed`](Self::framed) puts the length in front, for
/// [`unframed`] at the other end; peers that do not use this library see it as one byte more.
///
/// ```
/// use uverbs::cm::{self, ConnectData};
///
/// assert!(ConnectData::new(&[0; 56]).is_ok());
/// assert!(ConnectData::new(&[0; 57]).is_err());
/// let mut received = ConnectData::framed(b"version 1")?.as_bytes().to_vec();
/// received.resize(56, 0);
/// assert_eq!(cm::unframed(&received), Some(&b"version 1"[..]));
/// # Ok::<(), uverbs::Error>(())
/// ```
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct MessageData<const MOST: usize> {
    data: PrivateData,
}

/// Accompanies a request for a connection: 56 bytes, in addition to the 36 that the kernel adds.
pub type ConnectData = MessageData<{ PrivateData::CONNECT }>;
/// Accompanies the acceptance of a connection: 196 bytes.
pub type AcceptData = MessageData<{ PrivateData::ACCEPT }>;
/// Accompanies the rejection of a connection: 148 bytes.
pub type RejectData = MessageData<{ PrivateData::REJECT }>;
/// Accompanies a request to a datagram service: 180 bytes, in addition to the 36 that the kernel
/// adds.
pub type ResolveData = MessageData<{ PrivateData::RESOLVE }>;
/// Accompanies the answer of a datagram service, or its refusal: 136 bytes.
pub type AnswerData = MessageData<{ PrivateData::ANSWER }>;

impl<const MOST: usize> MessageData<MOST> {
    /// No bytes.
    pub const EMPTY: Self = Self {
        data: PrivateData::EMPTY,
    };

    /// Takes `bytes`.
    ///
    /// # Errors
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if there are more than `MOST`.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let data = PrivateData::new(Op::CmConnect, bytes, MOST)?;
        Ok(Self { data })
    }

    /// Takes `bytes` with their number in front, in one byte.
    ///
    /// # Errors
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if there are more than `MOST - 1`.
    pub fn framed(bytes: &[u8]) -> Result<Self> {
        let most = MOST.saturating_sub(1).min(255);
        let too_long = || {
            let len = bytes.len() as u64;
            Error::limit(Op::CmConnect, "private_data", len, most as u64)
        };
        if bytes.len() > most {
            return Err(too_long());
        }
        let len = u8::try_from(bytes.len()).map_err(|_| too_long())?;
        Self::new(&[&[len], bytes].concat())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_bytes()
    }

    pub(super) fn data(&self) -> PrivateData {
        self.data
    }
}

/// What a peer passed to [`MessageData::framed`], taken from the padded bytes that arrived. `None`
/// if the length is not possible; bytes of a peer that sends no length are misread.
pub fn unframed(received: &[u8]) -> Option<&[u8]> {
    let (len, rest) = received.split_first()?;
    rest.get(..usize::from(*len))
}

impl<const MOST: usize> Default for MessageData<MOST> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const MOST: usize> TryFrom<&[u8]> for MessageData<MOST> {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self> {
        Self::new(bytes)
    }
}

impl<const MOST: usize> fmt::Debug for MessageData<MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageData({} of {MOST} bytes)", self.as_bytes().len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn as_many_bytes_fit_as_the_message_has_room_for() {
        let all = [7; 196];
        assert_eq!(AcceptData::new(&all).unwrap().as_bytes(), all);
        let refused = [
            ConnectData::new(&all[..57]).unwrap_err(),
            RejectData::new(&all[..149]).unwrap_err(),
            AcceptData::framed(&all).unwrap_err(),
        ];
        assert!(
            refused
                .iter()
                .all(|error| error.kind() == ErrorKind::LimitExceeded)
        );
        assert_eq!(ConnectData::EMPTY, ConnectData::try_from(&[][..]).unwrap());
    }

    #[test]
    fn a_length_in_front_survives_padding() {
        for len in [0, 1, 55] {
            let sent = ConnectData::framed(&[9; 55][..len]).unwrap();
            let mut received = [0; 56];
            received[..=len].copy_from_slice(sent.as_bytes());
            assert_eq!(unframed(&received), Some(&[9; 55][..len]));
        }
        assert_eq!(unframed(&[]), None);
        assert_eq!(unframed(&[3, 1, 2]), None);
    }
}

//! Private data: bytes that accompany the messages of a handshake.

use std::fmt;

use uverbs_uapi::rdma_user_cm::RDMA_MAX_PRIVATE_DATA;

use crate::error::{Error, Op, Result};

/// Bytes that accompany a message of the handshake.
///
/// How many fit depends on the message, on the transport and on the kind of address; the kernel
/// refuses more (EINVAL), and a refused accept has rejected the request. InfiniBand and RoCE send
/// no length: the receiver gets the maximum, padded with zeros. iWARP sends the length.
///
/// ```
/// use uverbs_core::Op;
/// use uverbs_core::cm::PrivateData;
///
/// let data = PrivateData::new(Op::CmConnect, b"version 1", PrivateData::CONNECT)?;
/// assert_eq!(data.as_bytes(), b"version 1");
/// assert!(PrivateData::new(Op::CmConnect, &[0; 57], PrivateData::CONNECT).is_err());
/// # Ok::<(), uverbs_core::Error>(())
/// ```
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct PrivateData {
    bytes: [u8; RDMA_MAX_PRIVATE_DATA],
    len: u8,
}

impl PrivateData {
    /// None.
    pub const EMPTY: Self = Self {
        bytes: [0; RDMA_MAX_PRIVATE_DATA],
        len: 0,
    };

    /// The most that fits a request for a connection on InfiniBand and RoCE, with IP addresses.
    pub const CONNECT: usize = 56;
    /// The same with `AF_IB` addresses.
    pub const CONNECT_IB: usize = 92;
    /// The most that fits its acceptance on InfiniBand and RoCE.
    pub const ACCEPT: usize = 196;
    /// The most that fits its rejection on InfiniBand and RoCE.
    pub const REJECT: usize = 148;
    /// The most that fits a request for a datagram service, with IP addresses.
    pub const RESOLVE: usize = 180;
    /// The same with `AF_IB` addresses.
    pub const RESOLVE_IB: usize = 216;
    /// The most that fits the answer of a datagram service.
    pub const ANSWER: usize = 136;
    /// The most that the kernel's interface takes, for iWARP.
    pub const MOST: usize = 255;

    /// Takes `bytes`, at most `most`: one of the constants of this type.
    ///
    /// # Errors
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) if there are more.
    pub fn new(op: Op, bytes: &[u8], most: usize) -> Result<Self> {
        let most = most.min(Self::MOST);
        let mut data = Self::EMPTY;
        let len = u8::try_from(bytes.len()).ok();
        match (len, data.bytes.get_mut(..bytes.len())) {
            (Some(len), Some(place)) if bytes.len() <= most => {
                place.copy_from_slice(bytes);
                data.len = len;
                Ok(data)
            }
            _ => Err(Error::limit(
                op,
                "private_data",
                bytes.len() as u64,
                most as u64,
            )),
        }
    }

    /// The bytes: in an event, including the padding.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }

    /// From a struct of the kernel: any length is inside the array.
    pub(super) fn from_parts(mut bytes: [u8; RDMA_MAX_PRIVATE_DATA], len: u8) -> Self {
        // What comes after does not count, so that equal data is equal.
        bytes.iter_mut().skip(len.into()).for_each(|byte| *byte = 0);
        Self { bytes, len }
    }

    /// The array, zeros after the end, and the length.
    pub(super) fn parts(&self) -> ([u8; RDMA_MAX_PRIVATE_DATA], u8) {
        (self.bytes, self.len)
    }
}

impl Default for PrivateData {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl fmt::Debug for PrivateData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateData({} bytes)", self.len)
    }
}

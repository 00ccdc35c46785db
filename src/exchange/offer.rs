//! What a side offers, and its bytes.

use uverbs_core::types::RemoteMemory;

use super::ExchangeError;
use crate::QueuePairEndpoint;

/// What one side tells the other: its queue pairs, and the memory that the other may use.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Offer {
    /// Queue pairs, in an order that both sides agree on.
    pub endpoints: Vec<QueuePairEndpoint>,
    /// Memory, in an order that both sides agree on.
    pub memory: Vec<RemoteMemory>,
}

/// Bytes of a [`RemoteMemory`] on the wire.
const MEMORY_BYTES: usize = 20;

/// Memory, unless it would end behind the last address.
fn possible(bytes: &[u8; MEMORY_BYTES]) -> Option<RemoteMemory> {
    let memory = RemoteMemory::from_bytes(*bytes);
    memory.address.checked_add(memory.length)?;
    Some(memory)
}

impl Offer {
    /// The most endpoints, and the most memories, of an offer: two of this size fit the buffers of
    /// any stream, so that both sides may send first.
    pub const MAX: usize = 256;

    pub(super) const MAX_BYTES: usize = 4 + Self::MAX * (QueuePairEndpoint::BYTES + MEMORY_BYTES);

    /// One queue pair, no memory.
    pub fn of(endpoint: QueuePairEndpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            memory: Vec::new(),
        }
    }

    /// With this memory, too.
    #[must_use]
    pub fn memory(mut self, memory: RemoteMemory) -> Self {
        self.memory.push(memory);
        self
    }

    /// The first endpoint.
    ///
    /// # Errors
    /// [`ExchangeError::Missing`] if there is none.
    pub fn endpoint(&self) -> Result<QueuePairEndpoint, ExchangeError> {
        let first = self.endpoints.first().copied();
        first.ok_or(ExchangeError::Missing("queue pair"))
    }

    /// The body of an offer on the wire.
    ///
    /// # Errors
    /// [`ExchangeError::TooMany`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, ExchangeError> {
        let mut bytes = Vec::new();
        for (what, count) in [
            ("endpoints", self.endpoints.len()),
            ("memories", self.memory.len()),
        ] {
            let count = checked(what, count)?;
            bytes.extend_from_slice(&count.to_be_bytes());
        }
        for endpoint in &self.endpoints {
            bytes.extend_from_slice(&endpoint.to_bytes());
        }
        for memory in &self.memory {
            bytes.extend_from_slice(&memory.to_bytes());
        }
        Ok(bytes)
    }

    /// The offer whose body on the wire is `bytes`.
    ///
    /// # Errors
    /// [`ExchangeError::TooMany`], [`ExchangeError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ExchangeError> {
        let wrong = ExchangeError::Malformed;
        let (&[e0, e1, m0, m1], rest) = bytes.split_first_chunk().ok_or(wrong("offer"))?;
        let endpoints = checked("endpoints", u16::from_be_bytes([e0, e1]).into())?;
        let memories = checked("memories", u16::from_be_bytes([m0, m1]).into())?;
        let (endpoints, memories) = (
            usize::from(endpoints) * QueuePairEndpoint::BYTES,
            usize::from(memories) * MEMORY_BYTES,
        );
        if rest.len() != endpoints + memories {
            return Err(wrong("length"));
        }
        let (endpoints, memories) = rest.split_at(endpoints);
        let endpoint = |bytes: &[u8]| QueuePairEndpoint::from_bytes(bytes.first_chunk()?);
        let memory = |bytes: &[u8]| bytes.first_chunk().and_then(possible);
        Ok(Self {
            endpoints: endpoints
                .chunks_exact(QueuePairEndpoint::BYTES)
                .map(|bytes| endpoint(bytes).ok_or(wrong("endpoint")))
                .collect::<Result<_, _>>()?,
            memory: memories
                .chunks_exact(MEMORY_BYTES)
                .map(|bytes| memory(bytes).ok_or(wrong("memory")))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn checked(what: &'static str, requested: usize) -> Result<u16, ExchangeError> {
    let max = Offer::MAX;
    u16::try_from(requested)
        .ok()
        .filter(|_| requested <= max)
        .ok_or(ExchangeError::TooMany {
            what,
            requested,
            max,
        })
}

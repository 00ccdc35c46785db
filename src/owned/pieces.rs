//! Requests with several scatter/gather entries.

use uverbs_core::PostError;
use uverbs_core::types::Sge;

use super::Memory;
use crate::ProtectionDomain;

/// The scatter/gather entries of a list.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: [Sge; MAX_PIECES],
    count: usize,
}

/// No device has more in a request.
const MAX_PIECES: usize = 32;

impl Pieces {
    /// # Errors
    /// As [`Memory::sge`], for each member.
    pub(super) fn of(list: &[Memory], pd: &ProtectionDomain) -> Result<Self, PostError> {
        let mut all = Self {
            pieces: [Sge::default(); MAX_PIECES],
            count: 0,
        };
        for memory in list {
            let Some(piece) = memory.sge(pd)? else {
                continue;
            };
            let Some(place) = all.pieces.get_mut(all.count) else {
                return Err(PostError::TooManySges {
                    requested: u32::try_from(list.len()).unwrap_or(u32::MAX),
                    max: 32,
                });
            };
            *place = piece;
            all.count += 1;
        }
        Ok(all)
    }

    pub(super) fn as_slice(&self) -> &[Sge] {
        self.pieces.get(..self.count).unwrap_or_default()
    }
}

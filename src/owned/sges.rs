//! Requests with several scatter/gather entries.

use uverbs_core::PostError;
use uverbs_core::types::Sge;

use super::kind::Kind;
use super::{Memory, Refused, Work};
use crate::ProtectionDomain;

/// The scatter/gather entries of a list.
#[derive(Debug)]
pub(super) struct Sges {
    sges: [Sge; MAX_SGES],
    count: usize,
}

/// No device has more in a request.
const MAX_SGES: usize = 32;

impl Sges {
    /// # Errors
    /// As [`Memory::sge`], for each member.
    pub(super) fn of(list: &[Memory], pd: &ProtectionDomain) -> Result<Self, PostError> {
        let mut all = Self {
            sges: [Sge::default(); MAX_SGES],
            count: 0,
        };
        for memory in list {
            let Some(sge) = memory.sge(pd)? else {
                continue;
            };
            let Some(place) = all.sges.get_mut(all.count) else {
                return Err(PostError::TooManySges {
                    requested: u32::try_from(list.len()).unwrap_or(u32::MAX),
                    max: 32,
                });
            };
            *place = sge;
            all.count += 1;
        }
        Ok(all)
    }

    pub(super) fn as_slice(&self) -> &[Sge] {
        self.sges.get(..self.count).unwrap_or_default()
    }
}

impl<K: Kind> Work<K> {
    /// Whether the first `bytes` of its memory, or all if there are fewer, lie in buffers.
    pub(crate) fn starts_in_buffers(&self, bytes: usize) -> bool {
        let list = match &self.parts.memory {
            Memory::List(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut left = bytes;
        for memory in list {
            match memory {
                Memory::None => {}
                Memory::Buffer(_, len) => left = left.saturating_sub(*len),
                Memory::Exposed(..) | Memory::List(_) => return false,
            }
            if left == 0 {
                break;
            }
        }
        true
    }

    /// The request, and why it was not posted.
    pub(crate) fn refused(self, error: PostError) -> Box<Refused> {
        let work = Some(self.untyped());
        Box::new(Refused { error, work })
    }
}

//! Batches, and memory that comes back without a completion of its own.

use uverbs::PostError;
use uverbs::owned::Work;

use super::made::Request;
use super::{Outcome, World, pick};
use crate::face::{self, Ending};

impl World<'_> {
    /// Posts several sends with one doorbell, or begins to.
    pub(super) fn batch(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        let Some(at) = self.an_owned(a) else {
            return Ok(());
        };
        let ending = match c >> 6 {
            0 | 1 => Ending::Submitted,
            2 => Ending::Dropped,
            _ => Ending::Forgotten,
        };
        let (owner, mut members) = (self.pairs[at].uid, Vec::new());
        for place in 0..=c & 7 {
            if self.hands.is_empty() {
                break;
            }
            let mut hand = self.hands.swap_remove(pick(self.hands.len(), b));
            let (number, len) = (self.number(), hand.buffer.len().min(16));
            hand.write(number, len);
            self.messages.insert(number, len);
            let quiet = place & 3 != 3 || c & 0x20 == 0;
            let request = Request {
                owner,
                place: Some(hand.buffer.as_ptr().addr()),
                sure: false,
                quiet: quiet || ending != Ending::Submitted,
            };
            self.requests.insert(number, request);
            let work = Work::send().untyped().memory((hand.buffer, len));
            let work = work.user_data(number);
            let work = self.addressed(at, if quiet { work.unsignaled() } else { work });
            members.push((number, work));
        }
        let numbers: Vec<_> = members.iter().map(|(number, _)| *number).collect();
        let Some(qp) = self.pairs[at].owned() else {
            return Ok(());
        };
        let (refused, submitted) = face::batch(qp, members, ending);
        for (number, refused) in refused {
            self.handed_back(number, *refused)?;
        }
        for number in numbers {
            match (ending, &submitted) {
                (Ending::Submitted, Ok(())) => self.posted(number),
                (Ending::Submitted, Err(PostError::Doorbell(_))) => self.doubt = true,
                _ => self.becomes_quiet(number),
            }
        }
        Ok(())
    }

    /// It is not posted, and its memory comes back as that of an unsignaled request does.
    fn becomes_quiet(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.quiet = true;
        }
    }

    /// Takes back what has no completion of its own.
    pub(super) fn released(&mut self, a: u8, b: u8) -> Outcome {
        let Some(at) = self.an_owned(a) else {
            return Ok(());
        };
        self.release(at, pick(8, b) + 1)
    }

    pub(super) fn release(&mut self, at: usize, times: usize) -> Outcome {
        for _ in 0..times {
            let pair = &mut self.pairs[at];
            let owner = pair.uid;
            let Some(released) = pair.owned().and_then(uverbs::owned::QueuePair::released) else {
                break;
            };
            self.ended(released.user_data, owner, released.memory)?;
        }
        Ok(())
    }
}

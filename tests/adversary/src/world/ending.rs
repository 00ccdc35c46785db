//! Ending objects: destroying, dropping and forgetting them.

use super::made::Body;
use super::{Outcome, World, pick};

fn take<T>(list: &mut Vec<T>, number: u8) -> Option<T> {
    let at = pick(list.len(), number);
    (at < list.len()).then(|| list.remove(at))
}

impl World<'_> {
    pub(super) fn destroy(&mut self, a: u8, c: u8) -> Outcome {
        match c % 8 {
            0..=3 => {
                if let Some(pair) = take(&mut self.pairs, a) {
                    return self.end_pair(pair);
                }
            }
            4 | 5 => {
                if let Some(srq) = take(&mut self.srqs, a) {
                    let owner = srq.uid;
                    match srq.queue.destroy() {
                        Ok(memory) => return self.given_up(owner, memory),
                        Err(_) => self.gone(owner),
                    }
                }
            }
            6 => drop(
                take(&mut self.cqs, a).map(|cq| cq.queue.map(uverbs::CompletionQueue::destroy)),
            ),
            _ => {
                let site = pick(self.sites.len(), a);
                let which = usize::from(a >> 7);
                let pd = self.sites[site]
                    .as_mut()
                    .and_then(|site| site.pds[which].take());
                drop(pd.map(uverbs::ProtectionDomain::dealloc));
            }
        }
        Ok(())
    }

    pub(super) fn end_pair(&mut self, pair: super::Pair) -> Outcome {
        match pair.body {
            Body::Raw(qp) => drop(qp.destroy()),
            Body::Owned(qp) => match qp.destroy() {
                Ok(memory) => return self.given_up(pair.uid, memory),
                Err(_) => self.gone(pair.uid),
            },
        }
        Ok(())
    }

    /// A queue is gone, with everything that was posted on it.
    fn gone(&mut self, owner: u32) {
        self.requests.retain(|_, request| request.owner != owner);
    }

    pub(super) fn drop_one(&mut self, a: u8, c: u8) {
        match c % 16 {
            0..=4 => {
                if let Some(pair) = take(&mut self.pairs, a) {
                    let owner = pair.uid;
                    drop(pair);
                    self.gone(owner);
                }
            }
            5 | 6 => {
                if let Some(srq) = take(&mut self.srqs, a) {
                    let owner = srq.uid;
                    drop(srq);
                    self.gone(owner);
                }
            }
            7 => drop(take(&mut self.cqs, a)),
            8..=11 => drop(take(&mut self.hands, a)),
            12 => drop(take(&mut self.exposed, a)),
            13 => {
                let site = pick(self.sites.len(), a);
                drop(
                    self.sites[site]
                        .as_mut()
                        .and_then(|site| site.pds[usize::from(a >> 7)].take()),
                );
            }
            14 => self.hands.truncate(usize::from(a)),
            _ => {
                // What was created on it lives on; whether it is leaked later is not checked any
                // more.
                let site = pick(self.sites.len(), a);
                self.doubt |= self.sites[site].take().is_some();
            }
        }
    }

    /// Keeps it from being dropped until everything is checked: for the library that is never.
    pub(super) fn forget(&mut self, a: u8, c: u8) {
        match c % 8 {
            0..=2 => {
                if let Some(pair) = take(&mut self.pairs, a) {
                    self.graveyard.push(Box::new(pair.body));
                }
            }
            3 => {
                if let Some(srq) = take(&mut self.srqs, a) {
                    self.graveyard.push(Box::new(srq.queue));
                }
            }
            4 => {
                if let Some(cq) = take(&mut self.cqs, a) {
                    self.graveyard.push(Box::new(cq.queue));
                }
            }
            5 | 6 => {
                if let Some(hand) = take(&mut self.hands, a) {
                    self.graveyard.push(Box::new(hand.buffer));
                }
            }
            _ => {
                if let Some(memory) = take(&mut self.exposed, a) {
                    self.graveyard.push(Box::new(memory));
                }
            }
        }
    }
}

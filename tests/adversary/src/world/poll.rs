//! Completions: polling, offering to every owner, holding.

use uverbs::completion::WcOpcode;
use uverbs::owned::Finished;
use uverbs::{PollError, WorkCompletion};

use super::made::{Body, message};
use super::{Outcome, World, pick};
use crate::face::{self, Held, Holding, Owner, Source};
use crate::finding::Rule;
use crate::op::Op;

impl World<'_> {
    /// Every queue that returns memory, starting with the `first`.
    fn owners(&mut self, first: usize) -> Vec<(u32, &mut dyn Owner)> {
        let pairs = self.pairs.iter_mut().filter_map(|pair| {
            let uid = pair.uid;
            Some((uid, pair.owned()? as &mut dyn Owner))
        });
        let srqs = self
            .srqs
            .iter_mut()
            .map(|srq| (srq.uid, &mut srq.queue as &mut dyn Owner));
        let mut owners: Vec<_> = pairs.chain(srqs).collect();
        if !owners.is_empty() {
            let middle = first % owners.len();
            owners.rotate_left(middle);
        }
        owners
    }

    pub(super) fn poll(&mut self, a: u8, b: u8, c: u8) -> Outcome {
        let at = pick(self.cqs.len(), a);
        let times = if c & 3 == 3 { 16 } else { 1 + pick(4, c) };
        self.poll_at(at, b.into(), times)?;
        if c & 0x40 != 0 {
            return self.unpolled(a, c);
        }
        Ok(())
    }

    /// Asks a shared queue for requests that were used up by queue pairs that are gone.
    pub(super) fn unpolled(&mut self, a: u8, b: u8) -> Outcome {
        let at = pick(self.srqs.len(), a);
        for _ in 0..=pick(8, b) {
            let Some(srq) = self.srqs.get_mut(at) else {
                return Ok(());
            };
            let owner = srq.uid;
            let Some(finished) = face::unpolled(&mut srq.queue) else {
                return Ok(());
            };
            self.ended(finished.user_data(), owner, finished.into_memory())?;
        }
        Ok(())
    }

    /// Polls a queue this many times, and returns how many completions there were.
    pub(super) fn poll_at(&mut self, at: usize, first: usize, times: usize) -> Outcome<usize> {
        let Some(cq) = self.cqs.get_mut(at) else {
            return Ok(0);
        };
        let source = Source {
            site: cq.site,
            cq: cq.uid,
        };
        let Some(mut queue) = cq.queue.take() else {
            return Ok(0);
        };
        if !self.frozen {
            self.device.run();
        }
        let mut count = 0;
        let mut outcome = Ok(());
        while count < times && outcome.is_ok() {
            let polled = face::poll(&mut queue, &mut self.owners(first));
            match polled {
                Ok(Some((says, taken))) => {
                    count += 1;
                    self.seen.push(says.wr_id);
                    outcome = self.settle(source, &says, taken, true);
                }
                Ok(None) => break,
                Err(error) => {
                    outcome = self.cannot(error);
                    break;
                }
            }
        }
        self.cqs[at].queue = Some(queue);
        outcome.map(|()| count)
    }

    fn cannot(&mut self, error: PollError) -> Outcome {
        if self.doubt {
            return Ok(());
        }
        self.doubt = true;
        self.found(Rule::Lost, || format!("poll: {error}"))
    }

    /// Checks what a completion finished. `all` were asked.
    fn settle(
        &mut self,
        source: Source,
        says: &WorkCompletion,
        taken: Vec<(u32, Finished)>,
        all: bool,
    ) -> Outcome {
        if taken.len() > 1 {
            self.found(Rule::Foreign, || {
                format!("{says:?} finished {} requests", taken.len())
            })?;
        }
        if taken.is_empty() && all {
            self.check_claimed(source, says)?;
        }
        for (owner, finished) in taken {
            self.check_owner(source, says, owner)?;
            self.check_message(&finished)?;
            self.ended(finished.user_data(), owner, finished.into_memory())?;
        }
        Ok(())
    }

    /// No queue took it: it must belong to a queue that is gone.
    fn check_claimed(&mut self, source: Source, says: &WorkCompletion) -> Outcome {
        let mine = self.pairs.iter().find(|pair| {
            let shared = |uid| self.srqs.iter().any(|srq| srq.uid == uid);
            pair.pure
                && matches!(pair.body, Body::Owned(_))
                && (pair.site, pair.number) == (source.site, says.qp_num)
                && (pair.send_cq == source.cq || pair.recv_cq == source.cq)
                && pair.srq.is_none_or(shared)
        });
        match mine {
            Some(pair) if !self.doubt => self.found(Rule::Lost, || {
                format!("{says:?} of {} was taken by nobody", pair.uid)
            }),
            _ => Ok(()),
        }
    }

    fn check_owner(&mut self, source: Source, says: &WorkCompletion, owner: u32) -> Outcome {
        let of_pair = self.pairs.iter().any(|pair| {
            pair.uid == owner
                && (pair.site, pair.number) == (source.site, says.qp_num)
                && (pair.send_cq == source.cq || pair.recv_cq == source.cq)
        });
        let of_shared = self.srqs.iter().any(|srq| {
            srq.uid == owner
                && srq.site == source.site
                && srq.users.contains(&(says.qp_num, source.cq))
        });
        if of_pair || of_shared {
            return Ok(());
        }
        self.found(Rule::Foreign, || {
            format!("{says:?} finished a request of {owner}")
        })
    }

    fn check_message(&mut self, finished: &Finished) -> Outcome {
        let received = finished.status().is_success() && finished.opcode() == WcOpcode::Recv;
        let Some(bytes) = finished.bytes().filter(|_| received) else {
            return Ok(());
        };
        let is_known = |bytes: &[u8]| {
            let number = message(bytes);
            let len = number.and_then(|number| self.messages.get(&number));
            bytes.len() < 8 || len == Some(&bytes.len())
        };
        // After the header, if it is a datagram.
        if is_known(bytes) || bytes.get(40..).is_some_and(is_known) {
            return Ok(());
        }
        self.found(Rule::Garbled, || format!("{finished:?}: {bytes:x?}"))
    }

    /// Polls completions without offering them to their queues.
    pub(super) fn poll_into(&mut self, a: u8, c: u8) {
        let at = pick(self.cqs.len(), a);
        if let Some(queue) = self.cqs.get_mut(at).and_then(|cq| cq.queue.as_mut()) {
            let mut out = [WorkCompletion::default(); 8];
            let room = 1 + pick(8, c);
            let count = queue.poll_into(&mut out[..room]).unwrap_or(0);
            self.discarded |= count != 0;
            self.seen.extend(out[..count].iter().map(|done| done.wr_id));
        }
    }

    /// Holds a completion during some of the following steps; returns how many.
    pub(super) fn hold(&mut self, op: Op, rest: &[Op], held: &[&dyn Held]) -> Outcome<usize> {
        let Op { a, b, c, .. } = op;
        let at = pick(self.cqs.len(), a);
        let Some(cq) = self.cqs.get_mut(at) else {
            return Ok(0);
        };
        let (site, uid) = (cq.site, cq.uid);
        let source = Source { site, cq: uid };
        let Some(mut queue) = cq.queue.take() else {
            return Ok(0);
        };
        if !self.frozen {
            self.device.run();
        }
        let (count, outcome) = match queue.poll() {
            Ok(Some(completion)) => {
                self.seen.push(completion.wr_id);
                let nested = &rest[..rest.len().min(1 + pick(12, c))];
                let holding = Holding::new(source, completion);
                (nested.len(), self.while_held(&holding, b, nested, held))
            }
            Ok(None) => (0, Ok(())),
            Err(error) => (0, self.cannot(error)),
        };
        // Objects are dropped and forgotten meanwhile, so its index may have changed.
        if let Some(cq) = self.cqs.iter_mut().find(|cq| cq.uid == uid) {
            cq.queue = Some(queue);
        }
        outcome.map(|()| count)
    }

    /// Carries out steps while a completion is held.
    fn while_held(
        &mut self,
        holding: &Holding<'_>,
        how: u8,
        nested: &[Op],
        held: &[&dyn Held],
    ) -> Outcome {
        if how & 1 == 0 {
            self.offer_to_all(holding, how.into())?;
            self.look()?;
        }
        let mut all: Vec<&dyn Held> = held.to_vec();
        all.push(holding);
        self.run(nested, &all)?;
        if holding.was_taken() {
            return Ok(());
        }
        if how & 0xf0 == 0xf0 {
            self.discarded = true;
            return Ok(());
        }
        self.offer_to_all(holding, how.into())
    }

    fn offer_to_all(&mut self, held: &dyn Held, first: usize) -> Outcome {
        let count = self.owners(first).len();
        for which in 0..count {
            self.offer_to(held, first, which)?;
        }
        Ok(())
    }

    /// Offers a completion to one of all owners.
    fn offer_to(&mut self, held: &dyn Held, first: usize, which: usize) -> Outcome {
        let mut owners = self.owners(first);
        let Some((owner, queue)) = owners.get_mut(which) else {
            return Ok(());
        };
        let owner = *owner;
        match held.offer(*queue) {
            Some((says, Some(finished), before)) => {
                if before != 0 {
                    self.found(Rule::Foreign, || {
                        format!("{says:?} finished one more request, {finished:?}")
                    })?;
                }
                self.settle(held.source(), &says, vec![(owner, finished)], false)
            }
            _ => Ok(()),
        }
    }

    /// Offers a held completion to one owner, or to all.
    pub(super) fn offer(&mut self, a: u8, b: u8, held: &[&dyn Held]) -> Outcome {
        let Some(held) = held.get(pick(held.len(), a)) else {
            return Ok(());
        };
        if b & 1 == 0 {
            return self.offer_to_all(*held, b.into());
        }
        let which = pick(self.owners(0).len(), b >> 1);
        self.offer_to(*held, 0, which)
    }
}

//! The end of a program: everything is destroyed, and nothing may be left.

use std::collections::HashSet;

use uverbs::QpState;
use uverbs::attr::QpAttr;

use super::made::{Body, Srq};
use super::{Outcome, World};
use crate::face;
use crate::finding::Rule;

impl World<'_> {
    /// Ends everything that is posted, then all objects.
    pub(super) fn end(mut self) -> Outcome {
        self.trap.disarm();
        self.device.mend();
        self.freeze(false);
        self.end_hubs()?;
        let flushed = self.flush();
        self.drain()?;
        self.look()?;
        self.check_flushed(&flushed)?;
        for pair in std::mem::take(&mut self.pairs) {
            self.end_pair(pair)?;
        }
        self.look()?;
        self.check_shared()?;
        for srq in std::mem::take(&mut self.srqs) {
            self.end_shared(srq)?;
        }
        self.look()?;
        self.nothing_is_left()
    }

    /// Flushes queue pairs, and returns which. Those in RESET have nothing to flush.
    fn flush(&mut self) -> HashSet<u32> {
        let mut flushed = HashSet::new();
        for pair in &mut self.pairs {
            let uid = pair.uid;
            if let Some(qp) = pair.owned()
                && qp.modify(&QpAttr::to(QpState::Error)).is_ok()
            {
                flushed.insert(uid);
            }
        }
        flushed
    }

    /// Polls until there are no more completions.
    fn drain(&mut self) -> Outcome {
        self.device.run();
        loop {
            let mut count = 0;
            for at in 0..self.cqs.len() {
                count += self.poll_at(at, 0, usize::MAX)?;
            }
            for at in 0..self.pairs.len() {
                self.release(at, usize::MAX)?;
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    fn check_flushed(&self, flushed: &HashSet<u32>) -> Outcome {
        if self.doubt || self.discarded {
            return Ok(());
        }
        for pair in self.pairs.iter().filter(|pair| flushed.contains(&pair.uid)) {
            if !self.polls(pair.send_cq) || !self.polls(pair.recv_cq) {
                continue;
            }
            let mine = |(_, request): &(_, &super::Request)| request.owner == pair.uid;
            // What was carried out before the flush, and has nothing signaled behind it.
            if self
                .requests
                .iter()
                .filter(mine)
                .any(|(_, request)| request.quiet)
            {
                continue;
            }
            if let Some((number, _)) = self.requests.iter().find(mine) {
                self.found(Rule::Lost, || {
                    format!("request {number} of {} never ended", pair.uid)
                })?;
            }
            if let Body::Owned(qp) = &pair.body
                && (qp.sends_posted(), qp.receives_posted()) != (0, 0)
            {
                self.found(Rule::Lost, || {
                    let (sends, receives) = (qp.sends_posted(), qp.receives_posted());
                    format!("{} says {sends} and {receives} are posted", pair.uid)
                })?;
            }
        }
        Ok(())
    }

    /// Whether a completion queue can still be polled.
    fn polls(&self, uid: u32) -> bool {
        self.cqs
            .iter()
            .any(|cq| cq.uid == uid && cq.queue.is_some())
    }

    /// Checks that shared queues hold what their devices see. Forgotten queue pairs may still
    /// receive, so the devices are frozen from the last poll until the check.
    fn check_shared(&mut self) -> Outcome {
        self.freeze(true);
        self.drain()?;
        let mut srqs = std::mem::take(&mut self.srqs);
        for srq in &mut srqs {
            self.check_receives(srq)?;
        }
        self.srqs = srqs;
        self.freeze(false);
        Ok(())
    }

    fn check_receives(&mut self, srq: &mut Srq) -> Outcome {
        while let Some(finished) = face::unpolled(&mut srq.queue) {
            self.ended(finished.user_data(), srq.uid, finished.into_memory())?;
        }
        // A completion queue that a forgotten queue pair keeps alive is not gone, and cannot be
        // polled.
        let polled = srq.users.iter().all(|(_, cq)| self.polls(*cq));
        let certain = !self.doubt && !self.discarded && (polled || self.graveyard.is_empty());
        let posted = srq.queue.receives_posted();
        if certain
            && let Some(there) = self.device.shared(srq.site, srq.number)
            && there != posted
        {
            self.found(Rule::Lost, || {
                format!("{} has {posted} receives, its device {there}", srq.uid)
            })?;
        }
        Ok(())
    }

    fn end_shared(&mut self, srq: Srq) -> Outcome {
        let owner = srq.uid;
        match srq.queue.destroy() {
            Ok(memory) => self.given_up(owner, memory),
            // Forgotten queue pairs use it.
            Err(_) => Ok(()),
        }
    }

    /// Drops everything, and checks what the kernel still has.
    fn nothing_is_left(mut self) -> Outcome {
        self.cqs.clear();
        self.exposed.clear();
        self.hands.clear();
        self.shared = None;
        self.graveyard.clear();
        let sites = std::mem::take(&mut self.sites);
        let leaked: u64 = sites
            .iter()
            .flatten()
            .map(|site| site.context.leaked())
            .sum();
        drop(sites);
        if leaked != 0 || self.doubt {
            return Ok(());
        }
        match self.device.left() {
            Some(left) => self.found(Rule::Leaked, || left),
            None => Ok(()),
        }
    }
}

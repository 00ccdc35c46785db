//! Modifying existing objects.

use uverbs::attr::{QpAttr, SrqModify};
use uverbs::link::Mtu;
use uverbs::owned::Memory;
use uverbs::time::{RetryCount, RnrRetry, RnrTimer};
use uverbs::{AccessFlags, QpState, QpType};

use super::made::{Body, Link, Pair};
use super::{Outcome, World, pick};
use crate::face;
use crate::finding::Rule;

impl Link {
    /// All attributes that a transition to this state takes.
    fn attributes(&self, to: QpState) -> QpAttr {
        let connected = self.kind != QpType::Ud;
        let reliable = self.kind == QpType::Rc;
        let mut attr = QpAttr::to(to);
        match to {
            QpState::Init => {
                attr = attr.port(1).pkey_index(0);
                attr = if connected {
                    attr.access(
                        AccessFlags::LOCAL_WRITE
                            | AccessFlags::REMOTE_READ
                            | AccessFlags::REMOTE_WRITE
                            | AccessFlags::REMOTE_ATOMIC,
                    )
                } else {
                    attr.qkey(0x1111_1111)
                };
            }
            QpState::ReadyToReceive if connected => {
                attr = attr
                    .av(self.path)
                    .path_mtu(Mtu::B1024)
                    .dest_qpn(self.peer.qp_num)
                    .rq_psn(self.peer.psn);
                if reliable {
                    attr = attr
                        .max_dest_rd_atomic(4)
                        .min_rnr_timer(RnrTimer::from_raw(1));
                }
            }
            QpState::ReadyToSend => {
                attr = attr.sq_psn(self.own.psn);
                if reliable {
                    attr = attr
                        .timeout(uverbs::time::AckTimeout::from_raw(14))
                        .retry_count(RetryCount::from_raw(7))
                        .rnr_retry(RnrRetry::from_raw(7))
                        .max_rd_atomic(4);
                }
            }
            _ => {}
        }
        attr
    }
}

impl Pair {
    fn modify(&mut self, attr: &QpAttr) -> uverbs::Result<()> {
        match &mut self.body {
            Body::Raw(qp) => qp.modify(attr),
            Body::Owned(qp) => qp.modify(attr),
        }
    }
}

impl Pair {
    /// Queries the kernel for the state.
    fn look_up(&mut self) {
        match &mut self.body {
            Body::Raw(qp) => drop(qp.query()),
            Body::Owned(qp) => drop(qp.query()),
        }
    }
}

impl World<'_> {
    fn pair(&mut self, a: u8) -> Option<&mut Pair> {
        let at = pick(self.pairs.len(), a);
        self.pairs.get_mut(at)
    }

    /// Modifies the state, with or without the attributes that this requires, in more than one way.
    pub(super) fn modify(&mut self, a: u8, b: u8, c: u8) {
        let Some(pair) = self.pair(a) else { return };
        let state = face::state([0, 0, 1, 2, 3, 4, 5, 6][pick(8, b)]);
        let attr = match c & 6 {
            0 => QpAttr::to(state),
            _ => pair
                .link
                .attributes(QpState::from_raw(state.raw()))
                .state(state),
        };
        let attr = match c >> 3 {
            0 => attr.cur_state(face::state(b >> 4)),
            1 => attr.access(AccessFlags::from_bits_retain(b.into())),
            _ => attr,
        };
        if let Body::Raw(_) = pair.body {
            pair.pure = false;
        }
        drop(pair.modify(&attr));
    }

    /// From RESET to RTS, or as far as possible.
    pub(super) fn connect(&mut self, a: u8, b: u8) {
        let Some(pair) = self.pair(a) else { return };
        if b & 4 != 0 {
            pair.look_up();
        }
        let steps = [QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend];
        let count = if b & 0xf0 == 0 { pick(3, b) } else { 3 };
        for state in &steps[..count] {
            let attr = pair.link.attributes(*state);
            if pair.modify(&attr).is_err() {
                break;
            }
        }
    }

    pub(super) fn reset(&mut self, a: u8) -> Outcome {
        let Some(pair) = self.pair(a) else {
            return Ok(());
        };
        pair.pure = false;
        let owner = pair.uid;
        match pair.owned().map(uverbs::owned::QueuePair::reset) {
            Some(Ok(memory)) => self.given_up(owner, memory),
            _ => Ok(()),
        }
    }

    /// A queue returned all its memory.
    pub(super) fn given_up(&mut self, owner: u32, memory: Vec<Memory>) -> Outcome {
        let mut given: Vec<_> = memory.iter().map(super::made::place).collect();
        let mine = |request: &super::Request| request.owner == owner;
        for request in self.requests.values().filter(|request| mine(request)) {
            let at = given.iter().position(|place| *place == request.place);
            match at {
                Some(at) => drop(given.swap_remove(at)),
                None if request.place.is_none() || !request.sure || self.doubt => {}
                None => self.found(Rule::Lost, || {
                    format!("{owner} did not give back {request:?}")
                })?,
            }
        }
        // Exposed memory has no place index here.
        if given.iter().any(Option::is_some) {
            self.found(Rule::NotOut, || {
                format!("{owner} gave back {given:x?}, which were not posted")
            })?;
        }
        self.requests.retain(|_, request| !mine(request));
        for memory in memory {
            self.take(memory);
        }
        Ok(())
    }

    pub(super) fn resize_cq(&mut self, a: u8, b: u8) {
        let at = pick(self.cqs.len(), a);
        if let Some(queue) = self.cqs.get_mut(at).and_then(|cq| cq.queue.as_mut()) {
            let entries = [255, 200, 300, 511, 256, 254, 512, 1023][pick(8, b)];
            drop(queue.resize(entries));
        }
    }

    pub(super) fn modify_srq(&mut self, a: u8, b: u8) {
        let at = pick(self.srqs.len(), a);
        if let Some(srq) = self.srqs.get_mut(at) {
            let change = SrqModify {
                max_wr: (b & 1 == 0).then_some(u32::from(b >> 3)),
                limit: (b & 2 == 0).then_some(u32::from(b >> 6)),
            };
            drop(srq.queue.modify(&change));
        }
    }

    pub(super) fn touch(&mut self, a: u8) {
        let at = pick(self.hands.len(), a);
        let number = self.number();
        if let Some(hand) = self.hands.get_mut(at) {
            let len = hand.buffer.len();
            hand.write(number, len);
        }
    }

    pub(super) fn swap(&mut self, a: u8, b: u8, c: u8) {
        fn two<T>(list: &mut [T], a: u8, b: u8) {
            if let Ok([one, other]) =
                list.get_disjoint_mut([pick(list.len(), a), pick(list.len(), b)])
            {
                std::mem::swap(one, other);
            }
        }
        match c & 3 {
            0 => two(&mut self.pairs, a, b),
            1 => two(&mut self.srqs, a, b),
            2 => two(&mut self.cqs, a, b),
            _ => two(&mut self.hands, a, b),
        }
    }
}

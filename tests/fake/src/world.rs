//! Objects in any order, next to a model of them.
//!
//! The model has the same structure as what it checks: a kernel object lives as long as its handle
//! or anything created from it, so a token for it is owned by those. Registered memory is counted
//! in the same way, wherever a buffer is: owned by the program, in a queue, or in a completion.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use uverbs::attr::{QpAttr, SrqModify};
use uverbs::owned::{self, Buffer, Finished, Memory};
use uverbs::{
    Completion, CompletionChannel, CompletionQueue, Context, Notify, ProtectionDomain, QpState,
    QpType,
};
use uverbs_fake::Objects;

/// The kind of object that a token represents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Pd,
    Mr,
    Cq,
    Srq,
    Qp,
    EventFile,
}

/// An object in the model.
#[derive(Debug)]
struct Token {
    kind: Kind,
    /// Tokens that live as long as this one: of what it was created from, and of memory that was
    /// left with it.
    keeps: RefCell<Vec<Rc<Token>>>,
}

/// A handle and its token in the model. The handle is dropped first.
#[derive(Debug)]
struct Known<T>(T, Rc<Token>);

#[derive(Debug)]
struct Pair {
    qp: owned::QueuePair,
    /// The memory of posted requests, by the id they were posted with.
    posted: HashMap<u64, Rc<Token>>,
    token: Rc<Token>,
}

#[derive(Debug)]
struct Shared {
    srq: owned::SharedReceiveQueue,
    posted: HashMap<u64, Rc<Token>>,
    token: Rc<Token>,
}

/// Handles of a context, and the model.
#[derive(Debug)]
pub struct World {
    context: Context,
    qps: Vec<Pair>,
    srqs: Vec<Shared>,
    /// The channel's file is open as long as handles refer to it; the kernel's queue does not need
    /// it any longer.
    cqs: Vec<(Known<CompletionQueue>, Option<Rc<Token>>)>,
    channels: Vec<Known<CompletionChannel>>,
    buffers: Vec<Known<Buffer>>,
    pds: Vec<Known<ProtectionDomain>>,
    tokens: Vec<Weak<Token>>,
    next: u64,
}

/// At most this many handles of a kind are created.
const ENOUGH: usize = 5;

impl World {
    /// Nothing but a context.
    pub fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            qps: Vec::new(),
            srqs: Vec::new(),
            cqs: Vec::new(),
            channels: Vec::new(),
            buffers: Vec::new(),
            pds: Vec::new(),
            tokens: Vec::new(),
            next: 0,
        }
    }

    fn token(&mut self, kind: Kind, parents: &[&Rc<Token>]) -> Rc<Token> {
        let token = Rc::new(Token {
            kind,
            keeps: RefCell::new(parents.iter().map(|parent| Rc::clone(parent)).collect()),
        });
        self.tokens.push(Rc::downgrade(&token));
        token
    }

    /// Number of kernel objects that there should be. The context and its event file are counted,
    /// too.
    pub fn expected(&mut self) -> Objects {
        self.tokens.retain(|token| token.strong_count() > 0);
        let alive: Vec<_> = self.tokens.iter().filter_map(Weak::upgrade).collect();
        let count = |kind| alive.iter().filter(|token| token.kind == kind).count();
        Objects {
            contexts: 1,
            event_files: 1 + count(Kind::EventFile),
            pds: count(Kind::Pd),
            mrs: count(Kind::Mr),
            mws: 0,
            cqs: count(Kind::Cq),
            qps: count(Kind::Qp),
            srqs: count(Kind::Srq),
            ahs: 0,
        }
    }

    /// Carries out one step; the numbers select the step and its objects.
    ///
    /// # Panics
    /// If a queue has other work than was posted to it.
    pub fn step(&mut self, what: u8, a: u8, b: u8) {
        let (a, b) = (usize::from(a), usize::from(b));
        match what % 26 {
            0 | 1 => self.make_pd(),
            2 => self.make_channel(),
            3 | 4 => self.make_cq(a, b),
            5 => self.make_srq(a),
            6..=8 => self.make_qp(a, b),
            9 | 10 => self.make_buffers(a),
            11 | 12 => self.send(a, b),
            13 | 14 => self.receive(a, b),
            15 => self.receive_shared(a, b),
            16..=18 => self.poll(a),
            19 => self.change(a, b),
            20 => self.listen(a, b),
            21 => self.drop_one(a, b),
            22 => self.destroy_qp(a),
            23 => self.destroy_queue(a, b),
            24 => self.destroy_pd(a),
            _ => self.reset(a),
        }
        for Pair { qp, posted, .. } in &self.qps {
            assert_eq!(qp.sends_posted() + qp.receives_posted(), posted.len());
        }
        for Shared { srq, posted, .. } in &self.srqs {
            assert_eq!(srq.receives_posted(), posted.len());
        }
    }

    fn make_pd(&mut self) {
        if self.pds.len() < ENOUGH
            && let Ok(pd) = self.context.alloc_pd()
        {
            let token = self.token(Kind::Pd, &[]);
            self.pds.push(Known(pd, token));
        }
    }

    fn make_channel(&mut self) {
        if self.channels.len() < ENOUGH
            && let Ok(channel) = self.context.create_completion_channel()
        {
            let token = self.token(Kind::EventFile, &[]);
            self.channels.push(Known(channel, token));
        }
    }

    fn make_cq(&mut self, a: usize, b: usize) {
        if self.cqs.len() >= ENOUGH {
            return;
        }
        let mut of_channel = None;
        let mut builder = self
            .context
            .completion_queue(if b.is_multiple_of(7) { 1 } else { 64 });
        if let Some(Known(channel, token)) = pick(&self.channels, a) {
            builder = builder.channel(channel);
            of_channel = Some(Rc::clone(token));
        }
        if let Ok(cq) = builder.build() {
            let token = self.token(Kind::Cq, &[]);
            self.cqs.push((Known(cq, token), of_channel));
        }
    }

    fn make_srq(&mut self, a: usize) {
        let Some(Known(pd, token)) = pick(&self.pds, a) else {
            return;
        };
        let parent = Rc::clone(token);
        if self.srqs.len() < ENOUGH
            && let Ok(srq) = pd.create_srq(8, 1)
        {
            let token = self.token(Kind::Srq, &[&parent]);
            self.srqs.push(Shared {
                srq: owned::SharedReceiveQueue::new(srq),
                posted: HashMap::new(),
                token,
            });
        }
    }

    fn make_qp(&mut self, a: usize, b: usize) {
        let (
            Some(Known(pd, pd_token)),
            Some((Known(cq, cq_token), _)),
            Some((Known(other, other_token), _)),
        ) = (
            pick(&self.pds, a),
            pick(&self.cqs, b),
            pick(&self.cqs, a + b),
        )
        else {
            return;
        };
        if self.qps.len() >= ENOUGH {
            return;
        }
        let mut parents = vec![
            Rc::clone(pd_token),
            Rc::clone(cq_token),
            Rc::clone(other_token),
        ];
        let mut builder = pd
            .queue_pair(QpType::Rc, cq, other)
            .gid_index(1)
            .max_send_wr(4)
            .max_recv_wr(4);
        if let Some(Shared { srq, token, .. }) = pick(&self.srqs, b).filter(|_| a.is_multiple_of(3))
        {
            builder = builder.srq(srq.queue());
            parents.push(Rc::clone(token));
        }
        let Ok(prepared) = builder.build() else {
            return;
        };
        let endpoint = prepared.endpoint();
        if let Ok(qp) = prepared.handshake(endpoint) {
            let token = self.token(Kind::Qp, &parents.iter().collect::<Vec<_>>());
            self.qps.push(Pair {
                qp: owned::QueuePair::new(qp),
                posted: HashMap::new(),
                token,
            });
        }
    }

    fn make_buffers(&mut self, a: usize) {
        let Some(Known(pd, token)) = pick(&self.pds, a) else {
            return;
        };
        let parent = Rc::clone(token);
        if self.buffers.len() < 4 * ENOUGH
            && let Ok(buffers) = pd.buffer_list(3, 16)
        {
            // One registration for all three.
            let token = self.token(Kind::Mr, &[&parent]);
            let known = buffers
                .into_iter()
                .map(|buffer| Known(buffer, Rc::clone(&token)));
            self.buffers.extend(known);
        }
    }

    fn send(&mut self, a: usize, b: usize) {
        let Self {
            qps, buffers, next, ..
        } = self;
        let (Some(Pair { qp, posted, .. }), Some(at)) = (pick_mut(qps, a), index(buffers, b))
        else {
            return;
        };
        let Known(buffer, token) = buffers.swap_remove(at);
        *next += 1;
        match qp.send(buffer, 16, *next) {
            Ok(()) => drop(posted.insert(*next, token)),
            Err(refused) => match refused.work.map(|work| work.take_memory().into_buffer()) {
                Some(Some(buffer)) => buffers.push(Known(buffer, token)),
                // It stays with the queue: the kernel may have read it.
                _ => drop(posted.insert(*next, token)),
            },
        }
    }

    fn receive(&mut self, a: usize, b: usize) {
        let Self {
            qps, buffers, next, ..
        } = self;
        let (Some(Pair { qp, posted, .. }), Some(at)) = (pick_mut(qps, a), index(buffers, b))
        else {
            return;
        };
        let Known(buffer, token) = buffers.swap_remove(at);
        *next += 1;
        match qp.recv(buffer, *next) {
            Ok(()) => drop(posted.insert(*next, token)),
            Err(refused) => buffers.push(Known(refused.buffer, token)),
        }
    }

    fn receive_shared(&mut self, a: usize, b: usize) {
        let Self {
            srqs,
            buffers,
            next,
            ..
        } = self;
        let (Some(Shared { srq, posted, .. }), Some(at)) = (pick_mut(srqs, a), index(buffers, b))
        else {
            return;
        };
        let Known(buffer, token) = buffers.swap_remove(at);
        *next += 1;
        match srq.recv(buffer, *next) {
            Ok(()) => drop(posted.insert(*next, token)),
            Err(refused) => buffers.push(Known(refused.buffer, token)),
        }
    }

    /// Passes all completions of a queue to the queues that they belong to: one queue, or none.
    fn poll(&mut self, a: usize) {
        let Self {
            cqs,
            qps,
            srqs,
            buffers,
            ..
        } = self;
        let Some((Known(cq, _), _)) = pick_mut(cqs, a) else {
            return;
        };
        while let Ok(Some(completion)) = cq.poll() {
            let mut rest = Some(completion);
            let of_qps = qps.iter_mut().find_map(|Pair { qp, posted, .. }| {
                owner(&mut rest, posted, |completion| qp.complete(completion))
            });
            let found = of_qps.or_else(|| {
                srqs.iter_mut().find_map(|Shared { srq, posted, .. }| {
                    owner(&mut rest, posted, |completion| srq.complete(completion))
                })
            });
            let Some((finished, posted)) = found else {
                continue;
            };
            let token = posted.remove(&finished.user_data());
            assert!(token.is_some(), "{finished:?} was not posted there");
            let buffer = finished.into_buffer();
            buffers.extend(
                buffer
                    .into_iter()
                    .zip(token)
                    .map(|(buffer, token)| Known(buffer, token)),
            );
        }
    }

    /// Modifies, resizes or queries something. The model ignores the result.
    fn change(&mut self, a: usize, b: usize) {
        match b % 5 {
            0 => drop(pick_mut(&mut self.cqs, a).map(|(Known(cq, _), _)| cq.resize(70))),
            1 => drop(pick_mut(&mut self.srqs, a).map(|Shared { srq, .. }| {
                let modify = SrqModify {
                    max_wr: Some(16),
                    limit: None,
                };
                srq.modify(&modify)
            })),
            2 => drop(pick_mut(&mut self.qps, a).map(|Pair { qp, .. }| qp.query())),
            3 => drop(
                pick_mut(&mut self.qps, a)
                    .map(|Pair { qp, .. }| qp.modify(&QpAttr::to(QpState::Error))),
            ),
            _ => drop(self.context.query_port(1)),
        }
    }

    fn listen(&mut self, a: usize, b: usize) {
        if let Some((Known(cq, _), _)) = pick_mut(&mut self.cqs, a) {
            drop(cq.request_notification(Notify::Any));
        }
        if let Some(Known(channel, _)) = pick(&self.channels, b) {
            drop(channel.event(Some(Duration::ZERO)));
        }
        drop(self.context.try_async_event());
    }

    fn drop_one(&mut self, a: usize, b: usize) {
        match b % 6 {
            0 => drop(take(&mut self.pds, a)),
            1 => drop(take(&mut self.channels, a)),
            2 => drop(take(&mut self.cqs, a)),
            3 => {
                if let Some(Shared { srq, posted, token }) = take(&mut self.srqs, a) {
                    drop(srq);
                    // As long as queue pairs use it, it lives on with its memory.
                    token.keeps.borrow_mut().extend(posted.into_values());
                }
            }
            4 => drop(take(&mut self.qps, a)),
            _ => drop(take(&mut self.buffers, a)),
        }
    }

    fn destroy_qp(&mut self, a: usize) {
        if let Some(Pair { qp, posted, token }) = take(&mut self.qps, a) {
            let owned = posted.len();
            if let Ok(memory) = qp.destroy() {
                self.took_back(&memory, owned);
            }
            drop((posted, token));
        }
    }

    fn reset(&mut self, a: usize) {
        if let Some(Pair { qp, posted, .. }) = pick_mut(&mut self.qps, a)
            && let Ok(memory) = qp.reset()
        {
            let owned = posted.len();
            posted.clear();
            self.took_back(&memory, owned);
        }
    }

    fn destroy_queue(&mut self, a: usize, b: usize) {
        if b.is_multiple_of(2) {
            drop(take(&mut self.cqs, a).map(|(Known(cq, token), _)| (cq.destroy(), token)));
        } else if let Some(Shared { srq, posted, token }) = take(&mut self.srqs, a) {
            let owned = posted.len();
            match srq.destroy() {
                Ok(memory) => self.took_back(&memory, owned),
                // It lives on with its queue pairs, and so does the memory.
                Err(_) => token.keeps.borrow_mut().extend(posted.into_values()),
            }
        }
    }

    fn destroy_pd(&mut self, a: usize) {
        drop(take(&mut self.pds, a).map(|Known(pd, token)| (pd.dealloc(), token)));
    }

    /// As much as was posted; the memory is dropped.
    fn took_back(&self, memory: &[Memory], owned: usize) {
        assert_eq!(memory.len(), owned, "of {} queue pairs", self.qps.len());
    }

    /// Drops every handle but the context.
    pub fn end(self) {
        drop(self);
    }
}

fn index<T>(list: &[T], number: usize) -> Option<usize> {
    number.checked_rem(list.len())
}

fn pick<T>(list: &[T], number: usize) -> Option<&T> {
    list.get(index(list, number)?)
}

fn pick_mut<T>(list: &mut [T], number: usize) -> Option<&mut T> {
    let at = index(list, number)?;
    list.get_mut(at)
}

fn take<T>(list: &mut Vec<T>, number: usize) -> Option<T> {
    let at = index(list, number)?;
    Some(list.swap_remove(at))
}

/// Offers the completion to a queue, unless it was already taken; returns what finished there, and
/// what was posted there.
fn owner<'cq, 'p, P>(
    rest: &mut Option<Completion<'cq>>,
    posted: &'p mut P,
    complete: impl FnOnce(Completion<'cq>) -> Result<Finished, Completion<'cq>>,
) -> Option<(Finished, &'p mut P)> {
    match complete(rest.take()?) {
        Ok(finished) => Some((finished, posted)),
        Err(completion) => {
            *rest = Some(completion);
            None
        }
    }
}

//! Requests that are described once: their words, except for what differs each time.
#![expect(clippy::inline_always, reason = "a part of posting")]

use uverbs_core::types::{Payload, Posting, SendRequest, Template};

use super::SendRing;
use super::shape::Shape;
use super::usual::{PuttingPrepared, Spot};
use crate::tracker::SentKind;
use crate::wqe::operations::Operations;
use crate::wqe::request::MAX_SGE_LENGTH;
use crate::wqe::{self, control};

/// A [`Template`] in the form that the device reads.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    template: Template,
    needs: Operations,
    /// The part of the control segment's first word that does not depend on the queue.
    head: u64,
    completion: SentKind,
    /// The control segment's last word, with the flags that the request was described with.
    tail: u64,
    has_remote: bool,
    local_key: u32,
    /// The second word of the remote address.
    remote_key: u64,
}

impl Prepared {
    pub(crate) fn new(template: &Template) -> Self {
        template.with(&Posting::default(), |request| Self::of(template, request))
    }

    fn of(template: &Template, request: &SendRequest<'_>) -> Self {
        // Templates have no other operations.
        let shape = Shape::of(&request.operation).unwrap_or(Shape::SEND);
        let flags = control::flags(request.flags, 0, 0);
        Self {
            template: *template,
            needs: shape.needs,
            head: wqe::control_known(shape.opcode, shape.units_before_data() + 2),
            completion: SentKind::of(shape.completion),
            tail: wqe::control_tail(flags, shape.immediate),
            has_remote: shape.remote.is_some(),
            local_key: match request.payload {
                Payload::Gather([sge]) => sge.key.raw(),
                _ => 0,
            },
            remote_key: shape.remote().map_or(0, |[_, key]| key),
        }
    }

    /// The request, for queues and lengths that need more than copying words.
    pub(super) fn with<T>(&self, posting: &Posting, then: impl FnOnce(&SendRequest<'_>) -> T) -> T {
        self.template.with(posting, then)
    }
}

impl SendRing {
    /// Writes a posting at `spot`; see [`put_usual`](Self::put_usual).
    #[inline(always)]
    pub(super) fn put_prepared<P: PuttingPrepared>(
        &mut self,
        spot: Spot,
        prepared: &Prepared,
        posting: &Posting,
        putting: P,
    ) -> P::Done {
        let is_usual = spot.is_free
            && self.fork.is_current()
            && self.gathered.contains(prepared.needs)
            && (1..=MAX_SGE_LENGTH).contains(&posting.length);
        if !is_usual {
            return putting.posting_apart(self, prepared, posting);
        }
        let common = putting.common(self);
        let head = wqe::control_head_of(prepared.head, spot.block, common.queue);
        let tail = prepared.tail | common.tail;
        let (block, entry) = self.blocks.at(spot.block);
        entry.posted(posting.wr_id, spot.requests.after(1), prepared.completion);
        let data = [
            wqe::words(posting.length, prepared.local_key),
            posting.address.to_be(),
        ];
        block.put(0, [head, tail]);
        if prepared.has_remote {
            block.put(1, [posting.remote.to_be(), prepared.remote_key]);
            block.put(2, data);
        } else {
            block.put(1, data);
        }
        putting.written(self, head)
    }
}

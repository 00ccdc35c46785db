//! What is composed between `ibv_wr_start` and `ibv_wr_complete`.

use std::ops::Range;

use uverbs_core::types::{
    Destination, Operation, Payload, SendFlags, SendRequest, Sge, WindowBinding,
};

use crate::abi::ibv_data_buf;
use crate::ah::Ah;
use crate::answer::Answer;
use crate::dv::{self, To};
use crate::errno::Code;
use crate::pointer::{Handle, items};
use crate::qp::Qp;
use crate::sends::INLINE;
use crate::steps::{Begun, KEPT, Steps};

/// The requests since `start`.
#[derive(Default)]
pub(crate) struct Batch {
    /// How the request that was begun last goes on; `None` if that one is in the ring, or there is
    /// none.
    pub(crate) steps: Option<&'static Steps>,
    /// What is known of it.
    pub(crate) begun: Begun,
    /// The same request, if it is kept until the next one begins.
    kept: Option<Composed>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    /// Why nothing will be posted.
    pub(crate) failed: Option<Code>,
}

/// A request that is kept.
struct Composed {
    wr_id: u64,
    flags: SendFlags,
    operation: What,
    payload: Data,
    destination: Option<(Handle<Ah>, u32, u32)>,
    to: To<'static>,
}

/// An operation that refers to nothing elsewhere.
pub(crate) enum What {
    Plain(Operation<'static>),
    Bind(WindowBinding),
    /// A frame whose header is these of the batch's bytes, cut into payloads of this size.
    Segments(Range<usize>, u16),
    /// A request of the vendor's.
    Vendors(Box<dv::Request>),
}

/// Ranges of the batch's entries or bytes.
enum Data {
    Gather(Range<usize>),
    Inline(Range<usize>),
}

impl Batch {
    /// Nothing will be posted.
    pub(crate) fn fail(&mut self, code: Code) {
        self.failed.get_or_insert(code);
    }

    /// Begins a request that is kept.
    pub(crate) fn keep(&mut self, own: &Qp, what: What) {
        self.flush(own);
        let (wr_id, flags) = (own.c.wr_id.get(), own.c.wr_flags.get());
        self.kept = Some(Composed::new(own, wr_id, flags, what));
        self.steps = Some(&KEPT);
    }

    /// The request that was begun last, if it is the vendor's.
    pub(crate) fn vendors_request(&mut self) -> Option<&mut dv::Request> {
        match &mut self.kept.as_mut()?.operation {
            What::Vendors(request) => Some(request),
            _ => None,
        }
    }

    /// The same for a frame with this header.
    pub(crate) fn keep_segments(&mut self, own: &Qp, header: &[u8], size: u16) {
        self.keep(own, What::Segments(0..header.len(), size));
        self.bytes.extend_from_slice(header);
    }

    /// The request that was begun last, if it is not in the ring.
    fn take(&mut self, own: &Qp) -> Option<Composed> {
        let steps = self.steps.take()?;
        let kept = self.kept.take();
        Some(kept.unwrap_or_else(|| {
            let begun = &self.begun;
            let what = What::Plain((steps.operation)(begun));
            Composed::new(own, begun.wr_id, begun.flags, what)
        }))
    }

    /// Changes the request that was begun last, which is kept from then on.
    fn last(&mut self, own: &Qp, change: impl FnOnce(&mut Composed)) {
        let Some(mut last) = self.take(own) else {
            return self.fail(Code::INVALID);
        };
        change(&mut last);
        self.kept = Some(last);
        self.steps = Some(&KEPT);
    }

    /// Says where the request that was begun last goes.
    pub(crate) fn send_to(&mut self, own: &Qp, to: To<'static>) {
        self.last(own, |request| request.to = to);
    }

    /// The same for a datagram.
    pub(crate) fn send_datagram(&mut self, own: &Qp, ah: Handle<Ah>, qp_num: u32, qkey: u32) {
        self.last(own, |request| {
            request.destination = Some((ah, qp_num, qkey));
        });
    }

    /// Puts the request that was begun last into the ring, if there is one.
    pub(crate) fn flush(&mut self, own: &Qp) {
        let Some(composed) = self.take(own) else {
            return;
        };
        if self.failed.is_none()
            && let Err(code) = self.put(own, &composed)
        {
            self.failed = Some(code);
        }
        self.sges.clear();
        self.bytes.clear();
    }

    fn put(&self, own: &Qp, composed: &Composed) -> Answer<()> {
        let operation = match &composed.operation {
            What::Plain(operation) => *operation,
            What::Bind(binding) => Operation::BindWindow(binding),
            What::Segments(..) => Operation::Send,
            What::Vendors(request) => {
                let (wr_id, flags) = (composed.wr_id, composed.flags);
                return own.queue.with(|queue| request.put(queue, wr_id, flags));
            }
        };
        let to = match &composed.operation {
            What::Segments(header, size) => {
                let header = self.bytes.get(header.clone()).unwrap_or_default();
                To::Segments(header, *size)
            }
            _ => composed.to,
        };
        let destination = match composed.destination {
            Some((ah, qp_num, qkey)) => Some(Destination {
                address: &ah.get()?.address,
                qp_num,
                qkey,
            }),
            None => None,
        };
        let pieces;
        let payload = match &composed.payload {
            Data::Gather(range) => {
                Payload::Gather(self.sges.get(range.clone()).unwrap_or_default())
            }
            Data::Inline(range) => {
                pieces = [self.bytes.get(range.clone()).unwrap_or_default()];
                Payload::Inline(&pieces)
            }
        };
        let request = SendRequest {
            wr_id: composed.wr_id,
            flags: composed.flags,
            operation,
            payload,
            destination,
        };
        own.queue.with(|queue| dv::put(queue, &request, to))
    }

    /// Puts the request of a connection that was begun last into the ring, with this data.
    fn put_with(&mut self, own: &Qp, payload: Payload<'_>) {
        let Some(Composed {
            wr_id,
            flags,
            operation: What::Plain(operation),
            ..
        }) = self.take(own)
        else {
            return self.fail(Code::INVALID);
        };
        let request = SendRequest {
            wr_id,
            flags,
            operation,
            payload,
            destination: None,
        };
        let done = own.queue.with(|queue| dv::put(queue, &request, To::Usual));
        if let Err(code) = done {
            self.fail(code);
        }
    }

    /// Gives the request that was begun last its data: one entry.
    pub(crate) fn gather_one(&mut self, own: &Qp, sge: Sge) {
        if own.is_connection() {
            self.put_with(own, Payload::Gather(&[sge]));
        } else {
            self.gather(own, &[sge]);
        }
    }

    /// Any number of entries, which are kept.
    pub(crate) fn gather(&mut self, own: &Qp, list: &[Sge]) {
        let begin = self.sges.len();
        self.sges.extend_from_slice(list);
        let end = self.sges.len();
        self.last(own, |request| request.payload = Data::Gather(begin..end));
    }

    /// Gives the request that was begun last its data, in one piece.
    pub(crate) fn inline_one(&mut self, own: &Qp, piece: ibv_data_buf) {
        if !own.is_connection() {
            return self.inline(own, &[piece]);
        }
        match items(piece.addr.cast::<u8>().cast_const(), piece.length) {
            Ok(bytes) => self.put_with(own, Payload::Inline(&[bytes])),
            Err(code) => self.fail(code),
        }
    }

    /// In any number of pieces, which are copied: the program may change them after the call.
    pub(crate) fn inline(&mut self, own: &Qp, pieces: &[ibv_data_buf]) {
        let begin = self.bytes.len();
        for piece in pieces {
            match items(piece.addr.cast::<u8>().cast_const(), piece.length) {
                Ok(bytes) => self.bytes.extend_from_slice(bytes),
                Err(code) => self.fail(code),
            }
        }
        let end = self.bytes.len();
        self.last(own, |request| request.payload = Data::Inline(begin..end));
    }
}

impl Composed {
    fn new(own: &Qp, wr_id: u64, flags: u32, operation: What) -> Self {
        Self {
            wr_id,
            flags: SendFlags::from_bits_retain(flags & !INLINE),
            operation,
            payload: Data::Gather(0..0),
            destination: None,
            to: own.route(),
        }
    }
}

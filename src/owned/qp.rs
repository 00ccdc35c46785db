//! A queue pair that owns the memory of its posted work.
//!
//! # Safety
//!
//! Posted memory is in the tables from before it is submitted until its completion has been polled,
//! or the kernel has confirmed a destroy or a reset. A completion belongs to a request in the
//! tables if it has its id: ids are unique in the process, assigned to one request at a time, and
//! unavailable to requests that are posted elsewhere (see `slab`). A completion can be used once,
//! because it is moved in and cannot be created or copied. Tables that are left behind by a drop or
//! an unwind are kept with the kernel's queue pair until it is gone.
#![allow(unsafe_code, reason = "posts memory that this queue owns")]

use uverbs_core::types::{
    Destination, Ece, Gid, Operation, Payload, QpAttr, QpCaps, QpInfo, QpState, RecvRequest,
    SendFlags, SendRequest, Sge,
};
use uverbs_core::{Error, Op, PostError, Result};

use super::Buffer;
use super::slab::Slab;
use super::work::{Finished, Memory, ReceiveRefused, Refused, Work};
use crate::Completion;
use crate::destroy::{DestroyError, Failing};

/// A queue pair for posting without `unsafe`; see [the module](crate::owned).
#[derive(Debug)]
pub struct QueuePair {
    qp: crate::QueuePair,
    tables: Tables,
}

/// What is posted on a queue pair.
#[derive(Debug, Default)]
struct Tables {
    sending: Slab<Work>,
    receiving: Slab<Receive>,
}

impl Tables {
    /// Empty tables, for as many requests as the queue pair has room for.
    fn of(caps: &QpCaps) -> Self {
        Self {
            sending: Slab::new(caps.max_send_wr),
            receiving: Slab::new(caps.max_recv_wr),
        }
    }

    fn are_empty(&self) -> bool {
        self.sending.len() == 0 && self.receiving.len() == 0
    }

    /// The memory of all requests.
    fn into_memory(self) -> Vec<Memory> {
        let sent = self.sending.into_iter().map(|work| work.memory);
        let received = self.receiving.into_iter().map(|receive| receive.memory);
        sent.chain(received)
            .filter(|memory| !matches!(memory, Memory::None))
            .collect()
    }
}

/// A receive request in a queue.
#[derive(Debug)]
pub(super) struct Receive {
    pub(super) user_data: u64,
    pub(super) memory: Memory,
}

impl QueuePair {
    /// Takes over a queue pair. Memory of work that was posted on it before remains the
    /// responsibility of the code that posted it; completions of that work finish nothing here.
    pub fn new(qp: crate::QueuePair) -> Self {
        Self {
            tables: Tables::of(&qp.caps()),
            qp,
        }
    }

    /// Its number on the wire, 24 bits.
    pub fn qp_num(&self) -> u32 {
        self.qp.qp_num()
    }

    /// The state it was put into, or last seen in.
    pub fn state(&self) -> QpState {
        self.qp.state()
    }

    /// How many send requests are outstanding.
    pub fn sends_posted(&self) -> usize {
        self.tables.sending.len()
    }

    /// How many receive requests are posted.
    pub fn receives_posted(&self) -> usize {
        self.tables.receiving.len()
    }

    /// Posts a send request, which is always signaled. One system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the request with its memory.
    pub fn post(&mut self, work: Work) -> Result<(), Box<Refused>> {
        let refuse = |error, work| Err(Box::new(Refused { error, work }));
        let qp = &mut self.qp;
        if matches!(
            work.operation,
            Operation::BindWindow(_) | Operation::LocalInvalidate(_)
        ) {
            return refuse(PostError::UnsupportedOperation, Some(work));
        }
        let pieces = match work.memory.sge(qp.pd()) {
            Ok(piece) => piece,
            Err(error) => return refuse(error, Some(work)),
        };
        let id = match self.tables.sending.insert(work) {
            Ok(id) => id,
            Err(work) => return refuse(PostError::QueueFull, Some(work)),
        };
        let Some(work) = self.tables.sending.get(id) else {
            return refuse(PostError::Poisoned, None);
        };
        let request = SendRequest {
            wr_id: id,
            flags: work.flags | SendFlags::SIGNALED,
            operation: work.operation,
            payload: Payload::Gather(pieces.as_slice()),
            destination: work
                .destination
                .as_ref()
                .map(|(address, qp_num, qkey)| -> Destination<'_> { address.to(*qp_num, *qkey) }),
        };
        // SAFETY: the memory of the scatter/gather entry is a buffer that this table now owns, or
        // exposed memory that lends no references and that this table keeps registered. It leaves
        // the table only as the module documentation says.
        match unsafe { qp.post_send(&[request]) } {
            Ok(()) => Ok(()),
            Err(failed) if matches!(failed.error, PostError::Doorbell(_)) => {
                refuse(failed.error, None)
            }
            Err(failed) => {
                let work = self.tables.sending.remove(id);
                refuse(failed.error, work)
            }
        }
    }

    /// Sends the first `len` bytes of `buffer`.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn send(&mut self, buffer: Buffer, len: usize, user_data: u64) -> Result<(), Box<Refused>> {
        self.post(Work::send().memory((buffer, len)).user_data(user_data))
    }

    /// Sends bytes that are copied into the queue and need no buffer. Its completion is reported
    /// like that of every request, with [`Memory::None`].
    ///
    /// # Errors
    /// [`InlineTooLong`](PostError::InlineTooLong) for more than the queue pair was created for;
    /// else as [`post`](Self::post).
    pub fn send_inline(&mut self, bytes: &[u8], user_data: u64) -> Result<(), PostError> {
        let id = self
            .tables
            .sending
            .insert(Work::send().user_data(user_data))
            .map_err(|_| PostError::QueueFull)?;
        let pieces = [bytes];
        let mut batch = self.qp.send_batch();
        let posted = batch
            .push_without_memory(&SendRequest::send_inline(&pieces).wr_id(id).signaled())
            .and_then(|()| batch.submit());
        posted.inspect_err(|error| {
            if !matches!(error, PostError::Doorbell(_)) {
                self.tables.sending.remove(id);
            }
        })
    }

    /// Posts `buffer` to receive a message into. No system call on rxe.
    ///
    /// # Errors
    /// Why it was refused, and the buffer.
    pub fn recv(&mut self, buffer: Buffer, user_data: u64) -> Result<(), ReceiveRefused> {
        let qp = &mut self.qp;
        let piece = buffer.whole_in(qp.pd());
        post_receive(
            &mut self.tables.receiving,
            buffer,
            piece,
            user_data,
            |request| {
                // SAFETY: the memory of the scatter/gather entry is a buffer that the table owns
                // until its completion has been polled, or a destroy or reset has been confirmed.
                unsafe { qp.post_recv(&[*request]) }.map_err(|failed| failed.error)
            },
        )
    }

    /// Posts a receive request without memory, for a message without data (such as a write with
    /// immediate).
    ///
    /// # Errors
    /// Why it was refused.
    pub fn recv_empty(&mut self, user_data: u64) -> Result<(), PostError> {
        let receive = Receive {
            user_data,
            memory: Memory::None,
        };
        let wr_id = self
            .tables
            .receiving
            .insert(receive)
            .map_err(|_| PostError::QueueFull)?;
        // SAFETY: the request names no memory.
        let posted = unsafe {
            self.qp.post_recv(&[RecvRequest {
                wr_id,
                scatter: &[],
            }])
        };
        posted.map_err(|failed| {
            self.tables.receiving.remove(wr_id);
            failed.error
        })
    }

    /// Exchanges a completion for the memory of the finished request.
    ///
    /// No system call, and no search: the completion identifies the request.
    ///
    /// # Errors
    /// The completion, if it does not belong to a request of this queue pair: one of another queue,
    /// one that was posted before the queue pair was taken over, or one that a
    /// [`reset`](Self::reset) discarded.
    #[inline]
    pub fn complete<'cq>(
        &mut self,
        completion: Completion<'cq>,
    ) -> Result<Finished, Completion<'cq>> {
        // Only a precaution: the ids are enough, as long as the kernel tells the truth.
        if completion.qp_num != self.qp_num() {
            return Err(completion);
        }
        if let Some(work) = self.tables.sending.remove(completion.wr_id) {
            return Ok(Finished::new(work.user_data, work.memory, &completion));
        }
        if let Some(receive) = self.tables.receiving.remove(completion.wr_id) {
            return Ok(Finished::new(
                receive.user_data,
                receive.memory,
                &completion,
            ));
        }
        Err(completion)
    }

    /// `ibv_modify_qp`, except for a change to RESET, which is [`reset`](Self::reset).
    ///
    /// # Errors
    /// As [`QueuePair::modify`](crate::QueuePair::modify).
    pub fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        if attr.state == Some(QpState::Reset) {
            return Err(Error::invalid(Op::ModifyQueuePair, "state")
                .hint("use reset, which returns the memory of discarded work"));
        }
        self.qp.modify(attr)
    }

    /// `ibv_query_qp`—what the kernel knows about it.
    ///
    /// # Errors
    /// As [`QueuePair::query`](crate::QueuePair::query).
    pub fn query(&mut self) -> Result<QpInfo> {
        self.qp.query()
    }

    /// `ibv_query_ece`—as [`QueuePair::ece`](crate::QueuePair::ece).
    ///
    /// # Errors
    /// As there.
    pub fn ece(&self) -> Result<Ece> {
        self.qp.ece()
    }

    /// `ibv_set_ece`—as [`QueuePair::set_ece`](crate::QueuePair::set_ece).
    ///
    /// # Errors
    /// As there.
    pub fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        self.qp.set_ece(ece)
    }

    /// Joins a multicast group, like
    /// [`QueuePair::attach_multicast`](crate::QueuePair::attach_multicast).
    ///
    /// # Errors
    /// As there.
    pub fn attach_multicast(&mut self, group: &Gid, lid: u16) -> Result<()> {
        self.qp.attach_multicast(group, lid)
    }

    /// Moves it to RESET, which discards posted work, and returns the memory of all of it.
    ///
    /// Completions of that work that are still in a completion queue no longer finish anything.
    ///
    /// # Errors
    /// As [`modify`](Self::modify); the memory then stays in the queue.
    pub fn reset(&mut self) -> Result<Vec<Memory>> {
        // Created first, so that nothing can fail afterwards.
        let fresh = Tables::of(&self.qp.caps());
        self.qp.modify(&QpAttr::to(QpState::Reset))?;
        Ok(std::mem::replace(&mut self.tables, fresh).into_memory())
    }

    /// `ibv_destroy_qp`—destroys it and returns the memory of discarded work.
    ///
    /// # Errors
    /// As [`QueuePair::destroy`](crate::QueuePair::destroy); the memory is then leaked.
    pub fn destroy(mut self) -> Result<Vec<Memory>> {
        self.qp.end(Failing::GivenUp)?;
        Ok(std::mem::take(&mut self.tables).into_memory())
    }

    /// `ibv_destroy_qp`—as [`destroy`](Self::destroy), but returns the queue pair with its memory
    /// if that fails, for another try.
    ///
    /// # Errors
    /// As [`QueuePair::try_destroy`](crate::QueuePair::try_destroy).
    pub fn try_destroy(mut self) -> Result<Vec<Memory>, DestroyError<Self>> {
        match self.qp.end(Failing::Left) {
            Ok(_) => Ok(std::mem::take(&mut self.tables).into_memory()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if !self.tables.are_empty() {
            // Freed with the kernel's queue pair, which is destroyed after this.
            self.qp.keep(std::mem::take(&mut self.tables));
        }
    }
}

/// Puts `buffer` into `table` and posts it as `piece`; returns it if it is refused.
pub(super) fn post_receive(
    table: &mut Slab<Receive>,
    buffer: Buffer,
    piece: Option<Sge>,
    user_data: u64,
    post: impl FnOnce(&RecvRequest<'_>) -> Result<(), PostError>,
) -> Result<(), ReceiveRefused> {
    let Some(piece) = piece else {
        return Err(ReceiveRefused::new(PostError::InvalidRequest, buffer));
    };
    let refused = |error, receive: Receive| match receive.memory {
        Memory::Buffer(buffer, _) => Err(ReceiveRefused::new(error, buffer)),
        // Only buffers are put into the table here.
        Memory::None | Memory::Exposed(..) => Ok(()),
    };
    let receive = Receive {
        user_data,
        memory: Memory::from(buffer),
    };
    let wr_id = match table.insert(receive) {
        Ok(id) => id,
        Err(receive) => return refused(PostError::QueueFull, receive),
    };
    let scatter = [piece];
    let request = RecvRequest {
        wr_id,
        scatter: &scatter,
    };
    match post(&request) {
        Ok(()) => Ok(()),
        Err(error) => match table.remove(wr_id) {
            Some(receive) => refused(error, receive),
            None => Ok(()),
        },
    }
}

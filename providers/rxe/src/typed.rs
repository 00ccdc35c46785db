//! The typed ends of queues: ordinary operations, without asking whose device it is.

use uverbs_core::contract::{Cq as _, PlainReceiver, PlainSender, Qp as _, TypedCq, TypedQp};
use uverbs_core::types::{QpType, Template, WorkCompletion};
use uverbs_core::{Error, ErrorKind, Op, PollError, Result};

use crate::cq::CompletionQueue;
use crate::qp::QueuePair;

impl TypedQp for QueuePair {
    type Prepared = Template;
    type Sender<'q> = PlainSender<'q, Self>;
    type Receiver<'q> = PlainReceiver<'q, Self>;

    fn sender(&mut self) -> Result<PlainSender<'_, Self>> {
        match self.base().kind {
            QpType::Rc | QpType::Uc | QpType::Ud => Ok(PlainSender(self)),
            kind => Err(unsupported(Op::PostSend, kind)),
        }
    }

    fn receiver(&mut self) -> Result<PlainReceiver<'_, Self>> {
        if self.has_receive_queue() {
            Ok(PlainReceiver(self))
        } else {
            Err(unsupported(Op::PostReceive, self.base().kind))
        }
    }
}

fn unsupported(op: Op, kind: QpType) -> Error {
    Error::new(op, ErrorKind::Unsupported).fact("type", kind.to_string())
}

impl TypedCq for CompletionQueue {
    type Entry = WorkCompletion;

    #[inline]
    fn poll_entry(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        self.poll()
    }

    #[inline]
    fn poll_whole(&mut self, out: &mut WorkCompletion) -> Result<bool, PollError> {
        let done = self.poll()?;
        if let Some(done) = &done {
            *out = *done;
        }
        Ok(done.is_some())
    }

    #[inline]
    fn poll_entries(&mut self, out: &mut [WorkCompletion]) -> Result<usize, PollError> {
        self.poll_into(out)
    }
}

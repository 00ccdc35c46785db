//! The typed ends of a queue pair.

use uverbs_core::contract::{Qp as _, TypedQp};
use uverbs_core::types::QpType;
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::QueuePair;
use crate::rq::Receiver;
use crate::sq::{Prepared, Sender};

impl TypedQp for QueuePair {
    type Prepared = Prepared;
    type Sender<'q> = Sender<'q>;
    type Receiver<'q> = Receiver<'q>;

    fn sender(&mut self) -> Result<Sender<'_>> {
        let kind = self.base().kind;
        match (self.send.as_mut(), kind) {
            (Some(ring), QpType::Rc | QpType::Uc | QpType::Ud) => Ok(Sender::new(ring)),
            _ => Err(unsupported(Op::PostSend, kind)),
        }
    }

    fn receiver(&mut self) -> Result<Receiver<'_>> {
        let kind = self.base().kind;
        match &mut self.recv {
            Some(ring) => Ok(Receiver::new(ring)),
            None => Err(unsupported(Op::PostReceive, kind)),
        }
    }
}

/// No queue, or one whose requests need more than a typed end knows: those of XRC and DC, and
/// messages that arrive in completions.
fn unsupported(op: Op, kind: QpType) -> Error {
    Error::new(op, ErrorKind::Unsupported).fact("type", kind.to_string())
}

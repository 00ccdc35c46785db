//! What completion queues of these devices report of received frames.

use uverbs_any::{AnyCq, Of};
use uverbs_core::PollError;
use uverbs_core::contract::Cq as _;
use uverbs_core::types::WorkCompletion;
use uverbs_mlx5::CompletionQueue;

use super::own;
use crate::answer::Answer;
use crate::context::Context;

/// Whether a device reports it.
///
/// # Errors
/// EOPNOTSUPP.
pub(crate) fn check_frames(context: &Context) -> Answer<()> {
    own(context).map(drop)
}

/// A completion, its timestamp, and VLAN and flow tag of its frame.
pub(crate) type Frame = (WorkCompletion, Option<u64>, [u32; 2]);

/// Takes the next completion, with the VLAN and the flow tag of its frame.
pub(crate) fn poll_frame(queue: &mut AnyCq, stamped: bool) -> Result<Option<Frame>, PollError> {
    let own: Option<&mut CompletionQueue> = queue.of_mut();
    let own = own.ok_or(PollError::Poisoned)?;
    let Some(done) = own.next()? else {
        return Ok(None);
    };
    let fields = own.frame_fields();
    let stamp = if stamped { own.timestamp() } else { None };
    Ok(Some((done, stamp, [fields.vlan.into(), fields.tag])))
}

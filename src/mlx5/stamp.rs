//! Completions with the moment at which the device wrote them.

use uverbs_driver::contract::Cq as _;
use uverbs_driver::types::WorkCompletion;
use uverbs_driver::{PollError, Result};

use crate::provider::AnyCq;

impl AnyCq {
    /// As [`poll`](Self::poll), with what the completion is stamped with.
    pub(crate) fn poll_stamped(
        &mut self,
    ) -> Result<Option<(WorkCompletion, Option<u64>)>, PollError> {
        let Self::Mlx5(cq) = self else {
            return Ok(self.poll()?.map(|done| (done, None)));
        };
        let Some(done) = cq.next()? else {
            return Ok(None);
        };
        // Once it is released, the device may write over it.
        let stamp = cq.timestamp();
        cq.release();
        Ok(Some((done, stamp)))
    }
}

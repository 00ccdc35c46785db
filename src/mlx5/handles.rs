//! From handles of any device to those of an mlx5 device.

use uverbs_any::Of;
use uverbs_core::PostError;

use crate::transport::Transport;
use crate::{Context, ProtectionDomain, QueuePair, SendBatch};

impl Context {
    pub(super) fn of_mlx5(&self) -> Option<&uverbs_mlx5::Context> {
        self.inner.provider.of()
    }
}

impl ProtectionDomain {
    pub(super) fn of_mlx5(&self) -> Option<&uverbs_mlx5::ProtectionDomain> {
        self.inner.pd.of()
    }
}

impl<T: Transport> QueuePair<T> {
    pub(super) fn of_mlx5(&self) -> Option<&uverbs_mlx5::QueuePair> {
        self.queue.of()
    }
}

impl<T: Transport> SendBatch<'_, T> {
    /// # Errors
    /// [`PostError::UnsupportedOperation`] for a queue of another device.
    #[inline]
    pub(super) fn of_mlx5(&mut self) -> Result<&mut uverbs_mlx5::QueuePair, PostError> {
        self.queue.of_mut().ok_or(PostError::UnsupportedOperation)
    }
}

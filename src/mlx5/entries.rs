//! How the device writes completions.

use std::sync::Arc;

use uverbs_core::contract::Extra;
use uverbs_mlx5::Entries;

use crate::cq::CompletionQueueBuilder;

impl CompletionQueueBuilder<'_> {
    /// `mlx5dv_create_cq`—how an mlx5 device writes into it: several completions as one, so that
    /// less is written across the bus, or entries of 128 bytes. Default: each completion has an
    /// entry of 64 bytes.
    ///
    /// Building fails with [`Unsupported`](crate::ErrorKind::Unsupported) where the device does not
    /// write so.
    ///
    /// Compressed completions are polled like others. They cost more to poll, of the first of them,
    /// and those that came as one are all stamped as it is. libmlx5 creates such queues and leaves
    /// it to their users to make sense of them.
    ///
    /// ```no_run
    /// # fn f(context: &uverbs::Context) -> uverbs::Result<()> {
    /// use uverbs::mlx5::{Entries, Results};
    ///
    /// let compressed = Entries { compressed: Some(Results::Hash), ..Entries::default() };
    /// let mut cq = context.completion_queue(1024).entries_of_mlx5(compressed).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "mlx5dv_create_cq")]
    #[doc(alias = "MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE")]
    #[doc(alias = "MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE")]
    #[doc(alias = "MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD")]
    pub fn entries_of_mlx5(mut self, entries: Entries) -> Self {
        // What any device does is asked of any.
        let special = entries != Entries::default();
        self.extra = special.then(|| Arc::new(entries) as Arc<dyn Extra>);
        self
    }
}

//! How the device writes completions.

use std::sync::Arc;

use uverbs_core::contract::Extra;
use uverbs_mlx5::Entries;

use crate::cq::CompletionQueueBuilder;

impl CompletionQueueBuilder<'_> {
    /// `mlx5dv_create_cq`—how an mlx5 device writes completions into the queue: several compressed
    /// into one, so that less is written across the bus, or in entries of 128 bytes. Default: each
    /// completion has an entry of 64 bytes.
    ///
    /// Building fails with [`Unsupported`](crate::ErrorKind::Unsupported) where the device does not
    /// support this.
    ///
    /// Compressed completions are polled like others. The first one of a group costs more to poll,
    /// and all of the group have the timestamp of the one that they were compressed into. libmlx5
    /// creates such queues but leaves interpreting them to its users.
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
        // The default works on any device, so it is not passed on.
        let special = entries != Entries::default();
        self.extra = special.then(|| Arc::new(entries) as Arc<dyn Extra>);
        self
    }
}

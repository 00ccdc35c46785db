//! How the device writes completions.

use uverbs_driver::contract::CqInit;
use uverbs_driver::{Error, ErrorKind, Op, Result};
use uverbs_mlx5::Entries;

use crate::Context;
use crate::cq::CompletionQueueBuilder;
use crate::provider::AnyCq;

impl CompletionQueueBuilder<'_> {
    /// `mlx5dv_create_cq`—how an mlx5 device writes into it: several completions as one, so that less is written across the
    /// bus, or entries of 128 bytes. Default: each completion has an entry of 64 bytes.
    ///
    /// Compressed completions are polled like others. They cost more to poll, of the first of them, and those that came as one
    /// are all stamped as it is. libmlx5 creates such queues and leaves it to their users to make sense of them.
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
    #[must_use]
    pub fn entries_of_mlx5(mut self, entries: Entries) -> Self {
        self.written = entries;
        self
    }
}

/// Creates a completion queue, of an mlx5 device if its entries are special.
pub(crate) fn create(of: &Context, init: &CqInit<'_>, entries: Entries) -> Result<AnyCq> {
    let provider = &of.inner.provider;
    if entries == Entries::default() {
        return provider.create_cq(init);
    }
    let Some(context) = provider.mlx5() else {
        return Err(
            Error::new(Op::CreateCompletionQueue, ErrorKind::Unsupported)
                .fact("device", of.name().to_owned())
                .hint("entries are chosen on mlx5 devices only"),
        );
    };
    context.create_cq_with(init, entries).map(AnyCq::Mlx5)
}

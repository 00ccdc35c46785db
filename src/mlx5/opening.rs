//! How mlx5 devices are opened.

use std::sync::Arc;

use super::Doorbells;
use crate::OpenOptions;

impl OpenOptions {
    /// Which doorbells the context of an mlx5 device has. Default: [`Doorbells::AsNeeded`], which
    /// is right for programs; [`Doorbells::Fixed`] does what older kernels require. Ignored for
    /// other devices.
    ///
    /// ```no_run
    /// use uverbs::{OpenOptions, mlx5::Doorbells};
    ///
    /// let context = OpenOptions::new().doorbells_of_mlx5(Doorbells::Fixed).open("mlx5_0")?;
    /// # Ok::<(), uverbs::Error>(())
    /// ```
    #[must_use]
    pub fn doorbells_of_mlx5(mut self, doorbells: Doorbells) -> Self {
        self.extras.push(Arc::new(doorbells));
        self
    }
}

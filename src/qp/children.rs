//! Kernel objects that belong to a queue pair.

use uverbs_core::{Error, Object, Op, Result};

/// Objects that the kernel ties to a queue pair and that are destroyed before it: the queue pair
/// cannot be destroyed as long as there are any.
#[derive(Debug, Default)]
pub(crate) struct Children {
    all: Vec<(u64, Object)>,
    made: u64,
}

impl Children {
    /// Takes over an object. Returns its number among all that there ever were.
    pub(crate) fn adopt(&mut self, child: Object) -> u64 {
        self.made += 1;
        self.all.push((self.made, child));
        self.made
    }

    /// Destroys one; `what` is what its user calls it.
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): there is no object with that number,
    /// or no longer. The kernel's errno.
    pub(crate) fn destroy(&mut self, op: Op, what: &'static str, number: u64) -> Result<()> {
        let Some(at) = self.all.iter().position(|(of, _)| *of == number) else {
            return Err(Error::invalid(op, what).fact("number", number));
        };
        let (_, child) = self.all.swap_remove(at);
        child.destroy().map(|_| ())
    }
}

//! Kernel objects that belong to a queue pair.

use uverbs_core::{Error, Object, Op, Result};

/// Objects that the kernel ties to a queue pair and that are destroyed before it: the queue pair
/// cannot be destroyed as long as there are any.
#[derive(Debug, Default)]
pub(crate) struct Children(Option<Box<Made>>);

#[derive(Debug, Default)]
struct Made {
    all: Vec<(u64, Object)>,
    /// How many there ever were.
    count: u64,
}

impl Children {
    /// Takes over an object. Returns its number among all that there ever were.
    pub(crate) fn adopt(&mut self, child: Object) -> u64 {
        let made = self.0.get_or_insert_default();
        made.count += 1;
        made.all.push((made.count, child));
        made.count
    }

    /// Destroys one; `what` is what its user calls it.
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): there is no object with that number,
    /// or no longer. The kernel's errno.
    pub(crate) fn destroy(&mut self, op: Op, what: &'static str, number: u64) -> Result<()> {
        let all = self.0.as_mut().map(|made| &mut made.all);
        let child = all.and_then(|all| {
            let at = all.iter().position(|(of, _)| *of == number)?;
            Some(all.swap_remove(at).1)
        });
        let missing = || Error::invalid(op, what).fact("number", number);
        child.ok_or_else(missing)?.destroy().map(|_| ())
    }
}

//! From a handle of any provider to that of one.

/// A handle that may be a `T`, the handle of one provider.
pub trait Of<T> {
    /// It, if it is.
    fn of(&self) -> Option<&T>;

    /// The same, to change it.
    fn of_mut(&mut self) -> Option<&mut T>;
}

//! Downcasts a handle of any provider to that of one.

/// A handle that may be a `T`, the handle of one provider.
pub trait Of<T> {
    /// The provider's handle, if it is one.
    fn of(&self) -> Option<&T>;

    /// The same, mutable.
    fn of_mut(&mut self) -> Option<&mut T>;
}

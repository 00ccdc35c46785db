//! Vendors as types.

use uverbs_core::contract::Entry;

#[cfg(feature = "mlx5")]
pub use uverbs_any::vendor::Mlx5;
#[cfg(feature = "rxe")]
pub use uverbs_any::vendor::Rxe;

/// A vendor whose handles can be told from those of the others. The types of this module are the
/// only ones.
pub trait Vendor: sealed::Known<Found = Self::Entry> {
    /// A completion of its queues as it was found.
    type Entry: Entry;
}

impl<V: sealed::Known> Vendor for V {
    type Entry = V::Found;
}

mod sealed {
    use uverbs_core::contract::{self, Entry, TypedCq};

    /// A vendor of the list of providers.
    pub trait Known: uverbs_any::vendor::Vendor<Cq: TypedCq<Entry = Self::Found>> {
        type Found: Entry;
    }

    impl<V: uverbs_any::vendor::Vendor> Known for V {
        type Found = <<V as contract::Vendor>::Cq as TypedCq>::Entry;
    }
}

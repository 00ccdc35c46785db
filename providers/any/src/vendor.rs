//! Vendors as types, for programs that know whose device they have.

use uverbs_core::contract;

#[cfg(any(feature = "mlx5", feature = "rxe"))]
use crate::Of as _;
use crate::{AnyCq, AnyQp};

/// A vendor whose handles can be told from those of the others. Sealed: it is handed queues of any
/// vendor.
pub trait Vendor: contract::Vendor + sealed::Row {
    /// Its queue pair, if this is one.
    fn qp(any: &mut AnyQp) -> Option<&mut Self::Qp>;

    /// Its completion queue, if this is one.
    fn cq(any: &mut AnyCq) -> Option<&mut Self::Cq>;
}

mod sealed {
    /// A row of the list of providers.
    pub trait Row {}
}

macro_rules! vendors {
    (() $($(#[$on:meta])* $driver:ident = $vendor:ident;)*) => {
        $(
            $(#[$on])*
            #[doc = concat!("Devices of the provider `", stringify!($vendor), "`.")]
            #[derive(Clone, Copy, Debug)]
            pub struct $driver;

            $(#[$on])*
            impl contract::Vendor for $driver {
                type Qp = $vendor::QueuePair;
                type Cq = $vendor::CompletionQueue;
            }

            $(#[$on])*
            impl sealed::Row for $driver {}

            $(#[$on])*
            impl Vendor for $driver {
                #[inline]
                fn qp(any: &mut AnyQp) -> Option<&mut Self::Qp> {
                    any.of_mut()
                }

                #[inline]
                fn cq(any: &mut AnyCq) -> Option<&mut Self::Cq> {
                    any.of_mut()
                }
            }
        )*
    };
}

rows!(vendors!());

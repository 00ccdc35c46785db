//! Every provider of uverbs behind one set of types.
//!
//! Which providers there are stands in one list, one line each ([`PROVIDERS`]). What is done once
//! per object goes through trait objects ([`AnyContext`], [`AnyPd`]); queues, which are posted to
//! and polled, are enums ([`AnyQp`], [`AnyCq`], [`AnySrq`]), so that a request costs one comparison
//! more than with one provider alone.
//!
//! | feature | provider |
//! |---|---|
//! | `mlx5` (default) | ConnectX-4 and later |
//! | `rxe` (default) | soft RoCE |
//!
//! Without any, no device is found to have a provider.
#![cfg_attr(
    not(any(feature = "mlx5", feature = "rxe")),
    allow(
        dead_code,
        unused_variables,
        reason = "without a provider there is nothing to pass on"
    )
)]

#[macro_use]
mod rows;
mod context;
mod of;
mod queues;

pub use context::{AnyContext, AnyPd};
pub use of::Of;
pub use queues::{AnyCq, AnyQp, AnySrq};
pub use rows::{PROVIDERS, Provider, open, supported};

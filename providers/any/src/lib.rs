//! Every provider of uverbs behind one set of types.
//!
//! The providers are in one list, one line each ([`PROVIDERS`]). Control-path calls go through
//! trait objects ([`AnyContext`], [`AnyPd`]); queues, which are posted to and polled, are enums
//! ([`AnyQp`], [`AnyCq`], [`AnySrq`]), so that a request costs just one comparison more than with a
//! single provider.
//!
//! | feature | provider |
//! |---|---|
//! | `mlx5` (default) | ConnectX-4 and later |
//! | `rxe` (default) | soft RoCE |
//!
//! Without any of them, no device has a provider.
#![cfg_attr(
    not(any(feature = "mlx5", feature = "rxe")),
    allow(dead_code, unused_variables, reason = "unused without a provider")
)]

#[macro_use]
mod rows;
mod context;
mod of;
mod queues;
pub mod vendor;

pub use context::{AnyContext, AnyPd};
pub use of::Of;
pub use queues::{AnyCq, AnyQp, AnySrq};
pub use rows::{PROVIDERS, Provider, open, supported};

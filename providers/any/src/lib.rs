//! Every provider of uverbs behind one set of types.
//!
//! The providers are in one list, one line each ([`PROVIDERS`]). Opened devices ([`AnyContext`])
//! and queues ([`AnyQp`], [`AnyCq`], [`AnySrq`]) are enums, so that a request costs just one
//! comparison more than with a single provider, and that a program has only what it calls.
//!
//! | feature | provider |
//! |---|---|
//! | `mlx5` (default) | ConnectX-4 and later |
//! | `rxe` (default) | soft RoCE |
//!
//! Without any of them, no device has a provider.
#![cfg_attr(
    not(any(feature = "mlx5", feature = "rxe")),
    allow(
        dead_code,
        unreachable_code,
        unused_imports,
        unused_variables,
        reason = "unused without a provider"
    )
)]

#[macro_use]
mod rows;
#[macro_use]
mod handle;
mod context;
mod of;
mod queues;
pub mod vendor;

pub use context::{AnyContext, AnyPd};
pub use of::Of;
pub use queues::{AnyCq, AnyQp, AnySrq, AnyUsualSend};
pub use rows::{PROVIDERS, Provider, open, supported};

//! Features that only mlx5 has, and what a ConnectX does on request.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod clock;
mod compressed;
mod copies;
mod dc;
mod devx;
mod dmabuf;
mod doorbells;
mod ece;
mod entries;
mod entropy;
mod frames;
mod functions;
mod keys;
mod many;
mod masked;
mod memory;
mod owned;
mod paging;
mod qos;
mod rates;
mod refused;
mod removal;
mod scatter;
mod signatures;
mod spread;
mod steering;
mod threads;
mod unbound;
mod unguarded;
mod wire;
mod xrc;

//! The declarations of libibverbs, librdmacm and libmlx5 that the crate `sideway` 0.4 is built
//! with, under the names of `rdma-mummy-sys` 0.2 and without C: their functions are those of
//! `uverbs-compat` and `uverbs-compat-cm`.
//!
//! ```toml
//! [patch.crates-io]
//! rdma-mummy-sys = { git = "https://github.com/uverbs/uverbs" }
//! ```
//!
//! `docs/guide/sys-crates.md` says what works.
//!
//! `bindings` has what bindgen makes of the headers; `types`, the structs with unnamed unions;
//! the others, the headers' inline functions.

mod bindings;
mod cm;
#[cfg(all(test, target_arch = "x86_64"))]
mod layouts;
mod mlx5dv;
mod more;
mod objects;
pub mod opcode;
mod queues;
mod slots;
mod types;

// Linked for their functions; nothing in them has a Rust interface.
use uverbs_compat as _;
use uverbs_compat_cm as _;

pub use bindings::*;
pub use cm::*;
pub use mlx5dv::*;
pub use more::*;
pub use objects::*;
pub use opcode as ibv_opcode;
pub use queues::*;
pub use types::*;

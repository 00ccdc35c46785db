//! Debian's packages: kernels and user programs.

mod apt;
mod kernel;
mod mirror;
mod userland;

pub(crate) use apt::KEYRING;
pub(crate) use kernel::Files;
pub use kernel::Kernel;
pub(crate) use userland::{TOOLS, Userland};

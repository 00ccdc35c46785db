//! Debian's packages: kernels and user programs.

mod apt;
mod kernel;
mod mirror;
mod packages;

pub(crate) use apt::KEYRING;
pub(crate) use kernel::Files;
pub use kernel::Kernel;
pub use packages::Packages;
pub(crate) use packages::TOOLS;

//! Memory other than this process's own: on the device, of its registers, and of other devices by a
//! separate path.

mod data_direct;
mod dm;
mod var;

pub use dm::{DeviceMemory, DeviceMemoryInfo, OperationWord};
pub use var::{MappedVar, Var, VarKind};

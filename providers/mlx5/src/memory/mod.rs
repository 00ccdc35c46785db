//! Memory besides this process's: on the device, of its registers, and of other devices on a path
//! of their own.

mod data_direct;
mod dm;
mod var;

pub use dm::{DeviceMemory, DeviceMemoryInfo, OperationWord};
pub use var::{MappedVar, Var, VarKind};

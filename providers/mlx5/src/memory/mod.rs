//! Memory other than this process's own: on the device, of its registers, and of other devices by a
//! separate path. Keys that requests give their meaning.

mod data_direct;
mod dm;
mod indirect;
mod signed;
mod var;

pub use dm::{DeviceMemory, DeviceMemoryInfo, OperationWord, SteeringMemory};
pub use indirect::{IndirectKey, KeyOptions};
pub use signed::{Encryption, SignatureChange, SignatureError, SignaturePart};
pub use var::{MappedVar, Var, VarKind};

//! The GID tables of a device, from whichever interface the kernel has.

use crate::cmd;
use crate::discover::DeviceInfo;
use crate::discover::sysfs::Sysfs;
use crate::error::Result;
use crate::file::UverbsFile;
use crate::types::GidEntry;

/// The most ports on kernels without the command, which number them with 8 bits.
const MAX_PORTS: u32 = u8::MAX as u32;

/// More entries than any device has: the kernel allows 256 per port and table.
const MAX_GIDS: usize = 4096;

/// The GID tables of a device: queried from the kernel, or read from sysfs if it has no commands
/// for them (before 5.10).
#[derive(Clone, Copy, Debug)]
pub struct Gids<'a> {
    file: &'a UverbsFile,
    info: &'a DeviceInfo,
    sysfs: &'a Sysfs,
}

impl<'a> Gids<'a> {
    /// The tables of the device that `info` describes and that `file` has open.
    pub fn new(file: &'a UverbsFile, info: &'a DeviceInfo, sysfs: &'a Sysfs) -> Self {
        Self { file, info, sysfs }
    }

    /// Calls `each` for every non-empty entry (`ibv_query_gid_table`).
    ///
    /// # Errors
    /// Those of the command, and of sysfs.
    pub fn each(&self, mut each: impl FnMut(GidEntry)) -> Result<()> {
        match cmd::gid::each_entry(self.file, MAX_GIDS, &mut each) {
            Err(error) if error.is_unsupported() => {
                for port in 1..=self.info.ports.unwrap_or(1).min(MAX_PORTS) {
                    self.sysfs
                        .gid_table(&self.info.name, port)?
                        .into_iter()
                        .for_each(&mut each);
                }
                Ok(())
            }
            result => result,
        }
    }

    /// One entry (`ibv_query_gid_ex`); `None` for an empty one.
    ///
    /// # Errors
    /// EINVAL for a port or index that the device does not have.
    pub fn entry(&self, port: u8, index: u32) -> Result<Option<GidEntry>> {
        match cmd::gid::query_entry(self.file, port.into(), index) {
            Err(error) if error.is_unsupported() => {
                self.sysfs.gid_entry(&self.info.name, port.into(), index)
            }
            result => result,
        }
    }
}

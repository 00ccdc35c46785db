//! The devices of this machine.

use uverbs_core::Result;
use uverbs_core::discover::{self, DeviceInfo};

use crate::{Context, OpenOptions};

/// `ibv_get_device_list`—the RDMA devices of this machine, including those that cannot be opened.
///
/// Asks the kernel over RDMA netlink; without it, reads sysfs; without either, looks at
/// `/dev/infiniband`. Each device is opened and closed once to find out whether this process may
/// use it; if not, [`Device::info`] says why.
///
/// # Errors
/// The error of reading the list. On a machine without RDMA devices the list is empty.
///
/// # Examples
/// ```no_run
/// for device in uverbs::devices()? {
///     println!("{}", device.name());
/// }
/// # Ok::<(), uverbs::Error>(())
/// ```
#[doc(alias = "ibv_get_device_list")]
pub fn devices() -> Result<Vec<Device>> {
    let mut options = discover::Options::default();
    options.probe_access = true;
    let found = discover::list(&options)?;
    Ok(found.into_iter().map(|info| Device { info }).collect())
}

/// A device that was found, not yet opened.
#[doc(alias = "ibv_device")]
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) info: DeviceInfo,
}

impl Device {
    /// `ibv_get_device_name`—its kernel name, such as `rxe0` or `mlx5_0`.
    #[doc(alias = "ibv_get_device_name")]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Everything that was found out without opening it, and whether it can be opened.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Whether this library has a provider for it. Also `Ok` if its driver can only be determined
    /// by opening it.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) with the driver's name, or with its ABI
    /// version.
    pub fn check_supported(&self) -> Result<()> {
        uverbs_any::supported(&self.info).map(|_| ())
    }

    /// `ibv_open_device`—opens it.
    ///
    /// # Errors
    /// As [`Context::open`].
    #[doc(alias = "ibv_open_device")]
    pub fn open(&self) -> Result<Context> {
        OpenOptions::new().open_device(self)
    }
}

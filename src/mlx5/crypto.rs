//! Keys that data is encrypted with, and addresses that the device ties to a queue pair.

use uverbs_core::{Error, Op, Result};
use uverbs_mlx5::devx::{AddressMapping, DataKey, DataKeyInit};

use super::Adapter;
use crate::{AddressHandle, ProtectionDomain};

impl Adapter {
    /// `mlx5dv_dek_create`—gives the device a key for data of a protection domain. What the device
    /// offers: [`crypto_caps`](uverbs_mlx5::devx::Devx::crypto_caps) of [`devx`](Self::devx), which
    /// has the logins, too.
    ///
    /// Four system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): the device does not encrypt data; as
    /// [`devx`](Self::devx). [`InvalidInput`](crate::ErrorKind::InvalidInput): the device imports
    /// keys only wrapped and there is no login, or only as they are and there is one; domain or
    /// login is of another context. Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_dek_create")]
    pub fn data_key(&self, pd: &ProtectionDomain, init: &DataKeyInit<'_>) -> Result<DataKey> {
        let inner = pd.of_mlx5();
        let inner = inner.ok_or_else(|| Error::invalid(Op::DevxCreate, "protection domain"))?;
        self.devx()?
            .data_key((inner.object(), inner.number()), init)
    }

    /// `mlx5dv_map_ah_to_qp`—has the device use an address for what the queue pair of this number
    /// sends, as long as the mapping lives.
    ///
    /// Two system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported): the device has no such mappings, or the
    /// address no global route; as [`devx`](Self::devx).
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): the address is of another context.
    /// Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_map_ah_to_qp")]
    pub fn map_address(&self, address: &AddressHandle, qp_number: u32) -> Result<AddressMapping> {
        if !address.pd().is_of(self.context()) {
            return Err(
                Error::invalid(Op::DevxCreate, "address").hint("it belongs to another context")
            );
        }
        self.devx()?.map_address(address.words(), qp_number)
    }
}

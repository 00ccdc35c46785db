//! Address handles: resolved paths for datagrams.

use std::sync::Arc;

use uverbs_core::types::{Address, AddressVector, Destination};
use uverbs_core::{Error, ErrorKind, Op, Result};

use crate::ProtectionDomain;

/// `ibv_ah`—where datagrams can be sent to.
///
/// Cheap to clone. Queued datagrams refer to the kernel's handle by number, so keep it until they
/// have completed.
#[doc(alias = "ibv_ah")]
#[derive(Clone, Debug)]
pub struct AddressHandle {
    address: Arc<Address>,
    pd: ProtectionDomain,
}

impl AddressHandle {
    pub(crate) fn create(pd: &ProtectionDomain, vector: &AddressVector) -> Result<Self> {
        let context = pd.context();
        let provider = &context.inner.provider;
        let address = provider.create_address(&pd.inner.pd, vector, &context.gids())?;
        Ok(Self {
            address: Arc::new(address),
            pd: pd.clone(),
        })
    }

    /// The destination of a datagram: this path, the queue pair at its end, and that queue pair's
    /// key.
    pub fn to(&self, qp_num: u32, qkey: u32) -> Destination<'_> {
        Destination {
            address: &self.address,
            qp_num,
            qkey,
        }
    }

    /// The path in the device's own format.
    pub(crate) fn words(&self) -> &Address {
        &self.address
    }

    /// The protection domain it belongs to.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    /// `ibv_destroy_ah`—destroys it. One system call on rxe. Dropping the last clone does the same.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while clones exist; it lives on with them.
    #[doc(alias = "ibv_destroy_ah")]
    pub fn destroy(self) -> Result<()> {
        let address = Arc::try_unwrap(self.address).map_err(|shared| {
            Error::new(Op::DestroyAddressHandle, ErrorKind::Busy)
                .fact("clones", Arc::strong_count(&shared) - 1)
        })?;
        address.destroy()
    }
}

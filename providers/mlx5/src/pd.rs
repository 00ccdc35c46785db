//! Protection domains.

use std::sync::Arc;

use uverbs_driver::object::ObjectKind;
use uverbs_driver::sys::{Uhw, cells};
use uverbs_driver::{Channel, Object, Result, cmd};
use uverbs_uapi::mlx5_abi::mlx5_ib_alloc_pd_resp;

/// An mlx5 protection domain.
#[derive(Debug)]
pub struct ProtectionDomain {
    object: Arc<Object>,
    number: u32,
}

impl ProtectionDomain {
    pub(crate) fn alloc(channel: &Arc<Channel>) -> Result<Self> {
        let mut reply = mlx5_ib_alloc_pd_resp::default();
        let handle = cmd::pd::alloc(channel, &Uhw::new(&[], cells(&mut reply)))?;
        let object = Object::new(channel, ObjectKind::ProtectionDomain, handle, []);
        Ok(Self {
            object: Arc::new(object),
            number: reply.pdn,
        })
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The kernel object, without the rest.
    pub fn into_object(self) -> Arc<Object> {
        self.object
    }

    /// `mlx5dv_pd`—the device's number for it, as firmware commands need it.
    #[doc(alias = "mlx5dv_pd")]
    pub fn number(&self) -> u32 {
        self.number
    }
}

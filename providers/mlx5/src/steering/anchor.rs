//! Anchors: where firmware commands attach their own tables below the kernel's.

use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::{Attr, Uhw, cells};
use uverbs_core::{DestroyError, Errno, Error, Object, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_STEERING_ANCHOR_CREATE_HANDLE, MLX5_IB_ATTR_STEERING_ANCHOR_DESTROY_HANDLE,
    MLX5_IB_ATTR_STEERING_ANCHOR_FT_ID, MLX5_IB_ATTR_STEERING_ANCHOR_FT_TYPE,
    MLX5_IB_ATTR_STEERING_ANCHOR_PRIORITY, MLX5_IB_METHOD_STEERING_ANCHOR_CREATE,
    MLX5_IB_METHOD_STEERING_ANCHOR_DESTROY, MLX5_IB_OBJECT_STEERING_ANCHOR,
};

use super::TableKind;
use crate::devx::Parent;

/// `mlx5dv_steering_anchor`—a permanent table of the kernel's, to which tables created by firmware
/// commands lead. Cheap to clone.
#[doc(alias = "mlx5dv_steering_anchor")]
#[derive(Clone, Debug)]
pub struct SteeringAnchor {
    object: Arc<Object>,
    table_id: u32,
}

static KIND: Kind = Kind {
    name: "SteeringAnchor",
    op: Op::DestroySteeringAnchor,
    object: MLX5_IB_OBJECT_STEERING_ANCHOR,
    method: MLX5_IB_METHOD_STEERING_ANCHOR_DESTROY,
    attr: MLX5_IB_ATTR_STEERING_ANCHOR_DESTROY_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

impl SteeringAnchor {
    /// `mlx5dv_create_steering_anchor`—creates an anchor at priority `priority` of tables of this
    /// kind.
    ///
    /// One system call, since 6.0; it waits for the firmware.
    ///
    /// # Errors
    /// EPERM: no `CAP_NET_RAW`. EPROTONOSUPPORT: an older kernel, or a device whose contexts cannot
    /// share tables. EOPNOTSUPP: the device has no such tables. ENOMEM, EINVAL: a priority that
    /// does not exist.
    #[doc(alias = "mlx5dv_create_steering_anchor")]
    #[doc(alias = "mlx5dv_steering_anchor_attr")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn create(file: &Arc<UverbsFile>, table: TableKind, priority: u16) -> Result<Self> {
        let op = Op::CreateSteeringAnchor;
        let handle = new_object_slot();
        let mut table_id = 0_u32;
        file.ioctl_only(op, || {
            let attrs = [
                Attr::new_object(MLX5_IB_ATTR_STEERING_ANCHOR_CREATE_HANDLE, &handle),
                Attr::constant(MLX5_IB_ATTR_STEERING_ANCHOR_FT_TYPE, table.raw()),
                Attr::input(MLX5_IB_ATTR_STEERING_ANCHOR_PRIORITY, &priority),
                Attr::output(MLX5_IB_ATTR_STEERING_ANCHOR_FT_ID, cells(&mut table_id)),
            ];
            file.ioctl(
                op,
                MLX5_IB_OBJECT_STEERING_ANCHOR,
                MLX5_IB_METHOD_STEERING_ANCHOR_CREATE,
                &attrs,
                &Uhw::NONE,
            )
        })
        .map_err(|error| explain(error, table, priority))?;
        let handle = new_object_handle(op, &handle)?;
        Ok(Self {
            object: Arc::new(Object::new(file, &KIND, handle, [])),
            table_id,
        })
    }

    /// The device's number of the table, for firmware commands.
    pub fn table_id(&self) -> u32 {
        self.table_id
    }

    /// This anchor as the parent of objects that lead there.
    pub fn parent(&self) -> Parent {
        Parent(Arc::clone(&self.object))
    }

    /// `mlx5dv_destroy_steering_anchor`—destroys it. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while clones, or objects created with it as a parent,
    /// exist; it is returned.
    #[doc(alias = "mlx5dv_destroy_steering_anchor")]
    pub fn destroy(mut self) -> Result<(), DestroyError<Self>> {
        match Object::sole(&mut self.object).and_then(Object::try_destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }
}

fn explain(error: Error, table: TableKind, priority: u16) -> Error {
    let error = error
        .fact("table", format!("{table:?}"))
        .fact("priority", u32::from(priority));
    match error.errno() {
        Some(Errno::PERM) => error.hint("grant CAP_NET_RAW"),
        _ => error,
    }
}

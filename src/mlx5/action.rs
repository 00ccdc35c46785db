//! What rules do to packets.

use uverbs_core::Result;
use uverbs_mlx5::steering::{FlowAction, HeaderChange, Reformat, TableKind};

use super::Adapter;

impl Adapter {
    /// `mlx5dv_create_flow_action_modify_header`—creates an action that changes headers of packets
    /// in tables of this kind, making one change after the other. One system call, since Linux
    /// 4.20, which waits for the firmware.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | – | no change, or bits that no field has |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP | the device cannot change headers, or not in these tables |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM, ENOSPC | memory, or more changes than the device allows |
    #[doc(alias = "mlx5dv_create_flow_action_modify_header")]
    pub fn create_header_change(
        &self,
        table: TableKind,
        changes: &[HeaderChange],
    ) -> Result<FlowAction> {
        FlowAction::modify_header(&self.context().inner.file, table, changes)
    }

    /// `mlx5dv_create_flow_action_packet_reformat`—creates an action that encapsulates packets in
    /// tables of this kind into a tunnel, or decapsulates them. One system call, since Linux 4.20,
    /// which waits for the firmware.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | –, EINVAL | no headers, or longer ones than the device allows |
    /// | [`LimitExceeded`](crate::ErrorKind::LimitExceeded) | – | 64 KiB of headers or more |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP | the device does not support it, or not in these tables |
    /// | [`OutOfResources`](crate::ErrorKind::OutOfResources) | ENOMEM, ENOSPC | memory, or the device's room for headers is full |
    #[doc(alias = "mlx5dv_create_flow_action_packet_reformat")]
    pub fn create_reformat(&self, table: TableKind, reformat: Reformat<'_>) -> Result<FlowAction> {
        FlowAction::reformat(&self.context().inner.file, table, reformat)
    }
}

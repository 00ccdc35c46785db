//! Ports as the embedded switch knows them.

use uverbs_core::Result;
use uverbs_mlx5::SwitchPort;

use super::Adapter;

impl Adapter {
    /// `mlx5dv_query_port`—queries how the embedded switch sees port `port`, numbered from 1. One
    /// system call, since Linux 5.14.
    ///
    /// # Errors
    /// | kind | errno | cause |
    /// |---|---|---|
    /// | [`InvalidInput`](crate::ErrorKind::InvalidInput) | EINVAL | there is no such port |
    /// | [`Unsupported`](crate::ErrorKind::Unsupported) | EOPNOTSUPP, EPROTONOSUPPORT | a port of a switch that represents no function; an older kernel |
    #[doc(alias = "mlx5dv_query_port")]
    pub fn switch_port(&self, port: u32) -> Result<SwitchPort> {
        SwitchPort::query(&self.context().inner.file, port)
    }
}

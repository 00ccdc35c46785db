//! Address handles: the kernel resolves the path and assigns a number to the handle.

use std::sync::Arc;

use uverbs_core::contract::Gids;
use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{Address, AddressVector};
use uverbs_core::{Object, Result, UverbsFile, cmd};
use uverbs_uapi::rdma_user_rxe::rxe_create_ah_resp;

use crate::vector;

/// Creates an address handle. One system call; two before 5.16, where the kernel does not number
/// handles and each work request contains the whole path. Before 5.10 the second becomes many: the
/// GID table is read from sysfs.
///
/// # Errors
/// Those of the command, and before 5.16 those of [`vector::path`].
pub(crate) fn create(
    file: &Arc<UverbsFile>,
    pd: &Arc<Object>,
    vector: &AddressVector,
    gids: &Gids<'_>,
) -> Result<Address> {
    let mut reply = rxe_create_ah_resp::default();
    let handle = cmd::ah::create(
        file,
        pd.handle(),
        vector,
        0,
        &Uhw::new(&[], cells(&mut reply)),
    )?;
    let object = Object::new(file, &cmd::ah::KIND, handle, [Arc::clone(pd)]);
    let path = if reply.ah_num == 0 {
        vector::path(gids, vector)?
    } else {
        [0; 88]
    };
    let object = Some(Arc::new(object));
    Ok(Address::new(file, object, reply.ah_num, path))
}

//! Address handles: the kernel resolves the path and gives the handle a number.

use std::sync::Arc;

use uverbs_driver::object::ObjectKind;
use uverbs_driver::sys::{Uhw, cells};
use uverbs_driver::types::{Address, AddressVector};
use uverbs_driver::{Channel, Error, Object, Op, Result, cmd};
use uverbs_uapi::rdma_user_rxe::rxe_create_ah_resp;

/// Creates an address handle. One system call.
///
/// # Errors
/// Those of the command. [`BadReply`](uverbs_driver::ErrorKind::BadReply) from kernels before 5.15,
/// which number no handles and leave the path to each work request.
pub(crate) fn create(
    channel: &Arc<Channel>,
    pd: &Arc<Object>,
    vector: &AddressVector,
) -> Result<Address> {
    let mut reply = rxe_create_ah_resp::default();
    let handle = cmd::ah::create(
        channel,
        pd.handle(),
        vector,
        0,
        &Uhw::new(&[], cells(&mut reply)),
    )?;
    let object = Object::new(channel, ObjectKind::AddressHandle, handle, [Arc::clone(pd)]);
    if reply.ah_num == 0 {
        return Err(Error::bad_reply(Op::CreateAddressHandle, "no number")
            .hint("kernels before 5.15 are not supported"));
    }
    Ok(Address {
        object: Some(Arc::new(object)),
        number: reply.ah_num,
        vector: [0; 88],
    })
}

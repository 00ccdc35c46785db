//! Detects that a device was removed.
//!
//! This is the only command outside [`cmd`](crate::cmd): the errors of all the others depend on its
//! result.

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_QUERY_PORT_PORT_NUM, UVERBS_ATTR_QUERY_PORT_RESP, UVERBS_METHOD_QUERY_PORT,
    UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_query_port_resp_ex;
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_QUERY_PORT, ib_uverbs_query_port, ib_uverbs_query_port_resp,
};
use zerocopy::IntoBytes;

use super::UverbsFile;
use crate::error::Errno;
use crate::sys::{Attr, Call, Command, Uhw, WriteCommand, cells};

impl UverbsFile {
    /// Finds out whether EIO meant that the device was removed: if so, querying a port answers EIO,
    /// too.
    ///
    /// Not every command would do: the core still lists handles after the device is gone.
    pub(crate) fn confirm_removed(&self) -> bool {
        if !self.is_removed() && self.port_refusal() == Some(Errno::IO) {
            self.set_removed();
        }
        self.is_removed()
    }

    /// The errno with which the kernel refuses to query a port.
    pub(super) fn port_refusal(&self) -> Option<Errno> {
        let mut port = ib_uverbs_query_port_resp_ex::default();
        let requested = self.raw_ioctl(&Command {
            object: UVERBS_OBJECT_DEVICE,
            method: UVERBS_METHOD_QUERY_PORT,
            driver_id: self.driver_id,
            attrs: &[
                Attr::constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1_u64),
                Attr::output(UVERBS_ATTR_QUERY_PORT_RESP, cells(&mut port)),
            ],
            uhw: Uhw::NONE,
        });
        match requested {
            Err(Errno::NOTTY | Errno::PROTONOSUPPORT) => self.port_refusal_of_write(),
            answer => answer.err(),
        }
    }

    /// The same by `write(2)`, for kernels without the method.
    fn port_refusal_of_write(&self) -> Option<Errno> {
        let request = ib_uverbs_query_port {
            port_num: 1,
            ..ib_uverbs_query_port::default()
        };
        let mut port = ib_uverbs_query_port_resp::default();
        let command = WriteCommand {
            command: IB_USER_VERBS_CMD_QUERY_PORT,
            extended: false,
            request: request.as_bytes(),
            reply: cells(&mut port),
            uhw: Uhw::NONE,
        };
        self.call(Call::Write(&command)).err()
    }
}

//! Addresses of datagrams that a device ties to the number of a queue pair.

use uverbs_core::types::Address;
use uverbs_core::{DestroyError, Error, ErrorKind, Op, Result};

use super::{Devx, DevxObject};
use crate::prm::{Field, Mailbox, field, opcode, word};

const OBJECT_TYPE: Field = field(0x04, 15, 0);
const QUEUE_PAIR: Field = word(0x1c);
const SERVICE_LEVEL: Field = field(0x2c, 27, 24);
const SOURCE_GID: Field = field(0x3c, 27, 20);
const PEER: usize = 0x40;
const LENGTH: usize = 0x50;

// Of an address, as requests carry it.
const RATE_AND_LEVEL: Field = field(0x0c, 27, 24);
const GID_INDEX: Field = field(0x1c, 27, 20);
const GID: usize = 0x20;

/// An address that the device ties to a queue pair, as long as this lives.
#[derive(Debug)]
pub struct AddressMapping {
    object: DevxObject,
}

impl Devx {
    /// `mlx5dv_map_ah_to_qp`—has the device use an address for what the queue pair of this number
    /// sends.
    ///
    /// Two system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device has no such mappings, or the address no
    /// global route. Otherwise the errno for the firmware's status.
    #[doc(hidden)] // Users have no such address: the facade calls it.
    #[doc(alias = "mlx5dv_map_ah_to_qp")]
    pub fn map_address(&self, address: &Address, qp_number: u32) -> Result<AddressMapping> {
        let op = Op::DevxCreate;
        let kind = opcode::ADDRESS_MAPPING;
        if self.general_caps()?.general_objects >> kind & 1 == 0 {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("device_lacks", "mappings of addresses to queue pairs"));
        }
        let vector = address.vector();
        // Zeros are no GID.
        let gid = vector.get(GID..GID + 16).unwrap_or_default();
        if gid.iter().all(|byte| *byte == 0) {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .hint("only an address with a global route can be mapped"));
        }
        let mut create = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, LENGTH);
        create.set(OBJECT_TYPE, kind.into());
        create.set(QUEUE_PAIR, qp_number);
        create.set(SERVICE_LEVEL, RATE_AND_LEVEL.get(vector));
        create.set(SOURCE_GID, GID_INDEX.get(vector));
        if let Some(place) = create.as_mut_bytes().get_mut(PEER..PEER + gid.len()) {
            place.copy_from_slice(gid);
        }
        let object = self.create_harmless(&create, 16, [])?;
        Ok(AddressMapping { object })
    }
}

impl AddressMapping {
    /// Ends it. Dropping it does the same.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status. It is returned, unless it is unknown whether it is
    /// gone.
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let again = |object| Self { object };
        let destroyed = self.object.destroy();
        destroyed.map_err(|refused| refused.map(again))
    }
}

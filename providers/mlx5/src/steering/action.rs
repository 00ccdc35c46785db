//! Actions of rules that change packet headers.

use std::sync::Arc;

use uverbs_core::cmd::{new_object_handle, new_object_slot};
use uverbs_core::sys::{Attr, Uhw};
use uverbs_core::{DestroyError, Error, Object, Op, Result, UverbsFile, cmd};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_FLOW_ACTION;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM, MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE,
    MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE, MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER,
};

use super::TableKind;
use crate::prm::{Field, field, word};

/// `ibv_flow_action`—an action of rules on packets. Cheap to clone; rules keep it alive.
#[doc(alias = "ibv_flow_action")]
#[derive(Clone, Debug)]
pub struct FlowAction {
    object: Arc<Object>,
}

/// A field that can be changed (`MLX5_ACTION_IN_FIELD_*` of `mlx5_ifc.h`, 12 bits).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct HeaderField(pub u16);

impl HeaderField {
    /// The highest number that fits into the encoding.
    const MAX: u16 = 0xfff;

    /// The upper 32 bits of the source address of a frame.
    pub const SOURCE_MAC_HIGH: Self = Self(0x01);
    /// The lower 16 bits.
    pub const SOURCE_MAC_LOW: Self = Self(0x02);
    /// The upper 32 bits of the destination address.
    pub const DESTINATION_MAC_HIGH: Self = Self(0x04);
    /// The lower 16 bits.
    pub const DESTINATION_MAC_LOW: Self = Self(0x05);
    /// The differentiated services code point, six bits.
    pub const IP_DSCP: Self = Self(0x06);
    /// The source port of TCP.
    pub const TCP_SOURCE: Self = Self(0x08);
    /// The destination port of TCP.
    pub const TCP_DESTINATION: Self = Self(0x09);
    /// The time to live of IPv4.
    pub const IP_TTL: Self = Self(0x0a);
    /// The source port of UDP.
    pub const UDP_SOURCE: Self = Self(0x0b);
    /// The destination port of UDP.
    pub const UDP_DESTINATION: Self = Self(0x0c);
    /// The source address of IPv4.
    pub const IPV4_SOURCE: Self = Self(0x15);
    /// The destination address of IPv4.
    pub const IPV4_DESTINATION: Self = Self(0x16);
    /// The ID of the first VLAN tag.
    pub const VLAN: Self = Self(0x17);
    /// The hop limit of IPv6.
    pub const IPV6_HOP_LIMIT: Self = Self(0x47);
    /// Register A of the packet's metadata.
    pub const REGISTER_A: Self = Self(0x49);
    /// Register B.
    pub const REGISTER_B: Self = Self(0x50);

    /// Register C `number` (0 to 7) of the packet's metadata.
    pub const fn register_c(number: u8) -> Self {
        let number = if number > 7 { 7 } else { number };
        Self(0x51 + number as u16)
    }
}

/// One header change (`set_add_copy_action_in_auto` of `mlx5_ifc.h`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum HeaderChange {
    /// Sets bits of a field to `value`.
    Set {
        /// The field.
        field: HeaderField,
        /// The first bit, counted from the lowest.
        offset: u8,
        /// The number of bits: 1 to 32.
        length: u8,
        /// Their new value.
        value: u32,
    },
    /// Adds a number to a field.
    Add {
        /// The field.
        field: HeaderField,
        /// The number to add; two's complement.
        value: u32,
    },
    /// Copies bits of a field to another field.
    Copy {
        /// The source field.
        from: HeaderField,
        /// The first bit to copy.
        from_offset: u8,
        /// The destination field.
        to: HeaderField,
        /// The first bit of the destination.
        to_offset: u8,
        /// The number of bits: 1 to 32.
        length: u8,
    },
}

const TYPE: Field = field(0x00, 31, 28);
const FIELD: Field = field(0x00, 27, 16);
const OFFSET: Field = field(0x00, 12, 8);
const LENGTH: Field = field(0x00, 4, 0);
const VALUE: Field = word(0x04);
const TO: Field = field(0x04, 27, 16);
const TO_OFFSET: Field = field(0x04, 12, 8);
const SET: u32 = 1;
const ADD: u32 = 2;
const COPY: u32 = 3;

impl HeaderChange {
    /// The device's encoding.
    ///
    /// # Errors
    /// A field number or bits that no field has.
    fn encode(&self) -> Result<[u8; 8]> {
        let mut words = [0; 8];
        let (one, other) = match *self {
            Self::Set { field, .. } | Self::Add { field, .. } => (field, field),
            Self::Copy { from, to, .. } => (from, to),
        };
        for field in [one, other] {
            if field.0 > HeaderField::MAX {
                let max = HeaderField::MAX.into();
                return Err(Error::limit(
                    Op::CreateModifyHeader,
                    "field",
                    field.0.into(),
                    max,
                ));
            }
        }
        let mut put = |field: Field, value: u32| {
            field.set(&mut words, value);
        };
        match *self {
            Self::Set {
                field,
                offset,
                length,
                value,
            } => {
                bits(offset, length)?;
                put(TYPE, SET);
                put(FIELD, field.0.into());
                put(OFFSET, offset.into());
                // 32 is encoded as 0.
                put(LENGTH, length.into());
                put(VALUE, value);
            }
            Self::Add { field, value } => {
                put(TYPE, ADD);
                put(FIELD, field.0.into());
                put(VALUE, value);
            }
            Self::Copy {
                from,
                from_offset,
                to,
                to_offset,
                length,
            } => {
                bits(from_offset, length)?;
                bits(to_offset, length)?;
                put(TYPE, COPY);
                put(FIELD, from.0.into());
                put(OFFSET, from_offset.into());
                put(LENGTH, length.into());
                put(TO, to.0.into());
                put(TO_OFFSET, to_offset.into());
            }
        }
        Ok(words)
    }
}

/// Checks that the bits are within a word.
fn bits(offset: u8, length: u8) -> Result<()> {
    if length != 0 && u32::from(offset) + u32::from(length) <= u32::BITS {
        return Ok(());
    }
    Err(Error::invalid(Op::CreateModifyHeader, "bits")
        .fact("offset", u32::from(offset))
        .fact("length", u32::from(length)))
}

impl FlowAction {
    /// `mlx5dv_create_flow_action_modify_header`—creates an action that applies header changes, in
    /// order, to packets in tables of this kind.
    ///
    /// One system call, since 4.20; it waits for the firmware.
    ///
    /// # Errors
    /// [`InvalidInput`](uverbs_core::ErrorKind::InvalidInput): no change, or bits that no field
    /// has. [`LimitExceeded`](uverbs_core::ErrorKind::LimitExceeded): a field of more than 12 bits.
    /// EOPNOTSUPP: the device cannot change headers, or not in these tables. ENOSPC, ENOMEM: too
    /// many changes. EINVAL, EREMOTEIO: a field that the firmware cannot change.
    #[doc(alias = "mlx5dv_create_flow_action_modify_header")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn modify_header(
        file: &Arc<UverbsFile>,
        table: TableKind,
        changes: &[HeaderChange],
    ) -> Result<Self> {
        let op = Op::CreateModifyHeader;
        if changes.is_empty() {
            return Err(Error::invalid(op, "changes"));
        }
        let words: Vec<[u8; 8]> = changes
            .iter()
            .map(HeaderChange::encode)
            .collect::<Result<_>>()?;
        Self::modify_header_as(file, table, words.as_flattened())
    }

    /// The same with changes as the device reads them, 8 bytes each.
    ///
    /// # Errors
    /// As [`modify_header`](Self::modify_header), but for what the device may find wrong.
    #[doc(hidden)] // The library for C programs calls it.
    pub fn modify_header_as(
        file: &Arc<UverbsFile>,
        table: TableKind,
        words: &[u8],
    ) -> Result<Self> {
        let op = Op::CreateModifyHeader;
        let handle = new_object_slot();
        file.ioctl_only(op, || {
            let attrs = [
                Attr::new_object(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE, &handle),
                Attr::input(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM, words),
                Attr::constant(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE, table.raw()),
            ];
            file.ioctl(
                op,
                UVERBS_OBJECT_FLOW_ACTION,
                MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER,
                &attrs,
                &Uhw::NONE,
            )
        })
        .map_err(|error| {
            error
                .fact("table", format!("{table:?}"))
                .fact("changes", words.len() / 8)
        })?;
        Ok(Self::over(file, new_object_handle(op, &handle)?))
    }

    /// Takes ownership of a new action.
    pub(super) fn over(file: &Arc<UverbsFile>, handle: u32) -> Self {
        let object = Object::new(file, &cmd::flow_action::KIND, handle, []);
        Self {
            object: Arc::new(object),
        }
    }

    /// The kernel object.
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The kernel's handle, for rules of other commands: whoever passes it on keeps the action.
    pub fn handle(&self) -> u32 {
        self.object.handle()
    }

    /// `ibv_destroy_flow_action`—destroys it. One system call. Dropping it does the same.
    ///
    /// # Errors
    /// [`Busy`](uverbs_core::ErrorKind::Busy) while clones, or rules with it, exist; it is
    /// returned.
    #[doc(alias = "ibv_destroy_flow_action")]
    pub fn destroy(mut self) -> Result<(), DestroyError<Self>> {
        match Object::sole(&mut self.object).and_then(Object::try_destroy) {
            Ok(_) => Ok(()),
            Err(error) => Err(DestroyError::new(error, self)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::ErrorKind;

    use super::*;

    #[test]
    fn a_field_has_12_bits() {
        let kind = |change: HeaderChange| change.encode().map_err(|error| error.kind());
        let of = |field| HeaderChange::Add { field, value: 1 };
        assert!(of(HeaderField(0xfff)).encode().is_ok());
        // Truncated, they would be other fields.
        for number in [0x1000, 0x1001, 0xffff] {
            let (wide, fits) = (HeaderField(number), HeaderField::IP_TTL);
            let set = HeaderChange::Set {
                field: wide,
                offset: 0,
                length: 1,
                value: 0,
            };
            let copy = |from, to| HeaderChange::Copy {
                from,
                from_offset: 0,
                to,
                to_offset: 0,
                length: 1,
            };
            for change in [of(wide), set, copy(wide, fits), copy(fits, wide)] {
                assert_eq!(kind(change), Err(ErrorKind::LimitExceeded), "{change:?}");
            }
        }
    }

    #[test]
    fn changes_are_encoded_as_the_device_reads_them() {
        let field = HeaderField::DESTINATION_MAC_LOW;
        let set = HeaderChange::Set {
            field,
            offset: 4,
            length: 12,
            value: 0x0123_4567,
        };
        let words = [0x10, 5, 4, 12, 1, 0x23, 0x45, 0x67];
        assert_eq!(set.encode().unwrap(), words);
        let whole = HeaderChange::Set {
            field: HeaderField::IPV4_SOURCE,
            offset: 0,
            length: 32,
            value: u32::MAX,
        };
        let words = [0x10, 0x15, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(whole.encode().unwrap(), words);
        let add = HeaderChange::Add {
            field: HeaderField::IP_TTL,
            value: u32::MAX,
        };
        let words = [0x20, 0x0a, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(add.encode().unwrap(), words);
        let copy = HeaderChange::Copy {
            from: HeaderField::register_c(1),
            from_offset: 8,
            to: HeaderField(0x103),
            to_offset: 16,
            length: 16,
        };
        let words = [0x30, 0x52, 8, 16, 1, 3, 16, 0];
        assert_eq!(copy.encode().unwrap(), words);
    }

    #[test]
    fn changes_beyond_their_field_are_refused() {
        for (offset, length) in [(0, 0), (0, 33), (17, 16), (255, 255)] {
            let set = HeaderChange::Set {
                field: HeaderField::VLAN,
                offset,
                length,
                value: 0,
            };
            assert!(set.encode().is_err(), "{offset} {length}");
        }
    }
}

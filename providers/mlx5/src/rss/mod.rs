//! Receive-side scaling: queue pairs that distribute packets over work queues by a hash of their
//! headers.

pub mod work_queue;

use std::sync::Arc;

use bitflags::bitflags;
use uverbs_core::contract::checked_flags;
use uverbs_core::sys::{Uhw, cells};
use uverbs_core::types::{QpCaps, QpType};
use uverbs_core::{Error, ErrorKind, Object, Op, Result, cmd};
use uverbs_uapi::mlx5_abi::{
    MLX5_RX_HASH_DST_IPV4, MLX5_RX_HASH_DST_IPV6, MLX5_RX_HASH_DST_PORT_TCP,
    MLX5_RX_HASH_DST_PORT_UDP, MLX5_RX_HASH_INNER, MLX5_RX_HASH_IPSEC_SPI, MLX5_RX_HASH_SRC_IPV4,
    MLX5_RX_HASH_SRC_IPV6, MLX5_RX_HASH_SRC_PORT_TCP, MLX5_RX_HASH_SRC_PORT_UDP,
    mlx5_ib_create_qp_resp, mlx5_ib_create_qp_rss,
};
use zerocopy::IntoBytes;

use crate::context::caps::Caps;
use crate::context::{Context, ProtectionDomain};
use work_queue::IndirectionTable;

/// Bytes of the key of the Toeplitz hash.
pub const HASH_KEY: usize = 40;
const HASH_KEY_LEN: u8 = 40;

/// `MLX5_RX_HASH_FUNC_TOEPLITZ`.
const TOEPLITZ: u8 = 1;

bitflags! {
    /// `ibv_rx_hash_fields`—the packet fields that are hashed. Unknown bits are kept: the device
    /// reports which ones it supports.
    #[doc(alias = "ibv_rx_hash_fields")]
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct HashFields: u64 {
        /// Source address, IPv4.
        const SOURCE_IPV4 = MLX5_RX_HASH_SRC_IPV4;
        /// Destination address, IPv4.
        const DESTINATION_IPV4 = MLX5_RX_HASH_DST_IPV4;
        /// Source address, IPv6.
        const SOURCE_IPV6 = MLX5_RX_HASH_SRC_IPV6;
        /// Destination address, IPv6.
        const DESTINATION_IPV6 = MLX5_RX_HASH_DST_IPV6;
        /// Source port, TCP.
        const SOURCE_TCP = MLX5_RX_HASH_SRC_PORT_TCP;
        /// Destination port, TCP.
        const DESTINATION_TCP = MLX5_RX_HASH_DST_PORT_TCP;
        /// Source port, UDP.
        const SOURCE_UDP = MLX5_RX_HASH_SRC_PORT_UDP;
        /// Destination port, UDP.
        const DESTINATION_UDP = MLX5_RX_HASH_DST_PORT_UDP;
        /// Security parameter index of IPsec.
        const IPSEC = MLX5_RX_HASH_IPSEC_SPI;
        /// The inner headers of a tunnel.
        const INNER = MLX5_RX_HASH_INNER;
        const _ = !0;
    }
}

/// Fields of headers of which a packet has at most one.
const EXCLUDE_EACH_OTHER: [(HashFields, HashFields); 2] = [
    (
        HashFields::SOURCE_IPV4.union(HashFields::DESTINATION_IPV4),
        HashFields::SOURCE_IPV6.union(HashFields::DESTINATION_IPV6),
    ),
    (
        HashFields::SOURCE_TCP.union(HashFields::DESTINATION_TCP),
        HashFields::SOURCE_UDP.union(HashFields::DESTINATION_UDP),
    ),
];

/// The parameters of the hash.
#[derive(Clone, Copy, Debug)]
pub struct Hash {
    /// The fields that are hashed. IPv4 excludes IPv6, TCP excludes UDP.
    pub fields: HashFields,
    /// The key of the Toeplitz hash.
    pub key: [u8; HASH_KEY],
}

/// A queue pair that distributes frames over the work queues of a table. It has no states.
#[derive(Debug)]
pub struct SpreadingQueuePair {
    object: Arc<Object>,
    number: u32,
    tirn: u32,
}

impl SpreadingQueuePair {
    /// `ibv_create_qp_ex` with a hash—creates one; flow rules direct packets to it. One system
    /// call.
    ///
    /// # Errors
    /// Unsupported: the device does not hash one of the fields. `InvalidInput`: fields that exclude
    /// each other, or unknown bits. EPERM without `CAP_NET_RAW`.
    pub fn create(
        context: &Context,
        pd: &ProtectionDomain,
        table: &IndirectionTable,
        hash: &Hash,
        user_handle: u64,
    ) -> Result<Self> {
        let (object, number, tirn) = create(context, pd, table, hash, user_handle)?;
        Ok(Self {
            object: Arc::new(object),
            number,
            tirn,
        })
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number of the transport interface underneath; 0 if the kernel does not report it.
    pub fn tirn(&self) -> u32 {
        self.tirn
    }
}

/// The kernel object of one, its number, and that of its transport interface.
pub(crate) fn create(
    context: &Context,
    pd: &ProtectionDomain,
    table: &IndirectionTable,
    hash: &Hash,
    user_handle: u64,
) -> Result<(Object, u32, u32)> {
    let op = Op::CreateQueuePair;
    let fields = fields(op, context.caps(), hash.fields)?;
    let driver_data = driver_data(fields, &hash.key);
    let mut reply = mlx5_ib_create_qp_resp::default();
    let create = cmd::qp::Create {
        ind_table: Some(table.object().handle()),
        ..cmd::qp::Create::new(
            QpType::RawPacket,
            cmd::qp::Parent::Pd(pd.object().handle()),
            user_handle,
            QpCaps::default(),
        )
    };
    let file = context.file();
    let uhw = Uhw::new(driver_data.as_bytes(), cells(&mut reply));
    let created = cmd::qp::create(file, &create, &uhw)?;
    let parents = [Arc::clone(pd.object()), Arc::clone(table.object())];
    let object = Object::new(file, &cmd::qp::KIND, created.handle, parents);
    Ok((object, created.qp_num, reply.tirn))
}

/// The fields of a request, if the device can hash them.
fn fields(op: Op, caps: &Caps, requested: HashFields) -> Result<u64> {
    let fields = checked_flags(op, "hash_fields", requested)?;
    let lacking = fields & !caps.rss_fields;
    if caps.rss_functions & TOEPLITZ == 0 || lacking != 0 {
        return Err(Error::new(op, ErrorKind::Unsupported).fact("hash_fields", lacking));
    }
    for (one, other) in EXCLUDE_EACH_OTHER {
        if requested.intersects(one) && requested.intersects(other) {
            // The kernel would refuse it too, and log a complaint.
            return Err(Error::invalid(op, "hash_fields")
                .fact("fields", fields)
                .hint("IPv4 excludes IPv6, TCP excludes UDP"));
        }
    }
    Ok(fields)
}

fn driver_data(fields: u64, hash_key: &[u8; HASH_KEY]) -> mlx5_ib_create_qp_rss {
    let mut key = [0; 128];
    key[..HASH_KEY].copy_from_slice(hash_key);
    mlx5_ib_create_qp_rss {
        rx_hash_fields_mask: fields,
        rx_hash_function: TOEPLITZ,
        rx_key_len: HASH_KEY_LEN,
        rx_hash_key: key,
        ..mlx5_ib_create_qp_rss::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_can_be_matched() {
        let op = Op::CreateQueuePair;
        let caps = |rss_fields| Caps {
            rss_fields,
            rss_functions: TOEPLITZ,
            ..Caps::default()
        };
        let kind = |rss_fields, requested| {
            let requested = HashFields::from_bits_retain(requested);
            fields(op, &caps(rss_fields), requested).map_err(|error| error.kind())
        };
        for at in 0..64 {
            let bit = 1 << at;
            // Whatever the device reports.
            let (able, unable) = if matches!(at, 0..=8 | 31) {
                (Ok(bit), Err(ErrorKind::Unsupported))
            } else {
                (Err(ErrorKind::InvalidInput), Err(ErrorKind::InvalidInput))
            };
            assert_eq!((kind(!0, bit), kind(0, bit)), (able, unable), "{at}");
        }
        assert_eq!(kind(!0, 0b101), Err(ErrorKind::InvalidInput));
        assert_eq!(
            fields(op, &Caps::default(), HashFields::empty())
                .unwrap_err()
                .kind(),
            ErrorKind::Unsupported
        );
    }

    #[test]
    fn the_kernels_words() {
        let fields = HashFields::SOURCE_IPV4 | HashFields::DESTINATION_UDP;
        let driver_data = driver_data(fields.bits(), &[0xa5; HASH_KEY]);
        let bytes = driver_data.as_bytes();
        assert_eq!(bytes.len(), 152);
        assert_eq!(bytes[..8], 0x81_u64.to_ne_bytes());
        assert_eq!(bytes[8..10], [1, 40]);
        assert_eq!(bytes[16..56], [0xa5; 40]);
        assert_eq!(bytes[10..16], [0; 6]);
        assert_eq!(bytes[56..], [0; 96]);
    }
}

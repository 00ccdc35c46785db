//! Address handles: 48 bytes that are part of each datagram's request.

use std::sync::Arc;

use uverbs_core::contract::Gids;
use uverbs_core::sys::{Uhw, cells, random_u32};
use uverbs_core::types::{Address, AddressVector, GidType};
use uverbs_core::{Error, ErrorKind, Object, Op, Result, UverbsFile, cmd};
use uverbs_uapi::mlx5_abi::mlx5_ib_create_ah_resp;

use super::Context;

/// Codes of static rates by `enum ibv_rate`. Code 0 is as fast as the port, and is used for rates
/// that have no code.
const RATES: [u8; 23] = [
    0, 0, 7, 8, 9, 10, 11, 12, 13, 14, 15, 11, 13, 15, 0, 9, 15, 0, 0, 9, 13, 0, 0,
];

/// The vector has a global route: InfiniBand only.
const GLOBAL: u32 = 1 << 30;

/// Creates an address handle.
///
/// No system call on InfiniBand, except the first time, which queries the port's link layer. On
/// RoCE two: one for the GID's type (more where it is read from sysfs, before 5.10), and one in
/// which the kernel resolves the peer's Ethernet address, which may block.
///
/// # Errors
/// Those of [`AddressVector::check`]. EINVAL: no global route on Ethernet, or on an InfiniBand port
/// that requires one; a GID slot that is empty. Those of the command.
pub(crate) fn create(
    context: &Context,
    pd: &Arc<Object>,
    vector: &AddressVector,
    gids: &Gids<'_>,
) -> Result<Address> {
    let op = Op::CreateAddressHandle;
    vector.check(op)?;
    let mut words = route(vector);
    let link = context.link(vector.port)?;
    if link.needs_route && vector.grh.is_none() {
        return Err(
            Error::invalid(op, "no global route").hint(if link.is_ethernet {
                "on Ethernet a GID is the address"
            } else {
                "the port says that every packet needs one (GRH_REQUIRED)"
            }),
        );
    }
    if !link.is_ethernet {
        words[12] = rate(vector) << 4 | vector.sl & 0xf;
        words[13] = vector.src_path_bits & 0x7f;
        words[14..16].copy_from_slice(&vector.dlid.to_be_bytes());
        let global = u32::from(vector.grh.is_some()) * GLOBAL;
        set_bits(&mut words, global);
        return Ok(address(context.file(), None, &words));
    }
    let Some(global) = &vector.grh else {
        return Err(Error::invalid(op, "no global route"));
    };
    words[12] = rate(vector) << 4 | (vector.sl & 7) << 1;
    let file = context.file();
    let entry = gids
        .entry(vector.port, global.sgid_index.into())?
        .ok_or_else(|| Error::invalid(op, "sgid_index").fact("sgid_index", global.sgid_index))?;
    if entry.gid_type == GidType::RoceV2 {
        let source = if global.flow_label.raw() == 0 {
            0xc000 | (random_u32().map_err(|errno| Error::os(op, errno))? & 0x3fff) as u16
        } else {
            global.flow_label.udp_source_port()
        };
        words[14..16].copy_from_slice(&source.to_be_bytes());
    }
    if !context.config().creates_ah {
        return Err(Error::new(op, ErrorKind::Unsupported)
            .hint("the kernel's mlx5 driver does not resolve addresses; kernels since 4.10 do"));
    }
    let mut reply = mlx5_ib_create_ah_resp::default();
    let handle = cmd::ah::create(
        file,
        pd.handle(),
        vector,
        0,
        &Uhw::new(&[], cells(&mut reply)),
    )?;
    let object = Object::new(file, &cmd::ah::KIND, handle, [Arc::clone(pd)]);
    words[20..26].copy_from_slice(&reply.dmac);
    Ok(address(file, Some(Arc::new(object)), &words))
}

/// The part that is common to both link layers.
fn route(vector: &AddressVector) -> [u8; 48] {
    let mut words = [0; 48];
    if let Some(global) = &vector.grh {
        words[26] = global.traffic_class;
        words[27] = global.hop_limit;
        let bits = u32::from(global.sgid_index) << 20 | global.flow_label.raw();
        words[28..32].copy_from_slice(&bits.to_be_bytes());
        words[32..48].copy_from_slice(&global.dgid.to_bytes());
    }
    words
}

fn set_bits(words: &mut [u8; 48], bits: u32) {
    words[28] |= bits.to_be_bytes()[0];
}

fn rate(vector: &AddressVector) -> u8 {
    let raw = usize::from(vector.static_rate.raw());
    RATES.get(raw).copied().unwrap_or(0)
}

fn address(on: &UverbsFile, object: Option<Arc<Object>>, words: &[u8; 48]) -> Address {
    let mut vector = [0; 88];
    vector[..48].copy_from_slice(words);
    Address::new(on, object, 0, vector)
}

#[cfg(test)]
mod tests {
    use uverbs_core::types::{FlowLabel, Gid, GlobalRoute, Rate};

    use super::*;

    #[test]
    fn fields_of_a_route_are_at_their_offsets() {
        let mut global = GlobalRoute::new(Gid::from_bytes([7; 16]), 3);
        global.flow_label = FlowLabel::from_raw(0x12345);
        global.traffic_class = 9;
        global.hop_limit = 5;
        let mut words = route(&AddressVector::global(1, global));
        set_bits(&mut words, GLOBAL);
        assert_eq!(words[26..32], [9, 5, 0x40, 0x31, 0x23, 0x45]);
        assert_eq!(words[32..], [7; 16]);
    }

    #[test]
    fn rates_have_the_devices_codes() {
        let mut vector = AddressVector::local(1, 1);
        for (number, code) in [
            (0, 0),
            (2, 7),
            (5, 10),
            (10, 15),
            (22, 0),
            (23, 0),
            (255, 0),
        ] {
            vector.static_rate = Rate::from_raw(number);
            assert_eq!(rate(&vector), code, "{number}");
        }
    }
}

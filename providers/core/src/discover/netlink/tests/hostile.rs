//! Arbitrary bytes: at worst an error.

use proptest::collection::vec;
use proptest::prelude::*;
use uverbs_uapi::rdma_netlink::{
    RDMA_NL_GET_TYPE, RDMA_NL_NLDEV, RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME,
    RDMA_NLDEV_ATTR_MAX, RDMA_NLDEV_CMD_GET,
};

use super::script::{Script, answer, attr, device, done, message, text, word};
use crate::discover::netlink::{
    Attribute, Attributes, Device, Message, Port, Request, Resource, ResourceKind, Summary, System,
    Uverbs, messages, parse_counters,
};
use crate::error::Op;

/// Parses bytes by every parser, and returns whether any parser accepted them.
fn read_all(bytes: &[u8]) -> usize {
    let attributes = Attributes::new(bytes);
    let mut list = Vec::new();
    for kind in ResourceKind::ALL {
        let _ = Resource::parse_list(*kind, attributes, &mut list);
    }
    list.len()
        + usize::from(Device::parse(attributes).is_ok())
        + usize::from(Uverbs::parse(attributes).is_ok())
        + usize::from(Port::parse(attributes).is_ok())
        + usize::from(System::parse(attributes).is_ok())
        + usize::from(Summary::parse(attributes).is_ok())
        + usize::from(parse_counters(attributes).is_ok())
}

fn read_datagram(bytes: &[u8]) {
    for message in messages(bytes) {
        if let Ok(Message::Answer { attributes, .. }) = message {
            assert!(attributes.iter().count() <= bytes.len());
        }
    }
}

/// An attribute of a type that the kernel has, with a value of a plausible width, or nested
/// attributes.
fn attribute() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        vec(any::<u8>(), 0..12),
        any::<u32>().prop_map(|word| word.to_ne_bytes().to_vec()),
        any::<u64>().prop_map(|word| word.to_ne_bytes().to_vec()),
        "[a-z/.]{0,8}".prop_map(|text| [text.as_bytes(), &[0]].concat()),
    ];
    let leaf = (0..RDMA_NLDEV_ATTR_MAX, value).prop_map(|(kind, value)| attr(kind, &value));
    leaf.prop_recursive(4, 32, 6, |inner| {
        (0..RDMA_NLDEV_ATTR_MAX, vec(inner, 0..6), any::<bool>()).prop_map(|(kind, nest, flag)| {
            attr(if flag { kind | 0x8000 } else { kind }, &nest.concat())
        })
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_datagram(&bytes);
        read_all(&bytes);
    }

    #[test]
    fn no_attributes_panic(
        attributes in vec(attribute(), 0..12),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = attributes.concat();
        read_all(&bytes);
        if !bytes.is_empty() {
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
        }
        read_all(&bytes);
        let kind = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
        read_datagram(&message(kind, 0, 1, &bytes));
    }

    #[test]
    fn no_answer_hangs_or_panics(datagrams in vec(prop_oneof![
        vec(any::<u8>(), 0..100),
        (0_u16..8, any::<u16>(), 0_u32..4, vec(any::<u8>(), 0..40)).prop_map(|(kind, flags, sequence, payload)|
            message(kind, flags, sequence, &payload)),
        (any::<u16>(), 0_u32..4, vec(attribute(), 0..4)).prop_map(|(flags, sequence, attributes)|
            message(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), flags, sequence, &attributes.concat())),
    ], 0..20)) {
        let count = datagrams.len();
        let script = Script::new(datagrams);
        let mut client = script.client();
        let _ = client.devices();
        let _ = client.find("rxe0", true);
        let _ = client.resources(0, ResourceKind::MemoryRegion);
        prop_assert!(script.unread() <= count);
    }

    #[test]
    fn lists_are_read_as_written(
        devices in vec((any::<u32>(), "[a-z0-9_-]{1,63}"), 0..20),
        at_once in 1_usize..5,
    ) {
        let parts: Vec<_> = devices.iter().map(|(index, name)| device(true, 1, *index, name)).collect();
        let mut datagrams: Vec<_> = parts.chunks(at_once).map(<[_]>::concat).collect();
        datagrams.push(done(1));
        let found = Script::new(datagrams).client().devices().unwrap();
        let found: Vec<_> = found.into_iter().map(|device| (device.index, device.name)).collect();
        prop_assert_eq!(found, devices);
    }

    #[test]
    fn requests_are_read_as_written(index in any::<u32>(), name in "[^\0]{0,60}", sequence in any::<u32>()) {
        let attributes = [
            Attribute::u32(RDMA_NLDEV_ATTR_DEV_INDEX, index),
            Attribute::text(Op::ListDevices, RDMA_NLDEV_ATTR_DEV_NAME, &name).unwrap(),
        ];
        let mut datagram = vec![0xaa; 4];
        Request::get(RDMA_NLDEV_CMD_GET, &attributes).encode(sequence, &mut datagram);
        let written = [word(RDMA_NLDEV_ATTR_DEV_INDEX, index), text(RDMA_NLDEV_ATTR_DEV_NAME, &name)];
        let mut expected = answer(RDMA_NLDEV_CMD_GET, false, sequence, &written);
        expected[6..8].copy_from_slice(&1_u16.to_ne_bytes());
        expected[12..16].fill(0);
        prop_assert_eq!(&datagram[4..], &expected[..]);
    }
}

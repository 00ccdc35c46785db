//! Address handles on both kinds of links.

use uverbs_core::contract::Gids;
use uverbs_core::discover::sysfs::Sysfs;
use uverbs_core::discover::{DeviceInfo, Source};
use uverbs_core::types::{Address, AddressVector, FlowLabel, Gid, GlobalRoute, Rate};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_gid_entry;

use super::*;
use crate::context::ah;

const GID: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// A context with a port of this link layer, and a domain.
struct Bench {
    kernel: Arc<Scripted>,
    context: Context,
    pd: ProtectionDomain,
}

impl Bench {
    fn new(link_layer: u8, flags: u8) -> Self {
        Self::resolving(link_layer, flags, 2)
    }

    /// `supported` says what the kernel's driver can do (2: it resolves addresses).
    fn resolving(link_layer: u8, flags: u8, supported: u8) -> Self {
        let (kernel, context) =
            Scripted::context_with(|replies| replies.opened.cmds_supp_uhw = supported);
        let pd = kernel.pd(&context);
        // The replies of both commands have the same id.
        kernel.answer(PORT, port(link_layer, flags).as_bytes());
        context.link(1).unwrap();
        kernel.answer(UVERBS_ATTR_CORE_OUT, &0xa5_u32.to_ne_bytes());
        kernel.take_calls();
        Self {
            kernel,
            context,
            pd,
        }
    }

    /// The type of each GID, by the kernel's numbers: 0 InfiniBand, 1 RoCE, 2 RoCE v2.
    fn gids_of(&self, gid_type: u32) {
        let entry = ib_uverbs_gid_entry {
            gid_type,
            ..ib_uverbs_gid_entry::default()
        };
        let id = UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY;
        self.kernel.answer(id, entry.as_bytes());
    }

    fn create(&self, vector: &AddressVector) -> Result<Address> {
        let info = DeviceInfo::named("mlx5_0".to_owned(), Source::Netlink);
        let sysfs = Sysfs::at("/nonexistent");
        let gids = Gids::new(self.context.file(), &info, &sysfs);
        ah::create(&self.context, self.pd.object(), vector, &gids)
    }
}

fn route() -> GlobalRoute {
    let mut route = GlobalRoute::new(Gid::from_bytes(GID), 3);
    route.flow_label = FlowLabel::from_raw(0x12345);
    route.traffic_class = 9;
    route.hop_limit = 5;
    route
}

/// The device's part of an address.
fn words(address: &Address) -> [u8; 48] {
    let (words, rest) = address.vector().split_first_chunk().unwrap();
    assert_eq!(rest, [0; 40]);
    *words
}

#[test]
fn a_local_address_is_path_service_level_and_rate() {
    let bench = Bench::new(1, 0);
    let mut vector = AddressVector::local(1, 0x1234);
    vector.static_rate = Rate::from_raw(5);
    vector.sl = 6;
    vector.src_path_bits = 0x53;
    let address = bench.create(&vector).unwrap();
    let mut expected = [0; 48];
    expected[12..16].copy_from_slice(&[0xa6, 0x53, 0x12, 0x34]);
    assert_eq!(words(&address), expected);
    address.destroy().unwrap();
    assert_eq!(bench.kernel.take_calls(), [""; 0], "it is no object");
}

#[test]
fn a_global_address_on_infiniband_says_that_it_is_one() {
    let bench = Bench::new(1, 1);
    let vector = AddressVector::global(1, route());
    let found = words(&bench.create(&vector).unwrap());
    assert_eq!(found[26..32], [9, 5, 0x40, 0x31, 0x23, 0x45]);
    assert_eq!(found[32..], GID);
    let error = bench.create(&AddressVector::local(1, 7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.known_hint().unwrap().contains("GRH_REQUIRED"));
}

#[test]
fn on_ethernet_the_kernel_resolves_the_address() {
    let bench = Bench::new(2, 0);
    bench.gids_of(1);
    bench
        .kernel
        .answer_by_driver(&[0, 0, 0, 0, 2, 3, 4, 5, 6, 7]);
    let mut vector = AddressVector::global(1, route());
    vector.static_rate = Rate::from_raw(2);
    vector.sl = 13;
    let address = bench.create(&vector).unwrap();
    let found = words(&address);
    // Three bits of the service level, shifted by one; no port of UDP.
    assert_eq!(found[12..16], [7 << 4 | 5 << 1, 0, 0, 0]);
    assert_eq!(found[20..26], [2, 3, 4, 5, 6, 7]);
    assert_eq!(found[26..32], [9, 5, 0x00, 0x31, 0x23, 0x45]);
    assert_eq!(bench.kernel.take_calls().len(), 2, "for its GID and itself");
    address.destroy().unwrap();
    let [destroyed]: [String; 1] = bench.kernel.take_calls().try_into().unwrap();
    assert!(destroyed.ends_with("obj=165"), "{destroyed}");
    let error = bench.create(&AddressVector::local(1, 7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.known_hint().unwrap().contains("a GID is the address"));
    assert_eq!(bench.kernel.take_calls(), [""; 0]);
}

#[test]
fn the_source_port_of_roce_v2_comes_from_the_flow_label_or_is_random() {
    let bench = Bench::new(2, 0);
    bench.gids_of(2);
    let labelled = words(&bench.create(&AddressVector::global(1, route())).unwrap());
    let expected = route().flow_label.udp_source_port();
    assert_eq!(labelled[14..16], expected.to_be_bytes());
    let without = AddressVector::global(
        1,
        GlobalRoute {
            flow_label: FlowLabel::from_raw(0),
            ..route()
        },
    );
    let ports: Vec<u16> = (0..32)
        .map(|_| words(&bench.create(&without).unwrap()))
        .map(|words| u16::from_be_bytes([words[14], words[15]]))
        .collect();
    assert!(ports.iter().all(|port| *port >= 0xc000), "{ports:?}");
    assert!(ports.iter().any(|port| *port != ports[0]), "{ports:?}");
    assert!(ports.iter().any(|port| *port & 0x2000 == 0), "{ports:?}");
    assert!(ports.iter().any(|port| *port != 0xffff), "{ports:?}");
}

#[test]
fn an_empty_gid_slot_is_refused_before_the_kernel_is_asked_to_resolve() {
    let bench = Bench::new(2, 0);
    bench.kernel.refuse("", Errno::NODATA);
    let error = bench
        .create(&AddressVector::global(1, route()))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("sgid_index 3"), "{error}");
    assert_eq!(bench.kernel.take_calls().len(), 1);
}

#[test]
fn a_driver_that_does_not_resolve_addresses_is_not_asked() {
    for (supported, asked) in [(0xfd, 1), (2, 2)] {
        let bench = Bench::resolving(2, 0, supported);
        bench.gids_of(1);
        let made = bench.create(&AddressVector::global(1, route()));
        assert_eq!(bench.kernel.take_calls().len(), asked);
        let kind = made.err().map(|error| error.kind());
        assert_eq!(kind, (asked == 1).then_some(ErrorKind::Unsupported));
    }
}

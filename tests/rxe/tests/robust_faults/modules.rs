//! Kernel modules that are not there.

use uverbs::ErrorKind;
use uverbs::discover::netlink::Client;
use uverbs::error::Errno;

use crate::support::objects::Objects;

/// The other end of the device's wire.
const INTERFACE: &str = "v1";

#[test]
fn f06_a_link_whose_module_is_not_there() {
    let before = Objects::now();
    let mut client = Client::connect().expect("netlink");
    for (kind, netdev, errno, hint) in [
        ("nosuch", INTERFACE, Errno::INVAL, "modprobe"),
        ("rxe", "nosuch0", Errno::NODEV, "no such network device"),
    ] {
        let error = client
            .add_link("rxe9", kind, netdev)
            .expect_err("there is none");
        assert_eq!(error.errno(), Some(errno), "{error}");
        assert!(
            matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::NotFound | ErrorKind::Unsupported
            ),
            "{error}"
        );
        let text = error.to_string();
        for word in ["rxe9", kind, netdev, hint] {
            assert!(text.contains(word), "no word of {word:?}: {error}");
        }
    }
    let listed = client.devices().expect("the list");
    assert!(listed.iter().all(|device| device.name != "rxe9"));
    before.same_now();
}

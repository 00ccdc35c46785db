//! The kernel: its version, its modules, and how it reports devices.

use std::fs;
use std::path::Path;

use uverbs::discover::{self, netlink};

use super::finding::Finding;

/// The oldest kernel that this library is tested on.
const TRIED: (u32, u32) = (5, 10);

/// The PCI vendor ID of NVIDIA (Mellanox).
const NVIDIA: &str = "0x15b3";

pub(super) fn look() -> Vec<Finding> {
    let mut findings = vec![version()];
    findings.extend(modules());
    findings.extend(sources());
    findings
}

fn version() -> Finding {
    const CHECK: &str = "kernel";
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    match parse_version(release) {
        Some(version) if version < TRIED => Finding::warn(
            CHECK,
            format_args!("Linux {release} is older than any this was tested on"),
        )
        .fix(format_args!("use Linux {}.{} or newer", TRIED.0, TRIED.1)),
        Some(_) => Finding::ok(CHECK, format_args!("Linux {release}")),
        None => Finding::warn(CHECK, "its version cannot be read from /proc")
            .fix("mount -t proc proc /proc"),
    }
}

fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn modules() -> Vec<Finding> {
    const CHECK: &str = "module";
    if !Path::new("/sys/module").is_dir() {
        return vec![
            Finding::warn(CHECK, "cannot be checked: /sys is not there")
                .fix("mount -t sysfs sysfs /sys"),
        ];
    }
    let has_nodes = Path::new("/dev/infiniband").is_dir();
    let mut findings = Vec::new();
    findings.push(if is_loaded("ib_uverbs") {
        Finding::ok(CHECK, "loaded").about("ib_uverbs")
    } else if has_nodes {
        Finding::ok(CHECK, "built into the kernel").about("ib_uverbs")
    } else {
        Finding::fail(CHECK, "not loaded: no program can use RDMA devices")
            .about("ib_uverbs")
            .fix("modprobe ib_uverbs")
    });
    findings.push(if is_loaded("mlx5_ib") {
        Finding::ok(CHECK, "loaded").about("mlx5_ib")
    } else if has_pci_vendor(NVIDIA) {
        Finding::warn(CHECK, "not loaded, and there is an adapter that needs it")
            .about("mlx5_ib")
            .fix("modprobe mlx5_ib")
    } else {
        Finding::ok(CHECK, "not loaded; there is no adapter that needs it").about("mlx5_ib")
    });
    for (module, purpose) in [
        ("rdma_rxe", "software RDMA over any network interface"),
        (
            "rdma_ucm",
            "programs that use the connection manager (librdmacm)",
        ),
    ] {
        let message = if is_loaded(module) {
            "loaded".to_owned()
        } else {
            format!("not loaded; it is for {purpose} (modprobe {module})")
        };
        findings.push(Finding::ok(CHECK, message).about(module));
    }
    findings
}

fn is_loaded(module: &str) -> bool {
    Path::new("/sys/module").join(module).is_dir()
}

fn has_pci_vendor(vendor: &str) -> bool {
    let Ok(devices) = fs::read_dir("/sys/bus/pci/devices") else {
        return false;
    };
    devices.flatten().any(|device| {
        fs::read_to_string(device.path().join("vendor")).is_ok_and(|text| text.trim() == vendor)
    })
}

/// How devices are found, and what the kernel says about all of them.
fn sources() -> Vec<Finding> {
    let mut findings = Vec::new();
    let system = netlink::Client::connect().and_then(|mut client| client.system());
    match &system {
        Ok(_) => findings.push(Finding::ok("netlink", "RDMA netlink answers")),
        Err(error) => findings.push(
            Finding::warn(
                "netlink",
                format_args!("RDMA netlink does not answer ({error}); sysfs is read instead"),
            )
            .fix("modprobe ib_core"),
        ),
    }
    let sysfs = Path::new("/sys/class/infiniband").is_dir();
    findings.push(match (sysfs, system.is_ok()) {
        (true, _) => Finding::ok("sysfs", "/sys/class/infiniband is there"),
        (false, true) => Finding::ok(
            "sysfs",
            "/sys/class/infiniband is not there; netlink is, but without partition keys and counters",
        ),
        (false, false) => Finding::fail("sysfs", "neither netlink nor sysfs lists devices")
            .fix("modprobe ib_uverbs; in a container, mount /sys"),
    });
    if let Ok(system) = &system {
        findings.push(match system.netns_mode {
            Some(netlink::NetnsMode::Exclusive) => Finding::ok(
                "namespaces",
                "exclusive: a device is in one network namespace \
                 (rdma dev set DEVICE netns NAME moves it)",
            ),
            Some(netlink::NetnsMode::Shared) => Finding::ok(
                "namespaces",
                "shared: all devices are in all network namespaces",
            ),
            _ => Finding::ok("namespaces", "the kernel does not report it"),
        });
    }
    findings.push(match (&system, discover::copy_on_fork()) {
        (Err(_), _) => Finding::ok("fork", "not known without netlink"),
        (_, Ok(true)) => Finding::ok("fork", "the kernel copies registered memory for children"),
        _ => Finding::ok(
            "fork",
            "the kernel does not copy registered memory for children; \
             the library keeps it from them",
        ),
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn versions_of_distributions() {
        assert_eq!(parse_version("6.12.117+deb13-amd64"), Some((6, 12)));
        assert_eq!(parse_version("5.10.0-28-amd64"), Some((5, 10)));
        assert_eq!(parse_version("7.2-rc1"), Some((7, 2)));
        assert_eq!(parse_version("linux"), None);
        assert_eq!(parse_version(""), None);
    }
}

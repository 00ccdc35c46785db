//! Verbs devices of PCI functions: their drivers create them; this module waits for them and
//! assigns addresses.

use super::{links, wire};
use crate::error::{Doing as _, Error};
use guest_init::{Device, Port};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long drivers may take until a device is usable. Emulated processors are slow.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until every device exists, then until its port is usable.
pub(crate) fn set_up(devices: &[Device]) -> Result<(), Error> {
    for device in devices {
        until(
            || format!("{} has its verbs device", device.name),
            || has_verbs(&device.name),
        )?;
    }
    let mut ends = Vec::new();
    for (device, number) in devices.iter().zip(1..) {
        if let Port::Roce(addresses) = &device.port {
            let link = interface(&device.name)?;
            links::quiet(&[&link]);
            ends.push(wire::End {
                link,
                table: wire::FUNCTION_TABLES + number,
                addresses: addresses.clone(),
            });
        }
    }
    links::run(async |links| wire::join(links, &ends).await)?;
    for device in devices {
        if let Port::Roce(addresses) = &device.port {
            for (address, _) in addresses {
                until(
                    || format!("{} has the GID of {address}", device.name),
                    || has_gid(&device.name, *address),
                )?;
            }
        }
        if !matches!(device.port, Port::Raw) {
            until(
                || format!("the port of {} is active", device.name),
                || is_active(&device.name),
            )?;
        }
        if let Port::Infiniband(addresses) = &device.port
            && !addresses.is_empty()
        {
            bring_up(&device.name, addresses)?;
        }
    }
    Ok(())
}

/// Sets up IP over InfiniBand. Its interface is up once it has joined the group of broadcasts.
fn bring_up(device: &str, addresses: &[(IpAddr, u8)]) -> Result<(), Error> {
    until(
        || format!("{device} has an interface"),
        || interface(device).is_ok(),
    )?;
    let link = interface(device)?;
    links::quiet(&[&link]);
    links::run(async |links| {
        links.add_addresses(&link, addresses).await?;
        links.up(&link).await
    })?;
    let state = format!("/sys/class/net/{link}/operstate");
    until(
        || format!("{link} is up"),
        || fs::read_to_string(&state).is_ok_and(|state| state.trim() == "up"),
    )
}

fn until(what: impl Fn() -> String, holds: impl Fn() -> bool) -> Result<(), Error> {
    let since = Instant::now();
    while !holds() {
        if since.elapsed() > PATIENCE {
            return Err(Error::new(
                format!("waiting until {}", what()),
                "its time is over",
            ));
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// Whether the device can be opened.
fn has_verbs(name: &str) -> bool {
    let entries = fs::read_dir("/sys/class/infiniband_verbs");
    entries.into_iter().flatten().flatten().any(|entry| {
        fs::read_to_string(entry.path().join("ibdev")).is_ok_and(|ibdev| ibdev.trim() == name)
            && Path::new("/dev/infiniband")
                .join(entry.file_name())
                .exists()
    })
}

/// The network interface of the same PCI function.
fn interface(name: &str) -> Result<String, Error> {
    let folder = format!("/sys/class/infiniband/{name}/device/net");
    let doing = || format!("looking for the network interface of {name}");
    let mut entries = fs::read_dir(&folder).doing(doing)?.flatten();
    let entry = entries
        .next()
        .ok_or_else(|| Error::new(doing(), format!("{folder} is empty")))?;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

fn has_gid(name: &str, address: IpAddr) -> bool {
    let wanted = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let entries = fs::read_dir(format!("/sys/class/infiniband/{name}/ports/1/gids"));
    entries.into_iter().flatten().flatten().any(|entry| {
        // An empty entry of the table cannot be read.
        fs::read_to_string(entry.path())
            .is_ok_and(|gid| gid.trim().parse::<Ipv6Addr>() == Ok(wanted))
    })
}

fn is_active(name: &str) -> bool {
    fs::read_to_string(format!("/sys/class/infiniband/{name}/ports/1/state"))
        .is_ok_and(|state| state.contains("ACTIVE"))
}

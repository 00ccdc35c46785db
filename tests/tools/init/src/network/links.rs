//! Interfaces and addresses, by rtnetlink.

use crate::error::{Doing as _, Error};
use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::{Handle, LinkUnspec, LinkVeth};
use std::fs::{self, File};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd as _;

/// rtnetlink in the network namespace of the thread that created it.
#[derive(Debug)]
pub(crate) struct Links(pub(super) Handle);

/// Runs `work`, which needs rtnetlink, in the calling thread's network namespace.
pub(crate) fn run<T>(work: impl AsyncFnOnce(&Links) -> Result<T, Error>) -> Result<T, Error> {
    let doing = || "opening route netlink".to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .doing(doing)?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().doing(doing)?;
        let carrier = tokio::spawn(connection);
        let result = work(&Links(handle)).await;
        carrier.abort();
        result
    })
}

/// Makes addresses usable at once: new interfaces do no duplicate address detection.
pub(crate) fn quiet_defaults() {
    quiet(&["all", "default"]);
}

/// The same for existing interfaces.
pub(crate) fn quiet(scopes: &[&str]) {
    for scope in scopes {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/accept_dad"), "0");
        let _ = fs::write(
            format!("/proc/sys/net/ipv6/conf/{scope}/router_solicitations"),
            "0",
        );
    }
}

impl Links {
    /// Adds a veth pair.
    pub(crate) async fn add_pair(&self, one: &str, other: &str) -> Result<(), Error> {
        let message = LinkVeth::new(one, other).build();
        self.0
            .link()
            .add(message)
            .execute()
            .await
            .doing(|| format!("adding the veth pair {one}, {other}"))
    }

    /// Brings an interface up.
    pub(crate) async fn up(&self, name: &str) -> Result<(), Error> {
        let message = LinkUnspec::new_with_name(name).up().build();
        self.0
            .link()
            .set(message)
            .execute()
            .await
            .doing(|| format!("taking {name} up"))
    }

    /// Moves an interface to another network namespace.
    pub(crate) async fn give_away(&self, name: &str, namespace: &File) -> Result<(), Error> {
        let message = LinkUnspec::new_with_name(name)
            .setns_by_fd(namespace.as_raw_fd())
            .build();
        self.0
            .link()
            .set(message)
            .execute()
            .await
            .doing(|| format!("giving {name} to a network namespace"))
    }

    /// Adds addresses to an interface.
    pub(crate) async fn add_addresses(
        &self,
        name: &str,
        addresses: &[(IpAddr, u8)],
    ) -> Result<(), Error> {
        let index = self.index(name).await?;
        for &(address, prefix) in addresses {
            let adding = self.0.address().add(index, address, prefix).execute();
            adding
                .await
                .doing(|| format!("adding {address}/{prefix} to {name}"))?;
        }
        Ok(())
    }

    /// The index of an interface.
    pub(crate) async fn index(&self, name: &str) -> Result<u32, Error> {
        self.find(name).await.map(|link| link.header.index)
    }

    /// The IPv6 link-local address that an Ethernet interface assigns itself (RFC 4291, appendix
    /// A).
    pub(crate) async fn link_local(&self, name: &str) -> Result<Ipv6Addr, Error> {
        let link = self.find(name).await?;
        let address = link
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                LinkAttribute::Address(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok(),
                _ => None,
            });
        let address = address.map(|[a, b, c, d, e, f]| {
            let low = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
            Ipv6Addr::from_bits((0xfe80 << 112) | u128::from(u64::from_be_bytes(low)))
        });
        address
            .ok_or_else(|| Error::new(format!("looking for the address of {name}"), "it has none"))
    }

    async fn find(&self, name: &str) -> Result<LinkMessage, Error> {
        let doing = || format!("looking for the interface {name}");
        let mut links = self.0.link().get().match_name(name.to_owned()).execute();
        let link = links.try_next().await.doing(doing)?;
        link.ok_or_else(|| Error::new(doing(), "there is none"))
    }
}

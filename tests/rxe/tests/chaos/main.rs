//! Servers of tasks on real kernels while their peers are killed, refuse, say nothing, read slowly
//! and lose the network.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod crowd;
mod flood;
mod streams;
#[path = "../robust_support/mod.rs"]
mod support;
mod talk;

use std::net::Ipv4Addr;
use std::thread;
use std::time::Instant;

use uverbs::discover::netlink::Client;
use uverbs::gid::GidEntry;
use uverbs::link::PortState;
use verbs_tests::link;

/// The address of `v0`, on which the device is.
const ADDRESS: [u8; 4] = [10, 1, 0, 1];
const INTERFACE: &str = "v0";

/// The interface, down until this is dropped.
struct Down;

impl Down {
    fn now() -> Self {
        link::set_up(INTERFACE, false);
        Self
    }
}

impl Drop for Down {
    fn drop(&mut self) {
        link::set_up(INTERFACE, true);
    }
}

/// Deletes the device, which nobody may have open, and makes it anew. The queue pair by which rxe
/// carries the connection manager's messages is dead for ever once one was sent while the
/// interface was down.
fn make_device_anew() {
    let name = verbs_tests::device_name();
    let mut client = Client::connect().unwrap();
    let devices = client.devices().unwrap();
    let found = devices.iter().find(|device| device.name == name);
    client.delete_link(found.unwrap().index).unwrap();
    client.add_link(&name, "rxe", INTERFACE).unwrap();
    let context = verbs_tests::open();
    verbs_tests::until("the device has its address", || {
        let table = context.gid_table().unwrap();
        let mapped = Ipv4Addr::from(ADDRESS).to_ipv6_mapped();
        let ours = |entry: &GidEntry| entry.gid == mapped.into();
        let is_active = context.query_port(1).unwrap().state == PortState::Active;
        (is_active && table.iter().any(ours)).then_some(())
    });
}

fn sleep_until(time: Instant) {
    thread::sleep(time.saturating_duration_since(Instant::now()));
}

//! Containers: no `/sys`, another user namespace.

use std::fs;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use uverbs_core::discover::{Source, find};

use crate::support::child::in_child;
use crate::support::looped::Looped;
use crate::support::objects::Objects;

/// Mounts an empty file system over `/sys`.
fn hide_sysfs() {
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("private mounts");
    let tmpfs = Some("tmpfs");
    mount(tmpfs, "/sys", tmpfs, MsFlags::empty(), None::<&str>).expect("an empty folder");
    assert!(fs::read_dir("/sys").expect("the folder").next().is_none());
}

/// Checks that the device is found, opened and used.
fn is_usable() {
    let name = verbs_tests::device_name();
    let info = find(&name, &uverbs::discover::Options::default()).expect("it is found");
    assert_eq!(info.source, Source::Netlink);
    assert!(info.path.is_some(), "{info:?}");
    let listed = uverbs::devices().expect("the list");
    assert!(listed.iter().any(|device| device.name() == name));
    let mut looped = Looped::new();
    looped.round_trip(1);
    let context = looped.context.clone();
    let port = context.query_port(1).expect("the port");
    assert!(port.gid_tbl_len > 0);
    assert!(!context.gid_table().expect("the table").is_empty());
    drop(looped);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn f17_without_sysfs() {
    let before = Objects::now();
    in_child(|| {
        hide_sysfs();
        is_usable();
    });
    before.return_in_time();
}

#[test]
fn f17_in_another_user_namespace() {
    let before = Objects::now();
    in_child(|| {
        unshare(CloneFlags::CLONE_NEWUSER).expect("a user namespace");
        // How the kernel sees root of a container.
        fs::write("/proc/self/uid_map", "0 0 1").expect("a user");
        is_usable();
    });
    in_child(|| {
        unshare(CloneFlags::CLONE_NEWUSER).expect("a user namespace");
        fs::write("/proc/self/uid_map", "0 0 1").expect("a user");
        hide_sysfs();
        is_usable();
    });
    before.return_in_time();
}

//! Finds and opens the connection manager.

use std::ops::RangeInclusive;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use uverbs_uapi::rdma_user_cm::RDMA_USER_CM_ABI_VERSION;

use super::CmFile;
use crate::discover::netlink::{Client, NetlinkTransport, Uverbs};
use crate::discover::sysfs::Sysfs;
use crate::discover::{CharDevice, DeviceInfo, Options, Source, available, via_netlink};
use crate::error::{Errno, Error, ErrorKind, Op, Result};
use crate::sys::open::{node_path, open_node_with};
use crate::sys::recorder::{Recorder, Sink};
use crate::sys::{CM, Kernel, Linux, check_cm_device};

/// The versions of the kernel's interface that this library speaks.
pub const ABI_VERSIONS: RangeInclusive<u32> = RDMA_USER_CM_ABI_VERSION..=RDMA_USER_CM_ABI_VERSION;

/// Where sysfs has the version: the class is older than the device's place among the miscellaneous
/// ones.
const CLASSES: [&[&str]; 2] = [&["class", "misc", CM], &["class", "infiniband_ucma"]];

/// The connection manager's node.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Node {
    /// Its path, `/dev/infiniband/rdma_cm`.
    pub path: PathBuf,
    /// Its number; `None` if only the path is known.
    pub number: Option<CharDevice>,
    /// The version of the kernel's interface; that of this library if it is not reported.
    pub abi_version: u32,
    /// Where this was found.
    pub source: Source,
}

/// The connection manager, opened.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// Its event channel.
    pub file: CmFile,
    /// The device with index 0, if there is one: it was asked for in the same datagram as the
    /// node, because many machines have no other. True at that moment.
    pub first: Option<DeviceInfo>,
}

/// Finds the connection manager: by RDMA netlink, which makes the kernel load its module, else in
/// sysfs, else at its usual path.
///
/// Three system calls by netlink. Of `options`, only `netlink`, `sysfs` and the two roots are used.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM. A node that does not exist is found nevertheless, and cannot be opened.
pub fn find(options: &Options) -> Result<Node> {
    find_with(options.netlink.then(Client::connect), options)
}

/// Opens the running kernel's connection manager, and its event channel. Two to three system calls
/// in addition to those of [`find`].
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound): no node. [`PermissionDenied`](ErrorKind::PermissionDenied):
/// its mode, or a device cgroup. [`Unsupported`](ErrorKind::Unsupported): another version of the
/// interface. [`InvalidInput`](ErrorKind::InvalidInput): the node is another device. EMFILE,
/// ENFILE.
#[doc(alias = "rdma_create_event_channel")]
pub fn open(options: &Options) -> Result<CmFile> {
    open_with(Arc::new(Linux), &find(options)?, options, true)
}

/// The same, [non-blocking](CmFile::set_nonblocking) from the start; reports every command to
/// `sink`, if there is one.
///
/// # Errors
/// As [`open`].
pub fn open_nonblocking(options: &Options, sink: Option<Arc<dyn Sink>>) -> Result<Opened> {
    let kernel: Arc<dyn Kernel> = match sink {
        Some(sink) => Arc::new(Recorder::new(Linux, sink)),
        None => Arc::new(Linux),
    };
    let mut first = None;
    let ask = |client: &mut _| {
        let (node, device) = via_netlink::connection_manager(client, options)?;
        first = device;
        Ok(node)
    };
    let node = find_by(options.netlink.then(Client::connect), options, ask)?;
    let file = open_with(kernel, &node, options, false)?;
    Ok(Opened { file, first })
}

/// The connection manager of `kernel`, opened as `fd`. The running kernel's needs one system call,
/// and a few to find out what number it has.
///
/// # Errors
/// Those of [`Kernel::check_connection_manager`].
#[expect(unsafe_code, reason = "has checked what the descriptor is")]
pub fn over(kernel: Arc<dyn Kernel>, fd: OwnedFd) -> Result<CmFile> {
    kernel
        .check_connection_manager(fd.as_fd(), None)
        .map_err(|error| error.with_op(Op::OpenConnectionManager))?;
    // SAFETY: (1) the kernel takes calls on the descriptor, as just checked.
    Ok(unsafe { CmFile::new(kernel, fd) })
}

#[expect(unsafe_code, reason = "has checked what the descriptor is")]
fn open_with(
    kernel: Arc<dyn Kernel>,
    node: &Node,
    options: &Options,
    blocks: bool,
) -> Result<CmFile> {
    let op = Op::OpenConnectionManager;
    if !ABI_VERSIONS.contains(&node.abi_version) {
        return Err(Error::new(op, ErrorKind::Unsupported)
            .fact("abi_version", node.abi_version)
            .fact("known", *ABI_VERSIONS.end()));
    }
    let (fd, number) = open_node_with(&node.path, node.number, &options.dev_root, blocks)
        .map_err(|error| explain(error.with_op(op)))?;
    if node.number.is_none() {
        check_cm_device(number).map_err(|error| error.with_op(op))?;
    }
    // SAFETY: (1) the descriptor has the number of the running kernel's connection manager.
    Ok(unsafe { CmFile::new(kernel, fd) })
}

pub(super) fn find_with<T: NetlinkTransport>(
    netlink: Option<Result<Client<T>>>,
    options: &Options,
) -> Result<Node> {
    find_by(netlink, options, Client::connection_manager)
}

/// Finds it by what `ask` is answered, else without netlink.
fn find_by<T: NetlinkTransport>(
    netlink: Option<Result<Client<T>>>,
    options: &Options,
    ask: impl FnOnce(&mut Client<T>) -> Result<Uverbs>,
) -> Result<Node> {
    let client = match netlink {
        Some(connected) => available(Op::OpenConnectionManager, connected)?,
        None => None,
    };
    if let Some(mut client) = client
        && let Ok(device) = ask(&mut client)
    {
        return Ok(Node {
            path: node_path(&options.dev_root, &device.name),
            number: Some(device.number),
            abi_version: device.abi_version,
            source: Source::Netlink,
        });
    }
    let found = options.sysfs.then(|| by_sysfs(options)).flatten();
    Ok(found.unwrap_or_else(|| Node {
        path: node_path(&options.dev_root, CM),
        number: None,
        abi_version: *ABI_VERSIONS.end(),
        source: Source::DevOnly,
    }))
}

fn by_sysfs(options: &Options) -> Option<Node> {
    let sysfs = Sysfs::at(&options.sysfs_root);
    let op = Op::OpenConnectionManager;
    let read = |folder: &[&str], file: &str| -> Option<String> {
        sysfs.text(op, &[folder, &[file]].concat()).ok()
    };
    let version = |folder: &&[&str]| read(folder, "abi_version")?.trim().parse().ok();
    let abi_version = CLASSES.iter().find_map(version)?;
    let number = read(CLASSES[0], "dev").and_then(|text| CharDevice::from_sysfs(&text));
    Some(Node {
        path: node_path(&options.dev_root, CM),
        number,
        abi_version,
        source: Source::Sysfs,
    })
}

fn explain(error: Error) -> Error {
    match error.errno() {
        Some(Errno::NOENT) => error.hint(
            "there is no connection manager: load its module (modprobe rdma_ucm), in a container \
             start it with --device=/dev/infiniband/rdma_cm",
        ),
        Some(Errno::PERM) => error.hint(
            "a device cgroup forbids it: start the container with --device=/dev/infiniband/rdma_cm",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_missing_or_forbidden_is_explained() {
        for (errno, words) in [
            (Errno::NOENT, "modprobe rdma_ucm"),
            (Errno::PERM, "device cgroup"),
            (Errno::ACCESS, ""),
        ] {
            let error = explain(Error::os(Op::OpenConnectionManager, errno));
            let hint = error.known_hint().unwrap_or_default();
            assert!(hint.contains(words), "{error}");
            assert_eq!(hint.is_empty(), words.is_empty(), "{error}");
        }
    }
}

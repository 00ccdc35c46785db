//! Devices of which only the nodes in `/dev/infiniband` are known.

use std::path::Path;

use super::{Access, CharDevice, DeviceInfo, Options, Source};
use crate::error::{Errno, Error, Op};
use crate::sys::open::{node_path, number_at};
use crate::sys::sysfs::list_directory;

/// All nodes called `uverbsN`.
pub(super) fn list(options: &Options) -> Vec<DeviceInfo> {
    let names = list_directory(&options.dev_root.join("infiniband")).unwrap_or_default();
    names
        .iter()
        .filter(|name| is_uverbs(name))
        .filter_map(|name| at(&node_path(&options.dev_root, name), name))
        .collect()
}

/// The node of this name.
pub(super) fn find(name: &str, options: &Options) -> Option<DeviceInfo> {
    if is_uverbs(name) {
        at(&node_path(&options.dev_root, name), name)
    } else {
        None
    }
}

/// The information about a device of which only the number is known.
pub(super) fn numbered(name: String, path: Option<&Path>, number: CharDevice) -> DeviceInfo {
    DeviceInfo {
        number: Some(number),
        path: path.map(Path::to_owned),
        ..DeviceInfo::named(name, Source::DevOnly)
    }
}

/// The node at a path; `None` if there is none or it is not a character device.
fn at(path: &Path, name: &str) -> Option<DeviceInfo> {
    let mut info = match number_at(path) {
        Ok(number) => numbered(name.to_owned(), Some(path), number?),
        Err(Errno::NOENT) => return None,
        Err(errno) => DeviceInfo {
            path: Some(path.to_owned()),
            access: Access::Refused(
                Error::os(Op::OpenDevice, errno).fact("path", path.display().to_string()),
            ),
            ..DeviceInfo::named(name.to_owned(), Source::DevOnly)
        },
    };
    info.uverbs = Some(name.to_owned());
    Some(info)
}

/// Whether a name has the kernel's form for verbs nodes.
pub(super) fn is_uverbs(name: &str) -> bool {
    let number = name.strip_prefix("uverbs").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

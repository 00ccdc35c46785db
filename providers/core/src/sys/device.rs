//! Distinguishes descriptors of verbs devices from all others.
//!
//! Another file may take a written command for data, and the untouched reply buffer would pass for
//! a reply: `/dev/null` accepts every write and answers nothing. So a descriptor that a user passes
//! in is checked before the first command.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_WRITE_CMD, UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_QUERY_DEVICE;

use super::open::CharDevice;
use super::sysfs::read_table;
use super::{Attr, Call, Command, Kernel, Uhw};
use crate::error::{Errno, Error, Op, Result};
use crate::types::DriverId;

/// The kernel's name for these devices: their class, and their numbers.
const CLASS: &str = "infiniband_verbs";

/// The numbers of the first 32 devices (`IB_UVERBS_BASE_DEV`); further devices have numbers from a
/// range that the kernel picks.
const FIXED: CharDevice = CharDevice {
    major: 231,
    minor: 192,
};
const FIXED_MINORS: u32 = 32;

/// The major number of miscellaneous devices, of which the connection manager is one.
const MISC_MAJOR: u32 = 10;

/// The name of the connection manager's device.
pub(crate) const CM: &str = "rdma_cm";

/// Refuses the number of anything but a verbs device.
///
/// No system call if it is one of the fixed numbers. Otherwise the kernel's table of device numbers
/// is read, and the device's class is looked up in sysfs: either is sufficient, as containers may
/// lack one.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the number.
pub(super) fn check_verbs_device(number: CharDevice) -> Result<()> {
    if is_fixed(number) || is_picked(number) || is_of_class(number) {
        return Ok(());
    }
    Err(Error::invalid(Op::OpenDevice, "the file")
        .fact("device_number", number.to_string())
        .fact("expected", "an InfiniBand verbs device"))
}

/// Refuses the number of anything but the connection manager.
///
/// Reads the kernel's table of miscellaneous devices, or looks up the device's name in sysfs:
/// either is sufficient.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the number.
pub(crate) fn check_cm_device(number: CharDevice) -> Result<()> {
    let listed = read_table("/proc/misc").is_ok_and(|table| has_minor(&table, number));
    if listed || is_called(number) {
        return Ok(());
    }
    Err(Error::invalid(Op::OpenDevice, "the file")
        .fact("device_number", number.to_string())
        .fact("expected", "the RDMA connection manager"))
}

/// Whether the table, `/proc/misc`, assigns this number to the connection manager.
fn has_minor(table: &str, number: CharDevice) -> bool {
    number.major == MISC_MAJOR && has_row(table, number.minor, CM)
}

/// Whether a table has a row with this number and this name.
fn has_row(table: &str, number: u32, name: &str) -> bool {
    table.lines().any(|row| {
        let mut words = row.split_ascii_whitespace();
        words.next().is_some_and(|word| word.parse() == Ok(number)) && words.next() == Some(name)
    })
}

fn is_called(number: CharDevice) -> bool {
    let device = PathBuf::from(format!("/sys/dev/char/{number}"));
    number.major == MISC_MAJOR
        && fs::read_link(device).is_ok_and(|path| path.file_name().is_some_and(|name| name == CM))
}

/// Refuses a verbs device that `driver` does not drive.
///
/// One system call. Kernels that cannot be asked (before 5.0) are assumed to have the right driver.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) (EINVAL): another driver does; any other errno
/// of the probing command.
///
/// # Safety
/// 1. As that of [`is_driver`].
#[expect(unsafe_code, reason = "forwards its safety contract")]
pub(super) unsafe fn check_driver(
    kernel: &dyn Kernel,
    fd: BorrowedFd<'_>,
    driver: DriverId,
) -> Result<()> {
    let op = Op::OpenDevice;
    // SAFETY: the caller's promise.
    match unsafe { is_driver(kernel, fd, driver) } {
        Ok(true) | Err(Errno::NOTTY | Errno::PROTONOSUPPORT) => Ok(()),
        Ok(false) => Err(Error::os(op, Errno::INVAL)
            .fact("driver", driver.to_string())
            .hint("the device has another driver")),
        Err(errno) => Err(Error::os(op, errno)),
    }
}

/// Whether `driver` is the driver of the device behind `fd`. One system call.
///
/// The kernel compares the driver id of a command before anything else (EINVAL). The command issued
/// here has no room for its reply, so with the right id it fails with ENOSPC, without any effect;
/// it needs no context.
///
/// # Errors
/// ENOTTY, EPROTONOSUPPORT: the kernel does not support the probe. Any other errno of the command.
///
/// # Safety
/// 1. `fd` is a device that `kernel` [takes calls on](Kernel::check_device).
#[expect(unsafe_code, reason = "forwards its safety contract")]
pub(crate) unsafe fn is_driver(
    kernel: &dyn Kernel,
    fd: BorrowedFd<'_>,
    driver: DriverId,
) -> Result<bool, Errno> {
    let attrs = [Attr::constant(
        UVERBS_ATTR_WRITE_CMD,
        IB_USER_VERBS_CMD_QUERY_DEVICE,
    )];
    let command = Command {
        object: UVERBS_OBJECT_DEVICE,
        method: UVERBS_METHOD_INVOKE_WRITE,
        driver_id: driver.raw(),
        attrs: &attrs,
        uhw: Uhw::NONE,
    };
    // SAFETY: (1) the caller's promise; (2, 3) the command names no memory and changes nothing.
    match unsafe { kernel.call(fd, Call::Ioctl(&command)) } {
        Err(Errno::NOSPC) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
        // It cannot have succeeded without room for the reply.
        Ok(_) => Err(Errno::PROTONOSUPPORT),
    }
}

fn is_fixed(number: CharDevice) -> bool {
    number.major == FIXED.major && (FIXED.minor..FIXED.minor + FIXED_MINORS).contains(&number.minor)
}

/// Whether the number is in a range that the kernel picked for verbs devices.
fn is_picked(number: CharDevice) -> bool {
    read_table("/proc/devices").is_ok_and(|table| has_range(&table, number.major))
}

/// Whether the table, `/proc/devices`, assigns all of `major` to these devices. Of the fixed major
/// number they have only a part.
fn has_range(table: &str, major: u32) -> bool {
    let end = table.bytes().zip(table.bytes().skip(1));
    let end = end.take_while(|pair| *pair != (b'\n', b'\n')).count();
    let characters = table.get(..end).unwrap_or(table);
    major != FIXED.major && has_row(characters, major, CLASS)
}

fn is_of_class(number: CharDevice) -> bool {
    let class = PathBuf::from(format!("/sys/dev/char/{number}/subsystem"));
    fs::read_link(class).is_ok_and(|class| class.file_name().is_some_and(|name| name == CLASS))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::error::ErrorKind;
    use crate::sys::open::number_of;

    const TABLE: &str = "Character devices:\n  1 mem\n231 infiniband_mad\n231 infiniband_verbs\n\
                         244 infiniband_verbs\n245 infiniband_verbs_not\n\nBlock devices:\n  7 loop\n243 infiniband_verbs\n";

    #[test]
    fn the_first_devices_are_known_by_their_numbers() {
        let is = |major, minor| is_fixed(CharDevice { major, minor });
        assert!(is(231, 192) && is(231, 223));
        // Others share the major number: management datagrams end before it, connection managers
        // come after.
        assert!(!is(231, 191) && !is(231, 224) && !is(1, 192));
    }

    #[test]
    fn others_are_known_by_the_kernels_table() {
        assert!(has_range(TABLE, 244));
        for other in [1, 7, 231, 243, 245, 500] {
            assert!(!has_range(TABLE, other), "{other}");
        }
        assert!(!has_range("", 244));
    }

    #[test]
    fn the_connection_manager_is_known_by_the_table_of_its_kind() {
        let table = "120 rdma_cm\n125 rdma_cm_not\n  1 psaux\n";
        let is = |major, minor| has_minor(table, CharDevice { major, minor });
        assert!(is(10, 120));
        assert!(!is(10, 125) && !is(10, 1) && !is(231, 120) && !is(10, 12));
        let null = CharDevice { major: 1, minor: 3 };
        let error = check_cm_device(null).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_user_defined_device_gets_no_queries() {
        let file = File::open("/dev/null").unwrap();
        let error = crate::sys::Linux
            .check_device(file.as_fd(), Some(FIXED), Some(DriverId::Rxe))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.errno(), None, "{error}");
    }

    #[test]
    fn files_that_accept_any_write_are_refused() {
        for path in ["/dev/null", "/dev/zero", "/proc/self/exe", "/"] {
            let file = File::open(path).unwrap();
            let error = number_of(&file).and_then(check_verbs_device).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path}: {error}");
        }
    }

    #[test]
    fn no_other_device_of_this_machine_is_taken_for_one_of_these() {
        let entries = fs::read_dir("/sys/dev/char")
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            let name = entry.file_name().into_string().unwrap();
            let number = CharDevice::from_sysfs(&name).unwrap();
            let of_class = fs::read_link(entry.path()).unwrap();
            let of_class = of_class.to_str().unwrap().contains("/infiniband");
            if !of_class {
                assert!(!is_called(number), "{number}");
                assert!(!is_of_class(number), "{number}");
                assert!(!is_picked(number), "{number}");
            }
        }
        let nobodys = CharDevice {
            major: MISC_MAJOR,
            minor: 0xf_fffe,
        };
        assert!(!is_called(nobodys) && !is_of_class(nobodys));
    }

    #[test]
    fn a_refusal_names_the_number_and_what_was_expected() {
        let zero = CharDevice { major: 1, minor: 5 };
        for (error, expected) in [
            (check_verbs_device(zero), "an InfiniBand verbs device"),
            (check_cm_device(zero), "the RDMA connection manager"),
        ] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let facts = format!("device_number 1:5, expected {expected}");
            assert!(error.to_string().contains(&facts), "{error}");
        }
        check_verbs_device(FIXED).unwrap();
        let file = File::open("/dev/null").unwrap();
        let refused = crate::sys::Linux.check_connection_manager(file.as_fd(), None);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        let shared = std::sync::Arc::new(crate::sys::Linux);
        let refused = shared.check_connection_manager(file.as_fd(), Some(zero));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        let refused = shared.check_device(file.as_fd(), None, None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        shared
            .check_device(file.as_fd(), Some(FIXED), None)
            .unwrap();
    }
}

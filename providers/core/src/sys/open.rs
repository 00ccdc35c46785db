//! Opens the character device of a verbs device, and explains why if it cannot be opened.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, major, makedev, minor, open, stat};

use crate::error::{Errno, Error, ErrorKind, Op, Result};

/// The number of a character device, by which the kernel identifies it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CharDevice {
    /// The driver's number: 231 for verbs devices, or a dynamic one.
    pub major: u32,
    /// The device's number within that range.
    pub minor: u32,
}

impl CharDevice {
    /// From the 64 bits of netlink (`huge_encode_dev` of `include/linux/kdev_t.h`).
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel fills the lower 32 bits only"
    )]
    pub const fn from_netlink(encoded: u64) -> Self {
        let encoded = encoded as u32;
        Self {
            major: (encoded & 0x000f_ff00) >> 8,
            minor: (encoded & 0xff) | ((encoded >> 12) & 0x000f_ff00),
        }
    }

    /// The device behind a descriptor. One system call.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if it is not a character device.
    pub fn behind(fd: impl AsFd) -> Result<Self> {
        number_of(fd)
    }

    /// From `st_rdev`.
    pub fn from_rdev(rdev: u64) -> Self {
        Self {
            major: major(rdev),
            minor: minor(rdev),
        }
    }

    /// In the encoding of `st_rdev`.
    pub fn to_rdev(self) -> u64 {
        makedev(self.major, self.minor)
    }

    /// From sysfs, `231:192`.
    pub fn from_sysfs(text: &str) -> Option<Self> {
        let (major, minor) = text.trim_end().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for CharDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Opens `path` for commands and checks that it is a character device, and the `expected` one.
///
/// If the node is missing or is another device, `<dev_root>/char/MAJOR:MINOR` is tried. Two system
/// calls on success; it does not wait for a node to appear.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] (EACCES: the node's mode; EPERM: a device cgroup or another
/// network namespace), [`ErrorKind::NotFound`] (ENOENT: no node; ENXIO, ENODEV: no device behind
/// it), [`ErrorKind::InvalidInput`] for a file that is not a character device, or not the expected
/// one; EMFILE, ENFILE. (EAGAIN from the rdma cgroup can only come later, with the context.)
pub(crate) fn open_node(
    path: &Path,
    expected: Option<CharDevice>,
    dev_root: &Path,
) -> Result<(OwnedFd, CharDevice)> {
    open_node_with(path, expected, dev_root, true)
}

/// As [`open_node`]; says whether commands of the descriptor may block.
///
/// # Errors
/// As there.
pub(crate) fn open_node_with(
    path: &Path,
    expected: Option<CharDevice>,
    dev_root: &Path,
    blocks: bool,
) -> Result<(OwnedFd, CharDevice)> {
    let more = if blocks {
        OFlags::empty()
    } else {
        OFlags::NONBLOCK
    };
    let error = match open_checked(path, expected, more) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    let another_way =
        expected.filter(|_| matches!(error.errno(), None | Some(Errno::NOENT | Errno::NXIO)));
    if let Some(number) = another_way {
        let by_number = dev_root.join("char").join(number.to_string());
        match open_checked(&by_number, expected, more) {
            Ok(opened) => return Ok(opened),
            Err(other) if other.errno() == Some(Errno::NOENT) => {}
            Err(other) => return Err(other),
        }
    }
    Err(error)
}

fn open_checked(
    path: &Path,
    expected: Option<CharDevice>,
    more: OFlags,
) -> Result<(OwnedFd, CharDevice)> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | more;
    let fd = open(path, flags, Mode::empty()).map_err(|errno| refused(path, errno))?;
    let number = number_of(&fd).map_err(|error| error.fact("path", path.display().to_string()))?;
    match expected {
        Some(expected) if expected != number => {
            Err(Error::new(Op::OpenDevice, ErrorKind::InvalidInput)
                .fact("path", path.display().to_string())
                .fact("device_number", number.to_string())
                .fact("expected", expected.to_string())
                .hint("the node is stale: it belongs to a device that is gone"))
        }
        _ => Ok((fd, number)),
    }
}

/// The device behind a descriptor; used to check a descriptor that the user passes in. One system
/// call.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it is not a character device.
pub(crate) fn number_of(fd: impl AsFd) -> Result<CharDevice> {
    let stat = fstat(fd).map_err(|errno| Error::os(Op::OpenDevice, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice {
        return Err(Error::invalid(Op::OpenDevice, "the file")
            .fact(
                "file_type",
                format!("{:?}", FileType::from_raw_mode(stat.st_mode)),
            )
            .fact("expected", "a character device"));
    }
    Ok(CharDevice::from_rdev(stat.st_rdev))
}

/// The device that a node refers to, without opening it. One system call.
pub(crate) fn number_at(path: &Path) -> Result<Option<CharDevice>, Errno> {
    let stat = stat(path)?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    Ok(is_device.then(|| CharDevice::from_rdev(stat.st_rdev)))
}

/// The path of a verbs device's node.
pub(crate) fn node_path(dev_root: &Path, uverbs: &str) -> PathBuf {
    dev_root.join("infiniband").join(uverbs)
}

fn refused(path: &Path, errno: Errno) -> Error {
    let error = Error::os(Op::OpenDevice, errno).fact("path", path.display().to_string());
    match errno {
        Errno::NOENT => error.hint(
            "there is no device node: in a container start it with --device=/dev/infiniband/uverbs0, \
             else load the module (modprobe ib_uverbs)",
        ),
        Errno::ACCESS => error.hint(
            "the mode of the device node forbids it: join its group (`ls -l /dev/infiniband`), or open it to \
             everyone, as root: echo 'KERNEL==\"uverbs*\", MODE=\"0666\"' > \
             /etc/udev/rules.d/90-rdma.rules && udevadm control --reload && \
             udevadm trigger -s infiniband_verbs",
        ),
        Errno::PERM => error.hint(
            "a device cgroup forbids it (start the container with --device=/dev/infiniband/uverbs0), \
             or the device belongs to another network namespace (see `rdma system`)",
        ),
        Errno::NXIO | Errno::NODEV => error.hint("the node is left over from a device that is gone"),
        Errno::MFILE => error.hint("raise the limit of open files (ulimit -n)"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const NULL: CharDevice = CharDevice { major: 1, minor: 3 };
    const ZERO: CharDevice = CharDevice { major: 1, minor: 5 };

    #[test]
    fn numbers_have_three_encodings() {
        let number = CharDevice {
            major: 231,
            minor: 192,
        };
        assert_eq!(CharDevice::from_netlink(0xe7c0), number);
        assert_eq!(CharDevice::from_rdev(number.to_rdev()), number);
        assert_eq!(CharDevice::from_sysfs("231:192\n"), Some(number));
        assert_eq!(number.to_string(), "231:192");
        // new_encode_dev: minor 0x12345, major 0x1ab.
        let big = CharDevice {
            major: 0x1ab,
            minor: 0x12345,
        };
        assert_eq!(CharDevice::from_netlink(0x1231_ab45), big);
        for bad in [
            "",
            "231",
            "231:",
            ":1",
            "a:b",
            "1:2:3",
            "-1:2",
            "99999999999:0",
        ] {
            assert_eq!(CharDevice::from_sysfs(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_right_device_opens() {
        let (fd, number) =
            open_node(Path::new("/dev/null"), Some(NULL), Path::new("/dev")).unwrap();
        assert_eq!((number, number_of(&fd).unwrap()), (NULL, NULL));
        assert_eq!(number_at(Path::new("/dev/zero")), Ok(Some(ZERO)));
        assert_eq!(number_at(Path::new("/")), Ok(None));
    }

    #[test]
    fn another_device_is_refused() {
        let error = open_node(
            Path::new("/dev/zero"),
            Some(NULL),
            Path::new("/nonexistent"),
        )
        .unwrap_err();
        assert_eq!(
            (error.kind(), error.errno()),
            (ErrorKind::InvalidInput, None)
        );
        assert!(
            error
                .to_string()
                .contains("device_number 1:5, expected 1:3"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_or_stale_node_is_found_by_number() {
        let root = std::env::temp_dir().join(format!("uverbs-open-{}", std::process::id()));
        std::fs::create_dir_all(root.join("char")).unwrap();
        std::os::unix::fs::symlink("/dev/null", root.join("char/1:3")).unwrap();
        for node in ["/nonexistent/uverbs0", "/dev/zero"] {
            assert_eq!(
                open_node(Path::new(node), Some(NULL), &root).unwrap().1,
                NULL
            );
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_missing_node_says_what_to_type() {
        let error =
            open_node(Path::new("/nonexistent/uverbs0"), None, Path::new("/dev")).unwrap_err();
        assert_eq!(
            (error.kind(), error.errno()),
            (ErrorKind::NotFound, Some(Errno::NOENT))
        );
        assert!(error.known_hint().unwrap().contains("--device="));
    }

    #[test]
    fn files_that_are_no_devices_are_refused() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = number_of(&reader).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("Fifo"), "{error}");
    }

    #[test]
    fn a_refusal_to_open_says_what_to_do() {
        for (errno, kind, hint) in [
            (Errno::NOENT, ErrorKind::NotFound, "modprobe ib_uverbs"),
            (Errno::ACCESS, ErrorKind::PermissionDenied, "udevadm"),
            (Errno::PERM, ErrorKind::PermissionDenied, "device cgroup"),
            (Errno::NXIO, ErrorKind::NotFound, "left over"),
            (Errno::NODEV, ErrorKind::NotFound, "left over"),
            (Errno::MFILE, ErrorKind::OutOfResources, "ulimit -n"),
        ] {
            let error = refused(Path::new("/dev/infiniband/uverbs7"), errno);
            assert_eq!((error.errno(), error.kind()), (Some(errno), kind));
            assert!(error.known_hint().unwrap().contains(hint), "{error}");
            assert!(error.to_string().contains("path /dev/infiniband/uverbs7"));
        }
        assert_eq!(refused(Path::new("/"), Errno::ISDIR).known_hint(), None);
    }

    #[test]
    fn a_device_is_opened_for_reading_and_writing_and_not_for_children() {
        use rustix::fs::fcntl_getfl;
        use rustix::io::{FdFlags, fcntl_getfd};
        let (fd, _) = open_node(Path::new("/dev/null"), None, Path::new("/dev")).unwrap();
        let flags = fcntl_getfl(&fd).unwrap();
        assert!(flags.contains(OFlags::RDWR), "{flags:?}");
        assert_eq!(fcntl_getfd(&fd), Ok(FdFlags::CLOEXEC));
    }

    #[test]
    fn a_file_is_named_that_is_no_device() {
        let program = Path::new("/proc/self/exe");
        let error = open_checked(Path::new("/proc/self/comm"), None, OFlags::empty()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(
            error.to_string().contains("path /proc/self/comm"),
            "{error}"
        );
        assert!(error.to_string().contains("RegularFile"), "{error}");
        assert_eq!(number_at(program), Ok(None));
        assert_eq!(number_at(Path::new("/nonexistent")), Err(Errno::NOENT));
        let node = node_path(Path::new("/dev"), "uverbs3");
        assert_eq!(node, Path::new("/dev/infiniband/uverbs3"));
    }
}

//! Which kernel the fake is.

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_METHOD_GET_CONTEXT, UVERBS_METHOD_INVOKE_WRITE, UVERBS_METHOD_QUERY_CONTEXT,
    UVERBS_METHOD_QUERY_GID_ENTRY, UVERBS_METHOD_QUERY_GID_TABLE, UVERBS_METHOD_QUERY_MR,
    UVERBS_METHOD_QUERY_PORT_SPEED, UVERBS_METHOD_REG_MR, UVERBS_OBJECT_ASYNC_EVENT,
    UVERBS_OBJECT_CQ, UVERBS_OBJECT_DEVICE, UVERBS_OBJECT_MR, UVERBS_OBJECT_QP, UVERBS_OBJECT_SRQ,
};

/// A kernel, by what its uverbs core and its rxe driver can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    version: (u8, u8),
    ioctl: bool,
    invoke_write: bool,
    write: bool,
}

impl Profile {
    const fn new(major: u8, minor: u8) -> Self {
        Self {
            version: (major, minor),
            ioctl: true,
            invoke_write: true,
            write: true,
        }
    }

    /// Linux 4.9: no ioctl interface at all.
    pub const fn v4_9() -> Self {
        Self {
            ioctl: false,
            invoke_write: false,
            ..Self::new(4, 9)
        }
    }

    /// Linux 4.20: some ioctl methods, no `INVOKE_WRITE`, queue pairs by `write(2)` only.
    pub const fn v4_20() -> Self {
        Self {
            invoke_write: false,
            ..Self::new(4, 20)
        }
    }

    /// Linux 5.10.
    pub const fn v5_10() -> Self {
        Self::new(5, 10)
    }

    /// Linux 6.1.
    pub const fn v6_1() -> Self {
        Self::new(6, 1)
    }

    /// Linux 6.12.
    pub const fn v6_12() -> Self {
        Self::new(6, 12)
    }

    /// Linux 7.2.
    pub const fn v7_2() -> Self {
        Self::new(7, 2)
    }

    /// Every kernel there is a profile of, oldest first.
    pub const ALL: [Self; 6] = [
        Self::v4_9(),
        Self::v4_20(),
        Self::v5_10(),
        Self::v6_1(),
        Self::v6_12(),
        Self::v7_2(),
    ];

    /// The same kernel answering ENOTTY to the ioctl.
    #[must_use]
    pub const fn without_ioctl(self) -> Self {
        Self {
            ioctl: false,
            invoke_write: false,
            ..self
        }
    }

    /// The same kernel without `INVOKE_WRITE`.
    #[must_use]
    pub const fn without_invoke_write(self) -> Self {
        Self {
            invoke_write: false,
            ..self
        }
    }

    /// The same kernel refusing every `write(2)` (EACCES), as it does after `setuid`.
    #[must_use]
    pub const fn without_write(self) -> Self {
        Self {
            write: false,
            ..self
        }
    }

    /// Major and minor version.
    pub const fn version(self) -> (u8, u8) {
        self.version
    }

    /// True when the kernel has the ioctl interface.
    pub const fn has_ioctl(self) -> bool {
        self.ioctl
    }

    /// True when legacy commands can travel through the ioctl interface.
    pub const fn has_invoke_write(self) -> bool {
        self.ioctl && self.invoke_write
    }

    /// True when `write(2)` is allowed.
    pub const fn has_write(self) -> bool {
        self.write
    }

    pub(super) const fn is_at_least(self, major: u8, minor: u8) -> bool {
        self.version.0 > major || (self.version.0 == major && self.version.1 >= minor)
    }

    /// True when the kernel has the ioctl method, whatever the driver does with it.
    pub fn has_method(self, object: u16, method: u16) -> bool {
        if !self.ioctl {
            return false;
        }
        let (major, minor) = match (object, method) {
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) => return self.invoke_write,
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) | (UVERBS_OBJECT_ASYNC_EVENT, _) => {
                (5, 6)
            }
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT)
            | (UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR) => (5, 9),
            (
                UVERBS_OBJECT_DEVICE,
                UVERBS_METHOD_QUERY_GID_TABLE | UVERBS_METHOD_QUERY_GID_ENTRY,
            ) => (5, 10),
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT_SPEED) => (7, 0),
            (UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR) => (6, 17),
            (UVERBS_OBJECT_QP | UVERBS_OBJECT_SRQ, _) => (5, 8),
            (UVERBS_OBJECT_CQ, _) => (4, 19),
            _ => (5, 0),
        };
        self.is_at_least(major, minor)
    }

    /// The rxe driver of the kernel can flush and write atomically (6.3).
    pub(super) const fn has_flush(self) -> bool {
        self.is_at_least(6, 3)
    }

    /// The rxe driver of the kernel re-registers memory (6.4).
    pub(super) const fn has_rereg(self) -> bool {
        self.is_at_least(6, 4)
    }

    /// The longest message, in bytes.
    pub(super) const fn max_message(self) -> u32 {
        if self.is_at_least(6, 12) {
            1 << 31
        } else {
            0x0080_0000
        }
    }
}

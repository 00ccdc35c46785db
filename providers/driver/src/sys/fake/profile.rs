//! Which kernel the fake is.

use super::feature::Feature;

/// A kernel, by what its uverbs core and its rxe driver can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each switch stands alone")]
pub struct Profile {
    version: (u8, u8),
    ioctl: bool,
    invoke_write: bool,
    write: bool,
    cq_methods: bool,
}

/// A kernel of each version, by its name.
macro_rules! versions {
    ($($name:ident is ($major:literal, $minor:literal),)+) => {
        impl Profile {
            $(
                #[doc = concat!("Linux ", $major, ".", $minor, ".")]
                pub const fn $name() -> Self {
                    Self::of($major, $minor)
                }
            )+

            /// Every kernel there is a profile of, oldest first.
            pub const ALL: &[Self] = &[$(Self::$name()),+];
        }
    };
}

versions! {
    v4_9 is (4, 9),
    v4_18 is (4, 18),
    v4_20 is (4, 20),
    v5_4 is (5, 4),
    v5_10 is (5, 10),
    v5_14 is (5, 14),
    v5_15 is (5, 15),
    v6_1 is (6, 1),
    v6_8 is (6, 8),
    v6_12 is (6, 12),
    v7_2 is (7, 2),
}

impl Profile {
    const fn of(major: u8, minor: u8) -> Self {
        let bare = Self {
            version: (major, minor),
            ioctl: false,
            invoke_write: false,
            write: true,
            cq_methods: false,
        };
        Self {
            ioctl: bare.is_since(Feature::Ioctl),
            invoke_write: bare.is_since(Feature::InvokeWrite),
            cq_methods: bare.is_since(Feature::CqMethods),
            ..bare
        }
    }

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

    /// The same kernel, built with `CONFIG_INFINIBAND_EXP_LEGACY_VERBS_NEW_UAPI`: up to 5.8 it takes that to have
    /// completion queues by methods.
    #[must_use]
    pub const fn with_cq_methods(self) -> Self {
        Self {
            cq_methods: true,
            ..self
        }
    }

    /// Major and minor version.
    pub const fn version(self) -> (u8, u8) {
        self.version
    }

    /// True when the kernel has it.
    pub const fn has(self, feature: Feature) -> bool {
        match feature {
            Feature::Ioctl => self.ioctl,
            Feature::InvokeWrite => self.ioctl && self.invoke_write,
            Feature::CqMethods => self.ioctl && self.cq_methods,
            feature => self.is_since(feature),
        }
    }

    /// True when the kernel has the ioctl method, whatever the driver does with it.
    pub const fn has_method(self, object: u16, method: u16) -> bool {
        self.ioctl && self.has(Feature::of_method(object, method))
    }

    /// True when `write(2)` is allowed.
    pub const fn has_write(self) -> bool {
        self.write
    }

    const fn is_since(self, feature: Feature) -> bool {
        let ((major, minor), version) = (feature.since(), self.version);
        version.0 > major || (version.0 == major && version.1 >= minor)
    }
}

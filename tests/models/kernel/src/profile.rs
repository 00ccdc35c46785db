//! The kernel that the fake imitates.

use crate::feature::Feature;

/// A kernel, described by the features of its uverbs core and its rxe driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    version: (u8, u8),
    /// Features that it has although its version does not, one bit each.
    added: u32,
    /// Features that it lacks although its version has them, one bit each.
    removed: u32,
    write: bool,
}

/// Defines a function per kernel version.
macro_rules! versions {
    ($($name:ident is ($major:literal, $minor:literal),)+) => {
        impl Profile {
            $(
                #[doc = concat!("Linux ", $major, ".", $minor, ".")]
                pub const fn $name() -> Self {
                    Self::of($major, $minor)
                }
            )+

            /// All profiles, oldest first.
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
    /// Linux of this version, with the features that it has. Those in [`ALL`](Self::ALL) were
    /// checked against the sources.
    pub const fn of(major: u8, minor: u8) -> Self {
        Self {
            version: (major, minor),
            added: 0,
            removed: 0,
            write: true,
        }
    }

    /// The same kernel with a feature that its version may not have: distributions backport
    /// features to older kernels.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        let bit = if self.is_since(feature) {
            0
        } else {
            feature.bit()
        };
        Self {
            added: self.added | bit,
            removed: self.removed & !feature.bit(),
            ..self
        }
    }

    /// The same kernel without a feature.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        let bit = if self.is_since(feature) {
            feature.bit()
        } else {
            0
        };
        Self {
            added: self.added & !feature.bit(),
            removed: self.removed | bit,
            ..self
        }
    }

    /// The same kernel answering ENOTTY to the ioctl.
    #[must_use]
    pub const fn without_ioctl(self) -> Self {
        self.without(Feature::Ioctl)
    }

    /// The same kernel without `INVOKE_WRITE`.
    #[must_use]
    pub const fn without_invoke_write(self) -> Self {
        self.without(Feature::InvokeWrite)
    }

    /// The same kernel refusing every `write(2)` (EACCES), as it does after `setuid`.
    #[must_use]
    pub const fn without_write(self) -> Self {
        Self {
            write: false,
            ..self
        }
    }

    /// The same kernel, built with `CONFIG_INFINIBAND_EXP_LEGACY_VERBS_NEW_UAPI`: up to 5.8
    /// completion queue methods require that.
    #[must_use]
    pub const fn with_cq_methods(self) -> Self {
        self.with(Feature::CqMethods)
    }

    /// Major and minor version.
    pub const fn version(self) -> (u8, u8) {
        self.version
    }

    /// True if the kernel has the feature.
    pub const fn has(self, feature: Feature) -> bool {
        if matches!(feature, Feature::InvokeWrite | Feature::CqMethods) && !self.has(Feature::Ioctl)
        {
            return false;
        }
        let bit = feature.bit();
        (self.is_since(feature) && self.removed & bit == 0) || self.added & bit != 0
    }

    /// True if the kernel has the ioctl method, whether or not the driver supports it.
    pub const fn has_method(self, object: u16, method: u16) -> bool {
        self.has(Feature::Ioctl) && self.has(Feature::of_method(object, method))
    }

    /// True if `write(2)` is allowed.
    pub const fn has_write(self) -> bool {
        self.write
    }

    const fn is_since(self, feature: Feature) -> bool {
        let ((major, minor), version) = (feature.since(), self.version);
        version.0 > major || (version.0 == major && version.1 >= minor)
    }
}

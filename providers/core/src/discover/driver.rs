//! Determines a device's driver if the kernel does not report it.

use crate::types::DriverId;

/// The driver of a device, and how it was determined.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum DriverMatch {
    /// Reported by the kernel.
    Kernel(DriverId),
    /// Derived from the hardware's PCI ids.
    Modalias(DriverId),
    /// Guessed from the name, or the sysfs files, that this driver gives its devices. Devices can
    /// be renamed.
    Name(DriverId),
    /// Unknown.
    #[default]
    Unknown,
}

/// PCI vendor and device ids of drivers that are recognised by them.
const PCI: &[(u16, &[u16], DriverId)] = &[(
    0x15b3,
    &[
        0x1011, 0x1012, 0x1013, 0x1014, 0x1015, 0x1016, 0x1017, 0x1018, 0x1019, 0x101a, 0x101b,
        0x101c, 0x101d, 0x101e, 0x101f, 0x1021, 0x1023, 0x1025, 0x1027, 0x2101, 0xa2d2, 0xa2d3,
        0xa2d6, 0xa2dc, 0xa2df,
    ],
    DriverId::Mlx5,
)];

/// The names of drivers' devices, without the number that follows.
const NAMES: &[(&str, DriverId)] = &[
    ("bnxt_re", DriverId::BnxtRe),
    ("cxgb4_", DriverId::Cxgb4),
    ("efa_", DriverId::Efa),
    ("erdma_", DriverId::Erdma),
    ("hfi1_", DriverId::Hfi1),
    ("hns_", DriverId::Hns),
    ("ionic_", DriverId::Ionic),
    ("irdma", DriverId::Irdma),
    ("mana_", DriverId::Mana),
    ("mlx4_", DriverId::Mlx4),
    ("mlx5_", DriverId::Mlx5),
    ("mthca", DriverId::Mthca),
    ("ocrdma", DriverId::Ocrdma),
    ("qedr", DriverId::Qedr),
    ("qib", DriverId::Qib),
    ("rxe", DriverId::Rxe),
    ("siw", DriverId::Siw),
    ("usnic_", DriverId::UsNic),
    ("vmw_pvrdma", DriverId::Pvrdma),
];

impl DriverMatch {
    /// The driver, if it is known.
    pub const fn driver_id(self) -> Option<DriverId> {
        match self {
            Self::Kernel(id) | Self::Modalias(id) | Self::Name(id) => Some(id),
            Self::Unknown => None,
        }
    }

    /// Determines the driver from the `modalias` of its PCI device, `pci:v000015B3d00001017sv…`.
    pub fn from_modalias(modalias: &str) -> Self {
        let Some((vendor, device)) = pci_numbers(modalias) else {
            return Self::Unknown;
        };
        PCI.iter()
            .find(|(of, devices, _)| {
                u32::from(*of) == vendor && devices.iter().any(|id| u32::from(*id) == device)
            })
            .map_or(Self::Unknown, |(_, _, driver)| Self::Modalias(*driver))
    }

    /// Determines the driver from the device's name, a prefix and a number.
    pub fn from_name(name: &str) -> Self {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        if stem.len() == name.len() {
            return Self::Unknown;
        }
        NAMES
            .iter()
            .find(|(prefix, _)| *prefix == stem || *prefix == stem.trim_end_matches('_'))
            .map_or(Self::Unknown, |(_, driver)| Self::Name(*driver))
    }

    /// This, or `other` if this is [`Unknown`](Self::Unknown).
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::Unknown { other() } else { self }
    }
}

fn pci_numbers(modalias: &str) -> Option<(u32, u32)> {
    let (vendor, rest) = modalias.strip_prefix("pci:v")?.split_at_checked(8)?;
    let device = rest.strip_prefix('d')?.get(..8)?;
    Some((
        u32::from_str_radix(vendor, 16).ok()?,
        u32::from_str_radix(device, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mlx5_is_known_by_its_pci_ids() {
        let modalias =
            |device: &str| format!("pci:v000015B3d0000{device}sv000015B3sd00000001bc02sc00i00");
        for device in ["1013", "101F", "A2DC", "a2df"] {
            assert_eq!(
                DriverMatch::from_modalias(&modalias(device)),
                DriverMatch::Modalias(DriverId::Mlx5)
            );
        }
        for other in [
            modalias("1003"),
            modalias("A2D1"),
            "pci:v00008086d00001013sv".into(),
        ] {
            assert_eq!(DriverMatch::from_modalias(&other), DriverMatch::Unknown);
        }
        for bad in [
            "",
            "pci:",
            "pci:v",
            "pci:v000015B3",
            "pci:v000015B3d",
            "pci:vé00015B3d00001013",
            "virtio:d1v2",
        ] {
            assert_eq!(
                DriverMatch::from_modalias(bad),
                DriverMatch::Unknown,
                "{bad}"
            );
        }
    }

    #[test]
    fn drivers_are_known_by_name() {
        for (name, driver) in [
            ("rxe0", DriverId::Rxe),
            ("rxe_12", DriverId::Rxe),
            ("mlx5_0", DriverId::Mlx5),
            ("siw0", DriverId::Siw),
            ("bnxt_re3", DriverId::BnxtRe),
        ] {
            assert_eq!(
                DriverMatch::from_name(name),
                DriverMatch::Name(driver),
                "{name}"
            );
        }
        for name in [
            "",
            "rxe",
            "rocep1s0f0",
            "ibp3s0",
            "mlx50",
            "uverbs0",
            "rxe0f",
        ] {
            assert_eq!(DriverMatch::from_name(name), DriverMatch::Unknown, "{name}");
        }
    }
}

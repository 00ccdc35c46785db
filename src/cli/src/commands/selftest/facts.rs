//! What a reader of the file must know about the device and the machine. No addresses, no GUIDs, no
//! host names.

use std::fs;
use std::path::Path;
use std::thread;

use serde::Serialize;
use uverbs::Context;
use uverbs::discover::sysfs::Sysfs;

use crate::commands::info;

#[derive(Debug, Serialize)]
pub(super) struct Facts {
    pub(super) kernel: Option<String>,
    pub(super) distribution: Option<String>,
    pub(super) machine: &'static str,
    pub(super) processor: Option<String>,
    pub(super) processors: Option<usize>,
    pub(super) page_bytes: Option<u64>,
    /// The IOMMUs that translate the device's memory accesses.
    pub(super) iommu: Vec<String>,
    pub(super) driver: Option<String>,
    /// The version of a driver that did not come with the kernel.
    pub(super) driver_version: Option<String>,
    pub(super) abi_version: Option<u32>,
    pub(super) firmware: String,
    pub(super) board_id: Option<String>,
    pub(super) vendor_id: u32,
    pub(super) vendor_part_id: u32,
    pub(super) hardware_version: u32,
    pub(super) pci: Option<Pci>,
    pub(super) completion_vectors: u32,
    pub(super) atomics: String,
    pub(super) capabilities: String,
    pub(super) on_demand_paging: String,
    pub(super) limits: Vec<info::Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mlx5: Option<info::Mlx5Report>,
}

/// How the device is attached to the machine.
#[derive(Debug, Serialize)]
pub(super) struct Pci {
    /// Vendor, device, subsystem vendor and device, revision.
    pub(super) id: String,
    /// Whether it is a virtual function of a device that the host shares.
    pub(super) virtual_function: bool,
    pub(super) link: Option<String>,
    pub(super) numa_node: Option<String>,
}

impl Facts {
    pub(super) fn of(context: &Context) -> Self {
        let info = context.info();
        let attr = context.device_attr();
        let sysfs = Sysfs::new();
        let device = Path::new("/sys/class/infiniband")
            .join(&info.name)
            .join("device");
        let driver = info.driver_id().map(|driver| driver.to_string());
        Self {
            kernel: text("/proc/sys/kernel/osrelease"),
            distribution: text("/etc/os-release").and_then(|text| pretty_name(&text)),
            machine: std::env::consts::ARCH,
            processor: text("/proc/cpuinfo").and_then(|text| processor(&text)),
            processors: thread::available_parallelism().ok().map(usize::from),
            page_bytes: fs::read("/proc/self/auxv")
                .ok()
                .and_then(|auxv| page_size(&auxv)),
            iommu: names("/sys/class/iommu"),
            driver_version: driver.as_ref().and_then(|driver| {
                text(format!("/sys/module/{driver}_ib/version"))
                    .or_else(|| text(format!("/sys/module/{driver}_core/version")))
            }),
            driver,
            abi_version: info.abi_version,
            firmware: context.firmware_version(),
            board_id: sysfs.board_id(&info.name).ok().flatten(),
            vendor_id: attr.vendor_id,
            vendor_part_id: attr.vendor_part_id,
            hardware_version: attr.hw_ver,
            pci: Pci::at(&device),
            completion_vectors: context.completion_vectors(),
            atomics: attr.atomic_cap.to_string(),
            capabilities: attr.caps.to_string(),
            on_demand_paging: attr.odp.general.to_string(),
            limits: info::limits(attr),
            mlx5: info::Mlx5Report::of(context),
        }
    }
}

impl Pci {
    /// `None` for a device that is not on a bus, such as rxe.
    fn at(folder: &Path) -> Option<Self> {
        let word = |name: &str| text(folder.join(name));
        let id = [
            "vendor",
            "device",
            "subsystem_vendor",
            "subsystem_device",
            "revision",
        ];
        let id: Option<Vec<String>> = id.iter().map(|name| word(name)).collect();
        let link = word("current_link_speed").zip(word("current_link_width"));
        Some(Self {
            id: id?.join(" "),
            virtual_function: folder.join("physfn").exists(),
            link: link.map(|(speed, width)| format!("{speed} x{width}")),
            numa_node: word("numa_node"),
        })
    }
}

/// A file's text without its trailing newline; `None` if there is none.
fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn pretty_name(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

/// x86 calls it `model name`; aarch64 has only numbers.
fn processor(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| {
        let (implementer, part) = value("CPU implementer").zip(value("CPU part"))?;
        Some(format!("implementer {implementer} part {part}"))
    })
}

/// The value of `AT_PAGESZ` in the auxiliary vector that the kernel gives a program.
fn page_size(auxv: &[u8]) -> Option<u64> {
    const AT_PAGESZ: u64 = 6;
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_ne_bytes);
    auxv.chunks_exact(16).find_map(|pair| {
        let (key, value) = pair.split_at(8);
        (word(key)? == AT_PAGESZ).then(|| word(value)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_on_either_kind_of_machine() {
        let x86 = "processor\t: 0\nmodel name\t: A processor\n";
        assert_eq!(processor(x86).as_deref(), Some("A processor"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(
            processor(arm).as_deref(),
            Some("implementer 0x41 part 0xd0c")
        );
        assert_eq!(processor(""), None);
    }

    #[test]
    fn the_size_of_a_page_is_among_the_words() {
        let words: Vec<u8> = [3_u64, 1, 6, 4096, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(page_size(&words), Some(4096));
        assert_eq!(page_size(&words[..16]), None);
    }

    #[test]
    fn a_distribution_has_a_name() {
        let text = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n";
        assert_eq!(pretty_name(text).as_deref(), Some("Debian GNU/Linux 13"));
        assert_eq!(pretty_name("ID=x\n"), None);
    }
}

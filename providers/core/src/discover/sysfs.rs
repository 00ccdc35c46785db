//! Device information from sysfs: port tables, counters, texts.
//!
//! It is the fallback where the kernel lacks a command (GID tables before Linux 5.10), and the only
//! source of partition keys (there is no verbs command for them), of counters as files, and of
//! board names. Each read takes three system calls.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use super::netlink::Counter;
use crate::discover::netlink::is_file_name;
use crate::error::{Errno, Error, Op, Result};
use crate::sys::sysfs::{list_directory, read_attribute};
use crate::types::{Gid, GidEntry, GidType, LinkLayer};

/// Reads files below a mounted sysfs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::new()
    }
}

impl Sysfs {
    /// Sysfs at `/sys`.
    pub fn new() -> Self {
        Self::at("/sys")
    }

    /// Sysfs at `root`.
    pub fn at(root: impl AsRef<Path>) -> Self {
        Self {
            root: root.as_ref().to_owned(),
        }
    }

    /// `ibv_query_pkey`—an entry of a port's partition key table, in host byte order. 0 is an empty
    /// entry.
    ///
    /// # Errors
    /// ENOENT if there is no such device, port or entry.
    #[doc(alias = "ibv_query_pkey")]
    pub fn pkey(&self, device: &str, port: u32, index: u32) -> Result<u16> {
        let op = Op::QueryPkey;
        let (port, index) = (port.to_string(), index.to_string());
        let text = self.device_text(op, device, &["ports", &port, "pkeys", &index])?;
        let digits = text.trim().trim_start_matches("0x");
        u16::from_str_radix(digits, 16).map_err(|_| unreadable(op, &text))
    }

    /// A port's partition keys, by index.
    ///
    /// # Errors
    /// As [`pkey`](Self::pkey).
    pub fn pkeys(&self, device: &str, port: u32) -> Result<Vec<u16>> {
        let count = self.indexes(Op::QueryPkey, device, port, "pkeys")?.len();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        (0..count)
            .map(|index| self.pkey(device, port, index))
            .collect()
    }

    /// `ibv_query_gid`—an entry of a port's GID table. [`Gid::ZERO`] is an empty entry.
    ///
    /// # Errors
    /// ENOENT if there is no such device, port or entry.
    #[doc(alias = "ibv_query_gid")]
    pub fn gid(&self, device: &str, port: u32, index: u32) -> Result<Gid> {
        let op = Op::QueryGid;
        let (port, index) = (port.to_string(), index.to_string());
        let text = self.device_text(op, device, &["ports", &port, "gids", &index])?;
        gid(&text).ok_or_else(|| unreadable(op, &text))
    }

    /// How packets sent from a GID are framed.
    ///
    /// # Errors
    /// EINVAL for an empty entry, ENOENT if there is no such device, port or entry.
    pub fn gid_type(&self, device: &str, port: u32, index: u32) -> Result<GidType> {
        let link = self.link_layer(device, port)?;
        self.gid_type_on(device, port, index, link)
    }

    fn gid_type_on(&self, device: &str, port: u32, index: u32, link: LinkLayer) -> Result<GidType> {
        let op = Op::QueryGid;
        let (port, index) = (port.to_string(), index.to_string());
        let text = self.device_text(op, device, &["ports", &port, "gid_attrs", "types", &index])?;
        GidType::from_sysfs(&text, link).ok_or_else(|| unreadable(op, &text))
    }

    /// The network device that a GID belongs to; `None` on InfiniBand and for an empty entry.
    ///
    /// # Errors
    /// ENOENT if there is no such device, port or entry.
    pub fn gid_netdev(&self, device: &str, port: u32, index: u32) -> Result<Option<String>> {
        let (port, index) = (port.to_string(), index.to_string());
        let path = ["ports", &port, "gid_attrs", "ndevs", &index];
        match self.device_text(Op::QueryGid, device, &path) {
            Ok(name) => Ok(Some(name).filter(|name| !name.is_empty())),
            // The kernel's answer for an entry without a network device.
            Err(error) if matches!(error.errno(), Some(Errno::INVAL)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `ibv_query_gid_table`—the entries of a port's GID table that are not empty.
    ///
    /// It reads three to five files per entry: prefer the verbs command (one system call) if the
    /// kernel has it.
    ///
    /// # Errors
    /// ENOENT if there is no such device or port.
    #[doc(alias = "ibv_query_gid_table")]
    pub fn gid_table(&self, device: &str, port: u32) -> Result<Vec<GidEntry>> {
        let link = self.link_layer(device, port)?;
        let mut table = Vec::new();
        for index in self.indexes(Op::QueryGidTable, device, port, "gids")? {
            table.extend(self.gid_entry_on(device, port, index, link));
        }
        Ok(table)
    }

    /// `ibv_query_gid_ex`—an entry of a port's GID table; `None` for an empty one, and beyond the
    /// table. Reads four to six files.
    ///
    /// # Errors
    /// ENOENT if there is no such device or port.
    #[doc(alias = "ibv_query_gid_ex")]
    pub fn gid_entry(&self, device: &str, port: u32, index: u32) -> Result<Option<GidEntry>> {
        let link = self.link_layer(device, port)?;
        Ok(self.gid_entry_on(device, port, index, link))
    }

    fn gid_entry_on(
        &self,
        device: &str,
        port: u32,
        index: u32,
        link: LinkLayer,
    ) -> Option<GidEntry> {
        // An entry can disappear between the reads; it is empty then.
        let gid = self.gid(device, port, index).ok()?;
        if gid.is_zero() {
            return None;
        }
        let gid_type = self.gid_type_on(device, port, index, link).ok()?;
        let netdev = self.gid_netdev(device, port, index).ok().flatten();
        Some(GidEntry {
            gid,
            index,
            port,
            gid_type,
            netdev: netdev.and_then(|name| self.netdev_index(&name)),
        })
    }

    /// The interface index of a network device of this network namespace.
    pub fn netdev_index(&self, name: &str) -> Option<NonZeroU32> {
        let text = self
            .text(Op::QueryGidTable, &["class", "net", name, "ifindex"])
            .ok()?;
        text.trim().parse().ok()
    }

    /// The link layer of a port.
    ///
    /// # Errors
    /// ENOENT if there is no such device or port.
    pub fn link_layer(&self, device: &str, port: u32) -> Result<LinkLayer> {
        let text = self.device_text(
            Op::QueryPort,
            device,
            &["ports", &port.to_string(), "link_layer"],
        )?;
        Ok(match text.trim() {
            "InfiniBand" => LinkLayer::InfiniBand,
            "Ethernet" => LinkLayer::Ethernet,
            _ => LinkLayer::Unspecified,
        })
    }

    /// The counters of InfiniBand performance management; data counters count 4-byte words.
    ///
    /// # Errors
    /// ENOENT if there is no such device or port, or its driver has none (rxe).
    pub fn counters(&self, device: &str, port: u32) -> Result<Vec<Counter>> {
        self.counters_in(device, &["ports", &port.to_string(), "counters"])
    }

    /// The driver's own counters of a port.
    ///
    /// # Errors
    /// ENOENT if there is no such device or port, or its driver has none.
    pub fn hw_counters(&self, device: &str, port: u32) -> Result<Vec<Counter>> {
        self.counters_in(device, &["ports", &port.to_string(), "hw_counters"])
    }

    /// The driver's own counters of a device.
    ///
    /// # Errors
    /// ENOENT if there is no such device, or its driver has none.
    pub fn device_counters(&self, device: &str) -> Result<Vec<Counter>> {
        self.counters_in(device, &["hw_counters"])
    }

    fn counters_in(&self, device: &str, folder: &[&str]) -> Result<Vec<Counter>> {
        let op = Op::QueryStatistics;
        let folder = [&["class", "infiniband", device], folder].concat();
        let mut counters = Vec::new();
        for name in self.list(op, &folder)? {
            // Not a counter: how long, in milliseconds, the kernel caches values.
            if name == "lifespan" {
                continue;
            }
            let path = [folder.as_slice(), &[&name]].concat();
            // Some counters can be listed but not read (EINVAL); some hold "N/A (no PMA)".
            let Ok(text) = self.text(op, &path) else {
                continue;
            };
            if let Ok(value) = text.trim().parse() {
                counters.push(Counter::new(name, value));
            }
        }
        Ok(counters)
    }

    /// Firmware version; `None` without firmware.
    ///
    /// # Errors
    /// ENOENT if there is no such device.
    pub fn fw_ver(&self, device: &str) -> Result<Option<String>> {
        self.device_word(device, &["fw_ver"])
    }

    /// The vendor's name for the board; `None` if the driver has no such file.
    ///
    /// # Errors
    /// EACCES.
    pub fn board_id(&self, device: &str) -> Result<Option<String>> {
        self.device_word(device, &["board_id"])
    }

    /// The vendor's name for the chip; `None` if the driver has no such file.
    ///
    /// # Errors
    /// EACCES.
    pub fn hca_type(&self, device: &str) -> Result<Option<String>> {
        self.device_word(device, &["hca_type"])
    }

    /// The node description, which the administrator sets.
    ///
    /// # Errors
    /// EACCES.
    pub fn node_desc(&self, device: &str) -> Result<Option<String>> {
        self.device_word(device, &["node_desc"])
    }

    /// The `modalias`, which contains the PCI ids; `None` for a software device.
    ///
    /// # Errors
    /// EACCES.
    pub fn modalias(&self, device: &str) -> Result<Option<String>> {
        self.device_word(device, &["device", "modalias"])
    }

    /// The network devices of a device: those of its hardware, or the one that a software device
    /// was created on.
    ///
    /// # Errors
    /// EACCES.
    pub fn netdevs(&self, device: &str) -> Result<Vec<String>> {
        match self.list(
            Op::QueryDevice,
            &["class", "infiniband", device, "device", "net"],
        ) {
            Ok(names) => Ok(names),
            Err(error) if error.errno() == Some(Errno::NOENT) => {
                Ok(self.device_word(device, &["parent"])?.into_iter().collect())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a text that may be missing.
    fn device_word(&self, device: &str, path: &[&str]) -> Result<Option<String>> {
        match self.device_text(Op::QueryDevice, device, path) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn indexes(&self, op: Op, device: &str, port: u32, table: &str) -> Result<Vec<u32>> {
        let names = self.list(
            op,
            &[
                "class",
                "infiniband",
                device,
                "ports",
                &port.to_string(),
                table,
            ],
        )?;
        // Names are in the order of their numbers.
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    fn device_text(&self, op: Op, device: &str, path: &[&str]) -> Result<String> {
        self.text(op, &[&["class", "infiniband", device], path].concat())
    }

    /// Reads the file below the root.
    pub(crate) fn text(&self, op: Op, path: &[&str]) -> Result<String> {
        let path = self.path(op, path)?;
        read_attribute(&path)
            .map_err(|errno| Error::os(op, errno).fact("file", path.display().to_string()))
    }

    /// The names in the directory below the root.
    pub(super) fn list(&self, op: Op, path: &[&str]) -> Result<Vec<String>> {
        let path = self.path(op, path)?;
        list_directory(&path)
            .map_err(|errno| Error::os(op, errno).fact("directory", path.display().to_string()))
    }

    /// The path of a file. Names that would leave the directory are refused, since names come from
    /// callers and from other files.
    fn path(&self, op: Op, parts: &[&str]) -> Result<PathBuf> {
        let mut path = self.root.clone();
        for part in parts {
            if !is_file_name(part) {
                return Err(Error::invalid(op, "a name").fact("name", *part));
            }
            path.push(part);
        }
        Ok(path)
    }
}

/// A GID as sysfs has it: eight groups of four hexadecimal digits. The parser of addresses takes
/// more than that, and is as large as all other parsers here.
fn gid(text: &str) -> Option<Gid> {
    let (mut bits, mut groups) = (0, 0);
    for group in text.trim_ascii_end().split(':') {
        bits = bits << 16 | u128::from(u16::from_str_radix(group, 16).ok()?);
        groups += 1;
    }
    (groups == 8).then(|| Gid::from_bytes(u128::to_be_bytes(bits)))
}

#[cold]
fn unreadable(op: Op, text: &str) -> Error {
    Error::bad_reply(op, "sysfs").fact("text", text)
}

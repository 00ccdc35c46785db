//! The GID tables of the ports. Where the kernel has no command for them, sysfs has the same
//! information.

use std::num::NonZeroU32;

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
    UVERBS_ATTR_QUERY_GID_ENTRY_PORT, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
    UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
    UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
    UVERBS_METHOD_QUERY_GID_ENTRY, UVERBS_METHOD_QUERY_GID_TABLE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_gid_entry;
use zerocopy::transmute;

use crate::error::{Errno, Error, Op, Result};
use crate::file::UverbsFile;
use crate::sys::{Attr, Uhw, cells, slice_cells};
use crate::types::{Gid, GidEntry, GidType};

/// The most entries that one [`query_table`] can return: an attribute has at most 65535 bytes.
pub const MAX_TABLE_ENTRIES: usize = u16::MAX as usize / size_of::<ib_uverbs_gid_entry>();

/// `ibv_query_gid_table`—reads the non-empty entries of the GID tables of all ports, ordered by
/// port and then by index.
///
/// `capacity` is the most entries that there can be: the sum of the ports' `gid_tbl_len`. More than
/// [`MAX_TABLE_ENTRIES`] do not fit one command; read such tables by [`query_entry`]. One system
/// call, since 5.10.
///
/// # Errors
/// EINVAL: there are more than `capacity` non-empty entries. EOPNOTSUPP: the driver has no GID
/// cache.
#[doc(alias = "ibv_query_gid_table")]
pub fn query_table(file: &UverbsFile, capacity: usize) -> Result<Vec<GidEntry>> {
    let mut table = Vec::new();
    each_entry(file, capacity, |entry| table.push(entry))?;
    Ok(table)
}

/// Like [`query_table`], but calls `each` for every entry, without heap memory.
///
/// # Errors
/// Those of [`query_table`].
#[expect(
    clippy::large_stack_arrays,
    reason = "heap memory would cost system calls in a young process, and how many would depend on the entries"
)]
pub fn each_entry(file: &UverbsFile, capacity: usize, each: impl FnMut(GidEntry)) -> Result<()> {
    let op = Op::QueryGidTable;
    let mut room_for_all = [ib_uverbs_gid_entry::default(); MAX_TABLE_ENTRIES];
    let room = capacity.clamp(1, MAX_TABLE_ENTRIES);
    let entries = &mut room_for_all[..room];
    let mut count = 0_u64;
    file.ioctl_only(op, || {
        let attrs = [
            Attr::constant(
                UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE,
                size_of::<ib_uverbs_gid_entry>() as u64,
            ),
            Attr::constant(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0_u32),
            Attr::output(
                UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
                slice_cells(entries),
            ),
            Attr::output(
                UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
                cells(&mut count),
            ),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_QUERY_GID_TABLE,
            &attrs,
            &Uhw::NONE,
        )
    })
    .map_err(|error| error.fact("room", room))?;
    let known = usize::try_from(count)
        .ok()
        .and_then(|count| entries.get(..count))
        .ok_or_else(|| {
            Error::bad_reply(op, "more entries than there was room for").fact("entries", count)
        })?;
    known.iter().map(gid_entry).for_each(each);
    Ok(())
}

/// `ibv_query_gid_ex`—reads one entry of a port's GID table. An empty entry is `None`.
///
/// One system call, since 5.10.
///
/// # Errors
/// EINVAL: there is no such port or entry.
#[doc(alias = "ibv_query_gid")]
#[doc(alias = "ibv_query_gid_ex")]
pub fn query_entry(file: &UverbsFile, port: u32, index: u32) -> Result<Option<GidEntry>> {
    let op = Op::QueryGid;
    let mut entry = ib_uverbs_gid_entry::default();
    let result = file.ioctl_only(op, || {
        let attrs = [
            Attr::constant(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, port),
            Attr::constant(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, index),
            Attr::constant(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0_u32),
            Attr::output(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, cells(&mut entry)),
        ];
        file.ioctl(
            op,
            UVERBS_OBJECT_DEVICE,
            UVERBS_METHOD_QUERY_GID_ENTRY,
            &attrs,
            &Uhw::NONE,
        )
    });
    match result {
        Ok(()) => Ok(Some(gid_entry(&entry))),
        Err(error) if error.errno() == Some(Errno::NODATA) => Ok(None),
        Err(error) => Err(error.fact("port", port).fact("gid_index", index)),
    }
}

fn gid_entry(entry: &ib_uverbs_gid_entry) -> GidEntry {
    // The kernel's struct has two 64-bit words, which hold the sixteen bytes in network order.
    let gid: [u8; 16] = transmute!(entry.gid);
    GidEntry {
        gid: Gid::from_bytes(gid),
        index: entry.gid_index,
        port: entry.port_num,
        gid_type: GidType::from_raw(entry.gid_type),
        netdev: NonZeroU32::new(entry.netdev_ifindex),
    }
}

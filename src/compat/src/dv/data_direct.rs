//! Memory that a function of its own reads and writes, beside the device: `DATA_DIRECT`.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;

use uverbs_mlx5::ProtectionDomain;

use super::own;
use crate::abi::ibv_mr;
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::memory::register_dmabuf;
use crate::pd::Pd;
use crate::pointer::{Handle, items_mut};

/// `MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT`
const DATA_DIRECT: c_int = 1;

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_reg_dmabuf_mr(
    pd: Handle<Pd>,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    vendor_access: c_int,
) -> *mut ibv_mr {
    pointer(|| {
        let domain = pd.get()?;
        let context = own(domain.context()?)?;
        if vendor_access & !DATA_DIRECT != 0 {
            return Err(Code::INVALID);
        }
        register_dmabuf(pd, (offset, length, iova), fd, access, |inner, init| {
            if vendor_access == 0 {
                return Ok(domain.context()?.provider().register_dmabuf(inner, init)?);
            }
            let inner: &ProtectionDomain = inner.of().ok_or(Code::UNSUPPORTED)?;
            Ok(context.register_data_direct(inner, init)?)
        })
    })
}

/// Copies a path as the kernel says it: from the root of sysfs, with a NUL.
fn copy(path: &[u8], into: &mut [u8]) -> Answer<()> {
    let path = path.strip_prefix(b"/sys").unwrap_or(path);
    let place = into.get_mut(..=path.len()).ok_or(Code::new(libc::ENOSPC))?;
    let (text, nul) = place.split_at_mut(path.len());
    text.copy_from_slice(path);
    nul.fill(0);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_get_data_direct_sysfs_path(
    context: Handle<Context>,
    buffer: *mut c_char,
    length: usize,
) -> c_int {
    number(|| {
        let path = own(context.get()?)?.data_direct_path()?;
        copy(
            path.as_os_str().as_bytes(),
            items_mut(buffer.cast(), length)?,
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_path_needs_room_for_its_end() {
        let mut room = [1; 5];
        copy(b"/sys/dev", &mut room).unwrap();
        assert_eq!(&room, b"/dev\0");
        let refused = copy(b"/sys/devi", &mut room).unwrap_err();
        assert_eq!(refused.number(), libc::ENOSPC);
    }
}

//! The offsets of pages that the kernel's driver maps by number (`enum mlx5_ib_mmap_cmd`).

use uverbs_core::sys::page_size;

/// The offset of page `index` of a kind (`MLX5_IB_MMAP_*`), of which there may be 65,536: the index
/// is the lowest and the third byte of the page's number, the kind is the second.
pub(crate) fn offset(kind: u32, index: u32) -> u64 {
    let number = kind << 8 | index & 0xff | index >> 8 << 16;
    u64::from(number).saturating_mul(page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_where_the_kernel_looks_for_them() {
        let page = page_size() as u64;
        assert_eq!(offset(6, 0), 0x600 * page);
        assert_eq!(offset(6, 0xff), 0x6ff * page);
        assert_eq!(offset(8, 0x102), 0x1_0802 * page);
        assert_eq!(offset(8, 0xffff), 0xff_08ff * page);
    }
}

//! Memory on the device (MEMIC): allocated by the kernel, mapped into this process, and registered
//! like other memory.
//!
//! To the processor its pages are registers: they are read and written in words, and are never
//! cached.

use std::sync::Arc;

use uverbs_core::contract::{Context as _, Mr};
use uverbs_core::hw::{HAS_REGISTERS, Window, barrier};
use uverbs_core::sys::{Attr, Protection, Uhw, cells, page_size};
use uverbs_core::types::AccessFlags;
use uverbs_core::{Error, ErrorKind, Object, Op, Result, UverbsFile, cmd};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_DM;
use uverbs_uapi::mlx5_abi::MLX5_IB_MMAP_DEVICE_MEM;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET,
    MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE, MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP,
    MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX, MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET,
    MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH,
    MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET,
    MLX5_IB_METHOD_DM_MAP_OP_ADDR, MLX5_IB_METHOD_DM_QUERY,
};

use crate::context::{Context, ProtectionDomain};
use crate::mmap;

/// The device allocates its memory in multiples of this many bytes.
const GRANULE: u64 = 64;
/// The smallest unit in which a processor reads and writes it.
const WORD: usize = 4;

/// Where the kernel allocated it: the page to map, and the offset in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Place {
    page: u16,
    offset: u64,
}

impl Place {
    /// Maps `length` bytes, in whole pages from the page's start, and returns the first `used` of
    /// them. `None` if the kernel's place does not fit.
    fn map(self, file: &UverbsFile, length: u64, used: u64) -> Result<Option<Window>> {
        let size = page_size();
        let bytes = length
            .checked_next_multiple_of(GRANULE)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .and_then(|bytes| bytes.checked_next_multiple_of(size))
            .ok_or_else(|| Error::invalid(Op::AllocDeviceMemory, "length"))?;
        let offset = mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, self.page.into());
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let memory = file.map(offset, bytes, Protection::ReadWrite)?;
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        Ok(Window::new(memory, start, used))
    }
}

/// `ibv_dm`—memory on the device.
#[doc(alias = "ibv_dm")]
#[derive(Debug)]
pub struct DeviceMemory {
    object: Arc<Object>,
    window: Window,
    length: u64,
}

/// `mlx5dv_dm_map_op_addr`—a word that performs an operation on device memory when it is written.
#[doc(alias = "mlx5dv_dm_map_op_addr")]
#[derive(Debug)]
pub struct OperationWord {
    window: Window,
    file: Arc<UverbsFile>,
    #[expect(dead_code, reason = "the memory outlives it")]
    memory: Arc<Object>,
}

/// `MLX5_IB_METHOD_DM_QUERY`—what the kernel reports about device memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeviceMemoryInfo {
    /// The offset in the first page.
    pub start: u64,
    /// The page to map.
    pub page: u16,
    /// The requested number of bytes.
    pub length: u64,
}

impl DeviceMemory {
    /// `ibv_alloc_dm`—allocates `length` bytes, aligned to 2 to the power of `log2_alignment` (64
    /// at least). Two system calls.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device has none.
    /// [`InvalidInput`](ErrorKind::InvalidInput): zero bytes, or an alignment above the device's
    /// maximum. [`OutOfResources`](ErrorKind::OutOfResources): not enough left.
    #[doc(alias = "ibv_alloc_dm")]
    pub fn alloc(context: &Context, length: u64, log2_alignment: u32) -> Result<Self> {
        let op = Op::AllocDeviceMemory;
        let file = context.file();
        file.check_process(op)?;
        let most = context.device().max_dm_size;
        if most == 0 || !HAS_REGISTERS {
            return Err(Error::new(op, ErrorKind::Unsupported).hint("the device has no memory"));
        }
        if length == 0 {
            return Err(Error::invalid(op, "length").fact("requested", length));
        }
        if length > most {
            return Err(Error::limit(op, "length", length, most));
        }
        let mut place = Place::default();
        let attrs = [
            Attr::output(
                MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET,
                cells(&mut place.offset),
            ),
            Attr::output(
                MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX,
                cells(&mut place.page),
            ),
        ];
        let uhw = Uhw {
            attrs: &attrs,
            ..Uhw::NONE
        };
        let handle = cmd::dm::alloc(file, length, log2_alignment, &uhw)?;
        let object = Object::new(file, &cmd::dm::KIND, handle, []);
        let window = place.map(file, length, length)?;
        let window = window.ok_or_else(|| Error::bad_reply(op, "place of the memory"))?;
        Ok(Self {
            object: Arc::new(object),
            window,
            length,
        })
    }

    /// `ibv_import_dm`—the memory of the context that has this handle, whoever allocated it. It is
    /// not freed when this is dropped. Two system calls, since Linux 5.13.
    ///
    /// # Errors
    /// ENOENT: there is no such memory. [`Unsupported`](ErrorKind::Unsupported) on older kernels.
    #[doc(alias = "ibv_import_dm")]
    pub fn import(context: &Context, handle: u32) -> Result<Self> {
        let file = context.file();
        let info = query(file, handle)?;
        let place = Place {
            page: info.page,
            offset: info.start,
        };
        let object = Object::borrowed(file, &cmd::dm::KIND, handle);
        let window = place.map(file, info.length, info.length)?;
        let window =
            window.ok_or_else(|| Error::bad_reply(Op::QueryDeviceMemory, "place of the memory"))?;
        Ok(Self {
            object: Arc::new(object),
            window,
            length: info.length,
        })
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Where it is mapped in this process.
    pub fn address(&self) -> u64 {
        self.window.address()
    }

    /// The length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// `ibv_memcpy_to_dm`—copies `bytes` to `offset`; both are multiples of 4. No system call.
    ///
    /// Words are stored one by one, 8 bytes wide where that is aligned: the device and its peers
    /// may see some of them before others.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if a value is not a multiple of 4, or the range
    /// exceeds the memory; [`Forked`](ErrorKind::Forked) in a child process.
    #[doc(alias = "ibv_memcpy_to_dm")]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = self.place(offset, bytes.len())?;
        let copied = self.window.store(at, bytes);
        barrier::flush_registers();
        copied.ok_or_else(|| Error::invalid(Op::AccessDeviceMemory, "range"))
    }

    /// `ibv_memcpy_from_dm`—copies bytes from `offset`, which is a multiple of 4, as is their
    /// number. No system call.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[doc(alias = "ibv_memcpy_from_dm")]
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let at = self.place(offset, bytes.len())?;
        self.window
            .load(at, bytes)
            .ok_or_else(|| Error::invalid(Op::AccessDeviceMemory, "range"))
    }

    /// The offset of a range.
    fn place(&self, offset: u64, length: usize) -> Result<usize> {
        let op = Op::AccessDeviceMemory;
        self.object.file().check_process(op)?;
        let end = offset.checked_add(length as u64);
        let aligned = offset.is_multiple_of(WORD as u64) && length.is_multiple_of(WORD);
        let at = usize::try_from(offset).ok();
        match at {
            Some(at) if aligned && end.is_some_and(|end| end <= self.length) => Ok(at),
            _ => Err(Error::invalid(op, "range")
                .fact("offset", offset)
                .fact("bytes", length)
                .fact("allocated", self.length)),
        }
    }

    /// `ibv_reg_dm_mr`—registers a part of the memory in a domain; work requests address its bytes
    /// from 0. One system call.
    ///
    /// # Errors
    /// EINVAL for a part beyond the end, or for access rights that device memory does not support.
    #[doc(alias = "ibv_reg_dm_mr")]
    pub fn register(
        &self,
        context: &Context,
        pd: &ProtectionDomain,
        offset: u64,
        length: u64,
        access: AccessFlags,
    ) -> Result<Mr> {
        let access = access | AccessFlags::ZERO_BASED;
        let request = cmd::mr::RegisterDm {
            pd: pd.object().handle(),
            dm: self.object.handle(),
            offset,
            length,
            access: context.base().opened.core_support.final_access(access),
        };
        let file = context.file();
        let done = cmd::mr::register_dm(file, &request, &Uhw::NONE)?;
        let parents = [Arc::clone(pd.object())];
        let object = Object::new(file, &cmd::mr::KIND, done.handle, parents);
        object.set_use::<Self>(Some(Arc::clone(&self.object)));
        Ok(Mr {
            object,
            lkey: done.lkey,
            rkey: done.rkey,
        })
    }

    /// `mlx5dv_dm_map_op_addr`—maps the word that performs operation number `operation` of the
    /// device on this memory. Two system calls, since Linux 5.13.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device or the kernel does not support the
    /// operation.
    #[doc(alias = "mlx5dv_dm_map_op_addr")]
    pub fn map_operation(&self, operation: u8) -> Result<OperationWord> {
        let op = Op::MapDeviceMemoryOperation;
        let file = self.object.file();
        file.check_process(op)?;
        let mut place = Place::default();
        file.ioctl_only(op, || {
            let attrs = [
                Attr::object(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE, self.object.handle()),
                Attr::input(MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP, &operation),
                Attr::output(
                    MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET,
                    cells(&mut place.offset),
                ),
                Attr::output(
                    MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX,
                    cells(&mut place.page),
                ),
            ];
            let method = MLX5_IB_METHOD_DM_MAP_OP_ADDR;
            file.ioctl(op, UVERBS_OBJECT_DM, method, &attrs, &Uhw::NONE)
        })?;
        let window = place.map(file, self.length, WORD as u64)?;
        let window = window.ok_or_else(|| Error::bad_reply(op, "place of the word"))?;
        Ok(OperationWord {
            window,
            file: Arc::clone(file),
            memory: Arc::clone(&self.object),
        })
    }

    /// `MLX5_IB_METHOD_DM_QUERY`—queries the kernel for the memory's location. One system call,
    /// since Linux 5.13.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on older kernels.
    pub fn query(&self) -> Result<DeviceMemoryInfo> {
        query(self.object.file(), self.object.handle())
    }

    /// `ibv_free_dm`—frees the memory. One system call. Dropping it does the same, once its
    /// registrations are gone.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while memory regions of it, or words of operations, exist; it
    /// stays alive with them.
    #[doc(alias = "ibv_free_dm")]
    pub fn free(self) -> Result<()> {
        drop(self.window);
        Object::destroy_shared(self.object).map(|_| ())
    }
}

/// What the kernel reports about the memory with this handle.
fn query(file: &Arc<UverbsFile>, handle: u32) -> Result<DeviceMemoryInfo> {
    let op = Op::QueryDeviceMemory;
    file.check_process(op)?;
    let mut info = DeviceMemoryInfo::default();
    file.ioctl_only(op, || {
        let attrs = [
            Attr::object(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, handle),
            Attr::output(
                MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET,
                cells(&mut info.start),
            ),
            Attr::output(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, cells(&mut info.page)),
            Attr::output(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, cells(&mut info.length)),
        ];
        let method = MLX5_IB_METHOD_DM_QUERY;
        file.ioctl(op, UVERBS_OBJECT_DM, method, &attrs, &Uhw::NONE)
    })?;
    Ok(info)
}

impl OperationWord {
    /// Performs the operation with `value` as its operand. No system call.
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked) in a child process.
    pub fn apply(&self, value: u32) -> Result<()> {
        let op = Op::AccessDeviceMemory;
        self.file.check_process(op)?;
        barrier::before_registers();
        let stored = self.window.store(0, &value.to_ne_bytes());
        barrier::flush_registers();
        stored.ok_or_else(|| Error::invalid(op, "place of the word"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_uapi::ib_user_ioctl_cmds::{
        UVERBS_ATTR_REG_DM_MR_RESP_LKEY, UVERBS_ATTR_REG_DM_MR_RESP_RKEY,
    };

    use super::*;
    use crate::tests::native;
    use crate::tests::scripted::Scripted;

    /// 100 bytes at 64 of page 5.
    fn hundred() -> (Arc<Scripted>, Context, DeviceMemory) {
        let (kernel, context) = Scripted::context(4096);
        kernel.answer(
            MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET,
            &64_u64.to_ne_bytes(),
        );
        kernel.answer(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &5_u16.to_ne_bytes());
        let memory = DeviceMemory::alloc(&context, 100, 3).unwrap();
        (kernel, context, memory)
    }

    #[test]
    fn memory_is_where_the_kernel_says() {
        let (kernel, _context, memory) = hundred();
        let [alloc, map]: [String; 2] = kernel.take_calls().try_into().unwrap();
        let length = format!("in={}", native(&100_u64.to_ne_bytes()));
        assert!(alloc.contains(&length), "{alloc}");
        let offset = mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, 5);
        assert_eq!(map, format!("map {offset:#x} {}", page_size()));
        assert_eq!((memory.address() % 4096, memory.length()), (64, 100));
        memory.free().unwrap();
        assert_eq!(kernel.take_calls().len(), 1);
    }

    #[test]
    fn words_inside_it_are_written_and_read() {
        let (_kernel, _context, memory) = hundred();
        memory.write(92, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let mut read = [9; 12];
        memory.read(88, &mut read).unwrap();
        assert_eq!(read, [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        for (offset, length) in [(96, 8), (2, 4), (0, 6), (100, 4), (u64::MAX - 3, 4)] {
            for error in [
                memory.write(offset, &[0; 8][..length]).unwrap_err(),
                memory.read(offset, &mut read[..length]).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{offset} {length}");
            }
        }
        memory.read(88, &mut read).unwrap();
        assert_eq!(read[4..], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(memory.write(100, &[]).ok(), Some(()));
    }

    #[test]
    fn what_cannot_be_allocated_is_refused() {
        let (kernel, context) = Scripted::context(4096);
        let refused = |length| DeviceMemory::alloc(&context, length, 0).unwrap_err().kind();
        assert_eq!(refused(0), ErrorKind::InvalidInput);
        assert_eq!(refused(4097), ErrorKind::LimitExceeded);
        let (_, without) = Scripted::context(0);
        let error = DeviceMemory::alloc(&without, 64, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(kernel.take_calls(), [""; 0]);
        // At the end of the page that is mapped.
        kernel.answer(
            MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET,
            &(page_size() as u64).to_ne_bytes(),
        );
        assert_eq!(refused(64), ErrorKind::BadReply);
        assert_eq!(kernel.take_calls().len(), 3, "it is freed again");
    }

    #[test]
    fn a_region_of_device_memory_is_zero_based_and_keeps_it_allocated() {
        let (kernel, context, memory) = hundred();
        let pd = kernel.pd(&context);
        kernel.answer(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &11_u32.to_ne_bytes());
        kernel.answer(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &12_u32.to_ne_bytes());
        kernel.take_calls();
        let access = AccessFlags::LOCAL_WRITE;
        let region = memory.register(&context, &pd, 4, 8, access).unwrap();
        let keys = (region.lkey.raw(), region.rkey.raw());
        assert_eq!(keys, (11, 12));
        let [call]: [String; 1] = kernel.take_calls().try_into().unwrap();
        let access = access | AccessFlags::ZERO_BASED;
        assert!(
            call.contains(&format!("const={:#x}", access.bits())),
            "{call}"
        );
        let error = memory.free().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        drop(region);
    }

    #[test]
    fn operations_have_a_word_each() {
        let (kernel, _context, memory) = hundred();
        kernel.answer(
            MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET,
            &8_u64.to_ne_bytes(),
        );
        kernel.answer(
            MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX,
            &6_u16.to_ne_bytes(),
        );
        kernel.take_calls();
        let word = memory.map_operation(3).unwrap();
        let [asked, map]: [String; 2] = kernel.take_calls().try_into().unwrap();
        assert!(asked.contains("in=03"), "{asked}");
        assert!(map.contains(&format!("{:#x}", mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, 6))));
        word.apply(7).unwrap();
        let mut stored = [0; 4];
        word.window.load(0, &mut stored).unwrap();
        assert_eq!(u32::from_ne_bytes(stored), 7);
        let error = memory.free().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }

    /// Has the kernel say of any memory that it is 100 bytes at 64 of page 5.
    fn answer_query(kernel: &Scripted) {
        let offset = MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET;
        kernel.answer(offset, &64_u64.to_ne_bytes());
        kernel.answer(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, &5_u16.to_ne_bytes());
        kernel.answer(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, &100_u64.to_ne_bytes());
    }

    #[test]
    fn its_place_can_be_queried() {
        let (kernel, _context, memory) = hundred();
        answer_query(&kernel);
        let info = DeviceMemoryInfo {
            start: 64,
            page: 5,
            length: 100,
        };
        assert_eq!(memory.query().unwrap(), info);
    }

    #[test]
    fn imported_memory_is_used_and_not_freed() {
        let (kernel, context) = Scripted::context(4096);
        answer_query(&kernel);
        kernel.take_calls();
        let memory = DeviceMemory::import(&context, 77).unwrap();
        let [asked, map]: [String; 2] = kernel.take_calls().try_into().unwrap();
        assert!(asked.contains("obj=77"), "{asked}");
        let offset = mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, 5);
        assert_eq!(map, format!("map {offset:#x} {}", page_size()));
        assert_eq!((memory.address() % 4096, memory.length()), (64, 100));
        memory.write(96, &[1; 4]).unwrap();
        assert!(memory.write(100, &[1; 4]).is_err());
        drop(memory);
        assert_eq!(kernel.take_calls(), [""; 0]);
        // A place that does not fit its page.
        let beyond = (page_size() as u64).to_ne_bytes();
        kernel.answer(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, &beyond);
        let error = DeviceMemory::import(&context, 77).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadReply);
    }
}

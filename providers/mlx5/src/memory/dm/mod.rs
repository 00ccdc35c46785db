//! Memory on the device: allocated by the kernel and registered like other memory.
//!
//! General memory (MEMIC) is mapped into this process. To the processor its pages are registers:
//! they are read and written in words, and are never cached. Memory for steering is the device's
//! alone: programs know its address, and reach it through registered regions and firmware commands.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use uverbs_core::contract::{Context as _, Mr};
use uverbs_core::hw::{HAS_REGISTERS, Window, barrier};
use uverbs_core::sys::{Attr, Protection, Uhw, cells, page_size};
use uverbs_core::types::AccessFlags;
use uverbs_core::{Error, ErrorKind, Object, Op, Result, UverbsFile, cmd};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_DM;
use uverbs_uapi::mlx5_abi::MLX5_IB_MMAP_DEVICE_MEM;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX,
    MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE,
    MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP, MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX,
    MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET, MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE,
    MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX,
    MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, MLX5_IB_METHOD_DM_MAP_OP_ADDR,
    MLX5_IB_METHOD_DM_QUERY,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_DM_TYPE_ENCAP_SW_ICM, MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM,
    MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM, MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM,
};

use crate::context::{Context, ProtectionDomain};
use crate::mmap;

/// The device allocates its memory in multiples of this many bytes.
const GRANULE: u64 = 64;
/// The smallest unit in which a processor reads and writes it.
const WORD: usize = 4;

/// Why memory for steering has no place in this process.
const NOT_MAPPED: &str = "memory for steering is the device's alone";

/// Where the kernel allocated it: the page to map, and the offset in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Place {
    page: u16,
    offset: u64,
}

impl Place {
    /// Where the kernel maps it.
    fn offset_in_file(self) -> u64 {
        mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, self.page.into())
    }

    /// Maps `length` bytes, in whole pages from the page's start, and returns the first `used` of
    /// them. `None` if the kernel's place does not fit.
    fn map(self, file: &UverbsFile, length: u64, used: u64) -> Result<Option<Window>> {
        let size = page_size();
        let bytes = length
            .checked_next_multiple_of(GRANULE)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .and_then(|bytes| bytes.checked_next_multiple_of(size))
            .ok_or_else(|| Error::invalid(Op::AllocDeviceMemory, "length"))?;
        let offset = self.offset_in_file();
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let memory = file.map(offset, bytes, Protection::ReadWrite)?;
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        Ok(Window::new(memory, start, used))
    }
}

/// `mlx5dv_alloc_dm_type`—what memory for steering by programs themselves holds.
#[doc(alias = "mlx5dv_alloc_dm_type")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SteeringMemory {
    /// Entries of steering tables.
    #[doc(alias = "MLX5DV_DM_TYPE_STEERING_SW_ICM")]
    Entries,
    /// Changes of headers. Since Linux 5.3, as entries.
    #[doc(alias = "MLX5DV_DM_TYPE_HEADER_MODIFY_SW_ICM")]
    HeaderChanges,
    /// Patterns of changes of headers. Since Linux 6.0.
    #[doc(alias = "MLX5DV_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM")]
    HeaderPatterns,
    /// Headers that frames are put behind. Since Linux 6.8.
    #[doc(alias = "MLX5DV_DM_TYPE_ENCAP_SW_ICM")]
    Encapsulations,
}

impl SteeringMemory {
    fn to_kernel(self) -> u32 {
        match self {
            Self::Entries => MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM,
            Self::HeaderChanges => MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_SW_ICM,
            Self::HeaderPatterns => MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM,
            Self::Encapsulations => MLX5_IB_UAPI_DM_TYPE_ENCAP_SW_ICM,
        }
    }
}

/// Where the memory is.
#[derive(Debug)]
enum At {
    /// In this process, and where the kernel maps it.
    Process(Window, u64),
    /// At this address of the device only.
    Device(u64),
}

/// `ibv_dm`—memory on the device.
#[doc(alias = "ibv_dm")]
#[derive(Debug)]
pub struct DeviceMemory {
    object: Arc<Object>,
    at: At,
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
            at: At::Process(window, place.offset_in_file()),
            length,
        })
    }

    /// `mlx5dv_alloc_dm`—allocates `length` bytes of memory in which a program keeps steering
    /// entries of its own, aligned to 2 to the power of `log2_alignment`. The kernel rounds the
    /// length up to a power of 2. One system call, since Linux 5.3.
    ///
    /// # Errors
    /// EPERM without `CAP_SYS_RAWIO` and `CAP_NET_RAW`. [`Unsupported`](ErrorKind::Unsupported):
    /// EOPNOTSUPP, the device has no such memory, or the kernel does not know this kind.
    /// [`InvalidInput`](ErrorKind::InvalidInput): zero bytes.
    /// [`OutOfResources`](ErrorKind::OutOfResources): ENOMEM, not enough left.
    #[doc(alias = "mlx5dv_alloc_dm")]
    pub fn alloc_steering(
        context: &Context,
        kind: SteeringMemory,
        length: u64,
        log2_alignment: u32,
    ) -> Result<Self> {
        let op = Op::AllocDeviceMemory;
        let file = context.file();
        file.check_process(op)?;
        if length == 0 {
            return Err(Error::invalid(op, "length").fact("requested", length));
        }
        let mut address = 0_u64;
        let attrs = [
            Attr::constant(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, kind.to_kernel()),
            Attr::output(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, cells(&mut address)),
        ];
        let uhw = Uhw {
            attrs: &attrs,
            ..Uhw::NONE
        };
        let handle = cmd::dm::alloc(file, length, log2_alignment, &uhw)?;
        let object = Object::new(file, &cmd::dm::KIND, handle, []);
        Ok(Self {
            object: Arc::new(object),
            at: At::Device(address),
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
            at: At::Process(window, place.offset_in_file()),
            length: info.length,
        })
    }

    /// The kernel object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Where it is mapped in this process; `None` for memory for steering.
    pub fn address(&self) -> Option<u64> {
        match &self.at {
            At::Process(window, _) => Some(window.address()),
            At::Device(_) => None,
        }
    }

    /// The device's address of memory for steering; `None` for other memory.
    #[doc(alias = "remote_va")]
    pub fn device_address(&self) -> Option<u64> {
        match self.at {
            At::Process(..) => None,
            At::Device(address) => Some(address),
        }
    }

    /// The memory as it is mapped.
    fn window(&self, op: Op) -> Result<&Window> {
        match &self.at {
            At::Process(window, _) => Ok(window),
            At::Device(_) => Err(Error::new(op, ErrorKind::Unsupported).hint(NOT_MAPPED)),
        }
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
    /// exceeds the memory; [`Forked`](ErrorKind::Forked) in a child process;
    /// [`Unsupported`](ErrorKind::Unsupported) for memory for steering.
    #[doc(alias = "ibv_memcpy_to_dm")]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = self.place(offset, bytes.len())?;
        let copied = self.window(Op::AccessDeviceMemory)?.store(at, bytes);
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
        self.window(Op::AccessDeviceMemory)?
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
    /// operation, or the memory is for steering.
    #[doc(alias = "mlx5dv_dm_map_op_addr")]
    pub fn map_operation(&self, operation: u8) -> Result<OperationWord> {
        let op = Op::MapDeviceMemoryOperation;
        let file = self.object.file();
        file.check_process(op)?;
        // The kernel takes any device memory for memory that has operations.
        self.window(op)?;
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

    /// `ibv_dm_export_dmabuf_fd`—the memory as a dma-buf, in whole pages, which other devices can
    /// use. It keeps the memory. One system call, in kernels after 6.19.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on older kernels, and for memory for steering.
    #[doc(alias = "ibv_dm_export_dmabuf_fd")]
    pub fn export(&self) -> Result<OwnedFd> {
        let op = Op::ExportDmabuf;
        let file = self.object.file();
        file.check_process(op)?;
        let At::Process(_, offset) = &self.at else {
            return Err(Error::new(op, ErrorKind::Unsupported).hint(NOT_MAPPED));
        };
        cmd::dmabuf::export(file, *offset, &Uhw::NONE)
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
        drop(self.at);
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

    /// Where it is in this process, where it then stays mapped: in whole pages, as many as the
    /// memory has. The memory can be freed before; the device keeps it until it is unmapped.
    pub fn leak(self) -> u64 {
        let address = self.window.address();
        #[expect(clippy::mem_forget, reason = "who knows the address unmaps it")]
        std::mem::forget(self.window);
        address
    }
}

#[cfg(test)]
mod tests;

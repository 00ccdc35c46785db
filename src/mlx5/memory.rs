//! Device memory, and regions without memory.

use uverbs_core::types::{AccessFlags, LocalKey, Sge};
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_mlx5::{DeviceMemoryInfo, OperationWord, SteeringMemory};

use super::Adapter;
use crate::{Context, MemoryRegion, ProtectionDomain};

/// `ibv_dm`—memory on the device itself, which the device reaches without crossing the bus.
///
/// There are some 100 KiB of it. Data that peers often read, or count with atomics, benefits most.
///
/// ```no_run
/// use uverbs::AccessFlags;
///
/// let context = uverbs::Context::open("mlx5_0")?;
/// let pd = context.alloc_pd()?;
/// let memory = context.mlx5()?.alloc_device_memory(4096, 6)?;
/// memory.write(0, b"counters")?;
/// let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC | AccessFlags::LOCAL_WRITE;
/// let region = pd.register_device_memory(&memory, 0, 4096, access)?;
/// println!("peers use address {} and key {}", region.address(), region.rkey().raw());
/// # Ok::<(), uverbs::Error>(())
/// ```
#[doc(alias = "ibv_dm")]
#[derive(Debug)]
pub struct DeviceMemory {
    memory: uverbs_mlx5::DeviceMemory,
    context: Context,
}

/// `ibv_alloc_null_mr`—a region without memory: what is written to it is discarded, and what is
/// read from it is not defined by the verbs (ConnectX returns zeros).
///
/// For parts of messages that are not wanted. It belongs to the device, has any length, and needs
/// no system call.
#[doc(alias = "ibv_alloc_null_mr")]
#[derive(Clone, Debug)]
pub struct NullRegion {
    key: LocalKey,
    pd: ProtectionDomain,
}

impl Adapter {
    /// `ibv_alloc_dm`—allocates `length` bytes on the device, aligned to 2 to the power of
    /// `log2_alignment` (at least 64 bytes). Two system calls.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | the device has none |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | no bytes; EINVAL: an alignment above the device's maximum |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | more than `max_dm_size` of [`device_attr`](Context::device_attr) |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM: not enough is left |
    #[doc(alias = "ibv_alloc_dm")]
    pub fn alloc_device_memory(&self, length: u64, log2_alignment: u32) -> Result<DeviceMemory> {
        let context = self.provider(Op::AllocDeviceMemory)?;
        Ok(DeviceMemory {
            memory: uverbs_mlx5::DeviceMemory::alloc(context, length, log2_alignment)?,
            context: self.context().clone(),
        })
    }

    /// `mlx5dv_alloc_dm`—allocates `length` bytes on the device in which the program keeps steering
    /// entries of its own, aligned to 2 to the power of `log2_alignment`. The kernel rounds the
    /// length up to a power of 2. One system call, since Linux 5.3.
    ///
    /// The program cannot read or write it itself, but can register it;
    /// [`device_address`](DeviceMemory::device_address) is for firmware commands.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`PermissionDenied`](ErrorKind::PermissionDenied) | EPERM: without `CAP_SYS_RAWIO` and `CAP_NET_RAW` |
    /// | [`Unsupported`](ErrorKind::Unsupported) | EOPNOTSUPP: the device has no such memory, or the kernel does not know this kind |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | no bytes |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM: not enough is left |
    #[doc(alias = "mlx5dv_alloc_dm")]
    pub fn alloc_steering_memory(
        &self,
        kind: SteeringMemory,
        length: u64,
        log2_alignment: u32,
    ) -> Result<DeviceMemory> {
        let context = self.provider(Op::AllocDeviceMemory)?;
        Ok(DeviceMemory {
            memory: uverbs_mlx5::DeviceMemory::alloc_steering(
                context,
                kind,
                length,
                log2_alignment,
            )?,
            context: self.context().clone(),
        })
    }
}

impl DeviceMemory {
    /// The device's address of memory for steering; `None` for other memory.
    pub fn device_address(&self) -> Option<u64> {
        self.memory.device_address()
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.memory.length()
    }

    /// `ibv_memcpy_to_dm`—copies `bytes` to `offset`; the offset and the length must be multiples
    /// of 4. No system call.
    ///
    /// The bytes are written in words of 8 bytes, or of 4 where the offset is not aligned to 8,
    /// each in one access; peers may see some words before others.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an offset or a length that is not a multiple
    /// of 4, or a range beyond the end; [`Forked`](ErrorKind::Forked) in a child process;
    /// [`Unsupported`](ErrorKind::Unsupported) for memory for steering.
    #[doc(alias = "ibv_memcpy_to_dm")]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.memory.write(offset, bytes)
    }

    /// `ibv_memcpy_from_dm`—copies bytes from `offset` on; the offset and the length must be
    /// multiples of 4. No system call; each word waits for the bus.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[doc(alias = "ibv_memcpy_from_dm")]
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.memory.read(offset, bytes)
    }

    /// `mlx5dv_dm_map_op_addr`—maps the word through which the device's operation number
    /// `operation` is performed on this memory. Two system calls, since Linux 5.13.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on devices without the operation, and on older
    /// kernels.
    #[doc(alias = "mlx5dv_dm_map_op_addr")]
    pub fn map_operation(&self, operation: u8) -> Result<OperationWord> {
        self.memory.map_operation(operation)
    }

    /// `ibv_dm_export_dmabuf_fd`—the memory as a dma-buf, in whole pages, which other devices can
    /// use. It keeps the memory. One system call, in kernels after 6.19.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on older kernels, and for memory for steering.
    #[doc(alias = "ibv_dm_export_dmabuf_fd")]
    pub fn export(&self) -> Result<std::os::fd::OwnedFd> {
        self.memory.export()
    }

    /// Where the kernel allocated it. One system call, since Linux 5.13.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on older kernels.
    pub fn query(&self) -> Result<DeviceMemoryInfo> {
        self.memory.query()
    }

    /// `ibv_free_dm`—frees it. One system call. Dropping it does the same, once its regions are
    /// gone.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while regions of it exist; it lives on with them.
    #[doc(alias = "ibv_free_dm")]
    pub fn free(self) -> Result<()> {
        self.memory.free()
    }
}

impl ProtectionDomain {
    /// `ibv_reg_dm_mr`—registers `length` bytes of device memory from `offset` on. Work requests
    /// address them from 0. One system call.
    ///
    /// The access rights that can be granted are local write and remote read, write and atomic. The
    /// memory lives at least as long as its regions.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | memory of another context; EINVAL: a range beyond its end, other access rights |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM |
    #[doc(alias = "ibv_reg_dm_mr")]
    pub fn register_device_memory(
        &self,
        memory: &DeviceMemory,
        offset: u64,
        length: u64,
        access: AccessFlags,
    ) -> Result<MemoryRegion> {
        let op = Op::RegisterDeviceMemory;
        if !self.is_of(&memory.context) {
            return Err(Error::invalid(op, "memory").hint("it belongs to another context"));
        }
        let (Some(context), Some(pd)) = (memory.context.of_mlx5(), self.of_mlx5()) else {
            return Err(Error::new(op, ErrorKind::Unsupported));
        };
        let mr = memory
            .memory
            .register(context, pd, offset, length, access)?;
        Ok(MemoryRegion::over(self, mr, 0, length, access))
    }

    /// `ibv_alloc_null_mr`—the device's region without memory. mlx5 devices only. No system call.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device has none.
    #[doc(alias = "ibv_alloc_null_mr")]
    pub fn null_region(&self) -> Result<NullRegion> {
        let device = self.context().of_mlx5();
        let key = device.and_then(uverbs_mlx5::Context::null_key);
        let key = key.ok_or_else(|| Error::new(Op::AllocNullRegion, ErrorKind::Unsupported))?;
        Ok(NullRegion {
            key,
            pd: self.clone(),
        })
    }
}

impl NullRegion {
    /// The key for scatter/gather entries of work requests.
    pub fn lkey(&self) -> LocalKey {
        self.key
    }

    /// A scatter/gather entry of `length` bytes.
    pub fn sge(&self, length: u32) -> Sge {
        Sge {
            address: 0,
            length,
            key: self.key,
        }
    }

    /// The protection domain that it was requested from.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }
}

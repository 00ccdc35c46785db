//! Memory on the device, and regions without any.

use uverbs_core::types::{AccessFlags, LocalKey, Sge};
use uverbs_core::{Error, ErrorKind, Op, Result};
use uverbs_mlx5::{DeviceMemoryInfo, OperationWord};

use super::Adapter;
use crate::{Context, MemoryRegion, ProtectionDomain};

/// `ibv_dm`—memory on the device itself, which queues reach without crossing the bus.
///
/// There are some 100 KiB of it. What is often read by peers, or counted by their atomics, gains
/// most.
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

/// `ibv_alloc_null_mr`—a region that is nowhere: what is written to it is thrown away, what is read
/// from it is not defined by the verbs (ConnectX gives zeros).
///
/// For parts of messages that nobody wants. It is the device's, of any length, and needs no system
/// call.
#[doc(alias = "ibv_alloc_null_mr")]
#[derive(Clone, Debug)]
pub struct NullRegion {
    key: LocalKey,
    pd: ProtectionDomain,
}

impl Adapter {
    /// `ibv_alloc_dm`—allocates `length` bytes on the device, aligned to 2 to the power of
    /// `log2_alignment` (64 bytes at least). Two system calls.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | the device has none |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | no bytes; EINVAL: an alignment above the device's |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | more than `max_dm_size` of [`device_attr`](Context::device_attr) |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) | ENOMEM: not so much is left |
    #[doc(alias = "ibv_alloc_dm")]
    pub fn alloc_device_memory(&self, length: u64, log2_alignment: u32) -> Result<DeviceMemory> {
        let context = self.provider(Op::AllocDeviceMemory)?;
        Ok(DeviceMemory {
            memory: uverbs_mlx5::DeviceMemory::alloc(context, length, log2_alignment)?,
            context: self.context().clone(),
        })
    }
}

impl DeviceMemory {
    /// Bytes.
    pub fn length(&self) -> u64 {
        self.memory.length()
    }

    /// `ibv_memcpy_to_dm`—copies `bytes` to `offset`; it and their number are multiples of 4. No
    /// system call.
    ///
    /// Words of 8 bytes, or 4 where it is not aligned to more, each at once; peers may see some
    /// before others.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what is not a multiple of 4, or passes the
    /// end; [`Forked`](ErrorKind::Forked) in a child.
    #[doc(alias = "ibv_memcpy_to_dm")]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.memory.write(offset, bytes)
    }

    /// `ibv_memcpy_from_dm`—copies bytes from `offset` on; it and their number are multiples of 4.
    /// No system call; each word waits for the bus.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[doc(alias = "ibv_memcpy_from_dm")]
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.memory.read(offset, bytes)
    }

    /// `mlx5dv_dm_map_op_addr`—maps the word by which operation number `operation` of the device is
    /// done to this memory. Two system calls, since Linux 5.13.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) by devices without the operation, and by older
    /// kernels.
    #[doc(alias = "mlx5dv_dm_map_op_addr")]
    pub fn map_operation(&self, operation: u8) -> Result<OperationWord> {
        self.memory.map_operation(operation)
    }

    /// Where the kernel has put it. One system call, since Linux 5.13.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) by older kernels.
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
    /// count them from address 0. One system call.
    ///
    /// Of access, local write and remote read, write and atomic can be had. The memory lives as
    /// long as its regions.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | memory of another context; EINVAL: a part beyond its end, other access |
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

    /// `ibv_alloc_null_mr`—the device's region that is nowhere. mlx5 devices only. No system call.
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
    /// The key for pieces of work requests.
    pub fn lkey(&self) -> LocalKey {
        self.key
    }

    /// A piece of `length` bytes for a work request.
    pub fn sge(&self, length: u32) -> Sge {
        Sge {
            address: 0,
            length,
            key: self.key,
        }
    }

    /// The domain that it was asked for in.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }
}

//! An mlx5 kernel that carries out every command, and its device, whose side of the queues the
//! fuzzer plays.
//!
//! # Safety
//!
//! The device writes only inside the queues, at the addresses that the library gave to the kernel.
//! The library keeps that memory until the kernel confirmed that the queue is gone; with the
//! confirmation it is forgotten here.
#![allow(unsafe_code, reason = "is a kernel, and writes as a device does")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use uverbs_core::Errno;
use uverbs_core::sys::{Call, Command, Kernel, Mapping, Reply, Uhw, Value};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_CORE_IN, UVERBS_ATTR_CORE_OUT, UVERBS_ATTR_CREATE_CQ_CQE, UVERBS_METHOD_CQ_CREATE,
    UVERBS_METHOD_CQ_DESTROY, UVERBS_METHOD_GET_CONTEXT, UVERBS_METHOD_QP_CREATE,
    UVERBS_METHOD_QP_DESTROY, UVERBS_METHOD_QUERY_GID_ENTRY, UVERBS_METHOD_QUERY_PORT,
    UVERBS_OBJECT_CQ, UVERBS_OBJECT_DEVICE, UVERBS_OBJECT_QP,
};
use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_query_port_resp_ex;
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, IB_USER_VERBS_CMD_FLAG_EXTENDED,
    IB_USER_VERBS_CMD_GET_CONTEXT, IB_USER_VERBS_CMD_RESIZE_CQ, IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
    ib_uverbs_ex_query_device_resp, ib_uverbs_get_context_resp, ib_uverbs_resize_cq,
};
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_ALLOC_UCTX_DEVX, MLX5_IB_CQE_RES_FORMAT_CSUM, MLX5_IB_CQE_RES_FORMAT_HASH,
    MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, MLX5_LIB_CAP_DYN_UAR, mlx5_ib_alloc_ucontext_req_v2,
    mlx5_ib_alloc_ucontext_resp, mlx5_ib_create_cq, mlx5_ib_create_qp, mlx5_ib_create_qp_resp,
    mlx5_ib_query_device_resp, mlx5_ib_resize_cq,
};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_OBJECT_UAR,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::liar::{descriptor, hand_out, invoked};

/// Number of doorbells of a context that does not allocate pages one by one, and how many of them
/// each belong to one queue pair.
const DOORBELLS: u32 = 16;
const ALONE: u32 = 4;

/// `MLX5_USER_CMDS_SUPP_UHW_CREATE_AH`: the kernel resolves the Ethernet addresses of peers.
const RESOLVES: u8 = 2;

/// Bytes of a completion entry.
pub(crate) const ENTRY: usize = 64;

/// Memory of a queue that the device knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// The handle of the queue.
    owner: u32,
    address: u64,
    /// Length in bytes, a multiple of eight.
    len: usize,
    /// Whether it is a completion queue.
    pub(crate) of_completions: bool,
}

impl Ring {
    /// Whether it is a doorbell record. Queues are longer.
    fn is_record(&self) -> bool {
        self.len == 8
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// The kernel and its device. Clones share the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapter(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    handles: AtomicU32,
    /// Doorbells handed out so far, if the context has a fixed number.
    doorbells: AtomicU32,
    /// The number of every UAR page.
    page: OnceLock<u32>,
    /// The errnos with which contexts with firmware commands are refused, and any others.
    refusals: [OnceLock<Errno>; 2],
    /// The port attributes of a kernel that has no command for GIDs.
    port: OnceLock<ib_uverbs_query_port_resp_ex>,
    /// The pages by which completion queues are armed: according to the driver data, and according
    /// to the attribute.
    armed: Mutex<Vec<[Option<u32>; 2]>>,
    /// Completions carry only the device's numbers.
    by_device: bool,
    /// By the objects that have them: to look through all would empty the processor's caches.
    rings: Mutex<BTreeMap<u32, Vec<Ring>>>,
}

impl Adapter {
    /// One whose completions carry only the device's numbers.
    #[cfg(test)]
    pub(crate) fn by_device() -> Self {
        Self(Arc::new(Inner {
            by_device: true,
            ..Inner::default()
        }))
    }

    /// The driver's reply for a context.
    fn opened(&self, input: &[u8]) -> mlx5_ib_alloc_ucontext_resp {
        mlx5_ib_alloc_ucontext_resp {
            cqe_version: (!self.0.by_device).into(),
            ..opened(input)
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Vec<Ring>>> {
        self.0.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One whose UAR pages all have this number.
    #[cfg(test)]
    pub(crate) fn with_page(number: u32) -> Self {
        let adapter = Self::default();
        let _ = adapter.0.page.set(number);
        adapter
    }

    /// One that refuses contexts with firmware commands, and optionally all others.
    #[cfg(test)]
    pub(crate) fn refusing(with_devx: Errno, others: Option<Errno>) -> Self {
        let adapter = Self::default();
        let [first, second] = &adapter.0.refusals;
        let _ = first.set(with_devx);
        if let Some(errno) = others {
            let _ = second.set(errno);
        }
        adapter
    }

    /// One of a kernel before 5.10, which has no command for GIDs, with such ports.
    #[cfg(test)]
    pub(crate) fn with_ports(port: ib_uverbs_query_port_resp_ex) -> Self {
        let adapter = Self::default();
        let _ = adapter.0.port.set(port);
        adapter
    }

    /// The errno with which a context request is refused.
    fn refusal(&self, input: &[u8]) -> Result<(), Errno> {
        let devx = request(input).flags & MLX5_IB_ALLOC_UCTX_DEVX != 0;
        match self.0.refusals[usize::from(!devx)].get() {
            Some(errno) => Err(*errno),
            None => Ok(()),
        }
    }

    /// The page by which each completion queue is armed: according to the driver data, and
    /// according to the attribute.
    #[cfg(test)]
    pub(crate) fn armed(&self) -> Vec<[Option<u32>; 2]> {
        let armed = self.0.armed.lock();
        armed.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The existing queues.
    pub(crate) fn rings(&self) -> Vec<Ring> {
        self.lock().values().flatten().copied().collect()
    }

    /// Writes eight bytes as the device does; does nothing if the queue is gone, or ends before
    /// them.
    pub(crate) fn write(&self, ring: &Ring, offset: usize, value: u64) {
        let rings = self.lock();
        let of_owner = rings.get(&ring.owner).into_iter().flatten();
        let lives = of_owner
            .map(|other| other.address)
            .any(|at| at == ring.address);
        if !lives || !offset.is_multiple_of(8) || offset + 8 > ring.len {
            return;
        }
        let Ok(address) = usize::try_from(ring.address) else {
            return;
        };
        let word = with_exposed_provenance_mut::<u64>(address + offset);
        if ring.is_record() {
            for (at, half) in value.to_ne_bytes().as_chunks().0.iter().enumerate() {
                // SAFETY: a half of a record that the library keeps; it accesses records by halves,
                // too.
                let place = unsafe { AtomicU32::from_ptr(word.cast::<u32>().wrapping_add(at)) };
                place.store(u32::from_ne_bytes(*half), Ordering::Relaxed);
            }
            return;
        }
        // SAFETY: inside a queue that the library keeps, as just checked, and aligned, because
        // queues start at pages; the library accesses it by words, too.
        let word = unsafe { AtomicU64::from_ptr(word) };
        word.store(value, Ordering::Release);
    }

    fn new_handle(&self) -> u32 {
        1 + self.0.handles.fetch_add(1, Ordering::Relaxed)
    }

    /// The doorbell of the next queue pair: first those for a single queue pair, then the others in
    /// turn. The kernel numbers four per page, of which it hands out two.
    fn doorbell(&self) -> u32 {
        let before = self.0.doorbells.fetch_add(1, Ordering::Relaxed);
        let shared = DOORBELLS - ALONE;
        let number = match before.checked_sub(ALONE) {
            None => shared + before,
            Some(before) => 1 + before % (shared - 1),
        };
        number / 2 * 4 + number % 2
    }

    fn ioctl(&self, command: &Command<'_>) -> Result<(), Errno> {
        let what = (command.object, command.method);
        let mut handle = 0;
        if what == (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY)
            && self.0.port.get().is_some()
        {
            return Err(Errno::PROTONOSUPPORT);
        }
        if what == (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) {
            self.refusal(command.uhw.input)?;
        }
        for attr in command.attrs.iter().chain(command.uhw.attrs) {
            match &attr.value {
                Value::Out(cells, written) => {
                    let of_page = |id| {
                        what == (MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC) && attr.id == id
                    };
                    if of_page(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH) {
                        put(cells, &4096_u32);
                    } else if of_page(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID) {
                        put(cells, self.0.page.get_or_init(|| 0x77));
                    } else if what == (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT) {
                        put(cells, &self.0.port.get().copied().unwrap_or_default());
                    } else if attr.id != UVERBS_ATTR_CORE_OUT && cells.len() == 4 {
                        put(cells, &0x77_u32);
                    }
                    written.set(true);
                }
                Value::NewObject(slot) => {
                    handle = self.new_handle();
                    slot.set(handle);
                }
                Value::NewFd(fd) => fd.set(Some(descriptor()?)),
                Value::Object(gone)
                    if what == (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY)
                        || what == (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY) =>
                {
                    self.lock().remove(gone);
                }
                _ => {}
            }
        }
        match what {
            (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) => {
                put(command.uhw.output, &self.opened(command.uhw.input));
            }
            (UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE) => self.note_cq(command, handle),
            (UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE) => {
                let reply = mlx5_ib_create_qp_resp {
                    bfreg_index: self.doorbell(),
                    ..mlx5_ib_create_qp_resp::default()
                };
                put(command.uhw.output, &reply);
                self.note_qp(&command.uhw, handle);
            }
            _ => {}
        }
        if let Some(number) = invoked(command) {
            let part = |id| command.attrs.iter().find(move |attr| attr.id == id);
            let request = match part(UVERBS_ATTR_CORE_IN).map(|attr| &attr.value) {
                Some(Value::In(bytes, _)) => *bytes,
                _ => &[],
            };
            let reply = match part(UVERBS_ATTR_CORE_OUT).map(|attr| &attr.value) {
                Some(Value::Out(cells, _)) => *cells,
                _ => &[],
            };
            self.legacy(number, request, reply, &command.uhw)?;
        }
        Ok(())
    }

    fn legacy(
        &self,
        number: u32,
        request: &[u8],
        reply: &[Cell<u8>],
        uhw: &Uhw<'_>,
    ) -> Result<(), Errno> {
        const QUERY_DEVICE: u32 =
            IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
        match number {
            IB_USER_VERBS_CMD_GET_CONTEXT => {
                let context = ib_uverbs_get_context_resp {
                    async_fd: 0,
                    num_comp_vectors: 4,
                };
                put(reply, &context);
                hand_out(number, reply)?;
                put(uhw.output, &self.opened(uhw.input));
            }
            IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL => {
                hand_out(number, reply)?;
            }
            QUERY_DEVICE => {
                let mut device = ib_uverbs_ex_query_device_resp::default();
                device.response_length =
                    u32::try_from(size_of_val(&device)).map_err(|_| Errno::INVAL)?;
                device.base.max_qp_wr = 32768;
                device.base.max_sge = 30;
                device.base.max_cqe = 4_194_303;
                device.base.max_srq_wr = 32767;
                device.base.max_srq_sge = 31;
                device.base.phys_port_cnt = 1;
                put(reply, &device);
                let mut more = mlx5_ib_query_device_resp::default();
                more.cqe_comp_caps.max_num = 64;
                more.cqe_comp_caps.supported_format =
                    MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM;
                more.dci_streams_caps.max_log_num_concurent = 4;
                put(uhw.output, &more);
            }
            IB_USER_VERBS_CMD_RESIZE_CQ => {
                let input = ib_uverbs_resize_cq::read_from_prefix(request);
                let ring = mlx5_ib_resize_cq::read_from_prefix(uhw.input);
                if let (Ok((input, _)), Ok((ring, _))) = (input, ring) {
                    self.note(input.cq_handle, ring.buf_addr, entries(input.cqe), true);
                }
                put(reply, &77_u32);
            }
            _ => put(reply, &self.new_handle()),
        }
        Ok(())
    }

    fn note(&self, owner: u32, address: u64, len: usize, of_completions: bool) {
        self.lock().entry(owner).or_default().push(Ring {
            owner,
            address,
            len,
            of_completions,
        });
    }

    fn note_cq(&self, command: &Command<'_>, handle: u32) {
        let input = command.attrs.iter().find_map(|attr| match &attr.value {
            Value::In(bytes, _) if attr.id == UVERBS_ATTR_CREATE_CQ_CQE => {
                u32::read_from_prefix(bytes).ok().map(|(count, _)| count)
            }
            Value::Constant(count) if attr.id == UVERBS_ATTR_CREATE_CQ_CQE => {
                u32::try_from(*count).ok()
            }
            _ => None,
        });
        let driver_data = mlx5_ib_create_cq::read_from_prefix(command.uhw.input);
        if let (Some(input), Ok((driver_data, _))) = (input, driver_data) {
            let by_driver_data =
                u32::from(driver_data.flags) & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0;
            let by_attribute = command.uhw.attrs.iter().find_map(|attr| match &attr.value {
                Value::In(bytes, _) if attr.id == MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX => {
                    u32::read_from_prefix(bytes).ok().map(|(page, _)| page)
                }
                _ => None,
            });
            let page = by_driver_data.then(|| driver_data.uar_page_index.into());
            let armed = self.0.armed.lock();
            armed
                .unwrap_or_else(PoisonError::into_inner)
                .push([page, by_attribute]);
            self.note(handle, driver_data.buf_addr, entries(input), true);
            self.note(handle, driver_data.db_addr, 8, false);
        }
    }

    fn note_qp(&self, uhw: &Uhw<'_>, handle: u32) {
        if let Ok((driver_data, _)) = mlx5_ib_create_qp::read_from_prefix(uhw.input) {
            let len = u64::from(driver_data.sq_wqe_count) * 64
                + (u64::from(driver_data.rq_wqe_count) << driver_data.rq_wqe_shift);
            let len = usize::try_from(len).unwrap_or(0);
            self.note(handle, driver_data.buf_addr, len, false);
            self.note(handle, driver_data.db_addr, 8, false);
        }
    }
}

/// The request for a context, which may have fewer bytes.
fn request(input: &[u8]) -> mlx5_ib_alloc_ucontext_req_v2 {
    let mut request = mlx5_ib_alloc_ucontext_req_v2::default();
    let bytes = request.as_mut_bytes();
    let length = input.len().min(bytes.len());
    bytes[..length].copy_from_slice(&input[..length]);
    request
}

/// The driver's reply for a context, given the request.
fn opened(input: &[u8]) -> mlx5_ib_alloc_ucontext_resp {
    let fixed = request(input).lib_caps & MLX5_LIB_CAP_DYN_UAR == 0;
    mlx5_ib_alloc_ucontext_resp {
        tot_bfregs: if fixed { DOORBELLS } else { 0 },
        bf_reg_size: 512,
        cache_line_size: 64,
        max_sq_desc_sz: 1024,
        max_rq_desc_sz: 512,
        max_send_wqebb: 32768,
        max_recv_wr: 32768,
        max_srq_recv_wr: 32767,
        num_ports: 1,
        cqe_version: 1,
        cmds_supp_uhw: RESOLVES,
        num_uars_per_page: 1,
        ..mlx5_ib_alloc_ucontext_resp::default()
    }
}

/// Length of a ring whose last entry has index `last`.
fn entries(last: u32) -> usize {
    (last as usize + 1) * ENTRY
}

/// Copies a reply into its cells, as far as it fits.
fn put<T: IntoBytes + zerocopy::Immutable>(cells: &[Cell<u8>], value: &T) {
    cells
        .iter()
        .zip(value.as_bytes())
        .for_each(|(cell, byte)| cell.set(*byte));
}

// SAFETY: descriptors in attributes and in replies are new ones, given away here.
unsafe impl Kernel for Adapter {
    unsafe fn call(&self, _: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        match call {
            Call::Ioctl(command) => self.ioctl(command)?,
            Call::Write(command) => self.legacy(
                command.number(),
                command.request,
                command.reply,
                &command.uhw,
            )?,
            Call::Map { len, .. } => return Mapping::anonymous(len).map(Reply::Mapped),
            Call::Read(_) => return Err(Errno::AGAIN),
            Call::Cm(_) => return Err(Errno::NOSYS),
        }
        Ok(Reply::Done)
    }
}

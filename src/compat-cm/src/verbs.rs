//! libibverbs, by its public names and by what its headers call.
//!
//! # Safety
//!
//! The functions are those of the C library of that name, whose headers say what they take: objects
//! that it returned and that are not destroyed yet, and structs for the length of the call. Objects
//! come from it, or from the program, which keeps the same rules. Slots of an opened device are the
//! functions that the header says, or NULL.
#![allow(unsafe_code, reason = "calls a C library")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use uverbs_compat_base::abi::{
    Slot, ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr,
    ibv_ece, ibv_gid, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr,
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_srq, ibv_srq_init_attr, ibv_srq_init_attr_ex,
    ibv_xrcd, ibv_xrcd_init_attr, verbs_context,
};
use uverbs_core::cm::raw::{ib_uverbs_ah_attr, ib_uverbs_qp_attr};

use crate::answer::Answer;
use crate::errno::Code;

/// An entry of a table of GIDs, whose size libibverbs is told.
const ENTRY: usize = size_of::<ibv_gid_entry>();

unsafe extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    fn ibv_free_device_list(list: *mut *mut ibv_device);
    fn ibv_get_device_index(device: *mut ibv_device) -> c_int;
    fn ibv_get_device_guid(device: *mut ibv_device) -> u64;
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    fn ibv_close_device(context: *mut ibv_context) -> c_int;
    fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int;
    fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int;
    fn _ibv_query_gid_table(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        room: usize,
        flags: u32,
        size: usize,
    ) -> isize;
    fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    fn ibv_destroy_ah(handle: *mut ibv_ah) -> c_int;
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    fn ibv_create_cq(
        context: *mut ibv_context,
        entries: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq;
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    fn ibv_ack_cq_events(cq: *mut ibv_cq, events: u32);
    fn ibv_reg_mr(
        pd: *mut ibv_pd,
        address: *mut c_void,
        length: usize,
        access: c_int,
    ) -> *mut ibv_mr;
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
    fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    fn ibv_copy_qp_attr_from_kern(into: *mut ibv_qp_attr, from: *const ib_uverbs_qp_attr);
    fn ibv_copy_ah_attr_from_kern(into: *mut ibv_ah_attr, from: *const ib_uverbs_ah_attr);
}

type CreateQp = extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
type CreateSrq = extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
type OpenXrcd = extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd;
type CloseXrcd = extern "C" fn(*mut ibv_xrcd) -> c_int;

/// An array of devices, which ends with NULL and holds a reference to each.
#[derive(Debug)]
pub(crate) struct DeviceList(*mut *mut ibv_device);

// SAFETY: the array is this value's alone, and its functions may be called by any thread.
unsafe impl Send for DeviceList {}

impl DeviceList {
    pub(crate) fn new() -> Answer<Self> {
        // SAFETY: no count is wanted.
        let list = unsafe { ibv_get_device_list(std::ptr::null_mut()) };
        made(list).map(Self)
    }

    /// The devices.
    pub(crate) fn all(&self) -> impl Iterator<Item = *mut ibv_device> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            // SAFETY: the last item, behind which nothing is read, is NULL.
            let device = unsafe { at.read() };
            at = at.wrapping_add(1);
            (!device.is_null()).then_some(device)
        })
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the array of this value, which is not used afterwards.
        unsafe { ibv_free_device_list(self.0) };
    }
}

fn made<T>(pointer: *mut T) -> Answer<*mut T> {
    if pointer.is_null() {
        return Err(Code::last());
    }
    Ok(pointer)
}

fn done(code: c_int) -> Answer<()> {
    match code {
        0 => Ok(()),
        // Some return -1 and set errno.
        ..0 => Err(Code::last()),
        code => Err(Code::new(code)),
    }
}

/// Wrappers that only add the conversion of what is returned.
macro_rules! functions {
    ($( $(#[$meta:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $out:ty = $how:ident $c:ident; )*) => {$(
        $(#[$meta])*
        pub(crate) fn $name($($arg: $kind),*) -> Answer<$out> {
            // SAFETY: objects are the library's own and not destroyed; structs are there.
            $how(unsafe { $c($($arg),*) })
        }
    )*};
}

functions! {
    fn open_device(device: *mut ibv_device) -> *mut ibv_context = made ibv_open_device;
    fn close_device(context: *mut ibv_context) -> () = done ibv_close_device;
    fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd = made ibv_alloc_pd;
    fn dealloc_pd(pd: *mut ibv_pd) -> () = done ibv_dealloc_pd;
    fn create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel = made ibv_create_comp_channel;
    fn destroy_comp_channel(channel: *mut ibv_comp_channel) -> () = done ibv_destroy_comp_channel;
    fn create_cq(
        context: *mut ibv_context,
        entries: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        vector: c_int
    ) -> *mut ibv_cq = made ibv_create_cq;
    fn destroy_cq(cq: *mut ibv_cq) -> () = done ibv_destroy_cq;
    fn get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: &mut *mut ibv_cq,
        cq_context: &mut *mut c_void
    ) -> () = done ibv_get_cq_event;
    /// The memory stays registered, and there, until it is deregistered.
    fn reg_mr(
        pd: *mut ibv_pd,
        address: *mut c_void,
        length: usize,
        access: c_int
    ) -> *mut ibv_mr = made ibv_reg_mr;
    fn dereg_mr(mr: *mut ibv_mr) -> () = done ibv_dereg_mr;
    fn create_ah(pd: *mut ibv_pd, attr: &mut ibv_ah_attr) -> *mut ibv_ah = made ibv_create_ah;
    fn destroy_ah(handle: *mut ibv_ah) -> () = done ibv_destroy_ah;
    fn destroy_srq(srq: *mut ibv_srq) -> () = done ibv_destroy_srq;
    fn modify_qp(qp: *mut ibv_qp, attr: &mut ibv_qp_attr, mask: c_int) -> () = done ibv_modify_qp;
    fn destroy_qp(qp: *mut ibv_qp) -> () = done ibv_destroy_qp;
    fn query_ece(qp: *mut ibv_qp, ece: &mut ibv_ece) -> () = done ibv_query_ece;
    fn set_ece(qp: *mut ibv_qp, ece: &mut ibv_ece) -> () = done ibv_set_ece;
    fn attach_mcast(qp: *mut ibv_qp, gid: &ibv_gid, lid: u16) -> () = done ibv_attach_mcast;
    fn detach_mcast(qp: *mut ibv_qp, gid: &ibv_gid, lid: u16) -> () = done ibv_detach_mcast;
}

/// A device's attributes.
pub(crate) fn query_device(context: *mut ibv_context) -> Answer<ibv_device_attr> {
    let mut attr = MaybeUninit::zeroed();
    // SAFETY: an opened device, and room for the struct.
    done(unsafe { ibv_query_device(context, attr.as_mut_ptr()) })?;
    // SAFETY: its fields are numbers, any bytes are valid.
    Ok(unsafe { attr.assume_init() })
}

/// A port's attributes, the first 48 bytes; zeros behind them.
pub(crate) fn query_port(context: *mut ibv_context, port: u8) -> Answer<ibv_port_attr> {
    let mut attr = MaybeUninit::zeroed();
    // SAFETY: an opened device, and room for the struct.
    done(unsafe { ibv_query_port(context, port, attr.as_mut_ptr()) })?;
    // SAFETY: its fields are numbers, any bytes are valid.
    Ok(unsafe { attr.assume_init() })
}

/// The GIDs of all ports of a device, if there are no more than so many.
pub(crate) fn query_gids(context: *mut ibv_context, room: usize) -> Answer<Vec<ibv_gid_entry>> {
    let (mut entries, size) = (Vec::<ibv_gid_entry>::with_capacity(room), ENTRY);
    // SAFETY: an opened device, and room for so many structs of this size.
    let found = unsafe { _ibv_query_gid_table(context, entries.as_mut_ptr(), room, 0, size) };
    match usize::try_from(found) {
        Ok(len) if len <= room => {
            // SAFETY: so many were written, and there is room for them.
            unsafe { entries.set_len(len) };
            Ok(entries)
        }
        Ok(_) => Err(Code::INVALID),
        Err(_) => Err(Code::new(
            i32::try_from(found.unsigned_abs()).unwrap_or(libc::EIO),
        )),
    }
}

/// Counts one event as dealt with.
pub(crate) fn ack_cq_event(cq: *mut ibv_cq) {
    // SAFETY: a queue that is not destroyed.
    unsafe { ibv_ack_cq_events(cq, 1) };
}

/// Its index for netlink; -1 if it is not known.
pub(crate) fn device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: a device of an array that is held.
    unsafe { ibv_get_device_index(device) }
}

/// Its node GUID, in network order.
pub(crate) fn device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: a device of an array that is held.
    unsafe { ibv_get_device_guid(device) }
}

/// The attributes that the kernel gave, as libibverbs has them.
pub(crate) fn qp_attr(kernel: &ib_uverbs_qp_attr, attr: &mut ibv_qp_attr) {
    // SAFETY: both structs are there.
    unsafe { ibv_copy_qp_attr_from_kern(attr, kernel) };
}

/// The address that the kernel gave, as libibverbs has it.
pub(crate) fn ah_attr(kernel: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    let mut attr = ibv_ah_attr::default();
    // SAFETY: both structs are there.
    unsafe { ibv_copy_ah_attr_from_kern(&raw mut attr, kernel) };
    attr
}

/// `__VERBS_ABI_IS_EXTENDED`.
const EXTENDED: usize = usize::MAX;

/// The slot at an offset of the struct that an opened device is the end of; NULL if its library has
/// none.
fn slot(context: *mut ibv_context, at: usize) -> Slot {
    // SAFETY: an opened device.
    if unsafe { (*context).abi_compat }.addr() != EXTENDED {
        return std::ptr::null();
    }
    let before = std::mem::offset_of!(verbs_context, context);
    let whole = context.wrapping_byte_sub(before).cast::<verbs_context>();
    // SAFETY: the size is in front of the opened device, as its mark says.
    let size = unsafe { (*whole).sz };
    if size < size_of::<verbs_context>() - at {
        return std::ptr::null();
    }
    // SAFETY: the library's struct reaches that far, as its size says.
    unsafe { whole.wrapping_byte_add(at).cast::<Slot>().read() }
}

/// The function of the slot with this name.
macro_rules! slot {
    ($context:expr, $field:ident as $kind:ty) => {{
        let found = slot($context, std::mem::offset_of!(verbs_context, $field));
        if found.is_null() {
            return Err(Code::UNSUPPORTED);
        }
        // SAFETY: the slot has a function of this type.
        unsafe { std::mem::transmute::<Slot, $kind>(found) }
    }};
}

/// `IBV_QP_INIT_ATTR_PD`.
pub(crate) const QP_PD: u32 = 1 << 0;
/// `IBV_QP_INIT_ATTR_XRCD`.
pub(crate) const QP_XRCD: u32 = 1 << 1;
/// `IBV_SRQ_INIT_ATTR_TYPE`.
pub(crate) const SRQ_TYPE: u32 = 1 << 0;
/// `IBV_SRQ_INIT_ATTR_PD`.
pub(crate) const SRQ_PD: u32 = 1 << 1;
/// `IBV_SRQ_INIT_ATTR_XRCD`.
pub(crate) const SRQ_XRCD: u32 = 1 << 2;
/// `IBV_SRQ_INIT_ATTR_CQ`.
pub(crate) const SRQ_CQ: u32 = 1 << 3;

/// `ibv_create_qp_ex` of the header.
pub(crate) fn create_qp(
    context: *mut ibv_context,
    attr: &mut ibv_qp_init_attr_ex,
) -> Answer<*mut ibv_qp> {
    let pd = attr.pd;
    let attr = std::ptr::from_mut(attr);
    // SAFETY: the struct that was just given.
    if unsafe { (*attr).comp_mask } == QP_PD {
        // SAFETY: the longer struct begins as the shorter one.
        return made(unsafe { ibv_create_qp(pd, attr.cast()) });
    }
    made(slot!(context, create_qp_ex as CreateQp)(context, attr))
}

/// `ibv_create_srq_ex` of the header.
pub(crate) fn create_srq(
    context: *mut ibv_context,
    attr: &mut ibv_srq_init_attr_ex,
) -> Answer<*mut ibv_srq> {
    let is_basic = attr.comp_mask & !(SRQ_TYPE | SRQ_PD) == 0 && attr.srq_type == 0;
    let pd = attr.pd;
    let attr = std::ptr::from_mut(attr);
    if is_basic {
        // SAFETY: the longer struct begins as the shorter one.
        return made(unsafe { ibv_create_srq(pd, attr.cast()) });
    }
    made(slot!(context, create_srq_ex as CreateSrq)(context, attr))
}

/// `ibv_open_xrcd` of the header: a domain of this process alone.
pub(crate) fn open_xrcd(context: *mut ibv_context) -> Answer<*mut ibv_xrcd> {
    const FD_AND_FLAGS: u32 = 1 << 0 | 1 << 1;
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: FD_AND_FLAGS,
        fd: -1,
        oflags: libc::O_CREAT,
    };
    made(slot!(context, open_xrcd as OpenXrcd)(
        context,
        &raw mut attr,
    ))
}

/// `ibv_close_xrcd` of the header.
pub(crate) fn close_xrcd(context: *mut ibv_context, xrcd: *mut ibv_xrcd) -> Answer<()> {
    done(slot!(context, close_xrcd as CloseXrcd)(xrcd))
}

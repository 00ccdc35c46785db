//! The library's functions, as a C program calls them.
//!
//! # Safety
//!
//! The tests are such programs: they pass objects that were created and not destroyed since, and
//! structs that live during the call; memory that requests name stays registered until they have
//! completed. What is called through a pointer is what the header has at that place.
#![allow(unsafe_code, reason = "calls C functions")]

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use uverbs_compat_base::abi::{
    Slot, ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_gid, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_ex,
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_srq_init_attr,
    ibv_wc, verbs_context,
};
// Its functions are called by their C names only.
use uverbs_compat as _;

/// The address of an object of the library, which all threads may use.
pub struct At<T>(NonNull<T>);

impl<T> std::fmt::Debug for At<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

// SAFETY: the library promises that its functions may be called from any thread.
unsafe impl<T> Send for At<T> {}
// SAFETY: the same.
unsafe impl<T> Sync for At<T> {}

impl<T> Clone for At<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for At<T> {}

impl<T> At<T> {
    /// What a function returned; `None` for NULL.
    pub fn new(raw: *mut T) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// The pointer.
    pub fn raw(self) -> *mut T {
        self.0.as_ptr()
    }

    /// The struct.
    fn get(&self) -> &T {
        // SAFETY: an object that was not destroyed yet.
        unsafe { self.0.as_ref() }
    }

    /// The same object with the struct that begins with its own.
    pub fn cast<U>(self) -> At<U> {
        At(self.0.cast())
    }
}

/// Functions of one object that make another one, and those that end one.
macro_rules! of_one {
    (
        makes { $($make:ident = $make_name:ident: $from:ty => $made:ty;)* }
        ends { $($end:ident = $end_name:ident: $ended:ty;)* }
    ) => {
        unsafe extern "C" {
            $( fn $make_name(of: *mut $from) -> *mut $made; )*
            $( fn $end_name(object: *mut $ended) -> c_int; )*
        }
        $(
            #[doc = concat!("`", stringify!($make_name), "`")]
            pub fn $make(of: At<$from>) -> Option<At<$made>> {
                // SAFETY: see above.
                At::new(unsafe { $make_name(of.raw()) })
            }
        )*
        $(
            #[doc = concat!("`", stringify!($end_name), "`")]
            pub fn $end(object: At<$ended>) -> c_int {
                // SAFETY: see above.
                unsafe { $end_name(object.raw()) }
            }
        )*
    };
}

of_one! {
    makes {
        alloc_pd = ibv_alloc_pd: ibv_context => ibv_pd;
        create_channel = ibv_create_comp_channel: ibv_context => ibv_comp_channel;
    }
    ends {
        close = ibv_close_device: ibv_context;
        dealloc_pd = ibv_dealloc_pd: ibv_pd;
        dereg_mr = ibv_dereg_mr: ibv_mr;
        destroy_ah = ibv_destroy_ah: ibv_ah;
        destroy_channel = ibv_destroy_comp_channel: ibv_comp_channel;
        destroy_cq = ibv_destroy_cq: ibv_cq;
        destroy_qp = ibv_destroy_qp: ibv_qp;
        destroy_srq = ibv_destroy_srq: ibv_srq;
    }
}

unsafe extern "C" {
    fn ibv_create_cq(
        context: *mut ibv_context,
        entries: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq;
    fn ibv_reg_mr(pd: *mut ibv_pd, start: *mut c_void, len: usize, access: c_int) -> *mut ibv_mr;
    fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    fn ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        init: *mut ibv_qp_init_attr,
    ) -> c_int;
    fn ibv_query_gid(context: *mut ibv_context, port: u8, at: c_int, gid: *mut ibv_gid) -> c_int;
    fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    fn ibv_ack_cq_events(cq: *mut ibv_cq, events: u32);
    fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    fn ibv_ack_async_event(event: *mut ibv_async_event);
}

/// `ibv_reg_mr` with local access
pub fn reg_mr(pd: At<ibv_pd>, start: At<c_void>, len: usize) -> Option<At<ibv_mr>> {
    // SAFETY: see above.
    At::new(unsafe { ibv_reg_mr(pd.raw(), start.raw(), len, 1) })
}

/// `ibv_create_cq`
pub fn create_cq(
    context: At<ibv_context>,
    entries: c_int,
    mark: usize,
    channel: Option<At<ibv_comp_channel>>,
) -> Option<At<ibv_cq>> {
    let channel = channel.map_or(null_mut(), At::raw);
    let mark = std::ptr::without_provenance_mut(mark);
    // SAFETY: see above.
    At::new(unsafe { ibv_create_cq(context.raw(), entries, mark, channel, 0) })
}

/// `ibv_create_qp`
pub fn create_qp(pd: At<ibv_pd>, mut attr: ibv_qp_init_attr) -> Option<At<ibv_qp>> {
    // SAFETY: see above.
    At::new(unsafe { ibv_create_qp(pd.raw(), &raw mut attr) })
}

/// `ibv_create_srq`
pub fn create_srq(pd: At<ibv_pd>, mut attr: ibv_srq_init_attr) -> Option<At<ibv_srq>> {
    // SAFETY: see above.
    At::new(unsafe { ibv_create_srq(pd.raw(), &raw mut attr) })
}

/// `ibv_create_ah`
pub fn create_ah(pd: At<ibv_pd>, mut attr: ibv_ah_attr) -> Option<At<ibv_ah>> {
    // SAFETY: see above.
    At::new(unsafe { ibv_create_ah(pd.raw(), &raw mut attr) })
}

/// `ibv_qp_to_qp_ex`
pub fn extended(qp: At<ibv_qp>) -> Option<At<ibv_qp_ex>> {
    // SAFETY: see above.
    At::new(unsafe { ibv_qp_to_qp_ex(qp.raw()) })
}

/// `ibv_modify_qp`
pub fn modify_qp(qp: At<ibv_qp>, attr: &mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: see above.
    unsafe { ibv_modify_qp(qp.raw(), attr, mask) }
}

/// `ibv_query_qp`
pub fn query_qp(qp: At<ibv_qp>, attr: &mut ibv_qp_attr) -> c_int {
    // SAFETY: see above.
    unsafe { ibv_query_qp(qp.raw(), attr, 1, null_mut()) }
}

/// `ibv_query_gid` of port 1
pub fn query_gid(context: At<ibv_context>, at: c_int, gid: &mut ibv_gid) -> c_int {
    // SAFETY: see above.
    unsafe { ibv_query_gid(context.raw(), 1, at, gid) }
}

/// `ibv_get_cq_event`, with the number that the queue was created with
pub fn get_cq_event(channel: At<ibv_comp_channel>) -> Option<(At<ibv_cq>, usize)> {
    let (mut cq, mut mark) = (null_mut(), null_mut());
    // SAFETY: see above.
    match unsafe { ibv_get_cq_event(channel.raw(), &raw mut cq, &raw mut mark) } {
        0 => At::new(cq).map(|cq| (cq, mark.addr())),
        _ => None,
    }
}

/// `ibv_ack_cq_events`
pub fn ack_cq_events(cq: At<ibv_cq>, events: u32) {
    // SAFETY: see above.
    unsafe { ibv_ack_cq_events(cq.raw(), events) }
}

/// `ibv_get_async_event`
pub fn get_async_event(context: At<ibv_context>) -> Option<ibv_async_event> {
    let mut event = ibv_async_event {
        element: 0,
        event_type: 0,
    };
    // SAFETY: see above.
    let got = unsafe { ibv_get_async_event(context.raw(), &raw mut event) };
    (got == 0).then_some(event)
}

/// `ibv_ack_async_event`
pub fn ack_async_event(mut event: ibv_async_event) {
    // SAFETY: see above.
    unsafe { ibv_ack_async_event(&raw mut event) }
}

/// The function at a place that a header calls.
fn function<F: Copy>(slot: Slot) -> F {
    assert!(!slot.is_null() && size_of::<F>() == size_of::<Slot>());
    // SAFETY: not NULL, and the caller names the type that the header has at that place.
    unsafe { std::mem::transmute_copy(&slot) }
}

/// The function in a slot of the plain context.
fn operation<F: Copy>(context: *mut ibv_context, at: usize) -> F {
    // SAFETY: a context that is open.
    let operations = unsafe { &(*context).ops };
    function(operations[at])
}

/// `ibv_poll_cq`
pub fn poll_cq(cq: At<ibv_cq>, room: &mut [ibv_wc]) -> c_int {
    type Poll = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
    let poll: Poll = operation(cq.get().context, 11);
    let count = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
    // SAFETY: see above.
    unsafe { poll(cq.raw(), count, room.as_mut_ptr()) }
}

/// `ibv_req_notify_cq`
pub fn req_notify_cq(cq: At<ibv_cq>) -> c_int {
    type Arm = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
    let arm: Arm = operation(cq.get().context, 12);
    // SAFETY: see above.
    unsafe { arm(cq.raw(), 0) }
}

/// `ibv_post_send`
pub fn post_send(qp: At<ibv_qp>, request: &mut ibv_send_wr) -> c_int {
    type Post = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
    let post: Post = operation(qp.get().context, 25);
    let mut bad = null_mut();
    // SAFETY: see above.
    unsafe { post(qp.raw(), request, &raw mut bad) }
}

/// `ibv_post_recv`
pub fn post_recv(qp: At<ibv_qp>, request: &mut ibv_recv_wr) -> c_int {
    type Post = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
    let post: Post = operation(qp.get().context, 26);
    let mut bad = null_mut();
    // SAFETY: see above.
    unsafe { post(qp.raw(), request, &raw mut bad) }
}

/// `ibv_query_port` of port 1, as old headers call it
pub fn query_port(context: At<ibv_context>) -> Option<ibv_port_attr> {
    type Query = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    let query: Query = operation(context.raw(), 1);
    let mut attr = std::mem::MaybeUninit::<ibv_port_attr>::zeroed();
    // SAFETY: see above.
    let answer = unsafe { query(context.raw(), 1, attr.as_mut_ptr()) };
    // SAFETY: the struct has numbers only.
    (answer == 0).then(|| unsafe { attr.assume_init() })
}

/// The extended context around a plain one.
fn whole(context: At<ibv_context>) -> *mut verbs_context {
    let offset = std::mem::offset_of!(verbs_context, context);
    context.raw().wrapping_byte_sub(offset).cast()
}

/// `ibv_create_qp_ex`
pub fn create_qp_ex(
    context: At<ibv_context>,
    attr: &mut ibv_qp_init_attr_ex,
) -> Option<At<ibv_qp>> {
    type Create = unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    // SAFETY: an open context is extended.
    let create: Create = function(unsafe { (*whole(context)).create_qp_ex });
    // SAFETY: see above.
    At::new(unsafe { create(context.raw(), attr) })
}

/// `ibv_create_cq_ex`
pub fn create_cq_ex(
    context: At<ibv_context>,
    attr: &mut ibv_cq_init_attr_ex,
) -> Option<At<ibv_cq_ex>> {
    type Create =
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
    // SAFETY: an open context is extended.
    let create: Create = function(unsafe { (*whole(context)).create_cq_ex });
    // SAFETY: see above.
    At::new(unsafe { create(context.raw(), attr) })
}

/// `ibv_wr_start`, a send of one entry, and `ibv_wr_complete`
pub fn compose_send(qp: At<ibv_qp_ex>, wr_id: u64, (lkey, addr, len): (u32, u64, u32)) -> c_int {
    type Start = unsafe extern "C" fn(*mut ibv_qp_ex);
    type Entry = unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32);
    type Complete = unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int;
    let own = qp.get();
    // SAFETY: see above; what follows is this thread's until it completes.
    unsafe { function::<Start>(own.wr_start)(qp.raw()) };
    own.wr_id.set(wr_id);
    // `IBV_SEND_SIGNALED`
    own.wr_flags.set(2);
    // SAFETY: see above.
    unsafe { function::<Start>(own.wr_send)(qp.raw()) };
    // SAFETY: see above.
    unsafe { function::<Entry>(own.wr_set_sge)(qp.raw(), lkey, addr, len) };
    // SAFETY: see above.
    unsafe { function::<Complete>(own.wr_complete)(qp.raw()) }
}

/// `ibv_start_poll`, `ibv_next_poll` until there is none, and `ibv_end_poll`: numbers, statuses and
/// operations
pub fn take_all(cq: At<ibv_cq_ex>) -> Vec<(u64, u32, u32)> {
    type Start = unsafe extern "C" fn(*mut ibv_cq_ex, *const c_void) -> c_int;
    type Next = unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int;
    type End = unsafe extern "C" fn(*mut ibv_cq_ex);
    type Read = unsafe extern "C" fn(*mut ibv_cq_ex) -> u32;
    let mut taken = Vec::new();
    let (own, nothing) = (cq.get(), 0_u32);
    // SAFETY: see above; the attributes are one word.
    if unsafe { function::<Start>(own.start_poll)(cq.raw(), (&raw const nothing).cast()) } != 0 {
        return taken;
    }
    loop {
        // SAFETY: see above.
        let opcode = unsafe { function::<Read>(own.read_opcode)(cq.raw()) };
        taken.push((own.wr_id.get(), own.status.get(), opcode));
        // SAFETY: see above.
        if unsafe { function::<Next>(own.next_poll)(cq.raw()) } != 0 {
            break;
        }
    }
    // SAFETY: see above.
    unsafe { function::<End>(own.end_poll)(cq.raw()) };
    taken
}

/// The key of a region.
pub fn lkey(mr: At<ibv_mr>) -> u32 {
    mr.get().lkey.get()
}

/// The number of a queue pair.
pub fn number(qp: At<ibv_qp>) -> u32 {
    qp.get().qp_num.get()
}

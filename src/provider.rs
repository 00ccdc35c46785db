//! The only file that names providers: one enum per kind of handle, one `match` per call.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use uverbs_driver::contract::{
    Context as _, Cq as _, CqInit, DmabufInit, Gids, Mr, MrInit, Qp as _, QpInit, Srq as _, SrqInit,
};
use uverbs_driver::discover::DeviceInfo;
use uverbs_driver::types::{
    AccessFlags, Address, AddressVector, DeviceAttr, DriverId, Ece, MwType, QpAttr, QpAttrMask,
    QpCaps, QpInfo, QpState, QpType, RecvRequest, RemoteKey, SendRequest, SrqAttr, SrqModify,
    WorkCompletion,
};
use uverbs_driver::{Channel, Error, ErrorKind, Object, Op, PollError, PostError, Result};

/// An opened device of any vendor.
#[derive(Debug)]
pub(crate) enum AnyContext {
    Mlx5(Box<uverbs_mlx5::Context>),
    Rxe(Box<uverbs_rxe::Context>),
}

/// A protection domain of any vendor.
#[derive(Debug)]
pub(crate) enum AnyPd {
    Mlx5(<uverbs_mlx5::Context as uverbs_driver::contract::Context>::Pd),
    Rxe(<uverbs_rxe::Context as uverbs_driver::contract::Context>::Pd),
}

/// A completion queue of any vendor.
#[derive(Debug)]
pub(crate) enum AnyCq {
    Mlx5(uverbs_mlx5::CompletionQueue),
    Rxe(uverbs_rxe::CompletionQueue),
}

/// A shared receive queue of any vendor.
#[derive(Debug)]
pub(crate) enum AnySrq {
    Mlx5(uverbs_mlx5::SharedReceiveQueue),
    Rxe(uverbs_rxe::SharedReceiveQueue),
}

/// A queue pair of any vendor.
#[derive(Debug)]
pub(crate) enum AnyQp {
    Mlx5(uverbs_mlx5::QueuePair),
    Rxe(uverbs_rxe::QueuePair),
}

/// The drivers there is a provider for.
pub(crate) const DRIVERS: &[DriverId] = &[DriverId::Mlx5, DriverId::Rxe];

/// The driver of a device that a provider speaks to in the kernel's version; `None` when discovery
/// could not tell whose driver it is.
pub(crate) fn supported(info: &DeviceInfo) -> Result<Option<DriverId>> {
    match info.driver_id() {
        None => Ok(None),
        Some(driver @ DriverId::Mlx5) => {
            info.check_abi(uverbs_mlx5::ABI_VERSIONS)?;
            Ok(Some(driver))
        }
        Some(driver @ DriverId::Rxe) => {
            info.check_abi(uverbs_rxe::ABI_VERSIONS)?;
            Ok(Some(driver))
        }
        Some(driver) => Err(Error::new(Op::OpenDevice, ErrorKind::Unsupported)
            .fact("device", info.name.clone())
            .fact("driver", driver.to_string())),
    }
}

/// A domain of another vendor's device.
#[cold]
fn foreign(op: Op) -> Error {
    Error::invalid(op, "protection domain").hint("it belongs to another device")
}

impl AnyContext {
    pub(crate) fn open(
        driver: DriverId,
        channel: Arc<Channel>,
        doorbells: uverbs_mlx5::Doorbells,
    ) -> Result<Self> {
        match driver {
            DriverId::Mlx5 => uverbs_mlx5::Context::open_with(channel, doorbells)
                .map(|context| Self::Mlx5(Box::new(context))),
            DriverId::Rxe => {
                uverbs_rxe::Context::open(channel).map(|context| Self::Rxe(Box::new(context)))
            }
            other => Err(Error::new(Op::OpenDevice, ErrorKind::Unsupported)
                .fact("driver", other.to_string())),
        }
    }

    /// The context of an mlx5 device.
    pub(crate) fn mlx5(&self) -> Option<&uverbs_mlx5::Context> {
        match self {
            Self::Mlx5(context) => Some(context),
            Self::Rxe(_) => None,
        }
    }

    /// The event file, if opening the context made one already.
    pub(crate) fn take_event_file(&mut self) -> Option<OwnedFd> {
        match self {
            Self::Mlx5(context) => context.opened_mut().async_fd.take(),
            Self::Rxe(context) => context.opened_mut().async_fd.take(),
        }
    }

    pub(crate) fn completion_vectors(&self) -> u32 {
        match self {
            Self::Mlx5(context) => context.opened().num_comp_vectors,
            Self::Rxe(context) => context.opened().num_comp_vectors,
        }
    }

    pub(crate) fn device(&self) -> &DeviceAttr {
        match self {
            Self::Mlx5(context) => context.device(),
            Self::Rxe(context) => context.device(),
        }
    }

    pub(crate) fn firmware_version(&self) -> String {
        match self {
            Self::Mlx5(context) => context.firmware_version(),
            Self::Rxe(context) => context.firmware_version(),
        }
    }

    pub(crate) fn alloc_pd(&self) -> Result<AnyPd> {
        match self {
            Self::Mlx5(context) => context.alloc_pd().map(AnyPd::Mlx5),
            Self::Rxe(context) => context.alloc_pd().map(AnyPd::Rxe),
        }
    }

    pub(crate) fn create_cq(&self, init: &CqInit<'_>) -> Result<AnyCq> {
        match self {
            Self::Mlx5(context) => context.create_cq(init).map(AnyCq::Mlx5),
            Self::Rxe(context) => context.create_cq(init).map(AnyCq::Rxe),
        }
    }

    pub(crate) fn create_srq(&self, pd: &AnyPd, init: &SrqInit) -> Result<AnySrq> {
        match (self, pd) {
            (Self::Mlx5(context), AnyPd::Mlx5(pd)) => {
                context.create_srq(pd, init).map(AnySrq::Mlx5)
            }
            (Self::Rxe(context), AnyPd::Rxe(pd)) => context.create_srq(pd, init).map(AnySrq::Rxe),
            _ => Err(foreign(Op::CreateSharedReceiveQueue)),
        }
    }

    pub(crate) fn create_qp(&self, pd: &AnyPd, init: &QpInit<'_>) -> Result<AnyQp> {
        match (self, pd) {
            (Self::Mlx5(context), AnyPd::Mlx5(pd)) => context.create_qp(pd, init).map(AnyQp::Mlx5),
            (Self::Rxe(context), AnyPd::Rxe(pd)) => context.create_qp(pd, init).map(AnyQp::Rxe),
            _ => Err(foreign(Op::CreateQueuePair)),
        }
    }

    pub(crate) fn create_address(
        &self,
        pd: &AnyPd,
        vector: &AddressVector,
        gids: &Gids<'_>,
    ) -> Result<Address> {
        match (self, pd) {
            (Self::Mlx5(context), AnyPd::Mlx5(pd)) => context.create_address(pd, vector, gids),
            (Self::Rxe(context), AnyPd::Rxe(pd)) => context.create_address(pd, vector, gids),
            _ => Err(foreign(Op::CreateAddressHandle)),
        }
    }

    pub(crate) fn check_memory(&self, op: Op, access: AccessFlags, moves: bool) -> Result<()> {
        match self {
            Self::Mlx5(context) => context.check_memory(op, access, moves),
            Self::Rxe(context) => context.check_memory(op, access, moves),
        }
    }

    pub(crate) fn register(
        &self,
        pd: &AnyPd,
        init: &MrInit,
        keep: impl Any + Send + Sync,
    ) -> Result<Mr> {
        match (self, pd) {
            (Self::Mlx5(context), AnyPd::Mlx5(pd)) => context.register(pd, init, keep),
            (Self::Rxe(context), AnyPd::Rxe(pd)) => context.register(pd, init, keep),
            _ => Err(foreign(Op::RegisterMemory)),
        }
    }

    pub(crate) fn register_dmabuf(&self, pd: &AnyPd, init: &DmabufInit<'_>) -> Result<Mr> {
        match (self, pd) {
            (Self::Mlx5(context), AnyPd::Mlx5(pd)) => context.register_dmabuf(pd, init),
            (Self::Rxe(context), AnyPd::Rxe(pd)) => context.register_dmabuf(pd, init),
            _ => Err(foreign(Op::RegisterMemory)),
        }
    }

    pub(crate) fn alloc_window(&self, pd: &AnyPd, kind: MwType) -> Result<(Object, RemoteKey)> {
        match (self, pd) {
            (Self::Mlx5(context), AnyPd::Mlx5(pd)) => context.alloc_window(pd, kind),
            (Self::Rxe(context), AnyPd::Rxe(pd)) => context.alloc_window(pd, kind),
            _ => Err(foreign(Op::AllocMemoryWindow)),
        }
    }
}

impl AnyPd {
    /// The domain of an mlx5 device.
    pub(crate) fn mlx5(&self) -> Option<&uverbs_mlx5::ProtectionDomain> {
        match self {
            Self::Mlx5(pd) => Some(pd),
            Self::Rxe(_) => None,
        }
    }

    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Mlx5(pd) => uverbs_mlx5::Context::pd_object(pd),
            Self::Rxe(pd) => uverbs_rxe::Context::pd_object(pd),
        }
    }

    pub(crate) fn into_object(self) -> Arc<Object> {
        match self {
            Self::Mlx5(pd) => pd.into_object(),
            Self::Rxe(pd) => pd,
        }
    }
}

impl AnyCq {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Mlx5(cq) => cq.object(),
            Self::Rxe(cq) => cq.object(),
        }
    }

    /// The device's number for it.
    pub(crate) fn number(&self) -> Option<u32> {
        match self {
            Self::Mlx5(cq) => Some(cq.number()),
            Self::Rxe(_) => None,
        }
    }

    pub(crate) fn entries(&self) -> u32 {
        match self {
            Self::Mlx5(cq) => cq.entries(),
            Self::Rxe(cq) => cq.entries(),
        }
    }

    #[expect(clippy::inline_always, reason = "a part of polling")]
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Result<Option<WorkCompletion>, PollError> {
        match self {
            Self::Mlx5(cq) => cq.poll(),
            Self::Rxe(cq) => cq.poll(),
        }
    }

    #[inline]
    pub(crate) fn poll_into(&mut self, out: &mut [WorkCompletion]) -> Result<usize, PollError> {
        match self {
            Self::Mlx5(cq) => cq.poll_into(out),
            Self::Rxe(cq) => cq.poll_into(out),
        }
    }

    pub(crate) fn arm(&mut self, solicited_only: bool) -> Result<()> {
        match self {
            Self::Mlx5(cq) => cq.arm(solicited_only),
            Self::Rxe(cq) => cq.arm(solicited_only),
        }
    }

    pub(crate) fn resize(&mut self, entries: u32) -> Result<()> {
        match self {
            Self::Mlx5(cq) => cq.resize(entries),
            Self::Rxe(cq) => cq.resize(entries),
        }
    }
}

impl AnySrq {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Mlx5(srq) => srq.object(),
            Self::Rxe(srq) => srq.object(),
        }
    }

    pub(crate) fn size(&self) -> SrqAttr {
        match self {
            Self::Mlx5(srq) => srq.size(),
            Self::Rxe(srq) => srq.size(),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Mlx5(srq) => srq.number(),
            Self::Rxe(srq) => srq.number(),
        }
    }

    pub(crate) fn modify(&mut self, change: &SrqModify) -> Result<()> {
        match self {
            Self::Mlx5(srq) => srq.modify(change),
            Self::Rxe(srq) => srq.modify(change),
        }
    }

    pub(crate) fn query(&self) -> Result<SrqAttr> {
        match self {
            Self::Mlx5(srq) => srq.query(),
            Self::Rxe(srq) => srq.query(),
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[inline]
    pub(crate) unsafe fn put(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        match self {
            // SAFETY: the caller's promise is the one that `Srq::put` asks for.
            Self::Mlx5(srq) => unsafe { srq.put(request) },
            // SAFETY: as above.
            Self::Rxe(srq) => unsafe { srq.put(request) },
        }
    }

    #[inline]
    pub(crate) fn ring(&mut self) -> Result<(), PostError> {
        match self {
            Self::Mlx5(srq) => srq.ring(),
            Self::Rxe(srq) => srq.ring(),
        }
    }

    #[inline]
    pub(crate) fn abort(&mut self) {
        match self {
            Self::Mlx5(srq) => srq.abort(),
            Self::Rxe(srq) => srq.abort(),
        }
    }

    /// Takes the numbers of requests that are over and have no completion.
    pub(crate) fn take_unreported(&mut self, each: &mut dyn FnMut(u64)) {
        match self {
            Self::Mlx5(srq) => srq.take_unreported(each),
            Self::Rxe(srq) => srq.take_unreported(each),
        }
    }
}

impl AnyQp {
    /// The number of the send queue underneath an mlx5 raw packet queue pair.
    pub(crate) fn raw_send_queue(&self) -> Option<u32> {
        match self {
            Self::Mlx5(qp) => qp.raw_numbers().map(|numbers| numbers.sqn),
            Self::Rxe(_) => None,
        }
    }

    /// The queue pair of an mlx5 device.
    #[inline]
    pub(crate) fn mlx5_mut(&mut self) -> Option<&mut uverbs_mlx5::QueuePair> {
        match self {
            Self::Mlx5(qp) => Some(qp),
            Self::Rxe(_) => None,
        }
    }

    pub(crate) fn object(&self) -> &Object {
        match self {
            Self::Mlx5(qp) => qp.object(),
            Self::Rxe(qp) => qp.object(),
        }
    }

    pub(crate) fn into_object(self) -> Object {
        match self {
            Self::Mlx5(qp) => qp.into_object(),
            Self::Rxe(qp) => qp.into_object(),
        }
    }

    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Mlx5(qp) => qp.number(),
            Self::Rxe(qp) => qp.number(),
        }
    }

    pub(crate) fn kind(&self) -> QpType {
        match self {
            Self::Mlx5(qp) => qp.kind(),
            Self::Rxe(qp) => qp.kind(),
        }
    }

    pub(crate) fn caps(&self) -> QpCaps {
        match self {
            Self::Mlx5(qp) => qp.caps(),
            Self::Rxe(qp) => qp.caps(),
        }
    }

    pub(crate) fn state(&self) -> QpState {
        match self {
            Self::Mlx5(qp) => qp.state(),
            Self::Rxe(qp) => qp.state(),
        }
    }

    pub(crate) fn modify(&mut self, attr: &QpAttr) -> Result<()> {
        match self {
            Self::Mlx5(qp) => qp.modify(attr),
            Self::Rxe(qp) => qp.modify(attr),
        }
    }

    pub(crate) fn query(&mut self, mask: QpAttrMask) -> Result<QpInfo> {
        match self {
            Self::Mlx5(qp) => qp.query(mask),
            Self::Rxe(qp) => qp.query(mask),
        }
    }

    pub(crate) fn ece(&self) -> Result<Ece> {
        match self {
            Self::Mlx5(qp) => qp.ece(),
            Self::Rxe(qp) => qp.ece(),
        }
    }

    pub(crate) fn check_ece(&self, ece: &Ece) -> Result<()> {
        match self {
            Self::Mlx5(qp) => qp.check_ece(ece),
            Self::Rxe(qp) => qp.check_ece(ece),
        }
    }

    pub(crate) fn set_ece(&mut self, ece: &Ece) -> Result<()> {
        match self {
            Self::Mlx5(qp) => qp.set_ece(ece),
            Self::Rxe(qp) => qp.set_ece(ece),
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) unsafe fn put_send(&mut self, request: &SendRequest<'_>) -> Result<(), PostError> {
        match self {
            // SAFETY: the caller's promise is the one that `Qp::put_send` asks for.
            Self::Mlx5(qp) => unsafe { qp.put_send(request) },
            // SAFETY: as above.
            Self::Rxe(qp) => unsafe { qp.put_send(&{ *request }) },
        }
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn ring_send(&mut self) -> Result<(), PostError> {
        match self {
            Self::Mlx5(qp) => qp.ring_send(),
            Self::Rxe(qp) => qp.ring_send(),
        }
    }

    /// Posts a list of requests: how many were posted, and why the next one was not.
    ///
    /// # Safety
    /// As [`put_send`](Self::put_send), for each request.
    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) unsafe fn post_send(
        &mut self,
        requests: &[SendRequest<'_>],
    ) -> Result<(), (usize, PostError)> {
        match self {
            // SAFETY: the caller's promise.
            Self::Mlx5(qp) => unsafe { qp.post_send(requests) },
            // SAFETY: as above.
            Self::Rxe(qp) => unsafe { qp.post_send(requests) },
        }
    }

    /// As [`post_send`](Self::post_send), for receive requests.
    ///
    /// # Safety
    /// As [`put_recv`](Self::put_recv), for each request.
    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) unsafe fn post_recv(
        &mut self,
        requests: &[RecvRequest<'_>],
    ) -> Result<(), (usize, PostError)> {
        match self {
            // SAFETY: the caller's promise.
            Self::Mlx5(qp) => unsafe { qp.post_recv(requests) },
            // SAFETY: as above.
            Self::Rxe(qp) => unsafe { qp.post_recv(requests) },
        }
    }

    #[inline]
    pub(crate) fn abort_send(&mut self) {
        match self {
            Self::Mlx5(qp) => qp.abort_send(),
            Self::Rxe(qp) => qp.abort_send(),
        }
    }

    #[expect(unsafe_code, reason = "passes its obligations on")]
    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) unsafe fn put_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        match self {
            // SAFETY: the caller's promise is the one that `Qp::put_recv` asks for.
            Self::Mlx5(qp) => unsafe { qp.put_recv(request) },
            // SAFETY: as above.
            Self::Rxe(qp) => unsafe { qp.put_recv(&{ *request }) },
        }
    }

    #[expect(clippy::inline_always, reason = "a part of posting")]
    #[inline(always)]
    pub(crate) fn ring_recv(&mut self) -> Result<(), PostError> {
        match self {
            Self::Mlx5(qp) => qp.ring_recv(),
            Self::Rxe(qp) => qp.ring_recv(),
        }
    }

    #[inline]
    pub(crate) fn abort_recv(&mut self) {
        match self {
            Self::Mlx5(qp) => qp.abort_recv(),
            Self::Rxe(qp) => qp.abort_recv(),
        }
    }
}

//! The builder of queue pairs.

mod check;
mod settings;

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use uverbs_core::contract::{Extra, Qp as _, QpInit, Srq as _};
use uverbs_core::types::{
    AccessFlags, AckTimeout, Ece, FlowLabel, Gid, LinkLayer, Mtu, PathBits, Psn, QpCaps,
    QpCreateFlags, QpType, Rate, RetryCount, RnrRetry, RnrTimer, ServiceLevel, SigMode,
};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::gid::{GidChoice, Kept, Wanted};
use super::{After, Children, PreparedQueuePair, QueuePair, QueuePairEndpoint};
use crate::event::EventSource;
use crate::transport::Transport;
use crate::{CompletionQueue, ProtectionDomain, SharedReceiveQueue};

/// A queue pair to be created ([`ProtectionDomain::queue_pair`]).
///
/// [`build`](Self::build) may be called many times; each call creates a queue pair. Values with a
/// limited range have their own types, so that no setter fails:
///
/// ```no_run
/// # fn f(pd: uverbs::ProtectionDomain, cq: uverbs::CompletionQueue) -> uverbs::Result<()> {
/// use uverbs::time::AckTimeout;
/// use uverbs::transport::Rc;
///
/// let builder = pd.queue_pair(Rc, &cq, &cq).timeout(AckTimeout::code(14)?).max_send_wr(64);
/// let (one, two) = (builder.build()?, builder.build()?);
/// # Ok(())
/// # }
/// ```
///
/// Which settings there are depends on the [transport](crate::transport); with a [`QpType`], which
/// is known only at run time, all are there and those that do not apply are ignored.
///
/// The `ibverbs` crate has the same builder, whose setters are called `set_…`: searching for those
/// finds these.
///
/// | setting | default | for |
/// |---|---|---|
/// | [`access`](Self::access) | local write | all |
/// | [`min_rnr_timer`](Self::min_rnr_timer) | 16, 2.56 ms | RC |
/// | [`timeout`](Self::timeout) | 14, 67.1 ms | RC |
/// | [`retry_count`](Self::retry_count) | 6 | RC |
/// | [`rnr_retry`](Self::rnr_retry) | 6 | RC |
/// | [`max_rd_atomic`](Self::max_rd_atomic), [`max_dest_rd_atomic`](Self::max_dest_rd_atomic) | 1 | RC |
/// | [`port`](Self::port), [`pkey_index`](Self::pkey_index) | 1, 0 | all |
/// | [`gid_index`](Self::gid_index), [`peer`](Self::peer) | chosen, RoCE v2 preferred | all |
/// | [`static_rate`](Self::static_rate) | the port's | RC, UC |
/// | [`service_level`](Self::service_level), [`traffic_class`](Self::traffic_class), [`flow_label`](Self::flow_label), [`src_path_bits`](Self::src_path_bits) | 0 | RC, UC |
/// | [`hop_limit`](Self::hop_limit) | 64 | RC, UC |
/// | [`path_mtu`](Self::path_mtu) | the port's active MTU | RC, UC |
/// | [`psn`](Self::psn) | random | all |
/// | [`max_send_wr`](Self::max_send_wr), [`max_recv_wr`](Self::max_recv_wr) | 16 | all |
/// | [`max_send_sge`](Self::max_send_sge), [`max_recv_sge`](Self::max_recv_sge) | 1 | all |
/// | [`max_inline_data`](Self::max_inline_data) | 0 | all |
#[derive(Clone, Debug)]
#[must_use = "nothing is created before `build`"]
pub struct QueuePairBuilder<'a, T: Transport = QpType> {
    pd: &'a ProtectionDomain,
    transport: T,
    send_cq: &'a CompletionQueue,
    recv_cq: &'a CompletionQueue,
    srq: Option<&'a SharedReceiveQueue>,
    caps: QpCaps,
    signal: SigMode,
    flags: QpCreateFlags,
    user_data: u64,
    gid: Wanted,
    psn: Option<Psn>,
    path_mtu: Option<Mtu>,
    pub(super) settings: Settings,
    /// The vendor-specific part, if any.
    extra: Option<Arc<dyn Extra>>,
    /// What was found out about the port, for later calls of `build`.
    port: OnceLock<Port>,
}

/// The settings a queue pair is connected with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) access: AccessFlags,
    pub(super) min_rnr_timer: RnrTimer,
    pub(super) timeout: AckTimeout,
    pub(super) retry_count: RetryCount,
    pub(super) rnr_retry: RnrRetry,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) port: u8,
    pub(super) pkey_index: u16,
    pub(super) qkey: u32,
    pub(super) service_level: ServiceLevel,
    pub(super) src_path_bits: PathBits,
    pub(super) static_rate: Rate,
    pub(super) flow_label: FlowLabel,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    pub(super) path_mtu: Mtu,
    pub(super) after: After,
    /// The options of the peer's device, if they are known.
    pub(super) ece: Option<Ece>,
}

/// What is known of the port.
#[derive(Clone, Debug)]
struct Port {
    lid: u16,
    mtu: Mtu,
    /// How many partition keys it has, if it was asked.
    pkeys: Option<u16>,
    link_layer: LinkLayer,
    gid: Option<Gid>,
    /// Where that is in its table, if it was looked for there.
    choice: Option<GidChoice>,
}

impl<'a, T: Transport> QueuePairBuilder<'a, T> {
    pub(crate) fn new(
        pd: &'a ProtectionDomain,
        transport: T,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> Self {
        Self {
            pd,
            transport,
            send_cq,
            recv_cq,
            srq: None,
            caps: QpCaps {
                max_send_wr: 16,
                max_recv_wr: 16,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            signal: SigMode::Requested,
            flags: QpCreateFlags::empty(),
            user_data: 0,
            gid: Wanted::Best,
            psn: None,
            path_mtu: None,
            settings: Settings {
                access: AccessFlags::LOCAL_WRITE,
                min_rnr_timer: RnrTimer::default(),
                timeout: AckTimeout::default(),
                retry_count: RetryCount::default(),
                rnr_retry: RnrRetry::default(),
                max_rd_atomic: 1,
                max_dest_rd_atomic: 1,
                port: 1,
                pkey_index: 0,
                qkey: 0,
                service_level: ServiceLevel::default(),
                src_path_bits: PathBits::default(),
                static_rate: Rate::default(),
                flow_label: FlowLabel::default(),
                traffic_class: 0,
                hop_limit: 64,
                path_mtu: Mtu::B1024,
                after: After::Handshake,
                ece: None,
            },
            extra: None,
            port: OnceLock::new(),
        }
    }

    /// The part that [`with_extra`](Self::with_extra) added, if it is an `E`.
    pub(crate) fn extra<E: 'static>(&self) -> Option<&E> {
        self.extra.as_deref()?.get()
    }

    /// Has the queue pair created with this vendor-specific part.
    pub(crate) fn with_extra(mut self, extra: impl Extra) -> Self {
        self.extra = Some(Arc::new(extra));
        self
    }

    /// What follows its creation, where that differs from the transport's usual way.
    pub(crate) fn with_after(mut self, after: After) -> Self {
        self.settings.after = after;
        self
    }

    /// `ibv_create_qp`—creates the queue pair. Five system calls on rxe, and two more the first
    /// time, for the port and its GIDs, unless the connection manager found the path.
    ///
    /// # Errors
    /// | kind (errno) | cause |
    /// |---|---|
    /// | [`InvalidInput`](ErrorKind::InvalidInput) (EINVAL) | a transport or a flag without a name, queues of another context or domain, a port, GID index or partition key index that does not exist, a rate without a name, values the kernel refuses |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | sizes, or reads and atomics at a time, above what the device has |
    /// | [`OutOfResources`](ErrorKind::OutOfResources) (ENOMEM, EAGAIN) | memory, or the rdma cgroup |
    /// | [`Unsupported`](ErrorKind::Unsupported) (EOPNOTSUPP, ENOSYS) | a transport, a flag or [options](Self::ece) that the device does not have; a shared receive queue for UC or raw packets |
    /// | [`PermissionDenied`](ErrorKind::PermissionDenied) (EPERM) | a transport that needs privileges |
    #[doc(alias = "ibv_create_qp")]
    pub fn build(&self) -> Result<PreparedQueuePair<T>> {
        self.check()?;
        let port = self.find_port()?;
        self.check_pkey(port)?;
        if self.kind() == QpType::RawPacket && port.link_layer != LinkLayer::Ethernet {
            return Err(Error::new(Op::CreateQueuePair, ErrorKind::Unsupported)
                .fact("port", self.settings.port)
                .fact("link_layer", port.link_layer.to_string())
                .hint("raw packets are Ethernet frames: the port must be Ethernet"));
        }
        let context = self.pd.context();
        let event_key = context.inner.event_table.reserve(Op::CreateQueuePair)?;
        let init = QpInit {
            kind: self.kind(),
            send_cq: self.send_cq.link(),
            recv_cq: self.recv_cq.link(),
            srq: self.srq.map(|srq| srq.queue.link()),
            caps: self.caps,
            signal: self.signal,
            flags: self.flags,
            user_handle: event_key.number(),
            extra: self.extra.as_deref(),
        };
        let queue = context.inner.provider.create_qp(&self.pd.inner.pd, &init)?;
        if let Some(ece) = &self.settings.ece {
            queue.check_ece(ece)?;
        }
        event_key.announce(EventSource::QueuePair {
            qp_num: queue.base().number,
            user_data: self.user_data,
        });
        let endpoint = QueuePairEndpoint {
            qp_num: queue.base().number,
            lid: port.lid,
            psn: self.psn.map_or_else(random_psn, Ok)?,
            gid: port.gid,
        };
        let mut settings = self.settings;
        settings.path_mtu = self.path_mtu.unwrap_or(port.mtu);
        let qp = QueuePair {
            children: Children::default(),
            queue,
            event_key,
            pd: self.pd.clone(),
            send_cq: self.send_cq.id(),
            recv_cq: self.recv_cq.id(),
            endpoint,
            gid: port.choice.as_ref().map(Kept::of),
            settings,
            transport: PhantomData,
        };
        Ok(PreparedQueuePair::new(qp))
    }

    /// The same builder, with its transport checked at run time.
    pub fn untyped(self) -> QueuePairBuilder<'a> {
        QueuePairBuilder {
            transport: self.kind(),
            pd: self.pd,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.srq,
            caps: self.caps,
            signal: self.signal,
            flags: self.flags,
            user_data: self.user_data,
            gid: self.gid,
            psn: self.psn,
            path_mtu: self.path_mtu,
            settings: self.settings,
            extra: self.extra,
            port: self.port,
        }
    }

    fn kind(&self) -> QpType {
        self.transport.qp_type()
    }
}

fn random_psn() -> Result<Psn> {
    uverbs_core::sys::random_u32()
        .map(Psn::from_raw)
        .map_err(|errno| Error::os(Op::CreateQueuePair, errno))
}

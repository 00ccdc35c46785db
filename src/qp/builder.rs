//! The builder of queue pairs.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use uverbs_core::contract::{Extra, Qp as _, QpInit, Srq as _};
use uverbs_core::types::{
    AccessFlags, AckTimeout, Ece, FlowLabel, LinkLayer, Mtu, PathBits, PortAttr, Psn, QpCaps,
    QpCreateFlags, QpType, Rate, RetryCount, RnrRetry, RnrTimer, ServiceLevel, SigMode,
};
use uverbs_core::{Error, ErrorKind, Op, Result};

use super::gid::{self, GidChoice, Wanted};
use super::{After, Children, PreparedQueuePair, QueuePair, QueuePairEndpoint};
use crate::event::EventSource;
use crate::{CompletionQueue, ProtectionDomain, SharedReceiveQueue};

/// A queue pair to be created ([`ProtectionDomain::queue_pair`]).
///
/// [`build`](Self::build) may be called many times; each call creates a queue pair. Values with a
/// limited range have their own types, so that no setter fails:
///
/// ```no_run
/// # fn f(pd: uverbs::ProtectionDomain, cq: uverbs::CompletionQueue) -> uverbs::Result<()> {
/// use uverbs::QpType;
/// use uverbs::time::AckTimeout;
///
/// let builder = pd.queue_pair(QpType::Rc, &cq, &cq).timeout(AckTimeout::code(14)?).max_send_wr(64);
/// let (one, two) = (builder.build()?, builder.build()?);
/// # Ok(())
/// # }
/// ```
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
pub struct QueuePairBuilder<'a> {
    pd: &'a ProtectionDomain,
    kind: QpType,
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
    pub(super) gid: Option<GidChoice>,
    pub(super) after: After,
    /// The options of the peer's device, if they are known.
    pub(super) ece: Option<Ece>,
}

#[derive(Clone, Debug)]
struct Port {
    attr: PortAttr,
    gid: Option<GidChoice>,
}

impl<'a> QueuePairBuilder<'a> {
    pub(crate) fn new(
        pd: &'a ProtectionDomain,
        kind: QpType,
        send_cq: &'a CompletionQueue,
        recv_cq: &'a CompletionQueue,
    ) -> Self {
        Self {
            pd,
            kind,
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
                gid: None,
                after: After::Handshake,
                ece: None,
            },
            extra: None,
            port: OnceLock::new(),
        }
    }

    /// The part that [`with_extra`](Self::with_extra) added, if it is a `T`.
    pub(crate) fn extra<T: 'static>(&self) -> Option<&T> {
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

    /// What peers may do through the queue pair. Default:
    /// [`LOCAL_WRITE`](AccessFlags::LOCAL_WRITE), nothing remote. `set_access` in the `ibverbs`
    /// crate.
    #[doc(alias = "set_access")]
    pub fn access(mut self, access: AccessFlags) -> Self {
        self.settings.access = access;
        self
    }

    /// Lets peers read and write, in addition to what is already allowed.
    pub fn allow_remote_rw(mut self) -> Self {
        self.settings.access |= AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        self
    }

    /// How long a peer waits before it resends when this side has no receive request. Default: 16,
    /// 2.56 ms. RC only.
    ///
    /// [`RnrTimer::code`] takes the codes 0 to 31; [`RnrTimer::from_duration`] picks the shortest
    /// delay that is at least a `Duration`. `set_min_rnr_timer` in the `ibverbs` crate.
    #[doc(alias = "set_min_rnr_timer")]
    pub fn min_rnr_timer(mut self, timer: RnrTimer) -> Self {
        self.settings.min_rnr_timer = timer;
        self
    }

    /// How long this side waits for an acknowledgement before it resends. Default: 14, 67.1 ms. RC
    /// only.
    ///
    /// The `ibverbs` crate's default is 4, 65.536 µs: [`AckTimeout::IBVERBS_CRATE`].
    ///
    /// [`AckTimeout::code`] takes the codes 0 to 31 (0 waits indefinitely, else 4.096 µs · 2^code);
    /// [`AckTimeout::from_duration`] picks the shortest time that is at least a `Duration`,
    /// and waits indefinitely for one above 8796 s. `set_timeout` in the `ibverbs` crate.
    #[doc(alias = "set_timeout")]
    pub fn timeout(mut self, timeout: AckTimeout) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How often to resend without an answer before the queue pair fails: 0 to 7, see
    /// [`RetryCount::new`]. Default: 6. RC only.
    ///
    /// `set_retry_count` in the `ibverbs` crate.
    #[doc(alias = "set_retry_count")]
    pub fn retry_count(mut self, count: RetryCount) -> Self {
        self.settings.retry_count = count;
        self
    }

    /// How often to resend when the peer has no receive request: 0 to 7, see [`RnrRetry::new`].
    /// Default: 6; 7 is unlimited. RC only.
    ///
    /// `set_rnr_retry` in the `ibverbs` crate.
    #[doc(alias = "set_rnr_retry")]
    pub fn rnr_retry(mut self, count: RnrRetry) -> Self {
        self.settings.rnr_retry = count;
        self
    }

    /// A number of the user's choice that its events carry. Default: 0. `set_context` in the
    /// `ibverbs` crate.
    #[doc(alias = "set_context")]
    #[doc(alias = "qp_context")]
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// How many reads and atomics this side may have outstanding, at most the device's
    /// `max_qp_init_rd_atom`. Default: 1. RC only.
    pub fn max_rd_atomic(mut self, count: u8) -> Self {
        self.settings.max_rd_atomic = count;
        self
    }

    /// How many of the peer's reads and atomics this side answers at a time, at most the device's
    /// `max_qp_rd_atom`. Default: 1. RC only.
    pub fn max_dest_rd_atomic(mut self, count: u8) -> Self {
        self.settings.max_dest_rd_atomic = count;
        self
    }

    /// The port, numbered from 1. Default: 1. [`build`](Self::build) refuses one that the device
    /// does not have.
    pub fn port(mut self, port: u8) -> Self {
        self.settings.port = port;
        self.port = OnceLock::new();
        self
    }

    /// The index of its partition key in the port's table, below the port's `pkey_tbl_len`.
    /// Default: 0.
    pub fn pkey_index(mut self, index: u16) -> Self {
        self.settings.pkey_index = index;
        self
    }

    /// The index of its address in the port's GID table.
    ///
    /// Default: on Ethernet, the first RoCE v2 entry that is not link-local, else the first RoCE v2
    /// entry, else the first of any type; on InfiniBand, none: the LID is enough. Overrides
    /// [`peer`](Self::peer), and the other way round.
    pub fn gid_index(mut self, index: u8) -> Self {
        self.gid = Wanted::At(index);
        self.port = OnceLock::new();
        self
    }

    /// Chooses the GID by the route to the peer's IP address: on Ethernet, the one that this host's
    /// packets to the peer would come from, RoCE v2 preferred. Where the port has none for it, the
    /// [default](Self::gid_index). [`PreparedQueuePair::gid`] says which it was, and why.
    ///
    /// `address` must be one of the network that RDMA is to use, which need not be the one that the
    /// peer is managed by. [`build`](Self::build) asks the kernel's routing table by a UDP socket
    /// that is connected and never sends: four system calls, no privileges.
    ///
    /// ```no_run
    /// # fn f(pd: uverbs::ProtectionDomain, cq: uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::QpType;
    ///
    /// let prepared = pd.queue_pair(QpType::Rc, &cq, &cq).peer("192.0.2.7".parse()?).build()?;
    /// if let Some(choice) = prepared.gid() {
    ///     println!("GID {}: {}", choice.entry.gid, choice.reason);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer(mut self, address: IpAddr) -> Self {
        self.gid = Wanted::Towards(address);
        self.port = OnceLock::new();
        self
    }

    /// The largest payload of a packet; both sides must agree. Default: the port's active MTU. RC
    /// and UC.
    pub fn path_mtu(mut self, mtu: Mtu) -> Self {
        self.path_mtu = Some(mtu);
        self
    }

    /// The number of the first packet it sends. Default: random, which makes a connection harder to
    /// forge.
    #[doc(alias = "sq_psn")]
    pub fn psn(mut self, psn: Psn) -> Self {
        self.psn = Some(psn);
        self
    }

    /// The key that datagrams to it must carry. Default: 0. UD only.
    pub fn qkey(mut self, qkey: u32) -> Self {
        self.settings.qkey = qkey;
        self
    }

    /// The service level, `ServiceLevel::new(3)?`: 0 to 15; the priority on Ethernet. Default: 0.
    pub fn service_level(mut self, level: ServiceLevel) -> Self {
        self.settings.service_level = level;
        self
    }

    /// How fast packets may leave at most. Default: [`Rate::Max`], the port's own rate. RC and UC.
    ///
    /// [`Rate`] converts from and to multiples of 2.5 Gb/s and Mb/s. For limits of a queue pair in
    /// kb/s see [`QueuePair::modify_rate_limit`](crate::QueuePair::modify_rate_limit).
    #[doc(alias = "ibv_rate")]
    pub fn static_rate(mut self, rate: Rate) -> Self {
        self.settings.static_rate = rate;
        self
    }

    /// The flow label, `FlowLabel::new(7)?`, 20 bits; with RoCE v2 it decides the UDP source port
    /// ([`FlowLabel::udp_source_port`]), by which networks spread their load. Default: 0. RC and
    /// UC.
    pub fn flow_label(mut self, label: FlowLabel) -> Self {
        self.settings.flow_label = label;
        self
    }

    /// The low bits of the source LID, `PathBits::new(1)?`, 7 bits: which of the port's LIDs
    /// packets come from. Default: 0. InfiniBand only.
    pub fn src_path_bits(mut self, bits: PathBits) -> Self {
        self.settings.src_path_bits = bits;
        self
    }

    /// The traffic class; with RoCE v2 over IPv4 the type of service. Default: 0.
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.settings.traffic_class = class;
        self
    }

    /// How many routers a packet may pass. Default: 64. On RoCE the kernel uses the hop limit of
    /// its route instead.
    pub fn hop_limit(mut self, limit: u8) -> Self {
        self.settings.hop_limit = limit;
        self
    }

    /// How many send requests it holds, at least. Default: 16.
    #[doc(alias = "set_max_send_wr")]
    pub fn max_send_wr(mut self, count: u32) -> Self {
        self.caps.max_send_wr = count;
        self
    }

    /// How many receive requests it holds, at least. Default: 16. Ignored with a shared receive
    /// queue.
    #[doc(alias = "set_max_recv_wr")]
    pub fn max_recv_wr(mut self, count: u32) -> Self {
        self.caps.max_recv_wr = count;
        self
    }

    /// The most scatter/gather entries of a send request. Default: 1.
    pub fn max_send_sge(mut self, count: u32) -> Self {
        self.caps.max_send_sge = count;
        self
    }

    /// The most scatter/gather entries of a receive request. Default: 1.
    pub fn max_recv_sge(mut self, count: u32) -> Self {
        self.caps.max_recv_sge = count;
        self
    }

    /// How many bytes a send request may carry in the queue itself. Default: 0.
    pub fn max_inline_data(mut self, bytes: u32) -> Self {
        self.caps.max_inline_data = bytes;
        self
    }

    /// Receives from a shared receive queue instead of one of its own. RC, UD, XRC and DC; as in
    /// `ibv_create_qp`(3) and the `ibverbs` crate, [`build`](Self::build) refuses UC, and raw
    /// packets. (Some devices would take UC, but nothing specifies what it does.)
    pub fn srq(mut self, srq: &'a SharedReceiveQueue) -> Self {
        self.srq = Some(srq);
        self
    }

    /// Reports the success of every send request, signaled or not. Default: no.
    #[doc(alias = "sq_sig_all")]
    pub fn signal_all(mut self) -> Self {
        self.signal = SigMode::All;
        self
    }

    /// The options of the peer's device beyond the standard, where they are already known;
    /// otherwise use [`PreparedQueuePair::set_ece`]. Default: unknown, nothing is agreed to.
    #[doc(alias = "ibv_set_ece")]
    pub fn ece(mut self, peer: Ece) -> Self {
        self.settings.ece = Some(peer);
        self
    }

    /// Creation flags. Default: none.
    pub fn create_flags(mut self, flags: QpCreateFlags) -> Self {
        self.flags = flags;
        self
    }

    /// `ibv_create_qp`—creates the queue pair. Five system calls on rxe, and two more the first
    /// time, for the port and its GIDs.
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
    pub fn build(&self) -> Result<PreparedQueuePair> {
        self.check()?;
        let port = self.find_port()?;
        self.check_pkey(&port.attr)?;
        if self.kind == QpType::RawPacket && port.attr.link_layer != LinkLayer::Ethernet {
            return Err(Error::new(Op::CreateQueuePair, ErrorKind::Unsupported)
                .fact("port", self.settings.port)
                .fact("link_layer", port.attr.link_layer.to_string())
                .hint("raw packets are Ethernet frames: the port must be Ethernet's"));
        }
        let context = self.pd.context();
        let event_key = context.inner.event_table.reserve(Op::CreateQueuePair)?;
        let init = QpInit {
            kind: self.kind,
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
            lid: port.attr.lid,
            psn: self.psn.map_or_else(random_psn, Ok)?,
            gid: port.gid.map(|choice| choice.entry.gid),
        };
        let settings = Settings {
            path_mtu: self.path_mtu.unwrap_or(port.attr.active_mtu),
            gid: port.gid,
            ..self.settings
        };
        let qp = QueuePair {
            children: Children::default(),
            queue,
            event_key,
            pd: self.pd.clone(),
            send_cq: self.send_cq.id(),
            recv_cq: self.recv_cq.id(),
            endpoint,
            settings,
        };
        Ok(PreparedQueuePair::new(qp))
    }

    /// Checks that every value has a name and that all objects are of one device; the kernel could
    /// not even name those of another.
    fn check(&self) -> Result<()> {
        let op = Op::CreateQueuePair;
        self.kind.checked(op, "kind")?;
        self.flags.checked(op, "flags")?;
        let context = self.pd.context();
        for (what, cq) in [("send_cq", self.send_cq), ("recv_cq", self.recv_cq)] {
            if !cq.is_of(context) {
                return Err(Error::invalid(op, what)
                    .hint("the completion queue belongs to another context"));
            }
        }
        match self.srq {
            Some(srq) if !srq.pd().is_of(context) => Err(Error::invalid(op, "srq")
                .hint("the shared receive queue belongs to another context")),
            Some(_) if matches!(self.kind, QpType::Uc | QpType::RawPacket) => {
                Err(Error::new(op, ErrorKind::Unsupported)
                    .fact("argument", "srq")
                    .fact("transport", self.kind.to_string())
                    .hint("shared receive queues are for RC, UD, XRC and DC"))
            }
            _ => self.check_device(),
        }
    }

    /// Checks what the device reported about itself when it was opened.
    fn check_device(&self) -> Result<()> {
        let op = Op::CreateQueuePair;
        let settings = &self.settings;
        settings.static_rate.checked(op, "static_rate")?;
        let device = self.pd.context().device_attr();
        let (port, ports) = (settings.port, device.phys_port_cnt.max(1));
        if port == 0 || port > ports {
            return Err(Error::invalid(op, "port")
                .fact("port", port)
                .fact("ports", ports)
                .hint("ports are numbered from 1"));
        }
        // One at a time is the default, also where the device has no reads.
        for (what, asked, max) in [
            (
                "max_rd_atomic",
                settings.max_rd_atomic,
                device.max_qp_init_rd_atom,
            ),
            (
                "max_dest_rd_atomic",
                settings.max_dest_rd_atomic,
                device.max_qp_rd_atom,
            ),
        ] {
            Error::at_most(op, what, asked, max.max(1))?;
        }
        Ok(())
    }

    fn find_port(&self) -> Result<&Port> {
        if let Some(port) = self.port.get() {
            return Ok(port);
        }
        let attr = self.pd.context().query_port(self.settings.port)?;
        let port = Port {
            gid: self.find_gid(&attr)?,
            attr,
        };
        Ok(self.port.get_or_init(|| port))
    }

    /// Checks the partition key's index; the table has at least one entry.
    fn check_pkey(&self, port: &PortAttr) -> Result<()> {
        let (index, entries) = (self.settings.pkey_index, port.pkey_tbl_len.max(1));
        if index >= entries {
            return Err(Error::invalid(Op::CreateQueuePair, "pkey_index")
                .fact("pkey_index", index)
                .fact("entries", entries));
        }
        Ok(())
    }

    fn find_gid(&self, attr: &PortAttr) -> Result<Option<GidChoice>> {
        // Raw packets are frames, which carry their own addresses.
        let needed = attr.link_layer == LinkLayer::Ethernet && self.kind != QpType::RawPacket;
        gid::find(self.pd.context(), self.settings.port, self.gid, needed)
    }
}

fn random_psn() -> Result<Psn> {
    uverbs_core::sys::random_u32()
        .map(Psn::from_raw)
        .map_err(|errno| Error::os(Op::CreateQueuePair, errno))
}

//! What a queue pair can be set to: what its transport has.

use std::net::IpAddr;
use std::sync::OnceLock;

#[cfg(doc)]
use uverbs_core::ErrorKind;
use uverbs_core::types::{
    AccessFlags, AckTimeout, Ece, FlowLabel, Mtu, PathBits, Psn, QpCreateFlags, Rate, RetryCount,
    RnrRetry, RnrTimer, ServiceLevel, SigMode,
};

use super::super::gid::Wanted;
use super::QueuePairBuilder;
#[cfg(doc)]
use crate::PreparedQueuePair;
use crate::SharedReceiveQueue;
use crate::transport::{
    Accessible, Addressed, Connected, Datagrams, Receives, Reliable, Requests, Responds, Segments,
    Sends, SharesReceives, Transport,
};

impl<T: Transport> QueuePairBuilder<'_, T> {
    /// The port, numbered from 1. Default: 1. [`build`](Self::build) refuses one that the device
    /// does not have.
    pub fn port(mut self, port: u8) -> Self {
        self.settings.port = port;
        self.port = OnceLock::new();
        self
    }

    /// The number of the first packet it sends. Default: random, which makes a connection harder to
    /// forge.
    #[doc(alias = "sq_psn")]
    pub fn psn(mut self, psn: Psn) -> Self {
        self.psn = Some(psn);
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

    /// What peers may do through the queue pair. Default:
    /// [`LOCAL_WRITE`](AccessFlags::LOCAL_WRITE), nothing remote. `set_access` in the `ibverbs`
    /// crate.
    #[doc(alias = "set_access")]
    pub fn access(mut self, access: AccessFlags) -> Self
    where
        T: Accessible,
    {
        self.settings.access = access;
        self
    }

    /// Lets peers read and write, in addition to what is already allowed.
    pub fn allow_remote_rw(mut self) -> Self
    where
        T: Accessible,
    {
        self.settings.access |= AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        self
    }

    /// The index of its partition key in the port's table, below the port's `pkey_tbl_len`.
    /// Default: 0.
    pub fn pkey_index(mut self, index: u16) -> Self
    where
        T: Addressed,
    {
        self.settings.pkey_index = index;
        // How many there are is asked, also along a path of the connection manager.
        self.port = OnceLock::new();
        self
    }

    /// The index of its address in the port's GID table.
    ///
    /// Default: on Ethernet, the first RoCE v2 entry that is not link-local, else the first RoCE v2
    /// entry, else the first of any type; on InfiniBand, none: the LID is enough. Overrides
    /// [`peer`](Self::peer), and the other way round.
    pub fn gid_index(mut self, index: u8) -> Self
    where
        T: Addressed,
    {
        self.gid = Wanted::At(index);
        self.port = OnceLock::new();
        self
    }

    /// Chooses the GID by the route to the peer's IP address: on Ethernet, the one that this host's
    /// packets to the peer would come from, RoCE v2 preferred. Where the port has none for it, the
    /// [default](Self::gid_index). [`PreparedQueuePair::gid`] says which it was, and why.
    ///
    /// `address` must be on the network that RDMA is to use, which may differ from the peer's
    /// management network. [`build`](Self::build) asks the kernel's routing table by a UDP socket
    /// that is connected and never sends: four system calls, no privileges.
    ///
    /// ```no_run
    /// # fn f(pd: uverbs::ProtectionDomain, cq: uverbs::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
    /// use uverbs::transport::Rc;
    ///
    /// let prepared = pd.queue_pair(Rc, &cq, &cq).peer("192.0.2.7".parse()?).build()?;
    /// if let Some(choice) = prepared.gid() {
    ///     println!("GID {}: {}", choice.entry.gid, choice.reason);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer(mut self, address: IpAddr) -> Self
    where
        T: Addressed,
    {
        self.gid = Wanted::Towards(address);
        self.port = OnceLock::new();
        self
    }

    /// The service level, `ServiceLevel::new(3)?`: 0 to 15; the priority on Ethernet. Default: 0.
    pub fn service_level(mut self, level: ServiceLevel) -> Self
    where
        T: Addressed,
    {
        self.settings.service_level = level;
        self
    }

    /// How fast packets may leave at most. Default: [`Rate::Max`], the port's own rate. RC and UC.
    ///
    /// [`Rate`] converts from and to multiples of 2.5 Gb/s and Mb/s. For limits of a queue pair in
    /// kb/s see [`QueuePair::modify_rate_limit`](crate::QueuePair::modify_rate_limit).
    #[doc(alias = "ibv_rate")]
    pub fn static_rate(mut self, rate: Rate) -> Self
    where
        T: Addressed,
    {
        self.settings.static_rate = rate;
        self
    }

    /// The flow label, `FlowLabel::new(7)?`, 20 bits; with RoCE v2 it decides the UDP source port
    /// ([`FlowLabel::udp_source_port`]), by which networks spread their load. Default: 0. RC and
    /// UC.
    pub fn flow_label(mut self, label: FlowLabel) -> Self
    where
        T: Addressed,
    {
        self.settings.flow_label = label;
        self
    }

    /// The low bits of the source LID, `PathBits::new(1)?`, 7 bits: which of the port's LIDs
    /// packets come from. Default: 0. InfiniBand only.
    pub fn src_path_bits(mut self, bits: PathBits) -> Self
    where
        T: Addressed,
    {
        self.settings.src_path_bits = bits;
        self
    }

    /// The traffic class; with RoCE v2 over IPv4 the type of service. Default: 0.
    pub fn traffic_class(mut self, class: u8) -> Self
    where
        T: Addressed,
    {
        self.settings.traffic_class = class;
        self
    }

    /// How many routers a packet may pass. Default: 64. On RoCE the kernel uses the hop limit of
    /// its route instead.
    pub fn hop_limit(mut self, limit: u8) -> Self
    where
        T: Addressed,
    {
        self.settings.hop_limit = limit;
        self
    }

    /// The largest payload of a packet; both sides must agree. Default: the port's active MTU. RC
    /// and UC.
    pub fn path_mtu(mut self, mtu: Mtu) -> Self
    where
        T: Segments,
    {
        self.path_mtu = Some(mtu);
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
    pub fn timeout(mut self, timeout: AckTimeout) -> Self
    where
        T: Reliable,
    {
        self.settings.timeout = timeout;
        self
    }

    /// How often to resend without an answer before the queue pair fails: 0 to 7, see
    /// [`RetryCount::new`]. Default: 6. RC only.
    ///
    /// `set_retry_count` in the `ibverbs` crate.
    #[doc(alias = "set_retry_count")]
    pub fn retry_count(mut self, count: RetryCount) -> Self
    where
        T: Requests,
    {
        self.settings.retry_count = count;
        self
    }

    /// How often to resend when the peer has no receive request: 0 to 7, see [`RnrRetry::new`].
    /// Default: 6; 7 is unlimited. RC only.
    ///
    /// `set_rnr_retry` in the `ibverbs` crate.
    #[doc(alias = "set_rnr_retry")]
    pub fn rnr_retry(mut self, count: RnrRetry) -> Self
    where
        T: Requests,
    {
        self.settings.rnr_retry = count;
        self
    }

    /// How many reads and atomics this side may have outstanding, at most the device's
    /// `max_qp_init_rd_atom`. Default: 1. RC only.
    pub fn max_rd_atomic(mut self, count: u8) -> Self
    where
        T: Requests,
    {
        self.settings.max_rd_atomic = count;
        self
    }

    /// How long a peer waits before it resends when this side has no receive request. Default: 16,
    /// 2.56 ms. RC only.
    ///
    /// [`RnrTimer::code`] takes the codes 0 to 31; [`RnrTimer::from_duration`] picks the shortest
    /// delay that is at least a `Duration`. `set_min_rnr_timer` in the `ibverbs` crate.
    #[doc(alias = "set_min_rnr_timer")]
    pub fn min_rnr_timer(mut self, timer: RnrTimer) -> Self
    where
        T: Responds,
    {
        self.settings.min_rnr_timer = timer;
        self
    }

    /// How many of the peer's reads and atomics this side answers at a time, at most the device's
    /// `max_qp_rd_atom`. Default: 1. RC only.
    pub fn max_dest_rd_atomic(mut self, count: u8) -> Self
    where
        T: Responds + Connected,
    {
        self.settings.max_dest_rd_atomic = count;
        self
    }

    /// The key that datagrams to it must carry. Default: 0. UD only.
    pub fn qkey(mut self, qkey: u32) -> Self
    where
        T: Datagrams,
    {
        self.settings.qkey = qkey;
        self
    }

    /// How many send requests it holds, at least. Default: 16.
    #[doc(alias = "set_max_send_wr")]
    pub fn max_send_wr(mut self, count: u32) -> Self
    where
        T: Sends,
    {
        self.caps.max_send_wr = count;
        self
    }

    /// The most scatter/gather entries of a send request. Default: 1.
    pub fn max_send_sge(mut self, count: u32) -> Self
    where
        T: Sends,
    {
        self.caps.max_send_sge = count;
        self
    }

    /// How many bytes a send request may carry in the queue itself. Default: 0.
    pub fn max_inline_data(mut self, bytes: u32) -> Self
    where
        T: Sends,
    {
        self.caps.max_inline_data = bytes;
        self
    }

    /// Reports the success of every send request, signaled or not. Default: no.
    #[doc(alias = "sq_sig_all")]
    pub fn signal_all(mut self) -> Self
    where
        T: Sends,
    {
        self.signal = SigMode::All;
        self
    }

    /// How many receive requests it holds, at least. Default: 16. Ignored with a shared receive
    /// queue.
    #[doc(alias = "set_max_recv_wr")]
    pub fn max_recv_wr(mut self, count: u32) -> Self
    where
        T: Receives,
    {
        self.caps.max_recv_wr = count;
        self
    }

    /// The most scatter/gather entries of a receive request. Default: 1.
    pub fn max_recv_sge(mut self, count: u32) -> Self
    where
        T: Receives,
    {
        self.caps.max_recv_sge = count;
        self
    }
}

impl<'a, T: Transport> QueuePairBuilder<'a, T> {
    /// Receives from a shared receive queue instead of one of its own. RC, UD, XRC and DC; as in
    /// `ibv_create_qp`(3) and the `ibverbs` crate, [`build`](Self::build) refuses UC, and raw
    /// packets. (Some devices would take UC, but nothing specifies what it does.)
    pub fn srq(mut self, srq: &'a SharedReceiveQueue) -> Self
    where
        T: SharesReceives,
    {
        self.srq = Some(srq);
        self
    }
}

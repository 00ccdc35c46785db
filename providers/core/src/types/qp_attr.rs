//! The attributes of a queue pair that a modify sets and a query returns.

use super::{
    AccessFlags, AckTimeout, AddressVector, MigrationState, Mtu, Psn, QpAttrMask, QpCaps, QpState,
    RetryCount, RnrRetry, RnrTimer, SigMode,
};

/// The path a queue pair migrates to.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct AlternatePath {
    /// Address of the peer; its port is the alternate port.
    pub av: AddressVector,
    /// Partition key index.
    pub pkey_index: u16,
    /// Acknowledgement timeout.
    pub timeout: AckTimeout,
}

macro_rules! qp_attr {
    ($( $(#[$meta:meta])* $field:ident: $ty:ty => $bit:ident; )+) => {
        /// `ibv_qp_attr`—the attributes that a modify sets: only those that are present.
        ///
        /// ```
        /// use uverbs_core::types::{AccessFlags, QpAttr, QpAttrMask, QpState};
        ///
        /// let attr =
        /// QpAttr::to(QpState::Init).port(1).pkey_index(0).access(AccessFlags::LOCAL_WRITE);
        /// let init = QpAttrMask::STATE | QpAttrMask::PORT | QpAttrMask::PKEY_INDEX |
        /// QpAttrMask::ACCESS_FLAGS;
        /// assert_eq!(attr.mask(), init);
        /// ```
        #[doc(alias = "ibv_qp_attr")]
        #[doc(alias = "ibv_modify_qp")]
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct QpAttr {
            $( $(#[$meta])* pub $field: Option<$ty>, )+
        }

        impl QpAttr {
            /// Which attributes are present, in the kernel's bits.
            pub const fn mask(&self) -> QpAttrMask {
                let mut mask = QpAttrMask::empty();
                $( if self.$field.is_some() { mask = mask.union(QpAttrMask::$bit); } )+
                mask
            }

            $(
                $(#[$meta])*
                #[must_use]
                pub const fn $field(mut self, $field: $ty) -> Self {
                    self.$field = Some($field);
                    self
                }
            )+
        }
    };
}

qp_attr! {
    /// State to move to.
    state: QpState => STATE;
    /// State that the caller assumes the queue pair to be in; the modify fails if it is not. RTR,
    /// RTS, SQD or SQE.
    cur_state: QpState => CUR_STATE;
    /// Whether an event is raised when the send queue has drained.
    sqd_async_notify: bool => EN_SQD_ASYNC_NOTIFY;
    /// Rights of the peer: remote write, read, atomic (and flush).
    access: AccessFlags => ACCESS_FLAGS;
    /// Partition key index.
    pkey_index: u16 => PKEY_INDEX;
    /// Port, from 1.
    port: u8 => PORT;
    /// Queue key that a datagram must carry to be received. One with bit 31 set needs
    /// `CAP_NET_RAW`.
    qkey: u32 => QKEY;
    /// Address of the peer.
    av: AddressVector => AV;
    /// Largest payload of a packet, equal on both sides.
    path_mtu: Mtu => PATH_MTU;
    /// How long to wait for an acknowledgement.
    timeout: AckTimeout => TIMEOUT;
    /// How often to retry when no acknowledgement arrives.
    retry_count: RetryCount => RETRY_CNT;
    /// How often to retry when the peer has no receive posted.
    rnr_retry: RnrRetry => RNR_RETRY;
    /// Sequence number of the first packet received: the peer's `sq_psn`.
    rq_psn: Psn => RQ_PSN;
    /// Reads and atomics that this side may have outstanding.
    max_rd_atomic: u8 => MAX_QP_RD_ATOMIC;
    /// Path to migrate to.
    alt_path: AlternatePath => ALT_PATH;
    /// How long the peer waits before a retry when this side has no receive posted.
    min_rnr_timer: RnrTimer => MIN_RNR_TIMER;
    /// Sequence number of the first packet sent.
    sq_psn: Psn => SQ_PSN;
    /// Reads and atomics of the peer that this side serves at a time.
    max_dest_rd_atomic: u8 => MAX_DEST_RD_ATOMIC;
    /// Path migration state.
    migration: MigrationState => PATH_MIG_STATE;
    /// New sizes, where the device supports resizing.
    caps: QpCaps => CAP;
    /// Number of the peer's queue pair, 24 bits.
    dest_qpn: u32 => DEST_QPN;
    /// Rate limit, kb/s; 0 is none.
    rate_limit_kbps: u32 => RATE_LIMIT;
}

impl QpAttr {
    /// Sets nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves to a state; [`requirement`](super::requirement) lists the other attributes that this
    /// needs.
    pub fn to(state: QpState) -> Self {
        Self::default().state(state)
    }
}

/// `ibv_query_qp`—what the kernel knows about a queue pair: the fields of
/// `ib_uverbs_query_qp_resp`.
///
/// Attributes that do not apply to the type or the state have whatever value the driver left there,
/// mostly zero.
#[doc(alias = "ibv_query_qp")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct QpInfo {
    /// State.
    pub state: QpState,
    /// Previous state while a transition is under way, else the same as `state`.
    pub cur_state: QpState,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Path migration.
    pub migration: MigrationState,
    /// Queue key.
    pub qkey: u32,
    /// Sequence number of the next packet expected.
    pub rq_psn: Psn,
    /// Sequence number of the next packet to send.
    pub sq_psn: Psn,
    /// The peer's queue pair.
    pub dest_qpn: u32,
    /// Rights of the peer.
    pub access: AccessFlags,
    /// Address of the peer.
    pub av: AddressVector,
    /// Path to migrate to.
    pub alt_path: AlternatePath,
    /// Sizes as the kernel knows them; some providers know them more precisely.
    pub caps: QpCaps,
    /// Partition key index.
    pub pkey_index: u16,
    /// Whether the send queue is still draining (state SQD).
    pub sq_draining: bool,
    /// Reads and atomics that this side may have outstanding.
    pub max_rd_atomic: u8,
    /// Reads and atomics of the peer that this side serves at a time.
    pub max_dest_rd_atomic: u8,
    /// RNR timer.
    pub min_rnr_timer: RnrTimer,
    /// Port.
    pub port: u8,
    /// Acknowledgement timeout.
    pub timeout: AckTimeout,
    /// Retry count.
    pub retry_count: RetryCount,
    /// RNR retry count.
    pub rnr_retry: RnrRetry,
    /// Which sends generate a completion.
    pub sig_mode: SigMode,
}

impl Default for QpInfo {
    /// Everything zero: a queue pair in reset.
    fn default() -> Self {
        let no_path = AddressVector {
            port: 0,
            ..AddressVector::default()
        };
        Self {
            state: QpState::Reset,
            cur_state: QpState::Reset,
            path_mtu: Mtu::from_raw(0),
            migration: MigrationState::Migrated,
            qkey: 0,
            rq_psn: Psn::default(),
            sq_psn: Psn::default(),
            dest_qpn: 0,
            access: AccessFlags::empty(),
            av: no_path,
            alt_path: AlternatePath {
                av: no_path,
                pkey_index: 0,
                timeout: AckTimeout::INFINITE,
            },
            caps: QpCaps::default(),
            pkey_index: 0,
            sq_draining: false,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: RnrTimer::from_raw(0),
            port: 0,
            timeout: AckTimeout::INFINITE,
            retry_count: RetryCount::from_raw(0),
            rnr_retry: RnrRetry::from_raw(0),
            sig_mode: SigMode::Requested,
        }
    }
}

//! Packet pacing: limits of a queue's send rate.
//!
//! A queue pair of the verbs has a [`RateLimit`]; a queue created by DEVX commands refers to a
//! [`PacingEntry`] of the device's table.

use std::fmt;

use uverbs_core::cmd::{self, new_object_handle, new_object_slot};
use uverbs_core::kind::{Counts, Kind, Legacy};
use uverbs_core::sys::{Attr, Uhw, cells};
use uverbs_core::types::{QpAttr, QpState, QpType};
use uverbs_core::{Errno, Error, ErrorKind, Object, Op, Result};
use uverbs_uapi::mlx5_abi::{mlx5_ib_burst_info, mlx5_ib_modify_qp};
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_PP_OBJ_ALLOC_CTX, MLX5_IB_ATTR_PP_OBJ_ALLOC_FLAGS,
    MLX5_IB_ATTR_PP_OBJ_ALLOC_HANDLE, MLX5_IB_ATTR_PP_OBJ_ALLOC_INDEX,
    MLX5_IB_ATTR_PP_OBJ_DESTROY_HANDLE, MLX5_IB_METHOD_PP_OBJ_ALLOC, MLX5_IB_METHOD_PP_OBJ_DESTROY,
    MLX5_IB_OBJECT_PP,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX;
use zerocopy::IntoBytes;

use crate::context::caps::{PacingCaps, QpTypes};
use crate::devx::Devx;
use crate::prm::rate_context;

/// `ibv_qp_rate_limit_attr`—the limit of a queue's send rate.
///
/// The default is no limit.
#[doc(alias = "ibv_qp_rate_limit_attr")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct RateLimit {
    /// The highest send rate, in kb/s, if the link and the workload allow it. 0: no limit.
    pub rate_kbps: u32,
    /// The longest burst, in bytes, that shaping may let through at once. 0: the device's default.
    pub max_burst: u32,
    /// The typical size of packets, in bytes. 0: the device's default, the port's MTU.
    pub typical_packet: u16,
}

impl RateLimit {
    /// No limit.
    pub const UNLIMITED: Self = Self {
        rate_kbps: 0,
        max_burst: 0,
        typical_packet: 0,
    };

    /// A rate in kb/s, with the device's default bursts.
    pub const fn kbps(rate_kbps: u32) -> Self {
        Self {
            rate_kbps,
            ..Self::UNLIMITED
        }
    }

    /// Limits bursts to this many bytes; 0 is the device's default.
    #[must_use]
    pub const fn max_burst(self, max_burst: u32) -> Self {
        Self { max_burst, ..self }
    }

    /// Sets the typical size of packets, in bytes; 0 is the device's default.
    #[must_use]
    pub const fn typical_packet(self, typical_packet: u16) -> Self {
        Self {
            typical_packet,
            ..self
        }
    }

    const fn shapes_bursts(self) -> bool {
        self.max_burst != 0 || self.typical_packet != 0
    }
}

impl PacingCaps {
    /// Checks whether `limit` can be set on queue pairs of this type.
    ///
    /// # Errors
    /// | kind | cause |
    /// |---|---|
    /// | [`Unsupported`](ErrorKind::Unsupported) | the device does not support pacing, or not for this type, or does not support bursts |
    /// | [`LimitExceeded`](ErrorKind::LimitExceeded) | a rate outside the device's limits |
    /// | [`InvalidInput`](ErrorKind::InvalidInput) | bursts without a rate |
    pub fn check(&self, limit: &RateLimit, kind: QpType) -> Result<()> {
        let op = Op::ModifyRateLimit;
        if self.max_rate == 0 {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("device_lacks", "packet pacing")
                .hint("packet pacing is a setting of the adapter's firmware"));
        }
        if !self.qp_types.contains(kind) {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("type", kind.to_string())
                .fact("types_with_rate", self.qp_types.to_string()));
        }
        let rate = limit.rate_kbps;
        if rate == 0 && limit.shapes_bursts() {
            return Err(Error::invalid(op, "burst or packet size without a rate")
                .fact("max_burst", limit.max_burst)
                .fact("typical_packet", limit.typical_packet));
        }
        if limit.shapes_bursts() && !self.burst {
            return Err(Error::new(op, ErrorKind::Unsupported)
                .fact("device_lacks", "bounds of bursts")
                .hint("leave max_burst and typical_packet at 0"));
        }
        if rate != 0 && !(self.min_rate..=self.max_rate).contains(&rate) {
            return Err(Error::new(op, ErrorKind::LimitExceeded)
                .fact("rate_kbps", rate)
                .fact("min", self.min_rate)
                .fact("max", self.max_rate));
        }
        Ok(())
    }
}

impl fmt::Display for QpTypes {
    /// Their names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for raw in (0..32).filter(|raw| self.bits() & 1 << raw != 0) {
            let comma = if first { "" } else { ", " };
            write!(f, "{comma}{}", QpType::from_raw(raw))?;
            first = false;
        }
        if first {
            f.write_str("none")?;
        }
        Ok(())
    }
}

/// `ibv_modify_qp_rate_limit`—sets the send rate of a queue pair.
///
/// One system call; it waits for the firmware.
///
/// # Errors
/// As [`PacingCaps::check`], detected before the system call. EINVAL: the queue pair is not ready
/// to send; only newer kernels store a rate that is set earlier, until it is. EOPNOTSUPP: the
/// kernel does not support the attribute. ENOMEM, ENOSPC: the device's table of rates is full.
#[doc(alias = "ibv_modify_qp_rate_limit")]
#[doc(hidden)] // Users have no such handle: the facade calls it.
pub fn modify_rate_limit(
    qp: &Object,
    kind: QpType,
    state: QpState,
    caps: &PacingCaps,
    limit: &RateLimit,
) -> Result<()> {
    caps.check(limit, kind)?;
    let attr = QpAttr::new().rate_limit_kbps(limit.rate_kbps);
    let driver_data = mlx5_ib_modify_qp {
        burst_info: mlx5_ib_burst_info {
            max_burst_sz: limit.max_burst,
            typical_pkt_sz: limit.typical_packet,
            reserved: 0,
        },
        ..mlx5_ib_modify_qp::default()
    };
    let uhw = Uhw::new(driver_data.as_bytes(), &[]);
    cmd::qp::modify(qp.file(), qp.handle(), &attr, &uhw).map_err(|error| {
        let error = match error.errno() {
            Some(Errno::INVAL) if state != QpState::ReadyToSend => {
                error.hint("set the rate once the queue pair is ready to send")
            }
            _ => error,
        };
        error
            .with_op(Op::ModifyRateLimit)
            .fact("type", kind.to_string())
            .fact("state", state.to_string())
            .fact("rate_kbps", limit.rate_kbps)
            .fact("max_burst", limit.max_burst)
            .fact("typical_packet", limit.typical_packet)
    })
}

/// `mlx5dv_pp`—a rate in the device's table, for queues created by DEVX commands.
#[doc(alias = "mlx5dv_pp")]
#[derive(Debug)]
pub struct PacingEntry {
    object: Object,
    index: u16,
}

static KIND: Kind = Kind {
    name: "PacingEntry",
    op: Op::FreePacing,
    object: MLX5_IB_OBJECT_PP,
    method: MLX5_IB_METHOD_PP_OBJ_DESTROY,
    attr: MLX5_IB_ATTR_PP_OBJ_DESTROY_HANDLE,
    counts: Counts::None,
    legacy: Legacy::None,
};

impl Devx {
    /// `mlx5dv_pp_alloc`—allocates an entry of the device's table of rates. Contexts that use the
    /// same rate share an entry, unless `dedicated`.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// EOPNOTSUPP, EPROTONOSUPPORT: the device does not support pacing for user contexts. EINVAL:
    /// no DEVX in this context, or a rate outside the device's limits. ENOSPC: no entry is left.
    #[doc(alias = "mlx5dv_pp_alloc")]
    pub fn pace(&self, limit: &RateLimit, dedicated: bool) -> Result<PacingEntry> {
        let op = Op::AllocPacing;
        let context = rate_context(limit.rate_kbps, limit.max_burst, limit.typical_packet);
        let flags = if dedicated {
            MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX
        } else {
            0
        };
        let handle = new_object_slot();
        let mut index = 0_u16;
        let file = self.file();
        file.ioctl_only(op, || {
            let attrs = [
                Attr::new_object(MLX5_IB_ATTR_PP_OBJ_ALLOC_HANDLE, &handle),
                Attr::input(MLX5_IB_ATTR_PP_OBJ_ALLOC_CTX, &context),
                Attr::constant(MLX5_IB_ATTR_PP_OBJ_ALLOC_FLAGS, flags),
                Attr::output(MLX5_IB_ATTR_PP_OBJ_ALLOC_INDEX, cells(&mut index)),
            ];
            file.ioctl(
                op,
                MLX5_IB_OBJECT_PP,
                MLX5_IB_METHOD_PP_OBJ_ALLOC,
                &attrs,
                &Uhw::NONE,
            )
        })
        .map_err(|error| explain(error, limit))?;
        let handle = new_object_handle(op, &handle)?;
        Ok(PacingEntry {
            object: Object::new(file, &KIND, handle, []),
            index,
        })
    }
}

fn explain(error: Error, limit: &RateLimit) -> Error {
    let error = error
        .fact("rate_kbps", limit.rate_kbps)
        .fact("max_burst", limit.max_burst)
        .fact("typical_packet", limit.typical_packet);
    match error.errno() {
        Some(Errno::PROTONOSUPPORT | Errno::OPNOTSUPP) => {
            error.hint("the device does not pace for user contexts")
        }
        _ => error,
    }
}

impl PacingEntry {
    /// Its index in the table, for commands that create queues.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// `mlx5dv_pp_free`—frees the entry. Dropping it does the same.
    ///
    /// # Errors
    /// The kernel's errno.
    #[doc(alias = "mlx5dv_pp_free")]
    pub fn free(self) -> Result<()> {
        self.object.destroy().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_ATTR_UHW_IN;
    use zerocopy::FromBytes as _;

    use super::*;
    use crate::tests::scripted::Scripted;

    const CAPS: PacingCaps = PacingCaps {
        min_rate: 1000,
        max_rate: 100_000,
        qp_types: QpTypes::from_bits(1 << 8),
        burst: true,
    };

    fn refusal(caps: &PacingCaps, limit: RateLimit, kind: QpType) -> String {
        caps.check(&limit, kind).unwrap_err().to_string()
    }

    #[test]
    fn limits_are_known_before_the_call() {
        let raw = |limit| refusal(&CAPS, limit, QpType::RawPacket);
        assert_eq!(
            raw(RateLimit::kbps(999)),
            "modify_qp_rate_limit: limit exceeded (rate_kbps 999, min 1000, max 100000)"
        );
        assert!(raw(RateLimit::kbps(100_001)).contains("max 100000"));
        assert!(raw(RateLimit::UNLIMITED.max_burst(1)).contains("without a rate"));
        for limit in [
            RateLimit::UNLIMITED,
            RateLimit::kbps(1000),
            RateLimit::kbps(100_000).max_burst(1).typical_packet(1500),
        ] {
            CAPS.check(&limit, QpType::RawPacket).unwrap();
        }
    }

    #[test]
    fn unsupported_and_invalid_are_distinguished() {
        let kind =
            |caps: &PacingCaps, limit: RateLimit, of| caps.check(&limit, of).unwrap_err().kind();
        let rate = RateLimit::kbps(2000);
        assert_eq!(
            kind(&PacingCaps::default(), rate, QpType::RawPacket),
            ErrorKind::Unsupported
        );
        assert_eq!(kind(&CAPS, rate, QpType::Rc), ErrorKind::Unsupported);
        assert!(refusal(&CAPS, rate, QpType::Rc).contains("types_with_rate raw packet"));
        let plain = PacingCaps {
            burst: false,
            ..CAPS
        };
        assert_eq!(
            kind(&plain, rate.max_burst(1), QpType::RawPacket),
            ErrorKind::Unsupported
        );
        assert_eq!(
            kind(
                &CAPS,
                RateLimit::UNLIMITED.typical_packet(9),
                QpType::RawPacket
            ),
            ErrorKind::InvalidInput
        );
        assert!(
            !CAPS.qp_types.contains(QpType::Driver),
            "a shift beyond the mask"
        );
    }

    #[test]
    fn entries_have_an_index() {
        let (kernel, file) = Scripted::new();
        kernel.answer(MLX5_IB_ATTR_PP_OBJ_ALLOC_INDEX, &0x17_u16.to_ne_bytes());
        let limit = RateLimit::kbps(5000).max_burst(9).typical_packet(7);
        let devx = Devx::new(&file);
        let entry = devx.pace(&limit, true).unwrap();
        assert_eq!(entry.index(), 0x17);
        let [context] =
            <[_; 1]>::try_from(kernel.take_inputs(MLX5_IB_ATTR_PP_OBJ_ALLOC_CTX)).unwrap();
        assert_eq!(context, rate_context(5000, 9, 7));
        let [call] = <[_; 1]>::try_from(kernel.take_calls()).unwrap();
        assert!(call.contains("const=0x1"), "dedicated: {call}");
        entry.free().unwrap();
        drop(devx.pace(&limit, false).unwrap());
        let calls = kernel.take_calls();
        assert!(calls[1].contains("const=0x0"), "{calls:?}");
        assert_eq!(calls.len(), 3, "each is freed");
        for (errno, hint) in [(Errno::OPNOTSUPP, true), (Errno::NOSPC, false)] {
            kernel.accept();
            kernel.refuse("", errno);
            let error = devx.pace(&limit, false).unwrap_err();
            assert_eq!(error.known_hint().is_some(), hint, "{error}");
            assert!(error.to_string().contains("rate_kbps 5000"), "{error}");
        }
    }

    #[test]
    fn a_rate_is_requested_with_its_bursts() {
        let (kernel, file) = Scripted::new();
        let qp = Object::new(&file, &cmd::qp::KIND, 3, []);
        let limit = RateLimit::kbps(5000).max_burst(9).typical_packet(7);
        let set = |limit: &RateLimit, state| {
            modify_rate_limit(&qp, QpType::RawPacket, state, &CAPS, limit)
        };
        set(&limit, QpState::ReadyToSend).unwrap();
        let inputs = kernel.take_inputs(UVERBS_ATTR_UHW_IN);
        let told = mlx5_ib_modify_qp::read_from_bytes(inputs.last().unwrap()).unwrap();
        let bursts = told.burst_info;
        assert_eq!((bursts.max_burst_sz, bursts.typical_pkt_sz), (9, 7));
        kernel.take_calls();
        assert!(set(&RateLimit::kbps(1), QpState::ReadyToSend).is_err());
        assert_eq!(kernel.take_calls(), [""; 0]);
        kernel.refuse("", Errno::INVAL);
        let early = set(&limit, QpState::Init).unwrap_err();
        assert_eq!(early.op(), Op::ModifyRateLimit);
        assert!(
            early.known_hint().unwrap().contains("ready to send"),
            "{early}"
        );
        assert!(early.to_string().contains("typical_packet 7"), "{early}");
        let other = set(&limit, QpState::ReadyToSend).unwrap_err();
        let hint = other.known_hint().unwrap_or_default();
        assert!(!hint.contains("ready to send"), "{other}");
    }
}

//! Timers, retry counters and packet sequence numbers of a queue pair.

use std::{fmt, time::Duration};

use super::OutOfRange;

/// A number that fills a narrow field of a packet or a queue pair.
macro_rules! field {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident: $repr:ty, $bits:literal bits, $what:literal, by $make:ident;
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        $vis struct $name($repr);

        impl $name {
            /// The largest value the field holds.
            pub const MAX: Self = Self((1 << $bits) - 1);

            /// The field with this value.
            ///
            /// # Errors
            /// [`OutOfRange`] if the value does not fit.
            pub const fn $make(value: $repr) -> Result<Self, OutOfRange> {
                if value > Self::MAX.0 {
                    return Err(OutOfRange::new($what, value as u64, Self::MAX.0 as u64));
                }
                Ok(Self(value))
            }

            /// The value as the kernel or a packet holds it: bits above the field are dropped.
            pub const fn from_raw(raw: $repr) -> Self {
                Self(raw & Self::MAX.0)
            }

            /// The number in the field.
            pub const fn raw(self) -> $repr {
                self.0
            }
        }

        impl TryFrom<$repr> for $name {
            type Error = OutOfRange;

            fn try_from(value: $repr) -> Result<Self, OutOfRange> {
                Self::$make(value)
            }
        }

        impl From<$name> for $repr {
            fn from(field: $name) -> Self {
                field.0
            }
        }
    };
}
pub(super) use field;

field! {
    /// How long a reliable queue pair waits for an acknowledgement before it retransmits: 4.096 µs
    /// · 2ⁿ; 0 means without limit.
    ///
    /// The device may wait up to four times as long (IBTA volume 1), and many devices enforce a
    /// minimum of their own. Default: 14 (67.1 ms). Used by RC and XRC queue pairs.
    #[doc(alias = "IBV_QP_TIMEOUT")]
    pub struct AckTimeout: u8, 5 bits, "acknowledgement timeout code", by code;
}

impl AckTimeout {
    /// 4, 65.536 µs: the default of the `ibverbs` crate. Shorter than the time many switches and
    /// emulated machines need, so requests that were not lost are sent again, and `retry_count` of
    /// that fail the queue pair.
    pub const IBVERBS_CRATE: Self = Self(4);

    /// Never retransmit: a lost packet stalls the queue pair without an error. For debugging.
    pub const INFINITE: Self = Self(0);

    /// The smallest code that waits at least `duration`.
    ///
    /// Never fails: anything up to 8.192 µs, zero included, gives 1, the shortest wait; anything
    /// above 8796.09 s, [`Duration::MAX`] included, gives [`AckTimeout::INFINITE`].
    pub const fn from_duration(duration: Duration) -> Self {
        let mut code = 1;
        while code <= Self::MAX.0 {
            if Self::nanos(code) as u128 >= duration.as_nanos() {
                return Self(code);
            }
            code += 1;
        }
        Self::INFINITE
    }

    /// The wait, or `None` if it never ends.
    pub const fn duration(self) -> Option<Duration> {
        if self.0 == 0 {
            None
        } else {
            Some(Duration::from_nanos(Self::nanos(self.0)))
        }
    }

    const fn nanos(code: u8) -> u64 {
        4096 << code
    }
}

impl Default for AckTimeout {
    /// 14, 67.1 ms: what `rdma_cm`, `perftest` and the `ibv_*_pingpong` programs use. It is longer
    /// than a congested network or a busy peer delays an answer.
    fn default() -> Self {
        Self(14)
    }
}

impl From<Duration> for AckTimeout {
    fn from(duration: Duration) -> Self {
        Self::from_duration(duration)
    }
}

impl fmt::Display for AckTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.duration() {
            Some(duration) => write!(f, "{duration:?}"),
            None => f.write_str("infinite"),
        }
    }
}

field! {
    /// How long the peer must wait before a retry when this side had no receive posted (RNR NAK):
    /// 0.01 ms to 655.36 ms.
    ///
    /// The code is a row of a table of IBTA volume 1, and code 0 is the longest wait. Default: 16
    /// (2.56 ms). Used by RC and XRC queue pairs.
    #[doc(alias = "IBV_QP_MIN_RNR_TIMER")]
    pub struct RnrTimer: u8, 5 bits, "RNR timer code", by code;
}

impl RnrTimer {
    /// Waits in units of 10 µs, by code.
    const TABLE: [u32; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
        1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];

    /// The longest wait, 655.36 ms: code 0.
    pub const LONGEST: Self = Self(0);

    /// The code of the shortest wait that is at least `duration`; zero gives 1 (0.01 ms).
    ///
    /// # Errors
    /// [`OutOfRange`], in microseconds, above 655.36 ms: no code waits that long.
    pub const fn from_duration(duration: Duration) -> Result<Self, OutOfRange> {
        let mut code = 1;
        while code <= Self::MAX.0 {
            if Self::nanos(code) as u128 >= duration.as_nanos() {
                return Ok(Self(code));
            }
            code += 1;
        }
        if Self::nanos(0) as u128 >= duration.as_nanos() {
            return Ok(Self::LONGEST);
        }
        let micros = duration.as_nanos().div_ceil(1_000);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "capped at u64::MAX just here"
        )]
        let requested = if micros > u64::MAX as u128 {
            u64::MAX
        } else {
            micros as u64
        };
        Err(OutOfRange::new(
            "RNR timer in microseconds",
            requested,
            Self::nanos(0) / 1_000,
        ))
    }

    /// The wait.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(Self::nanos(self.0))
    }

    const fn nanos(code: u8) -> u64 {
        Self::TABLE[code as usize & 31] as u64 * 10_000
    }
}

impl Default for RnrTimer {
    /// 16: 2.56 ms.
    fn default() -> Self {
        Self(16)
    }
}

impl TryFrom<Duration> for RnrTimer {
    type Error = OutOfRange;

    fn try_from(duration: Duration) -> Result<Self, OutOfRange> {
        Self::from_duration(duration)
    }
}

impl fmt::Display for RnrTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.duration())
    }
}

field! {
    /// How often a packet is retransmitted when no acknowledgement arrives, before the queue pair
    /// fails: 0 to 7.
    ///
    /// Default: 6. Used by RC and XRC initiator queue pairs.
    #[doc(alias = "IBV_QP_RETRY_CNT")]
    pub struct RetryCount: u8, 3 bits, "retry count", by new;
}

impl Default for RetryCount {
    /// 6.
    fn default() -> Self {
        Self(6)
    }
}

impl fmt::Display for RetryCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

field! {
    /// How often a message is retried when the peer has no receive posted: 0 to 6; 7 means without
    /// limit.
    ///
    /// Default: 6. Used by RC and XRC initiator queue pairs.
    #[doc(alias = "IBV_QP_RNR_RETRY")]
    pub struct RnrRetry: u8, 3 bits, "RNR retry count", by new;
}

impl RnrRetry {
    /// Retry without limit.
    pub const INFINITE: Self = Self(7);

    /// Whether the queue pair retries without limit.
    pub const fn is_infinite(self) -> bool {
        self.0 == Self::INFINITE.0
    }
}

impl Default for RnrRetry {
    /// 6.
    fn default() -> Self {
        Self(6)
    }
}

impl fmt::Display for RnrRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_infinite() {
            f.write_str("infinite")
        } else {
            fmt::Display::fmt(&self.0, f)
        }
    }
}

field! {
    /// Packet sequence number, 24 bits; it wraps. Default: 0.
    #[derive(Default)]
    pub struct Psn: u32, 24 bits, "packet sequence number", by new;
}

impl Psn {
    /// The sequence number `packets` later.
    #[must_use]
    pub const fn wrapping_add(self, packets: u32) -> Self {
        Self::from_raw(self.0.wrapping_add(packets))
    }

    /// How many packets after `earlier` this one comes, 0 to 2²⁴ − 1.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MAX.0
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

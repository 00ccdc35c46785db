//! The device's clock: a counter that timestamps completions, and the kernel's conversion of it to
//! time.
//!
//! Both are pages mapped for reading: a page of the device with the counter, and a page of the
//! kernel with the parameters of the conversion (`struct ib_uverbs_clock_info`), which it updates
//! every few seconds and when the clock is set.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::yield_now;

use uverbs_core::hw::Counter;
use uverbs_core::sys::{Mapping, Protection, page_size};
use uverbs_core::{Error, ErrorKind, Op, Result, UverbsFile};
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, MLX5_IB_CLOCK_INFO_V1, MLX5_IB_MMAP_CLOCK_INFO,
    MLX5_IB_MMAP_CORE_CLOCK,
};

use super::Context;
use crate::mmap;

/// How often a page is read again before the attempt fails: the first times at once, later ones
/// after yielding to other threads.
const SPINS: u32 = 100;
const TRIES: u32 = 1000;
/// How often the two halves of the counter are read; the upper half changes every few seconds.
const COUNTER_TRIES: u32 = 8;

/// What the kernel reported about the clock when the context was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockConfig {
    /// The offset of the counter in its page; `None`: there is no such page to map.
    pub(crate) counter: Option<u64>,
    /// One bit for each version of the conversion page (`MLX5_IB_CLOCK_INFO_*`).
    pub(crate) versions: u8,
    /// Completions can carry the time of day as kept by the device.
    pub(crate) real_time: bool,
}

/// The pages that have been mapped.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    counter: Mutex<Option<Arc<Counter>>>,
    conversion: Mutex<Option<Arc<Mapping>>>,
}

/// The clock of an opened device.
#[derive(Clone, Debug)]
pub struct Clock {
    counter: Option<Arc<Counter>>,
    conversion: Option<Arc<Mapping>>,
    khz: u64,
    file: Arc<UverbsFile>,
}

/// `mlx5dv_clock_info`—the conversion of counts of the clock to nanoseconds of the time of day,
/// until the kernel's next update.
#[doc(alias = "mlx5dv_clock_info")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClockInfo {
    /// The time when [`last_cycles`](Self::last_cycles) was read, in nanoseconds since 1970, by the
    /// kernel's clock of the device.
    pub nanoseconds: u64,
    /// The count at that time.
    pub last_cycles: u64,
    /// The part of a nanosecond that [`nanoseconds`](Self::nanoseconds) does not include, times 2
    /// to the power of [`shift`](Self::shift).
    pub fraction: u64,
    /// Nanoseconds per count, times 2 to the power of [`shift`](Self::shift).
    pub multiplier: u32,
    /// See [`multiplier`](Self::multiplier).
    pub shift: u32,
    /// The valid bits of a count.
    pub mask: u64,
    /// How often the kernel updates these numbers, in counts.
    pub overflow_period: u64,
}

impl ClockInfo {
    /// `mlx5dv_ts_to_ns`—the time of a count, in nanoseconds since 1970.
    ///
    /// Correct for counts up to half of [`mask`](Self::mask) before or after
    /// [`last_cycles`](Self::last_cycles): minutes with 41 bits at 1 GHz. Rounds as the kernel
    /// does; intermediate results do not overflow.
    ///
    /// ```
    /// use uverbs_mlx5::ClockInfo;
    ///
    /// let info = ClockInfo {
    ///     nanoseconds: 1_000_000,
    ///     last_cycles: 500,
    ///     multiplier: 3 << 20, // 3 ns each
    ///     shift: 20,
    ///     mask: (1 << 41) - 1,
    ///     ..ClockInfo::default()
    /// };
    /// assert_eq!(info.to_nanoseconds(510), 1_000_030);
    /// assert_eq!(info.to_nanoseconds(490), 999_970);
    /// ```
    #[doc(alias = "mlx5dv_ts_to_ns")]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a count of at most 64 bits times 32 bits, as many nanoseconds as 64 bits hold"
    )]
    pub const fn to_nanoseconds(&self, count: u64) -> u64 {
        let after = count.wrapping_sub(self.last_cycles) & self.mask;
        let shift = if self.shift < 64 { self.shift } else { 63 };
        let fraction = self.fraction as u128;
        if after > self.mask / 2 {
            let before = self.last_cycles.wrapping_sub(count) & self.mask;
            let ago = (before as u128 * self.multiplier as u128).saturating_sub(fraction);
            self.nanoseconds.wrapping_sub((ago >> shift) as u64)
        } else {
            let since = after as u128 * self.multiplier as u128 + fraction;
            self.nanoseconds.wrapping_add((since >> shift) as u64)
        }
    }

    /// Reads the page once, in words of 8 bytes; `None` while the kernel is writing it.
    fn read(word: impl Fn(usize) -> Option<u64>) -> Option<Self> {
        let sign = first(word(SIGN)?);
        if sign & MLX5_IB_CLOCK_INFO_KERNEL_UPDATING != 0 {
            return None;
        }
        // The fields are read after the sequence number, and the sequence number again after the
        // fields.
        fence(Ordering::Acquire);
        let scale = word(MULTIPLIER)?;
        let info = Self {
            nanoseconds: word(NANOSECONDS)?,
            last_cycles: word(CYCLES)?,
            fraction: word(FRACTION)?,
            multiplier: first(scale),
            shift: second(scale),
            mask: word(MASK)?,
            overflow_period: word(OVERFLOW_PERIOD)?,
        };
        fence(Ordering::Acquire);
        (first(word(SIGN)?) == sign).then_some(info)
    }
}

/// The first 4 bytes of a word, in memory order.
const fn first(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// The last 4 bytes of a word, in memory order.
const fn second(word: u64) -> u32 {
    let [.., a, b, c, d] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// The time of day from a timestamp of a device that keeps the time itself: seconds, and
/// nanoseconds of the second.
pub(crate) fn of_day(stamp: u64) -> u64 {
    (stamp >> 32)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(stamp & 0xffff_ffff)
}

// Offsets in `struct ib_uverbs_clock_info`. The sequence number is the first half of its word;
// multiplier and shift share a word.
const SIGN: usize = 0;
const NANOSECONDS: usize = 8;
const CYCLES: usize = 16;
const FRACTION: usize = 24;
const MULTIPLIER: usize = 32;
const MASK: usize = 40;
const OVERFLOW_PERIOD: usize = 48;

impl Context {
    /// The clock. Two system calls the first time, which map its pages; none afterwards.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device has no clock that can be mapped; those
    /// of mapping.
    pub fn clock(&self) -> Result<Clock> {
        let op = Op::MapClock;
        self.file().check_process(op)?;
        let config = self.config().clock;
        let counter = match config.counter {
            // Larger pages contain registers that a process must not access: the kernel does not
            // map them.
            Some(offset) => supported(self.counter(op, offset))?,
            None => None,
        };
        let conversion = if config.versions >> MLX5_IB_CLOCK_INFO_V1 & 1 != 0 {
            supported(self.conversion())?
        } else {
            None
        };
        if counter.is_none() && conversion.is_none() {
            return Err(Error::new(op, ErrorKind::Unsupported));
        }
        Ok(Clock {
            counter,
            conversion,
            khz: self.device().hca_core_clock_khz,
            file: Arc::clone(self.file()),
        })
    }

    fn counter(&self, op: Op, offset: u64) -> Result<Arc<Counter>> {
        known(&self.clocks().counter, || {
            let page = self.clock_page(MLX5_IB_MMAP_CORE_CLOCK, 0)?;
            let place = usize::try_from(offset).unwrap_or(0) & (page_size() - 1);
            Counter::new(page, place).ok_or_else(|| Error::bad_reply(op, "place of the register"))
        })
    }

    fn conversion(&self) -> Result<Arc<Mapping>> {
        known(&self.clocks().conversion, || {
            self.clock_page(MLX5_IB_MMAP_CLOCK_INFO, MLX5_IB_CLOCK_INFO_V1)
        })
    }

    fn clock_page(&self, command: u32, index: u32) -> Result<Mapping> {
        let offset = mmap::offset(command, index);
        self.file().map(offset, page_size(), Protection::Read)
    }
}

/// The existing value, or a new one.
fn known<T>(place: &Mutex<Option<Arc<T>>>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    let mut known = place.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known {
        return Ok(Arc::clone(known));
    }
    let new = Arc::new(make()?);
    *known = Some(Arc::clone(&new));
    Ok(new)
}

/// `None` for a page that the kernel does not map.
fn supported<T>(page: Result<T>) -> Result<Option<T>> {
    match page {
        Ok(page) => Ok(Some(page)),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Clock {
    /// The clock's frequency in kHz, as reported by the kernel.
    pub fn frequency_khz(&self) -> u64 {
        self.khz
    }

    /// `ibv_query_rt_values_ex`—the clock's current count: the timestamp of a completion that
    /// happens now. No system call; two or three reads of the device's registers, about a
    /// microsecond.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where the kernel does not map the register (machines
    /// with pages above 4 KiB); [`Forked`](ErrorKind::Forked) in a child process.
    #[doc(alias = "ibv_query_rt_values_ex")]
    pub fn count(&self) -> Result<u64> {
        let op = Op::ReadClock;
        self.file.check_process(op)?;
        let counter = self.counter.as_ref();
        let counter =
            counter.ok_or_else(|| Error::new(op, ErrorKind::Unsupported).hint("no register"))?;
        counter.read(COUNTER_TRIES).ok_or_else(|| {
            Error::new(op, ErrorKind::Busy).hint("the register changed during every read")
        })
    }

    /// `mlx5dv_get_clock_info`—the current conversion of counts to time. No system call, unless the
    /// kernel's update takes long: then the thread yields the processor.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) where the kernel has no such page;
    /// [`Busy`](ErrorKind::Busy) if the kernel was writing it at every attempt;
    /// [`Forked`](ErrorKind::Forked) in a child process.
    #[doc(alias = "mlx5dv_get_clock_info")]
    pub fn info(&self) -> Result<ClockInfo> {
        let op = Op::ReadClock;
        self.file.check_process(op)?;
        let page = self.conversion.as_ref();
        let page = page.ok_or_else(|| {
            Error::new(op, ErrorKind::Unsupported)
                .hint("the kernel does not convert its counts to time")
        })?;
        for attempt in 0..TRIES {
            if let Some(info) = ClockInfo::read(|at| page.load(at)) {
                return Ok(info);
            }
            if attempt < SPINS {
                std::hint::spin_loop();
            } else {
                yield_now();
            }
        }
        Err(Error::new(op, ErrorKind::Busy)
            .hint("the kernel was writing its page at every attempt"))
    }
}

#[cfg(test)]
mod tests;

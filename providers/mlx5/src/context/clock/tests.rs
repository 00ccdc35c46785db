use proptest::prelude::*;
use uverbs_core::hw::Pages;

use super::*;

/// 1 GHz with 41 bits, with the parameters that the kernel would choose.
const INFO: ClockInfo = ClockInfo {
    nanoseconds: 1_790_000_000_000_000_000,
    last_cycles: 0x1ff_ffff_fff0,
    fraction: 0,
    multiplier: 1 << 22,
    shift: 22,
    mask: (1 << 41) - 1,
    overflow_period: 1 << 39,
};

#[test]
fn counts_wrap_in_their_bits() {
    assert_eq!(INFO.to_nanoseconds(INFO.last_cycles), INFO.nanoseconds);
    assert_eq!(INFO.to_nanoseconds(5), INFO.nanoseconds + 21);
    assert_eq!(
        INFO.to_nanoseconds(INFO.last_cycles - 7),
        INFO.nanoseconds - 7
    );
    // Bits above the mask have no meaning.
    assert_eq!(INFO.to_nanoseconds(5 | 7 << 41), INFO.nanoseconds + 21);
}

#[test]
fn a_fraction_counts_and_nothing_overflows() {
    let info = ClockInfo {
        fraction: (1 << 22) - 1,
        multiplier: u32::MAX,
        shift: 22,
        mask: u64::MAX,
        last_cycles: 0,
        nanoseconds: 0,
        overflow_period: 0,
    };
    assert_eq!(info.to_nanoseconds(0), 0);
    assert_eq!(info.to_nanoseconds(1), 1024);
    // The product does not fit in 64 bits.
    assert_eq!(info.to_nanoseconds(1 << 40), u64::from(u32::MAX) << 18);
    // Nonsensical parameters from the kernel must not cause a panic.
    let nonsense = ClockInfo { shift: 200, ..info };
    let _ = nonsense.to_nanoseconds(u64::MAX / 2);
    assert_eq!(ClockInfo::default().to_nanoseconds(77), 0);
}

#[test]
fn a_device_that_keeps_the_time_of_day_writes_seconds_and_nanoseconds() {
    assert_eq!(of_day((3 << 32) + 999_999_999), 3_999_999_999);
    let _ = of_day(u64::MAX);
}

proptest! {
    #[test]
    fn to_nanoseconds_agrees_with_the_kernel(
        count in any::<u64>(), last in any::<u64>(), mult in 1_u32..1 << 24, fraction in 0_u64..1 << 20,
    ) {
        let info = ClockInfo {
            nanoseconds: 1 << 60,
            last_cycles: last,
            fraction,
            multiplier: mult,
            shift: 20,
            mask: (1 << 40) - 1,
            overflow_period: 0,
        };
        // `timecounter_cyc2time`, whose 64 bits suffice for these values.
        let after = count.wrapping_sub(last) & info.mask;
        let expected = if after > info.mask / 2 {
            let before = last.wrapping_sub(count) & info.mask;
            info.nanoseconds - ((before * u64::from(mult) - fraction) >> 20)
        } else {
            info.nanoseconds + ((after * u64::from(mult) + fraction) >> 20)
        };
        prop_assert_eq!(info.to_nanoseconds(count), expected);
    }
}

/// A page as the kernel writes it, with all fields derived from one number.
fn write(pages: &Pages, turn: u32) {
    let sign = turn * 2;
    pages.store_u32(SIGN, sign | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
    fence(Ordering::SeqCst);
    for place in [NANOSECONDS, CYCLES, FRACTION, MASK, OVERFLOW_PERIOD] {
        pages.store(place, u64::from(turn), Ordering::Relaxed);
    }
    pages.store_u32(MULTIPLIER, turn);
    pages.store_u32(MULTIPLIER + 4, turn);
    fence(Ordering::SeqCst);
    pages.store_u32(SIGN, sign + 2);
}

#[test]
fn a_page_is_read_whole_or_not_at_all() {
    let pages = Pages::new(4096).unwrap();
    pages.store_u32(SIGN, MLX5_IB_CLOCK_INFO_KERNEL_UPDATING);
    let word = |at| pages.load(at, Ordering::Relaxed);
    assert_eq!(ClockInfo::read(word), None);
    write(&pages, 1);
    let turns = if cfg!(miri) { 50 } else { 20_000 };
    std::thread::scope(|scope| {
        scope.spawn(|| (2..turns).for_each(|turn| write(&pages, turn)));
        let mut seen = 0;
        while seen < turns - 1 {
            let Some(info) = ClockInfo::read(word) else {
                continue;
            };
            let fields = [
                info.last_cycles,
                info.fraction,
                info.mask,
                info.overflow_period,
                info.multiplier.into(),
                info.shift.into(),
            ];
            assert_eq!(fields, [info.nanoseconds; 6]);
            assert!(info.nanoseconds >= seen.into());
            seen = u32::try_from(info.nanoseconds).unwrap();
        }
    });
}
